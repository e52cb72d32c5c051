/* Kernels: a CUkernel is the CUfunction. */
#include "internal.h"

enum { SHARED_OPTIN = 97 };

static Kernel *plain_kernel(const void *handle) { return handle_is(handle, HANDLE_KERNEL) ? (Kernel *)handle : NULL; }

CUresult ptxlab_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    Kernel *found = plain_kernel(kernel);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *function = found;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    Kernel *found = plain_kernel(kernel);
    if (!library)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *library = (CUlibrary)found->module;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuFuncGetModule(CUmodule *module, CUfunction function)
{
    return ptxlab_cuKernelGetLibrary((CUlibrary *)module, (CUkernel)function);
}

CUresult ptxlab_cuKernelGetName(const char **name, CUkernel kernel)
{
    Kernel *found = plain_kernel(kernel);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = found->name;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuFuncGetName(const char **name, CUfunction function) { return ptxlab_cuKernelGetName(name, (CUkernel)function); }

/* The information of a kernel, which the core finds when it is first asked for. */
CUresult kernel_of(const void *handle, Kernel **kernel)
{
    Kernel *found = plain_kernel(handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!found->known) {
        KernelInfo info = {0};
        CUresult refused = driver.core.kernel_info(found->module->image->id, found->index, &info);
        if (refused)
            return refused;
        lock();
        if (!found->known)
            found->info = info;
        found->known = true;
        unlock();
    }
    *kernel = found;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ attributes */

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle)
{
    Kernel *kernel;
    if (!value || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(handle, &kernel);
    if (!refused)
        *value = kernel->info.attributes[attribute];
    return refused;
}

static CUresult set_attribute(const void *handle, CUfunction_attribute attribute, int value, CUdevice device)
{
    Kernel *kernel;
    CUresult refused = kernel_of(handle, &kernel);
    if (refused)
        return refused;
    int32_t *attributes = kernel->info.attributes;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
        int most = device_of(device)->attributes[SHARED_OPTIN] - attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
        if (value < 0 || value > most)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2)
            return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
            value = value != 0;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    return is_device(device) ? get_attribute(value, attribute, kernel) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult ptxlab_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    return is_device(device) ? set_attribute(kernel, attribute, value, device) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult ptxlab_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    return get_attribute(value, attribute, function);
}

CUresult ptxlab_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    return set_attribute(function, attribute, value, current_context()->device);
}

static CUresult set_cache(const void *handle, int config, int most)
{
    if (!plain_kernel(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    return config < 0 || config > most ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult ptxlab_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    return is_device(device) ? set_cache(kernel, config, 3) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult ptxlab_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return set_cache(function, config, 3); }

CUresult ptxlab_cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) { return set_cache(function, config, 2); }

static CUresult parameter(const void *handle, size_t index, size_t *offset, size_t *size)
{
    Kernel *kernel;
    CUresult refused = kernel_of(handle, &kernel);
    if (refused)
        return refused;
    if (!offset || index >= kernel->info.parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->info.parameters[2 * index];
    if (size)
        *size = kernel->info.parameters[2 * index + 1];
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return parameter(kernel, index, offset, size);
}

CUresult ptxlab_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    return parameter(function, index, offset, size);
}

CUresult ptxlab_cuKernelGetParamCount(CUkernel handle, size_t *count)
{
    Kernel *kernel;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = kernel_of(handle, &kernel);
    if (!refused)
        *count = kernel->info.parameter_count;
    return refused;
}

CUresult ptxlab_cuFuncGetParamCount(CUfunction function, size_t *count) { return ptxlab_cuKernelGetParamCount((CUkernel)function, count); }

CUresult ptxlab_cuFuncIsLoaded(int *state, CUfunction function)
{
    Kernel *kernel = plain_kernel(function);
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    *state = kernel->known;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuFuncLoad(CUfunction function)
{
    Kernel *kernel;
    return kernel_of(function, &kernel);
}
