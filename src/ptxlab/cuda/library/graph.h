/* Graphs: nodes with operations, made by capture or by hand. */
#ifndef PTXLAB_GRAPH_H
#define PTXLAB_GRAPH_H

#include "internal.h"

struct CUgraphNode_st {
    CUgraph graph;
    CUgraphNodeType type;
    Op *op;              /* of kernels, copies, fills, host functions, memory; null for the others */
    CUevent event;       /* of event nodes */
    CUgraph child;       /* of child graphs: a copy that the node owns */
    CUgraphNode *before; /* what it depends on */
    uint32_t before_count;
    CUgraphNode original; /* of a copy */
    /* What was asked for, to be asked again. */
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUDA_HOST_NODE_PARAMS host;
    CUcontext context; /* of copies and fills */
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    CUdeviceptr released;
    void **parameters; /* of kernels: pointers to the packed bytes */
    unsigned int id;   /* in the graph, from 1 */
    bool disabled;     /* of executable graphs: the node does nothing */
};

struct CUgraph_st {
    CUgraphNode *nodes; /* in the order in which they were made */
    uint32_t count;
    unsigned int id, last_id; /* of the graph, and of its last node */
    struct Held *held;        /* the user objects that it holds references to */
};

/* Null if a handle is no graph or no node. */
CUgraph graph_of(CUgraph handle);
CUgraphNode node_of(CUgraphNode handle);

CUgraph graph_new(void);
void graph_free(CUgraph graph);
/* A copy with the nodes' order; `original` of its nodes says what they are copies of. */
CUgraph graph_copy(CUgraph graph);
/* The nodes such that each stands behind what it depends on; null if there is a cycle. The caller frees the array. */
CUgraphNode *graph_order(CUgraph graph);

/* Add a node. It owns `op`, also if the result is an error. */
CUresult graph_add(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeType type, Op *op);
bool graph_depend(CUgraphNode node, CUgraphNode before);
void node_replace(CUgraphNode node, Op *op);
/* Note what was asked for with a call that a stream has captured. */
void node_describe(CUgraphNode node);

/* The user objects of a graph: a copy holds them too, and a graph that ends holds them no longer. */
bool graph_copy_objects(CUgraph to, CUgraph from);
void graph_drop_objects(CUgraph graph);

/* The node of an executable graph that a node of its graph has become; null if there is none. */
CUgraphNode graph_exec_node(CUgraphExec executable, CUgraphNode node);

/* Make the operation of a node that allocates memory, or releases it: at the same address in each launch. */
CUresult make_graph_memory(Op **op, CUdevice device, size_t size, CUdeviceptr *address);
CUresult make_graph_release(Op **op, CUdeviceptr address);

/* Give a stream what a node does. */
CUresult node_submit(CUgraphNode node, CUstream stream);

#endif
