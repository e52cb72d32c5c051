/* Numbers of graphs and nodes, and the text of a graph for Graphviz. */
#include <stdio.h>

#include "graph.h"

CUresult ptxlab_cuGraphGetId(CUgraph graph, unsigned int *id)
{
    if (!graph_of(graph) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = graph->id;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph)
{
    if (!node_of(node) || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = node->graph;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *id)
{
    if (!node_of(node) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = node->id;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id)
{
    if (!node_of(node) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = (unsigned long long)node->graph->id << 32 | node->id;
    return CUDA_SUCCESS;
}

static const char *title(CUgraphNode node)
{
    static const char *const titles[] = {"KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "WAIT_EVENT", "EVENT_RECORD"};
    CUDA_KERNEL_NODE_PARAMS kernel;
    unsigned char *packed;
    if (node->type == NODE_KERNEL) {
        describe_launch(node->op, &kernel, &packed);
        return kernel.func->name;
    }
    return node->type == NODE_ALLOCATE ? "MEM_ALLOC" : node->type == NODE_RELEASE ? "MEM_FREE" : titles[node->type];
}

CUresult ptxlab_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    (void)flags; /* they ask for more */
    FILE *file = graph_of(graph) && path ? fopen(path, "w") : NULL;
    if (!file)
        return CUDA_ERROR_INVALID_VALUE;
    fprintf(file, "digraph graph_%u {\n", graph->id);
    for (uint32_t i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        fprintf(file, "  node_%u [label=\"%s\"];\n", node->id, title(node));
        for (uint32_t j = 0; j < node->before_count; j++)
            fprintf(file, "  node_%u -> node_%u;\n", node->before[j]->id, node->id);
    }
    fprintf(file, "}\n");
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
