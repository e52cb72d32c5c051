/* What many sequences start with, and the kernels that they launch. */
#include "sequences.h"

const char MODULE[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .global .align 4 .b8 table[40];\n"
    ".visible .const .align 4 .b8 factors[12];\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry store(.param .u64 where, .param .u32 what) {\n"
    "  .reg .b64 %a; .reg .b32 %v;\n"
    "  ld.param.u64 %a, [where]; ld.param.u32 %v, [what];\n"
    "  st.global.u32 [%a], %v; ret;\n"
    "}\n"
    ".visible .entry add(.param .u64 where, .param .u32 what) {\n"
    "  .reg .b64 %a; .reg .b32 %v, %o;\n"
    "  ld.param.u64 %a, [where]; ld.param.u32 %v, [what];\n"
    "  atom.global.add.u32 %o, [%a], %v; ret;\n"
    "}\n"
    ".visible .entry shared(.param .u64 where) {\n"
    "  .shared .align 4 .b8 tile[1000];\n"
    "  .reg .b64 %a; .reg .b32 %v, %s;\n"
    "  ld.param.u64 %a, [where]; mov.u32 %s, tile; st.shared.u32 [%s], 7; ld.shared.u32 %v, [%s];\n"
    "  st.global.u32 [%a], %v; ret;\n"
    "}\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".visible .entry dynamic_shared(.param .u64 where) {\n"
    "  .reg .b64 %a; .reg .b32 %v, %s;\n"
    "  ld.param.u64 %a, [where]; mov.u32 %s, dynamic; st.shared.u32 [%s], 9; ld.shared.u32 %v, [%s];\n"
    "  st.global.u32 [%a], %v; ret;\n"
    "}\n"
    ".visible .entry bounded() .maxntid 64, 2, 1 { ret; }\n"
    ".visible .entry required() .reqntid 32, 2, 1 { ret; }\n"
    ".visible .entry clustered() .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }\n"
    ".visible .entry many(.param .u8 a, .param .u16 b, .param .u32 c, .param .u64 d, .param .align 8 .b8 e[24], .param .f32 f) { ret; }\n"
    ".visible .entry trap_now() { trap; }\n";

CUcontext start(void) {
    CUcontext context = 0;
    SETUP(cuInit, 0);
    SETUP(cuDevicePrimaryCtxRetain, &context, 0);
    SETUP(cuCtxSetCurrent, context);
    return context;
}

CUmodule load_module(void) {
    CUmodule module = 0;
    SETUP(cuModuleLoadData, &module, MODULE);
    return module;
}

CUfunction load_kernel(const char *name) {
    CUfunction found = 0;
    SETUP(cuModuleGetFunction, &found, load_module(), name);
    return found;
}

CUdeviceptr allocate(size_t size) {
    CUdeviceptr address = 0;
    SETUP(cuMemAlloc_v2, &address, size);
    return address;
}

long long alignment(CUdeviceptr address, long long most) {
    long long found = 1;
    while (found < most && !(address & (CUdeviceptr)found))
        found *= 2;
    return found;
}
