/* State and functions that the C files share. Names of functions of the driver API are `ptxlab_<symbol>` here: see functions/all.def. */
#ifndef PTXLAB_INTERNAL_H
#define PTXLAB_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core.h"

#define EXPORT __attribute__((visibility("default")))
#define DRIVER_VERSION 13000

/* ------------------------------------------------------------------ handles */

typedef enum HandleType {
    HANDLE_NONE,
    HANDLE_CONTEXT,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE, /* CUmodule and CUlibrary */
    HANDLE_KERNEL, /* CUfunction and CUkernel */
    HANDLE_LINK,
    HANDLE_GRAPH,
    HANDLE_GRAPH_NODE,
    HANDLE_GRAPH_EXEC,
    HANDLE_POOL,
    HANDLE_PHYSICAL,
    HANDLE_USER_OBJECT,
    HANDLE_ARRAY
} HandleType;

/* Zeroed memory that `handle_is` knows; null if there is none. */
void *handle_new(HandleType type, size_t size);
bool handle_is(const void *handle, HandleType type);
/* Forget a handle; its memory stays. */
void handle_forget(void *handle);
/* Forget and free a handle. */
void handle_free(void *handle);
/* Call a function for every handle of a type; it must not make or free handles. */
void handle_each(HandleType type, void (*visit)(void *handle, void *data), void *data);

/* ------------------------------------------------------------------ state of the driver */

typedef enum Phase { PHASE_NEW, PHASE_READY, PHASE_ENDED, PHASE_FORKED } Phase;

/* One lock for all state; it is not held while memory is copied or the core is called. `changed` is signalled when a stream has moved. */
typedef struct Driver {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic Phase phase;
    Core core;
    uint32_t waiting;    /* threads of the program that wait for a stream */
    uint32_t performing; /* operations that threads perform now */
    uint64_t next_id;
    pid_t process;
    uint64_t estimated;  /* nanoseconds that the launches so far would take */
    struct CUctx_st *primary[PTXLAB_MAX_DEVICES];
    unsigned int primary_flags[PTXLAB_MAX_DEVICES];
} Driver;

extern Driver driver;

void lock(void);
void unlock(void);
/* Wait for `driver.changed` with the lock held, until a time of CLOCK_MONOTONIC in nanoseconds; 0: without limit. False at that time. */
bool wait_changed(uint64_t until);
/* How often something outside of the library is looked at, that it is waited for. */
enum { POLL_NS = 1000000 };
/* Around waits of threads of the program, without the lock. */
void *begin_host_wait(void);
void end_host_wait(void *token);
/* Let the program handle signals during such a wait; true if it is interrupted. */
bool handle_signals(void);
uint64_t now_ns(void);

/* For each slot, which a stream has while it exists, how many of its operations have been done before something. */
#define ORDER_SLOTS 64
typedef struct Clock {
    uint64_t done[ORDER_SLOTS];
} Clock;

/* State of a thread. */
typedef struct Thread {
    struct CUctx_st **contexts; /* the stack; the last one is current */
    uint32_t depth, capacity;
    int per_thread; /* whether stream 0 is the stream of the thread */
    int capture_mode;
    struct CUstream_st *streams[PTXLAB_MAX_DEVICES]; /* the default streams of the thread, by device */
    struct CUstream_st *running;                     /* the stream whose work this thread does */
    struct Op *performing;                           /* and that work */
    const char *function;                            /* the last function with a stream that the thread has called */
} Thread;

Thread *this_thread(void);

/* The checks of the column `needs` in functions/all.def. */
CUresult enter_ANYTIME(void);
CUresult enter_NOTHING(void);
CUresult enter_DRIVER(void);
CUresult enter_CONTEXT(void);
CUresult enter_UNCAPTURED(void);
CUresult enter_RELEASE(void);
CUresult enter_RELEASE_IN_CONTEXT(void);
CUresult enter_RELEASE_UNCAPTURED(void);
/* What the last three say when the driver has ended before the objects of a Python program: there is nothing left to release. */
#define NOTHING_LEFT ((CUresult)-1)

/* The bodies of the functions of the driver API. */
#define FUNCTION(name, since, symbol, needs, parameters, arguments) CUresult ptxlab_##symbol parameters;
#define STREAM_FUNCTION(name, since, symbol, suffix, needs, parameters, arguments) CUresult ptxlab_##symbol parameters;
#include "functions/all.def"
#undef FUNCTION
#undef STREAM_FUNCTION

void report(ReportKind kind, const char *function, uint64_t address, const char *text);

/* ------------------------------------------------------------------ devices and contexts */

bool is_device(CUdevice device);
const DeviceDescription *device_of(CUdevice device);

