/* Allocation, managed memory, what a pointer is. */
#include "runtime.h"

EXPORT int cudaMalloc(void **pointer, size_t bytes)
{
    if (!pointer)
        return record(RUNTIME_INVALID_VALUE);
    *pointer = NULL;
    return CALL(bytes ? cuMemAlloc_v2(PAIR(pointer), bytes) : 0);
}

EXPORT int cudaFree(void *pointer) { return CALL(pointer ? cuMemFree_v2(DEVICE_POINTER(pointer)) : 0); }

/* Rows of a pitched allocation are read by elements of up to 16 bytes. */
#define WIDEST_ELEMENT 16

EXPORT int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (!pointer || !pitch)
        return record(RUNTIME_INVALID_VALUE);
    *pointer = NULL, *pitch = 0;
    return CALL(width && height ? cuMemAllocPitch_v2(PAIR(pointer), pitch, width, height, WIDEST_ELEMENT) : 0);
}

EXPORT int cudaMalloc3D(PitchedPointer *found, Extent extent)
{
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    *found = (PitchedPointer){NULL, 0, extent.width, extent.height};
    return cudaMallocPitch(&found->address, &found->pitch, extent.width, extent.height * extent.depth);
}

EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    if (!pointer)
        return record(RUNTIME_INVALID_VALUE);
    *pointer = NULL;
    return CALL(bytes ? cuMemHostAlloc(pointer, bytes, flags) : 0);
}

EXPORT int cudaMallocHost(void **pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
EXPORT int cudaFreeHost(void *pointer) { return CALL(pointer ? cuMemFreeHost(pointer) : 0); }
EXPORT int cudaHostRegister(void *pointer, size_t bytes, unsigned flags) { return CALL(cuMemHostRegister_v2(pointer, bytes, flags)); }
EXPORT int cudaHostUnregister(void *pointer) { return CALL(cuMemHostUnregister(pointer)); }
EXPORT int cudaHostGetDevicePointer(void **found, void *pointer, unsigned flags)
{
    return CALL(cuMemHostGetDevicePointer_v2(PAIR(found), pointer, flags));
}
EXPORT int cudaHostGetFlags(unsigned *flags, void *pointer) { return CALL(cuMemHostGetFlags(flags, pointer)); }
EXPORT int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags) { return CALL(cuMemAllocManaged(PAIR(pointer), bytes, flags)); }
EXPORT int cudaMemGetInfo(size_t *available, size_t *total) { return CALL(cuMemGetInfo_v2(available, total)); }

/* ---------------------------------------------------------------------------------------------------- managed memory */

#if RUNTIME_MAJOR >= 13
EXPORT int cudaMemPrefetchAsync(const void *pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream)
{
    return CALL(cuMemPrefetchAsync_v2(DEVICE_POINTER(pointer), bytes, location, flags, stream));
}
EXPORT int cudaMemAdvise(const void *pointer, size_t bytes, int advice, CUmemLocation location)
{
    return CALL(cuMemAdvise_v2(DEVICE_POINTER(pointer), bytes, (CUmem_advise)advice, location));
}
#else
EXPORT int cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device, CUstream stream)
{
    return CALL(cuMemPrefetchAsync(DEVICE_POINTER(pointer), bytes, device, stream));
}
EXPORT int cudaMemPrefetchAsync_v2(const void *pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream)
{
    return CALL(cuMemPrefetchAsync_v2(DEVICE_POINTER(pointer), bytes, location, flags, stream));
}
EXPORT int cudaMemAdvise(const void *pointer, size_t bytes, int advice, int device)
{
    return CALL(cuMemAdvise(DEVICE_POINTER(pointer), bytes, (CUmem_advise)advice, device));
}
EXPORT int cudaMemAdvise_v2(const void *pointer, size_t bytes, int advice, CUmemLocation location)
{
    return CALL(cuMemAdvise_v2(DEVICE_POINTER(pointer), bytes, (CUmem_advise)advice, location));
}
#endif

EXPORT int cudaStreamAttachMemAsync(CUstream stream, void *pointer, size_t bytes, unsigned flags)
{
    return CALL(cuStreamAttachMemAsync(stream, DEVICE_POINTER(pointer), bytes, flags));
}

/* ------------------------------------------------------------------------------------------------ what a pointer is */

EXPORT int cudaPointerGetAttributes(PointerAttributes *found, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int device = 0;
    CUdeviceptr device_pointer = 0;
    void *host_pointer = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &device_pointer, &host_pointer};
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuPointerGetAttributes(5, names, values, DEVICE_POINTER(pointer)));
    enum { UNREGISTERED, HOST, DEVICE, MANAGED };
    int kind = !type ? UNREGISTERED : managed ? MANAGED : type == CU_MEMORYTYPE_HOST ? HOST : DEVICE;
    *found = (PointerAttributes){.type = kind, .device = INVALID_DEVICE_ID, .host_pointer = (void *)(uintptr_t)pointer};
    if (kind != UNREGISTERED) {
        found->device = device;
        found->device_pointer = (void *)(uintptr_t)device_pointer;
        found->host_pointer = kind == DEVICE ? NULL : host_pointer;
    }
    return 0;
}
