/* CUDA arrays: what they are, and copies to and from them. Positions in arrays count elements along the first dimension. */
#include "runtime.h"

typedef struct {
    int bits[4], kind;
} ChannelFormat;

enum { KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT };
/* Formats of the driver; those of 16 and of 32 bits follow that of 8. */
enum { UNSIGNED_8 = 0x01, SIGNED_8 = 0x08, HALF = 0x10, FLOAT = 0x20 };

EXPORT ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (ChannelFormat){{x, y, z, w}, kind}; }

size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array)
{
    int format = array->Format;
    size_t bytes = format == HALF ? 2 : format == FLOAT ? 4 : (size_t)1 << (format < SIGNED_8 ? format - UNSIGNED_8 : format - SIGNED_8);
    return bytes * array->NumChannels;
}

static int driver_format(const ChannelFormat *given, int *format, unsigned *channels)
{
    static const int formats[][3] = {{SIGNED_8, UNSIGNED_8, 0}, {SIGNED_8 + 1, UNSIGNED_8 + 1, HALF}, {SIGNED_8 + 2, UNSIGNED_8 + 2, FLOAT}};
    int row = given->bits[0] == 8 ? 0 : given->bits[0] == 16 ? 1 : given->bits[0] == 32 ? 2 : -1;
    for (*channels = 0; *channels < 4 && given->bits[*channels]; ++*channels)
        if (given->bits[*channels] != given->bits[0])
            return RUNTIME_INVALID_CHANNELS;
    for (unsigned i = *channels; i < 4; i++)
        if (given->bits[i])
            return RUNTIME_INVALID_CHANNELS;
    if (row < 0 || given->kind < KIND_SIGNED || given->kind > KIND_FLOAT || !formats[row][given->kind] || *channels == 3)
        return RUNTIME_INVALID_CHANNELS;
    *format = formats[row][given->kind];
    return 0;
}

static ChannelFormat runtime_format(const CUDA_ARRAY3D_DESCRIPTOR *array)
{
    ChannelFormat found = {.kind = array->Format >= HALF ? KIND_FLOAT : array->Format >= SIGNED_8 ? KIND_SIGNED : KIND_UNSIGNED};
    for (unsigned i = 0; i < array->NumChannels; i++)
        found.bits[i] = (int)(8 * element_bytes(array) / array->NumChannels);
    return found;
}

static int make(CUarray *array, const ChannelFormat *given, Extent extent, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR wanted = {extent.width, extent.height, extent.depth, 0, 0, flags};
    if (!array || !given)
        return RUNTIME_INVALID_VALUE;
    *array = NULL;
    int format, error = driver_format(given, &format, &wanted.NumChannels);
    wanted.Format = format;
    if (!error)
        error = ready();
    return error ? error : (int)cuArray3DCreate_v2(array, &wanted);
}

EXPORT int cudaMallocArray(CUarray *array, const ChannelFormat *format, size_t width, size_t height, unsigned flags)
{
    return record(make(array, format, (Extent){width, height, 0}, flags));
}
EXPORT int cudaMalloc3DArray(CUarray *array, const ChannelFormat *format, Extent extent, unsigned flags)
{
    return record(make(array, format, extent, flags));
}
EXPORT int cudaFreeArray(CUarray array) { return CALL(array ? cuArrayDestroy(array) : 0); }
EXPORT int cudaArrayGetInfo(ChannelFormat *format, Extent *extent, unsigned *flags, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR found;
    CHECK(ready());
    CHECK(cuArray3DGetDescriptor_v2(&found, array));
    if (format)
        *format = runtime_format(&found);
    if (extent)
        *extent = (Extent){found.Width, found.Height, found.Depth};
    if (flags)
        *flags = found.Flags;
    return 0;
}
EXPORT int cudaGetChannelDesc(ChannelFormat *format, CUarray array)
{
    return format ? cudaArrayGetInfo(format, NULL, NULL, array) : record(RUNTIME_INVALID_VALUE);
}

/* ---------------------------------------------------------------------------------------------------------- copies of boxes */

