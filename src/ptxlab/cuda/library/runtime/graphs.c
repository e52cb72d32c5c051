/* Graphs: nodes, instantiation, launches. */
#include "runtime.h"

#define DEPENDENCIES const CUgraphNode *dependencies, size_t count

EXPORT int cudaGraphCreate(CUgraph *graph, unsigned flags) { return CALL(cuGraphCreate(graph, flags)); }
EXPORT int cudaGraphDestroy(CUgraph graph) { return CALL(cuGraphDestroy(graph)); }
EXPORT int cudaGraphClone(CUgraph *clone, CUgraph graph) { return CALL(cuGraphClone(clone, graph)); }
EXPORT int cudaGraphDestroyNode(CUgraphNode node) { return CALL(cuGraphDestroyNode(node)); }
EXPORT int cudaGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) { return CALL(cuGraphNodeGetType(node, type)); }
EXPORT int cudaGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node, CUgraph clone)
{
    return CALL(cuGraphNodeFindInClone(found, node, clone));
}
EXPORT int cudaGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) { return CALL(cuGraphGetNodes(graph, nodes, count)); }
EXPORT int cudaGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    return CALL(cuGraphGetRootNodes(graph, nodes, count));
}

/* ---------------------------------------------------------------------------------------------------------- edges */

#if RUNTIME_MAJOR >= 13
#define WITH_EDGES(name) name
#else
#define WITH_EDGES(name) name##_v2
EXPORT int cudaGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return CALL(cuGraphGetEdges(graph, from, to, count));
}
EXPORT int cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *found, size_t *count)
{
    return CALL(cuGraphNodeGetDependencies(node, found, count));
}
EXPORT int cudaGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *found, size_t *count)
{
    return CALL(cuGraphNodeGetDependentNodes(node, found, count));
}
EXPORT int cudaGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return CALL(cuGraphAddDependencies(graph, from, to, count));
}
EXPORT int cudaGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return CALL(cuGraphRemoveDependencies(graph, from, to, count));
}
#endif

EXPORT int WITH_EDGES(cudaGraphGetEdges)(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    return CALL(cuGraphGetEdges_v2(graph, from, to, edges, count));
}
EXPORT int WITH_EDGES(cudaGraphNodeGetDependencies)(CUgraphNode node, CUgraphNode *found, CUgraphEdgeData *edges, size_t *count)
{
    return CALL(cuGraphNodeGetDependencies_v2(node, found, edges, count));
}
EXPORT int WITH_EDGES(cudaGraphNodeGetDependentNodes)(CUgraphNode node, CUgraphNode *found, CUgraphEdgeData *edges, size_t *count)
{
    return CALL(cuGraphNodeGetDependentNodes_v2(node, found, edges, count));
}
EXPORT int WITH_EDGES(cudaGraphAddDependencies)(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges,
                                                size_t count)
{
    return CALL(cuGraphAddDependencies_v2(graph, from, to, edges, count));
}
EXPORT int WITH_EDGES(cudaGraphRemoveDependencies)(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                                   const CUgraphEdgeData *edges, size_t count)
{
    return CALL(cuGraphRemoveDependencies_v2(graph, from, to, edges, count));
}

/* -------------------------------------------------------------------------------------------------------- kernel nodes */

int convert_kernel(const KernelNode *given, CUDA_KERNEL_NODE_PARAMS *found)
{
    CUkernel kernel;
    if (!given)
        return RUNTIME_INVALID_VALUE;
    int error = find_kernel(given->function, &kernel);
    if (error)
        return error;
    *found = (CUDA_KERNEL_NODE_PARAMS){
        .func = (CUfunction)kernel,
        .gridDimX = given->grid.x,
        .gridDimY = given->grid.y,
        .gridDimZ = given->grid.z,
        .blockDimX = given->block.x,
        .blockDimY = given->block.y,
        .blockDimZ = given->block.z,
        .sharedMemBytes = given->shared_bytes,
        .kernelParams = given->arguments,
        .extra = given->extra,
    };
    return 0;
}

