/* Images that programs load themselves, and functions of the driver by name. */
#include "runtime.h"

EXPORT int cudaLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options, void **values, unsigned count,
                               CUlibraryOption *library_options, void **library_values, unsigned library_count)
{
    return CALL(cuLibraryLoadData(library, image, options, values, count, library_options, library_values, library_count));
}

EXPORT int cudaLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned count,
                                   CUlibraryOption *library_options, void **library_values, unsigned library_count)
{
    return CALL(cuLibraryLoadFromFile(library, path, options, values, count, library_options, library_values, library_count));
}

EXPORT int cudaLibraryUnload(CUlibrary library) { return CALL(cuLibraryUnload(library)); }

EXPORT int cudaLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    int error = CALL(cuLibraryGetKernel(kernel, library, name));
    if (!error)
        know_kernel(*kernel);
    return error;
}

EXPORT int cudaLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library)
{
    int error = CALL(cuLibraryEnumerateKernels(kernels, count, library));
    for (unsigned i = 0; !error && i < count && kernels[i]; i++)
        know_kernel(kernels[i]);
    return error;
}

EXPORT int cudaLibraryGetKernelCount(unsigned *count, CUlibrary library) { return CALL(cuLibraryGetKernelCount(count, library)); }

EXPORT int cudaLibraryGetGlobal(void **pointer, size_t *bytes, CUlibrary library, const char *name)
{
    return CALL(cuLibraryGetGlobal((CUdeviceptr *)(void *)pointer, bytes, library, name));
}

EXPORT int cudaLibraryGetManaged(void **pointer, size_t *bytes, CUlibrary library, const char *name)
{
    return CALL(cuLibraryGetManaged((CUdeviceptr *)(void *)pointer, bytes, library, name));
}

/* With a place for the state, a name that the driver does not have is no error of the call. */
static int entry_point(const char *name, void **function, int version, unsigned long long flags, int *state)
{
    int found = CU_GET_PROC_ADDRESS_SUCCESS;
    int error = cuGetProcAddress_v2(name, function, version, flags, &found);
    if (state)
        *state = found;
    return error == RUNTIME_NOT_FOUND && state ? 0 : error;
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *state)
{
    if (!name || !function)
        return record(RUNTIME_INVALID_VALUE);
    return CALL(entry_point(name, function, (int)version, flags, state));
}

EXPORT int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *state)
{
    return cudaGetDriverEntryPointByVersion(name, function, RUNTIME_VERSION, flags, state);
}
