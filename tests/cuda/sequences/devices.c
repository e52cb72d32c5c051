/* Versions, names, devices and their attributes. */
#include <stdio.h>
#include <string.h>

#include "sequences.h"

static void initialise(const long *flags) {
    CALL(cuInit, (unsigned int)*flags);
    CALL(cuInit, 0);
}

static void error_names(const long *first) {
    for (int code = (int)*first; code < *first + 100; code++) {
        const char *name = NULL;
        if (function("cuGetErrorName")(code, &name) == 0 && name) {
            char line[32];
            snprintf(line, sizeof line, "%d", code);
            text(line, name);
        } else if (name)
            value("name without success", code);
    }
    CALL(cuGetErrorName, 1, NULL);
    CALL(cuGetErrorString, 1, NULL);
}

static void attributes(const long *first) {
    int number = 0;
    SETUP(cuInit, 0);
    for (int attribute = (int)*first; attribute < *first + 10; attribute++) {
        number = -99;
        value("attribute", attribute);
        if (CALL(cuDeviceGetAttribute, &number, attribute, 0) == 0)
            value("value", number);
    }
}

static void attribute_of(const long *p) {
    int number = 0;
    SETUP(cuInit, 0);
    CALL(cuDeviceGetAttribute, &number, 16, (int)*p);
    CALL(cuDeviceGetAttribute, NULL, 16, 0);
}

static void get(const long *ordinal) {
    int device = -99;
    SETUP(cuInit, 0);
    if (CALL(cuDeviceGet, &device, (int)*ordinal) == 0)
        value("device", device);
    CALL(cuDeviceGet, NULL, 0);
}

static void name(const long *size) {
    char content[256];
    memset(content, '#', sizeof content);
    content[255] = 0;
    SETUP(cuInit, 0);
    if (CALL(cuDeviceGetName, content, (int)*size, 0) == 0)
        text("name", content);
    CALL(cuDeviceGetName, content, 16, 5);
    CALL(cuDeviceGetName, NULL, 16, 0);
}

static void bus(const long *size) {
    char content[64];
    int device = -99;
    memset(content, 0, sizeof content);
    SETUP(cuInit, 0);
    if (CALL(cuDeviceGetPCIBusId, content, (int)*size, 0) == 0) {
        value("length", (long long)strlen(content));
        CALL(cuDeviceGetByPCIBusId, &device, content);
        value("device", device);
    }
    CALL(cuDeviceGetByPCIBusId, &device, "0000:ff:1f.7");
    CALL(cuDeviceGetByPCIBusId, &device, "nonsense");
    CALL(cuDeviceGetByPCIBusId, NULL, content);
}

static void various(const long *p) {
    char content[64];
    size_t size = 0;
    int number = 0, major = 0;
    unsigned int mask = 0;
    (void)p;
    SETUP(cuInit, 0);
    CALL(cuDeviceTotalMem_v2, &size, 0);
    value("total", (long long)size);
    CALL(cuDeviceTotalMem_v2, &size, 3);
    CALL(cuDeviceTotalMem_v2, NULL, 0);
    CALL(cuDeviceGetUuid_v2, content, 0);
    CALL(cuDeviceGetUuid_v2, content, 9);
    CALL(cuDeviceGetUuid_v2, NULL, 0);
    CALL(cuDeviceGetLuid, content, &mask, 0);
    CALL(cuDeviceComputeCapability, &major, &number, 0);
    value("major", major);
    value("minor", number);
    CALL(cuDeviceCanAccessPeer, &number, 0, 0);
    value("peer", number);
    CALL(cuDeviceCanAccessPeer, &number, 0, 1);
    CALL(cuDeviceGetP2PAttribute, &number, 1, 0, 0);
    CALL(cuDeviceGetP2PAttribute, &number, 9, 0, 0);
    CALL(cuDeviceGetExecAffinitySupport, &number, 0, 0);
    CALL(cuDeviceGetExecAffinitySupport, &number, 7, 0);
    CALL(cuDeviceGetCount, NULL);
    CALL(cuDriverGetVersion, NULL);
}

static const struct {
    const char *name;
    int version, flags;
} LOOKUPS[] = {
    {"cuMemAlloc", 3020, 0},  {"cuMemAlloc", 2000, 0},        {"cuMemAlloc", 1000, 0},       {"cuMemAlloc", 12000, 0},
    {"cuMemAlloc", 99000, 0}, {"cuMemAlloc_v2", 12000, 0},    {"cuNothing", 12000, 0},       {"cuGetProcAddress", 11030, 0},
    {"cuInit", 2000, 1},      {"cuLaunchKernel", 4000, 2},    {"cuLaunchKernel", 3000, 0},   {"cuLaunchKernelEx", 11060, 0},
    {"cuLaunchKernelEx", 11000, 0}, {"cuMemcpyHtoDAsync", 3020, 2}, {"cuCtxGetDevice", 2000, 0}, {"cuCtxGetDevice", 13000, 0},
    {"cuCtxCreate", 12050, 0}, {"cuCtxCreate", 3020, 0},      {"cuGetExportTable", 3000, 0}, {"", 12000, 0},
    {"cuInit", 2000, 3},      {"cuInit", 2000, 4},            {"cuInit", 0, 0},              {"cuInit", -1, 0},
};

static void look_up(const long *index) {
    void *found = (void *)1;
    int status = -99;
    SETUP(cuInit, 0);
    text("name", LOOKUPS[*index].name);
    CALL(cuGetProcAddress_v2, LOOKUPS[*index].name, &found, LOOKUPS[*index].version, (cuuint64_t)LOOKUPS[*index].flags, &status);
    value("found", found != NULL && found != (void *)1);
    value("status", status);
}

static void look_up_nothing(const long *p) {
    void *found;
    (void)p;
    CALL(cuGetProcAddress_v2, NULL, &found, 12000, 0ull, NULL);
    CALL(cuGetProcAddress_v2, "cuInit", NULL, 12000, 0ull, NULL);
    CALL(cuGetProcAddress_v2, "cuInit", &found, 12000, 0ull, NULL);
}

void add_devices(void) {
    add("device.initialise", initialise, 1, 0L);
    add("device.initialise", initialise, 1, 1L);
    for (long first = 0; first < 1000; first += 100)
        add("device.error_names", error_names, 1, first);
    for (long first = 0; first < 150; first += 10)
        add("device.attributes", attributes, 1, first);
    add("device.attribute_of", attribute_of, 1, 1L);
    add("device.attribute_of", attribute_of, 1, -1L);
    for (long ordinal = -1; ordinal < 3; ordinal++)
        add("device.get", get, 1, ordinal);
    add("device.name", name, 1, 0L);
    add("device.name", name, 1, 1L);
    add("device.name", name, 1, 6L);
    add("device.name", name, 1, 11L);
    add("device.name", name, 1, 12L);
    add("device.name", name, 1, 200L);
    add("device.bus", bus, 1, 5L);
    add("device.bus", bus, 1, 13L);
    add("device.bus", bus, 1, 40L);
    add("device.various", various, 0);
    for (long index = 0; index < (long)(sizeof LOOKUPS / sizeof *LOOKUPS); index++)
        add("device.look_up", look_up, 1, index);
    add("device.look_up_nothing", look_up_nothing, 0);
}
