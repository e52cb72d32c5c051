/* The map of memory: what is allocated, registered or mapped, and what programs ask about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ALIGNMENT = 512, BLOCK = 2u << 20, PITCH = 512 };

/* The array holds pointers, so that an Allocation keeps its place while others come and go. */
static Allocation **map;
static size_t count, capacity;
static uint64_t used[PTXLAB_MAX_DEVICES + 1];

static HeapChange *changes;
static size_t change_count, change_capacity;
static _Atomic uint64_t version;

/* ------------------------------------------------------------------ the map */

static size_t position(uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

Allocation *memory_find(uint64_t address)
{
    size_t at = position(address);
    if (!at)
        return NULL;
    Allocation *found = map[at - 1];
    return address - found->address < found->size ? found : NULL;
}

bool in_map(uint64_t address, uint64_t size)
{
    bool known = true;
    while (size && known) {
        Allocation *found = memory_find(address);
        uint64_t inside = found ? found->address + found->size - address : 0;
        known = inside > 0;
        inside = inside < size ? inside : size;
        address += inside;
        size -= inside;
    }
    return known;
}

static void enter(HeapChange change)
{
    if (change_count == change_capacity) {
        size_t wanted = change_capacity ? 2 * change_capacity : 256;
        HeapChange *grown = realloc(changes, wanted * sizeof *grown);
        if (!grown)
            return;
        changes = grown;
        change_capacity = wanted;
    }
    changes[change_count++] = change;
    version++;
}

static void note(const Allocation *allocation, bool released)
{
    int kind = released ? -(int)allocation->kind : (int)allocation->kind;
    enter((HeapChange){.address = allocation->address,
                       .size = allocation->size,
                       .id = allocation->id,
                       .device = allocation->device,
                       .kind = kind,
                       .file = allocation->file,
                       .left = allocation->left,
                       .place = allocation->place});
}

enum { MOST_CHANGES = 1 << 16 };

static _Atomic bool follows;

EXPORT void ptxlab_follow_transfers(int follow) { follows = follow != 0; }

void note_transfer(uint64_t to, uint64_t from, uint64_t size)
{
    if (!follows || !size)
        return;
    lock();
    Op *op = this_thread()->performing;
    uint64_t place = op && op->work ? work_place(op->work) : 0;
    if (change_count < MOST_CHANGES)
        enter((HeapChange){.address = to, .size = size, .id = from, .kind = TRANSFER, .place = place});
    else if (changes[change_count - 1].size)
        enter((HeapChange){.kind = TRANSFER}); /* nobody takes them: what the memory holds is no longer known */
    unlock();
}

void report_no_memory(ReportKind kind, uint64_t address, uint64_t size)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)size);
    report(kind, this_thread()->function, address, text);
}

Allocation *memory_add(Allocation made)
{
    if (count == capacity) {
        size_t wanted = capacity ? 2 * capacity : 256;
        Allocation **grown = realloc(map, wanted * sizeof *grown);
        if (!grown)
            return NULL;
        map = grown;
        capacity = wanted;
    }
    Allocation *kept = malloc(sizeof *kept);
    if (!kept)
        return NULL;
    *kept = made;
    kept->id = driver.next_id++;
    size_t at = position(made.address);
    memmove(map + at + 1, map + at, (count - at) * sizeof *map);
    map[at] = kept;
    count++;
    used[made.device] += made.reserved;
    order_forget(made.address, made.size);
    note(kept, false);
    return kept;
}

void memory_remove(Allocation *allocation)
{
    size_t at = position(allocation->address) - 1;
    note(allocation, true);
    used[allocation->device] -= allocation->reserved;
    memmove(map + at, map + at + 1, (count - at - 1) * sizeof *map);
    count--;
    free(allocation);
}

uint64_t memory_used(int device)
{
    lock();
    uint64_t found = used[device];
    unlock();
    return found;
}

uint64_t memory_owned(const void *owner)
{
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (map[i]->owner == owner)
            found += map[i]->size;
    return found;
}

EXPORT uint64_t ptxlab_heap_version(void) { return version; }

EXPORT uint32_t ptxlab_heap_changes(HeapChange *into, uint32_t most)
{
    lock();
    uint32_t taken = change_count < most ? (uint32_t)change_count : most;
    memcpy(into, changes, taken * sizeof *changes);
    memmove(changes, changes + taken, (change_count - taken) * sizeof *changes);
    change_count -= taken;
    unlock();
    return taken;
}

