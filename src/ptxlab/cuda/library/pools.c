/* Memory pools: allocation and release in the order of a stream.
 *
 * An allocation has its memory at once. It is released when its stream comes to that, and its addresses are not used again soon, so that a
 * use after the release is found. In a graph, the memory comes and goes with each launch, at the addresses of the capture. */
#include <stdlib.h>
#include <sys/mman.h>

#include "order.h"

enum { UNIT = 32u << 20, ALIGNMENT = 512, BLOCK = 2u << 20, PAGE = 4096 };
enum { REUSE_FIRST = 1, REUSE_LAST = 3, RELEASE_THRESHOLD = 4, RESERVED = 5, RESERVED_HIGH = 6, USED = 7, USED_HIGH = 8 };
enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };
enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1, HANDLE_TYPE_DESCRIPTOR = 1 };

/* Marks allocations whose release is in a stream. */
enum { RELEASED = 1u << 31 };

struct CUmemPoolHandle_st {
    CUdevice device;
    bool is_default;
    int reuse[REUSE_LAST + 1];
    uint64_t threshold, reserved, reserved_high, used_high;
};

/* Memory of graphs: the map of memory has it until a launch of the graph releases it, and again from the next launch on. */
typedef struct GraphMemory {
    struct GraphMemory *next;
    uint64_t address, size;
    CUmemoryPool pool;
} GraphMemory;

typedef struct MemoryOp {
    Op op;
    uint64_t address;
    GraphMemory *of_graph; /* null outside of graphs */
    CUcontext context;
} MemoryOp;

static CUmemoryPool defaults[PTXLAB_MAX_DEVICES], current[PTXLAB_MAX_DEVICES];
static GraphMemory *graph_memory;

static uint64_t units(uint64_t size) { return (size + UNIT - 1) / UNIT * UNIT; }

static CUmemoryPool pool_new(CUdevice device)
{
    CUmemoryPool made = handle_new(HANDLE_POOL, sizeof *made);
    if (made) {
        made->device = device;
        for (int i = REUSE_FIRST; i <= REUSE_LAST; i++)
            made->reuse[i] = 1;
    }
    return made;
}

static CUmemoryPool default_of(CUdevice device)
{
    if (!defaults[device] && (defaults[device] = pool_new(device)))
        defaults[device]->is_default = true;
    return defaults[device];
}

static CUmemoryPool current_of(CUdevice device)
{
    return handle_is(current[device], HANDLE_POOL) ? current[device] : default_of(device);
}

/* With the lock held: what the pool holds of the device's memory, after it has given back what it does not keep. */
static uint64_t trim(CUmemoryPool pool, uint64_t keep)
{
    uint64_t needed = units(memory_owned(pool));
    uint64_t kept = pool->reserved < keep ? pool->reserved : keep;
    pool->reserved = needed > kept ? needed : kept;
    return pool->reserved;
}

