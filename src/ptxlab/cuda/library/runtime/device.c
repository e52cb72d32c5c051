/* Devices: properties, limits, peers, synchronisation. */
#include <string.h>

#include "runtime.h"

/* The fields that CUDA 13 no longer has. */
#if RUNTIME_MAJOR >= 13
#define BEFORE_13(...)
#define SINCE_13(...) __VA_ARGS__
#else
#define BEFORE_13(...) __VA_ARGS__
#define SINCE_13(...)
#endif

typedef struct {
    char name[256];
    CUuuid uuid;
    char luid[8];
    unsigned luid_mask;
    size_t total_memory, shared_per_block;
    int registers_per_block, warp_size;
    size_t pitch;
    int threads_per_block, block[3], grid[3];
    BEFORE_13(int clock_rate;)
    size_t constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch_alignment;
    BEFORE_13(int overlap;)
    int multiprocessors;
    BEFORE_13(int timeout;)
    int integrated, map_host_memory;
    BEFORE_13(int compute_mode;)
    int texture_1d, texture_1d_mipmap;
    BEFORE_13(int texture_1d_linear;)
    int texture_2d[2], texture_2d_mipmap[2], texture_2d_linear[3], texture_2d_gather[2], texture_3d[3], texture_3d_alternate[3];
    int texture_cubemap, texture_1d_layered[2], texture_2d_layered[3], texture_cubemap_layered[2];
    int surface_1d, surface_2d[2], surface_3d[3], surface_1d_layered[2], surface_2d_layered[3], surface_cubemap, surface_cubemap_layered[2];
    size_t surface_alignment;
    int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing;
    BEFORE_13(int memory_clock_rate;)
    int bus_width, l2_bytes, persisting_l2_bytes, threads_per_multiprocessor, stream_priorities, global_l1, local_l1;
    size_t shared_per_multiprocessor;
    int registers_per_multiprocessor, managed_memory, multi_gpu_board, multi_gpu_group, host_native_atomics;
    BEFORE_13(int single_to_double;)
    int pageable_access, concurrent_managed, preemption, host_pointer_for_registered, cooperative_launch;
    BEFORE_13(int cooperative_multi_device;)
    size_t shared_per_block_optin;
    int host_page_tables, direct_managed, blocks_per_multiprocessor, access_window;
    size_t reserved_shared;
    int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, pools, rdma;
    unsigned rdma_flush;
    int rdma_ordering;
    unsigned pool_handles;
    int deferred_arrays, ipc_events, cluster_launch, unified_functions;
    SINCE_13(int numa_config, numa_id, mps, host_numa_id; unsigned pci_device_id, pci_subsystem_id; int host_numa_ipc;)
    int reserved[RUNTIME_MAJOR >= 13 ? 56 : 63];
} Properties;

typedef struct {
    uint16_t offset, bytes, attribute;
} Field;

#define FIELD(name, attribute) {offsetof(Properties, name), sizeof(((Properties *)0)->name), attribute}

