/* Tensor maps: the core checks and encodes them. */
#include <string.h>

#include "internal.h"

enum { MOST_RANK = 5, MOST_PIXELS = 1024, PIXELS_OF_W128 = 128, ADDRESS_ALIGNMENT = 16 };

static CUresult encode(CUtensorMap *map, TensorMapRequest *request, uint32_t rank, const cuuint64_t *dims, const cuuint64_t *strides,
                       const cuuint32_t *element_strides)
{
    if (!map || (uintptr_t)map % 64 || !dims || !element_strides || (rank > 1 && !strides) || rank < 1 || rank > MOST_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    request->rank = (int32_t)rank;
    memcpy(request->dims, dims, rank * sizeof *dims);
    memcpy(request->element_strides, element_strides, rank * sizeof *element_strides);
    if (rank > 1)
        memcpy(request->strides, strides, (rank - 1) * sizeof *strides);
    return driver.core.encode_tensor_map ? driver.core.encode_tensor_map(request, map) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ptxlab_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                                       const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    TensorMapRequest request = {.address = (uint64_t)address,
                                .type = type,
                                .interleave = interleave,
                                .swizzle = swizzle,
                                .promotion = promotion,
                                .fill = fill};
    if (!box || rank < 1 || rank > MOST_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(request.box, box, rank * sizeof *box);
    return encode(map, &request, rank, dims, strides, element_strides);
}

CUresult ptxlab_cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                                        const cuuint64_t *strides, const int *lower, const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                        const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    TensorMapRequest request = {.address = (uint64_t)address,
                                .type = type,
                                .interleave = interleave,
                                .swizzle = swizzle,
                                .promotion = promotion,
                                .fill = fill,
                                .im2col = 1,
                                .channels = channels,
                                .pixels = pixels};
    if (!lower || !upper || rank < 3 || rank > MOST_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(request.lower, lower, (rank - 2) * sizeof *lower);
    memcpy(request.upper, upper, (rank - 2) * sizeof *upper);
    return encode(map, &request, rank, dims, strides, element_strides);
}

/* Such a map is one in im2col mode whose box has corners along W alone; the mode is named by the instruction that copies. */
CUresult ptxlab_cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                                            const cuuint64_t *strides, int lower_width, int upper_width, cuuint32_t channels, cuuint32_t pixels,
                                            const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                            CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                            CUtensorMapFloatOOBfill fill)
{
    enum { WIDE_W, WIDE_W128 };
    if (mode != WIDE_W && mode != WIDE_W128)
        return CUDA_ERROR_INVALID_VALUE;
    if (mode == WIDE_W128 && (pixels < 1 || pixels > MOST_PIXELS))
        pixels = PIXELS_OF_W128; /* that mode ignores the number */
    int lower[MOST_RANK] = {lower_width}, upper[MOST_RANK] = {upper_width};
    return ptxlab_cuTensorMapEncodeIm2col(map, type, rank, address, dims, strides, lower, upper, channels, pixels, element_strides, interleave,
                                          swizzle, promotion, fill);
}

/* The address of the tensor is the first word of a tensor map. */
CUresult ptxlab_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    if (!map || (uintptr_t)map % 64 || (uintptr_t)address % ADDRESS_ALIGNMENT)
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[0] = (uint64_t)address;
    return CUDA_SUCCESS;
}
