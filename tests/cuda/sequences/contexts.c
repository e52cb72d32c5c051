/* Contexts: the stack of a thread, primary contexts, limits. */
#include <pthread.h>
#include <stddef.h>

#include "sequences.h"

static void current_is(const char *name, CUcontext wanted) {
    CUcontext found = (CUcontext)1;
    CALL(cuCtxGetCurrent, &found);
    value(name, found == wanted);
}

static void primary_state(const long *p) {
    CUcontext first = 0, second = 0;
    unsigned int flags = 99;
    int active = 99;
    (void)p;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    value("active", active);
    CALL(cuDevicePrimaryCtxRetain, &first, 0);
    CALL(cuDevicePrimaryCtxRetain, &second, 0);
    value("same", first == second);
    current_is("none is current", NULL);
    CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    value("active", active);
    value("flags", flags);
    CALL(cuDevicePrimaryCtxRelease_v2, 0);
    CALL(cuDevicePrimaryCtxRelease_v2, 0);
    CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    value("active", active);
    CALL(cuDevicePrimaryCtxRelease_v2, 0);
    CALL(cuDevicePrimaryCtxRelease_v2, 5);
    CALL(cuDevicePrimaryCtxRetain, &first, 5);
    CALL(cuDevicePrimaryCtxRetain, NULL, 0);
}

static void primary_flags(const long *flags) {
    unsigned int found = 99;
    int active = 99;
    CUcontext context;
    SETUP(cuInit, 0);
    CALL(cuDevicePrimaryCtxSetFlags_v2, 0, (unsigned int)*flags);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuDevicePrimaryCtxGetState, 0, &found, &active);
    value("flags", found);
    CALL(cuDevicePrimaryCtxSetFlags_v2, 0, 4);
    CALL(cuCtxSetCurrent, context);
    CALL(cuCtxGetFlags, &found);
    value("flags", found);
}

static void primary_reset(const long *p) {
    CUdeviceptr address = 0;
    (void)p;
    CUcontext context = start();
    CALL(cuMemAlloc_v2, &address, (size_t)64);
    CALL(cuDevicePrimaryCtxReset_v2, 0);
    current_is("still current", context);
    CALL(cuMemFree_v2, address);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
}

static void stack(const long *p) {
    CUcontext first = 0, second = 0, popped = 0;
    (void)p;
    SETUP(cuInit, 0);
    CALL(cuCtxPopCurrent_v2, &popped);
    CALL(cuCtxCreate_v2, &first, 0, 0);
    current_is("the new one is current", first);
    CALL(cuCtxCreate_v2, &second, 0, 0);
    current_is("the second is current", second);
    CALL(cuCtxPushCurrent_v2, first);
    current_is("the first is current", first);
    CALL(cuCtxPopCurrent_v2, &popped);
    value("popped the first", popped == first);
    CALL(cuCtxPopCurrent_v2, NULL);
    current_is("the first is current", first);
    CALL(cuCtxSetCurrent, second);
    current_is("the second is current", second);
    CALL(cuCtxPopCurrent_v2, &popped);
    value("popped the second", popped == second);
    current_is("none is current", NULL);
    CALL(cuCtxPopCurrent_v2, &popped);
    CALL(cuCtxSetCurrent, NULL);
    CALL(cuCtxGetCurrent, NULL);
    CALL(cuCtxDestroy_v2, first);
    CALL(cuCtxDestroy_v2, second);
}

static void set_null_pops(const long *p) {
    CUcontext context = 0;
    (void)p;
    SETUP(cuInit, 0);
    SETUP(cuCtxCreate_v2, &context, 0, 0);
    CALL(cuCtxPushCurrent_v2, context);
    CALL(cuCtxSetCurrent, NULL);
    current_is("the one below is current", context);
    CALL(cuCtxSetCurrent, NULL);
    current_is("none is current", NULL);
    CALL(cuCtxPushCurrent_v2, NULL);
}

static void destroyed_is_current(const long *p) {
    CUcontext context = 0, found = 0;
    CUdeviceptr address;
    int device;
    (void)p;
    SETUP(cuInit, 0);
    CALL(cuCtxCreate_v2, &context, 0, 0);
    CALL(cuCtxDestroy_v2, context);
    CALL(cuCtxGetCurrent, &found);
    value("still there", found != NULL);
    CALL(cuCtxGetDevice, &device);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
    CALL(cuCtxSynchronize);
    CALL(cuCtxDestroy_v2, NULL);
}

static void flags(const long *wanted) {
    CUcontext context = 0;
    unsigned int found = 99;
    SETUP(cuInit, 0);
    if (CALL(cuCtxCreate_v2, &context, (unsigned int)*wanted, 0) == 0) {
        CALL(cuCtxGetFlags, &found);
        value("flags", found);
    }
    CALL(cuCtxCreate_v2, &context, 0, 7);
    CALL(cuCtxCreate_v2, NULL, 0, 0);
    CALL(cuCtxGetFlags, NULL);
}

