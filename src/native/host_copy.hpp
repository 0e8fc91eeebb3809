// Copying in host memory faster than one processor core can.
#pragma once

#include <cstddef>

namespace vkdml {

// Like memcpy; large copies are divided among several threads.
void copy_in_host_memory(void* target, const void* source, size_t bytes);

} // namespace vkdml
