/* Virtual memory management, and handles for other processes. */
#include <string.h>
#include <unistd.h>

#include "sequences.h"

#define PIECE ((size_t)2 << 20)

static CUmemAllocationProp properties(int kind) {
    CUmemAllocationProp found;
    memset(&found, 0, sizeof found);
    found.type = 1;
    found.location.type = 1;
    found.requestedHandleTypes = kind;
    return found;
}

static CUmemAccessDesc access_to_device(int flags) {
    CUmemAccessDesc found = {{1, 0}, flags};
    return found;
}

static void granularity(const long *p) {
    CUmemAllocationProp wanted = properties(0);
    size_t found = 99;
    start();
    wanted.type = (int)p[0];
    wanted.location.type = (int)p[1];
    wanted.location.id = (int)p[2];
    if (CALL(cuMemGetAllocationGranularity, &found, &wanted, (int)p[3]) == 0)
        value("granularity", (long long)found);
    CALL(cuMemGetAllocationGranularity, NULL, &wanted, 0);
    CALL(cuMemGetAllocationGranularity, &found, NULL, 0);
}

static void create(const long *p) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp wanted = properties((int)p[1]), found;
    start();
    memset(&found, 0, sizeof found);
    if (CALL(cuMemCreate, &handle, (size_t)p[0], &wanted, (unsigned long long)p[2]) == 0) {
        CALL(cuMemGetAllocationPropertiesFromHandle, &found, handle);
        value("type", found.type);
        value("handle types", found.requestedHandleTypes);
        value("location", found.location.type);
        CALL(cuMemRelease, handle);
    }
    CALL(cuMemCreate, NULL, PIECE, &wanted, 0ull);
    CALL(cuMemCreate, &handle, PIECE, NULL, 0ull);
}

static void reserve(const long *p) {
    CUdeviceptr address = 0;
    start();
    if (CALL(cuMemAddressReserve, &address, (size_t)p[0], (size_t)p[1], 0ull, (unsigned long long)p[2]) == 0) {
        value("aligned", alignment(address, (long long)(p[1] ? p[1] : (long)PIECE)));
        CALL(cuMemAddressFree, address, (size_t)p[0] / 2);
        CALL(cuMemAddressFree, address + PIECE, (size_t)p[0]);
        CALL(cuMemAddressFree, address, (size_t)p[0]);
        CALL(cuMemAddressFree, address, (size_t)p[0]);
    }
    CALL(cuMemAddressReserve, NULL, PIECE, (size_t)0, 0ull, 0ull);
}

static void whole(const long *p) {
    CUmemGenericAllocationHandle handle = 0, found = 0;
    CUmemAllocationProp wanted = properties(0);
    CUmemAccessDesc both = access_to_device(3);
    CUdeviceptr address = 0, base = 0;
    CUmemLocation location = {1, 0};
    unsigned long long flags = 99;
    unsigned int host = 0;
    size_t size = 0;
    (void)p;
    start();
    CALL(cuMemCreate, &handle, 2 * PIECE, &wanted, 0ull);
    CALL(cuMemAddressReserve, &address, 8 * PIECE, (size_t)0, 0ull, 0ull);
    CALL(cuMemMap, address, 2 * PIECE, (size_t)0, handle, 0ull);
    CALL(cuMemsetD32_v2, address, 1, (size_t)4);
    CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)1);
    CALL(cuMemGetAccess, &flags, &location, address);
    value("access", (long long)flags);
    CALL(cuMemsetD32_v2, address, 7, (size_t)4);
    CALL(cuMemMap, address + 4 * PIECE, 2 * PIECE, (size_t)0, handle, 0ull);
    CALL(cuMemSetAccess, address + 4 * PIECE, 2 * PIECE, &both, (size_t)1);
    CALL(cuMemcpyDtoH_v2, &host, address + 4 * PIECE, (size_t)4);
    value("the same memory", host);
    CALL(cuMemMap, address, 2 * PIECE, (size_t)0, handle, 0ull);
    CALL(cuMemRetainAllocationHandle, &found, (void *)address);
    value("same handle", found == handle);
    CALL(cuMemRelease, found);
    CALL(cuMemGetAddressRange_v2, &base, &size, address + 100);
    value("offset in its range", (long long)(address + 100 - base));
    value("size", (long long)size);
    CALL(cuMemRelease, handle);
    CALL(cuMemcpyDtoH_v2, &host, address, (size_t)4);
    value("still there", host);
    CALL(cuMemAddressFree, address, 8 * PIECE);
    CALL(cuMemUnmap, address, PIECE);
    CALL(cuMemUnmap, address, 2 * PIECE);
    CALL(cuMemUnmap, address, 2 * PIECE);
    CALL(cuMemUnmap, address + 4 * PIECE, 2 * PIECE);
    CALL(cuMemcpyDtoH_v2, &host, address, (size_t)4);
    CALL(cuMemAddressFree, address, 8 * PIECE);
}

