/* Nodes of graphs that record events and wait for them. */
#include "graph.h"

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event, CUgraphNodeType type)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = graph_add(node, graph, before, count, type, NULL);
    if (!refused)
        (*node)->event = event;
    return refused;
}

CUresult ptxlab_cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event)
{
    return add_event(node, graph, before, count, event, NODE_EVENT_RECORD);
}

CUresult ptxlab_cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUevent event)
{
    return add_event(node, graph, before, count, event, NODE_EVENT_WAIT);
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *event)
{
    if (!event || !node_of(node) || node->type != type)
        return CUDA_ERROR_INVALID_VALUE;
    *event = node->event;
    return CUDA_SUCCESS;
}

/* The node may be null: that of an executable graph which has none for the node that was given. */
static CUresult set_event(CUgraphNode node, CUgraphNodeType type, CUevent event)
{
    if (!node || node->type != type || !handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    node->event = event;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) { return get_event(node, NODE_EVENT_RECORD, event); }

CUresult ptxlab_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) { return get_event(node, NODE_EVENT_WAIT, event); }

CUresult ptxlab_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) { return set_event(node_of(node), NODE_EVENT_RECORD, event); }

CUresult ptxlab_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) { return set_event(node_of(node), NODE_EVENT_WAIT, event); }

CUresult ptxlab_cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return set_event(graph_exec_node(executable, node), NODE_EVENT_RECORD, event);
}

CUresult ptxlab_cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return set_event(graph_exec_node(executable, node), NODE_EVENT_WAIT, event);
}
