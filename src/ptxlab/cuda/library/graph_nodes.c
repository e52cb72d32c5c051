/* Nodes of graphs by hand: what they do, and changes of that in graphs and in executable graphs. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ------------------------------------------------------------------ kernels */

static CUresult kernel_op(Op **op, const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction function = wanted->func ? wanted->func : (CUfunction)wanted->kern;
    CUlaunchConfig config = {wanted->gridDimX,  wanted->gridDimY, wanted->gridDimZ, wanted->blockDimX, wanted->blockDimY, wanted->blockDimZ,
                             wanted->sharedMemBytes, NULL, NULL, 0};
    CUresult refused = make_launch(op, &config, function, wanted->kernelParams, wanted->extra);
    return refused && refused != CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : refused;
}

CUresult ptxlab_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    Op *op;
    CUresult refused = kernel_op(&op, wanted);
    return refused ? refused : graph_add(node, graph, before, count, NODE_KERNEL, op);
}

/* The pointers that a program is given point to the packed parameters of the node. */
CUresult ptxlab_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *found)
{
    unsigned char *packed;
    Kernel *kernel;
    if (!found || !node_of(node) || node->type != NODE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    describe_launch(node->op, found, &packed);
    CUresult refused = kernel_of(found->func, &kernel);
    if (refused)
        return refused;
    uint32_t count = kernel->info.parameter_count;
    if (!node->parameters && !(node->parameters = calloc(count + 1, sizeof *node->parameters)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        node->parameters[i] = packed + kernel->info.parameters[2 * i];
    found->kernelParams = node->parameters;
    return CUDA_SUCCESS;
}

static void copy_attributes(Op *to, Op *from)
{
    CUlaunchAttributeID copied[] = {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        CUlaunchAttributeValue value;
        launch_attribute(from, copied[i], &value, false);
        launch_attribute(to, copied[i], &value, true);
    }
}

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    Op *op;
    if (!node || node->type != NODE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_op(&op, wanted);
    if (refused)
        return refused;
    copy_attributes(op, node->op);
    node_replace(node, op);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    return set_kernel(node_of(node), wanted);
}

CUresult ptxlab_cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *wanted)
{
    return set_kernel(graph_exec_node(executable, node), wanted);
}

CUresult ptxlab_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID id, const CUkernelNodeAttrValue *value)
{
    CUlaunchAttributeValue given;
    if (!node_of(node) || node->type != NODE_KERNEL || !value)
        return CUDA_ERROR_INVALID_VALUE;
    given = *value;
    launch_attribute(node->op, id, &given, true);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id, CUkernelNodeAttrValue *value)
{
    if (!node_of(node) || node->type != NODE_KERNEL || !value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    launch_attribute(node->op, id, value, false);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    if (!node_of(to) || !node_of(from) || to->type != NODE_KERNEL || from->type != NODE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    copy_attributes(to->op, from->op);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ copies and fills */

static CUresult copy_op(Op **op, const CUDA_MEMCPY3D *wanted, CUcontext context)
{
    return wanted ? make_copy(op, wanted, context) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_MEMCPY3D *wanted,
                                     CUcontext context)
{
    Op *op;
    CUresult refused = copy_op(&op, wanted, context);
    refused = refused ? refused : graph_add(node, graph, before, count, NODE_COPY, op);
    if (!refused) {
        (*node)->copy = *wanted;
        (*node)->context = context;
    }
    return refused;
}

CUresult ptxlab_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *found)
{
    if (!found || !node_of(node) || node->type != NODE_COPY)
        return CUDA_ERROR_INVALID_VALUE;
    *found = node->copy;
    return CUDA_SUCCESS;
}

static CUresult set_copy(CUgraphNode node, const CUDA_MEMCPY3D *wanted, CUcontext context)
{
    Op *op;
    if (!node || node->type != NODE_COPY)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = copy_op(&op, wanted, context);
    if (refused)
        return refused;
    node_replace(node, op);
    node->copy = *wanted;
    node->context = context ? context : node->context;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *wanted) { return set_copy(node_of(node), wanted, NULL); }

CUresult ptxlab_cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *wanted, CUcontext context)
{
    return set_copy(graph_exec_node(executable, node), wanted, context);
}

static CUresult fill_op(Op **op, const CUDA_MEMSET_NODE_PARAMS *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    return make_fill(op, wanted->dst, wanted->pitch, wanted->value, wanted->elementSize, wanted->width, wanted->height);
}

CUresult ptxlab_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *wanted, CUcontext context)
{
    Op *op;
    CUresult refused = fill_op(&op, wanted);
    refused = refused ? refused : graph_add(node, graph, before, count, NODE_FILL, op);
    if (!refused) {
        (*node)->fill = *wanted;
        (*node)->context = context;
    }
    return refused;
}

CUresult ptxlab_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *found)
{
    if (!found || !node_of(node) || node->type != NODE_FILL)
        return CUDA_ERROR_INVALID_VALUE;
    *found = node->fill;
    return CUDA_SUCCESS;
}

static CUresult set_fill(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *wanted, CUcontext context)
{
    Op *op;
    if (!node || node->type != NODE_FILL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = fill_op(&op, wanted);
    if (refused)
        return refused;
    node_replace(node, op);
    node->fill = *wanted;
    node->context = context ? context : node->context;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *wanted) { return set_fill(node_of(node), wanted, NULL); }

CUresult ptxlab_cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *wanted,
                                               CUcontext context)
{
    return set_fill(graph_exec_node(executable, node), wanted, context);
}

/* ------------------------------------------------------------------ host functions */

CUresult ptxlab_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *wanted)
{
    Op *op;
    if (!wanted || !wanted->fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = make_host_call(&op, wanted->fn, wanted->userData);
    refused = refused ? refused : graph_add(node, graph, before, count, NODE_HOST, op);
    if (!refused)
        (*node)->host = *wanted;
    return refused;
}

CUresult ptxlab_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *found)
{
    if (!found || !node_of(node) || node->type != NODE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *found = node->host;
    return CUDA_SUCCESS;
}

static CUresult set_host(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *wanted)
{
    Op *op;
    if (!node || node->type != NODE_HOST || !wanted || !wanted->fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = make_host_call(&op, wanted->fn, wanted->userData);
    if (refused)
        return refused;
    node_replace(node, op);
    node->host = *wanted;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *wanted) { return set_host(node_of(node), wanted); }

CUresult ptxlab_cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *wanted)
{
    return set_host(graph_exec_node(executable, node), wanted);
}

/* ------------------------------------------------------------------ nodes without an operation */

CUresult ptxlab_cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count)
{
    return graph_add(node, graph, before, count, NODE_EMPTY, NULL);
}

CUresult ptxlab_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child)
{
    if (!graph_of(child))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = graph_add(node, graph, before, count, NODE_GRAPH, NULL);
    if (refused)
        return refused;
    (*node)->child = graph_copy(child);
    return (*node)->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ptxlab_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    if (!child || !node_of(node) || !node->child)
        return CUDA_ERROR_INVALID_VALUE;
    *child = node->child;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child)
{
    CUgraphNode found = graph_exec_node(executable, node);
    if (!found || !found->child || !graph_of(child) || child->count != found->child->count)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = graph_copy(child);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph_free(found->child);
    found->child = copy;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ calls that were captured */

void node_describe(CUgraphNode node)
{
    node->context = current_context();
    if (node->type == NODE_COPY)
        describe_copy(node->op, &node->copy);
    else if (node->type == NODE_FILL)
        describe_fill(node->op, &node->fill);
    else if (node->type == NODE_HOST)
        describe_host_call(node->op, &node->host);
}
