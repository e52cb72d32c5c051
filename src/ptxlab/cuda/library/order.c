/* The order of work: for each stream, each event and the program a clock, which says how much of each stream has been done before.
 *
 * Work that neither a stream, nor an event, nor a wait of the program orders may run at the same time on a GPU, in whatever order it ran
 * here. Two pieces of such work that access the same bytes, one of them to write, are a finding. All threads of the program count as one:
 * what one of them has waited for is done for all. */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 64, MOST_CONFLICTS = 64 };

static uint64_t numbers[ORDER_SLOTS]; /* of the last operation of each slot */
static bool taken[ORDER_SLOTS];
static int existing, working;         /* streams with a slot; those of them that have had operations */
static Clock program;                 /* what the program has waited for */
static Work *kept[ORDER_SLOTS][KEPT]; /* by slot, work by its number modulo KEPT */

/* Findings that the core has not been told of: while launches go on whose accesses are not known, they may turn out to order streams. */
static struct {
    Conflict found;
    CUcontext context;
} conflicts[MOST_CONFLICTS];
static _Atomic uint32_t conflict_count;
static uint32_t going_on; /* such launches */

/* ------------------------------------------------------------------ clocks */

static void join(Clock *into, const Clock *other)
{
    for (int i = 0; i < ORDER_SLOTS; i++)
        if (other->done[i] > into->done[i])
            into->done[i] = other->done[i];
}

void order_begin_stream(CUstream stream)
{
    stream->slot = -1;
    for (int i = 0; i < ORDER_SLOTS && stream->slot < 0; i++)
        if (!taken[i])
            stream->slot = i;
    if (stream->slot < 0)
        return;
    taken[stream->slot] = true;
    existing++;
    stream->clock.done[stream->slot] = numbers[stream->slot];
}

void order_end_stream(CUstream stream)
{
    join(&stream->context->gone, &stream->clock);
    if (stream->slot < 0)
        return;
    taken[stream->slot] = false;
    existing--;
    working -= stream->worked;
    stream->slot = -1;
}

/* The default stream comes after all blocking streams. */
static void join_blocking(Clock *into, CUcontext context)
{
    join(into, &context->gone);
    for (CUstream other = context->streams; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING))
            join(into, &other->clock);
}

void order_wait(CUstream stream, const Clock *clock) { join(&stream->clock, clock); }

void order_stream_clock(CUstream stream, Clock *found)
{
    *found = stream->clock;
    if (stream->legacy)
        join_blocking(found, stream->context);
}

void order_context_clock(CUcontext context, Clock *found)
{
    *found = context->gone;
    for (CUstream stream = context->streams; stream; stream = stream->next)
        join(found, &stream->clock);
}

void order_is_unknown(CUcontext context) { context->unordered = true; }

void order_known(const Clock *clock, const char *function)
{
    host_memory_check(clock, function);
    join(&program, clock);
}

/* ------------------------------------------------------------------ work */

bool overlaps(const AccessRange *one, const AccessRange *other) { return one->low < other->high && other->low < one->high; }

static bool is_before(const Work *one, const Work *other) { return other->clock.done[one->slot] >= one->number; }

void work_drop(Work *work)
{
    if (!work || --work->references)
        return;
    free(work->ranges);
    free(work);
}

uint64_t work_place(const Work *work) { return work->place; }

void work_each(void (*visit)(Work *work, void *data), void *data)
{
    for (int slot = 0; slot < ORDER_SLOTS; slot++)
        for (uint64_t i = 0; i < KEPT && i < numbers[slot]; i++) {
            Work *work = kept[slot][(numbers[slot] - i) % KEPT];
            if (work && work->number == numbers[slot] - i)
                visit(work, data);
        }
}

