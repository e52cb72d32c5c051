/* What programs ask about addresses, and hints about memory. */
#include "internal.h"

/* ------------------------------------------------------------------ attributes of pointers */

/* Store an attribute; `found` is null for memory that the driver does not know, for which attributes are zero. False: no such attribute. */
static bool attribute_of(void *value, CUpointer_attribute attribute, const Allocation *found, uint64_t address)
{
    bool managed = found && found->kind == MEMORY_MANAGED, on_host = is_pinned(found);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = found && found->kind != MEMORY_POOL ? found->context : NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)value = !found ? 0 : on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = found ? address : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)value = !found || on_host || managed ? (void *)address : NULL; /* other memory is the program's */
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)value = found && attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE && found->kind == MEMORY_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = found ? found->id : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)value = managed;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = !found ? -2 : found->device < PTXLAB_MAX_DEVICES ? found->device : found->context ? found->context->device : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = found ? found->address : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = found ? found->size : 0;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)value = found != NULL;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned char *)value = found && found->kind == MEMORY_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)value = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(void **)value = found && found->kind == MEMORY_POOL ? found->owner : NULL;
        return true;
    default:
        return false;
    }
}

CUresult ptxlab_cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    Allocation *found = memory_find(address);
    bool known = found && attribute_of(value, attribute, found, address);
    bool no_host_pointer =
        known && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !is_pinned(found) && found->kind != MEMORY_MANAGED;
    unlock();
    return known && !no_host_pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuPointerGetAttributes(unsigned int number, CUpointer_attribute *attributes, void **values, CUdeviceptr address)
{
    if (!number || !attributes || !values)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = true;
    lock();
    Allocation *found = memory_find(address);
    for (unsigned int i = 0; i < number && known; i++)
        known = values[i] && attribute_of(values[i], attributes[i], found, address);
    unlock();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    bool known = memory_find(address) != NULL;
    unlock();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ hints */

/* Memory does not move: prefetching and advice have no effect, and are refused as on a GPU for other memory than managed one. */
static CUresult hint(CUdeviceptr address, size_t size)
{
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && size && found->kind == MEMORY_MANAGED && size <= found->address + found->size - address;
    unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
    (void)device;
    return stream_of(stream) ? hint(address, size) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ptxlab_cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags, CUstream stream)
{
    (void)location;
    return flags ? CUDA_ERROR_INVALID_VALUE : ptxlab_cuMemPrefetchAsync(address, size, 0, stream);
}

CUresult ptxlab_cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device)
{
    (void)device;
    return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : hint(address, size);
}

CUresult ptxlab_cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location)
{
    return ptxlab_cuMemAdvise(address, size, advice, location.id);
}
