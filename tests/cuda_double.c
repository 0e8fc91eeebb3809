/* Stands for libcuda.so.1 in tests on software drivers: what Vulkan exports is mapped by mmap(), "device" memory is the
   host's, and copies are done only when their stream is asked for or the context waits, so that a missing wait shows.
   It proves nothing about CUDA; tests/test_cuda_device.py does, on an NVIDIA GPU. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK, INVALID = 1, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, NOT_READY = 600 };
enum { MOST_COPIES = 4096, MOST_MAPPINGS = 1024, MEMFD_HEADER = 4096 };

typedef struct {
    int type;
    union { int fd; struct { void *handle; const void *name; } win32; } handle;
    uint64_t size;
    unsigned flags, reserved[16];
} Handle;
typedef struct { uint64_t offset, size; unsigned flags, reserved[16]; } Part;
typedef struct {
    size_t src_x, src_y; int src_type; const void *src_host; uint64_t src; void *src_array; size_t src_pitch;
    size_t dst_x, dst_y; int dst_type; void *dst_host; uint64_t dst; void *dst_array; size_t dst_pitch;
    size_t width, height;
} Copy2D;

static struct { uint64_t dst, src; size_t n; uintptr_t stream; } copies[MOST_COPIES];
static int copy_count, depth, live_mappings, context_waits;
static struct { void *base; size_t size; int destroyed; } mappings[MOST_MAPPINGS];
static int mapping_count;
static char uuids[8][16];
static int device_count = 1;
static char failing[64];
static int failing_result, failing_after;

/* What tests set and ask. */
void double_devices(int count, const char *bytes) { device_count = count; memcpy(uuids, bytes, (size_t)count * 16); }
void double_fail(const char *function, int result, int after) {
    strncpy(failing, function, sizeof failing - 1);
    failing_result = result;
    failing_after = after;
}
int double_live_mappings(void) { return live_mappings; }
int double_context_waits(void) { return context_waits; }
int double_pending(void) { return copy_count; }

static int fails(const char *function) {
    if (strcmp(failing, function) || failing_after-- > 0) return OK;
    failing[0] = 0;
    return failing_result;
}
#define ENTER(function) do { int result_ = fails(function); if (result_) return result_; } while (0)
#define IN_CONTEXT() do { if (!depth) return NO_CONTEXT; } while (0)

static int run(uintptr_t stream, int all) {
    int done = 0, kept = 0;
    for (int i = 0; i < copy_count; i++) {
        if (all || copies[i].stream == stream) {
            memmove((void *)copies[i].dst, (void *)copies[i].src, copies[i].n);
            done++;
        } else {
            copies[kept++] = copies[i];
        }
    }
    copy_count = kept;
    return done;
}
static int start(uint64_t dst, uint64_t src, size_t n, void *stream) {
    if (copy_count == MOST_COPIES) run(0, 1);
    copies[copy_count].dst = dst, copies[copy_count].src = src;
    copies[copy_count].n = n, copies[copy_count++].stream = (uintptr_t)stream;
    return OK;
}

int cuInit(unsigned flags) { (void)flags; ENTER("cuInit"); return OK; }
int cuGetErrorName(int error, const char **text) { *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER"; return OK; }
int cuGetErrorString(int error, const char **text) { *text = error == OUT_OF_MEMORY ? "out of memory" : "another error"; return OK; }
int cuDeviceGetCount(int *count) { *count = device_count; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 100; return ordinal < device_count ? OK : INVALID; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; strncpy(name, "double", (size_t)length); return OK; }
int cuDeviceGetUuid_v2(char *uuid, int device) { memcpy(uuid, uuids[device - 100], 16); return OK; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(uintptr_t)device; return OK; }
int cuCtxPushCurrent_v2(void *context) { (void)context; depth++; return OK; }
int cuCtxPopCurrent_v2(void **context) { IN_CONTEXT(); *context = NULL; depth--; return OK; }
int cuCtxSynchronize(void) { ENTER("cuCtxSynchronize"); IN_CONTEXT(); context_waits++; run(0, 1); return OK; }
int cuStreamCreate(void **stream, unsigned flags) { (void)flags; IN_CONTEXT(); *stream = (void *)0x5000; return OK; }
int cuStreamQuery(void *stream) { ENTER("cuStreamQuery"); IN_CONTEXT(); return run((uintptr_t)stream, 0) ? NOT_READY : OK; }
int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, void *stream) { ENTER("cuMemcpyDtoDAsync_v2"); IN_CONTEXT(); return start(dst, src, n, stream); }
int cuMemcpy2DAsync_v2(const Copy2D *c, void *stream) {
    ENTER("cuMemcpy2DAsync_v2");
    IN_CONTEXT();
    if (c->src_type != 2 || c->dst_type != 2 || c->src_pitch < c->width || c->dst_pitch < c->width) return INVALID;
    for (size_t row = 0; row < c->height; row++) start(c->dst + row * c->dst_pitch, c->src + row * c->src_pitch, c->width, stream);
    return OK;
}
int cuImportExternalMemory(void **memory, const Handle *handle) {
    struct stat file;
    ENTER("cuImportExternalMemory");
    IN_CONTEXT();
    if (handle->type != 1 || fstat(handle->handle.fd, &file) || mapping_count == MOST_MAPPINGS) return INVALID;
    /* lavapipe puts a page of its own before the memory. */
    size_t before = (size_t)file.st_size >= handle->size + MEMFD_HEADER ? MEMFD_HEADER : 0;
    char *base = mmap(NULL, handle->size + before, PROT_READ | PROT_WRITE, MAP_SHARED, handle->handle.fd, 0);
    if (base == MAP_FAILED) return OUT_OF_MEMORY;
    close(handle->handle.fd);
    mappings[mapping_count].base = base, mappings[mapping_count].size = handle->size + before;
    *memory = (void *)(uintptr_t)(mapping_count++ * 2 + (before ? 1 : 0) + 2);
    live_mappings++;
    return OK;
}
int cuExternalMemoryGetMappedBuffer(uint64_t *address, void *memory, const Part *part) {
    size_t number = (uintptr_t)memory - 2;
    size_t before = number % 2 ? MEMFD_HEADER : 0;
    ENTER("cuExternalMemoryGetMappedBuffer");
    if (part->offset + part->size + before > mappings[number / 2].size) return INVALID;
    *address = (uint64_t)(uintptr_t)mappings[number / 2].base + before + part->offset;
    return OK;
}
int cuMemFree_v2(uint64_t address) { (void)address; IN_CONTEXT(); run(0, 1); return OK; }
int cuDestroyExternalMemory(void *memory) {
    size_t number = ((uintptr_t)memory - 2) / 2;
    munmap(mappings[number].base, mappings[number].size);
    live_mappings--;
    return OK;
}
