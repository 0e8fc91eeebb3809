// A Vulkan layer that makes a software driver look like a GPU with lower limits, and ends the process with
// exit code 97 when one of them is not kept. VKDML_EMULATED_* in the environment say what;
// tests/emulated_limits.py sets them.
//
// The driver beneath must have one type of memory, as lavapipe and SwiftShader do: what is shown as several
// is that one. Memory that is shown as not coherent is mapped to a copy, which only vkFlushMappedMemoryRanges
// and vkInvalidateMappedMemoryRanges bring in line with what the device sees.
//
// With VKDML_EMULATED_LEAVES_LATE the driver goes on reading commands that have set an event until the host
// submits more or waits until all is idle, which is when it can know that they are left.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static void violated(const char* format, ...) {
    va_list values;
    va_start(values, format);
    fputs("emulated limits: ", stderr);
    vfprintf(stderr, format, values);
    fputs("\n", stderr);
    fflush(NULL);
    va_end(values);
    _exit(97);
}

static uint64_t wanted(const char* name, uint64_t otherwise) {
    char variable[64];
    snprintf(variable, sizeof variable, "VKDML_EMULATED_%s", name);
    const char* value = getenv(variable);
    return value && *value ? strtoull(value, NULL, 0) : otherwise;
}

static int shows_memory(const char* kind) {
    const char* value = getenv("VKDML_EMULATED_MEMORY");
    return value && !strcmp(value, kind);
}

// ---- what lies beneath: one instance; the devices of one driver have the same functions ----

static PFN_vkGetInstanceProcAddr next_instance_function;
static PFN_vkGetDeviceProcAddr next_device_function;
static VkInstance the_instance;
static VkPhysicalDeviceLimits shown_limits;

#define BENEATH(name) static PFN_##name next_##name;

BENEATH(vkGetPhysicalDeviceProperties)
BENEATH(vkGetPhysicalDeviceProperties2)
BENEATH(vkGetPhysicalDeviceFeatures2)
BENEATH(vkGetPhysicalDeviceQueueFamilyProperties)
BENEATH(vkGetPhysicalDeviceMemoryProperties)
BENEATH(vkGetPhysicalDeviceMemoryProperties2)
BENEATH(vkEnumerateDeviceExtensionProperties)

// ---- what is shown ----

static int has_subgroups(void) { return wanted("SUBGROUPS", 1) != 0; }
static int has_timestamps(void) { return wanted("TIMESTAMPS", 1) != 0; }

