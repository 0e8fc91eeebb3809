// The checked functions that stand in Vulkan-Hpp's default dispatcher.
#include "checked_dispatch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <unistd.h>

VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

namespace vkdml {
namespace {

using Dispatcher = std::remove_reference_t<decltype(VULKAN_HPP_DEFAULT_DISPATCHER)>;

std::atomic<uint64_t> call_count{0};
std::atomic<uint64_t> failing_call{0};
std::atomic<VkResult> injected_result{VK_SUCCESS};
std::atomic<const char*> last_injected{""};
// Names are compared by address: this is one of `result_functions`, or null for all fallible ones.
std::atomic<const char*> only_function{nullptr};
std::vector<const char*> result_functions;
std::atomic<bool> forked{false};

// Whether this call is the one that a test wants to fail.
bool inject(const char* name, bool fallible) {
    const char* only = only_function.load(std::memory_order_relaxed);
    if (only ? only != name : !fallible) return false;
    uint64_t number = call_count.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number != failing_call.load(std::memory_order_relaxed)) return false;
    last_injected = name;
    return true;
}

enum class Fallible { no, yes };

template <auto Member> struct Checked;
template <class Result, class... Args, Result (VKAPI_PTR* Dispatcher::*Member)(Args...)>
struct Checked<Member> {
    using Function = Result(VKAPI_PTR*)(Args...);
    static inline Function driver = nullptr;
    static inline const char* name = "";
    static inline Fallible fallible = Fallible::no;

    static Result VKAPI_CALL call(Args... args) {
        DispatchGuard* guard = DispatchGuard::current();
        bool blocked = in_forked_child() || (guard && guard->failed() && guard->blocking);
        if constexpr (std::is_void_v<Result>) {
            if (!blocked) driver(args...);
        } else {
            if (blocked) return guard && guard->failed() ? guard->result : VK_ERROR_INITIALIZATION_FAILED;
            bool injected = inject(name, fallible == Fallible::yes);
            Result result = injected ? injected_result.load() : driver(args...);
            if (guard && result < 0 && !guard->failed()) {
                guard->result = result;
                guard->failed_call = name;
            }
            return result;
        }
    }

    static void install(const char* function_name, Fallible can_fail, Function replacement = &call) {
        Dispatcher& dispatcher = VULKAN_HPP_DEFAULT_DISPATCHER;
        driver = dispatcher.*Member;
        name = function_name;
        fallible = can_fail;
        if constexpr (!std::is_void_v<Result>) result_functions.push_back(name);
        dispatcher.*Member = replacement;
    }
};

using CreateBuffer = Checked<&Dispatcher::vkCreateBuffer>;
using AllocateMemory = Checked<&Dispatcher::vkAllocateMemory>;
using MemoryProperties = Checked<&Dispatcher::vkGetPhysicalDeviceMemoryProperties>;

VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                  const VkAllocationCallbacks* callbacks, VkBuffer* buffer) {
    DispatchGuard* guard = DispatchGuard::current();
    VkBufferCreateInfo changed = *info;
    if (guard) changed.usage |= guard->extra_buffer_usage;
    VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                              info->pNext, guard ? guard->exported_as : 0};
    if (guard && guard->imported_address)
        external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    if (external.handleTypes) changed.pNext = &external;
    VkResult result = CreateBuffer::call(device, &changed, callbacks, buffer);
    if (guard && result == VK_SUCCESS) guard->buffers.push_back(*buffer);
    return result;
}

VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                    const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    DispatchGuard* guard = DispatchGuard::current();
    VkMemoryAllocateInfo changed = *info;
    VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, changed.pNext,
                                        guard ? guard->exported_as : 0};
    if (exported.handleTypes) changed.pNext = &exported;
    VkMemoryDedicatedAllocateInfo dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, changed.pNext,
                                            VK_NULL_HANDLE, VK_NULL_HANDLE};
    if (exported.handleTypes && guard->dedicated_memory && !guard->buffers.empty()) {
        dedicated.buffer = guard->buffers.back();
        changed.pNext = &dedicated;
    }
    VkImportMemoryHostPointerInfoEXT imported{
        VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, changed.pNext,
        VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, guard ? guard->imported_address : nullptr};
    if (imported.pHostPointer) {
        changed.pNext = &imported;
        changed.allocationSize = guard->imported_bytes;
        changed.memoryTypeIndex = guard->imported_type;
    }
    VkResult result = AllocateMemory::call(device, &changed, callbacks, memory);
    if (guard && result == VK_SUCCESS) {
        guard->memories.push_back(*memory);
        guard->last_allocation = info->allocationSize;
    }
    return result;
}

