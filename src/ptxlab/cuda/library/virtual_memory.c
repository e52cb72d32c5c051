/* Virtual memory management: physical memory is a file in memory, mapped at reserved addresses, so that two mappings of it are one memory.
 *
 * A mapping is in the map of memory from the first cuMemSetAccess on: what happens before faults, as on a device. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { GRANULARITY = 2u << 20 };
enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1 };
enum { HANDLE_TYPE_NONE = 0, HANDLE_TYPE_DESCRIPTOR = 1, HANDLE_TYPE_FABRIC = 8 };
enum { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };
#define FILE_NAME "ptxlab-physical"

typedef struct Physical {
    int file;
    uint64_t size;
    CUmemAllocationProp properties;
    uint32_t handles, mappings; /* who holds it */
} Physical;

/* `physical` is null in a reservation. */
typedef struct Range {
    struct Range *next;
    uint64_t address, size;
    Physical *physical;
    int access;
} Range;

static Range *reservations, *mappings;

static bool is_multiple(uint64_t value) { return value && value % GRANULARITY == 0; }

static Physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return handle_is((void *)handle, HANDLE_PHYSICAL) && ((Physical *)handle)->handles ? (Physical *)handle : NULL;
}

/* With the lock held: frees what nothing holds. */
static void drop(Physical *physical)
{
    if (physical->handles || physical->mappings)
        return;
    close(physical->file);
    handle_free(physical);
}

static bool is_location(const CUmemLocation *location) { return location->type == LOCATION_DEVICE && is_device(location->id); }

/* ------------------------------------------------------------------ physical memory */

