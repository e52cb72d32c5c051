/* Graphs: by capture and by hand. */
#include <string.h>

#include "sequences.h"

static CUfunction kernel;
static CUdeviceptr memory;
static CUstream stream;
static unsigned int one = 1;
static void *parameters[] = {&memory, &one};

static void prepare(void) {
    start();
    kernel = load_kernel("add");
    memory = allocate(64);
    SETUP(cuMemsetD32_v2, memory, 0, (size_t)16);
    SETUP(cuStreamCreate, &stream, 1);
}

static void print_word(int index) {
    unsigned int found = 0;
    SETUP(cuCtxSynchronize);
    SETUP(cuMemcpyDtoH_v2, &found, memory + 4 * (unsigned int)index, (size_t)4);
    value("word", found);
}

static int launch_on(CUstream where) { return CALL(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, where, parameters, NULL); }

static void capture(const long *mode) {
    CUgraph graph = 0;
    CUgraphExec executable = 0;
    int status = 99;
    size_t count = 99, edges = 99;
    prepare();
    if (CALL(cuStreamBeginCapture_v2, stream, (int)*mode) == 0) {
        CALL(cuStreamIsCapturing, stream, &status);
        value("status", status);
        launch_on(stream);
        CALL(cuMemsetD32Async, memory + 4, 9, (size_t)1, stream);
        launch_on(stream);
        CALL(cuStreamEndCapture, stream, &graph);
        print_word(0);
        CALL(cuGraphGetNodes, graph, NULL, &count);
        value("nodes", (long long)count);
        CALL(cuGraphGetEdges_v2, graph, NULL, NULL, NULL, &edges);
        value("edges", (long long)edges);
        CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
        CALL(cuGraphUpload, executable, stream);
        CALL(cuGraphLaunch, executable, stream);
        CALL(cuGraphLaunch, executable, stream);
        print_word(0);
        print_word(1);
        CALL(cuGraphDestroy, graph);
        CALL(cuGraphLaunch, executable, stream);
        print_word(0);
        CALL(cuGraphExecDestroy, executable);
    }
}

static void refused_in_capture(const long *p) {
    CUgraph graph = 0;
    CUdeviceptr address = 0;
    CUevent event = 0;
    CUstream other = 0;
    char host[64];
    int status = 99;
    prepare();
    SETUP(cuEventCreate, &event, 0);
    SETUP(cuStreamCreate, &other, 1);
    SETUP(cuEventRecord, event, other);
    CALL(cuStreamBeginCapture_v2, stream, (int)p[1]);
    switch (p[0]) {
    case 0:
        CALL(cuMemAlloc_v2, &address, (size_t)64);
        break;
    case 1:
        CALL(cuStreamSynchronize, stream);
        break;
    case 2:
        CALL(cuCtxSynchronize);
        break;
    case 3:
        CALL(cuMemcpyDtoH_v2, host, memory, (size_t)16);
        break;
    case 4:
        CALL(cuStreamQuery, stream);
        break;
    case 5:
        CALL(cuEventQuery, event);
        break;
    case 6:
        CALL(cuStreamBeginCapture_v2, stream, 0);
        break;
    case 7:
        launch_on(NULL);
        break;
    case 8:
        CALL(cuEventRecord, event, stream);
        CALL(cuEventSynchronize, event);
        break;
    case 9:
        CALL(cuMemAllocHost_v2, (void **)&address, (size_t)64);
        break;
    case 10:
        CALL(cuStreamDestroy_v2, stream);
        return;
    case 11:
        CALL(cuStreamAddCallback, stream, (void *)refused_in_capture, NULL, 0);
        break;
    case 12:
        CALL(cuStreamWaitEvent, stream, event, 0);
        break;
    case 13:
        launch_on(other);
        break;
    case 14:
        CALL(cuMemFree_v2, memory);
        break;
    case 15:
        CALL(cuStreamSynchronize, other);
        break;
    }
    CALL(cuStreamIsCapturing, stream, &status);
    value("status", status);
    CALL(cuStreamEndCapture, stream, &graph);
    value("has a graph", graph != NULL);
    CALL(cuStreamIsCapturing, stream, &status);
    value("status", status);
    launch_on(stream);
    CALL(cuStreamSynchronize, stream);
}

static void fork_and_join(const long *joined) {
    CUstream other = 0;
    CUevent forked = 0, back = 0;
    CUgraph graph = 0;
    size_t count = 99, edges = 99;
    int status = 99;
    prepare();
    SETUP(cuStreamCreate, &other, 1);
    SETUP(cuEventCreate, &forked, 2);
    SETUP(cuEventCreate, &back, 2);
    CALL(cuStreamBeginCapture_v2, stream, 0);
    launch_on(stream);
    CALL(cuEventRecord, forked, stream);
    CALL(cuStreamWaitEvent, other, forked, 0);
    CALL(cuStreamIsCapturing, other, &status);
    value("status", status);
    launch_on(other);
    launch_on(stream);
    CALL(cuEventQuery, forked);
    if (*joined) {
        CALL(cuEventRecord, back, other);
        CALL(cuStreamWaitEvent, stream, back, 0);
    }
    CALL(cuStreamEndCapture, other, &graph);
    if (CALL(cuStreamEndCapture, stream, &graph) == 0) {
        CALL(cuGraphGetNodes, graph, NULL, &count);
        value("nodes", (long long)count);
        CALL(cuGraphGetEdges_v2, graph, NULL, NULL, NULL, &edges);
        value("edges", (long long)edges);
    }
    CALL(cuStreamIsCapturing, other, &status);
    value("status", status);
}

