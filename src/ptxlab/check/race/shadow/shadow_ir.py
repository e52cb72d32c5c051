"""The compiled part of the sanitizer: the last accesses to each granule of memory, and whether a new access may follow them.

A granule is 32 bytes of shared or global memory, or 32 lanes of one column of tensor memory. Its cell holds a few entries. An entry is one
access, in two words: ``slot << 32 | clock`` and ``op | bytes << 24 | (kind << 1 | write) << 56``. A new access that is ordered after an
entry, and conflicts with everything that the entry conflicts with, replaces the entry for the bytes that both access. An entry without
bytes is removed. So the entries that remain are concurrent. `Shadow` allocates the tables.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.check.race.shadow.shadow_words import (
    BEFORE,
    CLUSTER_SHIFT,
    CONCURRENT,
    EQUAL,
    FORMAL,
    HOW_SHIFT,
    NEAR,
    OBJECT_WORDS,
    StateWord,
)
from ptxlab.engine.support.accesses import rows_up_to
from ptxlab.native.builder import Function, Module, Value, Variable

__all__ = ["emit_shadow"]


def emit_shadow(module: Module) -> None:
    """Emit ``find`` and ``visit``, which other functions call; ``visit`` calls ``suspect`` (`emit_suspects`)."""
    _find(module)
    _visit(module)


def _find(module: Module) -> None:
    """``ptr find(state, address)``: the object that a host address lies in, or null."""
    c = Function(module, "find", "ptr", "ptr state, i64 address", internal=True)
    state, address = c.parameters
    objects = state.pointer(StateWord.OBJECTS)
    last = objects.at(state.word(StateWord.LAST) * (8 * OBJECT_WORDS))
    with c.when((address - last.load("i64")).ult(last.load("i64", 1))):
        c.ret(last)
    after = rows_up_to(objects, 8 * OBJECT_WORDS, state.word(StateWord.OBJECT_COUNT), address)
    with c.when(after.ne(0)):
        row = objects.at((after - 1) * (8 * OBJECT_WORDS))
        with c.when((address - row.load("i64")).ult(row.load("i64", 1))):
            state.set_word(StateWord.LAST, after - 1)
            c.ret(row)
    c.ret(0)


def _visit(module: Module) -> None:
    """``void visit(state, cell, further, entries, who, what, async, place)``: one access to one granule.

    ``further`` is the address that entry 0 would have among the further entries. Entries in use come first. The entries that the access
    replaces are removed.
    """
    parameters = "ptr state, ptr cell, ptr further, i64 entries, i64 who, i64 what, i64 proxy, i64 place"
    c = Function(module, "visit", "void", parameters, internal=True)
    state, cell, further, entries, who, what, proxy, place = c.parameters

    def entry_at(index: Value) -> Value:
        return index.ult(NEAR).select(cell, further).at(index << 4)

    mask, how = (what >> 24) & 0xFFFFFFFF, (what >> HOW_SHIFT) & 31
    _repeated(c, cell, who, mask, how)
    at, kept = c.variable("i64", 0), c.variable("i64", 0)
    merged, read, rest = c.variable("i64", 0), c.variable("i64", -1), c.variable("i64", 0)
    head, body, done = c.label("next"), c.label("entry"), c.label("done")
    c.jump(head)
    c.begin(head)
    i = at.get()
    within = c.label("within")
    c.branch(i.ult(entries), within, done)
    c.begin(within)
    entry = entry_at(i)
    held = entry.load("i64", 1)
    c.branch(held.ne(0), body, done)
    c.begin(body)
    at.set(i + 1)
    whose = entry.load("i64")
    held_how, held_mask = (held >> HOW_SHIFT) & 31, (held >> 24) & 0xFFFFFFFF
    with c.when(whose.eq(who) & held_how.eq(how)) as otherwise:
        merged.set(1)
        _keep(c, entry_at, kept, whose, held | (mask << 24))
        otherwise()
        rest.set(held)
        with c.when((held_mask & mask).ne(0)):
            replaced = _judge(c, state, (whose, held), (who, what), proxy, place)
            rest.set(replaced.select(held & ~(mask << 24), held))
            remains = c.label()
            c.branch(replaced & (held_mask & ~mask).eq(0), head, remains)
            c.begin(remains)
        with c.when((held_how & 1).eq(0)):
            read.set(kept.get())
        _keep(c, entry_at, kept, whose, rest.get())
    c.jump(head)
    c.begin(done)
    used = kept.get()
    with c.when(merged.get().eq(0)):
        evicted = read.get()
        full = evicted.ge(0).select(evicted, 0)
        victim = entry_at(used.ult(entries).select(used, full))
        victim.store(who)
        victim.store(what, 1)
        kept.set(used.ult(entries).select(used + 1, used))
    last, first = at.get(), kept.get()
    with c.when(first.ult(last)), c.loop(last - first) as k:
        unused = entry_at(first + k)
        for word in (0, 1):
            unused.set_word(word, 0)


def _repeated(c: Function, cell: Value, who: Value, mask: Value, how: Value) -> None:
    """Return at once if the only entry is the same access: an accumulator is written repeatedly with no other access in between."""
    held = cell.load("i64", 1)
    same = cell.load("i64").eq(who) & ((held >> HOW_SHIFT) & 31).eq(how) & (mask & ~(held >> 24)).eq(0)
    with c.when(same & cell.load("i64", 3).eq(0)):
        c.ret()


def _keep(c: Function, entry_at: Callable[[Value], Value], kept: Variable, whose: Value, held: Value) -> None:
    """Store an entry after those that remain."""
    j = kept.get()
    place = entry_at(j)
    place.store(whose)
    place.store(held, 1)
    kept.set(j + 1)


def _judge(c: Function, state: Value, earlier: tuple[Value, Value], later: tuple[Value, Value], proxy: Value, place: Value) -> Value:
    """Report two accesses to the same bytes if they may not be concurrent; return whether the later one replaces the earlier one there."""
    (whose, held), (who, what) = earlier, later
    rows, width, cluster = state.pointer(StateWord.ROWS), state.word(StateWord.WIDTH), state.word(StateWord.CLUSTER)
    how, held_how = (what >> HOW_SHIFT) & 31, (held >> HOW_SHIFT) & 31
    found = state.pointer(StateWord.RULES).load("i8", (held_how << 5) | how).to("i64")
    slot, clock = whose >> 32, whose & 0xFFFFFFFF
    whole = slot >> CLUSTER_SHIFT
    ours = whole.eq(cluster) | whole.eq(BEFORE)
    wanted = (found >> 1) & 3
    row = wanted.eq(1).select(proxy, wanted)
    base = ours.select(row * width + (slot & ((1 << CLUSTER_SHIFT) - 1)), 0)
    reached = rows.load("i32", base + (found & 1)).to("i64")
    performed = ours & rows.load("i32", base).to("i64").uge(clock)
    ordered = ours & reached.uge(clock)
    conflict = (found & 128).ne(0)
    with c.when(conflict & ~ordered):
        c.call("suspect", "void", state, whose, held, who, what, place, c.const("i64", CONCURRENT))
    with c.when((found & 16).ne(0) & ~ordered):
        c.call("suspect", "void", state, whose, held, who, what, place, c.const("i64", EQUAL))
    with c.when(conflict & ordered & (found & 8).ne(0) & ~performed):
        c.call("suspect", "void", state, whose, held, who, what, place, c.const("i64", FORMAL))
    # A slot numbers accesses that one agent makes in order: a later number of the same slot and kind replaces an earlier one.
    own = (whose >> 32).eq(who >> 32) & held_how.eq(how)
    return (found & 64).ne(0) & (performed | own | conflict)
