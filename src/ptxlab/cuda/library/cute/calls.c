/* The functions of the CUDA runtime and driver that host code of CuTe DSL calls, by the names under which it calls them.
 *
 * Types are those that the host code declares. Results are numbers of the driver, which the runtime API shares. */
#include "context.h"

/* `cudaLaunchConfig_t`: the size of the shared memory has 64 bits here, in `CUlaunchConfig` 32. */
typedef struct LaunchConfig {
    unsigned int grid[3], block[3];
    size_t shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned int count;
} LaunchConfig;

#define WITH_CONTEXT(call)                         \
    do {                                           \
        CUresult result_of_context = cute_context(); \
        return result_of_context == CUDA_SUCCESS ? (call) : result_of_context; \
    } while (0)

/* ------------------------------------------------------------------------------------------------------------ devices */

EXPORT CUresult _cudaGetDevice(int *device) { return cute_device(device); }

EXPORT CUresult _cudaSetDevice(int device) { return cute_set_device(device); }

EXPORT CUresult _cudaGetDeviceCount(int *count) {
    CUresult result = cuInit(0);
    return result == CUDA_SUCCESS ? cuDeviceGetCount(count) : result;
}

EXPORT CUresult _cudaDeviceGetAttribute(int *value, int attribute, int device) {
    CUresult result = cuInit(0);
    return result == CUDA_SUCCESS ? cuDeviceGetAttribute(value, attribute, device) : result;
}

EXPORT CUresult _cuDeviceGet(CUdevice *device, int ordinal) { return cuDeviceGet(device, ordinal); }

EXPORT CUresult _cudaDeviceSynchronize(void) { WITH_CONTEXT(cuCtxSynchronize()); }

EXPORT CUresult _cudaProfilerStart(void) { WITH_CONTEXT(cuProfilerStart()); }

EXPORT CUresult _cudaProfilerStop(void) { WITH_CONTEXT(cuProfilerStop()); }

/* ---------------------------------------------------------------------------------------------- libraries and kernels */

EXPORT CUresult _cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit_options, void **jit_values, unsigned int jit_count,
                                   CUlibraryOption *options, void **values, unsigned int count) {
    WITH_CONTEXT(cuLibraryLoadData(library, image, jit_options, jit_values, jit_count, options, values, count));
}

EXPORT CUresult _cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *jit_options, void **jit_values,
                                       unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count) {
    WITH_CONTEXT(cuLibraryLoadFromFile(library, file, jit_options, jit_values, jit_count, options, values, count));
}

EXPORT CUresult _cuLibraryUnload(CUlibrary library) { return cuLibraryUnload(library); }

EXPORT CUresult _cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    return cuLibraryGetKernel(kernel, library, name);
}

EXPORT CUresult _cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) { return cuLibraryGetKernelCount(count, library); }

EXPORT CUresult _cuLibraryGetModule(CUmodule *module, CUlibrary library) { return cuLibraryGetModule(module, library); }

EXPORT CUresult _cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    return cuLibraryGetGlobal(address, bytes, library, name);
}

EXPORT CUresult _cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    return cuLibraryGetManaged(address, bytes, library, name);
}

#define SAME_AS(name) extern __typeof__(_cu##name) _cuda##name __attribute__((alias("_cu" #name), visibility("default")))
SAME_AS(LibraryLoadData);
SAME_AS(LibraryLoadFromFile);
SAME_AS(LibraryUnload);
SAME_AS(LibraryGetKernel);
SAME_AS(LibraryGetKernelCount);
SAME_AS(LibraryGetGlobal);
SAME_AS(LibraryGetManaged);

EXPORT CUresult _cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    return cuKernelGetAttribute(value, attribute, kernel, device);
}

EXPORT CUresult _cudaKernelSetAttributeForDevice(CUkernel kernel, CUfunction_attribute attribute, int value, int device) {
    return cuKernelSetAttribute(attribute, value, kernel, device);
}

/* The handle may be one of `_cudaLibraryGetKernel`; the driver takes kernels as functions. */
EXPORT CUresult _cudaFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    WITH_CONTEXT(cuFuncSetAttribute(function, attribute, value));
}

EXPORT CUresult _cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared_bytes) {
    WITH_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes));
}

/* ------------------------------------------------------------------------------------------------------------ launches */

EXPORT CUresult _cudaLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                                  unsigned int bz, void **parameters, size_t shared_bytes, CUstream stream) {
    CUresult failed = cute_take_failure();
    if (failed != CUDA_SUCCESS)
        return failed;
    if (shared_bytes > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    WITH_CONTEXT(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, (unsigned int)shared_bytes, stream, parameters, NULL));
}

