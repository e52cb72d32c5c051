/* The order of work, as streams, events and waits of the program give it, and the memory that work accesses. */
#ifndef PTXLAB_ORDER_H
#define PTXLAB_ORDER_H

#include "internal.h"

/* How memory is accessed. STRONG: by strong operations of a kernel only; ORDERS: by such with which threads order each other;
 * HOST: memory of the host, or managed memory. */
enum { ACCESS_WRITE = 1, ACCESS_STRONG = 2, ACCESS_ORDERS = 4, ACCESS_HOST = 8 };
enum { MOST_RANGES = 4096 };

/* What an operation accesses, and where the program has submitted it. */
struct Work {
    Clock clock; /* what has been done when it begins, and itself */
    uint32_t references;
    int slot;
    uint64_t number; /* in the clocks of its slot */
    CUcontext context;
    uint64_t stream, place;
    char what[96];
    bool known;  /* whether the ranges are known: those of a launch are when it has ended */
    bool orders; /* whether some have ACCESS_ORDERS */
    bool performed;
    uint32_t count;
    AccessRange *ranges;
    uint64_t low, high; /* all ranges lie between */
    bool watched;
    uint64_t digest; /* of the memory of the host that it accesses, as the work has left it */
};

/* With the lock held: call a function for the work that is remembered, the newest of each stream first. */
void work_each(void (*visit)(Work *work, void *data), void *data);
/* With the lock held: a finding, which `report_conflicts` tells the core; `second` may be null. */
void conflict_note(ConflictKind kind, const Work *first, const Work *second, const char *function, uint64_t address, uint64_t size);
bool overlaps(const AccessRange *one, const AccessRange *other);

/* Memory of the host that work uses, in host_memory.c. With the lock held: the work is done; the program has waited for what a clock says;
 * other work writes. */
void host_memory_watch(Work *work);
void host_memory_check(const Clock *known, const char *function);
void host_memory_written(const Work *work);
void host_memory_forget(Work *work);
bool host_memory_is_watched(void);

#endif
