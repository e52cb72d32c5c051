/* Nodes of graphs by one structure for all types: each type has the functions of its own structure. */
#include <string.h>

#include "graph.h"
#include "internal.h"

static bool is_plain(const CUgraphNodeParams *wanted)
{
    static const int nothing[3];
    return wanted && !memcmp(wanted->reserved0, nothing, sizeof nothing) && !wanted->reserved2;
}

CUresult ptxlab_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *data, size_t count,
                                  CUgraphNodeParams *wanted)
{
    (void)data; /* programmatic edges only allow more overlap */
    if (!is_plain(wanted))
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = current_context();
    switch (wanted->type) {
    case NODE_KERNEL:
        return ptxlab_cuGraphAddKernelNode_v2(node, graph, before, count, &wanted->kernel);
    case NODE_COPY:
        context = wanted->memcpy.copyCtx ? wanted->memcpy.copyCtx : context;
        return ptxlab_cuGraphAddMemcpyNode(node, graph, before, count, &wanted->memcpy.copyParams, context);
    case NODE_FILL:
        context = wanted->memset.ctx ? wanted->memset.ctx : context;
        return ptxlab_cuGraphAddMemsetNode(node, graph, before, count, &wanted->memset.params, context);
    case NODE_HOST:
        return ptxlab_cuGraphAddHostNode(node, graph, before, count, &wanted->host);
    case NODE_GRAPH:
        return ptxlab_cuGraphAddChildGraphNode(node, graph, before, count, wanted->graph.graph);
    case NODE_EMPTY:
        return ptxlab_cuGraphAddEmptyNode(node, graph, before, count);
    case NODE_EVENT_WAIT:
        return ptxlab_cuGraphAddEventWaitNode(node, graph, before, count, wanted->event.event);
    case NODE_EVENT_RECORD:
        return ptxlab_cuGraphAddEventRecordNode(node, graph, before, count, wanted->event.event);
    case NODE_ALLOCATE:
        return ptxlab_cuGraphAddMemAllocNode(node, graph, before, count, &wanted->alloc);
    case NODE_RELEASE:
        return ptxlab_cuGraphAddMemFreeNode(node, graph, before, count, wanted->free.dptr);
    default:
        return ptxlab_unsupported("cuGraphAddNode");
    }
}

CUresult ptxlab_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeParams *wanted)
{
    return ptxlab_cuGraphAddNode_v2(node, graph, before, NULL, count, wanted);
}

/* Why parameters are refused for a node: they are not plain, the handle is wrong, or the node is of another type. */
static CUresult refused_for(CUgraphNode node, const CUgraphNodeParams *wanted)
{
    CUgraphNodeType type;
    if (!is_plain(wanted))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = ptxlab_cuGraphNodeGetType(node, &type);
    if (refused)
        return refused;
    return type == wanted->type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *found)
{
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *found = (CUgraphNodeParams){0};
    CUresult refused = ptxlab_cuGraphNodeGetType(node, &found->type);
    if (refused)
        return refused;
    switch (found->type) {
    case NODE_KERNEL:
        return ptxlab_cuGraphKernelNodeGetParams_v2(node, &found->kernel);
    case NODE_COPY:
        found->memcpy.copyCtx = node->context;
        return ptxlab_cuGraphMemcpyNodeGetParams(node, &found->memcpy.copyParams);
    case NODE_FILL:
        found->memset.ctx = node->context;
        return ptxlab_cuGraphMemsetNodeGetParams(node, &found->memset.params);
    case NODE_HOST:
        return ptxlab_cuGraphHostNodeGetParams(node, &found->host);
    case NODE_GRAPH:
        return ptxlab_cuGraphChildGraphNodeGetGraph(node, &found->graph.graph);
    case NODE_EMPTY:
        return CUDA_SUCCESS;
    case NODE_EVENT_WAIT:
        return ptxlab_cuGraphEventWaitNodeGetEvent(node, &found->event.event);
    case NODE_EVENT_RECORD:
        return ptxlab_cuGraphEventRecordNodeGetEvent(node, &found->event.event);
    case NODE_ALLOCATE:
        return ptxlab_cuGraphMemAllocNodeGetParams(node, &found->alloc);
    case NODE_RELEASE:
        return ptxlab_cuGraphMemFreeNodeGetParams(node, &found->free.dptr);
    default:
        return ptxlab_unsupported("cuGraphNodeGetParams");
    }
}

CUresult ptxlab_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *wanted)
{
    CUresult refused = refused_for(node, wanted);
    if (refused)
        return refused;
    switch (wanted->type) {
    case NODE_KERNEL:
        return ptxlab_cuGraphKernelNodeSetParams_v2(node, &wanted->kernel);
    case NODE_COPY:
        return ptxlab_cuGraphMemcpyNodeSetParams(node, &wanted->memcpy.copyParams);
    case NODE_FILL:
        return ptxlab_cuGraphMemsetNodeSetParams(node, &wanted->memset.params);
    case NODE_HOST:
        return ptxlab_cuGraphHostNodeSetParams(node, &wanted->host);
    case NODE_EVENT_WAIT:
        return ptxlab_cuGraphEventWaitNodeSetEvent(node, wanted->event.event);
    case NODE_EVENT_RECORD:
        return ptxlab_cuGraphEventRecordNodeSetEvent(node, wanted->event.event);
    default:
        return ptxlab_unsupported("cuGraphNodeSetParams");
    }
}

CUresult ptxlab_cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *wanted)
{
    CUresult refused = refused_for(node, wanted);
    if (refused)
        return refused;
    CUcontext context = current_context();
    switch (wanted->type) {
    case NODE_KERNEL:
        return ptxlab_cuGraphExecKernelNodeSetParams_v2(executable, node, &wanted->kernel);
    case NODE_COPY:
        context = wanted->memcpy.copyCtx ? wanted->memcpy.copyCtx : context;
        return ptxlab_cuGraphExecMemcpyNodeSetParams(executable, node, &wanted->memcpy.copyParams, context);
    case NODE_FILL:
        context = wanted->memset.ctx ? wanted->memset.ctx : context;
        return ptxlab_cuGraphExecMemsetNodeSetParams(executable, node, &wanted->memset.params, context);
    case NODE_HOST:
        return ptxlab_cuGraphExecHostNodeSetParams(executable, node, &wanted->host);
    case NODE_GRAPH:
        return ptxlab_cuGraphExecChildGraphNodeSetParams(executable, node, wanted->graph.graph);
    case NODE_EVENT_WAIT:
        return ptxlab_cuGraphExecEventWaitNodeSetEvent(executable, node, wanted->event.event);
    case NODE_EVENT_RECORD:
        return ptxlab_cuGraphExecEventRecordNodeSetEvent(executable, node, wanted->event.event);
    default:
        return ptxlab_unsupported("cuGraphExecNodeSetParams");
    }
}
