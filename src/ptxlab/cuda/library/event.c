/* Events: a position in a stream, and the time at which it was reached. */
#include <stdlib.h>

#include "internal.h"

typedef struct RecordOp {
    Op op;
    CUevent event;
    CUstream stream;
} RecordOp;

static void drop(CUevent event)
{
    if (--event->references)
        return;
    if (event->position.stream)
        stream_drop(event->position.stream);
    capture_forget_event(event);
    free(event);
}

static CUresult note_time(Op *op)
{
    RecordOp *record = (RecordOp *)op;
    lock();
    /* A later record may have replaced this one. */
    if (record->event->position.stream == record->stream && record->event->position.count == op->index)
        record->event->time = now_ns();
    unlock();
    return CUDA_SUCCESS;
}

static void release(Op *op)
{
    lock();
    drop(((RecordOp *)op)->event);
    unlock();
}

/* Other streams can wait for the position before the operation is performed. */
static void place(Op *op, CUstream stream)
{
    RecordOp *record = (RecordOp *)op;
    stream_keep(stream);
    if (record->event->position.stream)
        stream_drop(record->event->position.stream);
    record->event->position = (Position){stream, op->index};
    record->event->clock = stream->clock;
    record->stream = stream;
}

static const OpClass records = {.size = sizeof(RecordOp), .at_once = true, .entered = place, .perform = note_time, .dispose = release};

CUresult event_record(CUevent event, CUstream stream)
{
    RecordOp *made = op_new(&records);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    event->references++;
    capture_forget_event(event);
    unlock();
    made->event = event;
    return submit(stream, &made->op);
}

CUresult ptxlab_cuEventCreate(CUevent *event, unsigned int flags)
{
    unsigned int all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    bool untimed = flags & CU_EVENT_DISABLE_TIMING;
    if (!event || flags & ~all || (flags & CU_EVENT_INTERPROCESS && !untimed))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent made = handle_new(HANDLE_EVENT, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = current_context();
    made->flags = flags;
    made->references = 1;
    *event = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuEventDestroy_v2(CUevent event)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    handle_forget(event);
    lock();
    drop(event);
    unlock();
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
    CUstream stream = stream_of(handle);
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream || !handle_is(event, HANDLE_EVENT) || stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags && !stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    return stream->capture && capture_event_record ? capture_event_record(stream, event) : event_record(event, stream);
}

CUresult ptxlab_cuEventRecord(CUevent event, CUstream stream) { return ptxlab_cuEventRecordWithFlags(event, stream, 0); }

CUresult ptxlab_cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    CUstream stream = stream_of(handle);
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream || !handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags && !stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if ((event->capture || stream->capture) && capture_event_wait)
        return capture_event_wait(stream, event);
    if (!event->position.stream)
        return CUDA_SUCCESS;
    lock();
    order_wait(stream, &event->clock);
    unlock();
    return stream_wait_for(stream, event->position);
}

static bool happened(CUevent event)
{
    lock();
    bool reached = !event->position.stream || is_reached(event->position);
    if (reached && event->position.stream)
        order_known(&event->clock, this_thread()->function);
    unlock();
    report_conflicts();
    return reached;
}

CUresult ptxlab_cuEventQuery(CUevent event)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return capture_refuse_event(event);
    CUresult refused = capture_forbids();
    if (refused)
        return refused;
    return happened(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult ptxlab_cuEventSynchronize(CUevent event)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return capture_refuse_event(event);
    if (!event->position.stream)
        return CUDA_SUCCESS;
    lock();
    Clock clock = event->clock;
    unlock();
    return wait_until_known(event->position, event->context, &clock);
}

CUresult ptxlab_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    if (!milliseconds || !handle_is(start, HANDLE_EVENT) || !handle_is(end, HANDLE_EVENT) || start->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->position.stream || !end->position.stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!happened(start) || !happened(end))
        return CUDA_ERROR_NOT_READY;
    int64_t passed = (int64_t)(end->time - start->time);
    *milliseconds = (float)(passed ? passed : 1) / 1e6f;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return ptxlab_cuEventElapsedTime_v2(milliseconds, start, end);
}
