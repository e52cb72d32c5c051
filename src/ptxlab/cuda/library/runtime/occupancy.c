/* How many CTAs and clusters of a kernel a multiprocessor holds. */
#include "runtime.h"

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads, size_t shared_bytes,
                                                                  unsigned flags)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (CUfunction)kernel, threads, shared_bytes, flags));
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads, size_t shared_bytes)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}

EXPORT int cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks, int threads)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuOccupancyAvailableDynamicSMemPerBlock(bytes, (CUfunction)kernel, blocks, threads));
}

EXPORT int cudaOccupancyMaxPotentialClusterSize(int *size, const void *function, const LaunchShape *shape)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    CUlaunchConfig config = driver_shape(shape);
    return record(cuOccupancyMaxPotentialClusterSize(size, (CUfunction)kernel, &config));
}

EXPORT int cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const LaunchShape *shape)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    CUlaunchConfig config = driver_shape(shape);
    return record(cuOccupancyMaxActiveClusters(clusters, (CUfunction)kernel, &config));
}
