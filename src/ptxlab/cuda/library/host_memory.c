/* Memory of the host that work uses: the program must not change it before it has waited for the work.
 *
 * When work has been performed, a digest is made of what it has read from memory of the host or written there. When the program has waited
 * for the work, the bytes are compared with it. Memory that other work writes in between is not compared. */
#include <string.h>

#include "order.h"

enum { PIECE = 16384, WORD = sizeof(uint64_t), LANES = 4 };

static uint32_t watched;

static bool uses_host(const Work *work)
{
    bool host = false, ordinary = true;
    for (uint32_t i = 0; i < work->count; i++) {
        bool here = work->ranges[i].how & ACCESS_HOST;
        host |= here;
        /* A kernel that looks at memory of the host with strong accesses waits for the program to change it. */
        ordinary &= !here || !(work->ranges[i].how & (ACCESS_STRONG | ACCESS_ORDERS));
    }
    return host && ordinary;
}

/* Read memory of the host. What the driver has allocated cannot vanish; the program owns what it has registered. */
static bool read_host(uint64_t *words, uint64_t at, uint64_t size)
{
    const Allocation *found = memory_find(at);
    if (!found || found->kind == MEMORY_REGISTERED || found->address + found->size - at < size)
        return read_program(words, (const void *)at, size);
    memcpy(words, (const void *)at, size);
    return true;
}

static uint64_t mix(uint64_t sum, uint64_t word) { return (sum ^ word) * 0x9E3779B97F4A7C15u + (sum >> 29); }

/* Several sums, so that none waits for another. False if the memory is no longer there. */
static bool digest_of(const Work *work, uint64_t *digest)
{
    uint64_t words[PIECE / WORD], sums[LANES] = {0, 1, 2, 3};
    for (uint32_t i = 0; i < work->count; i++) {
        if (!(work->ranges[i].how & ACCESS_HOST))
            continue;
        for (uint64_t at = work->ranges[i].low; at < work->ranges[i].high; at += PIECE) {
            uint64_t left = work->ranges[i].high - at, size = left < PIECE ? left : PIECE;
            uint64_t count = (size + LANES * WORD - 1) / (LANES * WORD) * LANES;
            memset(&words[count - LANES], 0, LANES * WORD);
            if (!read_host(words, at, size))
                return false;
            for (uint64_t i = 0; i < count; i += LANES)
                for (uint64_t lane = 0; lane < LANES; lane++)
                    sums[lane] = mix(sums[lane], words[i + lane]);
        }
    }
    *digest = mix(mix(sums[0], sums[1]), mix(sums[2], sums[3]));
    return true;
}

bool host_memory_is_watched(void) { return watched > 0; }

void host_memory_forget(Work *work)
{
    watched -= work->watched;
    work->watched = false;
}

void host_memory_watch(Work *work)
{
    if (!uses_host(work))
        return;
    work->watched = digest_of(work, &work->digest);
    watched += work->watched;
}

/* ------------------------------------------------------------------ what ends that */

static void stop_overlapping(Work *work, void *data)
{
    const Work *writer = data;
    if (!work->watched || work == writer)
        return;
    if (!writer) {
        host_memory_forget(work);
        return;
    }
    for (uint32_t i = 0; i < writer->count && work->watched; i++)
        for (uint32_t j = 0; j < work->count && writer->ranges[i].how & ACCESS_WRITE && work->watched; j++)
            if (overlaps(&writer->ranges[i], &work->ranges[j]))
                host_memory_forget(work);
}

/* Work writes, which is null if nothing is known of it. */
void host_memory_written(const Work *work)
{
    if (watched)
        work_each(stop_overlapping, (void *)(uintptr_t)work);
}

typedef struct Check {
    const Clock *known;
    const char *function;
    bool running; /* work that may write to memory of the host now */
} Check;

static void find_running(Work *work, void *data)
{
    Check *check = data;
    check->running |= !work->performed && !work->known;
    for (uint32_t i = 0; i < work->count && !work->performed && !check->running; i++)
        check->running = (work->ranges[i].how & (ACCESS_HOST | ACCESS_WRITE)) == (ACCESS_HOST | ACCESS_WRITE);
}

static void compare(Work *work, void *data)
{
    const Check *check = data;
    uint64_t digest;
    if (!work->watched || check->known->done[work->slot] < work->number)
        return;
    host_memory_forget(work);
    if (check->running || !digest_of(work, &digest) || digest == work->digest)
        return;
    const AccessRange *range = work->ranges;
    while (!(range->how & ACCESS_HOST))
        range++;
    conflict_note(CONFLICT_HOST_WRITES, work, NULL, check->function, range->low, range->high - range->low);
}

void host_memory_check(const Clock *known, const char *function)
{
    Check check = {known, function, false};
    if (!watched)
        return;
    work_each(find_running, &check);
    work_each(compare, &check);
}
