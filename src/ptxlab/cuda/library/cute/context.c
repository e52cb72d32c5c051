#include "context.h"

CUresult cute_context(void) {
    CUcontext context = NULL;
    CUresult result = cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && context != NULL)
        return CUDA_SUCCESS;
    return cute_set_device(0);
}

CUresult cute_device(int *device) {
    CUresult result = cute_context();
    return result == CUDA_SUCCESS ? cuCtxGetDevice(device) : result;
}

CUresult cute_set_device(int device) {
    CUcontext context = NULL;
    CUdevice handle = 0;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuDeviceGet(&handle, device);
    if (result == CUDA_SUCCESS)
        result = cuDevicePrimaryCtxRetain(&context, handle);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

static _Thread_local CUresult failure = CUDA_SUCCESS;

void cute_fail(CUresult error) {
    if (failure == CUDA_SUCCESS)
        failure = error;
}

CUresult cute_take_failure(void) {
    CUresult taken = failure;
    failure = CUDA_SUCCESS;
    return taken;
}
