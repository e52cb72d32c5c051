/* Nodes of graphs that allocate memory and release it. */
#include "graph.h"

enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1 };

CUresult ptxlab_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    Op *op;
    if (!node || !graph_of(graph) || !wanted || !wanted->bytesize || wanted->poolProps.allocType != TYPE_PINNED ||
        wanted->poolProps.location.type != LOCATION_DEVICE || !is_device(wanted->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = make_graph_memory(&op, wanted->poolProps.location.id, wanted->bytesize, &wanted->dptr);
    refused = refused ? refused : graph_add(node, graph, before, count, NODE_ALLOCATE, op);
    if (!refused)
        (*node)->allocation = *wanted;
    return refused;
}

CUresult ptxlab_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *found)
{
    if (!found || !node_of(node) || node->type != NODE_ALLOCATE)
        return CUDA_ERROR_INVALID_VALUE;
    *found = node->allocation;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUdeviceptr address)
{
    Op *op;
    CUresult refused = node && graph_of(graph) ? make_graph_release(&op, address) : CUDA_ERROR_INVALID_VALUE;
    refused = refused ? refused : graph_add(node, graph, before, count, NODE_RELEASE, op);
    if (!refused)
        (*node)->released = address;
    return refused;
}

CUresult ptxlab_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address)
{
    if (!address || !node_of(node) || node->type != NODE_RELEASE)
        return CUDA_ERROR_INVALID_VALUE;
    *address = node->released;
    return CUDA_SUCCESS;
}