/* ------------------------------------------------------------------ release */

typedef struct Range {
    uint64_t address, size;
} Range;

static Range *freed;
static size_t freed_count, freed_capacity;

/* Give memory back: at once, or when no operation is being performed, which may still use it against the rules. */
void memory_release(uint64_t address, uint64_t size)
{
    lock();
    bool later = driver.performing > 0;
    if (later && freed_count == freed_capacity) {
        size_t wanted = freed_capacity ? 2 * freed_capacity : 64;
        Range *grown = realloc(freed, wanted * sizeof *grown);
        if (grown) {
            freed = grown;
            freed_capacity = wanted;
        }
    }
    if (later && freed_count < freed_capacity)
        freed[freed_count++] = (Range){address, size};
    unlock();
    if (!later)
        arena_release(address, size);
}

void memory_release_freed(void)
{
    for (;;) {
        lock();
        bool some = freed_count && !driver.performing;
        Range range = some ? freed[--freed_count] : (Range){0};
        unlock();
        if (!some)
            return;
        arena_release(range.address, range.size);
    }
}

/* ------------------------------------------------------------------ allocation */

CUresult memory_allocate(MemoryKind kind, int device, uint64_t size, uint64_t alignment, unsigned int flags, uint64_t *address)
{
    uint64_t at, reserved = (size + 4095) / 4096 * 4096;
    bool on_host = kind == MEMORY_HOST;
    int arena = on_host ? HOST_ARENA : device;
    if (!on_host && (size > device_of(device)->total_bytes || memory_used(device) + reserved > device_of(device)->total_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult refused = arena_reserve(arena, size, alignment, &at);
    if (refused)
        return refused;
    if (!arena_commit(at, size)) {
        arena_release(at, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t place = kind == MEMORY_VARIABLE ? 0 : place_here();
    lock();
    Allocation *made = memory_add((Allocation){.address = at,
                                               .size = size,
                                               .reserved = reserved,
                                               .kind = kind,
                                               .device = arena,
                                               .flags = flags,
                                               .context = current_context(),
                                               .place = place});
    unlock();
    if (!made) {
        arena_release(at, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = at;
    return CUDA_SUCCESS;
}

/* Free the allocation that begins at an address, if it is of one of these kinds. */
CUresult memory_free(const char *function, uint64_t address, unsigned int kinds)
{
    const Op *op = this_thread()->performing;
    uint64_t place = kinds == KIND_BIT(MEMORY_VARIABLE) ? 0 : op && op->work ? work_place(op->work) : place_here();
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && found->address == address && kinds & KIND_BIT(found->kind);
    bool own = fits && found->kind != MEMORY_REGISTERED;
    uint64_t size = fits ? found->size : 0;
    if (fits) {
        found->place = place;
        memory_remove(found);
    }
    unlock();
    if (!fits) {
        report(found ? REPORT_FOREIGN_FREE : REPORT_DOUBLE_FREE, function, address, "");
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (own)
        memory_release(address, size);
    return CUDA_SUCCESS;
}

void memory_free_context(CUcontext context)
{
    for (;;) {
        Allocation found = {0};
        lock();
        for (size_t i = count; i-- > 0 && !found.address;)
            if (map[i]->context == context && map[i]->kind <= MEMORY_MANAGED) {
                found = *map[i];
                map[i]->left = true;
                memory_remove(map[i]);
            }
        unlock();
        if (!found.address)
            return;
        if (found.kind != MEMORY_REGISTERED)
            memory_release(found.address, found.size);
    }
}

EXPORT uint64_t ptxlab_heap_allocate(int device, uint64_t size, uint64_t alignment)
{
    uint64_t address;
    return memory_allocate(MEMORY_VARIABLE, device, size ? size : 1, alignment, 0, &address) ? 0 : address;
}

EXPORT void ptxlab_heap_free(uint64_t address) { memory_free("ptxlab_heap_free", address, KIND_BIT(MEMORY_VARIABLE)); }

CUresult ptxlab_cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    CUdevice device = current_context()->device;
    size_t all = device_of(device)->total_bytes, taken = memory_used(device);
    if (unused)
        *unused = taken < all ? all - taken : 0;
    if (total)
        *total = all;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t at, alignment = size >= BLOCK ? BLOCK : ALIGNMENT;
    CUresult refused = memory_allocate(MEMORY_DEVICE, current_context()->device, size, alignment, 0, &at);
    if (!refused)
        *address = at;
    return refused;
}

CUresult ptxlab_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    if (!address || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t wide = (width + PITCH - 1) / PITCH * PITCH, size;
    if (wide < width || __builtin_mul_overflow(wide, height, &size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult refused = ptxlab_cuMemAlloc_v2(address, size);
    if (!refused)
        *pitch = wide;
    return refused;
}

CUresult ptxlab_cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
    uint64_t at;
    if (!address || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = memory_allocate(MEMORY_MANAGED, current_context()->device, size, ALIGNMENT, flags, &at);
    if (!refused)
        *address = at;
    return refused;
}

/* Work that may still use the memory ends first. */
CUresult ptxlab_cuMemFree_v2(CUdeviceptr address)
{
    if (!address)
        return CUDA_SUCCESS;
    CUresult failed = synchronize_context(current_context());
    CUresult refused = memory_free("cuMemFree", address, KIND_BIT(MEMORY_DEVICE) | KIND_BIT(MEMORY_MANAGED) | KIND_BIT(MEMORY_POOL));
    return refused ? refused : failed;
}

CUresult ptxlab_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && found->kind != MEMORY_REGISTERED;
    if (fits && base)
        *base = found->address;
    if (fits && size)
        *size = found->size;
    unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ------------------------------------------------------------------ memory of the host */

CUresult ptxlab_cuMemHostAlloc(void **memory, size_t size, unsigned int flags)
{
    uint64_t at;
    if (!memory || !size || flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = memory_allocate(MEMORY_HOST, current_context()->device, size, ALIGNMENT, flags | CU_MEMHOSTALLOC_DEVICEMAP, &at);
    if (!refused)
        *memory = (void *)at;
    return refused;
}

CUresult ptxlab_cuMemAllocHost_v2(void **memory, size_t size) { return ptxlab_cuMemHostAlloc(memory, size, 0); }

CUresult ptxlab_cuMemFreeHost(void *memory)
{
    CUresult failed = synchronize_context(current_context());
    CUresult refused = memory_free("cuMemFreeHost", (uint64_t)memory, KIND_BIT(MEMORY_HOST));
    return refused ? refused : failed;
}

/* Portable, mapped, read-only; memory of devices cannot be registered. */
#define REGISTER_FLAGS 11u

CUresult ptxlab_cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags)
{
    uint64_t address = (uint64_t)memory;
    if (!memory || !size || flags & ~REGISTER_FLAGS || !pages_are_mapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    size_t next = position(address);
    bool overlaps = memory_find(address) || (next < count && map[next]->address < address + size);
    Allocation *made = overlaps ? NULL
                                : memory_add((Allocation){.address = address,
                                                          .size = size,
                                                          .kind = MEMORY_REGISTERED,
                                                          .device = HOST_ARENA,
                                                          .flags = flags | CU_MEMHOSTALLOC_DEVICEMAP,
                                                          .context = current_context()});
    unlock();
    return overlaps ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT int ptxlab_heap_register(uint64_t address, uint64_t size) { return (int)ptxlab_cuMemHostRegister_v2((void *)address, size, 0); }

static CUresult unregister(void *memory)
{
    lock();
    Allocation *found = memory_find((uint64_t)memory);
    bool registered = found && found->kind == MEMORY_REGISTERED, fits = registered && found->address == (uint64_t)memory;
    if (fits)
        memory_remove(found);
    unlock();
    return fits ? CUDA_SUCCESS : registered ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

EXPORT void ptxlab_heap_unregister(uint64_t address) { unregister((void *)address); }

CUresult ptxlab_cuMemHostUnregister(void *memory)
{
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    synchronize_context(current_context());
    return unregister(memory);
}

bool is_pinned(const Allocation *found) { return found && (found->kind == MEMORY_HOST || found->kind == MEMORY_REGISTERED); }

bool is_host_memory(uint64_t address)
{
    Allocation *found = memory_find(address);
    return is_pinned(found) || (found && found->kind == MEMORY_MANAGED);
}

CUresult ptxlab_cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned int flags)
{
    if (!address || flags)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    bool fits = is_pinned(memory_find((uint64_t)memory));
    unlock();
    if (!fits)
        return CUDA_ERROR_INVALID_VALUE;
    *address = (CUdeviceptr)memory;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemHostGetFlags(unsigned int *flags, void *memory)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    Allocation *found = memory_find((uint64_t)memory);
    bool fits = is_pinned(found);
    if (fits)
        *flags = found->flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED);
    unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
