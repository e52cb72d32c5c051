/* How many CTAs and clusters are resident, over a grid of values. The kernels use few registers, which never limit. */
#include <string.h>

#include "sequences.h"

static void blocks(const long *p) {
    start();
    CUfunction kernel = load_kernel(p[0] ? "shared" : "dynamic_shared");
    SETUP(cuFuncSetAttribute, kernel, 8, p[0] ? 231448 : 232448);
    for (int threads = 32; threads <= 1024; threads += threads < 256 ? 32 : 128) {
        int found = -99;
        CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &found, kernel, threads, (size_t)p[1]);
        value("blocks", found);
    }
}

static void blocks_odd(const long *p) {
    static const int THREADS[] = {1, 31, 33, 63, 65, 100, 129, 333, 513, 1023, 0, -1, 1025, 2048};
    start();
    CUfunction kernel = load_kernel("dynamic_shared");
    for (size_t i = 0; i < sizeof THREADS / sizeof *THREADS; i++) {
        int found = -99;
        CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &found, kernel, THREADS[i], (size_t)p[0], (unsigned int)p[1]);
        value("blocks", found);
    }
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, NULL, kernel, 32, (size_t)0);
}

static void registers(const long *limit) {
    /* Prints the number of registers too: the formula is tested with it. */
    static char image[16384];
    int count = 0;
    size_t at = 0;
    CUmodule module = 0;
    CUfunction kernel = 0;
    start();
    char *text_at = image;
#define PRINT(...) at += (size_t)__builtin_sprintf(text_at + at, __VA_ARGS__)
    PRINT(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %%a; .reg .f32 %%f<%ld>;\nld.param.u64 %%a, [p];\n", *limit + 1);
    for (long i = 0; i < *limit; i++)
        PRINT("ld.volatile.global.f32 %%f%ld, [%%a+%ld];\n", i, 4 * i);
    PRINT("bar.sync 0;\n");
    for (long i = 0; i < *limit; i++)
        PRINT("st.volatile.global.f32 [%%a+%ld], %%f%ld;\n", 4 * (*limit - 1 - i), i);
    PRINT("ret;\n}\n");
    SETUP(cuModuleLoadData, &module, image);
    SETUP(cuModuleGetFunction, &kernel, module, "k");
    SETUP(cuFuncGetAttribute, &count, 4, kernel);
    value("registers", count);
    for (int threads = 32; threads <= 1024; threads += 32) {
        int found = -99;
        SETUP(cuOccupancyMaxActiveBlocksPerMultiprocessor, &found, kernel, threads, (size_t)0);
        value("blocks", found);
    }
}

static void available(const long *p) {
    start();
    CUfunction kernel = load_kernel(p[0] ? "shared" : "dynamic_shared");
    SETUP(cuFuncSetAttribute, kernel, 8, p[0] ? 231448 : 232448);
    for (int count = 0; count <= 33; count += count < 8 ? 1 : 8) {
        size_t found = 99;
        CALL(cuOccupancyAvailableDynamicSMemPerBlock, &found, kernel, count, (int)p[1]);
        value("bytes", (long long)found);
    }
}

static size_t shared_of(int threads) { return (size_t)threads * 64; }

static void potential(const long *p) {
    int grid = -99, block = -99;
    start();
    CUfunction kernel = load_kernel(p[0] == 2 ? "bounded" : p[0] ? "shared" : "dynamic_shared");
    CALL(cuOccupancyMaxPotentialBlockSize, &grid, &block, kernel, p[1] < 0 ? (void *)shared_of : NULL, (size_t)(p[1] < 0 ? 0 : p[1]), (int)p[2]);
    value("grid", grid);
    value("block", block);
}

static void clusters(const long *p) {
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    int found = -99;
    start();
    CUfunction kernel = load_kernel("dynamic_shared");
    SETUP(cuFuncSetAttribute, kernel, 8, 232448);
    memset(&attribute, 0, sizeof attribute);
    memset(&config, 0, sizeof config);
    config.gridDimX = 1024;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = (unsigned int)p[1];
    config.sharedMemBytes = (unsigned int)p[2];
    config.attrs = &attribute;
    config.numAttrs = p[0] ? 1 : 0;
    attribute.id = 4;
    attribute.value.clusterDim.x = (unsigned int)p[0];
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    if (p[3])
        SETUP(cuFuncSetAttribute, kernel, 14, 1);
    CALL(cuOccupancyMaxActiveClusters, &found, kernel, &config);
    value("clusters", found);
    found = -99;
    config.numAttrs = 0;
    CALL(cuOccupancyMaxPotentialClusterSize, &found, kernel, &config);
    value("size", found);
}

static void wrong(const long *p) {
    int found;
    CUlaunchConfig config;
    (void)p;
    memset(&config, 0, sizeof config);
    start();
    CUfunction kernel = load_kernel("nothing");
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &found, NULL, 32, (size_t)0);
    CALL(cuOccupancyMaxActiveClusters, &found, kernel, NULL);
    CALL(cuOccupancyMaxActiveClusters, &found, kernel, &config);
    CALL(cuOccupancyMaxActiveClusters, NULL, kernel, &config);
    CALL(cuOccupancyMaxPotentialClusterSize, NULL, kernel, &config);
    CALL(cuOccupancyAvailableDynamicSMemPerBlock, NULL, kernel, 1, 32);
    CALL(cuOccupancyMaxPotentialBlockSize, NULL, &found, kernel, NULL, (size_t)0, 0);
}

