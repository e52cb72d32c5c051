/* Executable graphs: a copy of a graph, given to a stream in an order that its edges permit. */
#include <stdlib.h>

#include "graph.h"

enum { FREE_ON_LAUNCH = 1, UPLOAD = 2, NODE_PRIORITY = 8 };
enum { UPDATE_TOPOLOGY_CHANGED = 2, UPDATE_TYPE_CHANGED = 3 };

struct CUgraphExec_st {
    CUgraph graph; /* its nodes' `original` are those of the graph that it was made from */
    CUgraphNode *order;
    Clock clock; /* of its last launch, which the next one comes after */
};

static CUgraphExec exec_of(CUgraphExec handle) { return handle_is(handle, HANDLE_GRAPH_EXEC) ? handle : NULL; }

static void release(CUgraphExec executable)
{
    if (executable->graph)
        graph_free(executable->graph);
    free(executable->order);
    handle_free(executable);
}

CUgraphNode graph_exec_node(CUgraphExec executable, CUgraphNode node)
{
    if (!exec_of(executable))
        return NULL;
    for (uint32_t i = 0; i < executable->graph->count; i++)
        if (executable->graph->nodes[i]->original == node)
            return executable->graph->nodes[i];
    return NULL;
}

static CUresult instantiate(CUgraphExec *made, CUgraph graph)
{
    if (!made || !graph_of(graph))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec executable = handle_new(HANDLE_GRAPH_EXEC, sizeof *executable);
    if (!executable)
        return CUDA_ERROR_OUT_OF_MEMORY;
    executable->graph = graph_copy(graph);
    executable->order = executable->graph ? graph_order(executable->graph) : NULL;
    if (!executable->order) {
        CUresult result = executable->graph ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
        release(executable);
        return result;
    }
    *made = executable;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long flags)
{
    return flags & ~(unsigned long long)(FREE_ON_LAUNCH | NODE_PRIORITY) ? CUDA_ERROR_INVALID_VALUE : instantiate(made, graph);
}

CUresult ptxlab_cuGraphInstantiateWithParams(CUgraphExec *made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *wanted)
{
    if (!wanted || wanted->flags & ~(cuuint64_t)(FREE_ON_LAUNCH | UPLOAD | NODE_PRIORITY))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(made, graph);
    wanted->result_out = result ? 1 : 0;
    wanted->hErrNode_out = NULL;
    return result;
}

CUresult ptxlab_cuGraphExecDestroy(CUgraphExec executable)
{
    if (!exec_of(executable))
        return CUDA_ERROR_INVALID_VALUE;
    release(executable);
    return CUDA_SUCCESS;
}

static CUresult submit_all(CUgraph graph, CUgraphNode *order, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < graph->count && !result; i++)
        result = node_submit(order[i], stream);
    return result;
}

CUresult node_submit(CUgraphNode node, CUstream stream)
{
    if (node->disabled)
        return CUDA_SUCCESS;
    if (node->type == NODE_EVENT_RECORD)
        return ptxlab_cuEventRecord(node->event, stream);
    if (node->type == NODE_EVENT_WAIT)
        return ptxlab_cuStreamWaitEvent(stream, node->event, 0);
    if (node->child) {
        CUgraphNode *order = graph_order(node->child);
        CUresult result = order ? submit_all(node->child, order, stream) : CUDA_ERROR_INVALID_VALUE;
        free(order);
        return result;
    }
    if (!node->op)
        return CUDA_SUCCESS;
    Op *op = op_copy(node->op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return node->type == NODE_KERNEL ? submit_and_linger(stream, op) : submit(stream, op);
}

CUresult ptxlab_cuGraphLaunch(CUgraphExec executable, CUstream handle)
{
    if (!exec_of(executable))
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    lock();
    order_wait(stream, &executable->clock);
    unlock();
    CUresult result = submit_all(executable->graph, executable->order, stream);
    lock();
    executable->clock = stream->clock;
    unlock();
    return result;
}

CUresult ptxlab_cuGraphUpload(CUgraphExec executable, CUstream handle)
{
    if (!exec_of(executable))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ptxlab_cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t *flags)
{
    if (!exec_of(executable) || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphExecGetId(CUgraphExec executable, unsigned int *id)
{
    if (!exec_of(executable) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = executable->graph->id;
    return CUDA_SUCCESS;
}

/* Only nodes that run on the device can be switched off. */
static CUgraphNode switchable(CUgraphExec executable, CUgraphNode node)
{
    CUgraphNode found = graph_exec_node(executable, node);
    return found && (found->type == NODE_KERNEL || found->type == NODE_COPY || found->type == NODE_FILL) ? found : NULL;
}

CUresult ptxlab_cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned int enabled)
{
    CUgraphNode found = switchable(executable, node);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    found->disabled = !enabled;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned int *enabled)
{
    CUgraphNode found = switchable(executable, node);
    if (!found || !enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = !found->disabled;
    return CUDA_SUCCESS;
}

/* The graphs have the same shape: nodes pair up in the order in which they were made. */
CUresult ptxlab_cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    if (!exec_of(executable) || !graph_of(graph) || !info)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){0};
    CUgraph own = executable->graph;
    if (own->count != graph->count)
        info->result = UPDATE_TOPOLOGY_CHANGED;
    for (uint32_t i = 0; i < graph->count && !info->result; i++) {
        if (own->nodes[i]->before_count != graph->nodes[i]->before_count)
            info->result = UPDATE_TOPOLOGY_CHANGED;
        else if (own->nodes[i]->type != graph->nodes[i]->type)
            info->result = UPDATE_TYPE_CHANGED;
        if (info->result)
            info->errorNode = graph->nodes[i];
    }
    if (info->result)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    CUgraphExec made;
    CUresult result = instantiate(&made, graph);
    if (result)
        return result;
    for (uint32_t i = 0; i < graph->count; i++)
        made->graph->nodes[i]->original = own->nodes[i]->original;
    struct CUgraphExec_st taken = *made;
    *made = *executable;
    *executable = taken;
    release(made);
    return CUDA_SUCCESS;
}