static void limits(const long *limit) {
    size_t size = 12345;
    start();
    if (CALL(cuCtxGetLimit, &size, (int)*limit) == 0)
        value("limit", (long long)size);
    CALL(cuCtxGetLimit, NULL, (int)*limit);
}

static void set_limit(const long *p) {
    size_t size = 12345;
    start();
    CALL(cuCtxSetLimit, (int)p[0], (size_t)p[1]);
    if (CALL(cuCtxGetLimit, &size, (int)p[0]) == 0)
        value("limit", (long long)size);
}

static void various(const long *p) {
    int first = 99, second = 99;
    unsigned int version = 0;
    unsigned long long id = 0;
    CUcontext context = start();
    (void)p;
    CALL(cuCtxGetStreamPriorityRange, &first, &second);
    value("least", first);
    value("greatest", second);
    CALL(cuCtxGetStreamPriorityRange, NULL, NULL);
    CALL(cuCtxGetApiVersion, context, &version);
    value("version", version);
    CALL(cuCtxGetApiVersion, NULL, &version);
    value("version", version);
    CALL(cuCtxGetDevice, &first);
    value("device", first);
    CALL(cuCtxGetDevice, NULL);
    CALL(cuCtxGetCacheConfig, &first);
    value("cache", first);
    CALL(cuCtxSetCacheConfig, 2);
    CALL(cuCtxGetCacheConfig, &first);
    value("cache", first);
    CALL(cuCtxSetCacheConfig, 9);
    CALL(cuCtxGetSharedMemConfig, &first);
    value("banks", first);
    CALL(cuCtxSetSharedMemConfig, 2);
    CALL(cuCtxGetSharedMemConfig, &first);
    value("banks", first);
    CALL(cuCtxGetId, context, &id);
    value("has an id", id != 0);
    CALL(cuCtxGetId, NULL, NULL);
    CALL(cuCtxEnablePeerAccess, context, 0);
    CALL(cuCtxDisablePeerAccess, context);
    CALL(cuCtxEnablePeerAccess, NULL, 0);
    CALL(cuCtxResetPersistingL2Cache);
    CALL(cuCtxSynchronize);
    CALL(cuCtxSetFlags, 4);
    CALL(cuCtxSetFlags, 0xFF);
}

static void *of_a_thread(void *context) {
    CUdeviceptr address = 0;
    current_is("none in a new thread", NULL);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
    return NULL;
}

static void threads(const long *p) {
    pthread_t thread;
    CUcontext context = start();
    (void)p;
    pthread_create(&thread, NULL, of_a_thread, context);
    pthread_join(thread, NULL);
    current_is("still current", context);
}

void add_contexts(void) {
    add("context.primary_state", primary_state, 0);
    add("context.primary_flags", primary_flags, 1, 0L);
    add("context.primary_flags", primary_flags, 1, 4L);
    add("context.primary_flags", primary_flags, 1, 8L);
    add("context.primary_flags", primary_flags, 1, 3L);
    add("context.primary_reset", primary_reset, 0);
    add("context.stack", stack, 0);
    add("context.set_null_pops", set_null_pops, 0);
    add("context.destroyed_is_current", destroyed_is_current, 0);
    for (long bits = 0; bits < 10; bits++)
        add("context.flags", flags, 1, bits);
    add("context.flags", flags, 1, 16L);
    add("context.flags", flags, 1, 256L);
    for (long limit = 0; limit < 11; limit++)
        add("context.limits", limits, 1, limit);
    add("context.set_limit", set_limit, 2, 0L, 0L);
    add("context.set_limit", set_limit, 2, 0L, 2000L);
    add("context.set_limit", set_limit, 2, 0L, 4096L);
    add("context.set_limit", set_limit, 2, 0L, 1L << 30);
    add("context.set_limit", set_limit, 2, 1L, 1L << 20);
    add("context.set_limit", set_limit, 2, 1L, 5L);
    add("context.set_limit", set_limit, 2, 2L, 1L << 24);
    add("context.set_limit", set_limit, 2, 2L, 0L);
    add("context.set_limit", set_limit, 2, 3L, 2L);
    add("context.set_limit", set_limit, 2, 4L, 100L);
    add("context.set_limit", set_limit, 2, 5L, 128L);
    add("context.set_limit", set_limit, 2, 5L, 100L);
    add("context.set_limit", set_limit, 2, 6L, 1L << 20);
    add("context.set_limit", set_limit, 2, 7L, 1L << 10);
    add("context.set_limit", set_limit, 2, 99L, 1L);
    add("context.various", various, 0);
    add("context.threads", threads, 0);
}
