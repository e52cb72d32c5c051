/* Waits of the program for streams, events and contexts. */
#include "internal.h"

enum { SIGNALS_NS = 100000000 };

CUresult wait_for(Position position, CUcontext context)
{
    lock();
    if (!is_reached(position)) {
        if (this_thread()->running) {
            unlock();
            return CUDA_ERROR_PERMITTED_BESIDE; /* a host function must not wait */
        }
        stream_keep(position.stream);
        driver.waiting++;
        unlock();
        void *token = begin_host_wait();
        lock();
        bool interrupted = false;
        while (!is_reached(position) && driver.phase == PHASE_READY && !interrupted)
            if (!wait_changed(now_ns() + SIGNALS_NS)) {
                unlock();
                interrupted = handle_signals();
                lock();
            }
        driver.waiting--;
        stream_drop(position.stream);
        unlock();
        end_host_wait(token);
        if (interrupted)
            return CUDA_ERROR_NOT_READY;
        lock();
    }
    CUresult result = CUDA_ERROR_DEINITIALIZED;
    if (driver.phase == PHASE_READY)
        result = handle_is(context, HANDLE_CONTEXT) ? context->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    unlock();
    return result;
}

CUresult wait_until(bool (*holds)(const void *), const void *data)
{
    if (this_thread()->running)
        return CUDA_ERROR_PERMITTED_BESIDE; /* a host function must not wait */
    void *token = begin_host_wait();
    bool interrupted = false;
    for (uint64_t signals = now_ns() + SIGNALS_NS; !holds(data) && driver.phase == PHASE_READY && !interrupted;) {
        lock();
        wait_changed(now_ns() + POLL_NS);
        unlock();
        if (now_ns() < signals)
            continue;
        signals = now_ns() + SIGNALS_NS;
        interrupted = handle_signals();
    }
    end_host_wait(token);
    return interrupted ? CUDA_ERROR_NOT_READY : driver.phase == PHASE_READY ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
}

CUresult wait_until_known(Position position, CUcontext context, const Clock *clock)
{
    CUresult result = wait_for(position, context);
    if (!result) {
        lock();
        order_known(clock, this_thread()->function);
        unlock();
        report_conflicts();
    }
    return result;
}

CUresult synchronize_stream(CUstream stream)
{
    CUcontext context = stream->context;
    if (stream->capture)
        return capture_refuse(stream);
    lock();
    Clock clock;
    Position position = stream_position(stream);
    order_stream_clock(stream, &clock);
    for (uint32_t i = 0; i < stream->pending_count && is_reached(position); i++)
        if (!is_reached(stream->pending[i]))
            position = stream->pending[i];
    bool pending = stream->pending_count && !is_reached(position);
    unlock();
    CUresult result = wait_until_known(position, context, &clock);
    return pending && !result ? synchronize_stream(stream) : result;
}

CUresult synchronize_context(CUcontext context)
{
    for (;;) {
        Position position = {0};
        lock();
        for (CUstream stream = context->streams; stream && !position.stream; stream = stream->next)
            if (!is_reached(stream_position(stream)))
                position = stream_position(stream);
        if (position.stream)
            stream_keep(position.stream); /* another thread may destroy it */
        CUresult error = context->error;
        Clock clock;
        order_context_clock(context, &clock);
        if (!position.stream)
            order_known(&clock, this_thread()->function);
        unlock();
        if (!position.stream) {
            report_conflicts();
            return error;
        }
        CUresult result = wait_for(position, context);
        lock();
        stream_drop(position.stream);
        unlock();
        if (result && result != context->error)
            return result;
    }
}

static void drain(void *handle, void *data)
{
    CUcontext **next = data;
    *(*next)++ = handle;
}

EXPORT void ptxlab_drain(void)
{
    enum { MOST = 256 };
    CUcontext contexts[MOST], *end = contexts;
    if (driver.phase != PHASE_READY)
        return;
    handle_each(HANDLE_CONTEXT, drain, &end);
    for (CUcontext *context = contexts; context < end; context++)
        synchronize_context(*context);
}

EXPORT void ptxlab_stalled(void)
{
    lock();
    CUstream stream = this_thread()->running;
    if (stream && !stream->stalled) {
        stream->stalled = true;
        pthread_cond_broadcast(&driver.changed);
    }
    unlock();
}

static void count_moving(void *handle, void *data)
{
    CUcontext context = handle;
    for (CUstream stream = context->streams; stream; stream = stream->next)
        *(uint32_t *)data += stream->running && !stream->stalled;
}

EXPORT void ptxlab_activity(uint32_t *waiting, uint32_t *moving)
{
    *moving = 0;
    lock();
    *waiting = driver.waiting;
    handle_each(HANDLE_CONTEXT, count_moving, moving);
    unlock();
}
