// The RAM that programs can still have, within the limits of the control groups that this process is in.
#pragma once

#include <cstdint>
#include <string>

namespace vkdml {

// Bytes, as the system tells them; as many as there can be if it does not. `root` is put before all paths.
uint64_t available_ram(const std::string& root = "");

} // namespace vkdml
