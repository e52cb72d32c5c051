/* What programs compiled for a default stream of each thread call (nvcc --default-stream per-thread): stream 0 is the thread's. */
#include "runtime.h"

WITH_STREAM(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, CUstream stream), (to, from, bytes, kind, STREAM))
WITH_STREAM(cudaMemcpy2DAsync,
            (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, CUstream stream),
            (to, to_pitch, from, from_pitch, width, height, kind, STREAM))
WITH_STREAM(cudaMemcpy3DAsync, (const Copy3D *copy, CUstream stream), (copy, STREAM))
WITH_STREAM(cudaMemcpy3DPeerAsync, (const Copy3DPeer *copy, CUstream stream), (copy, STREAM))
WITH_STREAM(cudaMemcpyToSymbolAsync, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind, CUstream stream),
            (symbol, from, bytes, offset, kind, STREAM))
WITH_STREAM(cudaMemcpyFromSymbolAsync, (void *to, const void *symbol, size_t bytes, size_t offset, int kind, CUstream stream),
            (to, symbol, bytes, offset, kind, STREAM))
WITH_STREAM(cudaMemsetAsync, (void *pointer, int value, size_t bytes, CUstream stream), (pointer, value, bytes, STREAM))
WITH_STREAM(cudaMemset2DAsync, (void *pointer, size_t pitch, int value, size_t width, size_t height, CUstream stream),
            (pointer, pitch, value, width, height, STREAM))
WITH_STREAM(cudaMemset3DAsync, (PitchedPointer given, int value, Extent extent, CUstream stream), (given, value, extent, STREAM))
WITH_STREAM(cudaStreamSynchronize, (CUstream stream), (STREAM))
WITH_STREAM(cudaStreamQuery, (CUstream stream), (STREAM))
WITH_STREAM(cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (STREAM, event, flags))
WITH_STREAM(cudaStreamAddCallback, (CUstream stream, CUstreamCallback function, void *data, unsigned flags),
            (STREAM, function, data, flags))
WITH_STREAM(cudaStreamAttachMemAsync, (CUstream stream, void *pointer, size_t bytes, unsigned flags), (STREAM, pointer, bytes, flags))
WITH_STREAM(cudaStreamGetPriority, (CUstream stream, int *priority), (STREAM, priority))
WITH_STREAM(cudaStreamGetFlags, (CUstream stream, unsigned *flags), (STREAM, flags))
WITH_STREAM(cudaStreamGetId, (CUstream stream, unsigned long long *id), (STREAM, id))
WITH_STREAM(cudaStreamGetDevice, (CUstream stream, int *device), (STREAM, device))
WITH_STREAM(cudaStreamGetAttribute, (CUstream stream, int attribute, CUstreamAttrValue *value), (STREAM, attribute, value))
WITH_STREAM(cudaStreamSetAttribute, (CUstream stream, int attribute, const CUstreamAttrValue *value), (STREAM, attribute, value))
WITH_STREAM(cudaEventRecord, (CUevent event, CUstream stream), (event, STREAM))
WITH_STREAM(cudaEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags), (event, STREAM, flags))
WITH_STREAM(cudaLaunchKernel,
            (const void *function, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes, CUstream stream),
            (function, grid, block, arguments, shared_bytes, STREAM))
WITH_STREAM(cudaLaunchCooperativeKernel,
            (const void *function, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes, CUstream stream),
            (function, grid, block, arguments, shared_bytes, STREAM))
WITH_STREAM(__cudaLaunchKernel,
            (CUkernel kernel, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes, CUstream stream),
            (kernel, grid, block, arguments, shared_bytes, STREAM))
WITH_STREAM(cudaLaunchHostFunc, (CUstream stream, CUhostFn function, void *data), (STREAM, function, data))

EXPORT int cudaLaunchKernelExC_ptsz(const LaunchShape *given, const void *function, void **arguments)
{
    int cudaLaunchKernelExC(const LaunchShape *, const void *, void **);
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    LaunchShape shape = *given;
    shape.stream = PER_THREAD(shape.stream);
    return cudaLaunchKernelExC(&shape, function, arguments);
}

EXPORT int cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **function, unsigned version, unsigned long long flags, int *state)
{
    int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);
    return cudaGetDriverEntryPointByVersion(name, function, version, flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, state);
}

EXPORT int cudaGetDriverEntryPoint_ptsz(const char *name, void **function, unsigned long long flags, int *state)
{
    return cudaGetDriverEntryPointByVersion_ptsz(name, function, RUNTIME_VERSION, flags, state);
}

/* A call that waits: the same on the thread's stream, which is then waited for. */
#define WAITING(name, form, parameters, arguments)                                                                                         \
    EXPORT int name##_ptds parameters                                                                                                      \
    {                                                                                                                                      \
        int error = form arguments;                                                                                                        \
        return error ? error : record(cuStreamSynchronize(PER_THREAD_STREAM));                                                             \
    }

WAITING(cudaMemcpy, cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind), (to, from, bytes, kind, PER_THREAD_STREAM))
WAITING(cudaMemcpy2D, cudaMemcpy2DAsync,
        (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind),
        (to, to_pitch, from, from_pitch, width, height, kind, PER_THREAD_STREAM))
WAITING(cudaMemcpy3D, cudaMemcpy3DAsync, (const Copy3D *copy), (copy, PER_THREAD_STREAM))
WAITING(cudaMemcpy3DPeer, cudaMemcpy3DPeerAsync, (const Copy3DPeer *copy), (copy, PER_THREAD_STREAM))
WAITING(cudaMemcpyToSymbol, cudaMemcpyToSymbolAsync, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
        (symbol, from, bytes, offset, kind, PER_THREAD_STREAM))
WAITING(cudaMemcpyFromSymbol, cudaMemcpyFromSymbolAsync, (void *to, const void *symbol, size_t bytes, size_t offset, int kind),
        (to, symbol, bytes, offset, kind, PER_THREAD_STREAM))
WAITING(cudaMemset, cudaMemsetAsync, (void *pointer, int value, size_t bytes), (pointer, value, bytes, PER_THREAD_STREAM))
WAITING(cudaMemset2D, cudaMemset2DAsync, (void *pointer, size_t pitch, int value, size_t width, size_t height),
        (pointer, pitch, value, width, height, PER_THREAD_STREAM))
WAITING(cudaMemset3D, cudaMemset3DAsync, (PitchedPointer given, int value, Extent extent), (given, value, extent, PER_THREAD_STREAM))
