/* Memory pools: allocation in the order of a stream. */
#include <string.h>

#include "sequences.h"

static void allocate_async(const long *size) {
    CUdeviceptr address = 0, base = 0;
    size_t found = 0;
    CUstream stream = 0;
    start();
    SETUP(cuStreamCreate, &stream, 0);
    if (CALL(cuMemAllocAsync, &address, (size_t)*size, stream) == 0) {
        value("aligned", alignment(address, 512));
        CALL(cuMemsetD8Async, address, 3, (size_t)*size, stream);
        CALL(cuMemGetAddressRange_v2, &base, &found, address);
        value("size", (long long)found);
        CALL(cuMemFreeAsync, address, stream);
        CALL(cuStreamSynchronize, stream);
        CALL(cuMemFreeAsync, address, stream);
        CALL(cuMemFree_v2, address);
    }
    CALL(cuMemAllocAsync, NULL, (size_t)*size, stream);
}

static void free_kinds(const long *p) {
    CUdeviceptr address = 0;
    (void)p;
    start();
    CALL(cuMemAllocAsync, &address, (size_t)1000, NULL);
    CALL(cuMemFree_v2, address);
    CALL(cuMemFree_v2, address);
    address = allocate(1000);
    CALL(cuMemFreeAsync, address, NULL);
    CALL(cuStreamSynchronize, NULL);
    CALL(cuMemFree_v2, address);
    CALL(cuMemFreeAsync, (CUdeviceptr)0, NULL);
    CALL(cuMemFreeAsync, (CUdeviceptr)64, NULL);
    CALL(cuMemAllocAsync, &address, (size_t)1000, NULL);
    CALL(cuMemFreeAsync, address + 8, NULL);
}

static void attributes(const long *attribute) {
    CUmemoryPool pool = 0;
    unsigned long long found = 99, wanted = 1 << 20;
    start();
    SETUP(cuDeviceGetDefaultMemPool, &pool, 0);
    found = 0;
    if (CALL(cuMemPoolGetAttribute, pool, (int)*attribute, &found) == 0)
        value("value", (long long)found);
    CALL(cuMemPoolSetAttribute, pool, (int)*attribute, &wanted);
    found = 0;
    if (CALL(cuMemPoolGetAttribute, pool, (int)*attribute, &found) == 0)
        value("value", (long long)found);
    wanted = 0;
    CALL(cuMemPoolSetAttribute, pool, (int)*attribute, &wanted);
    CALL(cuMemPoolGetAttribute, pool, (int)*attribute, NULL);
}

static void print_use(CUmemoryPool pool) {
    for (int attribute = 5; attribute <= 8; attribute++) {
        unsigned long long found = 0;
        CALL(cuMemPoolGetAttribute, pool, attribute, &found);
        value("bytes", (long long)found);
    }
}

static void use(const long *size) {
    CUmemoryPool pool = 0;
    CUdeviceptr first = 0, second = 0;
    start();
    SETUP(cuDeviceGetDefaultMemPool, &pool, 0);
    print_use(pool);
    CALL(cuMemAllocAsync, &first, (size_t)*size, NULL);
    CALL(cuMemAllocAsync, &second, (size_t)*size, NULL);
    print_use(pool);
    CALL(cuMemFreeAsync, first, NULL);
    CALL(cuStreamSynchronize, NULL);
    print_use(pool);
    CALL(cuMemFreeAsync, second, NULL);
    CALL(cuStreamSynchronize, NULL);
    print_use(pool);
    CALL(cuMemPoolTrimTo, pool, (size_t)0);
    print_use(pool);
}

static void reuse(const long *p) {
    CUdeviceptr first = 0, second = 0;
    (void)p;
    start();
    CALL(cuMemAllocAsync, &first, (size_t)4096, NULL);
    CALL(cuMemFreeAsync, first, NULL);
    CALL(cuMemAllocAsync, &second, (size_t)4096, NULL);
    value("reused in the same stream", first == second);
}

