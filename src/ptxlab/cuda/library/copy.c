/* Copies. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "order.h"

enum { PAGE = 4096 };

/* ------------------------------------------------------------------ memory of the program */

typedef ssize_t (*Transfer)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

/* Copy through the kernel, which answers where a memcpy would fault; the program's side is `there`. */
static bool transfer(Transfer move, void *here, uint64_t there, size_t size)
{
    while (size) {
        struct iovec local = {here, size}, remote = {(void *)there, size};
        ssize_t done = move(driver.process, &local, 1, &remote, 1, 0);
        if (done <= 0)
            return false;
        here = (char *)here + done;
        there += (uint64_t)done;
        size -= (size_t)done;
    }
    return true;
}

/* Whether a byte can be read: an invalid call that reads a set of signals there says which of the two is wrong. */
static bool is_readable(uint64_t address)
{
    enum { NO_SUCH_CHANGE = -1, BYTES_OF_SET = 8 };
    return syscall(SYS_rt_sigprocmask, NO_SUCH_CHANGE, address / BYTES_OF_SET * BYTES_OF_SET, NULL, (long)BYTES_OF_SET) < 0 && errno == EINVAL;
}

/* Whether the answers can be relied on. */
static bool answers(void)
{
    static _Atomic int works;
    if (!works) {
        uint64_t set = 0;
        works = is_readable((uint64_t)&set) && !is_readable(0) ? 1 : -1;
    }
    return works > 0;
}

static bool is_readable_from_to(uint64_t address, uint64_t size)
{
    if (address + size < address)
        return false;
    for (uint64_t at = address; at < address + size; at = at / PAGE * PAGE + PAGE)
        if (!is_readable(at))
            return false;
    return true;
}

static bool transfers(void)
{
    static _Atomic int works;
    if (!works) {
        char from = 1, to = 0;
        works = transfer(process_vm_readv, &to, (uint64_t)&from, 1) ? 1 : -1;
    }
    return works > 0;
}

bool pages_are_mapped(uint64_t address, uint64_t size)
{
    unsigned char present[256];
    if (address < PAGE || address + size < address)
        return false;
    uint64_t at = address / PAGE * PAGE, end = address + size;
    for (; at < end; at += sizeof present * PAGE) {
        uint64_t piece = end - at < sizeof present * PAGE ? end - at : sizeof present * PAGE;
        if (mincore((void *)at, piece, present) != 0)
            return false;
    }
    return true;
}

/* Whether memory of the program may be accessible; where the kernel copies, the copy itself finds out. */
static bool may_access(uint64_t address, uint64_t size) { return transfers() || pages_are_mapped(address, size); }

bool read_program(void *to, const void *from, size_t size)
{
    if (!size)
        return true;
    if (answers()) {
        int before = errno;
        bool readable = is_readable_from_to((uint64_t)from, size);
        errno = before;
        if (readable)
            memcpy(to, from, size);
        return readable;
    }
    if (transfers())
        return transfer(process_vm_readv, to, (uint64_t)from, size);
    if (!pages_are_mapped((uint64_t)from, size))
        return false;
    memcpy(to, from, size);
    return true;
}

bool read_pieces(unsigned char *to, const uint32_t *places, void *const *from, uint32_t count)
{
    uint64_t readable = 0; /* the number of the page of the last piece */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address = (uint64_t)from[i], offset = places[2 * i], size = places[2 * i + 1];
        if (size && readable && address / PAGE == readable && (address + size - 1) / PAGE == readable) {
            memcpy(to + offset, from[i], size);
            continue;
        }
        if (!read_program(to + offset, from[i], size))
            return false;
        readable = size && answers() ? address / PAGE : 0;
    }
    return true;
}

/* ------------------------------------------------------------------ copies */

/* One side: rows of bytes; `rows` is the distance between the first rows of two slices, in rows. */
typedef struct Side {
    uint64_t address, pitch, rows;
    bool known; /* to the driver: it is sure to be accessible */
    bool host;  /* memory of the host that the driver knows, or managed memory */
} Side;

typedef struct CopyOp {
    Op op;
    Side to, from;
    uint64_t width, height, depth;
    void *staged; /* a copy of the source, which the program may change before the operation is performed */
} CopyOp;

