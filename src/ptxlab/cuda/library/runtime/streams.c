/* Streams, events, capture. */
#include "runtime.h"

EXPORT int cudaStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return CALL(cuStreamCreateWithPriority(stream, flags, priority));
}
EXPORT int cudaStreamCreateWithFlags(CUstream *stream, unsigned flags) { return CALL(cuStreamCreate(stream, flags)); }
EXPORT int cudaStreamCreate(CUstream *stream) { return cudaStreamCreateWithFlags(stream, CU_STREAM_DEFAULT); }
EXPORT int cudaStreamDestroy(CUstream stream) { return CALL(stream ? cuStreamDestroy_v2(stream) : CUDA_ERROR_INVALID_HANDLE); }
EXPORT int cudaStreamSynchronize(CUstream stream) { return CALL(cuStreamSynchronize(stream)); }
EXPORT int cudaStreamQuery(CUstream stream) { return CALL(cuStreamQuery(stream)); }
EXPORT int cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) { return CALL(cuStreamWaitEvent(stream, event, flags)); }
EXPORT int cudaStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned flags) {
  return CALL(cuStreamAddCallback(stream, function, data, flags));
}
EXPORT int cudaStreamGetPriority(CUstream stream, int *priority) { return CALL(cuStreamGetPriority(stream, priority)); }
EXPORT int cudaStreamGetFlags(CUstream stream, unsigned *flags) { return CALL(cuStreamGetFlags(stream, flags)); }
EXPORT int cudaStreamGetId(CUstream stream, unsigned long long *id) { return CALL(cuStreamGetId(stream, id)); }
EXPORT int cudaStreamGetDevice(CUstream stream, int *device) { return CALL(cuStreamGetDevice(stream, device)); }
EXPORT int cudaStreamGetAttribute(CUstream stream, int attribute, CUstreamAttrValue *value) {
  return CALL(cuStreamGetAttribute(stream, attribute, value));
}
EXPORT int cudaStreamSetAttribute(CUstream stream, int attribute, const CUstreamAttrValue *value) {
  return CALL(cuStreamSetAttribute(stream, attribute, value));
}
EXPORT int cudaStreamCopyAttributes(CUstream to, CUstream from) { return CALL(cuStreamCopyAttributes(to, from)); }

/* -------------------------------------------------------------------------------------------------------------- events */

EXPORT int cudaEventCreateWithFlags(CUevent *event, unsigned flags) { return CALL(cuEventCreate(event, flags)); }
EXPORT int cudaEventCreate(CUevent *event) { return cudaEventCreateWithFlags(event, CU_EVENT_DEFAULT); }
EXPORT int cudaEventDestroy(CUevent event) { return CALL(cuEventDestroy_v2(event)); }
EXPORT int cudaEventRecord(CUevent event, CUstream stream) { return CALL(cuEventRecord(event, stream)); }
EXPORT int cudaEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return CALL(cuEventRecordWithFlags(event, stream, flags));
}
EXPORT int cudaEventQuery(CUevent event) { return CALL(cuEventQuery(event)); }
EXPORT int cudaEventSynchronize(CUevent event) { return CALL(cuEventSynchronize(event)); }
EXPORT int cudaEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return CALL(cuEventElapsedTime(milliseconds, start, end));
}
#if RUNTIME_MAJOR == 12
EXPORT int cudaEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  return CALL(cuEventElapsedTime_v2(milliseconds, start, end));
}
#endif

/* ------------------------------------------------------------------------------------------------------------- capture */

EXPORT int cudaStreamBeginCapture(CUstream stream, int mode) { return CALL(cuStreamBeginCapture_v2(stream, mode)); }
EXPORT int cudaStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                                         size_t count, int mode) {
  return CALL(cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode));
}
EXPORT int cudaStreamEndCapture(CUstream stream, CUgraph *graph) { return CALL(cuStreamEndCapture(stream, graph)); }
EXPORT int cudaStreamIsCapturing(CUstream stream, int *status) { return CALL(cuStreamIsCapturing(stream, status)); }
EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode) { return CALL(cuThreadExchangeStreamCaptureMode(mode)); }

#if RUNTIME_MAJOR >= 13
EXPORT int cudaStreamGetCaptureInfo(
#else
EXPORT int cudaStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                                       size_t *count) {
  return CALL(cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count));
}
EXPORT int cudaStreamGetCaptureInfo_v3(
#endif
    CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
    size_t *count) {
  return CALL(cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count));
}

#if RUNTIME_MAJOR >= 13
EXPORT int cudaStreamUpdateCaptureDependencies(
#else
EXPORT int cudaStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count, unsigned flags) {
  return CALL(cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags));
}
EXPORT int cudaStreamUpdateCaptureDependencies_v2(
#endif
    CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count, unsigned flags) {
  return CALL(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, count, flags));
}