KernelNode kernel_node(const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    return (KernelNode){function_of(kernel->kern ? kernel->kern : (CUkernel)kernel->func),
                        {kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ},
                        {kernel->blockDimX, kernel->blockDimY, kernel->blockDimZ},
                        kernel->sharedMemBytes,
                        kernel->kernelParams,
                        kernel->extra};
}

EXPORT int cudaGraphAddKernelNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, const KernelNode *given)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CHECK(convert_kernel(given, &kernel));
    return record(cuGraphAddKernelNode_v2(node, graph, dependencies, count, &kernel));
}
EXPORT int cudaGraphKernelNodeSetParams(CUgraphNode node, const KernelNode *given)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CHECK(convert_kernel(given, &kernel));
    return record(cuGraphKernelNodeSetParams_v2(node, &kernel));
}
EXPORT int cudaGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const KernelNode *given)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CHECK(convert_kernel(given, &kernel));
    return record(cuGraphExecKernelNodeSetParams_v2(executable, node, &kernel));
}
EXPORT int cudaGraphKernelNodeGetParams(CUgraphNode node, KernelNode *found)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuGraphKernelNodeGetParams_v2(node, &kernel));
    *found = kernel_node(&kernel);
    return 0;
}
EXPORT int cudaGraphKernelNodeSetAttribute(CUgraphNode node, int attribute, const CUkernelNodeAttrValue *value)
{
    return CALL(cuGraphKernelNodeSetAttribute(node, attribute, value));
}
EXPORT int cudaGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, CUkernelNodeAttrValue *value)
{
    return CALL(cuGraphKernelNodeGetAttribute(node, attribute, value));
}

/* ------------------------------------------------------------------------------------------------- copies, fills, others */

static CUcontext context_of_thread(void)
{
    CUcontext context = NULL;
    cuCtxGetCurrent(&context);
    return context;
}

static Copy3D linear_copy(void *to, const void *from, size_t bytes, int kind)
{
    return (Copy3D){
        .source = {(void *)(uintptr_t)from, bytes, bytes, 1}, .target = {to, bytes, bytes, 1}, .extent = {bytes, 1, 1}, .kind = kind};
}

EXPORT int cudaGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, const Copy3D *given)
{
    CUDA_MEMCPY3D shape;
    CHECK(convert_copy(given, &shape));
    return CALL(cuGraphAddMemcpyNode(node, graph, dependencies, count, &shape, context_of_thread()));
}
EXPORT int cudaGraphAddMemcpyNode1D(CUgraphNode *node, CUgraph graph, DEPENDENCIES, void *to, const void *from, size_t bytes, int kind)
{
    Copy3D shape = linear_copy(to, from, bytes, kind);
    return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &shape);
}
EXPORT int cudaGraphMemcpyNodeSetParams(CUgraphNode node, const Copy3D *given)
{
    CUDA_MEMCPY3D shape;
    CHECK(convert_copy(given, &shape));
    return CALL(cuGraphMemcpyNodeSetParams(node, &shape));
}
EXPORT int cudaGraphMemcpyNodeSetParams1D(CUgraphNode node, void *to, const void *from, size_t bytes, int kind)
{
    Copy3D shape = linear_copy(to, from, bytes, kind);
    return cudaGraphMemcpyNodeSetParams(node, &shape);
}
EXPORT int cudaGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const Copy3D *given)
{
    CUDA_MEMCPY3D shape;
    CHECK(convert_copy(given, &shape));
    return CALL(cuGraphExecMemcpyNodeSetParams(executable, node, &shape, context_of_thread()));
}
EXPORT int cudaGraphExecMemcpyNodeSetParams1D(CUgraphExec executable, CUgraphNode node, void *to, const void *from, size_t bytes, int kind)
{
    Copy3D shape = linear_copy(to, from, bytes, kind);
    return cudaGraphExecMemcpyNodeSetParams(executable, node, &shape);
}

static int place_of_symbol(const void *symbol, size_t offset, size_t bytes, char **place)
{
    CUdeviceptr address;
    size_t size;
    int error = find_variable(symbol, &address, &size);
    if (error)
        return error;
    *place = (char *)(uintptr_t)address + offset;
    return offset > size || bytes > size - offset ? RUNTIME_INVALID_VALUE : 0;
}