static void lower(VkPhysicalDeviceProperties* properties) {
    VkPhysicalDeviceLimits* limits = &properties->limits;
    properties->deviceType = (VkPhysicalDeviceType)wanted("DEVICE_TYPE", properties->deviceType);
    limits->maxStorageBufferRange = MIN(limits->maxStorageBufferRange, wanted("STORAGE_RANGE", UINT32_MAX));
    limits->maxComputeSharedMemorySize =
        MIN(limits->maxComputeSharedMemorySize, wanted("SHARED_MEMORY", UINT32_MAX));
    limits->maxComputeWorkGroupInvocations =
        MIN(limits->maxComputeWorkGroupInvocations, wanted("INVOCATIONS", UINT32_MAX));
    for (int i = 0; i < 3; i++) {
        limits->maxComputeWorkGroupSize[i] =
            MIN(limits->maxComputeWorkGroupSize[i],
                MIN(limits->maxComputeWorkGroupInvocations, i == 2 ? 64 : UINT32_MAX));
        limits->maxComputeWorkGroupCount[i] =
            MIN(limits->maxComputeWorkGroupCount[i], wanted("WORKGROUPS", UINT32_MAX));
    }
    limits->minStorageBufferOffsetAlignment =
        MAX(limits->minStorageBufferOffsetAlignment, wanted("ALIGNMENT", 1));
    limits->nonCoherentAtomSize = MAX(limits->nonCoherentAtomSize, wanted("ALIGNMENT", 1));
    limits->maxPushConstantsSize = MIN(limits->maxPushConstantsSize, 128);
    limits->maxPerStageDescriptorStorageBuffers =
        MIN(limits->maxPerStageDescriptorStorageBuffers, wanted("STORAGE_BUFFERS", UINT32_MAX));
    limits->maxMemoryAllocationCount = MIN(limits->maxMemoryAllocationCount, 4096);
    if (!has_timestamps()) {
        limits->timestampComputeAndGraphics = VK_FALSE;
        limits->timestampPeriod = 0;
    }
    shown_limits = *limits;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device,
                                                 VkPhysicalDeviceProperties* properties) {
    next_vkGetPhysicalDeviceProperties(device, properties);
    lower(properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties_2(VkPhysicalDevice device,
                                                   VkPhysicalDeviceProperties2* properties) {
    next_vkGetPhysicalDeviceProperties2(device, properties);
    lower(&properties->properties);
    for (VkBaseOutStructure* next = properties->pNext; next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
            VkPhysicalDeviceMaintenance3Properties* shown = (void*)next;
            shown->maxMemoryAllocationSize =
                MIN(shown->maxMemoryAllocationSize, wanted("ALLOCATION", UINT64_MAX));
        } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES && !has_subgroups()) {
            VkPhysicalDeviceSubgroupProperties* shown = (void*)next;
            shown->subgroupSize = 1;
            shown->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL get_features_2(VkPhysicalDevice device,
                                                 VkPhysicalDeviceFeatures2* features) {
    next_vkGetPhysicalDeviceFeatures2(device, features);
    features->features.shaderInt64 = features->features.shaderInt16 = VK_FALSE;
    for (VkBaseOutStructure* next = features->pNext; next; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES &&
            !has_subgroups()) {
            VkPhysicalDeviceSubgroupSizeControlFeatures* shown = (void*)next;
            shown->subgroupSizeControl = shown->computeFullSubgroups = VK_FALSE;
        }
}

static VKAPI_ATTR void VKAPI_CALL get_queue_families(VkPhysicalDevice device, uint32_t* count,
                                                     VkQueueFamilyProperties* families) {
    next_vkGetPhysicalDeviceQueueFamilyProperties(device, count, families);
    for (uint32_t i = 0; families && i < *count; i++) {
        families[i].queueCount = 1;
        if (!has_timestamps()) families[i].timestampValidBits = 0;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL get_device_extensions(VkPhysicalDevice device, const char* layer,
                                                            uint32_t* count,
                                                            VkExtensionProperties* properties) {
    if (layer) return next_vkEnumerateDeviceExtensionProperties(device, layer, count, properties);
    uint32_t found = 0, kept = 0;
    VkResult result = next_vkEnumerateDeviceExtensionProperties(device, NULL, &found, NULL);
    if (result != VK_SUCCESS) return result;
    VkExtensionProperties* all = calloc(found + 1, sizeof *all);
    result = next_vkEnumerateDeviceExtensionProperties(device, NULL, &found, all);
    for (uint32_t i = 0; i < found; i++) {
        const char* name = all[i].extensionName;
        if (!strcmp(name, "VK_EXT_memory_budget")) continue; // of heaps that are not shown
        if (!strcmp(name, "VK_EXT_subgroup_size_control") && !has_subgroups()) continue;
        all[kept++] = all[i];
    }
    if (properties) {
        if (*count < kept) result = VK_INCOMPLETE;
        kept = MIN(*count, kept);
        memcpy(properties, all, kept * sizeof *all);
    }
    *count = kept;
    free(all);
    return result;
}

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
};
static VkMemoryPropertyFlags type_flags[VK_MAX_MEMORY_TYPES];
static uint32_t type_count;

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice device,
                                             VkPhysicalDeviceMemoryProperties* memory) {
    next_vkGetPhysicalDeviceMemoryProperties(device, memory);
    if (memory->memoryTypeCount != 1)
        violated("the driver has %u types of memory, not 1", memory->memoryTypeCount);
    const int apart = shows_memory("apart");
    if (apart || shows_memory("not coherent")) {
        // Memory of the device's own, which the host does not see; or all of it seen, the cached type not
        // coherent.
        const VkMemoryPropertyFlags apart_types[] = {LOCAL, VISIBLE | COHERENT, VISIBLE | COHERENT | CACHED};
        const VkMemoryPropertyFlags uncached[] = {LOCAL | VISIBLE | CACHED, LOCAL | VISIBLE | COHERENT,
                                                  LOCAL};
        memory->memoryTypeCount = 3;
        for (int i = 0; i < 3; i++) {
            memory->memoryTypes[i].propertyFlags = (apart ? apart_types : uncached)[i];
            memory->memoryTypes[i].heapIndex = apart && i > 0;
        }
        if (apart) {
            memory->memoryHeapCount = 2;
            memory->memoryHeaps[1] = memory->memoryHeaps[0];
            memory->memoryHeaps[1].flags = 0;
        }
    }
    type_count = memory->memoryTypeCount;
    for (uint32_t i = 0; i < type_count; i++) type_flags[i] = memory->memoryTypes[i].propertyFlags;
}

static VKAPI_ATTR void VKAPI_CALL get_memory_2(VkPhysicalDevice device,
                                               VkPhysicalDeviceMemoryProperties2* memory) {
    next_vkGetPhysicalDeviceMemoryProperties2(device, memory);
    get_memory(device, &memory->memoryProperties);
}

// ---- memory ----

BENEATH(vkAllocateMemory)
BENEATH(vkFreeMemory)
BENEATH(vkMapMemory)
BENEATH(vkUnmapMemory)
BENEATH(vkFlushMappedMemoryRanges)
BENEATH(vkInvalidateMappedMemoryRanges)
BENEATH(vkGetBufferMemoryRequirements)

typedef struct Allocation {
    VkDeviceMemory memory;
    VkDeviceSize size;
    VkMemoryPropertyFlags flags;
    char *seen, *copy; // by the device; by the host, where that is another
    struct Allocation* next;
} Allocation;
static Allocation* allocations;

static Allocation* allocation_of(VkDeviceMemory memory) {
    for (Allocation* found = allocations; found; found = found->next)
        if (found->memory == memory) return found;
    violated("memory that was never allocated");
    return NULL;
}

static VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice device, VkBuffer buffer,
                                                   VkMemoryRequirements* required) {
    next_vkGetBufferMemoryRequirements(device, buffer, required);
    required->memoryTypeBits = (1u << type_count) - 1;
    required->alignment = MAX(required->alignment, wanted("ALIGNMENT", 1));
    required->size = (required->size + required->alignment - 1) / required->alignment * required->alignment;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkDeviceMemory* memory) {
    if (info->memoryTypeIndex >= type_count)
        violated("memory of type %u of %u", info->memoryTypeIndex, type_count);
    if (info->allocationSize > wanted("ALLOCATION", UINT64_MAX))
        violated("an allocation of %llu bytes", (unsigned long long)info->allocationSize);
    VkMemoryAllocateInfo of_one_type = *info;
    of_one_type.memoryTypeIndex = 0;
    VkResult result = next_vkAllocateMemory(device, &of_one_type, callbacks, memory);
    if (result != VK_SUCCESS) return result;
    Allocation* made = calloc(1, sizeof *made);
    *made = (Allocation){*memory, info->allocationSize, type_flags[info->memoryTypeIndex], NULL,
                         NULL,    allocations};
    allocations = made;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                              const VkAllocationCallbacks* callbacks) {
    for (Allocation** link = &allocations; memory && *link; link = &(*link)->next)
        if ((*link)->memory == memory) {
            Allocation* gone = *link;
            *link = gone->next;
            free(gone->copy);
            free(gone);
            break;
        }
    next_vkFreeMemory(device, memory, callbacks);
}

static VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                          VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
    Allocation* mapped = allocation_of(memory);
    if (!(mapped->flags & VISIBLE)) violated("memory that the host does not see was mapped");
    VkResult result = next_vkMapMemory(device, memory, offset, size, flags, data);
    if (result != VK_SUCCESS || mapped->flags & COHERENT) return result;
    if (!mapped->copy) mapped->copy = malloc(mapped->size);
    memset(mapped->copy, 0xC5, mapped->size);
    mapped->seen = (char*)*data - offset;
    *data = mapped->copy + offset;
    return result;
}

static void bring_in_line(uint32_t count, const VkMappedMemoryRange* ranges, int to_device) {
    for (uint32_t i = 0; i < count; i++) {
        Allocation* mapped = allocation_of(ranges[i].memory);
        const VkDeviceSize offset = ranges[i].offset;
        const VkDeviceSize size = ranges[i].size == VK_WHOLE_SIZE ? mapped->size - offset : ranges[i].size;
        if (offset % shown_limits.nonCoherentAtomSize)
            violated("a flush from byte %llu", (unsigned long long)offset);
        if (!mapped->copy) continue;
        if (to_device)
            memcpy(mapped->seen + offset, mapped->copy + offset, size);
        else
            memcpy(mapped->copy + offset, mapped->seen + offset, size);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL flush(VkDevice device, uint32_t count,
                                            const VkMappedMemoryRange* ranges) {
    bring_in_line(count, ranges, 1);
    return next_vkFlushMappedMemoryRanges(device, count, ranges);
}

static VKAPI_ATTR VkResult VKAPI_CALL invalidate(VkDevice device, uint32_t count,
                                                 const VkMappedMemoryRange* ranges) {
    VkResult result = next_vkInvalidateMappedMemoryRanges(device, count, ranges);
    bring_in_line(count, ranges, 0);
    return result;
}

// ---- work ----

BENEATH(vkUpdateDescriptorSets)
BENEATH(vkCmdDispatch)
BENEATH(vkCmdWriteTimestamp)
BENEATH(vkCreateComputePipelines)

static VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t count,
                                              const VkWriteDescriptorSet* writes, uint32_t copies,
                                              const VkCopyDescriptorSet* copied) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; writes[i].pBufferInfo && j < writes[i].descriptorCount; j++) {
            const VkDescriptorBufferInfo* bound = &writes[i].pBufferInfo[j];
            if (bound->offset % shown_limits.minStorageBufferOffsetAlignment)
                violated("a buffer bound from byte %llu, no multiple of %llu",
                         (unsigned long long)bound->offset,
                         (unsigned long long)shown_limits.minStorageBufferOffsetAlignment);
            if (bound->range != VK_WHOLE_SIZE && bound->range > shown_limits.maxStorageBufferRange)
                violated("a range of %llu bytes, more than %u", (unsigned long long)bound->range,
                         shown_limits.maxStorageBufferRange);
        }
    next_vkUpdateDescriptorSets(device, count, writes, copies, copied);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    const uint32_t* most = shown_limits.maxComputeWorkGroupCount;
    if (x > most[0] || y > most[1] || z > most[2]) violated("%u x %u x %u workgroups", x, y, z);
    next_vkCmdDispatch(commands, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer commands, VkPipelineStageFlagBits stage,
                                                  VkQueryPool pool, uint32_t query) {
    if (!has_timestamps()) violated("a timestamp on a queue that has none");
    next_vkCmdWriteTimestamp(commands, stage, pool, query);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo* infos,
                                                       const VkAllocationCallbacks* callbacks,
                                                       VkPipeline* pipelines) {
    for (uint32_t i = 0; i < count; i++) {
        if (infos[i].stage.pNext && !has_subgroups()) violated("a subgroup size was asked for");
        // By the schema's convention constant 0 is the number of invocations in a workgroup.
        const VkSpecializationInfo* constants = infos[i].stage.pSpecializationInfo;
        if (constants && constants->dataSize >= 4 &&
            *(const uint32_t*)constants->pData > shown_limits.maxComputeWorkGroupInvocations)
            violated("a workgroup of %u invocations", *(const uint32_t*)constants->pData);
    }
    return next_vkCreateComputePipelines(device, cache, count, infos, callbacks, pipelines);
}

// ---- when commands are left ----

BENEATH(vkAllocateCommandBuffers)
BENEATH(vkResetCommandPool)
BENEATH(vkDestroyCommandPool)
BENEATH(vkDestroyDevice)
BENEATH(vkCreateEvent)
BENEATH(vkDestroyEvent)
BENEATH(vkSetEvent)
BENEATH(vkResetEvent)
BENEATH(vkCmdSetEvent)
BENEATH(vkCmdWaitEvents)
BENEATH(vkQueueSubmit)
BENEATH(vkQueueWaitIdle)
BENEATH(vkDeviceWaitIdle)

// Command buffers; those that set an event wait at their end for the host to open a gate.
static struct {
    VkDevice device;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkEvent gate;
    int has_gate, is_read;
} buffers[256];
static const size_t most_buffers = sizeof buffers / sizeof buffers[0];
static pthread_mutex_t buffers_mutex = PTHREAD_MUTEX_INITIALIZER;

static int leaves_late(void) { return wanted("LEAVES_LATE", 0) != 0; }

static size_t buffer_number(VkCommandBuffer commands) {
    for (size_t i = 0; i < most_buffers; i++)
        if (buffers[i].commands == commands) return i;
    violated("more than %zu command buffers, or one that nobody allocated", most_buffers);
    return 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device,
                                                        const VkCommandBufferAllocateInfo* info,
                                                        VkCommandBuffer* commands) {
    VkResult result = next_vkAllocateCommandBuffers(device, info, commands);
    if (result != VK_SUCCESS || !leaves_late()) return result;
    pthread_mutex_lock(&buffers_mutex);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        const size_t number = buffer_number(NULL);
        const VkEventCreateInfo event = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
        buffers[number].device = device;
        buffers[number].pool = info->commandPool;
        buffers[number].commands = commands[i];
        if (next_vkCreateEvent(device, &event, NULL, &buffers[number].gate) != VK_SUCCESS)
            violated("no event for a gate");
    }
    pthread_mutex_unlock(&buffers_mutex);
    return result;
}

