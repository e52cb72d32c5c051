/* Contexts: primary ones and those that programs make; each thread has a stack of them. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

CUcontext current_context(void)
{
    Thread *thread = this_thread();
    return thread->depth ? thread->contexts[thread->depth - 1] : NULL;
}

static bool push(CUcontext context)
{
    Thread *thread = this_thread();
    if (thread->depth == thread->capacity) {
        uint32_t wanted = thread->capacity ? 2 * thread->capacity : 8;
        CUcontext *grown = realloc(thread->contexts, wanted * sizeof *grown);
        if (!grown)
            return false;
        thread->contexts = grown;
        thread->capacity = wanted;
    }
    thread->contexts[thread->depth++] = context;
    return true;
}

static CUcontext make(CUdevice device, unsigned int flags, unsigned int version)
{
    static const size_t limits[CU_LIMIT_COUNT] = {
        [CU_LIMIT_STACK_SIZE] = 1024,
        [CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
        [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
        [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
        [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    };
    enum { PERSISTING_L2 = 108, SHARED_OPTIN = 97 };
    CUcontext context = handle_new(HANDLE_CONTEXT, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->flags = flags;
    context->version = version;
    memcpy(context->limits, limits, sizeof limits);
    context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = (size_t)(device_of(device)->attributes[PERSISTING_L2] * 3 / 10);
    context->limits[CU_LIMIT_SHMEM_SIZE] = (size_t)device_of(device)->attributes[SHARED_OPTIN];
    lock();
    context->id = driver.next_id++;
    unlock();
    context->legacy = stream_new(context, CU_STREAM_DEFAULT, 0);
    if (!context->legacy) {
        handle_free(context);
        return NULL;
    }
    context->legacy->legacy = true;
    return context;
}

/* Wait for the work of a context, and free what it owns. */
static void empty(CUcontext context)
{
    synchronize_context(context);
    for (;;) {
        lock();
        CUstream stream = context->streams;
        while (stream && stream->destroyed)
            stream = stream->next;
        unlock();
        if (!stream)
            break;
        stream_destroy(stream);
    }
    module_unload_context(context);
    memory_free_context(context);
}

static void destroy(CUcontext context)
{
    empty(context);
    handle_free(context);
}

/* ------------------------------------------------------------------ primary contexts */

CUresult ptxlab_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    CUcontext primary = driver.primary[device];
    if (!primary) {
        primary = make(device, driver.primary_flags[device], 3020);
        if (primary) {
            primary->primary = true;
            driver.primary[device] = primary;
        }
    }
    if (primary)
        primary->retained++;
    pthread_mutex_unlock(&making);
    *context = primary;
    return primary ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void reset(CUdevice device)
{
    lock();
    CUcontext primary = driver.primary[device];
    driver.primary[device] = NULL;
    unlock();
    if (primary)
        destroy(primary);
}

EXPORT void *ptxlab_exchange_primary(void *context)
{
    lock();
    CUcontext before = driver.primary[0];
    driver.primary[0] = context;
    unlock();
    return before;
}

CUresult ptxlab_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    lock();
    CUcontext primary = driver.primary[device];
    bool last = primary && --primary->retained == 0;
    unlock();
    if (!primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (last)
        reset(device);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    reset(device);
    return CUDA_SUCCESS;
}

/* One of the ways to wait, and bits. */
static bool are_flags(unsigned int flags)
{
    unsigned int wait = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && wait != 3 && wait <= 4;
}

CUresult ptxlab_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!are_flags(flags) || flags & CU_CTX_MAP_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    driver.primary_flags[device] = flags;
    if (driver.primary[device])
        driver.primary[device]->flags = flags;
    unlock();
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    lock();
    CUcontext primary = driver.primary[device];
    *active = primary != NULL;
    *flags = driver.primary_flags[device];
    unlock();
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ contexts of programs */

static CUresult create(CUcontext *context, unsigned int flags, CUdevice device, unsigned int version)
{
    if (!context || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext made = make(device, flags, version);
    if (!made || !push(made))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *context = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) { return create(context, flags, device, 3020); }

CUresult ptxlab_cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned int flags, CUdevice device)
{
    return affinity || count ? CUDA_ERROR_NOT_SUPPORTED : create(context, flags, device, 3020);
}

CUresult ptxlab_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    if (parameters && (parameters->numExecAffinityParams || parameters->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(context, flags, device, 3020);
}

CUresult ptxlab_cuCtxDestroy_v2(CUcontext context)
{
    if (!handle_is(context, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (current_context() == context)
        this_thread()->depth--;
    destroy(context);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxPushCurrent_v2(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(context, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ptxlab_cuCtxPopCurrent_v2(CUcontext *context)
{
    Thread *thread = this_thread();
    if (!thread->depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext popped = thread->contexts[--thread->depth];
    if (context)
        *context = popped;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxSetCurrent(CUcontext context)
{
    Thread *thread = this_thread();
    if (context && !handle_is(context, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (thread->depth)
        thread->depth--;
    if (context && !push(context))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetCurrent(CUcontext *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

/* A context that is given, or the current one for null. */
static CUcontext given(CUcontext context)
{
    context = context ? context : current_context();
    return handle_is(context, HANDLE_CONTEXT) ? context : NULL;
}

CUresult ptxlab_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    CUcontext found = given(context);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = found->device;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetDevice(CUdevice *device) { return ptxlab_cuCtxGetDevice_v2(device, NULL); }

CUresult ptxlab_cuCtxGetFlags(unsigned int *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = current_context();
    *flags = context->flags | (context->primary ? CU_CTX_MAP_HOST : 0);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxSetFlags(unsigned int flags)
{
    if (!are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    current_context()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CUcontext found = given(context);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return context ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    *id = found->id;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    CUcontext found = given(context);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = found->version;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxSynchronize(void)
{
    CUresult refused = capture_refuse_context(current_context());
    return refused ? refused : synchronize_context(current_context());
}

CUresult ptxlab_cuCtxSynchronize_v2(CUcontext context)
{
    CUcontext found = given(context);
    return found ? synchronize_context(found) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ------------------------------------------------------------------ settings */

CUresult ptxlab_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit >= CU_LIMIT_COUNT)
        return limit == CU_LIMIT_COUNT ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = current_context()->limits[limit];
    return CUDA_SUCCESS;
}

/* Bytes of stack that a thread can have. */
enum { MOST_STACK = 512 << 10 };

CUresult ptxlab_cuCtxSetLimit(CUlimit limit, size_t value)
{
    if (limit < 0 || limit >= CU_LIMIT_COUNT || (limit == CU_LIMIT_STACK_SIZE && value > MOST_STACK))
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_SHMEM_SIZE)
        return CUDA_ERROR_PERMITTED_BESIDE;
    if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = current_context()->cache_config;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxSetCacheConfig(CUfunc_cache config)
{
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    current_context()->cache_config = config;
    return CUDA_SUCCESS;
}

/* The banks of shared memory are four bytes wide; a program may ask for others. */
enum { BANKS_OF_FOUR_BYTES = 1 };

CUresult ptxlab_cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = BANKS_OF_FOUR_BYTES;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    if (config < 0 || config > 2)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxResetPersistingL2Cache(void) { return CUDA_SUCCESS; }

CUresult ptxlab_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUcontext context = current_context();
    if (!handle_is(peer, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->device == context->device)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (context->peers & 1u << peer->device)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext context = current_context();
    if (!handle_is(peer, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(context->peers & 1u << peer->device))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuProfilerStart(void) { return CUDA_SUCCESS; }

CUresult ptxlab_cuProfilerStop(void) { return CUDA_SUCCESS; }
