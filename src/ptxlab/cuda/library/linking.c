/* Linking of PTX, and the options of the JIT compiler. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit_options.h"

/* ------------------------------------------------------------------ options */

CUresult read_options(Logs *logs, unsigned int count, const CUjit_option *options, void **values)
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

void write_logs(const Logs *logs, const char *text, bool failed)
{
    fill_log(logs->info, logs->info_size, logs->info_filled, failed ? "" : text);
    fill_log(logs->error, logs->error_size, logs->error_filled, failed ? text : "");
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