static void map_wrong(const long *p) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp wanted = properties(0);
    CUmemAccessDesc both = access_to_device(3);
    CUdeviceptr address = 0;
    start();
    SETUP(cuMemCreate, &handle, 2 * PIECE, &wanted, 0ull);
    SETUP(cuMemAddressReserve, &address, 4 * PIECE, (size_t)0, 0ull, 0ull);
    switch (p[0]) {
    case 0:
        CALL(cuMemMap, address, PIECE, (size_t)0, handle, 0ull);
        break;
    case 1:
        CALL(cuMemMap, address, PIECE, PIECE, handle, 0ull);
        break;
    case 2:
        CALL(cuMemMap, address, 3 * PIECE, (size_t)0, handle, 0ull);
        break;
    case 3:
        CALL(cuMemMap, address + 4096, 2 * PIECE, (size_t)0, handle, 0ull);
        break;
    case 4:
        CALL(cuMemMap, address, 4096, (size_t)0, handle, 0ull);
        break;
    case 5:
        CALL(cuMemMap, address + 3 * PIECE, 2 * PIECE, (size_t)0, handle, 0ull);
        break;
    case 6:
        CALL(cuMemMap, allocate(64), 2 * PIECE, (size_t)0, handle, 0ull);
        break;
    case 7:
        CALL(cuMemMap, address, 2 * PIECE, (size_t)0, handle, 1ull);
        break;
    case 8:
        CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)1);
        break;
    case 9:
        CALL(cuMemUnmap, address, 2 * PIECE);
        break;
    case 10:
        CALL(cuMemMap, address, 2 * PIECE, (size_t)0, handle, 0ull);
        CALL(cuMemSetAccess, address, 2 * PIECE, NULL, (size_t)1);
        CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)0);
        CALL(cuMemSetAccess, address, 4 * PIECE, &both, (size_t)1);
        CALL(cuMemSetAccess, address, 4096, &both, (size_t)1);
        both.flags = 2;
        CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)1);
        both.flags = 1;
        CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)1);
        both.flags = 3;
        both.location.id = 5;
        CALL(cuMemSetAccess, address, 2 * PIECE, &both, (size_t)1);
        break;
    case 11:
        CALL(cuMemMap, address, 0, (size_t)0, handle, 0ull);
        CALL(cuMemUnmap, address, 0);
        break;
    }
    CALL(cuMemRelease, handle);
}

