/* Handles: a table of all that exist, so that a wrong or dangling one is recognised without touching its memory. */
#include <stdlib.h>

#include "internal.h"

typedef struct Slot {
    uintptr_t handle; /* 0: never used, 1: freed */
    HandleType type;
} Slot;

static pthread_rwlock_t guard = PTHREAD_RWLOCK_INITIALIZER;
static Slot *slots;
static size_t capacity, used; /* `used` counts freed slots too */

static size_t place(uintptr_t handle) { return (handle >> 4) * 0x9E3779B97F4A7C15u >> 20; }

static Slot *find(uintptr_t handle)
{
    if (handle <= 1 || !capacity)
        return NULL;
    for (size_t i = place(handle);; i++) {
        Slot *slot = &slots[i & (capacity - 1)];
        if (slot->handle == handle)
            return slot;
        if (!slot->handle)
            return NULL;
    }
}

static void enter(uintptr_t handle, HandleType type)
{
    size_t i = place(handle);
    while (slots[i & (capacity - 1)].handle > 1)
        i++;
    used += !slots[i & (capacity - 1)].handle;
    slots[i & (capacity - 1)] = (Slot){handle, type};
}

static bool grow(void)
{
    size_t before = capacity, live = 0;
    Slot *old = slots;
    for (size_t i = 0; i < before; i++)
        live += old[i].handle > 1;
    size_t wanted = 1024;
    while (wanted < 4 * live)
        wanted *= 2;
    Slot *made = calloc(wanted, sizeof *made);
    if (!made)
        return false;
    slots = made;
    capacity = wanted;
    used = 0;
    for (size_t i = 0; i < before; i++)
        if (old[i].handle > 1)
            enter(old[i].handle, old[i].type);
    free(old);
    return true;
}

void *handle_new(HandleType type, size_t size)
{
    void *made = calloc(1, size);
    if (!made)
        return NULL;
    pthread_rwlock_wrlock(&guard);
    bool room = 2 * used < capacity || grow();
    if (room)
        enter((uintptr_t)made, type);
    pthread_rwlock_unlock(&guard);
    if (!room) {
        free(made);
        return NULL;
    }
    return made;
}

bool handle_is(const void *handle, HandleType type)
{
    pthread_rwlock_rdlock(&guard);
    Slot *slot = find((uintptr_t)handle);
    bool is = slot && slot->type == type;
    pthread_rwlock_unlock(&guard);
    return is;
}

void handle_forget(void *handle)
{
    pthread_rwlock_wrlock(&guard);
    Slot *slot = find((uintptr_t)handle);
    if (slot)
        *slot = (Slot){1, HANDLE_NONE};
    pthread_rwlock_unlock(&guard);
}

void handle_free(void *handle)
{
    handle_forget(handle);
    free(handle);
}

void handle_each(HandleType type, void (*visit)(void *handle, void *data), void *data)
{
    pthread_rwlock_rdlock(&guard);
    for (size_t i = 0; i < capacity; i++)
        if (slots[i].handle > 1 && slots[i].type == type)
            visit((void *)slots[i].handle, data);
    pthread_rwlock_unlock(&guard);
}