/* The fields that are attributes of the device, with the attribute's number. */
static const Field fields[] = {FIELD(shared_per_block, 8),
                               FIELD(registers_per_block, 12),
                               FIELD(warp_size, 10),
                               FIELD(pitch, 11),
                               FIELD(threads_per_block, 1),
                               FIELD(block[0], 2),
                               FIELD(block[1], 3),
                               FIELD(block[2], 4),
                               FIELD(grid[0], 5),
                               FIELD(grid[1], 6),
                               FIELD(grid[2], 7),
                               BEFORE_13(FIELD(clock_rate, 13), FIELD(overlap, 15), FIELD(timeout, 17), FIELD(compute_mode, 20),
                                         FIELD(texture_1d_linear, 69), FIELD(memory_clock_rate, 36), FIELD(single_to_double, 87),
                                         FIELD(cooperative_multi_device, 96), ) FIELD(constant_memory, 9),
                               FIELD(major, 75),
                               FIELD(minor, 76),
                               FIELD(texture_alignment, 14),
                               FIELD(texture_pitch_alignment, 51),
                               FIELD(multiprocessors, 16),
                               FIELD(integrated, 18),
                               FIELD(map_host_memory, 19),
                               FIELD(texture_1d, 21),
                               FIELD(texture_1d_mipmap, 77),
                               FIELD(texture_2d[0], 22),
                               FIELD(texture_2d[1], 23),
                               FIELD(texture_2d_mipmap[0], 73),
                               FIELD(texture_2d_mipmap[1], 74),
                               FIELD(texture_2d_linear[0], 70),
                               FIELD(texture_2d_linear[1], 71),
                               FIELD(texture_2d_linear[2], 72),
                               FIELD(texture_2d_gather[0], 45),
                               FIELD(texture_2d_gather[1], 46),
                               FIELD(texture_3d[0], 24),
                               FIELD(texture_3d[1], 25),
                               FIELD(texture_3d[2], 26),
                               FIELD(texture_3d_alternate[0], 47),
                               FIELD(texture_3d_alternate[1], 48),
                               FIELD(texture_3d_alternate[2], 49),
                               FIELD(texture_cubemap, 52),
                               FIELD(texture_1d_layered[0], 42),
                               FIELD(texture_1d_layered[1], 43),
                               FIELD(texture_2d_layered[0], 27),
                               FIELD(texture_2d_layered[1], 28),
                               FIELD(texture_2d_layered[2], 29),
                               FIELD(texture_cubemap_layered[0], 53),
                               FIELD(texture_cubemap_layered[1], 54),
                               FIELD(surface_1d, 55),
                               FIELD(surface_2d[0], 56),
                               FIELD(surface_2d[1], 57),
                               FIELD(surface_3d[0], 58),
                               FIELD(surface_3d[1], 59),
                               FIELD(surface_3d[2], 60),
                               FIELD(surface_1d_layered[0], 61),
                               FIELD(surface_1d_layered[1], 62),
                               FIELD(surface_2d_layered[0], 63),
                               FIELD(surface_2d_layered[1], 64),
                               FIELD(surface_2d_layered[2], 65),
                               FIELD(surface_cubemap, 66),
                               FIELD(surface_cubemap_layered[0], 67),
                               FIELD(surface_cubemap_layered[1], 68),
                               FIELD(surface_alignment, 30),
                               FIELD(concurrent_kernels, 31),
                               FIELD(ecc, 32),
                               FIELD(pci_bus, 33),
                               FIELD(pci_device, 34),
                               FIELD(pci_domain, 50),
                               FIELD(tcc, 35),
                               FIELD(async_engines, 40),
                               FIELD(unified_addressing, 41),
                               FIELD(bus_width, 37),
                               FIELD(l2_bytes, 38),
                               FIELD(persisting_l2_bytes, 108),
                               FIELD(threads_per_multiprocessor, 39),
                               FIELD(stream_priorities, 78),
                               FIELD(global_l1, 79),
                               FIELD(local_l1, 80),
                               FIELD(shared_per_multiprocessor, 81),
                               FIELD(registers_per_multiprocessor, 82),
                               FIELD(managed_memory, 83),
                               FIELD(multi_gpu_board, 84),
                               FIELD(multi_gpu_group, 85),
                               FIELD(host_native_atomics, 86),
                               FIELD(pageable_access, 88),
                               FIELD(concurrent_managed, 89),
                               FIELD(preemption, 90),
                               FIELD(host_pointer_for_registered, 91),
                               FIELD(cooperative_launch, 95),
                               FIELD(shared_per_block_optin, 97),
                               FIELD(host_page_tables, 100),
                               FIELD(direct_managed, 101),
                               FIELD(blocks_per_multiprocessor, 106),
                               FIELD(access_window, 109),
                               FIELD(reserved_shared, 111),
                               FIELD(host_register, 99),
                               FIELD(sparse_arrays, 112),
                               FIELD(host_register_read_only, 113),
                               FIELD(timeline_semaphores, 114),
                               FIELD(pools, 115),
                               FIELD(rdma, 116),
                               FIELD(rdma_flush, 117),
                               FIELD(rdma_ordering, 118),
                               FIELD(pool_handles, 119),
                               FIELD(deferred_arrays, 121),
                               FIELD(ipc_events, 125),
                               FIELD(cluster_launch, 120),
                               FIELD(unified_functions, 129),
                               SINCE_13(FIELD(numa_config, 130), FIELD(numa_id, 131), FIELD(mps, 133), FIELD(host_numa_id, 134),
                                        FIELD(pci_device_id, 139), FIELD(pci_subsystem_id, 140), FIELD(host_numa_ipc, 143), )};

static int properties(Properties *found, int device)
{
    int error = ready();
    if (!error)
        error = check_device(device);
    if (error)
        return error;
    memset(found, 0, sizeof *found);
    error = cuDeviceGetName(found->name, sizeof found->name, device);
    if (!error)
        error = cuDeviceGetUuid_v2(&found->uuid, device);
    if (!error)
        error = cuDeviceTotalMem_v2(&found->total_memory, device);
    for (size_t i = 0; !error && i < sizeof fields / sizeof fields[0]; i++) {
        int value = 0;
        error = cuDeviceGetAttribute(&value, (CUdevice_attribute)fields[i].attribute, device);
        size_t wide = (size_t)value;
        memcpy((char *)found + fields[i].offset, &wide, fields[i].bytes);
    }
    return error;
}