static void share(const long *type) {
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUmemAllocationProp wanted = properties((int)*type), found;
    int descriptor = -1;
    start();
    if (CALL(cuMemCreate, &handle, PIECE, &wanted, 0ull) == 0) {
        CALL(cuMemExportToShareableHandle, &descriptor, handle, 1, 0ull);
        value("a descriptor", descriptor >= 0);
        CALL(cuMemImportFromShareableHandle, &imported, (void *)(long)descriptor, 1);
        CALL(cuMemGetAllocationPropertiesFromHandle, &found, imported);
        CALL(cuMemExportToShareableHandle, NULL, handle, 1, 0ull);
        CALL(cuMemExportToShareableHandle, &descriptor, handle, 2, 0ull);
    }
    CALL(cuMemImportFromShareableHandle, &imported, (void *)(long)STDIN_FILENO, 1);
    CALL(cuMemImportFromShareableHandle, NULL, NULL, 1);
}

static void ipc(const long *p) {
    CUipcMemHandle handle;
    CUipcEventHandle event_handle;
    CUdeviceptr address = 0, opened = 0;
    CUevent event = 0;
    (void)p;
    memset(&handle, 0, sizeof handle);
    memset(&event_handle, 0, sizeof event_handle);
    start();
    address = allocate(1000);
    CALL(cuIpcGetMemHandle, &handle, address);
    CALL(cuIpcGetMemHandle, &handle, address + 100);
    CALL(cuIpcGetMemHandle, &handle, (CUdeviceptr)0);
    CALL(cuIpcGetMemHandle, NULL, address);
    CALL(cuIpcGetMemHandle, &handle, (CUdeviceptr)&handle);
    CALL(cuIpcOpenMemHandle_v2, NULL, handle, 1);
    CALL(cuIpcCloseMemHandle, (CUdeviceptr)0);
    CALL(cuIpcCloseMemHandle, address);
    SETUP(cuIpcGetMemHandle, &handle, address);
    CALL(cuIpcOpenMemHandle_v2, &opened, handle, 1);
    SETUP(cuEventCreate, &event, 2);
    CALL(cuIpcGetEventHandle, &event_handle, event);
    SETUP(cuEventCreate, &event, 6);
    CALL(cuIpcGetEventHandle, &event_handle, event);
    CALL(cuIpcGetEventHandle, NULL, event);
    CALL(cuIpcOpenEventHandle, &event, event_handle);
}

void add_virtual_memory(void) {
    static const long KINDS[][4] = {{1, 1, 0, 0}, {1, 1, 0, 1}, {1, 1, 0, 2}, {0, 1, 0, 0}, {1, 0, 0, 0}, {1, 1, 9, 0}, {2, 1, 0, 0}};
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        add("virtual_memory.granularity", granularity, 4, KINDS[i][0], KINDS[i][1], KINDS[i][2], KINDS[i][3]);
    static const long CREATE[][3] = {{2097152, 0, 0}, {4194304, 1, 0}, {1000, 0, 0}, {0, 0, 0}, {65536, 0, 0}, {2097152, 2, 0}, {2097152, 0, 1}, {2097152, 8, 0}, {1L << 42, 0, 0}};
    for (size_t i = 0; i < sizeof CREATE / sizeof *CREATE; i++)
        add("virtual_memory.create", create, 3, CREATE[i][0], CREATE[i][1], CREATE[i][2]);
    static const long RESERVE[][3] = {{4194304, 0, 0},      {2097152, 2097152, 0}, {4194304, 1 << 25, 0}, {1000, 0, 0}, {0, 0, 0},
                                      {4194304, 3000, 0}, {4194304, 0, 1},       {1L << 36, 0, 0},      {4194304, 4096, 0}};
    for (size_t i = 0; i < sizeof RESERVE / sizeof *RESERVE; i++)
        add("virtual_memory.reserve", reserve, 3, RESERVE[i][0], RESERVE[i][1], RESERVE[i][2]);
    add("virtual_memory.whole", whole, 0);
    for (long what = 0; what < 12; what++)
        add("virtual_memory.map_wrong", map_wrong, 1, what);
    add("virtual_memory.share", share, 1, 0L);
    add("virtual_memory.share", share, 1, 1L);
    add("virtual_memory.ipc", ipc, 0);
}