struct CUctx_st {
    CUdevice device;
    unsigned int flags, version;
    uint64_t id;
    bool primary;
    uint32_t retained; /* of a primary context */
    CUresult error;    /* the error that sticks */
    size_t limits[CU_LIMIT_COUNT];
    CUfunc_cache cache_config;
    uint32_t peers; /* bit i: access to the memory of device i is enabled */
    struct CUstream_st *legacy;
    struct CUstream_st *streams; /* all streams of the context, the legacy one too */
    Clock gone;                  /* of streams that were destroyed */
    bool unordered;              /* streams are ordered by values in memory, which is not followed */
};

/* The current context, null if there is none. */
CUcontext current_context(void);

/* ------------------------------------------------------------------ memory */

typedef enum MemoryKind {
    MEMORY_DEVICE = 1,
    MEMORY_HOST,       /* cuMemHostAlloc */
    MEMORY_REGISTERED, /* memory of the program */
    MEMORY_MANAGED,
    MEMORY_VARIABLE, /* of a module */
    MEMORY_POOL,
    MEMORY_MAPPED /* virtual memory management */
} MemoryKind;

typedef struct Allocation {
    uint64_t address, size, reserved; /* `reserved`: bytes of the range that it occupies */
    uint64_t id;
    MemoryKind kind;
    int device;
    unsigned int flags;
    CUcontext context;
    void *owner; /* of kinds that have one: a pool, a physical handle */
    uint64_t place; /* where the program has allocated it, and when it is removed, where it has freed it */
    bool left;      /* removed because its context ends */
    int file;    /* of MEMORY_MAPPED: the descriptor of what is mapped, and 1 */
} Allocation;

/* Ranges of addresses of each device, and one for the host: reserved without memory. `arena_commit` gives a part memory. */
CUresult arena_reserve(int device, uint64_t size, uint64_t alignment, uint64_t *address);
bool arena_commit(uint64_t address, uint64_t size);
void arena_release(uint64_t address, uint64_t size);
/* Put the memory into a file that another process can map too; before the first reservation. The descriptor, or -1. */
int arena_share(void);
#define HOST_ARENA PTXLAB_MAX_DEVICES

/* The map of memory. With the lock held: */
Allocation *memory_find(uint64_t address);
Allocation *memory_add(Allocation made);
void memory_remove(Allocation *allocation);
/* Whether the program itself may access the memory there: memory of the host that the driver knows, or managed memory. */
bool is_host_memory(uint64_t address);
/* Whether an allocation, or null, is memory of the host that the driver knows. */
bool is_pinned(const Allocation *found);
/* Bytes of the allocations of an owner. */
uint64_t memory_owned(const void *owner);
/* Whether a range lies in memory that the driver knows; memory that follows without a gap counts. */
bool in_map(uint64_t address, uint64_t size);
/* Without the lock: */
/* Say that an operation reads or writes memory that does not exist. */
void report_no_memory(ReportKind kind, uint64_t address, uint64_t size);
CUresult memory_allocate(MemoryKind kind, int device, uint64_t size, uint64_t alignment, unsigned int flags, uint64_t *address);
CUresult memory_free(const char *function, uint64_t address, unsigned int kinds);
void memory_free_context(CUcontext context);
uint64_t memory_used(int device);
/* Give the memory of a range back, which is no longer in the map; `memory_release_freed` does what had to wait. */
void memory_release(uint64_t address, uint64_t size);
void memory_release_freed(void);
/* A range got the bytes at `from`, or others if that is 0: for a core that follows transfers. */
void note_transfer(uint64_t to, uint64_t from, uint64_t size);
#define KIND_BIT(kind) (1u << (kind))

/* An array: rows without gaps, in memory of the device whose address programs are not told. */
struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    uint64_t address, pitch, rows, slices;
};

/* ------------------------------------------------------------------ streams */

typedef struct Op Op;
typedef struct OpClass OpClass;
typedef struct Work Work;

/* A position in a stream: reached when `stream` has completed so many operations. */
typedef struct Position {
    struct CUstream_st *stream;
    uint64_t count;
} Position;

/* A kind of operation. All functions are called without the lock. */
struct OpClass {
    size_t size;
    bool at_once; /* is performed by the calling thread if nothing has to come before it */
    int node;     /* the type of the graph node that it becomes when it is captured */
    /* By the calling thread, when the operation is submitted to a stream; may be null. */
    CUresult (*prepare)(Op *op, CUstream stream);
    /* With the lock held, when its index in the stream is known; may be null. */
    void (*entered)(Op *op, CUstream stream);
    /* Do it. An error sticks to the context, but for INVALID_VALUE, which leaves memory and context as they are. */
    CUresult (*perform)(Op *op);
    /* Whether it may be performed now, null: always; called with the lock, again whenever something changes and every millisecond. */
    bool (*ready)(Op *op);
    /* An operation that is not performed because of an earlier error; may be null. */
    void (*cancel)(Op *op);
    /* Release what the operation holds, not itself; may be null. */
    void (*dispose)(Op *op);
    /* What a copy needs that holds something of its own; `made` is a bytewise copy; may be null. */
    bool (*copied)(Op *made, const Op *from);
    /* Give what it accesses, up to MOST_RANGES ranges, and for findings a name, null for that of the function; null for operations that
     * access no memory of the program. It returns false if the ranges are known when it has been performed (`ptxlab_accessed`). */
    bool (*describe)(const Op *op, AccessRange *ranges, uint32_t *count, const char **what);
    bool tells; /* when it is performed, the program knows that what comes before it is done */
};

