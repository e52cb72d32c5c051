/* Launches: configurations that are refused, arguments, attributes. */
#include <string.h>

#include "sequences.h"

static void geometry(const long *p) {
    /* 24 bits for each of the three dimensions, grid and block. */
    start();
    CUfunction kernel = load_kernel("nothing");
    unsigned int grid[3], block[3];
    for (int i = 0; i < 3; i++) {
        grid[i] = (unsigned int)(p[0] >> 20 * i & 0xFFFFF);
        block[i] = (unsigned int)(p[1] >> 20 * i & 0xFFFFF);
    }
    CALL(cuLaunchKernel, kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, NULL, NULL, NULL);
    CALL(cuCtxSynchronize);
}

#define DIMENSIONS(x, y, z) ((long)(x) | (long)(y) << 20 | (long)(z) << 40)

static void shared_size(const long *p) {
    unsigned int found = 0;
    start();
    CUfunction kernel = load_kernel(p[0] == 0 ? "dynamic_shared" : "shared");
    CUdeviceptr address = allocate(64);
    void *parameters[] = {&address};
    if (p[2] >= 0)
        CALL(cuFuncSetAttribute, kernel, 8, (int)p[2]);
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, (unsigned int)p[1], NULL, parameters, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuMemcpyDtoH_v2, &found, address, (size_t)4);
}

static void bounds(const long *p) {
    static const char *const NAMES[] = {"bounded", "required", "clustered"};
    start();
    CUfunction kernel = load_kernel(NAMES[p[0]]);
    CALL(cuLaunchKernel, kernel, (unsigned int)p[1], 1, 1, (unsigned int)p[2], (unsigned int)p[3], 1, 0, NULL, NULL, NULL);
    CALL(cuCtxSynchronize);
}

static void arguments(const long *p) {
    unsigned int what = 42, found = 0;
    start();
    CUfunction kernel = load_kernel("store");
    CUdeviceptr address = allocate(64);
    void *parameters[] = {&address, &what};
    struct {
        CUdeviceptr where;
        unsigned int what, rest;
    } packed = {address, 43, 0};
    size_t size = p[0] == 3 ? 8 : p[0] == 4 ? 16 : p[0] == 5 ? 4096 : 12;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
    if (p[0] == 0)
        CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    if (p[0] == 1)
        CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (p[0] >= 2 && p[0] < 5)
        CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
    if (p[0] == 6)
        CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra);
    if (p[0] == 7)
        CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    CALL(cuCtxSynchronize);
    if (CALL(cuMemcpyDtoH_v2, &found, address, (size_t)4) == 0 && (p[0] == 0 || p[0] == 2))
        value("stored", found);
}

static void launch_attribute(const long *p) {
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    start();
    CUfunction kernel = load_kernel("nothing");
    memset(&attribute, 0, sizeof attribute);
    memset(&config, 0, sizeof config);
    config.gridDimX = 4;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = (int)p[0];
    attribute.value.cooperative = (int)p[1];
    CALL(cuLaunchKernelEx, &config, kernel, NULL, NULL);
    CALL(cuCtxSynchronize);
}

static void clusters(const long *p) {
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    start();
    CUfunction kernel = load_kernel("nothing");
    memset(&attribute, 0, sizeof attribute);
    memset(&config, 0, sizeof config);
    config.gridDimX = (unsigned int)p[0];
    config.gridDimY = 2;
    config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = 4;
    attribute.value.clusterDim.x = (unsigned int)p[1];
    attribute.value.clusterDim.y = (unsigned int)p[2];
    attribute.value.clusterDim.z = 1;
    if (p[3])
        CALL(cuFuncSetAttribute, kernel, 14, 1);
    CALL(cuLaunchKernelEx, &config, kernel, NULL, NULL);
    CALL(cuCtxSynchronize);
}

static void cooperative(const long *p) {
    start();
    CUfunction kernel = load_kernel("nothing");
    CALL(cuLaunchCooperativeKernel, kernel, (unsigned int)p[0], 1, 1, (unsigned int)p[1], 1, 1, 0, NULL, NULL);
    CALL(cuCtxSynchronize);
}

static void extended_wrong(const long *p) {
    CUlaunchConfig config;
    (void)p;
    start();
    CUfunction kernel = load_kernel("nothing");
    memset(&config, 0, sizeof config);
    CALL(cuLaunchKernelEx, NULL, kernel, NULL, NULL);
    CALL(cuLaunchKernelEx, &config, kernel, NULL, NULL);
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    CALL(cuLaunchKernelEx, &config, NULL, NULL, NULL);
    config.numAttrs = 1;
    CALL(cuLaunchKernelEx, &config, kernel, NULL, NULL);
    config.numAttrs = 0;
    CALL(cuLaunchKernelEx, &config, kernel, NULL, NULL);
    CALL(cuCtxSynchronize);
}

static void many(const long *count) {
    unsigned int one = 1, found = 0;
    CUstream stream = 0;
    start();
    CUfunction kernel = load_kernel("add");
    CUdeviceptr address = allocate(64);
    void *parameters[] = {&address, &one};
    SETUP(cuStreamCreate, &stream, 0);
    SETUP(cuMemsetD32_v2, address, 0, (size_t)1);
    for (long i = 0; i < *count; i++)
        SETUP(cuLaunchKernel, kernel, 3, 1, 1, 32, 1, 1, 0, i % 2 ? stream : NULL, parameters, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuMemcpyDtoH_v2, &found, address, (size_t)4);
    value("sum", found);
}

