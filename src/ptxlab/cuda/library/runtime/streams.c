/* Streams and events. */
#include "runtime.h"

EXPORT int cudaStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    return CALL(cuStreamCreateWithPriority(stream, flags, priority));
}
EXPORT int cudaStreamCreateWithFlags(CUstream *stream, unsigned flags) { return CALL(cuStreamCreate(stream, flags)); }
EXPORT int cudaStreamCreate(CUstream *stream) { return cudaStreamCreateWithFlags(stream, CU_STREAM_DEFAULT); }
EXPORT int cudaStreamDestroy(CUstream stream) { return CALL(stream ? cuStreamDestroy_v2(stream) : CUDA_ERROR_INVALID_HANDLE); }
EXPORT int cudaStreamSynchronize(CUstream stream) { return CALL(cuStreamSynchronize(stream)); }
EXPORT int cudaStreamQuery(CUstream stream) { return CALL(cuStreamQuery(stream)); }
EXPORT int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) { return CALL(cuStreamWaitEvent(stream, event, flags)); }
EXPORT int cudaStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned flags)
{
    return CALL(cuStreamAddCallback(stream, function, data, flags));
}
EXPORT int cudaStreamGetPriority(CUstream stream, int *priority) { return CALL(cuStreamGetPriority(stream, priority)); }
EXPORT int cudaStreamGetFlags(CUstream stream, unsigned *flags) { return CALL(cuStreamGetFlags(stream, flags)); }
EXPORT int cudaStreamGetId(CUstream stream, unsigned long long *id) { return CALL(cuStreamGetId(stream, id)); }
EXPORT int cudaStreamGetDevice(CUstream stream, int *device) { return CALL(cuStreamGetDevice(stream, device)); }
EXPORT int cudaStreamGetAttribute(CUstream stream, int attribute, CUstreamAttrValue *value)
{
    return CALL(cuStreamGetAttribute(stream, attribute, value));
}
EXPORT int cudaStreamSetAttribute(CUstream stream, int attribute, const CUstreamAttrValue *value)
{
    return CALL(cuStreamSetAttribute(stream, attribute, value));
}
EXPORT int cudaStreamCopyAttributes(CUstream to, CUstream from) { return CALL(cuStreamCopyAttributes(to, from)); }

/* -------------------------------------------------------------------------------------------------------------- events */

EXPORT int cudaEventCreateWithFlags(CUevent *event, unsigned flags) { return CALL(cuEventCreate(event, flags)); }
EXPORT int cudaEventCreate(CUevent *event) { return cudaEventCreateWithFlags(event, CU_EVENT_DEFAULT); }
EXPORT int cudaEventDestroy(CUevent event) { return CALL(cuEventDestroy_v2(event)); }
EXPORT int cudaEventRecord(CUevent event, CUstream stream) { return CALL(cuEventRecord(event, stream)); }
EXPORT int cudaEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return CALL(cuEventRecordWithFlags(event, stream, flags));
}
EXPORT int cudaEventQuery(CUevent event) { return CALL(cuEventQuery(event)); }
EXPORT int cudaEventSynchronize(CUevent event) { return CALL(cuEventSynchronize(event)); }
EXPORT int cudaEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return CALL(cuEventElapsedTime(milliseconds, start, end));
}
#if RUNTIME_MAJOR == 12
EXPORT int cudaEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return CALL(cuEventElapsedTime_v2(milliseconds, start, end));
}
#endif