using CreateDevice = Checked<&Dispatcher::vkCreateDevice>;
using DestroyDevice = Checked<&Dispatcher::vkDestroyDevice>;
using WaitIdle = Checked<&Dispatcher::vkDeviceWaitIdle>;

// Those that may have work to finish. Never destroyed: a thread may still be at work while the process ends.
struct LiveDevices {
    std::mutex mutex;
    std::set<VkDevice> handles;
};
LiveDevices& live_devices() {
    static auto* devices = new LiveDevices;
    return *devices;
}

// Drivers that only compile, without hardware, have none; some of them crash when they are waited for.
bool has_memory(VkPhysicalDevice device) {
    VkPhysicalDeviceMemoryProperties properties{};
    MemoryProperties::driver(device, &properties);
    return properties.memoryTypeCount > 0;
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                  const VkAllocationCallbacks* callbacks, VkDevice* device) {
    VkResult result = CreateDevice::call(physical, info, callbacks, device);
    if (result == VK_SUCCESS && has_memory(physical)) {
        std::lock_guard lock(live_devices().mutex);
        live_devices().handles.insert(*device);
    }
    return result;
}

void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* callbacks) {
    if (in_forked_child()) return;
    {
        std::lock_guard lock(live_devices().mutex);
        live_devices().handles.erase(device);
    }
    DestroyDevice::call(device, callbacks);
}

// kp::Tensor takes the first type that has a property. Hides the property of others than those that are
// wanted, while there is one: of host-visible coherent types those that are cached, since others are slow to
// read; of the device's those that can be mapped.
void VKAPI_CALL memory_properties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties* properties) {
    MemoryProperties::driver(device, properties);
    DispatchGuard* guard = DispatchGuard::current();
    if (!guard || guard->memory == DispatchGuard::Memory::any) return;
    const bool on_device = guard->memory == DispatchGuard::Memory::mapped_on_device;
    const VkMemoryPropertyFlags searched =
        on_device ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT : VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        (on_device ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT : VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    bool found = false;
    for (uint32_t i = 0; i < properties->memoryTypeCount; i++)
        found |= (properties->memoryTypes[i].propertyFlags & wanted) == wanted;
    for (uint32_t i = 0; found && i < properties->memoryTypeCount; i++)
        if ((properties->memoryTypes[i].propertyFlags & wanted) != wanted)
            properties->memoryTypes[i].propertyFlags &= ~searched;
}

} // namespace

DispatchGuard*& DispatchGuard::current() {
    static thread_local DispatchGuard* guard = nullptr;
    return guard;
}

// What a daemon thread, or an object that is never freed, has left running when the process ends: some
// drivers' own threads would crash in it once the driver's library has been torn down.
void wait_for_live_devices() {
    if (in_forked_child()) return;
    std::lock_guard lock(live_devices().mutex);
    for (VkDevice device : live_devices().handles) WaitIdle::driver(device);
}

