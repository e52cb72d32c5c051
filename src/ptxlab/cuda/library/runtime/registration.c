/* Fat binaries, kernels and variables, which the constructors that nvcc generates register before main.

   Nothing is loaded there: the driver gets a fat binary when the first of its kernels or variables is used. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"

typedef struct Managed {
    void **host;
    const char *name;
    struct Managed *next;
} Managed;

typedef struct Image {
    const void *wrapper; /* first member: the handle that programs hold is a pointer to a pointer */
    CUlibrary library;
    int error, managed_ready;
    Managed *managed;
    struct Image *next;
} Image;

typedef enum { EMPTY, REMOVED, KERNEL, VARIABLE } Kind;

typedef struct {
    const void *key; /* the host function, the host variable, or a handle */
    Kind kind;
    Image *image; /* null for a handle */
    const char *name;
    CUkernel kernel;
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Image *images;
static Entry *table; /* open addressing; its size is a power of two */
static size_t slots, used;

static size_t slot_of(const void *key) { return ((uintptr_t)key * 0x9E3779B97F4A7C15u >> 17) & (slots - 1); }

static Entry *find(const void *key)
{
    if (!slots)
        return NULL;
    for (size_t i = slot_of(key);; i = (i + 1) & (slots - 1)) {
        if (table[i].kind == EMPTY)
            return NULL;
        if (table[i].kind != REMOVED && table[i].key == key)
            return &table[i];
    }
}

static Entry *place(const void *key)
{
    for (size_t i = slot_of(key);; i = (i + 1) & (slots - 1))
        if (table[i].kind == EMPTY)
            return &table[i];
}

static int grow(void)
{
    Entry *old = table;
    size_t old_slots = slots, new_slots = slots ? 2 * slots : 256;
    Entry *new_table = calloc(new_slots, sizeof *new_table);
    if (!new_table)
        return CUDA_ERROR_OUT_OF_MEMORY;
    table = new_table, slots = new_slots, used = 0;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].kind > REMOVED)
            *place(old[i].key) = old[i], used++;
    free(old);
    return 0;
}

static void add(Entry entry)
{
    pthread_mutex_lock(&lock);
    Entry *present = find(entry.key);
    if (present)
        *present = entry;
    else if (2 * used < slots || !grow())
        *place(entry.key) = entry, used++;
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------------------------ functions that nvcc calls */

EXPORT void **__cudaRegisterFatBinary(void *wrapper)
{
    Image *image = calloc(1, sizeof *image);
    if (!image)
        abort();
    image->wrapper = wrapper;
    pthread_mutex_lock(&lock);
    image->next = images, images = image;
    pthread_mutex_unlock(&lock);
    return (void **)&image->wrapper;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *thread, void *block,
                                   Dimensions *block_size, Dimensions *grid_size, int *warp_size)
{
    (void)device, (void)limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    add((Entry){.key = host, .kind = KERNEL, .image = (Image *)handle, .name = name});
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant,
                              int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add((Entry){.key = host, .kind = VARIABLE, .image = (Image *)handle, .name = name});
}

EXPORT void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t bytes)
{
    (void)bytes;
    add((Entry){.key = host, .kind = VARIABLE, .image = (Image *)handle, .name = name});
}

EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t bytes, int constant,
                                     int global)
{
    Image *image = (Image *)handle;
    Managed *variable = malloc(sizeof *variable);
    if (!variable)
        abort();
    pthread_mutex_lock(&lock);
    *variable = (Managed){host, name, image->managed};
    image->managed = variable;
    pthread_mutex_unlock(&lock);
    __cudaRegisterVar(handle, (char *)host, device, name, external, bytes, constant, global);
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
    Image *image = (Image *)handle;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < slots; i++)
        if (table[i].kind > REMOVED && table[i].image == image)
            table[i].kind = REMOVED;
    for (Image **link = &images; *link; link = &(*link)->next)
        if (*link == image) {
            *link = image->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (image->library)
        cuLibraryUnload(image->library);
    while (image->managed) {
        Managed *next = image->managed->next;
        free(image->managed);
        image->managed = next;
    }
    free(image);
}

