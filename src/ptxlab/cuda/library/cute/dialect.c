/* Loading of the kernels of a compiled host function, and errors for callers through TVM FFI. */
#include "context.h"

#include <pthread.h>
#include <stdio.h>

typedef CUresult (*LoadImage)(CUlibrary *library);
typedef CUresult (*PrepareDevice)(CUlibrary *library, int device);
typedef void (*RaiseError)(const char *kind, const char *message);
typedef void (*RaiseErrorOfParts)(const char *kind, const char *const *parts, int count);

static const char *name_of(CUresult error) {
    const char *name = NULL;
    return cuGetErrorName(error, &name) == CUDA_SUCCESS && name != NULL ? name : "an unknown CUDA error";
}

EXPORT const char *cuda_dialect_get_error_name(CUresult error) { return name_of(error); }

/* Host code asserts what it does not return, such as the status of tensor maps; the launch that follows fails instead of the process. */
EXPORT void cuda_dialect_assert_success(CUresult error) {
    if (error != CUDA_SUCCESS)
        cute_fail(error);
}

/* Loads the library of a compiled function and prepares its kernels for all devices, in the first call; `state` holds the library. */
EXPORT int cuda_dialect_init_library_once(CUlibrary *state, LoadImage load, PrepareDevice prepare, RaiseError raise) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (*state == NULL) {
        CUlibrary library = NULL;
        int count = 0;
        result = cute_context();
        if (result == CUDA_SUCCESS)
            result = load(&library);
        if (result == CUDA_SUCCESS)
            result = cuDeviceGetCount(&count);
        for (int device = 0; result == CUDA_SUCCESS && device < count; device++)
            result = prepare(&library, device);
        if (result == CUDA_SUCCESS)
            *state = library;
        else if (library != NULL)
            cuLibraryUnload(library);
    }
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS) {
        char message[160];
        snprintf(message, sizeof message, "CUDA error while the kernels were loaded: %s", name_of(result));
        raise("RuntimeError", message);
    }
    return (int)result;
}

EXPORT void cuda_dialect_unload_library_once(CUlibrary *state) {
    if (*state != NULL)
        cuLibraryUnload(*state);
    *state = NULL;
}

EXPORT const char *CuteDSLRT_GetErrorName(CUresult error) { return name_of(error); }

EXPORT const char *CuteDSLRT_GetErrorString(CUresult error) {
    const char *text = NULL;
    return cuGetErrorString(error, &text) == CUDA_SUCCESS && text != NULL ? text : name_of(error);
}

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(RaiseErrorOfParts raise, CUresult error) {
    const char *parts[] = {"CUDA error: ", name_of(error), ": ", CuteDSLRT_GetErrorString(error)};
    raise("RuntimeError", parts, 4);
}
