/* Allocation of device and host memory, address ranges, attributes of pointers. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sequences.h"

static void allocate_bytes(const long *size) {
    CUdeviceptr address = 0, base = 0;
    size_t found = 0;
    start();
    if (CALL(cuMemAlloc_v2, &address, (size_t)*size) == 0) {
        value("aligned", alignment(address, 512));
        CALL(cuMemGetAddressRange_v2, &base, &found, address);
        value("at its base", base == address);
        value("size", (long long)found);
        CALL(cuMemGetAddressRange_v2, &base, &found, address + *size - 1);
        value("at its base", base == address);
        CALL(cuMemFree_v2, address);
        CALL(cuMemGetAddressRange_v2, &base, &found, address);
    }
}

static void allocate_nothing(const long *p) {
    (void)p;
    start();
    CALL(cuMemAlloc_v2, NULL, (size_t)64);
    CUdeviceptr address = 77;
    CALL(cuMemAlloc_v2, &address, (size_t)0);
    value("unchanged", address == 77);
    CALL(cuMemAlloc_v2, &address, (size_t)1 << 42);
    value("unchanged", address == 77);
}

static void free_wrong(const long *offset) {
    CUdeviceptr address = 0;
    start();
    CALL(cuMemAlloc_v2, &address, (size_t)4096);
    CALL(cuMemFree_v2, address + *offset);
    CALL(cuMemFree_v2, address);
    CALL(cuMemFree_v2, address);
    CALL(cuMemFree_v2, (CUdeviceptr)0);
    CALL(cuMemFree_v2, (CUdeviceptr)64);
    CALL(cuMemAlloc_v2, &address, (size_t)64);
}

static void neighbours(const long *size) {
    CUdeviceptr first, second;
    start();
    CALL(cuMemAlloc_v2, &first, (size_t)*size);
    CALL(cuMemAlloc_v2, &second, (size_t)*size);
    value("at least their size apart", second > first ? second - first >= (CUdeviceptr)*size : first - second >= (CUdeviceptr)*size);
}

static void pitch(const long *p) {
    CUdeviceptr address = 0, base = 0;
    size_t row = 99, size = 0;
    start();
    if (CALL(cuMemAllocPitch_v2, &address, &row, (size_t)p[0], (size_t)p[1], (unsigned int)p[2]) == 0) {
        value("pitch", (long long)row);
        value("aligned", alignment(address, 512));
        CALL(cuMemGetAddressRange_v2, &base, &size, address);
        value("holds its rows", size >= row * (size_t)(p[1] - 1) + (size_t)p[0]);
    }
}

static void host_flags(const long *wanted) {
    void *memory = NULL;
    unsigned int found = 99;
    CUdeviceptr address = 0;
    start();
    if (CALL(cuMemHostAlloc, &memory, (size_t)1000, (unsigned int)*wanted) == 0) {
        CALL(cuMemHostGetFlags, &found, memory);
        value("flags", found);
        CALL(cuMemHostGetDevicePointer_v2, &address, memory, 0);
        value("same address", address == (CUdeviceptr)memory);
        CALL(cuMemHostGetDevicePointer_v2, &address, (char *)memory + 100, 0);
        value("same address", address == (CUdeviceptr)memory + 100);
        CALL(cuMemHostGetDevicePointer_v2, &address, memory, 1);
        value("page aligned", alignment((CUdeviceptr)memory, 4096));
        memset(memory, 1, 1000);
        CALL(cuMemFreeHost, (char *)memory + 8);
        CALL(cuMemFreeHost, memory);
        CALL(cuMemFreeHost, memory);
        CALL(cuMemHostGetFlags, &found, memory);
    }
}

static void host_wrong(const long *p) {
    void *memory = NULL;
    unsigned int found = 0;
    CUdeviceptr address = 0;
    int local = 0;
    (void)p;
    start();
    CALL(cuMemHostAlloc, NULL, (size_t)64, 0);
    CALL(cuMemHostAlloc, &memory, (size_t)0, 0);
    CALL(cuMemAllocHost_v2, &memory, (size_t)0);
    CALL(cuMemAllocHost_v2, NULL, (size_t)64);
    CALL(cuMemFreeHost, NULL);
    CALL(cuMemFreeHost, &local);
    CALL(cuMemHostGetFlags, &found, &local);
    CALL(cuMemHostGetFlags, NULL, &local);
    CALL(cuMemHostGetDevicePointer_v2, &address, &local, 0);
    CALL(cuMemHostGetDevicePointer_v2, NULL, &local, 0);
}

static void registered(const long *wanted) {
    CUdeviceptr address = 0;
    unsigned int found = 99;
    char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start();
    CALL(cuMemHostRegister_v2, memory, (size_t)8192, (unsigned int)*wanted);
    CALL(cuMemHostRegister_v2, memory, (size_t)8192, 0);
    CALL(cuMemHostRegister_v2, memory + 4096, (size_t)8192, 0);
    CALL(cuMemHostGetFlags, &found, memory);
    value("flags", found);
    CALL(cuMemHostGetDevicePointer_v2, &address, memory + 10, 0);
    value("same address", address == (CUdeviceptr)memory + 10);
    CALL(cuMemHostUnregister, memory + 4096);
    CALL(cuMemHostUnregister, memory);
    CALL(cuMemHostUnregister, memory);
    CALL(cuMemHostRegister_v2, memory + 100, (size_t)1000, 0);
    CALL(cuMemHostUnregister, memory + 100);
}

static void register_wrong(const long *p) {
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)p;
    start();
    CALL(cuMemHostRegister_v2, NULL, (size_t)4096, 0);
    CALL(cuMemHostRegister_v2, memory, (size_t)0, 0);
    CALL(cuMemHostUnregister, NULL);
    CALL(cuMemHostUnregister, memory);
    munmap(memory, 4096);
    CALL(cuMemHostRegister_v2, memory, (size_t)4096, 0);
}

static void managed(const long *flags) {
    CUdeviceptr address = 0;
    int found = 99;
    start();
    if (CALL(cuMemAllocManaged, &address, (size_t)5000, (unsigned int)*flags) == 0) {
        CALL(cuPointerGetAttribute, &found, 8, address);
        value("managed", found);
        *(volatile int *)address = 17;
        value("read", *(volatile int *)address);
        CALL(cuMemFree_v2, address);
    }
}

static void managed_wrong(const long *p) {
    CUdeviceptr address = 0;
    (void)p;
    start();
    CALL(cuMemAllocManaged, &address, (size_t)0, 1);
    CALL(cuMemAllocManaged, NULL, (size_t)64, 1);
}

enum { DEVICE, DEVICE_MIDDLE, PINNED, REGISTERED, MANAGED, PAGEABLE, FREED, POOL, GLOBAL_VARIABLE, NOTHING, KINDS };

static CUdeviceptr memory_of_kind(long kind) {
    static char plain[4096];
    CUdeviceptr address = 0;
    void *host = NULL;
    size_t size;
    switch (kind) {
    case DEVICE:
        return allocate(1000);
    case DEVICE_MIDDLE:
        return allocate(1000) + 300;
    case PINNED:
        SETUP(cuMemHostAlloc, &host, (size_t)1000, 2);
        return (CUdeviceptr)host;
    case REGISTERED:
        host = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        SETUP(cuMemHostRegister_v2, host, (size_t)8192, 0);
        return (CUdeviceptr)host;
    case MANAGED:
        SETUP(cuMemAllocManaged, &address, (size_t)1000, 1);
        return address;
    case PAGEABLE:
        return (CUdeviceptr)plain;
    case FREED:
        address = allocate(1000);
        SETUP(cuMemFree_v2, address);
        return address;
    case POOL:
        SETUP(cuMemAllocAsync, &address, (size_t)1000, NULL);
        SETUP(cuStreamSynchronize, NULL);
        return address;
    case GLOBAL_VARIABLE:
        SETUP(cuModuleGetGlobal_v2, &address, &size, load_module(), "table");
        return address;
    }
    return 0;
}

static const int ATTRIBUTES[] = {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17};

static void print_attribute(int attribute, unsigned long long found, CUdeviceptr address) {
    switch (attribute) {
    case 1:
        value("has a context", (CUcontext)found != NULL);
        break;
    case 2:
        value("memory type", (int)found);
        break;
    case 3:
    case 4:
    case 11:
        value(attribute == 11 ? "offset in its range" : "offset of the pointer", found ? (long long)(address - found) : -1);
        break;
    case 7:
        value("has an id", found != 0);
        break;
    case 17:
        value("has a pool", found != 0);
        break;
    case 12:
        value("range", (long long)found);
        break;
    default:
        value("value", (long long)(int)found);
    }
}

static void pointer_attribute(const long *kind) {
    start();
    CUdeviceptr address = memory_of_kind(*kind);
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++) {
        unsigned long long found = 0;
        value("attribute", ATTRIBUTES[i]);
        if (CALL(cuPointerGetAttribute, &found, ATTRIBUTES[i], address) == 0)
            print_attribute(ATTRIBUTES[i], found, address);
    }
}

static void pointer_attributes(const long *kind) {
    start();
    CUdeviceptr address = memory_of_kind(*kind);
    int wanted[] = {1, 2, 3, 4, 8, 9, 11, 12, 13};
    enum { COUNT = sizeof wanted / sizeof *wanted };
    unsigned long long found[COUNT];
    void *places[COUNT];
    memset(found, 0, sizeof found);
    for (int i = 0; i < COUNT; i++)
        places[i] = &found[i];
    if (CALL(cuPointerGetAttributes, COUNT, wanted, places, address) == 0)
        for (int i = 0; i < COUNT; i++)
            print_attribute(wanted[i], found[i], address);
}

static void attribute_wrong(const long *p) {
    int found = 99, wanted = 99;
    void *place = &found;
    (void)p;
    start();
    CUdeviceptr address = allocate(64);
    CALL(cuPointerGetAttribute, &found, 0, address);
    CALL(cuPointerGetAttribute, &found, 99, address);
    CALL(cuPointerGetAttribute, NULL, 2, address);
    CALL(cuPointerGetAttributes, 0, &wanted, &place, address);
    CALL(cuPointerGetAttributes, 1, &wanted, &place, address);
    CALL(cuPointerGetAttributes, 1, NULL, &place, address);
    CALL(cuPointerSetAttribute, &found, 6, address);
    CALL(cuPointerSetAttribute, &found, 2, address);
    found = 1;
    CALL(cuPointerSetAttribute, &found, 6, (CUdeviceptr)0);
}

static void range_wrong(const long *p) {
    CUdeviceptr base = 0;
    size_t size = 0;
    (void)p;
    start();
    CUdeviceptr address = allocate(1000);
    CALL(cuMemGetAddressRange_v2, NULL, &size, address);
    CALL(cuMemGetAddressRange_v2, &base, NULL, address);
    CALL(cuMemGetAddressRange_v2, NULL, NULL, address);
    CALL(cuMemGetAddressRange_v2, &base, &size, (CUdeviceptr)0);
    CALL(cuMemGetAddressRange_v2, &base, &size, (CUdeviceptr)&base);
}

static void information(const long *p) {
    size_t before = 0, after = 0, total = 0;
    (void)p;
    start();
    CALL(cuMemGetInfo_v2, &before, &total);
    value("total", (long long)total);
    value("some is in use", before < total);
    CUdeviceptr address = allocate((size_t)256 << 20);
    CALL(cuMemGetInfo_v2, &after, &total);
    value("taken", (long long)(before - after));
    CALL(cuMemFree_v2, address);
    CALL(cuMemGetInfo_v2, &after, &total);
    value("taken", (long long)(before - after));
    CALL(cuMemGetInfo_v2, NULL, &total);
    CALL(cuMemGetInfo_v2, &after, NULL);
}

static void advice(const long *advise) {
    start();
    CUdeviceptr device = allocate(4096), shared = 0;
    SETUP(cuMemAllocManaged, &shared, (size_t)4096, 1);
    CALL(cuMemAdvise, shared, (size_t)4096, (int)*advise, 0);
    CALL(cuMemAdvise, device, (size_t)4096, (int)*advise, 0);
    CALL(cuMemAdvise, shared, (size_t)0, (int)*advise, 0);
    CALL(cuMemPrefetchAsync, shared, (size_t)4096, 0, NULL);
    CALL(cuMemPrefetchAsync, device, (size_t)4096, 0, NULL);
}

void add_memory(void) {
    static const long SIZES[] = {1, 4, 255, 256, 257, 511, 512, 513, 4096, 65536, 1000000, 2097152, 2097153, 100000000};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        add("memory.allocate", allocate_bytes, 1, SIZES[i]);
    add("memory.allocate_nothing", allocate_nothing, 0);
    for (long offset = 1; offset < 5000; offset *= 8)
        add("memory.free_wrong", free_wrong, 1, offset);
    add("memory.neighbours", neighbours, 1, 1L);
    add("memory.neighbours", neighbours, 1, 4096L);
    static const long WIDTHS[] = {1, 100, 511, 512, 513, 1000, 4096, 100000};
    for (size_t i = 0; i < sizeof WIDTHS / sizeof *WIDTHS; i++)
        add("memory.pitch", pitch, 3, WIDTHS[i], 10L, 4L << i % 3);
    add("memory.pitch", pitch, 3, 0L, 10L, 4L);
    add("memory.pitch", pitch, 3, 100L, 0L, 4L);
    add("memory.pitch", pitch, 3, 100L, 10L, 0L);
    add("memory.pitch", pitch, 3, 100L, 10L, 3L);
    add("memory.pitch", pitch, 3, 100L, 10L, 32L);
    for (long flags = 0; flags < 9; flags++)
        add("memory.host_flags", host_flags, 1, flags);
    add("memory.host_flags", host_flags, 1, 64L);
    add("memory.host_wrong", host_wrong, 0);
    for (long flags = 0; flags < 5; flags++)
        add("memory.registered", registered, 1, flags);
    add("memory.registered", registered, 1, 8L);
    add("memory.registered", registered, 1, 64L);
    add("memory.register_wrong", register_wrong, 0);
    for (long flags = 0; flags < 5; flags++)
        add("memory.managed", managed, 1, flags);
    add("memory.managed_wrong", managed_wrong, 0);
    for (long kind = 0; kind < KINDS; kind++) {
        add("memory.pointer_attribute", pointer_attribute, 1, kind);
        add("memory.pointer_attributes", pointer_attributes, 1, kind);
    }
    add("memory.attribute_wrong", attribute_wrong, 0);
    add("memory.range_wrong", range_wrong, 0);
    add("memory.information", information, 0);
    for (long advise = 0; advise < 8; advise++)
        add("memory.advice", advice, 1, advise);
}
