/* Modules, libraries, kernels and their attributes. */
#include <stdio.h>
#include <string.h>

#include "sequences.h"

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

static const char *const IMAGES[] = {
    HEADER ".visible .entry k() { ret; }\n",
    "",
    "hello",
    HEADER,
    HEADER "nonsense",
    HEADER ".visible .entry k() { frobnicate.b32 %r1, %r2; ret; }\n",
    HEADER ".visible .entry k() { mov.u32 %r1, %r2; ret; }\n",
    HEADER ".visible .entry k() { bra NOWHERE; }\n",
    ".target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 3.0\n.target sm_20\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.target sm_93\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.target sm_90\n.address_size 32\n.visible .entry k() { ret; }\n",
    HEADER ".visible .entry k() { ret; }\n.visible .entry k() { ret; }\n",
    HEADER ".extern .func missing();\n.visible .entry k() { call missing; ret; }\n",
    HEADER ".visible .entry k() { .shared .b8 big[300000]; .reg .u32 %a; mov.u32 %a, big; st.shared.u32 [%a], 1; ret; }\n",
    "\x7f" "ELF\2\1\1",
    "\x50\xed\x55\xba\1",
};

static void load(const long *index) {
    CUmodule module = 0;
    CUfunction kernel = 0;
    static _Alignas(16) char image[4096];
    snprintf(image, sizeof image, "%s", IMAGES[*index]);
    start();
    if (CALL(cuModuleLoadData, &module, image) == 0) {
        CALL(cuModuleGetFunction, &kernel, module, "k");
        CALL(cuModuleUnload, module);
    }
}

static void load_library(const long *index) {
    CUlibrary library = 0;
    CUkernel kernel = 0;
    static _Alignas(16) char image[4096];
    unsigned int count = 99;
    snprintf(image, sizeof image, "%s", IMAGES[*index]);
    start();
    if (CALL(cuLibraryLoadData, &library, image, NULL, NULL, 0, NULL, NULL, 0) == 0) {
        CALL(cuLibraryGetKernelCount, &count, library);
        value("kernels", count);
        CALL(cuLibraryGetKernel, &kernel, library, "k");
        CALL(cuLibraryUnload, library);
    }
}

static void log_of(const long *index) {
    CUmodule module = 0;
    char information[512], errors[512];
    static _Alignas(16) char image[4096];
    snprintf(image, sizeof image, "%s", IMAGES[*index]);
    memset(information, 'x', sizeof information);
    memset(errors, 'x', sizeof errors);
    int options[] = {3, 4, 5, 6};
    void *values[] = {information, (void *)sizeof information, errors, (void *)sizeof errors};
    start();
    CALL(cuModuleLoadDataEx, &module, image, 4, options, values);
    value("has errors", errors[0] != 0 && errors[0] != 'x');
    value("ended by a zero", memchr(errors, 0, sizeof errors) != NULL);
    value("has information", information[0] != 0 && information[0] != 'x');
}

static void load_wrong(const long *p) {
    CUmodule module = 0;
    CUlibrary library = 0;
    (void)p;
    start();
    CALL(cuModuleLoadData, &module, NULL);
    CALL(cuModuleLoadData, NULL, MODULE);
    CALL(cuModuleLoad, &module, "/nonexistent.ptx");
    CALL(cuModuleLoad, &module, NULL);
    CALL(cuLibraryLoadFromFile, &library, "/nonexistent.ptx", NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryLoadData, &library, NULL, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuModuleUnload, NULL);
    CALL(cuLibraryUnload, NULL);
    CALL(cuModuleLoadFatBinary, &module, NULL);
}

static void look_up(const long *p) {
    CUfunction kernel = 0, again = 0;
    CUdeviceptr address = 0;
    CUmodule owner = 0;
    size_t size = 0;
    int mode = 0;
    unsigned int count = 0;
    (void)p;
    start();
    CUmodule module = load_module();
    CALL(cuModuleGetFunction, &kernel, module, "store");
    CALL(cuModuleGetFunction, &again, module, "store");
    value("same", kernel == again);
    CALL(cuModuleGetFunction, &kernel, module, "missing");
    CALL(cuModuleGetFunction, &kernel, module, "");
    CALL(cuModuleGetFunction, &kernel, module, NULL);
    CALL(cuModuleGetFunction, NULL, module, "store");
    CALL(cuModuleGetFunction, &kernel, NULL, "store");
    CALL(cuModuleGetGlobal_v2, &address, &size, module, "table");
    value("size", (long long)size);
    value("aligned", alignment(address, 4));
    CALL(cuModuleGetGlobal_v2, &address, &size, module, "factors");
    value("size", (long long)size);
    CALL(cuModuleGetGlobal_v2, NULL, &size, module, "table");
    CALL(cuModuleGetGlobal_v2, &address, NULL, module, "table");
    CALL(cuModuleGetGlobal_v2, NULL, NULL, module, "table");
    CALL(cuModuleGetGlobal_v2, &address, &size, module, "missing");
    CALL(cuModuleGetGlobal_v2, &address, &size, module, "store");
    CALL(cuFuncGetModule, &owner, again);
    value("its module", owner == module);
    CALL(cuModuleGetLoadingMode, &mode);
    value("mode", mode);
    CALL(cuModuleGetFunctionCount, &count, module);
    value("functions", count);
    CALL(cuModuleUnload, module);
}

