/* Ranges of addresses: one for each device and one for the host, reserved at once and given memory piece by piece.
 *
 * A device address is the address of the host memory behind it. Addresses are used again only when a range has been used to its end, so
 * that an access to freed memory is recognised. */
#include <sys/mman.h>
#include <stdlib.h>

#include "internal.h"

#define PAGE 4096u
#define GUARD 65536u
#define FIRST_BASE 0x100000000000u
#define LARGEST_RANGE (4ull << 40)
#define SMALLEST_RANGE (1ull << 30)

typedef struct Gap {
    uint64_t address, size;
} Gap;

typedef struct Arena {
    uint64_t base, size, next;
    Gap *gaps; /* released ranges, by address */
    size_t count, capacity;
} Arena;

static Arena arenas[PTXLAB_MAX_DEVICES + 1];

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static bool start(Arena *arena, int index)
{
    for (uint64_t size = LARGEST_RANGE; size >= SMALLEST_RANGE; size /= 2) {
        void *wanted = (void *)(FIRST_BASE + (uint64_t)index * LARGEST_RANGE);
        void *found = mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found != MAP_FAILED) {
            *arena = (Arena){.base = (uint64_t)found, .size = size, .next = round_up((uint64_t)found, 2u << 20)};
            return true;
        }
    }
    return false;
}

static uint64_t from_gaps(Arena *arena, uint64_t size, uint64_t alignment)
{
    for (size_t i = 0; i < arena->count; i++) {
        Gap *gap = &arena->gaps[i];
        uint64_t at = round_up(gap->address, alignment);
        if (at + size > gap->address + gap->size)
            continue;
        Gap after = {at + size, gap->address + gap->size - at - size};
        gap->size = at - gap->address;
        if (!gap->size)
            *gap = after;
        else if (after.size && arena->count < arena->capacity) {
            for (size_t j = arena->count++; j > i + 1; j--)
                arena->gaps[j] = arena->gaps[j - 1];
            arena->gaps[i + 1] = after;
        }
        return at;
    }
    return 0;
}

CUresult arena_reserve(int device, uint64_t size, uint64_t alignment, uint64_t *address)
{
    Arena *arena = &arenas[device];
    alignment = alignment < PAGE ? PAGE : alignment;
    if (size > LARGEST_RANGE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size = round_up(size, PAGE) + GUARD;
    lock();
    CUresult result = arena->size || start(arena, device) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        uint64_t at = round_up(arena->next, alignment);
        if (at + size <= arena->base + arena->size)
            arena->next = at + size;
        else
            at = from_gaps(arena, size, alignment);
        *address = at;
        result = at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    unlock();
    return result;
}

bool arena_commit(uint64_t address, uint64_t size)
{
    return mprotect((void *)address, round_up(size, PAGE), PROT_READ | PROT_WRITE) == 0;
}

void arena_release(uint64_t address, uint64_t size)
{
    size = round_up(size, PAGE);
    /* A new mapping gives the memory back and makes accesses fault. */
    mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    lock();
    for (int i = 0; i <= PTXLAB_MAX_DEVICES; i++) {
        Arena *arena = &arenas[i];
        if (address < arena->base || address >= arena->base + arena->size)
            continue;
        if (arena->count == arena->capacity) {
            size_t wanted = arena->capacity ? 2 * arena->capacity : 64;
            Gap *grown = realloc(arena->gaps, wanted * sizeof *grown);
            if (!grown)
                break; /* the range is not used again */
            arena->gaps = grown;
            arena->capacity = wanted;
        }
        size_t at = arena->count++;
        while (at && arena->gaps[at - 1].address > address) {
            arena->gaps[at] = arena->gaps[at - 1];
            at--;
        }
        arena->gaps[at] = (Gap){address, size + GUARD};
        if (at && arena->gaps[at - 1].address + arena->gaps[at - 1].size == address) {
            arena->gaps[at - 1].size += arena->gaps[at].size;
            for (size_t j = at; j + 1 < arena->count; j++)
                arena->gaps[j] = arena->gaps[j + 1];
            arena->count--;
        }
    }
    unlock();
}