EXPORT int cudaGraphAddMemcpyNodeToSymbol(CUgraphNode *node, CUgraph graph, DEPENDENCIES, const void *symbol, const void *from,
                                          size_t bytes, size_t offset, int kind)
{
    char *place;
    CHECK(place_of_symbol(symbol, offset, bytes, &place));
    return cudaGraphAddMemcpyNode1D(node, graph, dependencies, count, place, from, bytes, kind);
}
EXPORT int cudaGraphAddMemcpyNodeFromSymbol(CUgraphNode *node, CUgraph graph, DEPENDENCIES, void *to, const void *symbol, size_t bytes,
                                            size_t offset, int kind)
{
    char *place;
    CHECK(place_of_symbol(symbol, offset, bytes, &place));
    return cudaGraphAddMemcpyNode1D(node, graph, dependencies, count, to, place, bytes, kind);
}

static CUDA_MEMSET_NODE_PARAMS convert_fill(const Fill *given)
{
    return (CUDA_MEMSET_NODE_PARAMS){DEVICE_POINTER(given->address), given->pitch, given->value,
                                     given->element_bytes,           given->width, given->height};
}

EXPORT int cudaGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, const Fill *given)
{
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS fill = convert_fill(given);
    return CALL(cuGraphAddMemsetNode(node, graph, dependencies, count, &fill, context_of_thread()));
}
EXPORT int cudaGraphMemsetNodeSetParams(CUgraphNode node, const Fill *given)
{
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS fill = convert_fill(given);
    return CALL(cuGraphMemsetNodeSetParams(node, &fill));
}
EXPORT int cudaGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const Fill *given)
{
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS fill = convert_fill(given);
    return CALL(cuGraphExecMemsetNodeSetParams(executable, node, &fill, context_of_thread()));
}
EXPORT int cudaGraphAddHostNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, const CUDA_HOST_NODE_PARAMS *given)
{
    return CALL(cuGraphAddHostNode(node, graph, dependencies, count, given));
}
EXPORT int cudaGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *given)
{
    return CALL(cuGraphHostNodeSetParams(node, given));
}
EXPORT int cudaGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *given)
{
    return CALL(cuGraphExecHostNodeSetParams(executable, node, given));
}
EXPORT int cudaGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, CUgraph child)
{
    return CALL(cuGraphAddChildGraphNode(node, graph, dependencies, count, child));
}
EXPORT int cudaGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES)
{
    return CALL(cuGraphAddEmptyNode(node, graph, dependencies, count));
}
EXPORT int cudaGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, CUevent event)
{
    return CALL(cuGraphAddEventRecordNode(node, graph, dependencies, count, event));
}
EXPORT int cudaGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, DEPENDENCIES, CUevent event)
{
    return CALL(cuGraphAddEventWaitNode(node, graph, dependencies, count, event));
}

/* -------------------------------------------------------------------------------------------------------- executables */

EXPORT int cudaGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    return CALL(cuGraphInstantiateWithFlags(executable, graph, flags));
}
EXPORT int cudaGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
EXPORT int cudaGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    return CALL(cuGraphInstantiateWithParams(executable, graph, parameters));
}
EXPORT int cudaGraphLaunch(CUgraphExec executable, CUstream stream) { return CALL(cuGraphLaunch(executable, stream)); }
EXPORT int cudaGraphUpload(CUgraphExec executable, CUstream stream) { return CALL(cuGraphUpload(executable, stream)); }
EXPORT int cudaGraphExecDestroy(CUgraphExec executable) { return CALL(cuGraphExecDestroy(executable)); }
EXPORT int cudaGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *result)
{
    return CALL(cuGraphExecUpdate_v2(executable, graph, result));
}

WITH_STREAM(cudaGraphLaunch, (CUgraphExec executable, CUstream stream), (executable, STREAM))
WITH_STREAM(cudaGraphUpload, (CUgraphExec executable, CUstream stream), (executable, STREAM))