static bool move_row(const CopyOp *copy, uint64_t to, uint64_t from)
{
    if (copy->to.known && copy->from.known) {
        memmove((void *)to, (const void *)from, copy->width);
        return true;
    }
    if (copy->to.known)
        return read_program((void *)to, (const void *)from, copy->width);
    if (transfers())
        return transfer(process_vm_writev, (void *)from, to, copy->width);
    memmove((void *)to, (const void *)from, copy->width);
    return true;
}

static CUresult copy_rows(Op *op)
{
    const CopyOp *copy = (const CopyOp *)op;
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++) {
            uint64_t to = copy->to.address + (z * copy->to.rows + y) * copy->to.pitch;
            uint64_t from = copy->from.address + (z * copy->from.rows + y) * copy->from.pitch;
            if (!move_row(copy, to, from))
                return CUDA_ERROR_INVALID_VALUE;
            note_transfer(to, from, copy->width);
        }
    return CUDA_SUCCESS;
}

static void release(Op *op) { free(((CopyOp *)op)->staged); }

static uint64_t extent(const CopyOp *copy, const Side *side)
{
    return ((copy->depth - 1) * side->rows + copy->height - 1) * side->pitch + copy->width;
}

static bool stage(Op *op)
{
    CopyOp *copy = (CopyOp *)op;
    uint64_t size = extent(copy, &copy->from);
    copy->staged = malloc(size);
    if (!copy->staged || !read_program(copy->staged, (const void *)copy->from.address, size))
        return false;
    copy->from.address = (uint64_t)copy->staged;
    copy->from.known = true;
    return true;
}

static bool copied(Op *made, const Op *from)
{
    CopyOp *copy = (CopyOp *)made;
    const CopyOp *original = (const CopyOp *)from;
    if (!original->staged)
        return true;
    uint64_t size = extent(original, &original->from);
    copy->staged = malloc(size);
    if (!copy->staged)
        return false;
    memcpy(copy->staged, original->staged, size);
    copy->from.address = (uint64_t)copy->staged;
    return true;
}

static void describe_side(const CopyOp *copy, const Side *side, uint32_t how, AccessRange *ranges, uint32_t *count)
{
    how |= side->host ? ACCESS_HOST : 0;
    if (copy->width == side->pitch && (side->rows == copy->height || copy->depth == 1)) {
        ranges[(*count)++] = (AccessRange){side->address, side->address + copy->width * copy->height * copy->depth, how, 0};
        return;
    }
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height && *count < MOST_RANGES; y++) {
            uint64_t row = side->address + (z * side->rows + y) * side->pitch;
            ranges[(*count)++] = (AccessRange){row, row + copy->width, how, 0};
        }
}

static bool describe(const Op *op, AccessRange *ranges, uint32_t *count, const char **what)
{
    const CopyOp *copy = (const CopyOp *)op;
    (void)what;
    bool from = copy->width && copy->from.known && !copy->staged, to = copy->width && copy->to.known;
    if (from && copy->from.address < copy->to.address)
        describe_side(copy, &copy->from, 0, ranges, count);
    if (to)
        describe_side(copy, &copy->to, ACCESS_WRITE, ranges, count);
    if (from && copy->from.address >= copy->to.address)
        describe_side(copy, &copy->from, 0, ranges, count);
    return true;
}

static const OpClass copies = {.size = sizeof(CopyOp),
                               .node = NODE_COPY,
                               .at_once = true,
                               .perform = copy_rows,
                               .dispose = release,
                               .copied = copied,
                               .describe = describe};

typedef enum Place { HOST, DEVICE, ANYWHERE } Place;