static void capture_wrong(const long *p) {
    CUgraph graph = 0;
    int status = 99, mode = 2;
    unsigned long long id = 0;
    (void)p;
    prepare();
    CALL(cuStreamBeginCapture_v2, NULL, 0);
    CALL(cuStreamBeginCapture_v2, (CUstream)1, 0);
    CALL(cuStreamBeginCapture_v2, stream, 7);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuStreamGetCaptureInfo_v2, stream, &status, &id, NULL, NULL, NULL);
    value("status", status);
    CALL(cuStreamBeginCapture_v2, stream, 0);
    CALL(cuStreamGetCaptureInfo_v2, stream, &status, &id, &graph, NULL, NULL);
    value("status", status);
    value("has an id", id != 0);
    CALL(cuStreamEndCapture, stream, NULL);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuThreadExchangeStreamCaptureMode, &mode);
    value("mode", mode);
    mode = 9;
    CALL(cuThreadExchangeStreamCaptureMode, &mode);
    CALL(cuThreadExchangeStreamCaptureMode, NULL);
}

static CUDA_KERNEL_NODE_PARAMS kernel_parameters(void) {
    CUDA_KERNEL_NODE_PARAMS found;
    memset(&found, 0, sizeof found);
    found.func = kernel;
    found.gridDimX = found.gridDimY = found.gridDimZ = found.blockDimY = found.blockDimZ = 1;
    found.blockDimX = 8;
    found.kernelParams = parameters;
    return found;
}

static void by_hand(const long *p) {
    CUgraph graph = 0;
    CUgraphNode first = 0, second = 0, third = 0, nodes[4];
    CUgraphExec executable = 0;
    CUDA_MEMSET_NODE_PARAMS fill;
    size_t count = 4;
    int type = 99;
    (void)p;
    prepare();
    CUcontext context = 0;
    SETUP(cuCtxGetCurrent, &context);
    memset(&fill, 0, sizeof fill);
    fill.dst = memory;
    fill.value = 100;
    fill.elementSize = 4;
    fill.width = fill.height = 1;
    CUDA_KERNEL_NODE_PARAMS wanted = kernel_parameters(), found;
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddMemsetNode, &first, graph, NULL, (size_t)0, &fill, context);
    CALL(cuGraphAddKernelNode_v2, &second, graph, &first, (size_t)1, &wanted);
    CALL(cuGraphAddEmptyNode, &third, graph, &second, (size_t)1);
    CALL(cuGraphGetNodes, graph, nodes, &count);
    value("nodes", (long long)count);
    count = 4;
    CALL(cuGraphGetRootNodes, graph, nodes, &count);
    value("roots", (long long)count);
    value("the first", nodes[0] == first);
    CALL(cuGraphNodeGetType, first, &type);
    value("type", type);
    CALL(cuGraphNodeGetType, second, &type);
    value("type", type);
    CALL(cuGraphNodeGetType, third, &type);
    value("type", type);
    memset(&found, 0, sizeof found);
    CALL(cuGraphKernelNodeGetParams_v2, second, &found);
    value("block", found.blockDimX);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    CALL(cuGraphLaunch, executable, stream);
    print_word(0);
    one = 5;
    CALL(cuGraphLaunch, executable, stream);
    print_word(0);
    CALL(cuGraphExecKernelNodeSetParams_v2, executable, second, &wanted);
    CALL(cuGraphLaunch, executable, stream);
    print_word(0);
    wanted.blockDimX = 2000;
    CALL(cuGraphExecKernelNodeSetParams_v2, executable, second, &wanted);
    wanted.blockDimX = 2;
    CALL(cuGraphKernelNodeSetParams_v2, second, &wanted);
    CALL(cuGraphLaunch, executable, stream);
    print_word(0);
    CALL(cuGraphDestroyNode, third);
    CALL(cuGraphExecDestroy, executable);
    CALL(cuGraphDestroy, graph);
    one = 1;
}

