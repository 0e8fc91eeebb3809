// Reading the device's memory over the bus.
#pragma once

#include <cstddef>

namespace vkdml {

// The processor's loads, by the bytes that each takes.
enum class MappedLoad { plain = 0, half_line = 32, line = 64 };

MappedLoad widest_mapped_load(); // that this processor has

// Like memcpy, from memory of MemoryKind::mapped. The processor does not cache such memory, so that usual
// loads wait for the bus one by one; loads for streaming are under way together, each for a line of 64 bytes.
// So up to 63 bytes before the source and after its end are read, too, within lines in which it has bytes.
void read_mapped(void* target, const void* source, size_t bytes, MappedLoad load);

// The most bytes that are read so in less time than the device takes to copy them to the host's memory.
size_t most_mapped_read(MappedLoad load);

} // namespace vkdml
