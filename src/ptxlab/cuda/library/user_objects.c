/* User objects: resources of the program with a count of references, which graphs hold as long as they exist. */
#include <stdlib.h>

#include "graph.h"

enum { NO_DESTRUCTOR_SYNC = 1, MOVE = 1 };

struct CUuserObject_st {
    CUhostFn destroy;
    void *data;
    uint64_t references;
};

/* References that a graph holds. */
typedef struct Held {
    struct Held *next;
    CUuserObject object;
    uint64_t count;
} Held;

static bool is_object(CUuserObject object) { return handle_is(object, HANDLE_USER_OBJECT); }

/* The last reference destroys the object, outside of the lock. */
static void release(CUuserObject object, uint64_t count)
{
    lock();
    object->references -= count;
    bool ended = !object->references;
    unlock();
    if (!ended)
        return;
    struct CUuserObject_st gone = *object;
    handle_free(object);
    gone.destroy(gone.data);
}

CUresult ptxlab_cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned int count, unsigned int flags)
{
    if (!object || !destroy || !count || flags != NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject made = handle_new(HANDLE_USER_OBJECT, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct CUuserObject_st){destroy, data, count};
    *object = made;
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    if (!is_object(object) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    lock();
    object->references += count;
    unlock();
    return CUDA_SUCCESS;
}

CUresult ptxlab_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    if (!is_object(object) || !count || count > object->references)
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

static Held **held_of(CUgraph graph, CUuserObject object)
{
    Held **at = &graph->held;
    while (*at && (*at)->object != object)
        at = &(*at)->next;
    return at;
}

static bool hold(CUgraph graph, CUuserObject object, uint64_t count)
{
    Held **at = held_of(graph, object);
    if (!*at && !(*at = calloc(1, sizeof **at)))
        return false;
    (*at)->object = object;
    (*at)->count += count;
    return true;
}

CUresult ptxlab_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    if (!graph_of(graph) || !is_object(object) || !count || flags & ~(unsigned)MOVE || (flags & MOVE && count > object->references))
        return CUDA_ERROR_INVALID_VALUE;
    if (!hold(graph, object, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return flags & MOVE ? CUDA_SUCCESS : ptxlab_cuUserObjectRetain(object, count);
}

CUresult ptxlab_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    if (!graph_of(graph) || !is_object(object) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    Held **at = held_of(graph, object), *found = *at;
    if (!found || found->count < count)
        return CUDA_ERROR_INVALID_VALUE;
    found->count -= count;
    if (!found->count) {
        *at = found->next;
        free(found);
    }
    release(object, count);
    return CUDA_SUCCESS;
}

bool graph_copy_objects(CUgraph to, CUgraph from)
{
    for (Held *each = from->held; each; each = each->next) {
        if (!hold(to, each->object, each->count))
            return false;
        lock();
        each->object->references += each->count;
        unlock();
    }
    return true;
}

void graph_drop_objects(CUgraph graph)
{
    while (graph->held) {
        Held *first = graph->held;
        graph->held = first->next;
        release(first->object, first->count);
        free(first);
    }
}