static void libraries(const long *p) {
    CUlibrary library = 0, owner = 0;
    CUkernel kernel = 0, kernels[16];
    CUfunction function_of_it = 0;
    CUmodule module = 0;
    CUdeviceptr address = 0;
    size_t size = 0;
    unsigned int count = 99;
    const char *name = NULL;
    (void)p;
    start();
    CALL(cuLibraryLoadData, &library, MODULE, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryGetKernelCount, &count, library);
    value("kernels", count);
    CALL(cuLibraryEnumerateKernels, kernels, 16, library);
    CALL(cuLibraryEnumerateKernels, kernels, 1, library);
    CALL(cuLibraryGetKernel, &kernel, library, "store");
    CALL(cuLibraryGetKernel, &kernel, library, "missing");
    CALL(cuLibraryGetKernel, &kernel, library, NULL);
    CALL(cuLibraryGetKernel, &kernel, library, "store");
    CALL(cuKernelGetFunction, &function_of_it, kernel);
    CALL(cuKernelGetName, &name, kernel);
    text("name", name ? name : "");
    CALL(cuFuncGetName, &name, function_of_it);
    text("name", name ? name : "");
    CALL(cuKernelGetLibrary, &owner, kernel);
    value("its library", owner == library);
    CALL(cuLibraryGetModule, &module, library);
    CALL(cuLibraryGetGlobal, &address, &size, library, "table");
    value("size", (long long)size);
    CALL(cuLibraryGetGlobal, &address, &size, library, "missing");
    CALL(cuLibraryGetManaged, &address, &size, library, "table");
    CALL(cuLibraryUnload, library);
}

static const char *const KERNELS[] = {"nothing", "store", "shared", "dynamic_shared", "bounded", "required", "clustered", "many"};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof *KERNELS };

static void attributes(const long *index) {
    start();
    CUfunction kernel = load_kernel(KERNELS[*index]);
    for (int attribute = 0; attribute < 17; attribute++) {
        int found = -99;
        value("attribute", attribute);
        /* The number of registers and of bytes of local memory is the assembler's choice. */
        if (CALL(cuFuncGetAttribute, &found, attribute, kernel) == 0 && attribute != 4)
            value("value", found);
    }
    CALL(cuFuncGetAttribute, NULL, 0, kernel);
}

static void kernel_attributes(const long *index) {
    CUlibrary library = 0;
    CUkernel kernel = 0;
    start();
    SETUP(cuLibraryLoadData, &library, MODULE, NULL, NULL, 0, NULL, NULL, 0);
    SETUP(cuLibraryGetKernel, &kernel, library, KERNELS[*index]);
    for (int attribute = 0; attribute < 17; attribute++) {
        int found = -99;
        value("attribute", attribute);
        if (CALL(cuKernelGetAttribute, &found, attribute, kernel, 0) == 0 && attribute != 4)
            value("value", found);
    }
    CALL(cuKernelGetAttribute, NULL, 0, kernel, 0);
    CALL(cuKernelSetAttribute, 8, 100000, kernel, 0);
}

static void set_attribute(const long *p) {
    int found = -99;
    start();
    CUfunction kernel = load_kernel("dynamic_shared");
    CALL(cuFuncSetAttribute, kernel, (int)p[0], (int)p[1]);
    if (CALL(cuFuncGetAttribute, &found, (int)p[0], kernel) == 0 && p[0] != 4)
        value("value", found);
}

static void set_attribute_of_shared(const long *p) {
    int found = -99;
    start();
    CUfunction kernel = load_kernel("shared");
    CALL(cuFuncSetAttribute, kernel, 8, (int)p[0]);
    CALL(cuFuncGetAttribute, &found, 8, kernel);
    value("value", found);
}