static void kernel_as_function(const long *p) {
    CUlibrary library = 0;
    CUkernel kernel = 0;
    (void)p;
    start();
    SETUP(cuLibraryLoadData, &library, MODULE, NULL, NULL, 0, NULL, NULL, 0);
    SETUP(cuLibraryGetKernel, &kernel, library, "nothing");
    CALL(cuLaunchKernel, (CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    CALL(cuCtxSynchronize);
    CALL(cuFuncSetAttribute, (CUfunction)kernel, 8, 60000);
}

void add_launches(void) {
    const long GRIDS[] = {DIMENSIONS(1, 1, 1), DIMENSIONS(0, 1, 1), DIMENSIONS(1, 0, 1), DIMENSIONS(1, 1, 0), DIMENSIONS(1, 65535, 1),
                          DIMENSIONS(1, 65536, 1), DIMENSIONS(1, 1, 65536), DIMENSIONS(3000, 1, 1)};
    for (size_t i = 0; i < sizeof GRIDS / sizeof *GRIDS; i++)
        add("launch.geometry", geometry, 2, GRIDS[i], DIMENSIONS(1, 1, 1));
    const long BLOCKS[] = {DIMENSIONS(1024, 1, 1), DIMENSIONS(1025, 1, 1), DIMENSIONS(0, 1, 1), DIMENSIONS(1, 0, 1), DIMENSIONS(1, 1, 0),
                           DIMENSIONS(1, 1024, 1), DIMENSIONS(1, 1025, 1), DIMENSIONS(1, 1, 64), DIMENSIONS(1, 1, 65), DIMENSIONS(32, 32, 1),
                           DIMENSIONS(32, 33, 1), DIMENSIONS(16, 8, 8), DIMENSIONS(16, 8, 9)};
    for (size_t i = 0; i < sizeof BLOCKS / sizeof *BLOCKS; i++)
        add("launch.geometry", geometry, 2, DIMENSIONS(1, 1, 1), BLOCKS[i]);
    static const long SHARED[][3] = {{0, 0, -1},      {0, 49152, -1},  {0, 49153, -1},       {0, 60000, -1},      {0, 60000, 60000}, {0, 60001, 60000},
                                     {0, 232448, 232448}, {0, 232449, 232448}, {1, 48152, -1}, {1, 48153, -1}, {1, 49152, -1}, {1, 0, -1}, {0, -1, -1}};
    for (size_t i = 0; i < sizeof SHARED / sizeof *SHARED; i++)
        add("launch.shared_size", shared_size, 3, SHARED[i][0], SHARED[i][1], SHARED[i][2]);
    static const long BOUNDS[][4] = {{0, 1, 64, 2}, {0, 1, 128, 1}, {0, 1, 129, 1}, {0, 1, 64, 3}, {1, 1, 32, 2}, {1, 1, 64, 1}, {1, 1, 32, 1},
                                     {1, 1, 64, 2}, {2, 2, 32, 1}, {2, 3, 32, 1}, {2, 1, 32, 1}, {2, 4, 32, 1}};
    for (size_t i = 0; i < sizeof BOUNDS / sizeof *BOUNDS; i++)
        add("launch.bounds", bounds, 4, BOUNDS[i][0], BOUNDS[i][1], BOUNDS[i][2], BOUNDS[i][3]);
    static const long ARGUMENTS[] = {0, 1, 2, 3, 4, 6, 7};
    for (size_t i = 0; i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++)
        add("launch.arguments", arguments, 1, ARGUMENTS[i]);
    for (long id = 0; id < 20; id++)
        if (id != 7 && id != 12 && id != 13 && id != 1)
            for (long setting = 0; setting < 2; setting++)
                add("launch.attribute", launch_attribute, 2, id, setting);
    static const long CLUSTERS[][4] = {{8, 1, 1, 0}, {8, 2, 1, 0}, {8, 8, 1, 0},  {8, 4, 2, 0},   {8, 3, 1, 0},   {8, 0, 1, 0},  {16, 16, 1, 0},
                                       {16, 16, 1, 1}, {32, 32, 1, 1}, {8, 8, 2, 0}, {8, 8, 2, 1}, {10, 5, 1, 0}, {12, 12, 1, 1}, {8, 1, 3, 0}};
    for (size_t i = 0; i < sizeof CLUSTERS / sizeof *CLUSTERS; i++)
        add("launch.clusters", clusters, 4, CLUSTERS[i][0], CLUSTERS[i][1], CLUSTERS[i][2], CLUSTERS[i][3]);
    static const long COOPERATIVE[][2] = {{1, 32}, {132, 1024}, {264, 1024}, {265, 1024}, {4224, 32}, {4225, 32}, {0, 32}};
    for (size_t i = 0; i < sizeof COOPERATIVE / sizeof *COOPERATIVE; i++)
        add("launch.cooperative", cooperative, 2, COOPERATIVE[i][0], COOPERATIVE[i][1]);
    add("launch.extended_wrong", extended_wrong, 0);
    add("launch.many", many, 1, 1L);
    add("launch.many", many, 1, 100L);
    add("launch.kernel_as_function", kernel_as_function, 0);
}
