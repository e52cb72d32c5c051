/* Memory that processes share by handles.
 *
 * The memory of an allocation becomes a file when a handle for it is first asked for. The handle says where another process of the user
 * finds the file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { LAZY_PEER_ACCESS = 1, PAGE = 4096 };
#define MAGIC 0x4c4258545043u

typedef struct Handle {
    uint64_t magic;
    int32_t process, file;
    uint64_t size;
} Handle;

_Static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle), "room in a handle");

/* The files of allocations of this process. */
typedef struct Shared {
    struct Shared *next;
    uint64_t address, id; /* of the allocation, which may be gone */
    int file;
} Shared;

static Shared *files;
static char opened; /* the owner of mappings of other processes' memory */

static uint64_t pages(uint64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* With the lock held: close the files of allocations that are gone. */
static void forget_freed(void)
{
    for (Shared **at = &files; *at;) {
        Allocation *found = memory_find((*at)->address);
        if (found && found->id == (*at)->id) {
            at = &(*at)->next;
            continue;
        }
        Shared *gone = *at;
        *at = gone->next;
        close(gone->file);
        free(gone);
    }
}

static bool write_all(int file, const char *from, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t step = pwrite(file, from + done, size - done, (off_t)done);
        if (step <= 0)
            return false;
        done += (uint64_t)step;
    }
    return true;
}

/* With the lock held: the file behind an allocation, at the same addresses as before; -1 if there is none. */
static int file_of(const Allocation *allocation)
{
    for (Shared *at = files; at; at = at->next)
        if (at->address == allocation->address && at->id == allocation->id)
            return at->file;
    Shared *made = malloc(sizeof *made);
    int file = memfd_create("ptxlab-shared", MFD_CLOEXEC);
    uint64_t size = pages(allocation->size);
    char *memory = (char *)allocation->address;
    if (made && file >= 0 && ftruncate(file, (off_t)size) == 0 && write_all(file, memory, size) &&
        mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED) {
        *made = (Shared){files, allocation->address, allocation->id, file};
        files = made;
        return file;
    }
    free(made);
    if (file >= 0)
        close(file);
    return -1;
}

CUresult ptxlab_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (!driver.core.has_interpreter) /* a server process has its own view of the memory */
        return ptxlab_unsupported("cuIpcGetMemHandle");
    synchronize_context(current_context());
    lock();
    forget_freed();
    Allocation *found = memory_find(address);
    bool fits = found && found->kind == MEMORY_DEVICE;
    Handle made = {MAGIC, getpid(), fits ? file_of(found) : -1, fits ? found->size : 0};
    unlock();
    if (!fits)
        return CUDA_ERROR_INVALID_VALUE;
    note_transfer(address, 0, made.size); /* another process may write it */
    if (made.file < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return CUDA_SUCCESS;
}

static CUresult map_file(CUdeviceptr *address, const Handle *handle, int file)
{
    int device = current_context()->device;
    uint64_t at;
    CUresult refused = arena_reserve(device, handle->size, PAGE, &at);
    if (refused)
        return refused;
    bool mapped = mmap((void *)at, pages(handle->size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    lock();
    Allocation *made = mapped ? memory_add((Allocation){.address = at,
                                                        .size = handle->size,
                                                        .kind = MEMORY_MAPPED,
                                                        .device = device,
                                                        .context = current_context(),
                                                        .owner = &opened})
                              : NULL;
    unlock();
    if (!made) {
        arena_release(at, handle->size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = at;
    return CUDA_SUCCESS;
}

int open_file_of(int32_t process, int32_t file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
    return open(path, O_RDWR | O_CLOEXEC);
}

CUresult ptxlab_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle given, unsigned int flags)
{
    Handle handle;
    memcpy(&handle, &given, sizeof handle);
    if (!address || flags != LAZY_PEER_ACCESS || handle.magic != MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    int file = open_file_of(handle.process, handle.file);
    if (file < 0)
        return CUDA_ERROR_MAP_FAILED;
    CUresult result = map_file(address, &handle, file);
    close(file);
    return result;
}

CUresult ptxlab_cuIpcCloseMemHandle(CUdeviceptr address)
{
    synchronize_context(current_context());
    lock();
    Allocation *found = memory_find(address);
    bool fits = found && found->owner == &opened && found->address == address;
    uint64_t size = fits ? found->size : 0;
    if (fits)
        memory_remove(found);
    unlock();
    if (fits)
        arena_release(address, size);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
