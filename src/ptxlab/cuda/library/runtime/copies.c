/* Copies and fills, in one to three dimensions, and those of variables. */
#include "runtime.h"

static int check_kind(int kind) { return kind < HOST_TO_HOST || kind > BY_ADDRESS ? RUNTIME_INVALID_DIRECTION : 0; }

int copy(void *to, const void *from, size_t bytes, int kind, CUstream stream, int asynchronous)
{
    int error = check_kind(kind);
    if (!error)
        error = ready();
    if (error || !bytes)
        return error;
    switch (kind) {
    case HOST_TO_DEVICE:
        return asynchronous ? cuMemcpyHtoDAsync_v2(DEVICE_POINTER(to), from, bytes, stream)
                            : cuMemcpyHtoD_v2(DEVICE_POINTER(to), from, bytes);
    case DEVICE_TO_HOST:
        return asynchronous ? cuMemcpyDtoHAsync_v2(to, DEVICE_POINTER(from), bytes, stream)
                            : cuMemcpyDtoH_v2(to, DEVICE_POINTER(from), bytes);
    case DEVICE_TO_DEVICE:
        return asynchronous ? cuMemcpyDtoDAsync_v2(DEVICE_POINTER(to), DEVICE_POINTER(from), bytes, stream)
                            : cuMemcpyDtoD_v2(DEVICE_POINTER(to), DEVICE_POINTER(from), bytes);
    default:
        return asynchronous ? cuMemcpyAsync(DEVICE_POINTER(to), DEVICE_POINTER(from), bytes, stream)
                            : cuMemcpy(DEVICE_POINTER(to), DEVICE_POINTER(from), bytes);
    }
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { return record(copy(to, from, bytes, kind, NULL, 0)); }
EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, CUstream stream)
{
    return record(copy(to, from, bytes, kind, stream, 1));
}
EXPORT int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    CHECK(ready());
    CHECK(check_device(to_device));
    CHECK(check_device(from_device));
    return cudaMemcpy(to, from, bytes, BY_ADDRESS);
}
EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, CUstream stream)
{
    CHECK(ready());
    CHECK(check_device(to_device));
    CHECK(check_device(from_device));
    return cudaMemcpyAsync(to, from, bytes, BY_ADDRESS, stream);
}

/* ------------------------------------------------------------------------------------------- two and three dimensions */

unsigned source_type(int kind)
{
    return kind == BY_ADDRESS                               ? CU_MEMORYTYPE_UNIFIED
           : kind == HOST_TO_HOST || kind == HOST_TO_DEVICE ? CU_MEMORYTYPE_HOST
                                                            : CU_MEMORYTYPE_DEVICE;
}
unsigned target_type(int kind)
{
    return kind == BY_ADDRESS                               ? CU_MEMORYTYPE_UNIFIED
           : kind == HOST_TO_HOST || kind == DEVICE_TO_HOST ? CU_MEMORYTYPE_HOST
                                                            : CU_MEMORYTYPE_DEVICE;
}

static int copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, CUstream stream,
                   int asynchronous)
{
    int error = check_kind(kind);
    if (!error)
        error = ready();
    if (error || !width || !height)
        return error;
    if (width > to_pitch || width > from_pitch)
        return 12; /* cudaErrorInvalidPitchValue */
    CUDA_MEMCPY2D shape = {
        .srcMemoryType = source_type(kind),
        .srcHost = from,
        .srcDevice = DEVICE_POINTER(from),
        .srcPitch = from_pitch,
        .dstMemoryType = target_type(kind),
        .dstHost = to,
        .dstDevice = DEVICE_POINTER(to),
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    return asynchronous ? cuMemcpy2DAsync_v2(&shape, stream) : cuMemcpy2DUnaligned_v2(&shape);
}

EXPORT int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
    return record(copy_2d(to, to_pitch, from, from_pitch, width, height, kind, NULL, 0));
}
EXPORT int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                             CUstream stream)
{
    return record(copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, 1));
}