static void parameters(const long *index) {
    CUlibrary library = 0;
    CUkernel kernel = 0;
    start();
    CUfunction function_of_it = load_kernel(KERNELS[*index]);
    SETUP(cuLibraryLoadData, &library, MODULE, NULL, NULL, 0, NULL, NULL, 0);
    SETUP(cuLibraryGetKernel, &kernel, library, KERNELS[*index]);
    for (int i = 0; i < 8; i++) {
        size_t offset = 99, size = 99;
        if (CALL(cuFuncGetParamInfo, function_of_it, (size_t)i, &offset, &size) == 0) {
            value("offset", (long long)offset);
            value("size", (long long)size);
        }
        CALL(cuKernelGetParamInfo, kernel, (size_t)i, &offset, NULL);
    }
    CALL(cuFuncGetParamInfo, function_of_it, (size_t)0, NULL, NULL);
}

static void cache_config(const long *config) {
    start();
    CUfunction kernel = load_kernel("shared");
    CALL(cuFuncSetCacheConfig, kernel, (int)*config);
    CALL(cuFuncSetSharedMemConfig, kernel, (int)*config);
    CALL(cuFuncSetCacheConfig, NULL, (int)*config);
}

static void global_values(const long *p) {
    CUdeviceptr address = 0;
    size_t size = 0;
    int host[10], zeros = 0;
    (void)p;
    start();
    CUmodule first = load_module(), second = load_module();
    CUdeviceptr other = 0;
    CALL(cuModuleGetGlobal_v2, &address, &size, first, "table");
    CALL(cuModuleGetGlobal_v2, &other, &size, second, "table");
    value("each module has its own", address != other);
    CALL(cuMemcpyDtoH_v2, host, address, sizeof host);
    for (int i = 0; i < 10; i++)
        zeros += host[i] == 0;
    value("zeros", zeros);
    CALL(cuMemsetD32_v2, address, 3, (size_t)10);
    CALL(cuMemcpyDtoH_v2, host, address, sizeof host);
    value("written", host[9]);
    CALL(cuMemcpyDtoH_v2, host, other, sizeof host);
    value("not written", host[9]);
    CALL(cuMemFree_v2, address);
}

static void link(const long *p) {
    CUlinkState state = 0;
    CUmodule module = 0;
    CUfunction kernel = 0;
    void *cubin = NULL;
    size_t size = 0;
    start();
    CALL(cuLinkCreate_v2, 0, NULL, NULL, &state);
    const char *image = IMAGES[*p];
    CALL(cuLinkAddData_v2, state, 1, image, strlen(image) + 1, "input", 0, NULL, NULL);
    if (CALL(cuLinkComplete, state, &cubin, &size) == 0) {
        value("has bytes", size > 0);
        CALL(cuModuleLoadData, &module, cubin);
        CALL(cuModuleGetFunction, &kernel, module, "k");
    }
    CALL(cuLinkDestroy, state);
}

void add_modules(void) {
    for (long index = 0; index < (long)(sizeof IMAGES / sizeof *IMAGES); index++) {
        add("module.load", load, 1, index);
        add("module.load_library", load_library, 1, index);
        if (index < 21)
            add("module.log", log_of, 1, index);
    }
    add("module.load_wrong", load_wrong, 0);
    add("module.look_up", look_up, 0);
    add("module.libraries", libraries, 0);
    for (long index = 0; index < KERNEL_COUNT; index++) {
        add("module.attributes", attributes, 1, index);
        add("module.kernel_attributes", kernel_attributes, 1, index);
        add("module.parameters", parameters, 1, index);
    }
    static const long SETTINGS[][2] = {{8, 0}, {8, 49152}, {8, 100000}, {8, 232448}, {8, 232449}, {8, -1}, {9, -1}, {9, 0}, {9, 50}, {9, 100},
                                       {9, 101}, {9, -2}, {10, 1}, {11, 2}, {12, 2}, {14, 0}, {14, 1}, {14, 2}, {15, 0}, {15, 1}, {15, 2},
                                       {15, 3}, {0, 5}, {1, 5}, {4, 5}, {16, 0}, {99, 0}, {-1, 0}};
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++)
        add("module.set_attribute", set_attribute, 2, SETTINGS[i][0], SETTINGS[i][1]);
    add("module.set_attribute_of_shared", set_attribute_of_shared, 1, 231448L);
    add("module.set_attribute_of_shared", set_attribute_of_shared, 1, 231449L);
    for (long config = -1; config < 5; config++)
        add("module.cache_config", cache_config, 1, config);
    add("module.global_values", global_values, 0);
    add("module.link", link, 1, 0L);
    add("module.link", link, 1, 2L);
    add("module.link", link, 1, 5L);
}
