/* Graphs: making and taking apart, questions about nodes and edges. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

CUgraph graph_of(CUgraph handle) { return handle_is(handle, HANDLE_GRAPH) ? handle : NULL; }

CUgraphNode node_of(CUgraphNode handle) { return handle_is(handle, HANDLE_GRAPH_NODE) ? handle : NULL; }

CUgraph graph_new(void)
{
    static _Atomic unsigned int last;
    CUgraph made = handle_new(HANDLE_GRAPH, sizeof *made);
    if (made)
        made->id = ++last;
    return made;
}

static void node_free(CUgraphNode node)
{
    if (node->op)
        op_free(node->op);
    if (node->child)
        graph_free(node->child);
    free(node->before);
    free(node->parameters);
    handle_free(node);
}

void graph_free(CUgraph graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    free(graph->nodes);
    graph_drop_objects(graph);
    handle_free(graph);
}

bool graph_depend(CUgraphNode node, CUgraphNode before)
{
    for (uint32_t i = 0; i < node->before_count; i++)
        if (node->before[i] == before)
            return true;
    CUgraphNode *grown = realloc(node->before, (node->before_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    grown[node->before_count++] = before;
    node->before = grown;
    return true;
}

CUresult graph_add(CUgraphNode *into, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeType type, Op *op)
{
    CUresult result = CUDA_SUCCESS;
    if (!into || !graph_of(graph) || (count && !before))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        if (!node_of(before[i]) || before[i]->graph != graph)
            result = CUDA_ERROR_INVALID_VALUE;
    CUgraphNode node = result ? NULL : handle_new(HANDLE_GRAPH_NODE, sizeof *node);
    CUgraphNode *grown = node ? realloc(graph->nodes, (graph->count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        if (node)
            handle_free(node);
        if (op)
            op_free(op);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    graph->nodes = grown;
    graph->nodes[graph->count++] = node;
    node->graph = graph;
    node->id = ++graph->last_id;
    node->type = type;
    node->op = op;
    for (size_t i = 0; i < count; i++)
        if (!graph_depend(node, before[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    *into = node;
    return result;
}

void node_replace(CUgraphNode node, Op *op)
{
    if (node->op)
        op_free(node->op);
    node->op = op;
    free(node->parameters);
    node->parameters = NULL;
}

static CUgraphNode copy_of(CUgraph graph, CUgraphNode original)
{
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->original == original)
            return graph->nodes[i];
    return NULL;
}

static bool copy_node(CUgraph made, CUgraphNode from)
{
    CUgraphNode node;
    Op *op = from->op ? op_copy(from->op) : NULL;
    if ((from->op && !op) || graph_add(&node, made, NULL, 0, from->type, op))
        return false;
    node->original = from;
    node->event = from->event;
    node->copy = from->copy;
    node->fill = from->fill;
    node->host = from->host;
    node->context = from->context;
    node->allocation = from->allocation;
    node->released = from->released;
    node->id = from->id;
    node->disabled = from->disabled;
    node->child = from->child ? graph_copy(from->child) : NULL;
    return !from->child || node->child;
}

CUgraph graph_copy(CUgraph graph)
{
    CUgraph made = graph_new();
    bool copied = made && graph_copy_objects(made, graph);
    for (uint32_t i = 0; i < graph->count && copied; i++)
        copied = copy_node(made, graph->nodes[i]);
    for (uint32_t i = 0; i < graph->count && copied; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->before_count && copied; j++)
            copied = graph_depend(made->nodes[i], copy_of(made, graph->nodes[i]->before[j]));
    if (!copied && made)
        graph_free(made);
    return copied ? made : NULL;
}

static bool holds(CUgraphNode *nodes, uint32_t count, CUgraphNode wanted)
{
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i] == wanted)
            return true;
    return false;
}

CUgraphNode *graph_order(CUgraph graph)
{
    CUgraphNode *order = malloc((graph->count + 1) * sizeof *order);
    uint32_t placed = 0;
    for (bool moved = true; order && moved && placed < graph->count;) {
        moved = false;
        for (uint32_t i = 0; i < graph->count; i++) {
            CUgraphNode node = graph->nodes[i];
            bool ready = !holds(order, placed, node);
            for (uint32_t j = 0; j < node->before_count && ready; j++)
                ready = holds(order, placed, node->before[j]);
            if (ready) {
                order[placed++] = node;
                moved = true;
            }
        }
    }
    if (placed == graph->count)
        return order;
    free(order);
    return NULL;
}

/* ------------------------------------------------------------------ functions of the driver API */

