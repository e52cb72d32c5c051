/* The core in a server process: each of its functions is a request. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#include "connection.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* of what is kept of images, and of the memory map as the server knows it */
static uint64_t told;                                     /* the version of the memory map that the server knows */

/* Tell the server how the map of memory has changed. */
static CUresult tell_changes(void)
{
    HeapChange changes[64];
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&guard);
    uint64_t version = ptxlab_heap_version();
    for (uint32_t count; version != told && !error && (count = ptxlab_heap_changes(changes, 64));) {
        struct iovec parts[] = {{changes, count * sizeof changes[0]}};
        error = request(HEAP_CHANGES, parts, 1, NULL);
    }
    told = version;
    pthread_mutex_unlock(&guard);
    return error;
}

/* ------------------------------------------------------------------ images */

/* What kernel_name and kernel_info give belongs to the image: kept here until it is unloaded. */
typedef struct Kept {
    uint64_t image;
    struct Kept *next;
    _Alignas(8) char bytes[];
} Kept;

static Kept *kept;

static void *keep(uint64_t image, const void *bytes, size_t size)
{
    Kept *made = malloc(sizeof *made + size);
    if (!made)
        return NULL;
    made->image = image;
    memcpy(made->bytes, bytes, size);
    pthread_mutex_lock(&guard);
    made->next = kept;
    kept = made;
    pthread_mutex_unlock(&guard);
    return made->bytes;
}

static uint64_t number_at(const char *from, size_t size)
{
    uint64_t found = 0;
    memcpy(&found, from, size);
    return found;
}

#define FAT_WRAPPER 0x466243b1u
#define FAT_BINARY 0xba55ed50u
#define ELF_MAGIC 0x464c457fu

/* The bytes of an image, from its headers: a wrapper that nvcc makes, a fat binary, an ELF file, or text. */
static struct iovec image_bytes(const char *image, uint64_t size)
{
    if (!size && number_at(image, 4) == FAT_WRAPPER)
        image = (const char *)(uintptr_t)number_at(image + 8, 8);
    if (!size && number_at(image, 4) == FAT_BINARY)
        size = number_at(image + 6, 2) + number_at(image + 8, 8);
    else if (!size && number_at(image, 4) == ELF_MAGIC) {
        /* Sections and the tables of headers: the file ends with the last of them. */
        uint64_t sections = number_at(image + 40, 8), programs = number_at(image + 32, 8);
        uint64_t section_count = number_at(image + 60, 2), section_size = number_at(image + 58, 2);
        uint64_t ends[] = {sections + section_count * section_size, programs + number_at(image + 56, 2) * number_at(image + 54, 2)};
        size = ends[0] > ends[1] ? ends[0] : ends[1];
        for (uint64_t i = 0; i < section_count; i++) {
            const char *header = image + sections + i * section_size;
            uint64_t end = number_at(header + 24, 8) + number_at(header + 32, 8);
            if (number_at(header + 4, 4) != 8 && end > size) /* not of type NOBITS */
                size = end;
        }
    } else if (!size)
        size = strlen(image);
    return (struct iovec){(void *)(uintptr_t)image, size};
}

static CUresult load_image(uint64_t address, uint64_t size, int device, LoadedImage *loaded)
{
    Connection *got;
    int64_t where = device;
    struct iovec parts[] = {{&where, sizeof where}, image_bytes((const char *)(uintptr_t)address, size)};
    CUresult error = tell_changes();
    if (!error)
        error = request(LOAD_IMAGE, parts, 2, &got);
    if (error != CUDA_ERROR_OPERATING_SYSTEM && got->size == sizeof *loaded)
        memcpy(loaded, got->body, sizeof *loaded);
    return error;
}

static void unload_image(uint64_t image)
{
    struct iovec parts[] = {{&image, sizeof image}};
    request(UNLOAD_IMAGE, parts, 1, NULL);
    pthread_mutex_lock(&guard);
    for (Kept **link = &kept; *link;) {
        Kept *each = *link;
        if (each->image == image) {
            *link = each->next;
            free(each);
        } else
            link = &each->next;
    }
    pthread_mutex_unlock(&guard);
}

static CUresult kernel_name(uint64_t image, uint32_t index, const char **name)
{
    Connection *got;
    uint64_t numbers[] = {image, index};
    struct iovec parts[] = {{numbers, sizeof numbers}};
    CUresult error = request(KERNEL_NAME, parts, 1, &got);
    if (!error && !(*name = keep(image, got->body, got->size + 1)))
        error = CUDA_ERROR_OUT_OF_MEMORY;
    return error;
}

/* The answer: the structure, the parameters, the name. */
static CUresult kernel_info(uint64_t image, uint32_t index, KernelInfo *info)
{
    Connection *got;
    uint64_t numbers[] = {image, index};
    struct iovec parts[] = {{numbers, sizeof numbers}};
    CUresult error = request(KERNEL_INFO, parts, 1, &got);
    if (error)
        return error;
    memcpy(info, got->body, sizeof *info);
    size_t bytes = 2 * sizeof(uint32_t) * info->parameter_count;
    char *more = keep(image, got->body + sizeof *info, got->size - sizeof *info + 1);
    if (!more)
        return CUDA_ERROR_OUT_OF_MEMORY;
    info->parameters = (const uint32_t *)(void *)more;
    info->name = more + bytes;
    return CUDA_SUCCESS;
}