static CUresult check_side(const CopyOp *copy, Side *side, Place place, ReportKind kind)
{
    uint64_t size = extent(copy, side);
    if (copy->width > side->pitch && (copy->height > 1 || copy->depth > 1))
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    side->known = in_map(side->address, size);
    side->host = side->known && is_host_memory(side->address);
    bool overruns = !side->known && memory_find(side->address);
    unlock();
    if (side->known)
        return CUDA_SUCCESS;
    if (place != DEVICE && !overruns && may_access(side->address, size))
        return CUDA_SUCCESS;
    report_no_memory(kind, side->address, size);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult make(CopyOp **made, Side to, Place to_place, Side from, Place from_place, uint64_t width, uint64_t height, uint64_t depth)
{
    CopyOp *copy = op_new(&copies);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    copy->to = to;
    copy->from = from;
    copy->width = width;
    copy->height = height;
    copy->depth = depth;
    if (width && height && depth) {
        CUresult refused = check_side(copy, &copy->to, to_place, REPORT_WRITE);
        refused = refused ? refused : check_side(copy, &copy->from, from_place, REPORT_READ);
        if (refused) {
            op_free(&copy->op);
            return refused;
        }
    } else {
        copy->width = copy->height = copy->depth = 0;
    }
    *made = copy;
    return CUDA_SUCCESS;
}

/* Submit a copy. The program waits for it, if it is to, or if it goes to memory that only the program knows. */
static CUresult send(CopyOp *copy, CUstream handle, bool wait)
{
    CUstream stream = stream_of(handle);
    if (!stream) {
        op_free(&copy->op);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (stream->capture)
        return submit(stream, &copy->op);
    if (wait || (copy->width && !copy->to.known))
        return submit_and_wait(stream, &copy->op);
    lock();
    bool queued = !is_reached(stream_position(stream)) || stream->pending_count;
    unlock();
    if (queued && copy->width && !copy->from.known && !stage(&copy->op)) {
        op_free(&copy->op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return submit(stream, &copy->op);
}

static CUresult linear(uint64_t to, Place to_place, uint64_t from, Place from_place, size_t size, CUstream stream, bool wait)
{
    CopyOp *copy;
    CUresult refused = make(&copy, (Side){.address = to, .pitch = size}, to_place, (Side){.address = from, .pitch = size}, from_place, size, 1, 1);
    return refused ? refused : send(copy, stream, wait);
}

CUresult ptxlab_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) { return linear(to, ANYWHERE, from, ANYWHERE, size, NULL, true); }

CUresult ptxlab_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    return linear(to, DEVICE, (uint64_t)from, HOST, size, NULL, true);
}

CUresult ptxlab_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { return linear((uint64_t)to, HOST, from, DEVICE, size, NULL, true); }

CUresult ptxlab_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) { return linear(to, DEVICE, from, DEVICE, size, NULL, false); }

CUresult ptxlab_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return linear(to, ANYWHERE, from, ANYWHERE, size, stream, false);
}

CUresult ptxlab_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return linear(to, DEVICE, (uint64_t)from, HOST, size, stream, false);
}

CUresult ptxlab_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return linear((uint64_t)to, HOST, from, DEVICE, size, stream, false);
}

CUresult ptxlab_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return linear(to, DEVICE, from, DEVICE, size, stream, false);
}

/* An address names its device, so that a copy between devices is a copy. */
static CUresult between(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t size, CUstream stream)
{
    if (!handle_is(there, HANDLE_CONTEXT) || !handle_is(here, HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return linear(to, DEVICE, from, DEVICE, size, stream, false);
}

/* A copy without a stream comes after all work of both contexts, and before what they get afterwards. */
static void order_contexts(CUcontext there, CUcontext here, bool after)
{
    CUcontext contexts[] = {there, here};
    CUstream own = current_context()->legacy;
    lock();
    for (int i = 0; i < 2; i++) {
        Clock clock;
        if (!handle_is(contexts[i], HANDLE_CONTEXT))
            continue;
        order_context_clock(contexts[i], &clock);
        if (!after)
            order_wait(own, &clock);
        for (CUstream stream = contexts[i]->streams; after && stream; stream = stream->next)
            order_wait(stream, &own->clock);
    }
    unlock();
}

CUresult ptxlab_cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t size)
{
    order_contexts(there, here, false);
    CUresult result = between(to, there, from, here, size, NULL);
    order_contexts(there, here, true);
    return result;
}

CUresult ptxlab_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t size, CUstream stream)
{
    return between(to, there, from, here, size, stream);
}

/* ------------------------------------------------------------------ copies of boxes */

typedef struct End {
    unsigned int type;
    uint64_t host, device;
    CUarray array;
    uint64_t at[3], pitch, rows;
} End;

