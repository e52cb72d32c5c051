/* Modules, libraries, kernels and functions. A CUlibrary is a CUmodule without a context, and a CUkernel is the CUfunction. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

typedef struct CUmod_st Module;

enum { SHARED_OPTIN = 97, LAZY_LOADING = 2 };

/* ------------------------------------------------------------------ options of the JIT compiler */

typedef struct Logs {
    char *info, *error;
    size_t info_size, error_size;
    void **info_filled, **error_filled;
} Logs;

static CUresult read_options(Logs *logs, unsigned int count, const CUjit_option *options, void **values)
{
    *logs = (Logs){0};
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
            logs->info = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            logs->info_size = (unsigned int)(uintptr_t)values[i];
            logs->info_filled = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            logs->error = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            logs->error_size = (unsigned int)(uintptr_t)values[i];
            logs->error_filled = &values[i];
            break;
        default:
            break;
        }
    return CUDA_SUCCESS;
}

static void fill_log(char *buffer, size_t size, void **filled, const char *text)
{
    size_t length = strlen(text);
    if (buffer && size) {
        length = length < size ? length : size - 1;
        memcpy(buffer, text, length);
        buffer[length] = 0;
    }
    if (filled)
        *filled = (void *)(uintptr_t)(buffer ? length : 0);
}

static void write_logs(const Logs *logs, const char *text, bool failed)
{
    fill_log(logs->info, logs->info_size, logs->info_filled, failed ? "" : text);
    fill_log(logs->error, logs->error_size, logs->error_filled, failed ? text : "");
}

/* ------------------------------------------------------------------ loading */

static void unload(Module *module)
{
    if (driver.core.unload_image)
        driver.core.unload_image(module->image);
    for (uint32_t i = 0; i < module->count; i++)
        if (module->kernels[i]) {
            free(module->kernels[i]->name);
            handle_free(module->kernels[i]);
        }
    free(module->kernels);
    handle_free(module);
}

static CUresult name_kernels(Module *module)
{
    for (uint32_t i = 0; i < module->count; i++) {
        const char *name;
        CUresult refused = driver.core.kernel_name(module->image, i, &name);
        Kernel *kernel = refused ? NULL : handle_new(HANDLE_KERNEL, sizeof *kernel);
        module->kernels[i] = kernel;
        if (!kernel)
            return refused ? refused : CUDA_ERROR_OUT_OF_MEMORY;
        kernel->module = module;
        kernel->index = i;
        kernel->name = strdup(name);
    }
    return CUDA_SUCCESS;
}

static CUresult load(Module **made, CUcontext context, uint64_t address, uint64_t size, unsigned int count, CUjit_option *options, void **values)
{
    Logs logs;
    CUresult refused = read_options(&logs, count, options, values);
    if (refused)
        return refused;
    if (!driver.core.load_image)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUcontext current = context ? context : current_context();
    LoadedImage *loaded = calloc(1, sizeof *loaded);
    Module *module = handle_new(HANDLE_MODULE, sizeof *module);
    if (!loaded || !module) {
        free(loaded);
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    refused = driver.core.load_image(address, size, current ? current->device : 0, loaded);
    loaded->log[PTXLAB_LOG - 1] = 0;
    write_logs(&logs, loaded->log, refused != CUDA_SUCCESS);
    if (refused) {
        handle_free(module);
    } else {
        module->context = context;
        module->image = loaded->id;
        module->count = loaded->kernels;
        module->kernels = calloc(module->count ? module->count : 1, sizeof *module->kernels);
        refused = module->kernels ? name_kernels(module) : CUDA_ERROR_OUT_OF_MEMORY;
        if (refused)
            unload(module);
        else
            *made = module;
    }
    free(loaded);
    return refused;
}

static CUresult load_file(Module **made, CUcontext context, const char *path, unsigned int count, CUjit_option *options, void **values)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode)) {
        if (file >= 0)
            close(file);
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    size_t size = (size_t)status.st_size;
    char *bytes = malloc(size + 1);
    size_t done = 0;
    for (ssize_t piece = 1; bytes && done < size && piece > 0; done += piece > 0 ? (size_t)piece : 0)
        piece = read(file, bytes + done, size - done);
    close(file);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes[done] = 0;
    CUresult result = done < size ? CUDA_ERROR_FILE_NOT_FOUND : load(made, context, (uint64_t)bytes, size, count, options, values);
    free(bytes);
    return result;
}

CUresult ptxlab_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)
{
    return module && image ? load(module, current_context(), (uint64_t)image, 0, count, options, values) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuModuleLoadData(CUmodule *module, const void *image) { return ptxlab_cuModuleLoadDataEx(module, image, 0, NULL, NULL); }

CUresult ptxlab_cuModuleLoadFatBinary(CUmodule *module, const void *image) { return ptxlab_cuModuleLoadData(module, image); }

CUresult ptxlab_cuModuleLoad(CUmodule *module, const char *path)
{
    return module && path ? load_file(module, current_context(), path, 0, NULL, NULL) : CUDA_ERROR_INVALID_VALUE;
}

/* Programs unload modules while they end, and do not expect an error then: the modules have ended with the driver. */
CUresult ptxlab_cuModuleUnload(CUmodule module)
{
    if (driver.phase == PHASE_ENDED)
        return CUDA_SUCCESS;
    CUresult refused = enter_CONTEXT();
    if (refused)
        return refused;
    if (!handle_is(module, HANDLE_MODULE) || !module->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult failed = synchronize_context(module->context);
    unload(module);
    return failed;
}

static void find_of_context(void *handle, void *data)
{
    Module *module = handle;
    void **found = data; /* the context, then the module */
    if (module->context == found[0])
        found[1] = module;
}

void module_unload_context(CUcontext context)
{
    for (;;) {
        void *found[2] = {context, NULL};
        handle_each(HANDLE_MODULE, find_of_context, found);
        if (!found[1])
            return;
        unload(found[1]);
    }
}

CUresult ptxlab_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options, void **values, unsigned int count,
                                  CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
    if (!library || !image || (library_count && !library_options))
        return CUDA_ERROR_INVALID_VALUE;
    (void)library_values;
    return load((Module **)library, NULL, (uint64_t)image, 0, count, options, values);
}

CUresult ptxlab_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned int count,
                                      CUlibraryOption *library_options, void **library_values, unsigned int library_count)
{
    if (!library || !path || (library_count && !library_options))
        return CUDA_ERROR_INVALID_VALUE;
    (void)library_values;
    return load_file((Module **)library, NULL, path, count, options, values);
}

