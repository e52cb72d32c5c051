/* Modules and libraries: a CUlibrary is a CUmodule without a context. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit_options.h"

typedef struct CUmod_st Module;

enum { LAZY_LOADING = 2 };

/* ------------------------------------------------------------------ loading */

static Image *unloaded; /* images whose modules are gone, and that launches may still use */

void image_keep(Image *image)
{
    lock();
    image->launches++;
    unlock();
}

/* The core is not told here: a lock of the caller may be held. */
void image_drop(Image *image)
{
    lock();
    image->launches--;
    unlock();
}

/* Give back the images that nothing uses any more. */
static void release_images(void)
{
    for (;;) {
        lock();
        Image **at = &unloaded;
        while (*at && (*at)->launches)
            at = &(*at)->next;
        Image *found = *at;
        if (found)
            *at = found->next;
        unlock();
        if (!found)
            return;
        if (driver.core.unload_image)
            driver.core.unload_image(found->id);
        free(found);
    }
}

static void unload(Module *module)
{
    if (module->image) {
        lock();
        module->image->next = unloaded;
        unloaded = module->image;
        unlock();
        release_images();
    }
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
        CUresult refused = driver.core.kernel_name(module->image->id, i, &name);
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
    Image *image = calloc(1, sizeof *image);
    Module *module = handle_new(HANDLE_MODULE, sizeof *module);
    if (!loaded || !image || !module) {
        free(loaded);
        free(image);
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    release_images();
    refused = driver.core.load_image(address, size, current ? current->device : 0, loaded);
    loaded->log[PTXLAB_LOG - 1] = 0;
    write_logs(&logs, loaded->log, refused != CUDA_SUCCESS);
    if (refused) {
        free(image);
        handle_free(module);
    } else {
        image->id = loaded->id;
        module->context = context;
        module->image = image;
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

/* Launches in streams keep the image. There is no wait for them: Python may collect the owner of a library, and unload it, while it starts the thread
   of a stream. */
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
    unload(module);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ what is in a module */

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

/* ------------------------------------------------------------------ variables */

static CUresult get_variable(CUdeviceptr *address, size_t *size, const void *handle, const char *name, int only_managed)
{
    uint64_t at, bytes, managed;
    Module *module = module_of(handle);
    if (!name || (!address && !size))
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult refused = driver.core.variable(module->image->id, name, &at, &bytes, &managed);
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
