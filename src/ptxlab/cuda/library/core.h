/* What the library leaves to ptxlab: the functions that Python in the same process, or a server process, provides. */
#ifndef PTXLAB_CORE_H
#define PTXLAB_CORE_H

#include "driver_api.h"

#define PTXLAB_MAX_DEVICES 16
#define PTXLAB_ATTRIBUTES 256
#define PTXLAB_LOG 4096

/* A device as programs see it. */
typedef struct DeviceDescription {
    char name[64];
    uint64_t total_bytes;
    int32_t attributes[PTXLAB_ATTRIBUTES];
    unsigned char uuid[16];
} DeviceDescription;

/* An image that has been loaded. `log` is text for the buffers of the JIT options. */
typedef struct LoadedImage {
    uint64_t id;
    uint32_t kernels;
    uint32_t reserved;
    char log[PTXLAB_LOG];
} LoadedImage;

/* A kernel. `name` and `parameters` (offset and size in bytes of each) belong to the image. */
typedef struct KernelInfo {
    const char *name;
    const uint32_t *parameters;
    uint32_t parameter_count;
    uint32_t parameter_bytes;
    int32_t attributes[CU_FUNC_ATTRIBUTE_MAX];
    int32_t reserved;
} KernelInfo;

/* A launch. `parameters` are the packed bytes; `cluster` is 0, 0, 0 if the launch does not give it. */
typedef struct LaunchRequest {
    uint64_t image;
    uint32_t kernel;
    int32_t device;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster[3];
    uint32_t shared_bytes;
    uint32_t cooperative;
    uint32_t parameter_bytes;
    const void *parameters;
} LaunchRequest;

/* The arguments of cuTensorMapEncodeTiled (`box` is not null) and cuTensorMapEncodeIm2col. */
typedef struct TensorMapRequest {
    uint64_t address;
    int32_t type, rank, interleave, swizzle, promotion, fill;
    int32_t im2col, reserved;
    uint64_t dims[5], strides[5];
    uint32_t box[5], element_strides[5];
    int32_t lower[5], upper[5];
    uint32_t channels, pixels;
} TensorMapRequest;

typedef enum ReportKind {
    REPORT_UNSUPPORTED = 1, /* the library has no such function, or not this use of it */
    REPORT_DOUBLE_FREE = 2,
    REPORT_FOREIGN_FREE = 3, /* an address that no allocation begins at */
    REPORT_LAUNCH = 4,       /* a launch that the driver refuses */
    REPORT_READ = 5,         /* a copy from memory that is not there; the text is its size */
    REPORT_WRITE = 6         /* a copy or a fill of memory that is not there; the text is its size */
} ReportKind;

/* Bytes that an operation accesses; `how` is of ACCESS_... in order.h. */
typedef struct AccessRange {
    uint64_t low, high;
    uint32_t how, reserved;
} AccessRange;

typedef enum ConflictKind {
    CONFLICT_WRITES = 1, /* two operations that nothing orders write to the same bytes */
    CONFLICT_READS,      /* the second one reads what the first one writes */
    CONFLICT_OVERWRITES, /* the second one writes what the first one reads */
    CONFLICT_HOST_WRITES /* the program has changed bytes of its memory between the operation and a call that waits for it */
} ConflictKind;

/* Two operations, or an operation and a call that waits for it, which has no stream. */
typedef struct Conflict {
    uint32_t kind, reserved;
    uint64_t address, size;
    uint64_t places[2], streams[2];
    char what[2][96];
} Conflict;

