/* The functions of streams and events. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

CUresult ptxlab_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    int clamped = priority > LEAST_PRIORITY ? LEAST_PRIORITY : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    CUstream made = stream_new(current_context(), flags, clamped);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamCreate(CUstream *stream, unsigned int flags) { return ptxlab_cuStreamCreateWithPriority(stream, flags, 0); }

CUresult ptxlab_cuStreamDestroy_v2(CUstream stream)
{
    if (!handle_is(stream, HANDLE_STREAM) || stream->legacy || stream->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    stream_destroy(stream);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamSynchronize(CUstream handle)
{
    CUstream stream = stream_of(handle);
    return stream ? synchronize_stream(stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ptxlab_cuStreamQuery(CUstream handle)
{
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return capture_refuse(stream);
    lock();
    bool reached = is_reached(stream_position(stream));
    for (uint32_t i = 0; i < stream->pending_count; i++)
        reached = reached && is_reached(stream->pending[i]);
    if (reached) {
        Clock clock;
        order_stream_clock(stream, &clock);
        order_known(&clock, this_thread()->function);
    }
    unlock();
    report_conflicts();
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult ptxlab_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream = stream_of(handle);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->capture_status;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    CUstream stream = stream_of(handle);
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *context = stream->context;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetCtx_v2(CUstream stream, CUcontext *context, void **green)
{
    if (green)
        *green = NULL;
    return ptxlab_cuStreamGetCtx(stream, context);
}

CUresult ptxlab_cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    CUstream stream = stream_of(handle);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetPriority(CUstream handle, int *priority)
{
    CUstream stream = stream_of(handle);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    CUstream stream = stream_of(handle);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream = stream_of(handle);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *id = stream->id;
    return CUDA_SUCCESS;
}

static bool has_attribute(CUstreamAttrID attribute)
{
    return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW || attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
           attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY || attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN ||
           attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP;
}

CUresult ptxlab_cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    CUstream stream = stream_of(handle);
    if (!value || !has_attribute(attribute))
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *value = stream->attributes[attribute];
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    CUstream stream = stream_of(handle);
    if (!value || !has_attribute(attribute))
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    stream->attributes[attribute] = *value;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CUstream target = stream_of(to), source = stream_of(from);
    if (!target || !source)
        return CUDA_ERROR_INVALID_HANDLE;
    memcpy(target->attributes, source->attributes, sizeof target->attributes);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size, unsigned int flags)
{
    (void)size;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream_of(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && (found->kind == MEMORY_MANAGED || found->kind == MEMORY_HOST);
    unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ functions of the host */

typedef struct HostCall {
    Op op;
    CUhostFn function;
    CUstreamCallback callback;
    CUstream stream;
    void *data;
} HostCall;

static CUresult call(Op *op)
{
    HostCall *host = (HostCall *)op;
    if (host->function)
        host->function(host->data);
    else
        host->callback(host->stream, CUDA_SUCCESS, host->data);
    return CUDA_SUCCESS;
}

static void call_with_error(Op *op)
{
    HostCall *host = (HostCall *)op;
    if (host->callback)
        host->callback(host->stream, CUDA_ERROR_LAUNCH_FAILED, host->data);
}

static bool describe_nothing(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    (void)op, (void)ranges, (void)count, (void)what;
    return true;
}

static const OpClass host_calls = {
    .size = sizeof(HostCall), .node = NODE_HOST, .perform = call, .cancel = call_with_error, .describe = describe_nothing, .tells = true};

CUresult make_host_call(Op **op, CUhostFn function, void *data)
{
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    HostCall *made = op_new(&host_calls);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->function = function;
    made->data = data;
    *op = &made->op;
    return CUDA_SUCCESS;
}

void describe_host_call(const Op *op, CUDA_HOST_NODE_PARAMS *found)
{
    const HostCall *call = (const HostCall *)op;
    *found = (CUDA_HOST_NODE_PARAMS){call->function, call->data};
}

CUresult ptxlab_cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    Op *op;
    CUresult refused = make_host_call(&op, function, data);
    return refused ? refused : submit(stream, op);
}

