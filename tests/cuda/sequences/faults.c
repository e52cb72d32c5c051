/* Kernels that fail, and what later calls say. */
#include "sequences.h"

#define ENTRY ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .b32 %v, %w; .reg .pred %c;\n"

static const char *const KERNELS[] = {
    ENTRY "mov.u64 %a, 64; st.global.u32 [%a], 1; ret; }\n",
    ENTRY "mov.u64 %a, 64; ld.global.u32 %v, [%a]; ld.param.u64 %a, [p]; st.global.u32 [%a], %v; ret; }\n",
    ENTRY "ld.param.u64 %a, [p]; st.global.u32 [%a+2], 1; ret; }\n",
    ENTRY "trap; }\n",
    ENTRY "mov.u32 %v, 0x7fffff0; st.shared.u32 [%v], 1; ret; }\n",
    ENTRY "brkpt; ret; }\n",
    ENTRY "ld.param.u64 %a, [p]; add.u64 %a, %a, 17179869184; st.global.u32 [%a], 1; ret; }\n",
    ENTRY ".shared .align 16 .b8 s[64]; mov.u32 %v, s; st.shared.u32 [%v+2], 1; ret; }\n",
};

static void fails(const long *p) {
    CUmodule module = 0;
    CUfunction kernel = 0;
    CUcontext context = start(), other = 0;
    CUdeviceptr address = allocate(64), more = 0;
    CUevent event = 0;
    unsigned int host = 0;
    int device = 0;
    void *parameters[] = {&address};
    SETUP(cuEventCreate, &event, 0);
    SETUP(cuModuleLoadData, &module, KERNELS[p[0]]);
    SETUP(cuModuleGetFunction, &kernel, module, "k");
    CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    CALL(cuCtxSynchronize);
    switch (p[1]) {
    case 0:
        CALL(cuCtxSynchronize);
        CALL(cuMemcpyDtoH_v2, &host, address, (size_t)4);
        CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
        CALL(cuEventQuery, event);
        CALL(cuCtxGetDevice, &device);
        CALL(cuMemFree_v2, address);
        break;
    case 1:
        CALL(cuDevicePrimaryCtxReset_v2, 0);
        CALL(cuMemAlloc_v2, &more, (size_t)64);
        CALL(cuDevicePrimaryCtxRetain, &context, 0);
        CALL(cuCtxSetCurrent, context);
        CALL(cuMemAlloc_v2, &more, (size_t)64);
        CALL(cuCtxSynchronize);
        break;
    case 2:
        CALL(cuCtxCreate_v2, &other, 0, 0);
        CALL(cuMemAlloc_v2, &more, (size_t)64);
        CALL(cuCtxSynchronize);
        break;
    case 3:
        CALL(cuModuleUnload, module);
        CALL(cuEventDestroy_v2, event);
        CALL(cuCtxSetCurrent, NULL);
        CALL(cuDevicePrimaryCtxRelease_v2, 0);
        break;
    }
}

void add_faults(void) {
    for (long kind = 0; kind < (long)(sizeof KERNELS / sizeof *KERNELS); kind++)
        add("fault.fails", fails, 2, kind, 0L);
    for (long then = 1; then < 4; then++) {
        add("fault.fails", fails, 2, 0L, then);
        add("fault.fails", fails, 2, 3L, then);
    }
}
