/* The start of the driver, the device of each thread, the last error. */
#include <pthread.h>
#include <string.h>

#include "runtime.h"

#define MOST_DEVICES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MOST_DEVICES];
static int started;

static __thread int last_error;
static __thread int device;

/* After these, the context is lost: every later call gives the same error. */
static int is_sticky(int error)
{
    return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_TIMEOUT || error == 710 || (error >= 714 && error <= 719);
}

int record(int error)
{
    if (error)
        last_error = error;
    return error;
}

int check_device(int number)
{
    int count = 0, error = cuDeviceGetCount(&count);
    if (error)
        return error;
    return number < 0 || number >= count || number >= MOST_DEVICES ? RUNTIME_INVALID_DEVICE : 0;
}

static int start(void)
{
    if (__atomic_load_n(&started, __ATOMIC_ACQUIRE))
        return 0;
    int error = cuInit(0);
    if (!error)
        __atomic_store_n(&started, 1, __ATOMIC_RELEASE);
    return error;
}

int primary_context(int number, CUcontext *context)
{
    int error = start();
    if (!error)
        error = check_device(number);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    error = cuDevicePrimaryCtxRetain(context, number);
    if (!error && primary[number] == *context) /* held already; it is another one after a reset that the program made itself */
        error = cuDevicePrimaryCtxRelease_v2(number);
    else if (!error)
        primary[number] = *context;
    pthread_mutex_unlock(&lock);
    return error;
}

void forget_primary_contexts(void)
{
    pthread_mutex_lock(&lock);
    memset(primary, 0, sizeof primary);
    pthread_mutex_unlock(&lock);
}

int ready(void)
{
    CUcontext context = NULL;
    int error = start();
    if (!error)
        error = cuCtxGetCurrent(&context);
    if (error || context)
        return error;
    error = primary_context(device, &context);
    return error ? error : (int)cuCtxSetCurrent(context);
}

int current_device(void)
{
    CUdevice found;
    CUcontext context = NULL;
    if (started && !cuCtxGetCurrent(&context) && context && !cuCtxGetDevice(&found))
        return found;
    return device;
}

EXPORT int cudaSetDevice(int number)
{
    CUcontext context;
    CHECK(primary_context(number, &context));
    device = number;
    return record(cuCtxSetCurrent(context));
}

EXPORT int cudaInitDevice(int number, unsigned device_flags, unsigned flags)
{
    CUcontext context;
    (void)device_flags;
    if (flags & ~1u)
        return record(RUNTIME_INVALID_VALUE);
    return record(primary_context(number, &context));
}

EXPORT int cudaGetDevice(int *number)
{
    if (!number)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(start());
    *number = current_device();
    return 0;
}

EXPORT int cudaGetDeviceCount(int *count)
{
    if (!count)
        return record(RUNTIME_INVALID_VALUE);
    *count = 0;
    CHECK(start());
    CHECK(cuDeviceGetCount(count));
    return record(*count ? 0 : RUNTIME_NO_DEVICE);
}

EXPORT int cudaPeekAtLastError(void) { return last_error; }

EXPORT int cudaGetLastError(void)
{
    int found = last_error;
    unsigned flags;
    if (!is_sticky(found) || cuCtxGetFlags(&flags) != (CUresult)found) /* an error that sticks is that of every call */
        last_error = 0;
    return found;
}

EXPORT int cudaDeviceReset(void)
{
    int number = current_device();
    CHECK(start());
    unload_images();
    forget_primary_contexts();
    CHECK(cuDevicePrimaryCtxReset_v2(number));
    last_error = 0;
    return record(cuCtxSetCurrent(NULL));
}

EXPORT int cudaDriverGetVersion(int *version) { return version ? record(cuDriverGetVersion(version)) : record(RUNTIME_INVALID_VALUE); }

EXPORT int cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return record(RUNTIME_INVALID_VALUE);
    *version = RUNTIME_VERSION;
    return 0;
}