static void set_ranges(Work *work, const AccessRange *ranges, uint32_t count)
{
    work->known = true;
    work->low = UINT64_MAX;
    work->high = 0;
    work->ranges = count ? malloc(count * sizeof *ranges) : NULL;
    for (uint32_t i = 0; work->ranges && i < count; i++) {
        work->ranges[work->count++] = ranges[i];
        work->low = ranges[i].low < work->low ? ranges[i].low : work->low;
        work->high = ranges[i].high > work->high ? ranges[i].high : work->high;
        work->orders |= (ranges[i].how & ACCESS_ORDERS) != 0;
    }
}

Work *work_of(const Op *op, CUstream stream)
{
    if (!op->class->describe || stream->slot < 0)
        return NULL;
    Work *work = calloc(1, sizeof *work);
    if (!work)
        return NULL;
    AccessRange ranges[MOST_RANGES];
    uint32_t count = 0;
    const char *what = NULL;
    work->references = 1;
    if (op->class->describe(op, ranges, &count, &what))
        set_ranges(work, ranges, count);
    const char *function = this_thread()->function;
    if (what)
        snprintf(work->what, sizeof work->what, "kernel %s", what);
    else
        memccpy(work->what, function ? function : "an operation", 0, sizeof work->what - 1);
    work->place = place_here();
    return work;
}

/* Whether two accesses must not happen at the same time. Accesses by which threads order each other are meant to; so are two strong ones, and a
 * strong read beside something else. */
static bool conflict(uint32_t one, uint32_t other)
{
    uint32_t how = ACCESS_WRITE | ACCESS_STRONG;
    return (one | other) & ACCESS_WRITE && !((one | other) & ACCESS_ORDERS) && !(one & other & ACCESS_STRONG) &&
           (one & how) != ACCESS_STRONG && (other & how) != ACCESS_STRONG;
}

/* Compare work with other work that nothing orders. Ranges are sorted by their first bytes. */
static void compare(Work *work, Work *other)
{
    const AccessRange *first = NULL, *second = NULL;
    bool both_order = work->orders && other->orders;
    for (uint32_t i = 0, from = 0; i < work->count && (!first || both_order); i++) {
        const AccessRange *own = &work->ranges[i];
        while (from < other->count && other->ranges[from].high <= own->low)
            from++;
        for (uint32_t j = from; j < other->count && other->ranges[j].low < own->high; j++) {
            const AccessRange *there = &other->ranges[j];
            if (!overlaps(own, there))
                continue;
            if (own->how & there->how & ACCESS_ORDERS && (own->how | there->how) & ACCESS_WRITE) {
                work->context->unordered = other->context->unordered = true;
                return;
            }
            if (!first && conflict(own->how, there->how)) {
                first = there;
                second = own;
            }
        }
    }
    if (!first)
        return;
    uint64_t low = first->low > second->low ? first->low : second->low;
    uint64_t high = first->high < second->high ? first->high : second->high;
    bool writes = first->how & ACCESS_WRITE, writes_too = second->how & ACCESS_WRITE;
    conflict_note(writes && writes_too ? CONFLICT_WRITES : writes ? CONFLICT_READS : CONFLICT_OVERWRITES, other, work, NULL, low, high - low);
}

/* Compare work, whose ranges are known now, with all other work. */
static void compare_all(Work *work)
{
    if (!work->count)
        return;
    for (int slot = 0; slot < ORDER_SLOTS; slot++)
        for (uint64_t i = 0; slot != work->slot && i < KEPT && i < numbers[slot]; i++) {
            Work *other = kept[slot][(numbers[slot] - i) % KEPT];
            if (!other || other->number != numbers[slot] - i)
                continue;
            if (is_before(other, work))
                break;
            if (!handle_is(other->context, HANDLE_CONTEXT))
                continue;
            if (work->context->unordered || other->context->unordered)
                return;
            if (other->known && other->low < work->high && work->low < other->high && !is_before(work, other))
                compare(work, other);
        }
}