/* No function may call the driver again, except for ptxlab_heap_* and ptxlab_stalled. Pointers are valid during the call. */
typedef struct Core {
    uint32_t size;
    uint32_t devices;
    const DeviceDescription *descriptions;
    /* The image begins at `address`; its size is what its headers say if `size` is 0. */
    CUresult (*load_image)(uint64_t address, uint64_t size, int device, LoadedImage *loaded);
    void (*unload_image)(uint64_t image);
    CUresult (*kernel_name)(uint64_t image, uint32_t index, const char **name);
    CUresult (*kernel_info)(uint64_t image, uint32_t index, KernelInfo *info);
    CUresult (*variable)(uint64_t image, const char *name, uint64_t *address, uint64_t *size, uint64_t *managed);
    /* Called by the thread that launches: notes where in the program it is. */
    CUresult (*prepare_launch)(const LaunchRequest *launch, uint64_t *ticket);
    /* Called by the thread of the stream, once for each ticket; `cancelled` if an earlier error keeps the launch from running. */
    CUresult (*run_launch)(uint64_t ticket, int cancelled);
    CUresult (*encode_tensor_map)(const TensorMapRequest *request, CUtensorMap *map);
    /* Join PTX texts, each `sizes[i]` bytes at `texts[i]`; the result is valid until the next call of the same thread. */
    CUresult (*link)(uint32_t count, const uint64_t *texts, const uint64_t *sizes, const void **image, uint64_t *size, char *log);
    void (*report)(ReportKind kind, const char *function, uint64_t address, const char *text);
    /* Run `function(argument)` on a thread of its own; not 0 if there is none. */
    int (*start_thread)(void (*function)(void *), void *argument);
    /* Of Python in this process, null without it: a thread that waits with the lock of the interpreter would stop the core. */
    int (*has_interpreter)(void);
    void *(*release_interpreter)(void);
    void (*take_interpreter)(void *state);
    /* The same, to handle signals while a thread waits: lock and unlock the interpreter, handle signals (-1: with an exception), drop the
     * exception, and interrupt the program again when the call returns. */
    int (*lock_interpreter)(void);
    void (*unlock_interpreter)(int state);
    int (*handle_signals)(void);
    void (*drop_exception)(void);
    void (*interrupt_program)(void);
    /* End the launch that executes, or the next one. */
    void (*interrupt_launch)(void);
    void (*report_conflict)(const Conflict *conflict);
    /* Number a code object of Python's; 0 for code that calls the driver for a program. */
    uint64_t (*number_code)(void *code);
    void *(*thread_state)(void);
    void *(*frame_of_thread)(void *state);
    void *(*frame_before)(void *frame);
    void *(*code_of_frame)(void *frame);
    int (*line_of_frame)(void *frame);
    void (*drop_object)(void *object);
    /* Of a server process: where the calling thread of a program is. */
    uint64_t (*place)(void);
} Core;

/* What the core calls. */

/* Give the library its core, before the first context. */
int ptxlab_attach_core(const Core *core);
/* Programs see other devices; ILLEGAL_STATE if there are more contexts than so many. */
int ptxlab_set_devices(uint32_t devices, const DeviceDescription *descriptions, uint32_t most_contexts);
/* Give device 0 another primary context, null: none; the one that it had. */
void *ptxlab_exchange_primary(void *context);
/* Forget the errors that stick to contexts. */
void ptxlab_clear_errors(void);
/* Wait for all streams of all contexts, as at the end of the process. */
void ptxlab_drain(void);
/* The process ends: every later call returns CUDA_ERROR_DEINITIALIZED. */
void ptxlab_shut_down(void);
/* The launch that this thread runs waits for something outside of it. */
void ptxlab_stalled(void);
/* The launch that this thread has run would take so many nanoseconds on a device: events tell that time from now on. */
void ptxlab_estimated(uint64_t nanoseconds);
/* How many threads of the program wait for a stream, and how many streams have work that does not wait. */
void ptxlab_activity(uint32_t *waiting, uint32_t *moving);

/* Whether the core should say what the launch of this thread has accessed, and how it does. */
int ptxlab_order_is_wanted(void);
void ptxlab_accessed(const AccessRange *ranges, uint32_t count);

/* Memory for variables of modules. */
uint64_t ptxlab_heap_allocate(int device, uint64_t size, uint64_t alignment);
void ptxlab_heap_free(uint64_t address);
/* Memory of the program as memory of the device, also while an error sticks; not 0 if some of it is already. */
int ptxlab_heap_register(uint64_t address, uint64_t size);
void ptxlab_heap_unregister(uint64_t address);

typedef struct HeapChange {
    uint64_t address, size, id;
    int32_t device, kind; /* of enum MemoryKind; negative: released; or TRANSFER */
    int32_t file;         /* what is mapped there: a descriptor of the process and 1; 0: the memory of the library */
    int32_t left;         /* released because its context ends */
    uint64_t place;       /* where the program has allocated or freed it; 0: not known */
} HeapChange;

/* Whether copies and fills are among the changes of the map of memory: a range that gets the bytes at `id`, or others if that is 0.
 * A range of no bytes stands for all memory: there were too many. */
#define TRANSFER 8
void ptxlab_follow_transfers(int follow);

/* Counts the changes of the map of memory; `ptxlab_heap_changes` gives those since the last call, up to a number. */
uint64_t ptxlab_heap_version(void);
uint32_t ptxlab_heap_changes(HeapChange *changes, uint32_t most);

/* A function that the library lacks: records a diagnostic that names it. */
CUresult ptxlab_unsupported(const char *name);

#endif