static CUresult variable(uint64_t image, const char *name, uint64_t *address, uint64_t *size, uint64_t *managed)
{
    Connection *got;
    struct iovec parts[] = {{&image, sizeof image}, {(void *)(uintptr_t)name, strlen(name)}};
    CUresult error = tell_changes();
    if (!error)
        error = request(VARIABLE, parts, 2, &got);
    if (!error) {
        *address = number_at(got->body, 8);
        *size = number_at(got->body + 8, 8);
        *managed = number_at(got->body + 16, 8);
    }
    return error;
}

static CUresult link_texts(uint32_t count, const uint64_t *texts, const uint64_t *sizes, const void **image, uint64_t *size, char *log)
{
    static _Thread_local char *linked;
    Connection *got;
    uint64_t total = 0, number = count;
    for (uint32_t i = 0; i < count; i++)
        total += sizes[i];
    char *joined = malloc(total + 1), *end = joined;
    if (!joined)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(end, (const void *)(uintptr_t)texts[i], sizes[i]);
        end += sizes[i];
    }
    struct iovec parts[] = {{&number, sizeof number}, {(void *)(uintptr_t)sizes, count * sizeof sizes[0]}, {joined, total}};
    CUresult error = request(LINK, parts, 3, &got);
    free(joined);
    if (error == CUDA_ERROR_OPERATING_SYSTEM)
        return error;
    memcpy(log, got->body, PTXLAB_LOG);
    free(linked);
    *size = got->size - PTXLAB_LOG;
    linked = malloc(*size + 1);
    if (!linked)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(linked, got->body + PTXLAB_LOG, *size + 1);
    *image = linked;
    return error;
}

/* ------------------------------------------------------------------ launches */

/* The body: the structure, the parameters, the place. */
static CUresult prepare_launch(const LaunchRequest *launch, uint64_t *ticket)
{
    Connection *got;
    char site[SITE_BYTES];
    struct iovec parts[] = {{(void *)(uintptr_t)launch, sizeof *launch},
                            {(void *)(uintptr_t)launch->parameters, launch->parameter_bytes},
                            {site, call_site(site)}};
    CUresult error = request(PREPARE_LAUNCH, parts, 3, &got);
    if (!error)
        *ticket = number_at(got->body, 8);
    return error;
}

static CUresult run_launch(uint64_t ticket, int cancelled)
{
    uint64_t numbers[] = {ticket, (uint64_t)cancelled};
    struct iovec parts[] = {{numbers, sizeof numbers}};
    CUresult error = tell_changes();
    return error ? error : request(RUN_LAUNCH, parts, 1, NULL);
}

static CUresult encode_tensor_map(const TensorMapRequest *asked, CUtensorMap *map)
{
    Connection *got;
    struct iovec parts[] = {{(void *)(uintptr_t)asked, sizeof *asked}};
    CUresult error = request(ENCODE_TENSOR_MAP, parts, 1, &got);
    if (!error)
        memcpy(map, got->body, sizeof *map);
    return error;
}

static void report_to_server(ReportKind kind, const char *function, uint64_t address, const char *text)
{
    uint64_t numbers[] = {kind, address};
    char site[SITE_BYTES];
    tell_changes();
    struct iovec parts[] = {{numbers, sizeof numbers},
                            {(void *)(uintptr_t)function, strlen(function) + 1},
                            {(void *)(uintptr_t)text, strlen(text) + 1},
                            {site, call_site(site)}};
    request(REPORT, parts, 4, NULL);
}

static void report_conflict_to_server(const Conflict *conflict)
{
    struct iovec parts[] = {{(void *)(uintptr_t)conflict, sizeof *conflict}};
    request(CONFLICT, parts, 1, NULL);
}

typedef struct Start {
    void (*function)(void *);
    void *argument;
} Start;

static void *run_thread(void *value)
{
    Start start = *(Start *)value;
    free(value);
    start.function(start.argument);
    return NULL;
}

static int start_thread(void (*function)(void *), void *argument)
{
    pthread_t thread;
    Start *start = malloc(sizeof *start);
    if (!start)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *start = (Start){function, argument};
    int error = pthread_create(&thread, NULL, run_thread, start);
    if (error)
        free(start);
    else
        pthread_detach(thread);
    return error;
}

/* ------------------------------------------------------------------ start and end */

/* At the end of the program: work that it has not waited for is done, so that its findings are not lost. */
static void at_end(void)
{
    if (driver.phase != PHASE_READY || is_server_lost())
        return;
    ptxlab_drain();
    if (!tell_changes())
        request(ENDED, NULL, 0, NULL);
}

bool client_connect(void)
{
    static DeviceDescription descriptions[PTXLAB_MAX_DEVICES];
    const char *name = getenv(PTXLAB_SERVER);
    if (!name)
        return false;
    Connection *first = connect_to_server(name, arena_share());
    if (!first || first->size > sizeof descriptions) {
        server_is_lost();
        return false;
    }
    memcpy(descriptions, first->body, first->size);
    Core core = {
        .size = sizeof core,
        .devices = (uint32_t)(first->size / sizeof descriptions[0]),
        .descriptions = descriptions,
        .load_image = load_image,
        .unload_image = unload_image,
        .kernel_name = kernel_name,
        .kernel_info = kernel_info,
        .variable = variable,
        .prepare_launch = prepare_launch,
        .run_launch = run_launch,
        .encode_tensor_map = encode_tensor_map,
        .link = link_texts,
        .report = report_to_server,
        .start_thread = start_thread,
        .report_conflict = report_conflict_to_server,
        .place = native_place,
    };
    if (ptxlab_attach_core(&core))
        return false;
    ptxlab_follow_transfers(1);
    atexit(at_end);
    return true;
}
