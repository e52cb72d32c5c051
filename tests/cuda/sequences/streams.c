/* Streams and events: flags, order of callbacks, values to wait for. */
#include <string.h>

#include "sequences.h"

static void create(const long *flags) {
    CUstream stream = 0;
    unsigned int found = 99;
    int priority = 99, capturing = 99;
    unsigned long long id = 0;
    CUcontext context = start(), of = 0;
    if (CALL(cuStreamCreate, &stream, (unsigned int)*flags) == 0) {
        CALL(cuStreamGetFlags, stream, &found);
        value("flags", found);
        CALL(cuStreamGetPriority, stream, &priority);
        value("priority", priority);
        CALL(cuStreamGetCtx, stream, &of);
        value("its context", of == context);
        CALL(cuStreamGetId, stream, &id);
        value("has an id", id != 0);
        CALL(cuStreamIsCapturing, stream, &capturing);
        value("capturing", capturing);
        CALL(cuStreamQuery, stream);
        CALL(cuStreamSynchronize, stream);
        CALL(cuStreamDestroy_v2, stream);
    }
    CALL(cuStreamCreate, NULL, 0);
}

static void priorities(const long *wanted) {
    CUstream stream = 0;
    int priority = 99;
    start();
    if (CALL(cuStreamCreateWithPriority, &stream, 1, (int)*wanted) == 0) {
        CALL(cuStreamGetPriority, stream, &priority);
        value("priority", priority);
    }
}

