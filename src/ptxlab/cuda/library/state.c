/* The state of the driver and of threads; start, end and fork of the process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "internal.h"

Driver driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static _Thread_local Thread *thread;

void lock(void) { pthread_mutex_lock(&driver.lock); }

void unlock(void) { pthread_mutex_unlock(&driver.lock); }

uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool wait_changed(uint64_t until)
{
    if (!until) {
        pthread_cond_wait(&driver.changed, &driver.lock);
        return true;
    }
    struct timespec time = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    return pthread_cond_timedwait(&driver.changed, &driver.lock, &time) != ETIMEDOUT;
}

void *begin_host_wait(void)
{
    return driver.core.has_interpreter && driver.core.has_interpreter() ? driver.core.release_interpreter() : NULL;
}

void end_host_wait(void *token)
{
    if (token)
        driver.core.take_interpreter(token);
}

bool handle_signals(void)
{
    const Core *core = &driver.core;
    if (!core->lock_interpreter)
        return false;
    int state = core->lock_interpreter();
    bool interrupted = core->handle_signals() != 0;
    if (interrupted) {
        core->drop_exception();
        core->interrupt_launch();
        core->interrupt_program();
    }
    core->unlock_interpreter(state);
    return interrupted;
}

/* ------------------------------------------------------------------ threads */

static void end_thread(void *value)
{
    Thread *ended = value;
    for (int i = 0; i < PTXLAB_MAX_DEVICES; i++)
        if (ended->streams[i] && driver.phase == PHASE_READY)
            stream_destroy(ended->streams[i]);
    free(ended->contexts);
    free(ended);
}

/* A child of fork has no driver: its threads are gone, and its parent's work is not its own. */
static void in_child(void)
{
    pthread_mutex_init(&driver.lock, NULL);
    driver.phase = PHASE_FORKED;
    driver.process = getpid();
    client_forget();
}

static void start(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&driver.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_key_create(&thread_key, end_thread);
    pthread_atfork(NULL, NULL, in_child);
    driver.process = getpid();
}

Thread *this_thread(void)
{
    static Thread none;
    if (thread)
        return thread;
    pthread_once(&once, start);
    thread = calloc(1, sizeof *thread);
    if (!thread)
        return &none;
    pthread_setspecific(thread_key, thread);
    return thread;
}

/* ------------------------------------------------------------------ start and end */

static void count_context(void *handle, void *data)
{
    (void)handle;
    ++*(uint32_t *)data;
}

static uint32_t count_contexts(void)
{
    uint32_t found = 0;
    handle_each(HANDLE_CONTEXT, count_context, &found);
    return found;
}

EXPORT int ptxlab_attach_core(const Core *core)
{
    pthread_once(&once, start);
    if (!core || core->size != sizeof *core || core->devices > PTXLAB_MAX_DEVICES)
        return CUDA_ERROR_INVALID_VALUE;
    if (count_contexts())
        return CUDA_ERROR_ILLEGAL_STATE;
    lock();
    driver.core = *core;
    unlock();
    return CUDA_SUCCESS;
}

EXPORT int ptxlab_set_devices(uint32_t devices, const DeviceDescription *descriptions, uint32_t most_contexts)
{
    if (devices > PTXLAB_MAX_DEVICES)
        return CUDA_ERROR_INVALID_VALUE;
    if (count_contexts() > most_contexts)
        return CUDA_ERROR_ILLEGAL_STATE;
    lock();
    driver.core.devices = devices;
    driver.core.descriptions = descriptions;
    unlock();
    return CUDA_SUCCESS;
}

static void clear_error(void *handle, void *data)
{
    (void)data;
    ((CUcontext)handle)->error = CUDA_SUCCESS;
}

EXPORT void ptxlab_clear_errors(void) { handle_each(HANDLE_CONTEXT, clear_error, NULL); }

EXPORT void ptxlab_shut_down(void)
{
    lock();
    if (driver.phase != PHASE_FORKED)
        driver.phase = PHASE_ENDED;
    pthread_cond_broadcast(&driver.changed);
    unlock();
}

__attribute__((destructor)) static void ended(void) { driver.phase = PHASE_ENDED; }

CUresult ptxlab_cuInit(unsigned int flags)
{
    if (driver.phase == PHASE_FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (driver.phase == PHASE_ENDED)
        return CUDA_ERROR_DEINITIALIZED;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, start);
    if (!driver.core.devices && !client_connect())
        return CUDA_ERROR_NO_DEVICE;
    driver.phase = PHASE_READY;
    return CUDA_SUCCESS;
}

CUresult enter_ANYTIME(void) { return CUDA_SUCCESS; }

CUresult enter_NOTHING(void) { return driver.phase == PHASE_ENDED ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS; }

CUresult enter_DRIVER(void)
{
    switch (driver.phase) {
    case PHASE_READY:
        return CUDA_SUCCESS;
    case PHASE_ENDED:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

CUresult enter_CONTEXT(void)
{
    CUresult refused = enter_DRIVER();
    if (refused)
        return refused;
    if (this_thread()->running) /* a host function of a stream */
        return CUDA_ERROR_PERMITTED_BESIDE;
    CUcontext context = current_context();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!handle_is(context, HANDLE_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return context->error;
}

CUresult enter_UNCAPTURED(void)
{
    CUresult refused = enter_CONTEXT();
    return refused ? refused : capture_forbids();
}

static bool is_nothing_left(void) { return driver.phase == PHASE_ENDED && driver.core.has_interpreter; }

CUresult enter_RELEASE(void) { return is_nothing_left() ? NOTHING_LEFT : enter_DRIVER(); }

CUresult enter_RELEASE_IN_CONTEXT(void) { return is_nothing_left() ? NOTHING_LEFT : enter_CONTEXT(); }

CUresult enter_RELEASE_UNCAPTURED(void) { return is_nothing_left() ? NOTHING_LEFT : enter_UNCAPTURED(); }

void report(ReportKind kind, const char *function, uint64_t address, const char *text)
{
    if (driver.core.report)
        driver.core.report(kind, function, address, text);
}

EXPORT CUresult ptxlab_unsupported(const char *name)
{
    report(REPORT_UNSUPPORTED, name, 0, "");
    return CUDA_ERROR_NOT_SUPPORTED;
}