static void create(const long *p) {
    CUmemPoolProps properties;
    CUmemoryPool pool = 0;
    CUdeviceptr address = 0;
    memset(&properties, 0, sizeof properties);
    properties.allocType = (int)p[0];
    properties.handleTypes = (int)p[1];
    properties.location.type = (int)p[2];
    properties.location.id = (int)p[3];
    start();
    if (CALL(cuMemPoolCreate, &pool, &properties) == 0) {
        CALL(cuMemAllocFromPoolAsync, &address, (size_t)1000, pool, NULL);
        value("aligned", alignment(address, 512));
        CALL(cuMemFreeAsync, address, NULL);
        CALL(cuStreamSynchronize, NULL);
        CALL(cuMemPoolTrimTo, pool, (size_t)0);
        CALL(cuMemPoolDestroy, pool);
    }
    CALL(cuMemPoolCreate, NULL, &properties);
    CALL(cuMemPoolCreate, &pool, NULL);
}

static void of_the_device(const long *p) {
    CUmemoryPool fallback = 0, current = 0, own = 0;
    CUmemPoolProps properties;
    (void)p;
    memset(&properties, 0, sizeof properties);
    properties.allocType = properties.location.type = 1;
    start();
    CALL(cuDeviceGetDefaultMemPool, &fallback, 0);
    CALL(cuDeviceGetMemPool, &current, 0);
    value("same", fallback == current);
    CALL(cuMemPoolCreate, &own, &properties);
    CALL(cuDeviceSetMemPool, 0, own);
    CALL(cuDeviceGetMemPool, &current, 0);
    value("set", own == current);
    CALL(cuMemPoolDestroy, own);
    CALL(cuDeviceGetMemPool, &current, 0);
    value("the default again", fallback == current);
    CALL(cuMemPoolDestroy, fallback);
    CALL(cuDeviceSetMemPool, 0, NULL);
    CALL(cuDeviceGetMemPool, NULL, 0);
    CALL(cuDeviceGetDefaultMemPool, &fallback, 4);
    CALL(cuMemPoolDestroy, NULL);
    CALL(cuMemPoolTrimTo, NULL, (size_t)0);
}

static void access_of(const long *flags) {
    CUmemoryPool pool = 0;
    CUmemAccessDesc wanted;
    CUmemLocation location = {1, 0};
    int found = -99;
    start();
    SETUP(cuDeviceGetDefaultMemPool, &pool, 0);
    CALL(cuMemPoolGetAccess, &found, pool, &location);
    value("access", found);
    wanted.location = location;
    wanted.flags = (int)*flags;
    CALL(cuMemPoolSetAccess, pool, &wanted, (size_t)1);
    CALL(cuMemPoolGetAccess, &found, pool, &location);
    value("access", found);
    CALL(cuMemPoolSetAccess, pool, NULL, (size_t)1);
}

void add_pools(void) {
    static const long SIZES[] = {0, 1, 512, 1000, 2097152, 50000000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        add("pool.allocate_async", allocate_async, 1, SIZES[i]);
    add("pool.allocate_async", allocate_async, 1, 1L << 42);
    add("pool.free_kinds", free_kinds, 0);
    for (long attribute = 0; attribute < 10; attribute++)
        add("pool.attributes", attributes, 1, attribute);
    add("pool.use", use, 1, 1000L);
    add("pool.use", use, 1, 40L << 20);
    add("pool.reuse", reuse, 0);
    add("pool.create", create, 4, 1L, 0L, 1L, 0L);
    add("pool.create", create, 4, 1L, 1L, 1L, 0L);
    add("pool.create", create, 4, 0L, 0L, 1L, 0L);
    add("pool.create", create, 4, 1L, 2L, 1L, 0L);
    add("pool.create", create, 4, 1L, 0L, 0L, 0L);
    add("pool.create", create, 4, 1L, 0L, 1L, 7L);
    add("pool.of_the_device", of_the_device, 0);
    for (long flags = 0; flags < 4; flags++)
        add("pool.access", access_of, 1, flags);
}
