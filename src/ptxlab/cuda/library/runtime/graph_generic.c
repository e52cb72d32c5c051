/* Nodes of graphs by one structure for all types, and what copies and fills of nodes hold. */
#include <string.h>

#include "runtime.h"

typedef struct {
    int type, reserved0[3];
    union {
        long long reserved1[29];
        struct {
            KernelNode kernel;
            void *context;
            int handle_type; /* what programs of CUDA 13.2 and later read */
        } kernel;
        struct {
            int flags, reserved;
            void *context;
            Copy3D copy;
        } memcpy;
        Fill memset;
    };
    long long reserved2;
} NodeParams;

enum { HOST_FUNCTION = 1, KERNEL_HANDLE };

_Static_assert(sizeof(NodeParams) == sizeof(CUgraphNodeParams), "layout of nodes");

/* Kernels and copies have structures of their own, all other types those of the driver. */
static int convert(const NodeParams *given, CUgraphNodeParams *found)
{
    if (!given)
        return RUNTIME_INVALID_VALUE;
    int error = ready();
    memcpy(found, given, sizeof *found);
    if (error)
        return error;
    switch (given->type) {
    case NODE_KERNEL:
        return convert_kernel(&given->kernel.kernel, &found->kernel);
    case NODE_COPY:
        found->memcpy.copyCtx = NULL;
        return convert_copy(&given->memcpy.copy, &found->memcpy.copyParams);
    case NODE_FILL:
        found->memset.ctx = NULL;
        return 0;
    default:
        return 0;
    }
}

static int add(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count, NodeParams *given)
{
    CUgraphNodeParams wanted;
    CHECK(convert(given, &wanted));
    CHECK(cuGraphAddNode_v2(node, graph, before, edges, count, &wanted));
    if (wanted.type == NODE_ALLOCATE)
        memcpy(given, &wanted, sizeof wanted); /* with the address */
    return 0;
}

#if RUNTIME_MAJOR >= 13
EXPORT int cudaGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                            NodeParams *given)
{
    return add(node, graph, before, edges, count, given);
}
#else
EXPORT int cudaGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, NodeParams *given)
{
    return add(node, graph, before, NULL, count, given);
}
EXPORT int cudaGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
                               NodeParams *given)
{
    return add(node, graph, before, edges, count, given);
}
#endif

EXPORT int cudaGraphNodeSetParams(CUgraphNode node, const NodeParams *given)
{
    CUgraphNodeParams wanted;
    CHECK(convert(given, &wanted));
    return record(cuGraphNodeSetParams(node, &wanted));
}
EXPORT int cudaGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, const NodeParams *given)
{
    CUgraphNodeParams wanted;
    CHECK(convert(given, &wanted));
    return record(cuGraphExecNodeSetParams(executable, node, &wanted));
}

/* ------------------------------------------------------------------------------------------------ what nodes hold */

EXPORT int cudaGraphNodeGetParams(CUgraphNode node, NodeParams *found)
{
    CUgraphNodeParams held;
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuGraphNodeGetParams(node, &held));
    memcpy(found, &held, sizeof held);
    if (held.type == NODE_KERNEL) {
        memset(found->reserved1, 0, sizeof found->reserved1);
        found->kernel.kernel = kernel_node(&held.kernel);
        found->kernel.handle_type = found->kernel.kernel.function == (const void *)held.kernel.func ? KERNEL_HANDLE : HOST_FUNCTION;
    } else if (held.type == NODE_COPY) {
        memset(found->reserved1, 0, sizeof found->reserved1);
        found->memcpy.copy = copy_node(&held.memcpy.copyParams);
    } else if (held.type == NODE_FILL) {
        ((CUgraphNodeParams *)found)->memset.ctx = NULL;
    }
    return 0;
}
EXPORT int cudaGraphMemcpyNodeGetParams(CUgraphNode node, Copy3D *found)
{
    CUDA_MEMCPY3D shape;
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuGraphMemcpyNodeGetParams(node, &shape));
    *found = copy_node(&shape);
    return 0;
}
EXPORT int cudaGraphMemsetNodeGetParams(CUgraphNode node, Fill *found)
{
    CUDA_MEMSET_NODE_PARAMS fill;
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuGraphMemsetNodeGetParams(node, &fill));
    *found = (Fill){(void *)(uintptr_t)fill.dst, fill.pitch, fill.value, fill.elementSize, fill.width, fill.height};
    return 0;
}
