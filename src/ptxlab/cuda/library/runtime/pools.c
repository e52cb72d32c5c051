/* Stream-ordered allocation. */
#include "runtime.h"

EXPORT int cudaMallocAsync(void **pointer, size_t bytes, CUstream stream) { return CALL(cuMemAllocAsync(PAIR(pointer), bytes, stream)); }
EXPORT int cudaFreeAsync(void *pointer, CUstream stream) { return CALL(cuMemFreeAsync(DEVICE_POINTER(pointer), stream)); }
EXPORT int cudaMallocFromPoolAsync(void **pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return CALL(cuMemAllocFromPoolAsync(PAIR(pointer), bytes, pool, stream));
}
EXPORT int cudaDeviceGetDefaultMemPool(CUmemoryPool *pool, int device) { return CALL(cuDeviceGetDefaultMemPool(pool, device)); }
EXPORT int cudaDeviceGetMemPool(CUmemoryPool *pool, int device) { return CALL(cuDeviceGetMemPool(pool, device)); }
EXPORT int cudaDeviceSetMemPool(int device, CUmemoryPool pool) { return CALL(cuDeviceSetMemPool(device, pool)); }
EXPORT int cudaMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) { return CALL(cuMemPoolCreate(pool, properties)); }
EXPORT int cudaMemPoolDestroy(CUmemoryPool pool) { return CALL(cuMemPoolDestroy(pool)); }
EXPORT int cudaMemPoolTrimTo(CUmemoryPool pool, size_t bytes) { return CALL(cuMemPoolTrimTo(pool, bytes)); }
EXPORT int cudaMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    return CALL(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}
EXPORT int cudaMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    return CALL(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}
EXPORT int cudaMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    return CALL(cuMemPoolSetAccess(pool, access, count));
}
EXPORT int cudaMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    return CALL(cuMemPoolGetAccess(flags, pool, location));
}

WITH_STREAM(cudaMallocAsync, (void **pointer, size_t bytes, CUstream stream), (pointer, bytes, STREAM))
WITH_STREAM(cudaFreeAsync, (void *pointer, CUstream stream), (pointer, STREAM))
WITH_STREAM(cudaMallocFromPoolAsync, (void **pointer, size_t bytes, CUmemoryPool pool, CUstream stream), (pointer, bytes, pool, STREAM))