/* The unit of extents: a byte, or the element of an array that takes part. */
static int unit_of(CUarray source, CUarray target, size_t *unit)
{
    CUDA_ARRAY3D_DESCRIPTOR array, other;
    *unit = 1;
    if (!source && !target)
        return 0;
    int error = ready();
    if (!error)
        error = (int)cuArray3DGetDescriptor_v2(&array, source ? source : target);
    if (!error && source && target && !(error = (int)cuArray3DGetDescriptor_v2(&other, target)) && element_bytes(&array) != element_bytes(&other))
        error = RUNTIME_INVALID_VALUE;
    if (!error)
        *unit = element_bytes(&array);
    return error;
}

int convert_copy(const Copy3D *given, CUDA_MEMCPY3D *found)
{
    size_t unit;
    int error = given ? check_kind(given->kind) : RUNTIME_INVALID_VALUE;
    if (!error)
        error = unit_of(given->source_array, given->target_array, &unit);
    if (error)
        return error;
    *found = (CUDA_MEMCPY3D){
        .srcArray = given->source_array,
        .dstArray = given->target_array,
        .srcXInBytes = given->source_position.x * (given->source_array ? unit : 1),
        .srcY = given->source_position.y,
        .srcZ = given->source_position.z,
        .srcMemoryType = given->source_array ? CU_MEMORYTYPE_ARRAY : source_type(given->kind),
        .srcHost = given->source.address,
        .srcDevice = DEVICE_POINTER(given->source.address),
        .srcPitch = given->source.pitch,
        .srcHeight = given->source.height,
        .dstXInBytes = given->target_position.x * (given->target_array ? unit : 1),
        .dstY = given->target_position.y,
        .dstZ = given->target_position.z,
        .dstMemoryType = given->target_array ? CU_MEMORYTYPE_ARRAY : target_type(given->kind),
        .dstHost = given->target.address,
        .dstDevice = DEVICE_POINTER(given->target.address),
        .dstPitch = given->target.pitch,
        .dstHeight = given->target.height,
        .WidthInBytes = given->extent.width * unit,
        .Height = given->extent.height,
        .Depth = given->extent.depth,
    };
    return 0;
}

static int kind_of(unsigned from, unsigned to)
{
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return BY_ADDRESS;
    if (from == CU_MEMORYTYPE_HOST)
        return to == CU_MEMORYTYPE_HOST ? HOST_TO_HOST : HOST_TO_DEVICE;
    return to == CU_MEMORYTYPE_HOST ? DEVICE_TO_HOST : DEVICE_TO_DEVICE;
}

static PitchedPointer pitched(unsigned type, const void *host, CUdeviceptr device, size_t pitch, size_t rows)
{
    return (PitchedPointer){type == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)host : (void *)(uintptr_t)device, pitch, pitch, rows};
}

Copy3D copy_node(const CUDA_MEMCPY3D *copy)
{
    size_t unit;
    CUarray source = copy->srcMemoryType == CU_MEMORYTYPE_ARRAY ? copy->srcArray : NULL;
    CUarray target = copy->dstMemoryType == CU_MEMORYTYPE_ARRAY ? copy->dstArray : NULL;
    if (unit_of(source, target, &unit))
        unit = 1;
    return (Copy3D){
        .source_array = source,
        .target_array = target,
        .source_position = {copy->srcXInBytes / (source ? unit : 1), copy->srcY, copy->srcZ},
        .source = pitched(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcPitch, copy->srcHeight),
        .target_position = {copy->dstXInBytes / (target ? unit : 1), copy->dstY, copy->dstZ},
        .target = pitched(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstPitch, copy->dstHeight),
        .extent = {copy->WidthInBytes / unit, copy->Height, copy->Depth},
        .kind = kind_of(copy->srcMemoryType, copy->dstMemoryType),
    };
}

EXPORT int cudaMemcpy3D(const Copy3D *given)
{
    CUDA_MEMCPY3D shape;
    CHECK(convert_copy(given, &shape));
    return CALL(cuMemcpy3D_v2(&shape));
}
EXPORT int cudaMemcpy3DAsync(const Copy3D *given, CUstream stream)
{
    CUDA_MEMCPY3D shape;
    CHECK(convert_copy(given, &shape));
    return CALL(cuMemcpy3DAsync_v2(&shape, stream));
}

