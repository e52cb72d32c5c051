/* Launches, attributes of kernels, occupancy. */
#include <stdlib.h>

#include "runtime.h"

/* Calls that are configured and not made yet: `kernel<<<...>>>(f())` may configure another one while f runs. */
typedef struct {
    Dimensions grid, block;
    size_t shared_bytes;
    CUstream stream;
} Call;

#define MOST_CALLS 64
static __thread Call calls[MOST_CALLS];
static __thread int call_count;

EXPORT unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, size_t shared_bytes, CUstream stream)
{
    if (call_count == MOST_CALLS)
        return (unsigned)record(RUNTIME_MISSING_CONFIGURATION);
    calls[call_count++] = (Call){grid, block, shared_bytes, stream};
    return 0;
}

EXPORT int __cudaPopCallConfiguration(Dimensions *grid, Dimensions *block, size_t *shared_bytes, void *stream)
{
    if (!call_count)
        return record(RUNTIME_MISSING_CONFIGURATION);
    Call *call = &calls[--call_count];
    *grid = call->grid, *block = call->block, *shared_bytes = call->shared_bytes, *(CUstream *)stream = call->stream;
    return 0;
}

/* The number of the first of seven device attributes: threads of a block, its three extents, the three of the grid. */
#define MAX_THREADS_PER_BLOCK 1

/* Whether the shape itself is wrong: the runtime has a code of its own for that, the driver has not. */
static int is_wrong_shape(Dimensions grid, Dimensions block)
{
    const uint64_t sizes[] = {(uint64_t)block.x * block.y * block.z, block.x, block.y, block.z, grid.x, grid.y, grid.z};
    for (int i = 0; i < 7; i++) {
        int limit = 0;
        if (cuDeviceGetAttribute(&limit, MAX_THREADS_PER_BLOCK + i, current_device()))
            return 0;
        if (!sizes[i] || sizes[i] > (uint64_t)limit)
            return 1;
    }
    return 0;
}

CUlaunchConfig driver_shape(const LaunchShape *shape)
{
    CUlaunchConfig config = {0};
    config.gridDimX = shape->grid.x, config.gridDimY = shape->grid.y, config.gridDimZ = shape->grid.z;
    config.blockDimX = shape->block.x, config.blockDimY = shape->block.y, config.blockDimZ = shape->block.z;
    config.sharedMemBytes = (unsigned)shape->shared_bytes;
    config.hStream = shape->stream;
    config.attrs = shape->attributes;
    config.numAttrs = shape->attribute_count;
    return config;
}

static int launch(const void *function, const LaunchShape *shape, void **arguments)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    if (shape->shared_bytes > UINT32_MAX)
        return record(RUNTIME_INVALID_VALUE);
    CUlaunchConfig config = driver_shape(shape);
    int error = cuLaunchKernelEx(&config, (CUfunction)kernel, arguments, NULL);
    if (error == RUNTIME_INVALID_VALUE && is_wrong_shape(shape->grid, shape->block))
        error = RUNTIME_INVALID_CONFIGURATION;
    return record(error);
}

EXPORT int cudaLaunchKernel(const void *function, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes, CUstream stream)
{
    LaunchShape shape = {grid, block, shared_bytes, stream, NULL, 0};
    return launch(function, &shape, arguments);
}

EXPORT int cudaLaunchKernelExC(const LaunchShape *shape, const void *function, void **arguments)
{
    return shape ? launch(function, shape, arguments) : record(RUNTIME_INVALID_VALUE);
}

EXPORT int cudaLaunchCooperativeKernel(const void *function, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes,
                                       CUstream stream)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    cooperative.value.cooperative = 1;
    LaunchShape shape = {grid, block, shared_bytes, stream, &cooperative, 1};
    return launch(function, &shape, arguments);
}

/* The handle that generated code keeps is the host function: a fat binary that the driver refuses then gives its error at each launch. */
EXPORT int __cudaGetKernel(CUkernel *kernel, const void *function)
{
    *kernel = (CUkernel)(uintptr_t)function;
    return 0;
}

EXPORT int __cudaLaunchKernel(CUkernel kernel, Dimensions grid, Dimensions block, void **arguments, size_t shared_bytes, CUstream stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

EXPORT int cudaGetKernel(CUkernel *kernel, const void *function)
{
    if (!kernel)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(find_kernel(function, kernel));
    know_kernel(*kernel);
    return 0;
}

EXPORT int cudaGetFuncBySymbol(CUfunction *found, const void *function)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuKernelGetFunction(found, kernel));
}

EXPORT int cudaLaunchHostFunc(CUstream stream, CUhostFn function, void *data) { return CALL(cuLaunchHostFunc(stream, function, data)); }

EXPORT int cudaLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned mode)
{
    if (mode > 1)
        return record(RUNTIME_INVALID_VALUE);
    return cudaLaunchHostFunc(stream, function, data);
}

/* ------------------------------------------------------------------------------------------------ attributes of kernels */

EXPORT int cudaFuncGetAttributes(FunctionAttributes *found, const void *function)
{
    CUkernel kernel;
    int numbers[CU_FUNC_ATTRIBUTE_MAX] = {0};
    if (!found)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(find_kernel(function, &kernel));
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
        CHECK(cuKernelGetAttribute(&numbers[i], (CUfunction_attribute)i, kernel, current_device()));
    *found = (FunctionAttributes){
        .max_threads = numbers[0],
        .shared_bytes = (size_t)numbers[1],
        .constant_bytes = (size_t)numbers[2],
        .local_bytes = (size_t)numbers[3],
        .registers = numbers[4],
        .ptx_version = numbers[5],
        .binary_version = numbers[6],
        .cache_mode = numbers[7],
        .max_dynamic_shared_bytes = numbers[8],
        .carveout = numbers[9],
        .cluster_must_be_set = numbers[10],
        .cluster = {numbers[11], numbers[12], numbers[13]},
        .nonportable_cluster = numbers[14],
        .cluster_policy = numbers[15],
    };
    return 0;
}

static int set_attribute(CUkernel kernel, int attribute, int value, int device)
{
    if (attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return RUNTIME_INVALID_VALUE;
    return cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device);
}

EXPORT int cudaFuncSetAttribute(const void *function, int attribute, int value)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(set_attribute(kernel, attribute, value, current_device()));
}

EXPORT int cudaKernelSetAttributeForDevice(CUkernel kernel, int attribute, int value, int device)
{
    return CALL(set_attribute(kernel, attribute, value, device));
}

EXPORT int cudaFuncSetCacheConfig(const void *function, int config)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuKernelSetCacheConfig(kernel, (CUfunc_cache)config, current_device()));
}

EXPORT int cudaFuncSetSharedMemConfig(const void *function, int config)
{
    CUkernel kernel;
    (void)config;
    return record(find_kernel(function, &kernel));
}

EXPORT int cudaFuncGetName(const char **name, const void *function)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuKernelGetName(name, kernel));
}

EXPORT int cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset, size_t *bytes)
{
    CUkernel kernel;
    CHECK(find_kernel(function, &kernel));
    return record(cuKernelGetParamInfo(kernel, index, offset, bytes));
}

EXPORT int cudaFuncGetParamCount(const void *function, size_t *count)
{
    CUkernel kernel;
    size_t offset, bytes, found = 0;
    if (!count)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(find_kernel(function, &kernel));
    while (!cuKernelGetParamInfo(kernel, found, &offset, &bytes))
        found++;
    *count = found;
    return 0;
}