static void require_left(VkCommandPool pool, const char* what) {
    for (size_t i = 0; i < most_buffers; i++)
        if (buffers[i].commands && buffers[i].pool == pool && buffers[i].is_read)
            violated("commands are %s before the driver has left them", what);
}

static VKAPI_ATTR VkResult VKAPI_CALL reset_pool(VkDevice device, VkCommandPool pool,
                                                 VkCommandPoolResetFlags flags) {
    pthread_mutex_lock(&buffers_mutex);
    require_left(pool, "reset");
    for (size_t i = 0; i < most_buffers; i++)
        if (buffers[i].commands && buffers[i].pool == pool) buffers[i].has_gate = 0;
    pthread_mutex_unlock(&buffers_mutex);
    return next_vkResetCommandPool(device, pool, flags);
}

static VKAPI_ATTR void VKAPI_CALL destroy_pool(VkDevice device, VkCommandPool pool,
                                               const VkAllocationCallbacks* callbacks) {
    pthread_mutex_lock(&buffers_mutex);
    require_left(pool, "freed");
    for (size_t i = 0; i < most_buffers; i++) {
        if (!buffers[i].commands || buffers[i].pool != pool) continue;
        next_vkDestroyEvent(device, buffers[i].gate, NULL);
        memset(&buffers[i], 0, sizeof buffers[i]);
    }
    pthread_mutex_unlock(&buffers_mutex);
    next_vkDestroyCommandPool(device, pool, callbacks);
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* callbacks) {
    for (size_t i = 0; i < most_buffers; i++)
        if (buffers[i].commands && buffers[i].device == device && buffers[i].is_read)
            violated("a device is destroyed before its driver has left the commands");
    next_vkDestroyDevice(device, callbacks);
}