CUresult ptxlab_cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph made = graph_new();
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphDestroy(CUgraph graph)
{
    if (!graph_of(graph))
        return CUDA_ERROR_INVALID_VALUE;
    graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphClone(CUgraph *made, CUgraph graph)
{
    if (!made || !graph_of(graph))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = graph_copy(graph);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = copy;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph graph)
{
    if (!found || !node_of(original) || !graph_of(graph))
        return CUDA_ERROR_INVALID_VALUE;
    *found = copy_of(graph, original);
    return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Store what was found: as many as there is room for, and the number of all if there is no room. */
static CUresult give(CUgraphNode *nodes, size_t *count, const CUgraphNode *found, size_t number)
{
    if (nodes)
        for (size_t i = 0; i < *count; i++)
            nodes[i] = i < number ? found[i] : NULL;
    if (!nodes || *count > number)
        *count = number;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    if (!graph_of(graph) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    return give(nodes, count, graph->nodes, graph->count);
}

CUresult ptxlab_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    if (!graph_of(graph) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode *roots = malloc((graph->count + 1) * sizeof *roots);
    if (!roots)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t number = 0;
    for (uint32_t i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->before_count)
            roots[number++] = graph->nodes[i];
    give(nodes, count, roots, number);
    free(roots);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
    if (!graph_of(graph) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t number = 0;
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t j = 0; j < graph->nodes[i]->before_count; j++, number++)
            if (from && to && number < *count) {
                from[number] = graph->nodes[i]->before[j];
                to[number] = graph->nodes[i];
                if (data)
                    data[number] = (CUgraphEdgeData){0};
            }
    if (!from || !to || *count > number)
        *count = number;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return ptxlab_cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult ptxlab_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    if (!node_of(node) || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count)
{
    if (!node_of(node) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (data)
        memset(data, 0, *count * sizeof *data);
    return give(nodes, count, node->before, node->before_count);
}

CUresult ptxlab_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return ptxlab_cuGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

CUresult ptxlab_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count)
{
    if (!node_of(node) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = node->graph;
    CUgraphNode *after = malloc((graph->count + 1) * sizeof *after);
    if (!after)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t number = 0;
    for (uint32_t i = 0; i < graph->count; i++)
        if (holds(graph->nodes[i]->before, graph->nodes[i]->before_count, node))
            after[number++] = graph->nodes[i];
    if (data)
        memset(data, 0, *count * sizeof *data);
    give(nodes, count, after, number);
    free(after);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return ptxlab_cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

static bool are_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    bool fit = graph_of(graph) && (!count || (from && to));
    for (size_t i = 0; i < count && fit; i++)
        fit = node_of(from[i]) && node_of(to[i]) && from[i]->graph == graph && to[i]->graph == graph && from[i] != to[i];
    return fit;
}

CUresult ptxlab_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
                                          size_t count)
{
    (void)data; /* programmatic edges only allow more overlap */
    if (!are_edges(graph, from, to, count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!graph_depend(to[i], from[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return ptxlab_cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

static bool independ(CUgraphNode node, CUgraphNode before)
{
    for (uint32_t i = 0; i < node->before_count; i++)
        if (node->before[i] == before) {
            memmove(node->before + i, node->before + i + 1, (--node->before_count - i) * sizeof *node->before);
            return true;
        }
    return false;
}

CUresult ptxlab_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
                                             size_t count)
{
    (void)data;
    if (!are_edges(graph, from, to, count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!independ(to[i], from[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return ptxlab_cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

CUresult ptxlab_cuGraphDestroyNode(CUgraphNode node)
{
    if (!node_of(node))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = node->graph;
    for (uint32_t i = 0; i < graph->count; i++)
        independ(graph->nodes[i], node);
    for (uint32_t i = 0; i < graph->count; i++)
        if (graph->nodes[i] == node) {
            memmove(graph->nodes + i, graph->nodes + i + 1, (--graph->count - i) * sizeof *graph->nodes);
            break;
        }
    node_free(node);
    return CUDA_SUCCESS;
}
