// Times cub::DeviceReduce::ArgMax. Reads lines "ELEMENT COUNT READINGS WARM_SECONDS"; for each it writes one line of
// JSON: {"us": [...]} in microseconds by CUDA events, or {"why": "..."}.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct DeviceMemory {
    explicit DeviceMemory(size_t bytes) { check(cudaMalloc(&data, bytes ? bytes : 1)); }
    ~DeviceMemory() { cudaFree(data); }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    void* data = nullptr;
};

__global__ void fill_random(uint32_t* words, size_t count) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull; // splitmix64
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        words[i] = uint32_t(z ^ (z >> 31));
    }
}

// Keeps the device busy while the host queues what is timed.
__global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}

template <typename Element>
std::string time_argmax(size_t count, int readings, double warm_seconds) {
    const size_t words = (count * sizeof(Element) + 3) / 4;
    DeviceMemory input(words * 4), extremum(sizeof(Element)), index(sizeof(int64_t));
    fill_random<<<4096, 256>>>(static_cast<uint32_t*>(input.data), words);
    check(cudaGetLastError());

    size_t temporary_bytes = 0;
    auto run = [&](void* temporary) {
        check(cub::DeviceReduce::ArgMax(temporary, temporary_bytes, static_cast<const Element*>(input.data),
                                        static_cast<Element*>(extremum.data), static_cast<int64_t*>(index.data),
                                        int64_t(count)));
    };
    run(nullptr);
    DeviceMemory temporary(temporary_bytes);

    using Clock = std::chrono::steady_clock;
    const auto warm_until = Clock::now() + std::chrono::duration<double>(warm_seconds);
    do {
        run(temporary.data);
        check(cudaDeviceSynchronize());
    } while (Clock::now() < warm_until);

    std::vector<cudaEvent_t> events(2 * readings);
    for (auto& event : events) check(cudaEventCreate(&event));
    spin<<<1, 1>>>(10'000'000);
    for (int i = 0; i < readings; i++) {
        check(cudaEventRecord(events[2 * i]));
        run(temporary.data);
        check(cudaEventRecord(events[2 * i + 1]));
    }
    check(cudaDeviceSynchronize());
    std::ostringstream line;
    line << "{\"us\": [";
    for (int i = 0; i < readings; i++) {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, events[2 * i], events[2 * i + 1]));
        line << (i ? ", " : "") << milliseconds * 1e3;
    }
    for (auto event : events) cudaEventDestroy(event);
    line << "]}";
    return line.str();
}

std::string answer(const std::string& element, size_t count, int readings, double warm_seconds) {
    if (element == "float32") return time_argmax<float>(count, readings, warm_seconds);
    if (element == "float64") return time_argmax<double>(count, readings, warm_seconds);
#ifndef WITHOUT_HALVES
    if (element == "float16") return time_argmax<__half>(count, readings, warm_seconds);
    if (element == "bfloat16") return time_argmax<__nv_bfloat16>(count, readings, warm_seconds);
#endif
    if (element == "int64") return time_argmax<int64_t>(count, readings, warm_seconds);
    if (element == "int32") return time_argmax<int32_t>(count, readings, warm_seconds);
    if (element == "int16") return time_argmax<int16_t>(count, readings, warm_seconds);
    if (element == "int8") return time_argmax<int8_t>(count, readings, warm_seconds);
    if (element == "uint64") return time_argmax<uint64_t>(count, readings, warm_seconds);
    if (element == "uint32") return time_argmax<uint32_t>(count, readings, warm_seconds);
    if (element == "uint16") return time_argmax<uint16_t>(count, readings, warm_seconds);
    if (element == "uint8") return time_argmax<uint8_t>(count, readings, warm_seconds);
    return "{\"why\": \"has no " + element + "\"}";
}

} // namespace

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string element;
        size_t count = 0;
        int readings = 0;
        double warm_seconds = 0;
        words >> element >> count >> readings >> warm_seconds;
        try {
            std::cout << answer(element, count, readings, warm_seconds) << std::endl;
        } catch (const std::exception& error) {
            std::cout << "{\"why\": \"" << error.what() << "\"}" << std::endl;
        }
    }
    return 0;
}
