/* The CUDA runtime library over the driver's public functions: types of its interface, and what its files share.

   Declarations are our own; layouts are those that programs compiled with CUDA's headers of version RUNTIME_MAJOR expect. */
#ifndef PTXLAB_RUNTIME_H
#define PTXLAB_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "../core.h"

#ifndef RUNTIME_MAJOR
#define RUNTIME_MAJOR 13
#endif
#define RUNTIME_VERSION (RUNTIME_MAJOR == 12 ? 12080 : 13000)

#define EXPORT __attribute__((visibility("default")))

/* Codes of the runtime that the driver does not have, and those that the runtime itself reports. */
enum {
    RUNTIME_SUCCESS = 0,
    RUNTIME_INVALID_VALUE = 1,
    RUNTIME_UNLOADING = 4,
    RUNTIME_INVALID_CONFIGURATION = 9,
    RUNTIME_INVALID_SYMBOL = 13,
    RUNTIME_INVALID_CHANNELS = 20,
    RUNTIME_INVALID_DIRECTION = 21,
    RUNTIME_MISSING_CONFIGURATION = 52,
    RUNTIME_INVALID_FUNCTION = 98,
    RUNTIME_NO_DEVICE = 100,
    RUNTIME_INVALID_DEVICE = 101,
    RUNTIME_NOT_FOUND = 500,
    RUNTIME_NOT_SUPPORTED = 801,
};

/* Types of nodes of graphs. */
enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_ALLOCATE = 10 };

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

#define INVALID_DEVICE_ID (-2)
#define PER_THREAD_STREAM ((CUstream)2)

typedef struct {
    unsigned x, y, z;
} Dimensions;

typedef struct {
    size_t width, height, depth;
} Extent;

typedef struct {
    size_t x, y, z;
} Position;

typedef struct {
    void *address;
    size_t pitch, width, height;
} PitchedPointer;

typedef struct {
    CUarray source_array;
    Position source_position;
    PitchedPointer source;
    CUarray target_array;
    Position target_position;
    PitchedPointer target;
    Extent extent;
    int kind;
} Copy3D;

typedef struct {
    CUarray source_array;
    Position source_position;
    PitchedPointer source;
    int source_device;
    CUarray target_array;
    Position target_position;
    PitchedPointer target;
    int target_device;
    Extent extent;
} Copy3DPeer;

typedef struct {
    void *address;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
} Fill;

typedef struct {
    const void *function;
    Dimensions grid, block;
    unsigned shared_bytes;
    void **arguments;
    void **extra;
} KernelNode;

typedef struct {
    Dimensions grid, block;
    size_t shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} LaunchShape;

typedef struct {
    size_t shared_bytes, constant_bytes, local_bytes;
    int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared_bytes, carveout, cluster_must_be_set;
    int cluster[3];
    int cluster_policy, nonportable_cluster;
    int reserved[16];
} FunctionAttributes;

typedef struct {
    int type, device;
    void *device_pointer, *host_pointer;
#if RUNTIME_MAJOR >= 13
    long reserved[8];
#endif
} PointerAttributes;

/* ------------------------------------------------------------------------------------------------ errors, start (state.c) */

/* Start the driver, and make the primary context of this thread's device current if it has no context. 0 or an error, unrecorded. */
int ready(void);

/* Keep an error as this thread's last one; it comes back. */
int record(int error);

/* The device of this thread; the primary context of a device; whether a device number exists. */
int current_device(void);
int primary_context(int device, CUcontext *context);
int check_device(int device);
void forget_primary_contexts(void);

/* `return CALL(expression)`: the driver's result as the runtime's, once the runtime is ready. */
#define CALL(expression)                                                                                                                   \
    __extension__({                                                                                                                        \
        int call_error = ready();                                                                                                          \
        record(call_error ? call_error : (int)(expression));                                                                               \
    })

/* Leave the function with an error that is recorded. */
#define CHECK(expression)                                                                                                                  \
    do {                                                                                                                                   \
        int check_error = (int)(expression);                                                                                               \
        if (check_error)                                                                                                                   \
            return record(check_error);                                                                                                    \
    } while (0)

/* ------------------------------------------------------------------------------- what programs register (registration.c) */

/* The kernel of a host function, or of a kernel handle. 0 or an error, unrecorded. */
int find_kernel(const void *function, CUkernel *kernel);

/* The host function of a kernel handle; the handle itself if it came to the program otherwise. */
const void *function_of(CUkernel kernel);

/* The address and size of a variable, by the address of its host counterpart. */
int find_variable(const void *symbol, CUdeviceptr *address, size_t *bytes);

/* Handles of kernels that programs get otherwise are accepted where a host function is. */
void know_kernel(CUkernel kernel);

void unload_images(void);

/* ----------------------------------------------------------------------------------------------------- copies (copies.c) */

int copy(void *to, const void *from, size_t bytes, int kind, CUstream stream, int asynchronous);
unsigned source_type(int kind);
unsigned target_type(int kind);
int convert_copy(const Copy3D *given, CUDA_MEMCPY3D *found);
Copy3D copy_node(const CUDA_MEMCPY3D *copy);

/* The bytes of an element of an array (arrays.c). */
size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array);

/* Kernels of nodes as the driver has them, and as programs have them (graphs.c). */
int convert_kernel(const KernelNode *given, CUDA_KERNEL_NODE_PARAMS *found);
KernelNode kernel_node(const CUDA_KERNEL_NODE_PARAMS *kernel);

#define DEVICE_POINTER(pointer) ((CUdeviceptr)(uintptr_t)(pointer))
#define PAIR(pointer) ((CUdeviceptr *)(void *)(pointer)) /* a place for a pointer as a place for a device pointer */

/* The shape of a launch as the driver takes it. */
CUlaunchConfig driver_shape(const LaunchShape *shape);

/* The stream of functions compiled for a default stream of each thread. */
#define PER_THREAD(stream) ((stream) ? (stream) : PER_THREAD_STREAM)

/* A function with a stream, and its form for those programs. */
#define WITH_STREAM(name, parameters, arguments)                                                                                           \
    int name parameters;                                                                                                                   \
    EXPORT int name##_ptsz parameters { return name arguments; }
#define STREAM PER_THREAD(stream)

#endif