void order_submitted(CUstream stream, Op *op, Work *work)
{
    if (stream->slot < 0)
        return;
    join(&stream->clock, &program);
    if (stream->legacy)
        join_blocking(&stream->clock, stream->context);
    else if (!(stream->flags & CU_STREAM_NON_BLOCKING))
        join(&stream->clock, &stream->context->legacy->clock);
    working += !stream->worked;
    stream->worked = true;
    uint64_t number = stream->clock.done[stream->slot] = ++numbers[stream->slot];
    if (!work)
        return;
    work->clock = stream->clock;
    work->slot = stream->slot;
    work->number = number;
    work->context = stream->context;
    work->stream = stream->id;
    op->work = work;
    Work **place = &kept[work->slot][number % KEPT];
    if (*place)
        host_memory_forget(*place);
    work_drop(*place);
    *place = work;
    work->references++;
    if (work->known)
        compare_all(work);
    else
        going_on++;
}

void order_begins(Op *op)
{
    if (op->work && op->class->tells)
        order_known(&op->work->clock, NULL);
}

void order_performed(Op *op)
{
    Work *work = op->work;
    if (!work)
        return;
    host_memory_written(work->known ? work : NULL);
    going_on -= !work->known;
    work->known = work->performed = true;
    host_memory_watch(work);
}

EXPORT int ptxlab_order_is_wanted(void)
{
    lock();
    Op *op = this_thread()->performing;
    CUstream stream = this_thread()->running;
    bool others = working > 1 || existing > 2 || (stream && stream->flags & CU_STREAM_NON_BLOCKING);
    bool wanted = op && op->work && !op->work->context->unordered && (others || host_memory_is_watched());
    unlock();
    return wanted;
}

EXPORT void ptxlab_accessed(const AccessRange *ranges, uint32_t count)
{
    lock();
    Op *op = this_thread()->performing;
    Work *work = op ? op->work : NULL;
    if (work && !work->known) {
        bool tells = false;
        going_on--;
        set_ranges(work, ranges, count < MOST_RANGES ? count : MOST_RANGES);
        for (uint32_t i = 0; i < work->count; i++) {
            bool host = is_host_memory(work->ranges[i].low);
            work->ranges[i].how |= host ? ACCESS_HOST : 0;
            tells |= host && work->ranges[i].how & ACCESS_WRITE;
        }
        compare_all(work);
        if (tells) { /* the program may have seen that the kernel has written, and have gone on */
            host_memory_written(NULL);
            join(&program, &work->clock);
        }
    }
    unlock();
}

/* ------------------------------------------------------------------ memory */

static void forget(Work *work, void *data)
{
    const AccessRange *made = data;
    for (uint32_t i = 0; work->known && i < work->count; i++)
        if (overlaps(&work->ranges[i], made))
            work->ranges[i] = (AccessRange){0};
}

void order_forget(uint64_t address, uint64_t size)
{
    AccessRange made = {address, address + size, 0, 0};
    work_each(forget, &made);
}

/* ------------------------------------------------------------------ findings */

void conflict_note(ConflictKind kind, const Work *first, const Work *second, const char *function, uint64_t address, uint64_t size)
{
    if (conflict_count == MOST_CONFLICTS)
        return;
    conflicts[conflict_count].context = first->context;
    Conflict *made = &conflicts[conflict_count++].found;
    *made = (Conflict){.kind = kind, .address = address, .size = size, .places = {first->place}, .streams = {first->stream}};
    snprintf(made->what[0], sizeof made->what[0], "%s", first->what);
    snprintf(made->what[1], sizeof made->what[1], "%s", second ? second->what : function ? function : "a function of the program in a stream");
    if (second) {
        made->places[1] = second->place;
        made->streams[1] = second->stream;
    }
}

void report_conflicts(void)
{
    while (conflict_count) {
        Conflict found = {0};
        lock();
        bool wait = going_on > 0;
        if (!wait && conflict_count) {
            CUcontext context = conflicts[--conflict_count].context;
            if (handle_is(context, HANDLE_CONTEXT) && !context->unordered)
                found = conflicts[conflict_count].found;
        }
        unlock();
        if (wait)
            return;
        if (found.kind == CONFLICT_HOST_WRITES)
            found.places[1] = place_here();
        if (found.kind && driver.core.report_conflict)
            driver.core.report_conflict(&found);
    }
}
