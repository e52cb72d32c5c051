/* Capture: what is given to a stream becomes nodes of a graph.
 *
 * The streams of a capture are the one that began it and those that waited for an event that was recorded in it. Each has the nodes that
 * its next node depends on. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

typedef struct NodeSet {
    CUgraphNode *nodes;
    uint32_t count;
} NodeSet;

typedef struct Capture {
    struct Capture *next;
    CUgraph graph;
    CUstream origin;
    pthread_t thread;
    int mode;
    uint64_t id;
    bool broken; /* invalidated: only EndCapture is left */
} Capture;

/* What `CUstream_st.capture` points to. */
typedef struct StreamCapture {
    struct StreamCapture *next;
    Capture *capture;
    CUstream stream;
    NodeSet last;
} StreamCapture;

/* What `CUevent_st.capture` points to; it stays when the capture has ended. */
typedef struct EventCapture {
    uint64_t id;
    NodeSet last;
} EventCapture;

/* Protects what follows. A function that begins with GUARDED holds it until it returns. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void release_guard(const int *held)
{
    (void)held;
    pthread_mutex_unlock(&guard);
}

#define GUARDED                                                                              \
    const int held __attribute__((cleanup(release_guard))) = pthread_mutex_lock(&guard);     \
    (void)held

static Capture *_Atomic captures;
static StreamCapture *streams;
static uint64_t next_id = 1;

static bool assign(NodeSet *set, const CUgraphNode *nodes, uint32_t count)
{
    CUgraphNode *made = malloc((count + 1) * sizeof *made);
    if (!made)
        return false;
    memcpy(made, nodes, count * sizeof *made);
    free(set->nodes);
    set->nodes = made;
    set->count = count;
    return true;
}

static bool unite(NodeSet *set, const NodeSet *more)
{
    CUgraphNode *made = realloc(set->nodes, (set->count + more->count + 1) * sizeof *made);
    if (!made)
        return false;
    set->nodes = made;
    for (uint32_t i = 0; i < more->count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < set->count; j++)
            known |= made[j] == more->nodes[i];
        if (!known)
            made[set->count++] = more->nodes[i];
    }
    return true;
}

static Capture *capture_with(uint64_t id)
{
    for (Capture *at = captures; at; at = at->next)
        if (at->id == id)
            return at;
    return NULL;
}

static void invalidate(Capture *capture)
{
    capture->broken = true;
    for (StreamCapture *at = streams; at; at = at->next)
        if (at->capture == capture)
            at->stream->capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* A stream joins a capture. */
static StreamCapture *join(Capture *capture, CUstream stream)
{
    StreamCapture *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (StreamCapture){.next = streams, .capture = capture, .stream = stream};
    streams = made;
    stream->capture = made;
    stream->capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return made;
}

static void leave(StreamCapture **at)
{
    StreamCapture *left = *at;
    *at = left->next;
    left->stream->capture = NULL;
    left->stream->capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
    free(left->last.nodes);
    free(left);
}

static void end(Capture *capture)
{
    for (StreamCapture **at = &streams; *at;)
        if ((*at)->capture == capture)
            leave(at);
        else
            at = &(*at)->next;
    if (captures == capture)
        captures = capture->next;
    for (Capture *at = captures; at; at = at->next)
        if (at->next == capture)
            at->next = capture->next;
    free(capture);
}

/* ------------------------------------------------------------------ what streams capture */