static VKAPI_ATTR void VKAPI_CALL set_event(VkCommandBuffer commands, VkEvent event,
                                            VkPipelineStageFlags stages) {
    next_vkCmdSetEvent(commands, event, stages);
    if (!leaves_late()) return;
    pthread_mutex_lock(&buffers_mutex);
    const size_t number = buffer_number(commands);
    buffers[number].has_gate = 1;
    next_vkCmdWaitEvents(commands, 1, &buffers[number].gate, VK_PIPELINE_STAGE_HOST_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, NULL, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&buffers_mutex);
}

// With the mutex.
static void open_gates(void) {
    for (size_t i = 0; i < most_buffers; i++) {
        if (!buffers[i].is_read) continue;
        next_vkSetEvent(buffers[i].device, buffers[i].gate);
        next_vkDeviceWaitIdle(buffers[i].device);
        buffers[i].is_read = 0;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                             VkFence fence) {
    if (!leaves_late()) return next_vkQueueSubmit(queue, count, submits, fence);
    pthread_mutex_lock(&buffers_mutex);
    open_gates();
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < submits[i].commandBufferCount; j++) {
            const size_t number = buffer_number(submits[i].pCommandBuffers[j]);
            next_vkResetEvent(buffers[number].device, buffers[number].gate);
            buffers[number].is_read = buffers[number].has_gate;
        }
    }
    VkResult result = next_vkQueueSubmit(queue, count, submits, fence);
    pthread_mutex_unlock(&buffers_mutex);
    return result;
}