static CUresult side_of_array(Side *side, const End *end, const CUDA_MEMCPY3D *copy)
{
    const struct CUarray_st *array = end->array;
    if (!handle_is(array, HANDLE_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (end->at[0] + copy->WidthInBytes > array->pitch || end->at[1] + copy->Height > array->rows || end->at[2] + copy->Depth > array->slices)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t start = array->address + (end->at[2] * array->rows + end->at[1]) * array->pitch + end->at[0];
    *side = (Side){.address = start, .pitch = array->pitch, .rows = array->rows};
    return CUDA_SUCCESS;
}

static CUresult side_of(Side *side, Place *place, const End *end, const CUDA_MEMCPY3D *copy)
{
    if (end->type < CU_MEMORYTYPE_HOST || end->type > CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    *place = end->type == CU_MEMORYTYPE_HOST ? HOST : end->type == CU_MEMORYTYPE_UNIFIED ? ANYWHERE : DEVICE;
    if (end->type == CU_MEMORYTYPE_ARRAY)
        return side_of_array(side, end, copy);
    uint64_t pitch = end->pitch ? end->pitch : end->at[0] + copy->WidthInBytes;
    uint64_t rows = end->rows ? end->rows : end->at[1] + copy->Height;
    uint64_t start = end->type == CU_MEMORYTYPE_HOST ? end->host : end->device;
    *side = (Side){.address = start + (end->at[2] * rows + end->at[1]) * pitch + end->at[0], .pitch = pitch, .rows = rows};
    return pitch < end->at[0] + copy->WidthInBytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult make_box(CopyOp **made, const CUDA_MEMCPY3D *copy)
{
    Side to, from;
    Place to_place, from_place;
    End target = {copy->dstMemoryType, (uint64_t)copy->dstHost,  copy->dstDevice, copy->dstArray,
                  {copy->dstXInBytes, copy->dstY, copy->dstZ}, copy->dstPitch, copy->dstHeight};
    End source = {copy->srcMemoryType, (uint64_t)copy->srcHost,  copy->srcDevice, copy->srcArray,
                  {copy->srcXInBytes, copy->srcY, copy->srcZ}, copy->srcPitch, copy->srcHeight};
    CUresult refused = side_of(&to, &to_place, &target, copy);
    refused = refused ? refused : side_of(&from, &from_place, &source, copy);
    return refused ? refused : make(made, to, to_place, from, from_place, copy->WidthInBytes, copy->Height, copy->Depth);
}

CUresult make_copy(Op **op, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    CopyOp *made;
    (void)context;
    CUresult refused = make_box(&made, copy);
    if (!refused)
        *op = &made->op;
    return refused;
}

static unsigned int type_of(const Side *side) { return side->known && !side->host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; }

void describe_copy(const Op *op, CUDA_MEMCPY3D *found)
{
    const CopyOp *copy = (const CopyOp *)op;
    *found = (CUDA_MEMCPY3D){
        .srcMemoryType = type_of(&copy->from),
        .srcHost = (const void *)copy->from.address,
        .srcDevice = copy->from.address,
        .srcPitch = copy->from.pitch,
        .srcHeight = copy->from.rows,
        .dstMemoryType = type_of(&copy->to),
        .dstHost = (void *)copy->to.address,
        .dstDevice = copy->to.address,
        .dstPitch = copy->to.pitch,
        .dstHeight = copy->to.rows,
        .WidthInBytes = copy->width,
        .Height = copy->height,
        .Depth = copy->depth,
    };
}

static CUresult box(const CUDA_MEMCPY3D *copy, CUstream stream, bool wait)
{
    CopyOp *made;
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult refused = make_box(&made, copy);
    return refused ? refused : send(made, stream, wait);
}

static CUresult plane(const CUDA_MEMCPY2D *copy, CUstream stream, bool wait)
{
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D whole = {
        .srcXInBytes = copy->srcXInBytes,
        .srcY = copy->srcY,
        .srcMemoryType = copy->srcMemoryType,
        .srcHost = copy->srcHost,
        .srcDevice = copy->srcDevice,
        .srcArray = copy->srcArray,
        .srcPitch = copy->srcPitch,
        .dstXInBytes = copy->dstXInBytes,
        .dstY = copy->dstY,
        .dstMemoryType = copy->dstMemoryType,
        .dstHost = copy->dstHost,
        .dstDevice = copy->dstDevice,
        .dstArray = copy->dstArray,
        .dstPitch = copy->dstPitch,
        .WidthInBytes = copy->WidthInBytes,
        .Height = copy->Height,
        .Depth = 1,
    };
    return box(&whole, stream, wait);
}

CUresult ptxlab_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return plane(copy, NULL, true); }

CUresult ptxlab_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) { return plane(copy, NULL, true); }

CUresult ptxlab_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) { return plane(copy, stream, false); }

CUresult ptxlab_cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) { return box(copy, NULL, true); }

CUresult ptxlab_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
    if (copy)
        order_contexts(copy->dstContext, copy->srcContext, false);
    return box(copy, NULL, true);
}

CUresult ptxlab_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) { return box(copy, stream, false); }

CUresult ptxlab_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) { return box(copy, stream, false); }