#if RUNTIME_MAJOR >= 13
EXPORT int cudaGetDeviceProperties(Properties *found, int device)
{
#else
EXPORT int cudaGetDeviceProperties_v2(Properties *found, int device)
{
#endif
    return record(found ? properties(found, device) : RUNTIME_INVALID_VALUE);
}

/* The first device whose compute capability is at least the one that is wanted, else the first one. */
EXPORT int cudaChooseDevice(int *device, const Properties *wanted)
{
    Properties found;
    int count = 0;
    if (!device || !wanted)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuDeviceGetCount(&count));
    *device = 0;
    for (int i = count - 1; i >= 0; i--) {
        CHECK(properties(&found, i));
        if (found.major > wanted->major || (found.major == wanted->major && found.minor >= wanted->minor))
            *device = i;
    }
    return 0;
}

static int attribute(int *value, int number, int device)
{
    int error = check_device(device);
    return error ? error : (int)cuDeviceGetAttribute(value, (CUdevice_attribute)number, device);
}

EXPORT int cudaDeviceGetAttribute(int *value, int number, int device) { return CALL(attribute(value, number, device)); }
EXPORT int cudaDeviceGetPCIBusId(char *text, int bytes, int device) { return CALL(cuDeviceGetPCIBusId(text, bytes, device)); }
EXPORT int cudaDeviceGetByPCIBusId(int *device, const char *text) { return CALL(cuDeviceGetByPCIBusId(device, text)); }
EXPORT int cudaDeviceGetP2PAttribute(int *value, int number, int from, int to)
{
    return CALL(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)number, from, to));
}
EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer) { return CALL(cuDeviceCanAccessPeer(can, device, peer)); }

EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext context;
    CHECK(ready());
    CHECK(primary_context(peer, &context));
    return record(cuCtxEnablePeerAccess(context, flags));
}

EXPORT int cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    CHECK(ready());
    CHECK(primary_context(peer, &context));
    return record(cuCtxDisablePeerAccess(context));
}

EXPORT int cudaDeviceSynchronize(void) { return CALL(cuCtxSynchronize()); }
EXPORT int cudaDeviceSetLimit(int limit, size_t value) { return CALL(cuCtxSetLimit((CUlimit)limit, value)); }
EXPORT int cudaDeviceGetLimit(size_t *value, int limit) { return CALL(cuCtxGetLimit(value, (CUlimit)limit)); }
EXPORT int cudaDeviceGetCacheConfig(CUfunc_cache *config) { return CALL(cuCtxGetCacheConfig(config)); }
EXPORT int cudaDeviceSetCacheConfig(CUfunc_cache config) { return CALL(cuCtxSetCacheConfig(config)); }
EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return CALL(cuCtxGetStreamPriorityRange(least, greatest)); }
EXPORT int cudaCtxResetPersistingL2Cache(void) { return CALL(cuCtxResetPersistingL2Cache()); }
EXPORT int cudaProfilerStart(void) { return CALL(cuProfilerStart()); }
EXPORT int cudaProfilerStop(void) { return CALL(cuProfilerStop()); }

EXPORT int cudaDeviceGetSharedMemConfig(int *config)
{
    if (!config)
        return record(RUNTIME_INVALID_VALUE);
    *config = 1; /* banks of four bytes: the only configuration that these devices have */
    return record(ready());
}

EXPORT int cudaDeviceSetSharedMemConfig(int config)
{
    (void)config;
    return record(ready());
}

/* The host map flag is always set, as on every device with unified addressing. */
#define MAP_HOST 8u

EXPORT int cudaSetDeviceFlags(unsigned flags)
{
    CUcontext context;
    CHECK(primary_context(current_device(), &context));
    return record(cuDevicePrimaryCtxSetFlags_v2(current_device(), flags & ~MAP_HOST));
}

EXPORT int cudaGetDeviceFlags(unsigned *flags)
{
    int active;
    if (!flags)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(ready());
    CHECK(cuDevicePrimaryCtxGetState(current_device(), flags, &active));
    *flags |= MAP_HOST;
    return 0;
}

EXPORT int cudaSetValidDevices(const int *devices, int count)
{
    CHECK(ready());
    for (int i = 0; i < count; i++)
        CHECK(check_device(devices[i]));
    return 0;
}

#if RUNTIME_MAJOR == 12
int cudaDeviceReset(void);
EXPORT int cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
EXPORT int cudaThreadExit(void) { return cudaDeviceReset(); }
EXPORT int cudaThreadSetLimit(int limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
EXPORT int cudaThreadGetLimit(size_t *value, int limit) { return cudaDeviceGetLimit(value, limit); }
#endif
