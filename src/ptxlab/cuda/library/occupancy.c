/* Occupancy: how many CTAs of a kernel an SM holds, and how many clusters a device. */
#include "internal.h"

enum {
    THREADS_PER_CTA = 1, /* numbers of device attributes */
    SMS = 16,
    THREADS_PER_SM = 39,
    SHARED_PER_SM = 81,
    REGISTERS_PER_SM = 82,
    CTAS_PER_SM = 106,
    RESERVED_SHARED = 111
};
enum { WARP = 32, REGISTER_UNIT = 256, SHARED_UNIT = 128, PARTITIONS = 4, CTAS_OF_CLUSTERS = 8, PORTABLE = 8, LARGEST_CLUSTER = 16 };

static size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static int least(int a, int b) { return a < b ? a : b; }

static size_t static_shared(const Kernel *kernel) { return (size_t)kernel->info.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]; }

static size_t most_dynamic(const Kernel *kernel) { return (size_t)kernel->info.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]; }

static const int32_t *device_attributes(void) { return device_of(current_context()->device)->attributes; }

/* The registers of a warp come in units, and each partition of an SM has a quarter of them. */
static int warps_by_registers(int registers, int32_t all)
{
    if (!registers)
        return all;
    int unit = (int)round_up((size_t)registers * WARP, REGISTER_UNIT);
    return all / PARTITIONS / unit * PARTITIONS;
}

/* Without the limit of threads that the kernel declares. */
static int blocks_that_fit(const Kernel *kernel, int threads, size_t dynamic)
{
    const int32_t *device = device_attributes();
    const int32_t *limits = kernel->info.attributes;
    if (threads > device[THREADS_PER_CTA] || dynamic > most_dynamic(kernel))
        return 0;
    int warps = (threads + WARP - 1) / WARP;
    int blocks = least(device[CTAS_PER_SM], device[THREADS_PER_SM] / WARP / warps);
    blocks = least(blocks, warps_by_registers(limits[CU_FUNC_ATTRIBUTE_NUM_REGS], device[REGISTERS_PER_SM]) / warps);
    size_t shared = round_up(static_shared(kernel) + dynamic + (size_t)device[RESERVED_SHARED], SHARED_UNIT);
    return least(blocks, (int)((size_t)device[SHARED_PER_SM] / shared));
}

static int blocks_of(const Kernel *kernel, int threads, size_t dynamic)
{
    return threads > kernel->info.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] ? 0 : blocks_that_fit(kernel, threads, dynamic);
}

CUresult ptxlab_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads, size_t shared,
                                                                     unsigned int flags)
{
    Kernel *kernel;
    if (!blocks || threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(function, &kernel);
    if (!refused)
        *blocks = blocks_of(kernel, threads, shared);
    return refused;
}

CUresult ptxlab_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared)
{
    return ptxlab_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

/* The largest block with which the most threads are resident; whole warps are tried. */
CUresult ptxlab_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of,
                                                          size_t shared, int limit, unsigned int flags)
{
    Kernel *kernel;
    if (!grid || !block || flags > 1 || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(function, &kernel);
    if (refused)
        return refused;
    int largest = kernel->info.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (limit)
        largest = least(largest, limit);
    int best = 0, sms = device_attributes()[SMS];
    *grid = *block = 0;
    for (int aligned = (int)round_up((size_t)largest, WARP); aligned > 0; aligned -= WARP) {
        int threads = least(largest, aligned);
        int blocks = blocks_of(kernel, threads, shared_of ? shared_of(threads) : shared);
        if (blocks * threads > best) {
            best = blocks * threads;
            *block = threads;
            *grid = blocks * sms;
        }
    }
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared,
                                                 int limit)
{
    return ptxlab_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}

/* As on real drivers, the reserved bytes of each CTA are not taken off. */
CUresult ptxlab_cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads)
{
    Kernel *kernel;
    if (!bytes || blocks <= 0 || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(function, &kernel);
    if (refused)
        return refused;
    if (blocks_of(kernel, threads, 0) < blocks)
        return CUDA_ERROR_INVALID_VALUE;
    size_t own = round_up(static_shared(kernel), 16);
    size_t share = (size_t)device_attributes()[SHARED_PER_SM] / (size_t)blocks / SHARED_UNIT * SHARED_UNIT;
    size_t left = share > own ? share - own : 0;
    *bytes = left < most_dynamic(kernel) ? left : most_dynamic(kernel);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ clusters */

/* The SMs of each GPC that clusters of more than two CTAs use. Those of the H200 follow from what a driver answered for it; the ones of
 * devices with 148 SMs are assumed. */
static const struct {
    int sms;
    int gpcs[8];
} layouts[] = {
    {132, {18, 18, 16, 16, 16, 16, 16, 8}},
    {148, {18, 18, 18, 18, 18, 18, 18, 18}},
};

static int clusters_of(int size, int blocks, int sms)
{
    if (size <= 2)
        return blocks * sms / size;
    int found = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].sms == sms) {
            for (int gpc = 0; gpc < 8; gpc++)
                found += layouts[i].gpcs[gpc] >= size ? layouts[i].gpcs[gpc] * blocks / size : 0;
            return found;
        }
    return blocks * sms / size;
}

CUresult ptxlab_cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    Kernel *kernel;
    if (!clusters || !config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(function, &kernel);
    if (refused)
        return refused;
    const int32_t *limits = kernel->info.attributes;
    const unsigned int grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    unsigned int cluster[3] = {(unsigned int)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH],
                               (unsigned int)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT],
                               (unsigned int)limits[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH]};
    for (unsigned int i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            cluster[0] = config->attrs[i].value.clusterDim.x;
            cluster[1] = config->attrs[i].value.clusterDim.y;
            cluster[2] = config->attrs[i].value.clusterDim.z;
        }
    uint64_t size = (uint64_t)cluster[0] * cluster[1] * cluster[2];
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    int most = limits[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] ? LARGEST_CLUSTER : PORTABLE;
    if (!threads || threads > INT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > (uint64_t)most)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (int i = 0; size && i < 3; i++)
        if (grid[i] % cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    /* CuTe DSL asks about blocks of 128 threads with a kernel that declares one. */
    int blocks = least(blocks_that_fit(kernel, (int)threads, config->sharedMemBytes), CTAS_OF_CLUSTERS);
    *clusters = size ? clusters_of((int)size, blocks, device_attributes()[SMS]) : 0;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config)
{
    Kernel *kernel;
    if (!size || !config)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(function, &kernel);
    if (!refused)
        *size = kernel->info.attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] ? LARGEST_CLUSTER : PORTABLE;
    return refused;
}