EXPORT CUresult _cudaLaunchKernelEx(const LaunchConfig *given, CUfunction function, void **parameters) {
    CUresult failed = cute_take_failure();
    if (failed != CUDA_SUCCESS)
        return failed;
    if (given == NULL || given->shared_bytes > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig config = {
        .gridDimX = given->grid[0],
        .gridDimY = given->grid[1],
        .gridDimZ = given->grid[2],
        .blockDimX = given->block[0],
        .blockDimY = given->block[1],
        .blockDimZ = given->block[2],
        .sharedMemBytes = (unsigned int)given->shared_bytes,
        .hStream = given->stream,
        .attrs = given->attributes,
        .numAttrs = given->count,
    };
    WITH_CONTEXT(cuLaunchKernelEx(&config, function, parameters, NULL));
}

EXPORT CUresult _cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                                        const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                                        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill) {
    return cuTensorMapEncodeTiled(map, type, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill);
}

/* -------------------------------------------------------------------------------------------------------------- memory */

EXPORT CUresult _cudaMalloc(CUdeviceptr *address, size_t bytes) { WITH_CONTEXT(cuMemAlloc_v2(address, bytes)); }

EXPORT CUresult _cudaMallocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags) {
    WITH_CONTEXT(cuMemAllocManaged(address, bytes, flags));
}

EXPORT CUresult _cudaMallocHost(void **memory, size_t bytes) { WITH_CONTEXT(cuMemHostAlloc(memory, bytes, 0)); }

EXPORT CUresult _cudaMallocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    WITH_CONTEXT(cuMemAllocAsync(address, bytes, stream));
}

EXPORT CUresult _cudaFree(CUdeviceptr address) {
    if (address == 0)
        return CUDA_SUCCESS;
    WITH_CONTEXT(cuMemFree_v2(address));
}

EXPORT CUresult _cudaFreeAsync(CUdeviceptr address, CUstream stream) { WITH_CONTEXT(cuMemFreeAsync(address, stream)); }

EXPORT CUresult _cudaFreeHost(void *memory) {
    if (memory == NULL)
        return CUDA_SUCCESS;
    WITH_CONTEXT(cuMemFreeHost(memory));
}

/* Addresses say where memory lies, so the direction that callers name is not needed. */
EXPORT CUresult _cudaMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes, int direction) {
    (void)direction;
    WITH_CONTEXT(cuMemcpy(target, source, bytes));
}

EXPORT CUresult _cudaMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, int direction, CUstream stream) {
    (void)direction;
    WITH_CONTEXT(cuMemcpyAsync(target, source, bytes, stream));
}

EXPORT CUresult _cudaMemset(CUdeviceptr target, int value, size_t bytes) {
    WITH_CONTEXT(cuMemsetD8_v2(target, (unsigned char)value, bytes));
}

EXPORT CUresult _cudaMemsetAsync(CUdeviceptr target, int value, size_t bytes, CUstream stream) {
    WITH_CONTEXT(cuMemsetD8Async(target, (unsigned char)value, bytes, stream));
}

/* ------------------------------------------------------------------------------------------- streams, events and graphs */

EXPORT CUresult _cudaStreamCreate(CUstream *stream) { WITH_CONTEXT(cuStreamCreate(stream, CU_STREAM_DEFAULT)); }

EXPORT CUresult _cudaStreamDestroy(CUstream stream) { WITH_CONTEXT(cuStreamDestroy_v2(stream)); }

EXPORT CUresult _cudaStreamSynchronize(CUstream stream) { WITH_CONTEXT(cuStreamSynchronize(stream)); }

EXPORT CUresult _cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    WITH_CONTEXT(cuStreamWaitEvent(stream, event, flags));
}

EXPORT CUresult _cudaStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags) {
    WITH_CONTEXT(cuStreamAddCallback(stream, callback, data, flags));
}

EXPORT CUresult _cudaStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) { WITH_CONTEXT(cuStreamBeginCapture_v2(stream, mode)); }

EXPORT CUresult _cudaStreamEndCapture(CUstream stream, CUgraph *graph) { WITH_CONTEXT(cuStreamEndCapture(stream, graph)); }

EXPORT CUresult _cudaGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    WITH_CONTEXT(cuGraphInstantiateWithFlags(executable, graph, flags));
}

EXPORT CUresult _cudaGraphLaunch(CUgraphExec executable, CUstream stream) { WITH_CONTEXT(cuGraphLaunch(executable, stream)); }

EXPORT CUresult _cudaGraphDestroy(CUgraph graph) { WITH_CONTEXT(cuGraphDestroy(graph)); }

EXPORT CUresult _cudaGraphExecDestroy(CUgraphExec executable) { WITH_CONTEXT(cuGraphExecDestroy(executable)); }

EXPORT CUresult _cudaEventCreate(CUevent *event) { WITH_CONTEXT(cuEventCreate(event, CU_EVENT_DEFAULT)); }

EXPORT CUresult _cudaEventDestroy(CUevent event) { WITH_CONTEXT(cuEventDestroy_v2(event)); }

EXPORT CUresult _cudaEventRecord(CUevent event, CUstream stream) { WITH_CONTEXT(cuEventRecord(event, stream)); }

EXPORT CUresult _cudaEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    WITH_CONTEXT(cuEventElapsedTime(milliseconds, start, end));
}