static Module *module_of(const void *handle) { return handle_is(handle, HANDLE_MODULE) ? (Module *)handle : NULL; }

CUresult ptxlab_cuLibraryUnload(CUlibrary library)
{
    if (driver.phase == PHASE_ENDED)
        return CUDA_SUCCESS;
    CUresult refused = enter_DRIVER();
    if (refused)
        return refused;
    Module *module = module_of(library);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    ptxlab_drain();
    unload(module);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ kernels */

static CUresult get_kernel(Kernel **kernel, const void *handle, const char *name)
{
    Module *module = module_of(handle);
    if (!kernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < module->count; i++)
        if (!strcmp(module->kernels[i]->name, name)) {
            *kernel = module->kernels[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult ptxlab_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) { return get_kernel(function, module, name); }

CUresult ptxlab_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return get_kernel((Kernel **)kernel, library, name);
}

static CUresult count_kernels(unsigned int *count, const void *handle)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    Module *module = module_of(handle);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = module->count;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuModuleGetFunctionCount(unsigned int *count, CUmodule module) { return count_kernels(count, module); }

CUresult ptxlab_cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) { return count_kernels(count, library); }

static CUresult list_kernels(Kernel **kernels, unsigned int count, const void *handle)
{
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    Module *module = module_of(handle);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < count && i < module->count; i++)
        kernels[i] = module->kernels[i];
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    return list_kernels(functions, count, module);
}

CUresult ptxlab_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library)
{
    return list_kernels((Kernel **)kernels, count, library);
}

CUresult ptxlab_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    Module *found = module_of(library);
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = found;
    return CUDA_SUCCESS;
}

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
        CUresult refused = driver.core.kernel_info(found->module->image, found->index, &info);
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

/* ------------------------------------------------------------------ variables */

static CUresult get_variable(CUdeviceptr *address, size_t *size, const void *handle, const char *name, int only_managed)
{
    uint64_t at, bytes, managed;
    Module *module = module_of(handle);
    if (!name || (!address && !size))
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult refused = driver.core.variable(module->image, name, &at, &bytes, &managed);
    if (refused)
        return refused;
    if (only_managed && !managed)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = at;
    if (size)
        *size = bytes;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
    return get_variable(address, size, module, name, 0);
}

CUresult ptxlab_cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
    return get_variable(address, size, library, name, 0);
}

CUresult ptxlab_cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
    return get_variable(address, size, library, name, 1);
}

/* ------------------------------------------------------------------ linking */

struct CUlinkState_st {
    uint32_t count;
    char *texts[256];
    uint64_t sizes[256];
    Logs logs;
    void *image;
};

enum { INPUT_PTX = 1, MOST_INPUTS = 256 };

CUresult ptxlab_cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    CUlinkState made = handle_new(HANDLE_LINK, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult refused = read_options(&made->logs, count, options, values);
    if (refused)
        handle_free(made);
    else
        *state = made;
    return refused;
}

CUresult ptxlab_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned int count,
                                 CUjit_option *options, void **values)
{
    (void)name, (void)count, (void)options, (void)values;
    if (!handle_is(state, HANDLE_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size || state->count == MOST_INPUTS)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != INPUT_PTX) {
        report(REPORT_UNSUPPORTED, "cuLinkAddData", 0, "only PTX can be linked");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    char *text = malloc(size + 1);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!read_program(text, data, size)) {
        free(text);
        return CUDA_ERROR_INVALID_VALUE;
    }
    text[size] = 0;
    state->texts[state->count] = text;
    state->sizes[state->count++] = size;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count, CUjit_option *options,
                                 void **values)
{
    struct stat status;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) || status.st_size <= 0) {
        if (file >= 0)
            close(file);
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = ptxlab_cuLinkAddData_v2(state, type, bytes, (size_t)status.st_size, path, count, options, values);
    munmap(bytes, (size_t)status.st_size);
    return result;
}

CUresult ptxlab_cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(state, HANDLE_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    const void *linked;
    uint64_t bytes;
    uint64_t texts[MOST_INPUTS];
    char log[PTXLAB_LOG] = "";
    for (uint32_t i = 0; i < state->count; i++)
        texts[i] = (uint64_t)state->texts[i];
    if (!driver.core.link)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult refused = driver.core.link(state->count, texts, state->sizes, &linked, &bytes, log);
    write_logs(&state->logs, log, refused != CUDA_SUCCESS);
    if (refused)
        return refused;
    free(state->image);
    state->image = malloc(bytes + 1);
    if (!state->image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(state->image, linked, bytes);
    ((char *)state->image)[bytes] = 0;
    *image = state->image;
    if (size)
        *size = bytes + 1;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuLinkDestroy(CUlinkState state)
{
    if (!handle_is(state, HANDLE_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < state->count; i++)
        free(state->texts[i]);
    free(state->image);
    handle_free(state);
    return CUDA_SUCCESS;
}
