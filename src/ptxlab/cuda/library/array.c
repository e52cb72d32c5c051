/* CUDA arrays: copies reach them; textures and surfaces, which kernels read them by, are not there. */
#include "internal.h"

enum { LAYERED = 1, SURFACE = 2, CUBEMAP = 4, GATHER = 8 };

static unsigned int bytes_of_format(int format)
{
    switch (format) {
    case 0x01: /* unsigned integers */
    case 0x08: /* signed ones */
        return 1;
    case 0x02:
    case 0x09:
    case 0x10: /* half */
        return 2;
    case 0x03:
    case 0x0a:
    case 0x20: /* float */
        return 4;
    default:
        return 0;
    }
}

CUresult ptxlab_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    if (!array || !wanted || !wanted->Width || (wanted->Depth && !wanted->Height && !(wanted->Flags & LAYERED)))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int channels = wanted->NumChannels, element = bytes_of_format(wanted->Format) * channels;
    if (!element || (channels != 1 && channels != 2 && channels != 4) || wanted->Flags & ~(unsigned)(LAYERED | SURFACE | CUBEMAP | GATHER))
        return CUDA_ERROR_INVALID_VALUE;
    CUarray made = handle_new(HANDLE_ARRAY, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->descriptor = *wanted;
    made->pitch = wanted->Width * element;
    made->rows = wanted->Height ? wanted->Height : 1;
    made->slices = wanted->Depth ? wanted->Depth : 1;
    uint64_t size = made->pitch * made->rows * made->slices;
    CUresult refused = memory_allocate(MEMORY_DEVICE, current_context()->device, size, 512, 0, &made->address);
    if (refused)
        handle_free(made);
    else
        *array = made;
    return refused;
}

CUresult ptxlab_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR whole = {wanted->Width, wanted->Height, 0, wanted->Format, wanted->NumChannels, 0};
    return ptxlab_cuArray3DCreate_v2(array, &whole);
}

CUresult ptxlab_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *found, CUarray array)
{
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(array, HANDLE_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    *found = array->descriptor;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *found, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR whole;
    CUresult refused = found ? ptxlab_cuArray3DGetDescriptor_v2(&whole, array) : CUDA_ERROR_INVALID_VALUE;
    if (!refused)
        *found = (CUDA_ARRAY_DESCRIPTOR){whole.Width, whole.Height, whole.Format, whole.NumChannels};
    return refused;
}

CUresult ptxlab_cuArrayDestroy(CUarray array)
{
    if (!handle_is(array, HANDLE_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    synchronize_context(current_context());
    uint64_t address = array->address;
    handle_free(array);
    return memory_free("cuArrayDestroy", address, KIND_BIT(MEMORY_DEVICE));
}

/* ------------------------------------------------------------------ copies of bytes in a row */

/* The address of bytes of an array; 0 if it does not have them. */
static CUdeviceptr bytes_at(CUarray array, size_t offset, size_t size)
{
    if (!handle_is(array, HANDLE_ARRAY))
        return 0;
    uint64_t all = array->pitch * array->rows * array->slices;
    return offset <= all && size <= all - offset ? array->address + offset : 0;
}

CUresult ptxlab_cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size)
{
    CUdeviceptr at = bytes_at(to, offset, size);
    return at ? ptxlab_cuMemcpyHtoD_v2(at, from, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size)
{
    CUdeviceptr at = bytes_at(from, offset, size);
    return at ? ptxlab_cuMemcpyDtoH_v2(to, at, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size)
{
    CUdeviceptr at = bytes_at(to, offset, size);
    return at ? ptxlab_cuMemcpyDtoD_v2(at, from, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size)
{
    CUdeviceptr at = bytes_at(from, offset, size);
    return at ? ptxlab_cuMemcpyDtoD_v2(to, at, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size)
{
    CUdeviceptr at = bytes_at(to, to_offset, size), source = bytes_at(from, from_offset, size);
    return at && source ? ptxlab_cuMemcpyDtoD_v2(at, source, size) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t size, CUstream stream)
{
    CUdeviceptr at = bytes_at(to, offset, size);
    return at ? ptxlab_cuMemcpyHtoDAsync_v2(at, from, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult ptxlab_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t size, CUstream stream)
{
    CUdeviceptr at = bytes_at(from, offset, size);
    return at ? ptxlab_cuMemcpyDtoHAsync_v2(to, at, size, stream) : CUDA_ERROR_INVALID_VALUE;
}