void install_checked_dispatch() {
#define CHECKED(function, can_fail) Checked<&Dispatcher::function>::install(#function, Fallible::can_fail)
    CreateBuffer::install("vkCreateBuffer", Fallible::yes, create_buffer);
    AllocateMemory::install("vkAllocateMemory", Fallible::yes, allocate_memory);
    MemoryProperties::install("vkGetPhysicalDeviceMemoryProperties", Fallible::no, memory_properties);
    CreateDevice::install("vkCreateDevice", Fallible::yes, create_device);
    DestroyDevice::install("vkDestroyDevice", Fallible::no, destroy_device);
    CHECKED(vkBindBufferMemory, yes);
    CHECKED(vkMapMemory, yes);
    CHECKED(vkGetMemoryFdKHR, yes);
    CHECKED(vkGetMemoryHostPointerPropertiesEXT, yes);
    CHECKED(vkFlushMappedMemoryRanges, no);
    CHECKED(vkCreateBufferView, yes);
    CHECKED(vkCreateDescriptorPool, yes);
    CHECKED(vkCreateDescriptorSetLayout, yes);
    CHECKED(vkAllocateDescriptorSets, yes);
    CHECKED(vkCreateShaderModule, yes);
    CHECKED(vkCreatePipelineLayout, yes);
    CHECKED(vkCreateComputePipelines, yes);
    CHECKED(vkCreateCommandPool, yes);
    CHECKED(vkAllocateCommandBuffers, yes);
    CHECKED(vkBeginCommandBuffer, yes);
    CHECKED(vkEndCommandBuffer, yes);
    CHECKED(vkResetCommandPool, yes);
    CHECKED(vkCreateFence, yes);
    CHECKED(vkCreateEvent, yes);
    CHECKED(vkCreateQueryPool, yes);
    CHECKED(vkQueueSubmit, yes);
    CHECKED(vkResetFences, no);
    CHECKED(vkGetFenceStatus, no);
    CHECKED(vkWaitForFences, no);
    CHECKED(vkGetEventStatus, no);
    CHECKED(vkResetEvent, no);
    CHECKED(vkQueueWaitIdle, no);
    CHECKED(vkGetQueryPoolResults, no);
    CHECKED(vkDeviceWaitIdle, no);
    CHECKED(vkGetBufferMemoryRequirements, no);
    CHECKED(vkUpdateDescriptorSets, no);
    CHECKED(vkResetDescriptorPool, no);
    CHECKED(vkUnmapMemory, no);
    CHECKED(vkDestroyBuffer, no);
    CHECKED(vkFreeMemory, no);
    CHECKED(vkDestroyBufferView, no);
    CHECKED(vkDestroyDescriptorPool, no);
    CHECKED(vkDestroyDescriptorSetLayout, no);
    CHECKED(vkDestroyShaderModule, no);
    CHECKED(vkDestroyPipelineLayout, no);
    CHECKED(vkDestroyPipeline, no);
    CHECKED(vkDestroyCommandPool, no);
    CHECKED(vkDestroyFence, no);
    CHECKED(vkDestroyEvent, no);
    CHECKED(vkDestroyQueryPool, no);
#undef CHECKED
    // For a process that ends without ending Python. Drivers are loaded by now, so this runs before their own
    // ends, but not before that of what they make later.
    std::atexit(wait_for_live_devices);
}

void inject_failure(uint64_t countdown, VkResult result, const std::string& function) {
    const char* only = nullptr;
    if (!function.empty()) {
        auto found = std::find(result_functions.begin(), result_functions.end(), function);
        if (found == result_functions.end())
            throw std::invalid_argument("no failure can be injected into '" + function +
                                        "': accepted are the checked functions that return a VkResult, once "
                                        "a device was looked for");
        only = *found;
    }
    failing_call = 0;
    call_count = 0;
    only_function = only;
    last_injected = "";
    injected_result = result;
    failing_call = countdown;
}

uint64_t fallible_calls() { return call_count; }
std::string injected_call() { return last_injected.load(); }

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

// At the end of a forked child, drivers' libraries would tear down what belongs to the parent: some crash, or
// take the parent's device with them. So their exit handlers are left out; Python has ended by then.
void end_without_exit_handlers(int status, void*) {
    fflush(nullptr);
    _exit(status);
}

void watch_for_fork() {
    static std::once_flag once;
    std::call_once(once, [] {
        pthread_atfork(nullptr, nullptr, [] {
            forked = true;
            on_exit(end_without_exit_handlers, nullptr);
        });
    });
}

bool is_out_of_memory(VkResult result) {
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_FRAGMENTATION:
        return true;
    default:
        return false;
    }
}

} // namespace vkdml
