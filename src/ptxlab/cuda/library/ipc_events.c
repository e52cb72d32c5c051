/* Events that processes share: how often one has been recorded, and which records are done, are in memory of all of them. */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define MAGIC 0x4c4258545045u

typedef struct Handle {
    uint64_t magic;
    int32_t process, file;
} Handle;

struct SharedRecords {
    _Atomic uint64_t recorded, completed;
};

typedef struct WaitOp {
    Op op;
    CUevent event;
    uint64_t record;
} WaitOp;

static bool map_records(CUevent event, int file)
{
    void *found = mmap(NULL, sizeof *event->shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found == MAP_FAILED)
        return false;
    event->shared = found;
    event->file = file;
    return true;
}

bool event_share(CUevent event)
{
    int file = memfd_create("ptxlab-event", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, sizeof *event->shared) == 0 && map_records(event, file))
        return true;
    if (file >= 0)
        close(file);
    return false;
}

void event_unshare(CUevent event)
{
    munmap(event->shared, sizeof *event->shared);
    close(event->file);
}

uint64_t event_share_record(CUevent event) { return atomic_fetch_add(&event->shared->recorded, 1) + 1; }

void event_share_completion(CUevent event, uint64_t record)
{
    uint64_t before = atomic_load(&event->shared->completed);
    while (before < record && !atomic_compare_exchange_weak(&event->shared->completed, &before, record))
        ;
}

bool is_recorded_elsewhere(CUevent event) { return event->shared && atomic_load(&event->shared->recorded) != event->record; }

static bool is_done(const void *event)
{
    const struct SharedRecords *records = ((const struct CUevent_st *)event)->shared;
    return atomic_load(&records->completed) >= atomic_load(&records->recorded);
}

CUresult event_query_elsewhere(CUevent event) { return is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }

CUresult event_wait_elsewhere(CUevent event) { return wait_until(is_done, event); }

/* ------------------------------------------------------------------ waits of streams */

static CUresult pass(Op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

static bool has_come(Op *op)
{
    const WaitOp *wait = (const WaitOp *)op;
    return atomic_load(&wait->event->shared->completed) >= wait->record;
}

static void release(Op *op) { event_drop(((WaitOp *)op)->event); }

static const OpClass waits = {.size = sizeof(WaitOp), .at_once = true, .perform = pass, .ready = has_come, .dispose = release};

CUresult event_stream_waits(CUstream stream, CUevent event)
{
    WaitOp *made = op_new(&waits);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    event->references++;
    unlock();
    made->event = event;
    made->record = atomic_load(&event->shared->recorded);
    return submit(stream, &made->op);
}

/* ------------------------------------------------------------------ functions of the driver API */

CUresult ptxlab_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(event, HANDLE_EVENT) || !event->shared)
        return CUDA_ERROR_INVALID_HANDLE;
    Handle made = {MAGIC, getpid(), event->file};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle given)
{
    Handle handle;
    memcpy(&handle, &given, sizeof handle);
    if (!event || handle.magic != MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    int file = open_file_of(handle.process, handle.file);
    if (file < 0)
        return CUDA_ERROR_MAP_FAILED;
    CUevent made = event_new(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    if (!made || !map_records(made, file)) {
        close(file);
        if (made)
            ptxlab_cuEventDestroy_v2(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *event = made;
    return CUDA_SUCCESS;
}