static CUresult take_operation(CUstream stream, Op *op)
{
    GUARDED;
    StreamCapture *of = stream->capture;
    CUgraphNode node;
    if (of->capture->broken) {
        op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUresult refused = graph_add(&node, of->capture->graph, of->last.nodes, of->last.count, op->class->node, op);
    if (refused)
        return refused;
    node_describe(node);
    return assign(&of->last, &node, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take_record(CUstream stream, CUevent event)
{
    GUARDED;
    StreamCapture *of = stream->capture;
    if (of->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    EventCapture *made = calloc(1, sizeof *made);
    if (!made || !assign(&made->last, of->last.nodes, of->last.count)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->id = of->capture->id;
    capture_forget_event(event);
    event->capture = made;
    return CUDA_SUCCESS;
}

static CUresult take_wait(CUstream stream, CUevent event)
{
    GUARDED;
    StreamCapture *of = stream->capture;
    EventCapture *recorded = event->capture;
    Capture *from = recorded ? capture_with(recorded->id) : NULL;
    if (of && of->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (of && !recorded) {
        invalidate(of->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!from)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (of && of->capture != from) {
        invalidate(of->capture);
        invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!of && stream->legacy) {
        invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!of)
        of = join(from, stream);
    return of && unite(&of->last, &recorded->last) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ------------------------------------------------------------------ calls that a capture forbids */

CUresult capture_refuse(CUstream stream)
{
    GUARDED;
    invalidate(((StreamCapture *)stream->capture)->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_refuse_event(CUevent event)
{
    GUARDED;
    Capture *capture = capture_with(((EventCapture *)event->capture)->id);
    if (capture)
        invalidate(capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_refuse_context(CUcontext context)
{
    GUARDED;
    CUresult result = CUDA_SUCCESS;
    for (StreamCapture *at = streams; at; at = at->next)
        if (at->stream->context == context) {
            invalidate(at->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

/* The mode of the thread decides which captures forbid the call, and so does the mode of each capture. */
CUresult capture_forbids(void)
{
    if (!captures)
        return CUDA_SUCCESS;
    GUARDED;
    int mode = this_thread()->capture_mode;
    CUresult result = CUDA_SUCCESS;
    for (Capture *at = captures; at; at = at->next) {
        bool own = pthread_equal(at->thread, pthread_self());
        bool forbids = own ? at->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                           : at->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (mode != CU_STREAM_CAPTURE_MODE_RELAXED && forbids) {
            invalidate(at);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

void capture_forget_event(CUevent event)
{
    EventCapture *old = event->capture;
    event->capture = NULL;
    if (old)
        free(old->last.nodes);
    free(old);
}

static bool reaches(CUgraphNode from, CUgraphNode wanted)
{
    if (from == wanted)
        return true;
    for (uint32_t i = 0; i < from->before_count; i++)
        if (reaches(from->before[i], wanted))
            return true;
    return false;
}

/* Whether the work of a stream stands before the last nodes of the first stream of its capture. */
static bool is_joined(const StreamCapture *stream)
{
    const NodeSet *ends = &((StreamCapture *)stream->capture->origin->capture)->last;
    for (uint32_t i = 0; i < stream->last.count; i++) {
        bool reached = false;
        for (uint32_t j = 0; j < ends->count && !reached; j++)
            reached = reaches(ends->nodes[j], stream->last.nodes[i]);
        if (!reached)
            return false;
    }
    return true;
}

static bool are_joined(const Capture *capture)
{
    for (const StreamCapture *at = streams; at; at = at->next)
        if (at->capture == capture && !is_joined(at))
            return false;
    return true;
}

/* The work of a stream that has been joined stays in the graph. */
void capture_end_stream(CUstream stream)
{
    GUARDED;
    StreamCapture *of = stream->capture;
    if (!of)
        return;
    if (of->capture->origin != stream) {
        if (!is_joined(of))
            invalidate(of->capture);
        for (StreamCapture **at = &streams; *at; at = &(*at)->next)
            if (*at == of) {
                leave(at);
                return;
            }
    }
    graph_free(of->capture->graph);
    end(of->capture);
}

/* ------------------------------------------------------------------ functions of the driver API */

CUresult ptxlab_cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *data,
                                            size_t count, CUstreamCaptureMode mode)
{
    GUARDED;
    CUstream stream = stream_of(handle);
    (void)data;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED || !graph_of(graph) || (count && !before))
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    Capture *made = calloc(1, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (Capture){.next = captures, .graph = graph, .origin = stream, .thread = pthread_self(), .mode = mode, .id = next_id++};
    captures = made;
    capture_operation = take_operation;
    capture_event_record = take_record;
    capture_event_wait = take_wait;
    StreamCapture *of = join(made, stream);
    if (!of || !assign(&of->last, before, (uint32_t)count)) {
        end(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUgraph graph = graph_new();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult refused = ptxlab_cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, mode);
    if (refused)
        graph_free(graph);
    return refused;
}

CUresult ptxlab_cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    GUARDED;
    CUstream stream = stream_of(handle);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *graph = NULL;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    Capture *capture = ((StreamCapture *)stream->capture)->capture;
    if (capture->origin != stream) {
        invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : are_joined(capture) ? CUDA_SUCCESS
                                            : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result)
        graph_free(capture->graph);
    else
        *graph = capture->graph;
    end(capture);
    return result;
}

CUresult ptxlab_cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                          const CUgraphNode **before, const CUgraphEdgeData **data, size_t *count)
{
    GUARDED;
    CUstream stream = stream_of(handle);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture_status;
    StreamCapture *of = stream->capture;
    if (!of || of->capture->broken)
        return CUDA_SUCCESS;
    if (id)
        *id = of->capture->id;
    if (graph)
        *graph = of->capture->graph;
    if (before)
        *before = of->last.nodes;
    if (data)
        *data = NULL;
    if (count)
        *count = of->last.count;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                          const CUgraphNode **before, size_t *count)
{
    return ptxlab_cuStreamGetCaptureInfo_v3(stream, status, id, graph, before, NULL, count);
}

CUresult ptxlab_cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *before, const CUgraphEdgeData *data, size_t count,
                                                     unsigned int flags)
{
    GUARDED;
    CUstream stream = stream_of(handle);
    (void)data;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    StreamCapture *of = stream->capture;
    if (!of || of->capture->broken)
        return CUDA_ERROR_ILLEGAL_STATE;
    NodeSet given = {before, (uint32_t)count};
    if ((count && !before) || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    bool made = flags ? assign(&of->last, before, (uint32_t)count) : unite(&of->last, &given);
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ptxlab_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *before, size_t count, unsigned int flags)
{
    return ptxlab_cuStreamUpdateCaptureDependencies_v2(stream, before, NULL, count, flags);
}

CUresult ptxlab_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = this_thread()->capture_mode;
    this_thread()->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
