/* Streams: operations in order, each after the positions in other streams that it depends on.
 *
 * An operation that nothing has to precede is performed by the calling thread, if its class permits. Others are queued, and performed by
 * a thread of the stream, which ends when there is nothing to do. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { IDLE_NS = 500000000, LINGER_NS = 250000000 };

CUresult (*capture_operation)(CUstream stream, Op *op);
CUresult (*capture_event_record)(CUstream stream, CUevent event);
CUresult (*capture_event_wait)(CUstream stream, CUevent event);

/* ------------------------------------------------------------------ operations */

void *op_new(const OpClass *class)
{
    Op *op = calloc(1, class->size);
    if (op)
        op->class = class;
    return op;
}

Op *op_copy(const Op *from)
{
    Op *made = malloc(from->class->size);
    if (!made)
        return NULL;
    memcpy(made, from, from->class->size);
    made->next = NULL;
    made->after = NULL;
    made->after_count = 0;
    made->work = NULL;
    if (from->class->copied && !from->class->copied(made, from)) {
        free(made);
        return NULL;
    }
    return made;
}

void op_free(Op *op)
{
    if (op->class->dispose)
        op->class->dispose(op);
    lock();
    for (uint32_t i = 0; i < op->after_count; i++)
        stream_drop(op->after[i].stream);
    work_drop(op->work);
    unlock();
    free(op->after);
    free(op);
}

/* ------------------------------------------------------------------ streams */