CUresult ptxlab_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option)
{
    if (!granularity || !properties || option < 0 || option > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

static CUresult make(CUmemGenericAllocationHandle *handle, int file, uint64_t size, const CUmemAllocationProp *properties)
{
    Physical *made = handle_new(HANDLE_PHYSICAL, sizeof *made);
    if (!made) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->file = file;
    made->size = size;
    made->properties = *properties;
    made->handles = 1;
    *handle = (CUmemGenericAllocationHandle)made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                            unsigned long long flags)
{
    if (!handle || !properties || flags || !is_multiple(size))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->type != TYPE_PINNED || !is_location(&properties->location))
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->requestedHandleTypes == HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_PERMITTED_BESIDE;
    if (properties->requestedHandleTypes != HANDLE_TYPE_NONE && properties->requestedHandleTypes != HANDLE_TYPE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > device_of(properties->location.id)->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char name[64];
    snprintf(name, sizeof name, FILE_NAME "-%d", properties->location.id);
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (ftruncate(file, (off_t)size) != 0) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return make(handle, file, size, properties);
}

CUresult ptxlab_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    lock();
    Physical *physical = physical_of(handle);
    if (physical) {
        physical->handles--;
        drop(physical);
    }
    unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    lock();
    Physical *physical = properties ? physical_of(handle) : NULL;
    if (physical)
        *properties = physical->properties;
    unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                             unsigned long long flags)
{
    if (!shared || flags || type != HANDLE_TYPE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    Physical *physical = physical_of(handle);
    bool may = physical && physical->properties.requestedHandleTypes & HANDLE_TYPE_DESCRIPTOR;
    int file = may ? dup(physical->file) : -1;
    unlock();
    if (!may)
        return CUDA_ERROR_INVALID_VALUE;
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shared = file;
    return CUDA_SUCCESS;
}

/* The name of the file says that it is physical memory, and of which device. */
CUresult ptxlab_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type)
{
    int given = (int)(intptr_t)shared, device = -1;
    char link[64], name[PATH_MAX];
    struct stat status;
    if (!handle || type != HANDLE_TYPE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (given < 0 || fstat(given, &status) != 0)
        return CUDA_ERROR_UNKNOWN;
    snprintf(link, sizeof link, "/proc/self/fd/%d", given);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    if (sscanf(name, "/memfd:" FILE_NAME "-%d", &device) != 1 || !is_device(device) || !is_multiple((uint64_t)status.st_size))
        return CUDA_ERROR_INVALID_VALUE;
    int file = dup(given);
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    CUmemAllocationProp properties = {
        .type = TYPE_PINNED, .requestedHandleTypes = HANDLE_TYPE_DESCRIPTOR, .location = {LOCATION_DEVICE, device}};
    return make(handle, file, (uint64_t)status.st_size, &properties);
}

/* ------------------------------------------------------------------ addresses */

static bool add(Range **list, Range range)
{
    Range *made = malloc(sizeof *made);
    if (!made)
        return false;
    *made = range;
    made->next = *list;
    *list = made;
    return true;
}

static void take(Range **at)
{
    Range *taken = *at;
    *at = taken->next;
    free(taken);
}

static bool overlap(const Range *range, uint64_t address, uint64_t size)
{
    return range->address < address + size && address < range->address + range->size;
}

static bool is_within(const Range *range, uint64_t address, uint64_t size)
{
    return address <= range->address && range->address + range->size <= address + size;
}

/* Whether a range lies in one reservation. */
static bool is_reserved(uint64_t address, uint64_t size)
{
    for (Range *at = reservations; at; at = at->next)
        if (address >= at->address && size <= at->size && address - at->address <= at->size - size)
            return true;
    return false;
}

CUresult ptxlab_cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
    uint64_t at;
    (void)wanted; /* a hint */
    if (!address || flags || !is_multiple(size) || alignment & (alignment - 1))
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = current_context();
    CUresult refused =
        arena_reserve(context ? context->device : 0, size, alignment > GRANULARITY ? alignment : (uint64_t)GRANULARITY, &at);
    if (refused)
        return refused;
    lock();
    bool made = add(&reservations, (Range){.address = at, .size = size});
    unlock();
    if (!made) {
        arena_release(at, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = at;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuMemAddressFree(CUdeviceptr address, size_t size)
{
    bool found = false;
    lock();
    bool mapped = false;
    for (Range *at = mappings; at; at = at->next)
        mapped |= overlap(at, address, size);
    for (Range **at = &reservations; *at && !mapped && !found;)
        if ((*at)->address == address && (*at)->size == size) {
            take(at);
            found = true;
        } else {
            at = &(*at)->next;
        }
    unlock();
    if (found)
        arena_release(address, size);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ mappings */

CUresult ptxlab_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = CUDA_SUCCESS;
    lock();
    Physical *physical = physical_of(handle);
    bool taken = false;
    for (Range *at = mappings; at; at = at->next)
        taken |= overlap(at, address, size);
    if (!physical || !size || flags || address % GRANULARITY)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (size != physical->size || offset)
        result = CUDA_ERROR_NOT_SUPPORTED;
    else if (taken || !is_reserved(address, size))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) == MAP_FAILED)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!add(&mappings, (Range){.address = address, .size = size, .physical = physical}))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else
        physical->mappings++;
    unlock();
    return result;
}

/* With the lock held: the reserved addresses fault again. */
static void unmap(Range **at)
{
    Range *range = *at;
    mmap((void *)range->address, range->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    Allocation *known = range->access ? memory_find(range->address) : NULL;
    if (known)
        memory_remove(known);
    range->physical->mappings--;
    drop(range->physical);
    take(at);
}

CUresult ptxlab_cuMemUnmap(CUdeviceptr address, size_t size)
{
    if (address % GRANULARITY || !is_multiple(size))
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = current_context();
    if (context)
        synchronize_context(context);
    lock();
    bool fits = is_reserved(address, size);
    for (Range *at = mappings; at; at = at->next)
        fits &= !overlap(at, address, size) || is_within(at, address, size);
    for (Range **at = &mappings; *at && fits;)
        if (is_within(*at, address, size))
            unmap(at);
        else
            at = &(*at)->next;
    unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* With the lock held. Kernels may write to what a program has made read-only: the map of memory has no such mark. */
static bool give_access(Range *range, int access, int device)
{
    int protection = access ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (mprotect((void *)range->address, range->size, protection) != 0)
        return false;
    Allocation *known = range->access ? memory_find(range->address) : NULL;
    range->access = access;
    if (known && !access)
        memory_remove(known);
    if (known || !access)
        return true;
    return memory_add((Allocation){.address = range->address,
                                   .size = range->size,
                                   .kind = MEMORY_MAPPED,
                                   .device = device,
                                   .context = current_context(),
                                   .owner = range->physical,
                                   .file = range->physical->file + 1});
}

CUresult ptxlab_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *wanted, size_t count)
{
    if (!wanted || !count || !is_multiple(size) || address % GRANULARITY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!is_location(&wanted[i].location) ||
            (wanted[i].flags != ACCESS_NONE && wanted[i].flags != ACCESS_READ && wanted[i].flags != ACCESS_READ_WRITE))
            return CUDA_ERROR_INVALID_VALUE;
    uint64_t covered = 0;
    bool given = true;
    lock();
    for (Range *at = mappings; at; at = at->next)
        covered += is_within(at, address, size) ? at->size : 0;
    for (Range *at = mappings; at && covered == size; at = at->next)
        if (is_within(at, address, size))
            given &= give_access(at, wanted[0].flags, at->physical->properties.location.id);
    unlock();
    return covered != size ? CUDA_ERROR_INVALID_VALUE : given ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static Range *mapping_at(uint64_t address)
{
    for (Range *at = mappings; at; at = at->next)
        if (overlap(at, address, 1))
            return at;
    return NULL;
}

CUresult ptxlab_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    if (!flags || !location || !is_location(location))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    Range *found = mapping_at(address);
    if (found)
        *flags = (unsigned long long)found->access;
    unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    Range *found = mapping_at((uint64_t)address);
    if (found) {
        found->physical->handles++;
        *handle = (CUmemGenericAllocationHandle)found->physical;
    }
    unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Multicast objects: no device supports them (attribute 132), so that no handle is of one. */
CUresult ptxlab_cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *wanted)
{
    return handle && wanted ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *wanted, CUmulticastGranularity_flags option)
{
    (void)option;
    return granularity && wanted ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
