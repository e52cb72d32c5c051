/* Events: a position in a stream, and the time at which it was reached. */
#include <stdlib.h>

#include "internal.h"

typedef struct RecordOp {
    Op op;
    CUevent event;
    CUstream stream;
    uint64_t record; /* the number of this record, of an event that processes share */
} RecordOp;

/* With the lock held. */
static void drop(CUevent event)
{
    if (--event->references)
        return;
    if (event->position.stream)
        stream_drop(event->position.stream);
    capture_forget_event(event);
    if (event->shared)
        event_unshare(event);
    free(event);
}

void event_drop(CUevent event)
{
    lock();
    drop(event);
    unlock();
}

static void complete(Op *op)
{
    RecordOp *record = (RecordOp *)op;
    if (record->event->shared)
        event_share_completion(record->event, record->record);
}

static CUresult note_time(Op *op)
{
    RecordOp *record = (RecordOp *)op;
    lock();
    /* A later record may have replaced this one. */
    if (record->event->position.stream == record->stream && record->event->position.count == op->index) {
        record->event->time = now_ns();
        record->event->estimated = driver.estimated;
    }
    unlock();
    complete(op);
    return CUDA_SUCCESS;
}

static void release(Op *op) { event_drop(((RecordOp *)op)->event); }

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
    if (record->event->shared)
        record->record = record->event->record = event_share_record(record->event);
}

static const OpClass records = {.size = sizeof(RecordOp), .at_once = true, .entered = place, .perform = note_time, .cancel = complete, .dispose = release};

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

CUevent event_new(unsigned int flags)
{
    CUevent made = handle_new(HANDLE_EVENT, sizeof *made);
    if (made) {
        made->context = current_context();
        made->flags = flags;
        made->references = 1;
    }
    return made;
}

CUresult ptxlab_cuEventCreate(CUevent *event, unsigned int flags)
{
    unsigned int all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    bool untimed = flags & CU_EVENT_DISABLE_TIMING;
    if (!event || flags & ~all || (flags & CU_EVENT_INTERPROCESS && !untimed))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent made = event_new(flags);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (flags & CU_EVENT_INTERPROCESS && !event_share(made)) {
        ptxlab_cuEventDestroy_v2(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *event = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuEventDestroy_v2(CUevent event)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    handle_forget(event);
    event_drop(event);
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
    if (is_recorded_elsewhere(event))
        return event_stream_waits(stream, event);
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
    if (is_recorded_elsewhere(event))
        return event_query_elsewhere(event);
    return happened(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult ptxlab_cuEventSynchronize(CUevent event)
{
    if (!handle_is(event, HANDLE_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return capture_refuse_event(event);
    if (is_recorded_elsewhere(event))
        return event_wait_elsewhere(event);
    if (!event->position.stream)
        return CUDA_SUCCESS;
    lock();
    Clock clock = event->clock;
    unlock();
    return wait_until_known(event->position, event->context, &clock);
}

EXPORT void ptxlab_estimated(uint64_t nanoseconds)
{
    lock();
    driver.estimated += nanoseconds;
    unlock();
}

CUresult ptxlab_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    if (!milliseconds || !handle_is(start, HANDLE_EVENT) || !handle_is(end, HANDLE_EVENT) || start->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->position.stream || !end->position.stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!happened(start) || !happened(end))
        return CUDA_ERROR_NOT_READY;
    int64_t passed = (int64_t)(driver.estimated ? end->estimated - start->estimated : end->time - start->time);
    *milliseconds = (float)(passed ? passed : 1) / 1e6f;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return ptxlab_cuEventElapsedTime_v2(milliseconds, start, end);
}