static void open_gates_to_wait(void) {
    pthread_mutex_lock(&buffers_mutex);
    open_gates();
    pthread_mutex_unlock(&buffers_mutex);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_queue(VkQueue queue) {
    open_gates_to_wait();
    return next_vkQueueWaitIdle(queue);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_device(VkDevice device) {
    open_gates_to_wait();
    return next_vkDeviceWaitIdle(device);
}

// ---- the layer's place in the chain ----

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                                      const VkAllocationCallbacks* callbacks,
                                                      VkInstance* instance) {
    VkLayerInstanceCreateInfo* link = (VkLayerInstanceCreateInfo*)info->pNext;
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo*)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next_instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance beneath = (PFN_vkCreateInstance)next_instance_function(NULL, "vkCreateInstance");
    VkResult result = beneath(info, callbacks, instance);
    if (result != VK_SUCCESS) return result;
    the_instance = *instance;
    // Now: later the loader answers with the top of the chain.
#define LOAD(name) next_##name = (PFN_##name)next_instance_function(*instance, #name)
    LOAD(vkGetPhysicalDeviceProperties);
    LOAD(vkGetPhysicalDeviceProperties2);
    LOAD(vkGetPhysicalDeviceFeatures2);
    LOAD(vkGetPhysicalDeviceQueueFamilyProperties);
    LOAD(vkGetPhysicalDeviceMemoryProperties);
    LOAD(vkGetPhysicalDeviceMemoryProperties2);
    LOAD(vkEnumerateDeviceExtensionProperties);
#undef LOAD
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                                    const VkAllocationCallbacks* callbacks,
                                                    VkDevice* device) {
    VkLayerDeviceCreateInfo* link = (VkLayerDeviceCreateInfo*)info->pNext;
    while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
                     link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo*)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    next_device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++)
        if (info->pQueueCreateInfos[i].queueCount > 1) violated("more than one queue");
    VkPhysicalDeviceMemoryProperties memory;
    get_memory(physical, &memory);
    VkResult result =
        ((PFN_vkCreateDevice)next(the_instance, "vkCreateDevice"))(physical, info, callbacks, device);
    if (result != VK_SUCCESS) return result;