/* One side of a copy of rows: memory with a pitch, or an array from a place in it, whose first offset is in bytes. */
typedef struct {
    CUarray array;
    size_t x, y;
    const void *memory;
    size_t pitch;
} Rows;

static int copy_rows(Rows to, Rows from, size_t width, size_t height, int kind, CUstream stream, int asynchronous)
{
    int error = ready();
    if (error || !width || !height)
        return error;
    if (kind < HOST_TO_HOST || kind > BY_ADDRESS)
        return RUNTIME_INVALID_DIRECTION;
    CUDA_MEMCPY2D shape = {
        .srcXInBytes = from.x,
        .srcY = from.y,
        .srcMemoryType = from.array ? CU_MEMORYTYPE_ARRAY : source_type(kind),
        .srcHost = from.memory,
        .srcDevice = DEVICE_POINTER(from.memory),
        .srcArray = from.array,
        .srcPitch = from.pitch,
        .dstXInBytes = to.x,
        .dstY = to.y,
        .dstMemoryType = to.array ? CU_MEMORYTYPE_ARRAY : target_type(kind),
        .dstHost = (void *)(uintptr_t)to.memory,
        .dstDevice = DEVICE_POINTER(to.memory),
        .dstArray = to.array,
        .dstPitch = to.pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    return asynchronous ? cuMemcpy2DAsync_v2(&shape, stream) : cuMemcpy2DUnaligned_v2(&shape);
}

EXPORT int cudaMemcpy2DToArrayAsync(CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind,
                                    CUstream stream)
{
    return record(copy_rows((Rows){to, x, y, 0, 0}, (Rows){0, 0, 0, from, pitch}, width, height, kind, stream, 1));
}
EXPORT int cudaMemcpy2DToArray(CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind)
{
    return record(copy_rows((Rows){to, x, y, 0, 0}, (Rows){0, 0, 0, from, pitch}, width, height, kind, NULL, 0));
}
EXPORT int cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width, size_t height, int kind,
                                      CUstream stream)
{
    return record(copy_rows((Rows){0, 0, 0, to, pitch}, (Rows){from, x, y, 0, 0}, width, height, kind, stream, 1));
}
EXPORT int cudaMemcpy2DFromArray(void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width, size_t height, int kind)
{
    return record(copy_rows((Rows){0, 0, 0, to, pitch}, (Rows){from, x, y, 0, 0}, width, height, kind, NULL, 0));
}
EXPORT int cudaMemcpy2DArrayToArray(CUarray to, size_t to_x, size_t to_y, CUarray from, size_t x, size_t y, size_t width, size_t height,
                                    int kind)
{
    return record(copy_rows((Rows){to, to_x, to_y, 0, 0}, (Rows){from, x, y, 0, 0}, width, height, kind, NULL, 0));
}

static int waited(int error) { return record(error ? error : (int)cuStreamSynchronize(PER_THREAD_STREAM)); }

EXPORT int cudaMemcpy2DToArray_ptds(CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind)
{
    return waited(cudaMemcpy2DToArrayAsync(to, x, y, from, pitch, width, height, kind, PER_THREAD_STREAM));
}
EXPORT int cudaMemcpy2DFromArray_ptds(void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width, size_t height, int kind)
{
    return waited(cudaMemcpy2DFromArrayAsync(to, pitch, from, x, y, width, height, kind, PER_THREAD_STREAM));
}
EXPORT int cudaMemcpy2DArrayToArray_ptds(CUarray to, size_t to_x, size_t to_y, CUarray from, size_t x, size_t y, size_t width, size_t height,
                                         int kind)
{
    return waited(copy_rows((Rows){to, to_x, to_y, 0, 0}, (Rows){from, x, y, 0, 0}, width, height, kind, PER_THREAD_STREAM, 1));
}

WITH_STREAM(cudaMemcpy2DToArrayAsync,
            (CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind, CUstream stream),
            (to, x, y, from, pitch, width, height, kind, STREAM))
WITH_STREAM(cudaMemcpy2DFromArrayAsync,
            (void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width, size_t height, int kind, CUstream stream),
            (to, pitch, from, x, y, width, height, kind, STREAM))