/* With the lock held: after an allocation. */
static void count(CUmemoryPool pool)
{
    uint64_t used = memory_owned(pool);
    if (used > pool->used_high)
        pool->used_high = used;
    if (units(used) > pool->reserved)
        pool->reserved = units(used);
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

/* ------------------------------------------------------------------ allocation and release */

static CUresult come(Op *op)
{
    MemoryOp *memory = (MemoryOp *)op;
    GraphMemory *wanted = memory->of_graph;
    lock();
    bool there = memory_find(wanted->address) != NULL;
    unlock();
    if (there)
        return CUDA_SUCCESS;
    if (!arena_commit(wanted->address, wanted->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    Allocation *made = memory_add((Allocation){.address = wanted->address,
                                               .size = wanted->size,
                                               .reserved = (wanted->size + PAGE - 1) / PAGE * PAGE,
                                               .kind = MEMORY_POOL,
                                               .device = wanted->pool->device,
                                               .context = memory->context,
                                               .owner = wanted->pool});
    count(wanted->pool);
    unlock();
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult go(Op *op)
{
    MemoryOp *memory = (MemoryOp *)op;
    if (!memory->of_graph)
        return memory_free("cuMemFreeAsync", memory->address, ~0u);
    lock();
    Allocation *found = memory_find(memory->address);
    if (found)
        memory_remove(found);
    unlock();
    uint64_t size = (memory->of_graph->size + PAGE - 1) / PAGE * PAGE;
    mmap((void *)memory->address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}

/* Memory comes and goes as if it were written: what uses it is between. */
static bool describe(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    (void)what;
    lock();
    Allocation *found = memory_find(((const MemoryOp *)op)->address);
    if (found)
        ranges[(*count)++] = (AccessRange){found->address, found->address + found->size, ACCESS_WRITE, 0};
    unlock();
    return true;
}

static CUresult is_there(Op *op)
{
    (void)op;
    return CUDA_SUCCESS;
}

static const OpClass arrivals = {.size = sizeof(MemoryOp), .at_once = true, .perform = is_there, .describe = describe};
static const OpClass allocations = {.size = sizeof(MemoryOp), .node = NODE_ALLOCATE, .at_once = true, .perform = come};
static const OpClass releases = {.size = sizeof(MemoryOp), .node = NODE_RELEASE, .at_once = true, .perform = go, .describe = describe};

static MemoryOp *memory_op(const OpClass *class, CUcontext context, uint64_t address, GraphMemory *of_graph)
{
    MemoryOp *made = op_new(class);
    if (made) {
        made->address = address;
        made->of_graph = of_graph;
        made->context = context;
    }
    return made;
}

static CUresult submit_memory(const OpClass *class, CUstream stream, uint64_t address, GraphMemory *of_graph)
{
    MemoryOp *made = memory_op(class, stream->context, address, of_graph);
    return made ? submit(stream, &made->op) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The memory is there before the first launch: calls that are captured check their addresses. */
static GraphMemory *graph_memory_new(uint64_t address, size_t size, CUmemoryPool pool)
{
    GraphMemory *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    lock();
    *made = (GraphMemory){graph_memory, address, size, pool};
    graph_memory = made;
    unlock();
    return made;
}

static GraphMemory *graph_memory_at(uint64_t address)
{
    GraphMemory *found = graph_memory;
    while (found && found->address != address)
        found = found->next;
    return found;
}

static CUresult allocate(uint64_t *address, size_t size, CUmemoryPool pool)
{
    CUresult refused = memory_allocate(MEMORY_POOL, pool->device, size, size >= BLOCK ? BLOCK : ALIGNMENT, 0, address);
    if (refused)
        return refused;
    lock();
    memory_find(*address)->owner = pool;
    count(pool);
    unlock();
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream handle)
{
    CUstream stream = stream_of(handle);
    uint64_t at = 0;
    if (!address || !handle_is(pool, HANDLE_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult refused = CUDA_SUCCESS;
    if (size) {
        GraphMemory *of_graph = NULL;
        refused = allocate(&at, size, pool);
        if (!refused && stream->capture && !(of_graph = graph_memory_new(at, size, pool)))
            refused = CUDA_ERROR_OUT_OF_MEMORY;
        if (!refused)
            refused = submit_memory(of_graph ? &allocations : &arrivals, stream, at, of_graph);
    }
    if (!refused)
        *address = at;
    return refused;
}

CUresult ptxlab_cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    return ptxlab_cuMemAllocFromPoolAsync(address, size, current_of(current_context()->device), stream);
}

CUresult ptxlab_cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!address)
        return CUDA_SUCCESS;
    lock();
    GraphMemory *of_graph = graph_memory_at(address);
    Allocation *found = memory_find(address);
    bool freed = found && found->flags & RELEASED;
    bool fits = found && !freed && found->address == address && KIND_BIT(found->kind) & (KIND_BIT(MEMORY_DEVICE) | KIND_BIT(MEMORY_POOL));
    if (fits && !of_graph)
        found->flags |= RELEASED;
    unlock();
    if (!fits && !of_graph) {
        report(found && !freed ? REPORT_FOREIGN_FREE : REPORT_DOUBLE_FREE, "cuMemFreeAsync", address, "");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit_memory(&releases, stream, address, of_graph);
}

/* ------------------------------------------------------------------ memory of graphs */

CUresult make_graph_memory(Op **op, CUdevice device, size_t size, CUdeviceptr *address)
{
    uint64_t at;
    CUmemoryPool pool = default_of(device);
    CUresult refused = pool ? allocate(&at, size, pool) : CUDA_ERROR_OUT_OF_MEMORY;
    if (refused)
        return refused;
    GraphMemory *made = graph_memory_new(at, size, pool);
    MemoryOp *found = made ? memory_op(&allocations, current_context(), at, made) : NULL;
    *op = &found->op;
    *address = at;
    return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult make_graph_release(Op **op, CUdeviceptr address)
{
    lock();
    GraphMemory *of_graph = graph_memory_at(address);
    unlock();
    if (!of_graph)
        return CUDA_ERROR_INVALID_VALUE;
    MemoryOp *made = memory_op(&releases, current_context(), address, of_graph);
    *op = &made->op;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

enum { GRAPH_USED = 0, GRAPH_USED_HIGH = 1, GRAPH_RESERVED = 2, GRAPH_RESERVED_HIGH = 3 };

CUresult ptxlab_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || attribute < GRAPH_USED || attribute > GRAPH_RESERVED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t used = 0, all = 0;
    lock();
    for (GraphMemory *each = graph_memory; each; each = each->next)
        if (each->pool->device == device) {
            all += each->size;
            used += memory_find(each->address) ? each->size : 0;
        }
    unlock();
    *(cuuint64_t *)value = attribute == GRAPH_USED ? used : attribute == GRAPH_USED_HIGH ? all : units(all);
    return CUDA_SUCCESS;
}

/* The high marks are those of all graphs, whose addresses stay reserved. */
CUresult ptxlab_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return value && !*(cuuint64_t *)value && (attribute == GRAPH_USED_HIGH || attribute == GRAPH_RESERVED_HIGH) ? CUDA_SUCCESS
                                                                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuDeviceGraphMemTrim(CUdevice device) { return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }

/* ------------------------------------------------------------------ pools */

CUresult ptxlab_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    if (!pool || !properties || properties->allocType != TYPE_PINNED || properties->handleTypes & ~HANDLE_TYPE_DESCRIPTOR ||
        properties->location.type != LOCATION_DEVICE || !is_device(properties->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool made = pool_new(properties->location.id);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = made;
    return CUDA_SUCCESS;
}

/* Its memory stays until it is freed; so does what the allocations know of it. */
CUresult ptxlab_cuMemPoolDestroy(CUmemoryPool pool)
{
    if (!handle_is(pool, HANDLE_POOL) || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    handle_forget(pool);
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    if (!handle_is(pool, HANDLE_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    trim(pool, keep);
    unlock();
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!handle_is(pool, HANDLE_POOL) || !value || attribute < REUSE_FIRST || attribute > USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute <= REUSE_LAST) {
        *(int *)value = pool->reuse[attribute];
        return CUDA_SUCCESS;
    }
    lock();
    uint64_t *into = value;
    *into = attribute == RELEASE_THRESHOLD ? pool->threshold
            : attribute == RESERVED        ? trim(pool, pool->threshold)
            : attribute == RESERVED_HIGH   ? pool->reserved_high
            : attribute == USED            ? memory_owned(pool)
                                           : pool->used_high;
    unlock();
    return CUDA_SUCCESS;
}

/* The high marks can only be reset, to what is in use now. */
CUresult ptxlab_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!handle_is(pool, HANDLE_POOL) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) {
        pool->reuse[attribute] = *(int *)value != 0;
        return CUDA_SUCCESS;
    }
    uint64_t wanted = *(uint64_t *)value;
    if (attribute == RELEASE_THRESHOLD) {
        pool->threshold = wanted;
        return CUDA_SUCCESS;
    }
    if (wanted || (attribute != RESERVED_HIGH && attribute != USED_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    if (attribute == RESERVED_HIGH)
        pool->reserved_high = pool->reserved;
    else
        pool->used_high = memory_owned(pool);
    unlock();
    return CUDA_SUCCESS;
}

/* All devices reach all memory. */
CUresult ptxlab_cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    if (!flags || !location || !handle_is(pool, HANDLE_POOL) || location->type != LOCATION_DEVICE || !is_device(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ACCESS_READ_WRITE;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count)
{
    if (!handle_is(pool, HANDLE_POOL) || (count && !wanted))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].location.type != LOCATION_DEVICE || !is_device(wanted[i].location.id))
            return CUDA_ERROR_INVALID_VALUE;
        if (wanted[i].flags == ACCESS_READ)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (wanted[i].flags == ACCESS_NONE && wanted[i].location.id == pool->device)
            return CUDA_ERROR_INVALID_DEVICE;
        if (wanted[i].flags != ACCESS_NONE && wanted[i].flags != ACCESS_READ_WRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ pools of devices */

static CUresult give(CUmemoryPool *pool, CUdevice device, CUmemoryPool (*of)(CUdevice))
{
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    lock();
    *pool = of(device);
    unlock();
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ptxlab_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { return give(pool, device, default_of); }

CUresult ptxlab_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return give(pool, device, current_of); }

CUresult ptxlab_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!handle_is(pool, HANDLE_POOL) || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    current[device] = pool;
    return CUDA_SUCCESS;
}