/* What an operation of a class begins with. */
struct Op {
    const OpClass *class;
    Op *next;
    uint64_t index;  /* in the stream, from 1 */
    Position *after; /* what must be reached first, besides the operations before it */
    uint32_t after_count;
    Work *work; /* null if nothing needs to be known of its accesses */
};

struct CUstream_st {
    CUcontext context;
    struct CUstream_st *next; /* in the context */
    unsigned int flags;
    int priority;
    uint64_t id;
    bool legacy, destroyed, per_thread;
    uint32_t references;           /* its handle, its thread, and positions that are kept */
    Op *first, *last;              /* the operations that have not begun */
    uint64_t submitted, completed; /* numbers of operations */
    bool has_thread;
    bool running, stalled; /* whether its thread performs an operation, and whether that waits for something outside */
    Position *pending;     /* what the next operation waits for: events */
    uint32_t pending_count;
    CUstreamAttrValue attributes[16];
    void *capture; /* of graphs: not null while the stream captures */
    int capture_status;
    int slot; /* of clocks; negative: none was free */
    bool worked;
    Clock clock; /* what is done when its last operation is */
};

/* The stream that a handle stands for in the current context; null if there is none. */
CUstream stream_of(CUstream handle);
CUstream stream_new(CUcontext context, unsigned int flags, int priority);
/* Make a zeroed operation of a class; null without memory. */
void *op_new(const OpClass *class);
Op *op_copy(const Op *op);
void op_free(Op *op);
/* Submit an operation, which belongs to the stream from then on; it is captured if the stream captures. */
CUresult submit(CUstream stream, Op *op);
/* The same, and wait until it is done. */
CUresult submit_and_wait(CUstream stream, Op *op);
/* The same, and wait a short time, unless the operation waits for something else. */
CUresult submit_and_linger(CUstream stream, Op *op);
/* Wait for a position, for a stream, for a context; the error that sticks to the context. */
CUresult wait_for(Position position, CUcontext context);
/* Wait for something outside of this process, which is looked at again and again. */
CUresult wait_until(bool (*holds)(const void *), const void *data);
/* The same as `wait_for`, and note that the program knows what a clock says. */
CUresult wait_until_known(Position position, CUcontext context, const Clock *clock);
bool is_reached(Position position);
CUresult synchronize_stream(CUstream stream);
CUresult synchronize_context(CUcontext context);
/* What is in the stream now: the position after all of it. */
Position stream_position(CUstream stream);
/* Hold a stream for a position that is kept, with the lock held. */
void stream_keep(CUstream stream);
void stream_drop(CUstream stream);
/* The next operation of the stream waits for a position too. */
CUresult stream_wait_for(CUstream stream, Position position);
void stream_destroy(CUstream stream);

/* Graphs take operations of streams that capture here; null while there are none. */
extern CUresult (*capture_operation)(CUstream stream, Op *op);
extern CUresult (*capture_event_record)(CUstream stream, CUevent event);
extern CUresult (*capture_event_wait)(CUstream stream, CUevent event);

/* Calls that a capture forbids; they invalidate it. Of a stream that captures, of an event that was recorded in a capture, of a context
 * (no error if nothing captures), of any call that needs UNCAPTURED. */
CUresult capture_refuse(CUstream stream);
CUresult capture_refuse_event(CUevent event);
CUresult capture_refuse_context(CUcontext context);
CUresult capture_forbids(void);
/* The event is recorded outside of captures, or destroyed. */
void capture_forget_event(CUevent event);
/* The stream is destroyed. */
void capture_end_stream(CUstream stream);

struct CUevent_st {
    CUcontext context;
    unsigned int flags;
    uint32_t references; /* its handle, and operations that record it */
    Position position;   /* of the last record; no stream: it has not been recorded */
    uint64_t time;       /* when that was performed, in nanoseconds */
    uint64_t estimated;  /* what the launches before it would take */
    void *capture;       /* of graphs: the event was recorded in a stream that captures */
    Clock clock;         /* of the stream, when the event was recorded */
    struct SharedRecords *shared; /* of events for several processes */
    int file;                     /* with those records */
    uint64_t record;              /* which of them this process has made last */
};