#define LOAD(name) next_##name = (PFN_##name)next_device_function(*device, #name)
    LOAD(vkAllocateMemory);
    LOAD(vkFreeMemory);
    LOAD(vkMapMemory);
    LOAD(vkUnmapMemory);
    LOAD(vkFlushMappedMemoryRanges);
    LOAD(vkInvalidateMappedMemoryRanges);
    LOAD(vkGetBufferMemoryRequirements);
    LOAD(vkUpdateDescriptorSets);
    LOAD(vkCmdDispatch);
    LOAD(vkCmdWriteTimestamp);
    LOAD(vkCreateComputePipelines);
    LOAD(vkAllocateCommandBuffers);
    LOAD(vkResetCommandPool);
    LOAD(vkDestroyCommandPool);
    LOAD(vkDestroyDevice);
    LOAD(vkCreateEvent);
    LOAD(vkDestroyEvent);
    LOAD(vkSetEvent);
    LOAD(vkResetEvent);
    LOAD(vkCmdSetEvent);
    LOAD(vkCmdWaitEvents);
    LOAD(vkQueueSubmit);
    LOAD(vkQueueWaitIdle);
    LOAD(vkDeviceWaitIdle);
#undef LOAD
    return result;
}

static PFN_vkVoidFunction device_function(const char* name) {
    static const struct {
        const char* name;
        PFN_vkVoidFunction function;
    } ours[] = {
        {"vkAllocateMemory", (PFN_vkVoidFunction)allocate},
        {"vkFreeMemory", (PFN_vkVoidFunction)free_memory},
        {"vkMapMemory", (PFN_vkVoidFunction)map},
        {"vkFlushMappedMemoryRanges", (PFN_vkVoidFunction)flush},
        {"vkInvalidateMappedMemoryRanges", (PFN_vkVoidFunction)invalidate},
        {"vkGetBufferMemoryRequirements", (PFN_vkVoidFunction)get_requirements},
        {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)update_sets},
        {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
        {"vkCmdWriteTimestamp", (PFN_vkVoidFunction)write_timestamp},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
        {"vkAllocateCommandBuffers", (PFN_vkVoidFunction)allocate_commands},
        {"vkResetCommandPool", (PFN_vkVoidFunction)reset_pool},
        {"vkDestroyCommandPool", (PFN_vkVoidFunction)destroy_pool},
        {"vkDestroyDevice", (PFN_vkVoidFunction)destroy_device},
        {"vkCmdSetEvent", (PFN_vkVoidFunction)set_event},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
        {"vkQueueWaitIdle", (PFN_vkVoidFunction)wait_for_queue},
        {"vkDeviceWaitIdle", (PFN_vkVoidFunction)wait_for_device},
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (!strcmp(ours[i].name, name)) return ours[i].function;
    return NULL;
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL emulated_GetDeviceProcAddr(VkDevice device,
                                                                           const char* name) {
    if (!strcmp(name, "vkGetDeviceProcAddr")) return (PFN_vkVoidFunction)emulated_GetDeviceProcAddr;
    PFN_vkVoidFunction found = device_function(name);
    return found ? found : next_device_function(device, name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL emulated_GetInstanceProcAddr(VkInstance instance,
                                                                             const char* name) {
    static const struct {
        const char* name;
        PFN_vkVoidFunction function;
    } ours[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)emulated_GetInstanceProcAddr},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)emulated_GetDeviceProcAddr},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties_2},
        {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)get_features_2},
        {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)get_queue_families},
        {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)get_memory},
        {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)get_memory_2},
        {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)get_device_extensions},
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (!strcmp(ours[i].name, name)) return ours[i].function;
    PFN_vkVoidFunction found = device_function(name);
    if (found) return found;
    return instance ? next_instance_function(instance, name) : NULL;
}