static void special(const long *handle) {
    CUstream stream = (CUstream)*handle;
    unsigned int found = 99;
    int priority = 99;
    CUcontext context = start(), of = 0;
    CALL(cuStreamGetFlags, stream, &found);
    value("flags", found);
    CALL(cuStreamGetPriority, stream, &priority);
    value("priority", priority);
    CALL(cuStreamGetCtx, stream, &of);
    value("its context", of == context);
    CALL(cuStreamQuery, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuStreamDestroy_v2, stream);
    CUdeviceptr address = allocate(64);
    CALL(cuMemsetD8Async, address, 1, (size_t)64, stream);
    CALL(cuLaunchKernel, load_kernel("nothing"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CALL(cuStreamSynchronize, stream);
}

static void events(const long *flags) {
    CUevent first = 0, second = 0;
    CUstream stream = 0;
    float time = -1;
    start();
    SETUP(cuStreamCreate, &stream, 1);
    if (CALL(cuEventCreate, &first, (unsigned int)*flags) == 0) {
        CALL(cuEventCreate, &second, (unsigned int)*flags);
        CALL(cuEventQuery, first);
        CALL(cuEventSynchronize, first);
        CALL(cuEventElapsedTime, &time, first, second);
        CALL(cuEventRecord, first, stream);
        CALL(cuEventElapsedTime, &time, first, second);
        CALL(cuEventRecord, second, stream);
        CALL(cuEventSynchronize, second);
        CALL(cuEventQuery, first);
        CALL(cuEventQuery, second);
        if (CALL(cuEventElapsedTime, &time, first, second) == 0)
            value("not negative", time >= 0);
        CALL(cuEventElapsedTime, NULL, first, second);
        CALL(cuStreamWaitEvent, NULL, first, 0);
        CALL(cuStreamWaitEvent, stream, second, 0);
        CALL(cuStreamWaitEvent, stream, second, 1);
        CALL(cuStreamWaitEvent, stream, second, 9);
        CALL(cuEventDestroy_v2, first);
        CALL(cuEventDestroy_v2, second);
    }
    CALL(cuEventCreate, NULL, 0);
    CALL(cuEventRecord, NULL, stream);
    CALL(cuEventQuery, NULL);
    CALL(cuEventSynchronize, NULL);
    CALL(cuEventDestroy_v2, NULL);
    CALL(cuStreamWaitEvent, stream, NULL, 0);
}

static void record_flags(const long *flags) {
    CUevent event = 0;
    start();
    SETUP(cuEventCreate, &event, 0);
    CALL(cuEventRecordWithFlags, event, NULL, (unsigned int)*flags);
    CALL(cuStreamSynchronize, NULL);
    CALL(cuEventQuery, event);
}

static int order[16], order_count;
static void note(void *data) { order[order_count++ & 15] = (int)(long)data; }
static void note_callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    order[order_count++ & 15] = (int)(long)data + 10 * (int)status;
}

static void callback_order(const long *p) {
    CUstream stream = 0, other = 0;
    CUevent event = 0;
    (void)p;
    start();
    CUfunction kernel = load_kernel("nothing");
    SETUP(cuStreamCreate, &stream, 1);
    SETUP(cuStreamCreate, &other, 1);
    SETUP(cuEventCreate, &event, 2);
    CALL(cuLaunchHostFunc, stream, (void *)note, (void *)1);
    CALL(cuStreamAddCallback, stream, (void *)note_callback, (void *)2, 0);
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CALL(cuLaunchHostFunc, stream, (void *)note, (void *)3);
    CALL(cuEventRecord, event, stream);
    CALL(cuStreamWaitEvent, other, event, 0);
    CALL(cuLaunchHostFunc, other, (void *)note, (void *)4);
    CALL(cuStreamSynchronize, other);
    CALL(cuLaunchHostFunc, NULL, (void *)note, (void *)5);
    CALL(cuCtxSynchronize);
    for (int i = 0; i < order_count; i++)
        value("callback", order[i]);
    CALL(cuLaunchHostFunc, stream, NULL, NULL);
    CALL(cuStreamAddCallback, stream, NULL, NULL, 0);
    CALL(cuStreamAddCallback, stream, (void *)note_callback, NULL, 1);
}

static int result_in_callback;
static void calls_driver(void *data) {
    CUdeviceptr address;
    (void)data;
    result_in_callback = function("cuMemAlloc_v2")(&address, (size_t)64);
}

static void driver_in_callback(const long *p) {
    (void)p;
    start();
    CALL(cuLaunchHostFunc, NULL, (void *)calls_driver, NULL);
    CALL(cuStreamSynchronize, NULL);
    value("result in the callback", result_in_callback);
}

static void wait_values(const long *flags) {
    CUstream stream = 0;
    unsigned int host[4] = {0, 0, 0, 0};
    start();
    CUdeviceptr address = allocate(64);
    SETUP(cuStreamCreate, &stream, 1);
    CALL(cuMemsetD32_v2, address, 5, (size_t)4);
    CALL(cuStreamWaitValue32_v2, stream, address, 5, (unsigned int)*flags);
    CALL(cuStreamWriteValue32_v2, stream, address + 4, 77, 0);
    CALL(cuStreamWriteValue64_v2, stream, address + 8, 0x1122334455667788ull, 0);
    if (*flags != 3)
        CALL(cuStreamSynchronize, stream);
    CALL(cuMemcpyDtoH_v2, host, address, sizeof host);
    if (*flags != 3) {
        value("written", host[1]);
        value("written", host[2]);
    }
    CALL(cuStreamWriteValue32_v2, stream, address + 2, 1, 0);
    CALL(cuStreamWriteValue64_v2, stream, address + 4, 1ull, 0);
    CALL(cuStreamWriteValue32_v2, stream, (CUdeviceptr)0, 1, 0);
    CALL(cuStreamWriteValue32_v2, stream, address, 1, 1);
    CALL(cuStreamWriteValue32_v2, stream, address, 1, 64);
}

static void stream_attributes(const long *id) {
    CUstream stream = 0;
    CUlaunchAttributeValue found;
    memset(&found, 0, sizeof found);
    start();
    SETUP(cuStreamCreate, &stream, 0);
    CALL(cuStreamGetAttribute, stream, (int)*id, &found);
    value("first word", found.cooperative);
    CALL(cuStreamSetAttribute, stream, (int)*id, &found);
    CALL(cuStreamGetAttribute, stream, (int)*id, NULL);
}

static void wrong(const long *p) {
    unsigned int flags = 0;
    (void)p;
    start();
    CALL(cuStreamGetFlags, NULL, NULL);
    CALL(cuStreamGetPriority, NULL, NULL);
    CALL(cuStreamGetCtx, NULL, NULL);
    CALL(cuStreamIsCapturing, NULL, NULL);
    CALL(cuStreamDestroy_v2, NULL);
    CALL(cuStreamGetFlags, (CUstream)2, &flags);
}

void add_streams(void) {
    for (long flags = 0; flags < 5; flags++)
        add("stream.create", create, 1, flags);
    static const long PRIORITIES[] = {-100, -6, -5, -3, -1, 0, 1, 7};
    for (size_t i = 0; i < sizeof PRIORITIES / sizeof *PRIORITIES; i++)
        add("stream.priorities", priorities, 1, PRIORITIES[i]);
    for (long handle = 0; handle < 3; handle++)
        add("stream.special", special, 1, handle);
    for (long flags = 0; flags < 9; flags++)
        add("stream.events", events, 1, flags);
    for (long flags = 0; flags < 3; flags++)
        add("stream.record_flags", record_flags, 1, flags);
    add("stream.callback_order", callback_order, 0);
    add("stream.driver_in_callback", driver_in_callback, 0);
    for (long flags = 0; flags < 3; flags++)
        add("stream.wait_values", wait_values, 1, flags);
    for (long id = 0; id < 10; id++)
        add("stream.attributes", stream_attributes, 1, id);
    add("stream.wrong", wrong, 0);
}