CUevent event_new(unsigned int flags);
void event_drop(CUevent event);
CUresult event_record(CUevent event, CUstream stream);

/* Open a file that another process of the user has open (ipc.c); negative if it cannot be opened. */
int open_file_of(int32_t process, int32_t file);

/* Events that processes share: ipc_events.c. Make the records of an event, and give them up. */
bool event_share(CUevent event);
void event_unshare(CUevent event);
/* A record is submitted, which gets a number; the work before it is done. */
uint64_t event_share_record(CUevent event);
void event_share_completion(CUevent event, uint64_t record);
/* Whether the last record of an event is another process's, and what waits for it. */
bool is_recorded_elsewhere(CUevent event);
CUresult event_query_elsewhere(CUevent event);
CUresult event_wait_elsewhere(CUevent event);
CUresult event_stream_waits(CUstream stream, CUevent event);

/* ------------------------------------------------------------------ the order of work: order.c */

/* With the lock held: */
void order_begin_stream(CUstream stream);
void order_end_stream(CUstream stream);
void order_submitted(CUstream stream, Op *op, Work *work);
void order_wait(CUstream stream, const Clock *clock);
void order_stream_clock(CUstream stream, Clock *found);
void order_context_clock(CUcontext context, Clock *found);
/* The program knows that the work before a clock is done, because it has called a function that waits; null: a function of its own ran. */
void order_known(const Clock *clock, const char *function);
/* An operation is to be performed; it has been, or has been left out. */
void order_begins(Op *op);
void order_performed(Op *op);
/* Streams of a context are ordered by values in memory from now on: nothing is found of their order. */
void order_is_unknown(CUcontext context);
/* Memory begins to exist: what was there before is of no concern. */
void order_forget(uint64_t address, uint64_t size);
/* Without the lock: what an operation accesses, as far as that is of concern. */
Work *work_of(const Op *op, CUstream stream);
/* With the lock held. */
void work_drop(Work *work);
uint64_t work_place(const Work *work);
/* Without the lock: tell the core what has been found. */
void report_conflicts(void);
/* Where in the program this thread is: a number for the core, 0 if that is not known. */
uint64_t place_here(void);

/* ------------------------------------------------------------------ modules and launches */

typedef struct CUfunc_st Kernel;

struct CUfunc_st {
    struct CUmod_st *module;
    uint32_t index;
    bool known; /* whether `info` is filled */
    char *name;
    KernelInfo info;
};

/* An image of the core, which stays while launches use it: those of a graph may be made after the module has been unloaded. */
typedef struct Image {
    uint64_t id;
    uint32_t launches;
    struct Image *next; /* of those whose modules are unloaded */
} Image;

void image_keep(Image *image);
void image_drop(Image *image);

struct CUmod_st {
    CUcontext context; /* null for libraries */
    Image *image;
    uint32_t count;
    Kernel **kernels;
};

/* Find the information of a kernel, for a CUfunction or CUkernel. */
CUresult kernel_of(const void *handle, Kernel **kernel);
void module_unload_context(CUcontext context);

enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST, NODE_GRAPH, NODE_EMPTY, NODE_EVENT_WAIT, NODE_EVENT_RECORD, NODE_ALLOCATE = 10, NODE_RELEASE };

/* Operations for graphs and for other files. */
CUresult make_launch(Op **op, const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra);
/* What a launch was made from; `packed` are its parameters, which may be changed. */
void describe_launch(Op *op, CUDA_KERNEL_NODE_PARAMS *found, unsigned char **packed);
/* Set or get an attribute of a launch that has one: cluster, cooperative. False: it has no such attribute. */
bool launch_attribute(Op *op, CUlaunchAttributeID id, CUlaunchAttributeValue *value, bool set);
void describe_copy(const Op *op, CUDA_MEMCPY3D *found);
void describe_fill(const Op *op, CUDA_MEMSET_NODE_PARAMS *found);
void describe_host_call(const Op *op, CUDA_HOST_NODE_PARAMS *found);
CUresult make_copy(Op **op, const CUDA_MEMCPY3D *copy, CUcontext context);
CUresult make_fill(Op **op, uint64_t to, uint64_t pitch, unsigned int value, unsigned int element, uint64_t width, uint64_t height);
CUresult make_host_call(Op **op, CUhostFn function, void *data);

/* Whether all pages of a range are mapped; mapped memory may still not be readable. */
bool pages_are_mapped(uint64_t address, uint64_t size);
/* Copy memory of the program, of which only the address is known: false if it cannot be read. */
bool read_program(void *to, const void *from, size_t size);
/* Copy pieces of memory of the program, most of which lie on one page, to pairs of offset and size. */
bool read_pieces(unsigned char *to, const uint32_t *places, void *const *from, uint32_t count);

#endif