static void unlink_stream(CUstream stream)
{
    if (!stream->context)
        return;
    order_end_stream(stream);
    for (CUstream *at = &stream->context->streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    stream->context = NULL;
}

void stream_keep(CUstream stream) { stream->references++; }

void stream_drop(CUstream stream)
{
    if (--stream->references)
        return;
    unlink_stream(stream);
    free(stream->pending);
    free(stream);
}

CUstream stream_new(CUcontext context, unsigned int flags, int priority)
{
    CUstream stream = handle_new(HANDLE_STREAM, sizeof *stream);
    if (!stream)
        return NULL;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->references = 1;
    lock();
    stream->id = driver.next_id++;
    stream->next = context->streams;
    context->streams = stream;
    order_begin_stream(stream);
    unlock();
    return stream;
}

/* The stream's work is still done. */
void stream_destroy(CUstream stream)
{
    if (!handle_is(stream, HANDLE_STREAM))
        return;
    capture_end_stream(stream);
    handle_forget(stream);
    lock();
    stream->destroyed = true;
    if (stream->completed == stream->submitted)
        unlink_stream(stream);
    pthread_cond_broadcast(&driver.changed);
    stream_drop(stream);
    unlock();
}

static CUstream per_thread_stream(CUcontext context)
{
    CUstream *kept = &this_thread()->streams[context->device];
    if (!handle_is(*kept, HANDLE_STREAM) || (*kept)->context != context) {
        *kept = stream_new(context, CU_STREAM_DEFAULT, 0);
        if (*kept)
            (*kept)->per_thread = true;
    }
    return *kept;
}

CUstream stream_of(CUstream handle)
{
    CUcontext context = current_context();
    if (handle == CU_STREAM_PER_THREAD || (!handle && this_thread()->per_thread))
        return per_thread_stream(context);
    if (!handle || handle == CU_STREAM_LEGACY)
        return context->legacy;
    return handle_is(handle, HANDLE_STREAM) ? handle : NULL;
}

bool is_reached(Position position) { return position.stream->completed >= position.count; }

Position stream_position(CUstream stream) { return (Position){stream, stream->submitted}; }

/* ------------------------------------------------------------------ order */

static bool append(Position **list, uint32_t *count, Position position)
{
    Position *grown = realloc(*list, (*count + 1) * sizeof *grown);
    if (!grown)
        return false;
    grown[(*count)++] = position;
    *list = grown;
    stream_keep(position.stream);
    return true;
}

CUresult stream_wait_for(CUstream stream, Position position)
{
    lock();
    bool made = is_reached(position) || position.stream == stream || append(&stream->pending, &stream->pending_count, position);
    unlock();
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_blocking(CUstream stream) { return !(stream->flags & CU_STREAM_NON_BLOCKING); }

/* What the next operation of a stream comes after: events that the stream waits for, and the default stream before and after others. */
static bool collect(CUstream stream, Op *op)
{
    op->after = stream->pending;
    op->after_count = stream->pending_count;
    stream->pending = NULL;
    stream->pending_count = 0;
    CUstream legacy = stream->context->legacy;
    if (!is_blocking(stream))
        return true;
    if (!stream->legacy)
        return is_reached(stream_position(legacy)) || append(&op->after, &op->after_count, stream_position(legacy));
    for (CUstream other = stream->context->streams; other; other = other->next)
        if (other != stream && is_blocking(other) && !is_reached(stream_position(other)) &&
            !append(&op->after, &op->after_count, stream_position(other)))
            return false;
    return true;
}

static bool may_run(CUstream stream, Op *op)
{
    if (stream->completed + 1 != op->index)
        return false;
    for (uint32_t i = 0; i < op->after_count; i++)
        if (!is_reached(op->after[i]))
            return false;
    return !op->class->ready || op->class->ready(op);
}

/* Perform an operation and record that; with the lock held before and after. */
static CUresult perform(CUstream stream, Op *op)
{
    CUcontext context = stream->context;
    CUresult earlier = context->error, result = CUDA_SUCCESS;
    driver.performing++;
    order_begins(op);
    unlock();
    Op *outer = this_thread()->performing;
    this_thread()->performing = op;
    if (!earlier)
        result = op->class->perform(op);
    else if (op->class->cancel)
        op->class->cancel(op);
    this_thread()->performing = outer;
    lock();
    order_performed(op);
    unlock();
    op_free(op);
    report_conflicts();
    lock();
    if (!--driver.performing) {
        unlock();
        memory_release_freed();
        lock();
    }
    if (result && result != CUDA_ERROR_INVALID_VALUE && !context->error)
        context->error = result;
    stream->completed++;
    stream->stalled = false;
    if (stream->destroyed && stream->completed == stream->submitted)
        unlink_stream(stream);
    pthread_cond_broadcast(&driver.changed);
    return result;
}

/* ------------------------------------------------------------------ the thread of a stream */

static void run_stream(void *argument)
{
    CUstream stream = argument;
    this_thread()->running = stream;
    lock();
    uint64_t idle_until = now_ns() + IDLE_NS;
    while (driver.phase == PHASE_READY) {
        Op *op = stream->first;
        if (!op) {
            if (stream->destroyed || now_ns() >= idle_until)
                break;
            wait_changed(idle_until);
            continue;
        }
        if (!may_run(stream, op)) {
            wait_changed(op->class->ready ? now_ns() + POLL_NS : 0);
            continue;
        }
        stream->first = op->next;
        stream->running = true;
        perform(stream, op);
        stream->running = false;
        idle_until = now_ns() + IDLE_NS;
    }
    stream->has_thread = false;
    stream_drop(stream);
    unlock();
    this_thread()->running = NULL;
}

static void *run_thread(void *argument)
{
    run_stream(argument);
    return NULL;
}

/* With the lock held; the core starts threads where it has its own kind. */
static bool start_thread(CUstream stream)
{
    stream->has_thread = true;
    stream_keep(stream);
    unlock();
    bool started;
    if (driver.core.start_thread) {
        started = driver.core.start_thread(run_stream, stream) == 0;
    } else {
        pthread_t thread;
        started = pthread_create(&thread, NULL, run_thread, stream) == 0;
        if (started)
            pthread_detach(thread);
    }
    lock();
    if (!started) {
        stream->has_thread = false;
        stream_drop(stream);
    }
    return started;
}

/* ------------------------------------------------------------------ submission */

/* Submit, and give the position after the operation. */
static CUresult submit_at(CUstream stream, Op *op, Position *position, Clock *clock)
{
    CUresult result = op->class->prepare ? op->class->prepare(op, stream) : CUDA_SUCCESS;
    if (result) {
        op_free(op);
        return result;
    }
    Work *work = work_of(op, stream);
    lock();
    bool collected = collect(stream, op);
    op->index = ++stream->submitted;
    order_submitted(stream, op, work);
    if (clock)
        *clock = stream->clock;
    if (op->class->entered)
        op->class->entered(op, stream);
    *position = (Position){stream, op->index};
    stream_keep(stream);
    if (!collected) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (op->class->at_once && may_run(stream, op)) {
        result = perform(stream, op);
        stream_drop(stream);
        unlock();
        report_conflicts();
        return result;
    }
    op->next = NULL;
    if (stream->first)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    if (!stream->has_thread && !start_thread(stream))
        result = CUDA_ERROR_OPERATING_SYSTEM;
    pthread_cond_broadcast(&driver.changed);
    stream_drop(stream);
    unlock();
    report_conflicts();
    return result;
}

CUresult submit(CUstream stream, Op *op)
{
    Position position;
    return stream->capture && capture_operation ? capture_operation(stream, op) : submit_at(stream, op, &position, NULL);
}

CUresult submit_and_wait(CUstream stream, Op *op)
{
    Position position;
    CUcontext context = stream->context;
    if (stream->capture) {
        op_free(op);
        return capture_refuse(stream);
    }
    Clock clock;
    CUresult result = submit_at(stream, op, &position, &clock);
    return result ? result : wait_until_known(position, context, &clock);
}

/* A launch is queued: a kernel that waits for the host or for another stream goes on beside the program. Most kernels end while the
 * program waits here, so that what they find is known when the call returns. */
CUresult submit_and_linger(CUstream stream, Op *op)
{
    Position position;
    if (stream->capture && capture_operation)
        return capture_operation(stream, op);
    CUresult result = submit_at(stream, op, &position, NULL);
    if (result || this_thread()->running)
        return result;
    uint64_t until = now_ns() + LINGER_NS;
    void *token = begin_host_wait();
    lock();
    while (!is_reached(position) && stream->completed + 1 == position.count && !stream->stalled && driver.phase == PHASE_READY &&
           wait_changed(until))
        ;
    unlock();
    end_host_wait(token);
    return CUDA_SUCCESS;
}