static Copy3D between_peers(const Copy3DPeer *given)
{
    return (Copy3D){given->source_array,    given->source_position, given->source, given->target_array,
                    given->target_position, given->target,          given->extent, BY_ADDRESS};
}
EXPORT int cudaMemcpy3DPeer(const Copy3DPeer *given)
{
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    Copy3D same = between_peers(given);
    return cudaMemcpy3D(&same);
}
EXPORT int cudaMemcpy3DPeerAsync(const Copy3DPeer *given, CUstream stream)
{
    if (!given)
        return record(RUNTIME_INVALID_VALUE);
    Copy3D same = between_peers(given);
    return cudaMemcpy3DAsync(&same, stream);
}

EXPORT int cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *bytes, size_t count, void *attributes,
                                size_t *attribute_indices, size_t attribute_count,
#if RUNTIME_MAJOR == 12
                                size_t *failed,
#endif
                                CUstream stream)
{
    (void)attributes, (void)attribute_indices, (void)attribute_count;
    if (!to || !from || !bytes)
        return record(RUNTIME_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
#if RUNTIME_MAJOR == 12
        if (failed)
            *failed = i;
#endif
        CHECK(copy(to[i], from[i], bytes[i], BY_ADDRESS, stream, 1));
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------------- fills */

EXPORT int cudaMemset(void *pointer, int value, size_t bytes)
{
    return CALL(bytes ? cuMemsetD8_v2(DEVICE_POINTER(pointer), (unsigned char)value, bytes) : 0);
}
EXPORT int cudaMemsetAsync(void *pointer, int value, size_t bytes, CUstream stream)
{
    return CALL(bytes ? cuMemsetD8Async(DEVICE_POINTER(pointer), (unsigned char)value, bytes, stream) : 0);
}
EXPORT int cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    return CALL(width && height ? cuMemsetD2D8_v2(DEVICE_POINTER(pointer), pitch, (unsigned char)value, width, height) : 0);
}
EXPORT int cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height, CUstream stream)
{
    return CALL(width && height ? cuMemsetD2D8Async(DEVICE_POINTER(pointer), pitch, (unsigned char)value, width, height, stream) : 0);
}
EXPORT int cudaMemset3DAsync(PitchedPointer given, int value, Extent extent, CUstream stream)
{
    for (size_t z = 0; z < extent.depth; z++) {
        int error = cudaMemset2DAsync((char *)given.address + z * given.pitch * given.height, given.pitch, value, extent.width,
                                      extent.height, stream);
        if (error)
            return error;
    }
    return 0;
}
EXPORT int cudaMemset3D(PitchedPointer given, int value, Extent extent)
{
    int error = cudaMemset3DAsync(given, value, extent, NULL);
    return error ? error : CALL(cuStreamSynchronize(NULL));
}

/* ------------------------------------------------------------------------------------------------------------ variables */

static int place_in(const void *symbol, size_t offset, size_t bytes, void **place)
{
    CUdeviceptr address;
    size_t size;
    int error = find_variable(symbol, &address, &size);
    if (error)
        return error;
    if (offset > size || bytes > size - offset)
        return RUNTIME_INVALID_VALUE;
    *place = (void *)(uintptr_t)(address + offset);
    return 0;
}

static int copy_to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, CUstream stream, int asynchronous)
{
    void *place;
    if (kind == DEVICE_TO_HOST || kind == HOST_TO_HOST)
        return RUNTIME_INVALID_DIRECTION;
    int error = place_in(symbol, offset, bytes, &place);
    return error ? error : copy(place, from, bytes, kind, stream, asynchronous);
}

static int copy_from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind, CUstream stream, int asynchronous)
{
    void *place;
    if (kind == HOST_TO_DEVICE || kind == HOST_TO_HOST)
        return RUNTIME_INVALID_DIRECTION;
    int error = place_in(symbol, offset, bytes, &place);
    return error ? error : copy(to, place, bytes, kind, stream, asynchronous);
}

EXPORT int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind)
{
    return record(copy_to_symbol(symbol, from, bytes, offset, kind, NULL, 0));
}
EXPORT int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, CUstream stream)
{
    return record(copy_to_symbol(symbol, from, bytes, offset, kind, stream, 1));
}
EXPORT int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind)
{
    return record(copy_from_symbol(to, symbol, bytes, offset, kind, NULL, 0));
}
EXPORT int cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, int kind, CUstream stream)
{
    return record(copy_from_symbol(to, symbol, bytes, offset, kind, stream, 1));
}
