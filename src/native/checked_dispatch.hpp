// Every fallible Vulkan call passes here: Kompute ignores many results, so failures are remembered for it.
//
// Kompute and this module call Vulkan through Vulkan-Hpp's default dispatcher, which this module owns. The
// functions in it are replaced by checked ones, which know about the guard of the calling thread, about
// injected failures and about fork().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kompute/Core.hpp"

namespace vkdml {

// While one lives on a thread, the first failing call is remembered, later calls are not forwarded to the
// driver (they would be given null handles), and what was created is listed so that it can be freed.
class DispatchGuard {
public:
    DispatchGuard() : outer_(current()) { current() = this; }
    ~DispatchGuard() { current() = outer_; }
    DispatchGuard(const DispatchGuard&) = delete;
    DispatchGuard& operator=(const DispatchGuard&) = delete;

    static DispatchGuard*& current();

    // Lets calls through again, so that what was created can be freed; the failure stays readable.
    void release_calls() { blocking = false; }
    bool failed() const { return result < 0; }

    VkResult result = VK_SUCCESS;
    const char* failed_call = "";
    bool blocking = true;
    // What kp::Tensor is made to do differently while the guard lives.
    VkBufferUsageFlags extra_buffer_usage = 0;
    enum class Memory { any, cached_on_host, mapped_on_device } memory = Memory::any; // what it prefers
    VkExternalMemoryHandleTypeFlags exported_as = 0; // 0: the memory is not to be exported
    bool dedicated_memory = false;                   // an exported allocation serves its one buffer only
    void* imported_address = nullptr;                // of the host's memory, which is taken for the device's
    uint64_t imported_bytes = 0;
    uint32_t imported_type = 0;
    std::vector<VkBuffer> buffers;
    std::vector<VkDeviceMemory> memories;
    VkDeviceSize last_allocation = 0; // bytes

private:
    DispatchGuard* outer_;
};

// Replaces the dispatcher's functions by checked ones; called once, after the instance exists.
void install_checked_dispatch();

// Waits for what devices that were not destroyed still run. Called when the process ends, too.
void wait_for_live_devices();

// Test hook: the call number `countdown` (1 is the next) of those that can run out of memory, or of those to
// `function`, fails with `result` without reaching the driver; 0 injects nothing. Arming also zeroes the
// count.
void inject_failure(uint64_t countdown, VkResult result, const std::string& function);
// Calls of the kind that the last inject_failure() counts.
uint64_t fallible_calls();
// The name of the last call that failed by injection, empty when none did.
std::string injected_call();

// True in a process that was forked after Vulkan was in use: no call reaches the driver there.
bool in_forked_child();
void watch_for_fork();

bool is_out_of_memory(VkResult result);

} // namespace vkdml
