// Shares a copy out to threads that live as long as it does.
#include "host_copy.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace vkdml {
namespace {
// A core copies as much in 75 us, and a thread costs about 20.
constexpr size_t bytes_per_thread = 1 << 20;
// More of them gain nothing: memory is the limit.
constexpr size_t most_threads = 8;
constexpr size_t alignment = 64; // bytes in a cache line
} // namespace

void copy_in_host_memory(void* target, const void* source, size_t bytes) {
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t parts = std::clamp<size_t>(bytes / bytes_per_thread, 1, std::min(cores, most_threads));
    const size_t part = (bytes / parts + alignment) / alignment * alignment;
    auto copy = [=](size_t begin) {
        if (begin < bytes)
            memcpy(static_cast<char*>(target) + begin, static_cast<const char*>(source) + begin,
                   std::min(part, bytes - begin));
    };
    std::vector<std::thread> threads;
    size_t begin = part;
    try {
        threads.reserve(parts);
        for (; begin < bytes; begin += part) threads.emplace_back(copy, begin);
    } catch (const std::exception&) { // no thread is to be had: this one does what is left
        for (size_t left = begin; left < bytes; left += part) copy(left);
    }
    copy(0);
    for (auto& thread : threads) thread.join();
}

} // namespace vkdml
