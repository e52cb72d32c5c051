/* Work of a stream that the program does itself, on its own thread and on the same memory, in place of a kernel: operators of torch.
 *
 * It begins when what the stream comes after has been done, and the program has not waited for that: it counts as an operation of the stream. */
#include "order.h"

typedef struct ProgramWork {
    Op op;
    const AccessRange *ranges; /* of the caller, which is still there when the work is described */
    uint32_t count;
} ProgramWork;

static CUresult nothing(Op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

static bool describe(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    const ProgramWork *work = (const ProgramWork *)op;
    (void)what;
    for (uint32_t i = 0; i < work->count && i < MOST_RANGES; i++)
        ranges[(*count)++] = work->ranges[i];
    return true;
}

static const OpClass works = {.size = sizeof(ProgramWork), .at_once = true, .perform = nothing, .describe = describe};

/* With the lock held: something that the next operation of a stream comes after and that is not done. */
static bool is_preceded(CUstream stream, Position *found)
{
    *found = stream_position(stream);
    bool blocking = !(stream->flags & CU_STREAM_NON_BLOCKING), preceded = !is_reached(*found);
    for (uint32_t i = 0; i < stream->pending_count && !preceded; i++)
        preceded = !is_reached(*found = stream->pending[i]);
    for (CUstream other = stream->context->streams; other && blocking && !preceded; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && (stream->legacy || other->legacy))
            preceded = !is_reached(*found = stream_position(other));
    if (preceded)
        stream_keep(found->stream); /* another thread may destroy it */
    return preceded;
}

EXPORT CUresult ptxlab_begin_work(CUstream handle)
{
    CUresult result = enter_CONTEXT();
    CUstream stream = result ? NULL : stream_of(handle);
    if (!stream)
        return result ? result : CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return capture_refuse(stream);
    CUcontext context = stream->context;
    for (Position before; !result;) {
        lock();
        bool preceded = is_preceded(stream, &before);
        unlock();
        if (!preceded)
            return context->error;
        result = wait_for(before, context);
        lock();
        stream_drop(before.stream);
        unlock();
    }
    return result;
}

/* `what` names the work in findings, and stays; `ranges` are sorted by their first bytes. */
EXPORT CUresult ptxlab_end_work(CUstream handle, const char *what, const AccessRange *ranges, uint32_t count)
{
    CUresult refused = enter_CONTEXT();
    CUstream stream = refused ? NULL : stream_of(handle);
    if (!stream)
        return refused ? refused : CUDA_ERROR_INVALID_HANDLE;
    ProgramWork *work = op_new(&works);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    this_thread()->function = what;
    work->ranges = ranges;
    work->count = count;
    return submit(stream, &work->op);
}