void add_occupancy(void) {
    static const long DYNAMIC[] = {0, 1, 128, 1000, 1024, 6000, 16384, 33000, 49152, 57344, 76000, 100000, 115712, 115713, 200000, 231448, 232448, 300000};
    for (size_t i = 0; i < sizeof DYNAMIC / sizeof *DYNAMIC; i++)
        for (long with_static = 0; with_static < 2; with_static++)
            add("occupancy.blocks", blocks, 2, with_static, DYNAMIC[i]);
    add("occupancy.blocks_odd", blocks_odd, 2, 0L, 0L);
    add("occupancy.blocks_odd", blocks_odd, 2, 20000L, 0L);
    add("occupancy.blocks_odd", blocks_odd, 2, 0L, 1L);
    add("occupancy.blocks_odd", blocks_odd, 2, 50000L, 0L);
    add("occupancy.blocks_odd", blocks_odd, 2, 0L, 2L);
    for (long limit = 8; limit <= 250; limit += 11)
        add("occupancy.registers", registers, 1, limit);
    for (long threads = 32; threads <= 1056; threads += 256)
        for (long with_static = 0; with_static < 2; with_static++)
            add("occupancy.available", available, 2, with_static, threads);
    static const long POTENTIAL[][3] = {{0, 0, 0}, {0, 0, 100}, {0, 10000, 0}, {0, 200000, 0}, {1, 0, 0}, {1, -1, 0}, {2, 0, 0}, {0, -1, 0}, {0, 0, 1024}, {0, 300000, 0}};
    for (size_t i = 0; i < sizeof POTENTIAL / sizeof *POTENTIAL; i++)
        add("occupancy.potential", potential, 3, POTENTIAL[i][0], POTENTIAL[i][1], POTENTIAL[i][2]);
    static const long SIZES[] = {0, 1, 2, 3, 4, 5, 8, 9, 16};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        for (long large = 0; large < 2; large++) {
            add("occupancy.clusters", clusters, 4, SIZES[i], 128L, 0L, large);
            add("occupancy.clusters", clusters, 4, SIZES[i], 1024L, 0L, large);
            add("occupancy.clusters", clusters, 4, SIZES[i], 256L, 200000L, large);
            add("occupancy.clusters", clusters, 4, SIZES[i], 256L, 100000L, large);
        }
    add("occupancy.wrong", wrong, 0);
}
