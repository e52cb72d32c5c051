/* Graphs: what nodes hold, memory that comes and goes with launches, user objects. */
#include "runtime.h"

EXPORT int cudaGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child)
{
    return CALL(cuGraphExecChildGraphNodeSetParams(executable, node, child));
}
EXPORT int cudaGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child) { return CALL(cuGraphChildGraphNodeGetGraph(node, child)); }
EXPORT int cudaGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *found)
{
    return CALL(cuGraphHostNodeGetParams(node, found));
}
EXPORT int cudaGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) { return CALL(cuGraphKernelNodeCopyAttributes(to, from)); }
EXPORT int cudaGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled)
{
    return CALL(cuGraphNodeSetEnabled(executable, node, enabled));
}
EXPORT int cudaGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *enabled)
{
    return CALL(cuGraphNodeGetEnabled(executable, node, enabled));
}

/* --------------------------------------------------------------------------------------------------------------- events */

EXPORT int cudaGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) { return CALL(cuGraphEventRecordNodeGetEvent(node, event)); }
EXPORT int cudaGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) { return CALL(cuGraphEventRecordNodeSetEvent(node, event)); }
EXPORT int cudaGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) { return CALL(cuGraphEventWaitNodeGetEvent(node, event)); }
EXPORT int cudaGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) { return CALL(cuGraphEventWaitNodeSetEvent(node, event)); }
EXPORT int cudaGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return CALL(cuGraphExecEventRecordNodeSetEvent(executable, node, event));
}
EXPORT int cudaGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return CALL(cuGraphExecEventWaitNodeSetEvent(executable, node, event));
}

/* --------------------------------------------------------------------------------------------------------------- memory */

EXPORT int cudaGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    return CALL(cuGraphAddMemAllocNode(node, graph, before, count, wanted));
}
EXPORT int cudaGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *found)
{
    return CALL(cuGraphMemAllocNodeGetParams(node, found));
}
EXPORT int cudaGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, void *pointer)
{
    return CALL(cuGraphAddMemFreeNode(node, graph, before, count, DEVICE_POINTER(pointer)));
}
EXPORT int cudaGraphMemFreeNodeGetParams(CUgraphNode node, void *pointer) { return CALL(cuGraphMemFreeNodeGetParams(node, pointer)); }
EXPORT int cudaDeviceGraphMemTrim(int device) { return CALL(cuDeviceGraphMemTrim(device)); }
EXPORT int cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
    return CALL(cuDeviceGetGraphMemAttribute(device, attribute, value));
}
EXPORT int cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
    return CALL(cuDeviceSetGraphMemAttribute(device, attribute, value));
}

/* --------------------------------------------------------------------------------------------------------- user objects */

EXPORT int cudaUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned count, unsigned flags)
{
    return CALL(cuUserObjectCreate(object, data, destroy, count, flags));
}
EXPORT int cudaUserObjectRetain(CUuserObject object, unsigned count) { return CALL(cuUserObjectRetain(object, count)); }
EXPORT int cudaUserObjectRelease(CUuserObject object, unsigned count) { return CALL(cuUserObjectRelease(object, count)); }
EXPORT int cudaGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    return CALL(cuGraphRetainUserObject(graph, object, count, flags));
}
EXPORT int cudaGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count)
{
    return CALL(cuGraphReleaseUserObject(graph, object, count));
}

/* --------------------------------------------------------------------------------------------- numbers, flags and texts */

EXPORT int cudaGraphGetId(CUgraph graph, unsigned *id) { return CALL(cuGraphGetId(graph, id)); }
EXPORT int cudaGraphExecGetId(CUgraphExec executable, unsigned *id) { return CALL(cuGraphExecGetId(executable, id)); }
EXPORT int cudaGraphExecGetFlags(CUgraphExec executable, unsigned long long *flags)
{
    return CALL(cuGraphExecGetFlags(executable, (cuuint64_t *)flags));
}
EXPORT int cudaGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph) { return CALL(cuGraphNodeGetContainingGraph(node, graph)); }
EXPORT int cudaGraphNodeGetLocalId(CUgraphNode node, unsigned *id) { return CALL(cuGraphNodeGetLocalId(node, id)); }
EXPORT int cudaGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id) { return CALL(cuGraphNodeGetToolsId(node, id)); }
EXPORT int cudaGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags)
{
    return CALL(cuGraphDebugDotPrint(graph, path, flags));
}