/* -------------------------------------------------------------------------------------------------------------- look-up */

/* Load an image at its first use; an image that the driver refuses gives the same error each time. */
static int load(Image *image)
{
    if (image->library || image->error)
        return image->error;
    image->error = cuLibraryLoadData(&image->library, image->wrapper, NULL, NULL, 0, NULL, NULL, 0);
    return image->error;
}

static int attach_managed(Image *image)
{
    int error = load(image);
    for (Managed *variable = image->managed; !error && !image->managed_ready && variable; variable = variable->next) {
        CUdeviceptr address;
        error = cuLibraryGetManaged(&address, NULL, image->library, variable->name);
        if (!error)
            *variable->host = (void *)(uintptr_t)address;
    }
    if (!error)
        image->managed_ready = 1;
    return error;
}

EXPORT char __cudaInitModule(void **handle)
{
    int error = ready();
    if (!error) {
        pthread_mutex_lock(&lock);
        error = attach_managed((Image *)handle);
        pthread_mutex_unlock(&lock);
    }
    record(error);
    return error == 0;
}

int find_kernel(const void *function, CUkernel *kernel)
{
    int error = ready();
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    Entry *entry = find(function);
    error = !entry || entry->kind != KERNEL ? RUNTIME_INVALID_FUNCTION : 0;
    if (!error && !entry->kernel) {
        error = entry->image->managed ? attach_managed(entry->image) : load(entry->image);
        if (!error && cuLibraryGetKernel(&entry->kernel, entry->image->library, entry->name))
            error = RUNTIME_INVALID_FUNCTION;
    }
    if (!error)
        *kernel = entry->kernel;
    pthread_mutex_unlock(&lock);
    return error;
}

int find_variable(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
    int error = ready();
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    Entry *entry = find(symbol);
    error = !entry || entry->kind != VARIABLE ? RUNTIME_INVALID_SYMBOL : 0;
    if (!error)
        error = load(entry->image);
    /* Asked for each time: each device has its own. */
    if (!error && cuLibraryGetGlobal(address, bytes, entry->image->library, entry->name) &&
        cuLibraryGetManaged(address, bytes, entry->image->library, entry->name))
        error = RUNTIME_INVALID_SYMBOL;
    pthread_mutex_unlock(&lock);
    return error;
}

void know_kernel(CUkernel kernel) { add((Entry){.key = kernel, .kind = KERNEL, .kernel = kernel}); }

const void *function_of(CUkernel kernel)
{
    const void *found = kernel;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < slots; i++)
        if (table[i].kind == KERNEL && table[i].image && table[i].kernel == kernel)
            found = table[i].key;
    pthread_mutex_unlock(&lock);
    return found;
}

/* At a reset of the device: images load again at their next use. */
void unload_images(void)
{
    pthread_mutex_lock(&lock);
    for (Image *image = images; image; image = image->next) {
        if (image->library)
            cuLibraryUnload(image->library);
        image->library = NULL, image->error = 0, image->managed_ready = 0;
    }
    for (size_t i = 0; i < slots; i++)
        if (table[i].kind > REMOVED && table[i].image)
            table[i].kernel = NULL;
    pthread_mutex_unlock(&lock);
}

EXPORT int cudaGetSymbolAddress(void **pointer, const void *symbol)
{
    CUdeviceptr address;
    size_t bytes;
    if (!pointer)
        return record(RUNTIME_INVALID_VALUE);
    CHECK(find_variable(symbol, &address, &bytes));
    *pointer = (void *)(uintptr_t)address;
    return 0;
}

EXPORT int cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    if (!size)
        return record(RUNTIME_INVALID_VALUE);
    return record(find_variable(symbol, &address, size));
}