static void graph_wrong(const long *p) {
    CUgraph graph = 0;
    CUgraphNode first = 0, second = 0;
    CUgraphExec executable = 0;
    size_t count = 0;
    (void)p;
    prepare();
    CUDA_KERNEL_NODE_PARAMS wanted = kernel_parameters();
    CALL(cuGraphCreate, NULL, 0);
    CALL(cuGraphCreate, &graph, 1);
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddKernelNode_v2, &first, graph, NULL, (size_t)0, NULL);
    wanted.func = NULL;
    CALL(cuGraphAddKernelNode_v2, &first, graph, NULL, (size_t)0, &wanted);
    wanted.func = kernel;
    wanted.blockDimX = 0;
    CALL(cuGraphAddKernelNode_v2, &first, graph, NULL, (size_t)0, &wanted);
    wanted.blockDimX = 1025;
    CALL(cuGraphAddKernelNode_v2, &first, graph, NULL, (size_t)0, &wanted);
    wanted.blockDimX = 1;
    CALL(cuGraphAddKernelNode_v2, &first, graph, NULL, (size_t)1, &wanted);
    CALL(cuGraphAddKernelNode_v2, NULL, graph, NULL, (size_t)0, &wanted);
    CALL(cuGraphAddEmptyNode, &first, graph, NULL, (size_t)0);
    CALL(cuGraphAddEmptyNode, &second, graph, &first, (size_t)1);
    CALL(cuGraphAddDependencies_v2, graph, &second, &first, NULL, (size_t)1);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    CALL(cuGraphInstantiateWithFlags, &executable, NULL, 0ull);
    CALL(cuGraphInstantiateWithFlags, NULL, graph, 0ull);
    CALL(cuGraphGetNodes, NULL, NULL, &count);
    CALL(cuGraphGetNodes, graph, NULL, NULL);
    CALL(cuGraphLaunch, NULL, stream);
    CALL(cuGraphDestroy, NULL);
    CALL(cuGraphExecDestroy, NULL);
    CALL(cuGraphDestroyNode, NULL);
}

static void empty_graph(const long *flags) {
    CUgraph graph = 0, copy = 0;
    CUgraphExec executable = 0;
    size_t count = 99;
    prepare();
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphGetNodes, graph, NULL, &count);
    value("nodes", (long long)count);
    CALL(cuGraphClone, &copy, graph);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, (unsigned long long)*flags);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
}

static void update(const long *same) {
    CUgraph graph = 0, other = 0;
    CUgraphExec executable = 0;
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof info);
    prepare();
    CALL(cuStreamBeginCapture_v2, stream, 0);
    launch_on(stream);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    one = 3;
    CALL(cuStreamBeginCapture_v2, stream, 0);
    launch_on(stream);
    if (!*same)
        launch_on(stream);
    CALL(cuStreamEndCapture, stream, &other);
    CALL(cuGraphExecUpdate_v2, executable, other, &info);
    value("result", info.result);
    CALL(cuGraphLaunch, executable, stream);
    print_word(0);
    one = 1;
}

static int called;
static void count_call(void *data) { called += (int)(long)data; }

static void captured_kinds(const long *p) {
    CUgraph graph = 0;
    CUgraphExec executable = 0;
    CUdeviceptr address = 0;
    unsigned int host[4] = {1, 2, 3, 4}, back[4] = {0, 0, 0, 0};
    CUgraphNode nodes[8];
    size_t count = 8;
    int type = 99;
    (void)p;
    prepare();
    CALL(cuStreamBeginCapture_v2, stream, 0);
    CALL(cuMemcpyHtoDAsync_v2, memory, host, sizeof host, stream);
    CALL(cuMemcpyDtoDAsync_v2, memory + 16, memory, sizeof host, stream);
    CALL(cuMemcpyDtoHAsync_v2, back, memory + 16, sizeof host, stream);
    CALL(cuLaunchHostFunc, stream, (void *)count_call, (void *)5);
    CALL(cuMemAllocAsync, &address, (size_t)1000, stream);
    CALL(cuMemFreeAsync, address, stream);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphGetNodes, graph, nodes, &count);
    value("nodes", (long long)count);
    for (size_t i = 0; i < count && i < 8; i++) {
        SETUP(cuGraphNodeGetType, nodes[i], &type);
        value("type", type);
    }
    host[2] = 33;
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
    value("copied at the launch", back[2]);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
    value("calls", called);
}

void add_graphs(void) {
    for (long mode = 0; mode < 4; mode++)
        add("graph.capture", capture, 1, mode);
    for (long what = 0; what < 16; what++)
        for (long mode = 0; mode < 3; mode += 2)
            add("graph.refused_in_capture", refused_in_capture, 2, what, mode);
    add("graph.fork_and_join", fork_and_join, 1, 0L);
    add("graph.fork_and_join", fork_and_join, 1, 1L);
    add("graph.capture_wrong", capture_wrong, 0);
    add("graph.by_hand", by_hand, 0);
    add("graph.wrong", graph_wrong, 0);
    for (long flags = 0; flags < 10; flags++)
        add("graph.empty", empty_graph, 1, flags);
    add("graph.update", update, 1, 0L);
    add("graph.update", update, 1, 1L);
    add("graph.captured_kinds", captured_kinds, 0);
}