CUresult ptxlab_cuStreamAddCallback(CUstream handle, CUstreamCallback function, void *data, unsigned int flags)
{
    CUstream stream = stream_of(handle);
    if (!function || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return capture_refuse(stream);
    HostCall *made = op_new(&host_calls);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->callback = function;
    made->stream = handle;
    made->data = data;
    return submit(stream, &made->op);
}

/* ------------------------------------------------------------------ values in memory */

enum { MEM_OP_WAIT_32 = 1, MEM_OP_WRITE_32, MEM_OP_FLUSH, MEM_OP_WAIT_64, MEM_OP_WRITE_64, MEM_OP_BARRIER, MOST_MEM_OPS = 256 };

typedef struct ValueOp {
    Op op;
    uint64_t address, value;
    unsigned int flags, size;
} ValueOp;

static uint64_t load(const ValueOp *op)
{
    return op->size == 4 ? __atomic_load_n((uint32_t *)op->address, __ATOMIC_ACQUIRE) : __atomic_load_n((uint64_t *)op->address, __ATOMIC_ACQUIRE);
}

static bool holds(Op *op)
{
    const ValueOp *wait = (const ValueOp *)op;
    uint64_t found = load(wait), value = wait->value;
    switch (wait->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wait->size == 4 ? (int32_t)(uint32_t)(found - value) >= 0 : (int64_t)(found - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & value) != 0;
    default:
        return ~(found | value) << (wait->size == 4 ? 32 : 0) != 0;
    }
}

static CUresult pass(Op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

static CUresult store(Op *op)
{
    const ValueOp *write = (const ValueOp *)op;
    if (write->size == 4)
        __atomic_store_n((uint32_t *)write->address, (uint32_t)write->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)write->address, write->value, __ATOMIC_RELEASE);
    note_transfer(write->address, 0, write->size);
    return CUDA_SUCCESS;
}

static const OpClass value_waits = {.size = sizeof(ValueOp), .at_once = true, .perform = pass, .ready = holds};
static const OpClass value_writes = {.size = sizeof(ValueOp), .at_once = true, .perform = store, .describe = describe_nothing, .tells = true};

static bool is_value(CUdeviceptr address, unsigned int size)
{
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && address % size == 0 && found->address + found->size - address >= size;
    unlock();
    return fits;
}

static CUresult value_op(const OpClass *class, CUstream handle, CUdeviceptr address, uint64_t value, unsigned int size, unsigned int flags)
{
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_value(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    ValueOp *made = op_new(class);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->address = address;
    made->value = value;
    made->size = size;
    made->flags = flags;
    if (class == &value_waits)
        order_is_unknown(stream->context);
    return submit(stream, &made->op);
}

CUresult ptxlab_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return value_op(&value_waits, stream, address, value, 4, flags);
}

CUresult ptxlab_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return value_op(&value_waits, stream, address, value, 8, flags);
}

CUresult ptxlab_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return value_op(&value_writes, stream, address, value, 4, flags);
}

CUresult ptxlab_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return value_op(&value_writes, stream, address, value, 8, flags);
}

/* All operations are checked before the first is submitted. A stream keeps their order without barriers. */
CUresult ptxlab_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags)
{
    static const unsigned char sizes[MEM_OP_BARRIER + 1] = {
        [MEM_OP_WAIT_32] = 4, [MEM_OP_WRITE_32] = 4, [MEM_OP_WAIT_64] = 8, [MEM_OP_WRITE_64] = 8};
    CUresult result = operations && count <= MOST_MEM_OPS && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!stream_of(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned int i = 0; i < count && !result; i++) {
        unsigned int kind = operations[i].operation, size = kind < sizeof sizes ? sizes[kind] : 0;
        bool writes = kind == MEM_OP_WRITE_32 || kind == MEM_OP_WRITE_64;
        if (size ? !is_value(operations[i].memory.address, size) || (writes && operations[i].memory.flags)
                 : kind != MEM_OP_FLUSH && kind != MEM_OP_BARRIER)
            result = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned int i = 0; i < count && !result; i++) {
        unsigned int kind = operations[i].operation, size = sizes[kind];
        bool waits = kind == MEM_OP_WAIT_32 || kind == MEM_OP_WAIT_64;
        uint64_t value = size == 4 ? (uint32_t)operations[i].memory.value : operations[i].memory.value;
        if (size)
            result = value_op(waits ? &value_waits : &value_writes, stream, operations[i].memory.address, value, size,
                              operations[i].memory.flags);
    }
    return result;
}
