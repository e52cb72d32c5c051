/* Capture of streams into graphs. */
#include "runtime.h"

EXPORT int cudaStreamBeginCapture(CUstream stream, int mode) { return CALL(cuStreamBeginCapture_v2(stream, mode)); }
EXPORT int cudaStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                                         size_t count, int mode)
{
    return CALL(cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode));
}
EXPORT int cudaStreamEndCapture(CUstream stream, CUgraph *graph) { return CALL(cuStreamEndCapture(stream, graph)); }
EXPORT int cudaStreamIsCapturing(CUstream stream, int *status) { return CALL(cuStreamIsCapturing(stream, status)); }
EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode) { return CALL(cuThreadExchangeStreamCaptureMode(mode)); }

#if RUNTIME_MAJOR >= 13
EXPORT int cudaStreamGetCaptureInfo(
#else
EXPORT int cudaStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                                       size_t *count)
{
    return CALL(cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count));
}
EXPORT int cudaStreamGetCaptureInfo_v3(
#endif
    CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
    size_t *count)
{
    return CALL(cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count));
}

#if RUNTIME_MAJOR >= 13
EXPORT int cudaStreamUpdateCaptureDependencies(
#else
EXPORT int cudaStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count, unsigned flags)
{
    return CALL(cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags));
}
EXPORT int cudaStreamUpdateCaptureDependencies_v2(
#endif
    CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count, unsigned flags)
{
    return CALL(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, count, flags));
}

WITH_STREAM(cudaStreamBeginCapture, (CUstream stream, int mode), (STREAM, mode))
WITH_STREAM(cudaStreamEndCapture, (CUstream stream, CUgraph *graph), (STREAM, graph))
WITH_STREAM(cudaStreamIsCapturing, (CUstream stream, int *status), (STREAM, status))
