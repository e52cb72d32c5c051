/* Fills of memory. */
#include <string.h>

#include "order.h"

typedef struct FillOp {
    Op op;
    uint64_t to, pitch, width, height; /* `width` in elements */
    unsigned int value, element;
} FillOp;

static CUresult fill_rows(Op *op)
{
    const FillOp *fill = (const FillOp *)op;
    for (uint64_t y = 0; y < fill->height; y++) {
        uint64_t row = fill->to + y * fill->pitch;
        if (fill->element == 1)
            memset((void *)row, (int)(fill->value & 0xFF), fill->width);
        else if (fill->element == 2)
            for (uint64_t i = 0; i < fill->width; i++)
                ((uint16_t *)row)[i] = (uint16_t)fill->value;
        else
            for (uint64_t i = 0; i < fill->width; i++)
                ((uint32_t *)row)[i] = fill->value;
        note_transfer(row, 0, fill->width * fill->element);
    }
    return CUDA_SUCCESS;
}

static bool describe_accesses(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    const FillOp *fill = (const FillOp *)op;
    (void)what;
    lock();
    uint32_t how = ACCESS_WRITE | (fill->height && is_host_memory(fill->to) ? ACCESS_HOST : 0);
    unlock();
    for (uint64_t y = 0; y < fill->height && *count < MOST_RANGES; y++) {
        uint64_t row = fill->to + y * fill->pitch;
        ranges[(*count)++] = (AccessRange){row, row + fill->width * fill->element, how, 0};
    }
    return true;
}

static const OpClass fills = {
    .size = sizeof(FillOp), .node = NODE_FILL, .at_once = true, .perform = fill_rows, .describe = describe_accesses};

CUresult make_fill(Op **op, uint64_t to, uint64_t pitch, unsigned int value, unsigned int element, uint64_t width, uint64_t height)
{
    uint64_t wide, size;
    if ((element != 1 && element != 2 && element != 4) || to % element || (height > 1 && pitch % element))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(width, (uint64_t)element, &wide) || (height > 1 && wide > pitch))
        return CUDA_ERROR_INVALID_VALUE;
    if (width && height) {
        if (__builtin_mul_overflow(height - 1, pitch, &size) || __builtin_add_overflow(size, wide, &size))
            return CUDA_ERROR_INVALID_VALUE;
        lock();
        bool known = in_map(to, size);
        unlock();
        if (!known) {
            report_no_memory(REPORT_WRITE, to, size);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    FillOp *made = op_new(&fills);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->to = to;
    made->pitch = pitch;
    made->width = width;
    made->height = width ? height : 0;
    made->value = value;
    made->element = element;
    *op = &made->op;
    return CUDA_SUCCESS;
}

void describe_fill(const Op *op, CUDA_MEMSET_NODE_PARAMS *found)
{
    const FillOp *fill = (const FillOp *)op;
    *found = (CUDA_MEMSET_NODE_PARAMS){fill->to, fill->pitch, fill->value, fill->element, fill->width, fill->height};
}

/* The program waits for a fill of memory that it may access itself, if it does not call an asynchronous function. */
static CUresult fill(uint64_t to, uint64_t pitch, unsigned int value, unsigned int element, uint64_t width, uint64_t height, CUstream handle,
                     bool asynchronous)
{
    CUstream stream = stream_of(handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    Op *op;
    CUresult refused = make_fill(&op, to, pitch, value, element, width, height);
    if (refused)
        return refused;
    lock();
    bool waits = !asynchronous && is_host_memory(to);
    unlock();
    return waits ? submit_and_wait(stream, op) : submit(stream, op);
}

#define FILLS(bits, type)                                                                                                            \
    CUresult ptxlab_cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count)                                                   \
    {                                                                                                                                \
        return fill(to, 0, value, bits / 8, count, 1, NULL, false);                                                                  \
    }                                                                                                                                \
    CUresult ptxlab_cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream)                                \
    {                                                                                                                                \
        return fill(to, 0, value, bits / 8, count, 1, stream, true);                                                                 \
    }                                                                                                                                \
    CUresult ptxlab_cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height)                    \
    {                                                                                                                                \
        return fill(to, pitch, value, bits / 8, width, height, NULL, false);                                                         \
    }                                                                                                                                \
    CUresult ptxlab_cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream) \
    {                                                                                                                                \
        return fill(to, pitch, value, bits / 8, width, height, stream, true);                                                        \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
