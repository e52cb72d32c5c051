"""The compiled part of the sanitizer: what was last done to each granule of memory, and whether an access may follow it.

A granule is 32 bytes of shared or global memory, or 32 lanes of one column of tensor memory. Its cell holds a few entries, each one access:
two words, ``slot << 32 | clock`` and ``op | bytes << 24 | (kind << 1 | write) << 56``. An entry loses the bytes that a new access which
follows it in order stands for, and goes with the last one, so that those which stay are concurrent. Everything works on tables that
`Shadow` lays out.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from ptxlab.check.model import Row
from ptxlab.engine.llvm.builder import Code, Unit, Value

__all__ = [
    "BEFORE",
    "CLUSTER_SHIFT",
    "CONCURRENT",
    "FORMAL",
    "HOW_SHIFT",
    "NEAR",
    "OBJECT_WORDS",
    "OP_WORDS",
    "PROXY_FENCES",
    "READS_TOO",
    "SUSPECT_WORDS",
    "UNWRITTEN",
    "OpWord",
    "StateWord",
    "emit_shadow",
]

CLUSTER_SHIFT = 12
"""A slot's number is the cluster's << 12 | its number in the cluster."""
BEFORE = 0
"""In place of a cluster's number: the grid before, whose slot 0 all clusters know."""
HOW_SHIFT = 56
"""Where kind and write stand in the second word of an entry."""
OBJECT_WORDS = 7
"""Host address, bytes, address of the cells, entries of a cell | granule shift << 8 | mask unit shift << 16, row of the async proxy, the
address of the masks of what has been written (0 where all memory starts with a value), and that of the cells' further entries."""
NEAR = 4
"""Entries of a cell, a cache line, that stand together; few cells need the further ones."""
SUSPECT_WORDS = 6
"""The earlier entry, the later one, the granule's host address, and what is wrong: `CONCURRENT`, `FORMAL` or `UNWRITTEN`."""
CONCURRENT, FORMAL, UNWRITTEN = range(3)
READS_TOO = 0x20
"""Beside kind and write: what is written is read before."""
PROXY_FENCES = {Row.ASYNC_SHARED: 0x40000, Row.ASYNC_GLOBAL: 0x80000}
"""The bits of a fence.proxy.async, by the row that it raises to that of execution; it is for Python where accesses before are suspect."""
OP_WORDS = 2
_AHEAD = 4
_FETCHED = 256
"""Ranges, and bytes of cells."""
_FORWARD = 8
"""Cells."""
_NEAR_BYTES = 16 * NEAR
_MEMO_WORDS = 2 * NEAR
"""The near entries: all that there are, or of which the last is free before the access."""
_MEMO = f"<{_MEMO_WORDS} x i64>"
_MEMOS = 16
_MIX = 0x9E37_79B9_7F4A_7C15
"""2^64 over the golden ratio: the highest bits of a product with it depend on all bits."""


class OpWord(IntEnum):
    """Of the table of ops."""

    HOW = 0
    """kind << 1 | write; bit 8: cp.async; bit 16: the row is for Python; bit 17: it is an access besides; bits 18, 19: `PROXY_FENCES`"""
    SIZE = 1


class StateWord(IntEnum):
    """Of the state that the compiled functions share."""

    ROWS = 0
    """the clock of the running agent, uint32[row][slot component]"""
    WIDTH = 1
    CLUSTER = 2
    SLOT = 3
    CLOCK = 4
    COPY_SLOT = 5
    COPY_CLOCK = 6
    OBJECTS = 7
    OBJECT_COUNT = 8
    LAST = 9
    OPS = 10
    RULES = 11
    SUSPECTS = 12
    SUSPECT_COUNT = 13
    SUSPECT_CAPACITY = 14
    COPIED = 15
    """1 where a row was a cp.async"""
    EPOCH = 16
    """the number of the table of objects: what is remembered of earlier ones counts no more"""
    MEMO = 24
    """what accesses have made of cells: `_MEMOS` times `MemoWord`"""
    END = MEMO + _MEMOS * 24


class MemoWord(IntEnum):
    """One access to a cell of which all entries fitted into eight words, and that was in order.

    What was in order for an agent stays so: clocks only grow.
    """

    EPOCH = 0
    OBJECT = 1
    WHO = 2
    WHAT = 3
    BEFORE = 8
    AFTER = 16
    """the entries as the access found them, and as it left them"""
    END = 24


def emit_shadow(unit: Unit) -> None:
    """``ranges``, and ``span`` for others."""
    _find(unit)
    _visit(unit)
    _span(unit)
    _ranges(unit)


def _find(unit: Unit) -> None:
    """``ptr find(state, address)``: the object that a host address lies in, or null."""
    c = Code(unit, "find", "ptr", [("ptr", "state"), ("i64", "address")], attributes="nounwind", linkage="internal")
    state, address = c.params
    objects = c.pointer(state, StateWord.OBJECTS)
    last = c.at(objects, c.word(state, StateWord.LAST) * (8 * OBJECT_WORDS))
    with c.if_((address - c.load("i64", last, 8)).ult(c.load("i64", c.at(last, 8), 8)), returns=True):
        c.ret(last)
    low = c.variable("i64", 0)
    high = c.variable("i64", c.word(state, StateWord.OBJECT_COUNT))
    head, body, done = c.label("search"), c.label("step"), c.label("found")
    c.jump(head)
    c.place(head)
    a, b = c.load("i64", low, 8), c.load("i64", high, 8)
    c.branch(a.ult(b), body, done)
    c.place(body)
    middle = (a + b) >> 1
    before = c.load("i64", c.at(objects, middle * (8 * OBJECT_WORDS)), 8).compare("ule", address)
    c.store(c.select(before, middle + 1, a), low, 8)
    c.store(c.select(before, b, middle), high, 8)
    c.jump(head)
    c.place(done)
    after = c.load("i64", low, 8)
    with c.if_(after.ne(0)):
        row = c.at(objects, (after - 1) * (8 * OBJECT_WORDS))
        with c.if_((address - c.load("i64", row, 8)).ult(c.load("i64", c.at(row, 8), 8)), returns=True):
            c.set_word(state, StateWord.LAST, after - 1)
            c.ret(row)
    c.ret(0)
    c.finish()


def _suspect(c: Code, state: Value, words: tuple[Value | int, ...]) -> None:
    count = c.word(state, StateWord.SUSPECT_COUNT)
    with c.if_(count.ult(c.word(state, StateWord.SUSPECT_CAPACITY))):
        row = c.at(c.pointer(state, StateWord.SUSPECTS), count * (8 * SUSPECT_WORDS))
        for i, word in enumerate(words):
            c.store(c.of(word, "i64"), c.at(row, 8 * i), 8)
        c.set_word(state, StateWord.SUSPECT_COUNT, count + 1)


def _visit(unit: Unit) -> None:
    """``void visit(state, cell, further, entries, who, what, async, place)``: one access to one granule.

    ``further`` is where entry 0 would be if all stood there. Entries in use stand in front; those that the access replaces are squeezed
    out.
    """
    params = [("ptr", "state"), ("ptr", "cell"), ("ptr", "further")]
    params += [("i64", name) for name in ("entries", "who", "what", "proxy", "place")]
    c = Code(unit, "visit", "void", params, attributes="nounwind", linkage="internal")
    state, cell, further, entries, who, what, proxy, place = c.params

    def entry_at(index: Value) -> Value:
        return c.at(c.select(index.ult(NEAR), cell, further), index << 4)

    mask, how = (what >> 24) & 0xFFFFFFFF, (what >> HOW_SHIFT) & 31
    _repeated(c, cell, who, mask, how)
    at, kept = c.variable("i64", 0), c.variable("i64", 0)
    merged, read, rest = c.variable("i64", 0), c.variable("i64", -1), c.variable("i64", 0)
    head, body, following, done = c.label("next"), c.label("entry"), c.label("following"), c.label("done")
    c.jump(head)
    c.place(head)
    i = c.load("i64", at, 8)
    room = c.label("within")
    c.branch(i.ult(entries), room, done)
    c.place(room)
    entry = entry_at(i)
    held = c.load("i64", c.at(entry, 8), 8)
    c.branch(held.ne(0), body, done)
    c.place(body)
    c.store(i + 1, at, 8)
    whose = c.load("i64", entry, 8)
    held_how, held_mask = (held >> HOW_SHIFT) & 31, (held >> 24) & 0xFFFFFFFF
    same, apart, keep, judge = (c.label() for _ in range(4))
    c.branch(whose.eq(who) & held_how.eq(how), same, apart)
    c.place(same)
    c.store(c.const("i64", 1), merged, 8)
    _keep(c, entry_at, kept, whose, held | (mask << 24))
    c.jump(following)
    c.place(apart)
    c.store(held, rest, 8)
    c.branch((held_mask & mask).eq(0), keep, judge)
    c.place(judge)
    replaced = _judge(c, state, (whose, held), (who, what), proxy, place)
    c.store(c.select(replaced, held & ~(mask << 24), held), rest, 8)
    c.branch(replaced & (held_mask & ~mask).eq(0), following, keep)
    c.place(keep)
    with c.if_((held_how & 1).eq(0)):
        c.store(c.load("i64", kept, 8), read, 8)
    _keep(c, entry_at, kept, whose, c.load("i64", rest, 8))
    c.jump(following)
    c.place(following)
    c.jump(head)
    c.place(done)
    used = c.load("i64", kept, 8)
    with c.if_(c.load("i64", merged, 8).eq(0)):
        evicted = c.load("i64", read, 8)
        full = c.select(evicted.compare("sge", 0), evicted, 0)
        victim = entry_at(c.select(used.ult(entries), used, full))
        c.store(who, victim, 8)
        c.store(what, c.at(victim, 8), 8)
        c.store(c.select(used.ult(entries), used + 1, used), kept, 8)
    last, first = c.load("i64", at, 8), c.load("i64", kept, 8)
    with c.if_(first.ult(last)), c.repeat(last - first) as k:
        unused = entry_at(first + k)
        for half in (0, 8):
            c.store(c.const("i64", 0), c.at(unused, half), 8)
    c.ret()
    c.finish()


def _repeated(c: Code, cell: Value, who: Value, mask: Value, how: Value) -> None:
    """Return at once if the only entry is this very access: an accumulator is written again and again with nothing in between."""
    held = c.load("i64", c.at(cell, 8), 8)
    same = c.load("i64", cell, 8).eq(who) & ((held >> HOW_SHIFT) & 31).eq(how) & (mask & ~(held >> 24)).eq(0)
    with c.if_(same & c.load("i64", c.at(cell, 24), 8).eq(0), returns=True):
        c.ret()


def _keep(c: Code, entry_at: Callable[[Value], Value], kept: Value, whose: Value, held: Value) -> None:
    """Put an entry behind those that stay."""
    j = c.load("i64", kept, 8)
    place = entry_at(j)
    c.store(whose, place, 8)
    c.store(held, c.at(place, 8), 8)
    c.store(j + 1, kept, 8)


def _judge(c: Code, state: Value, earlier: tuple[Value, Value], later: tuple[Value, Value], proxy: Value, place: Value) -> Value:
    """Report two accesses to the same bytes if they may not be concurrent; whether the later one stands for the earlier one there."""
    (whose, held), (who, what) = earlier, later
    rows, width, cluster = c.pointer(state, StateWord.ROWS), c.word(state, StateWord.WIDTH), c.word(state, StateWord.CLUSTER)
    how, held_how = (what >> HOW_SHIFT) & 31, (held >> HOW_SHIFT) & 31
    found = c.load("i8", c.at(c.pointer(state, StateWord.RULES), (held_how << 5) | how), 1).to("i64")
    slot, clock = whose >> 32, whose & 0xFFFFFFFF
    whole = slot >> CLUSTER_SHIFT
    ours = whole.eq(cluster) | whole.eq(BEFORE)
    wanted = (found >> 1) & 3
    row = c.select(wanted.eq(1), proxy, wanted)
    base = c.select(ours, row * width + (slot & ((1 << CLUSTER_SHIFT) - 1)), 0)
    reached = c.load("i32", c.at(rows, (base + (found & 1)) << 2), 4).to("i64")
    performed = ours & c.load("i32", c.at(rows, base << 2), 4).to("i64").compare("uge", clock)
    ordered = ours & reached.compare("uge", clock)
    conflict = (found & 128).ne(0)
    with c.if_(conflict & ~ordered):
        _suspect(c, state, (whose, held, who, what, place, CONCURRENT))
    with c.if_(conflict & ordered & (found & 8).ne(0) & ~performed):
        _suspect(c, state, (whose, held, who, what, place, FORMAL))
    # Slots number what one agent does in order, so that a later number of the same slot and kind covers an earlier one.
    own = (whose >> 32).eq(who >> 32) & held_how.eq(how)
    return (found & 64).ne(0) & (performed | own | conflict)


def _span(unit: Unit) -> None:
    """``void span(state, address, size, who, what)``: one access to a range of bytes; ``what`` without its mask."""
    params = [("ptr", "state"), ("i64", "address"), ("i64", "size"), ("i64", "who"), ("i64", "what")]
    c = Code(unit, "span", "void", params, attributes="nounwind", linkage="internal")
    state, address, size, who, what = c.params
    found = c.call("find", "ptr", state, address)
    assert found is not None
    with c.if_(found.eq(0), returns=True):
        c.ret()
    packed = c.load("i64", c.at(found, 24), 8)
    entries, shift, unit_shift = packed & 0xFF, (packed >> 8) & 0xFF, (packed >> 16) & 0xFF
    cells, proxy = c.load("ptr", c.at(found, 16), 8), c.load("i64", c.at(found, 32), 8)
    written = c.load("ptr", c.at(found, 40), 8)
    origin = c.load("i64", found, 8)
    begin = address - origin
    stop_at, limit = begin + size, c.load("i64", c.at(found, 8), 8)
    end = c.select(stop_at.ult(limit), stop_at, limit)
    first, last = begin >> shift, (end - 1) >> shift
    with c.repeat(last - first + 1) as i:
        granule = first + i
        start = granule << shift
        low = c.select(begin.compare("ugt", start), begin - start, 0) >> unit_shift
        stop = start + (c.const("i64", 1) << shift)
        high = (c.select(end.ult(stop), end, stop) - start + ((c.const("i64", 1) << unit_shift) - 1)) >> unit_shift
        bits = ((c.const("i64", 1) << high) - 1) & ~((c.const("i64", 1) << low) - 1)
        with c.if_(written.ne(0)):
            _initialised(c, state, c.at(written, granule << 2), who, what | (bits << 24), origin + start)
        cell = c.at(cells, granule * _NEAR_BYTES)
        c.prefetch(c.at(cell, _FORWARD * _NEAR_BYTES))
        further = c.at(c.load("ptr", c.at(found, 48), 8), granule * ((entries - NEAR) << 4) - _NEAR_BYTES)
        _visit_or_repeat(c, state, found, (cell, further), (entries, who, what | (bits << 24), proxy, origin + start))
    c.ret()
    c.finish()


def _visit_or_repeat(
    c: Code, state: Value, found: Value, places: tuple[Value, Value], access: tuple[Value, Value, Value, Value, Value]
) -> None:
    """Visit a granule; if the same access has turned another one's same entries into others, do that again."""
    entries, who, what, _, _ = access
    cell, _ = places
    before = c.load(_MEMO, cell, 8)
    memo = _memo(c, state, cell)
    known = before.compare("eq", c.load(_MEMO, c.at(memo, 8 * MemoWord.BEFORE), 8)).cast(f"i{_MEMO_WORDS}").eq((1 << _MEMO_WORDS) - 1)
    epoch = c.word(state, StateWord.EPOCH)
    tags = {MemoWord.EPOCH: epoch, MemoWord.OBJECT: c.convert("ptrtoint", found, "i64"), MemoWord.WHO: who, MemoWord.WHAT: what}
    for word, value in tags.items():
        known = known & c.word(memo, word).eq(value)
    again, full, done = c.label("again"), c.label("visited"), c.label("done")
    c.branch(known, again, full)
    c.place(again)
    _copy(c, c.at(memo, 8 * MemoWord.AFTER), cell)
    c.jump(done)
    c.place(full)
    suspects, last = c.word(state, StateWord.SUSPECT_COUNT), c.load("i64", c.at(cell, 56), 8)
    c.call("visit", "void", state, *places, *access)
    fitted = last.eq(0) | entries.eq(NEAR)
    with c.if_(c.word(state, StateWord.SUSPECT_COUNT).eq(suspects) & fitted):
        for word, value in tags.items():
            c.set_word(memo, word, value)
        c.store(before, c.at(memo, 8 * MemoWord.BEFORE), 8)
        _copy(c, cell, c.at(memo, 8 * MemoWord.AFTER))
    c.jump(done)
    c.place(done)


def _memo(c: Code, state: Value, cell: Value) -> Value:
    """Where it would stand what an access makes of a cell's entries: neighbours often alternate between a few."""
    mixed = c.load("i64", cell, 8)
    for word in (1, 2, 3):
        mixed = mixed + c.load("i64", c.at(cell, 8 * word), 8)
    number = (mixed * _MIX) >> (64 - _MEMOS.bit_length() + 1)
    return c.at(state, number * (8 * MemoWord.END) + 8 * StateWord.MEMO)


def _copy(c: Code, source: Value, target: Value) -> None:
    c.store(c.load(_MEMO, source, 8), target, 8)


def _initialised(c: Code, state: Value, written: Value, who: Value, what: Value, place: Value) -> None:
    """Report a read of what nothing has written, once; note what is written."""
    mask, how = ((what >> 24) & 0xFFFFFFFF).to("i32"), what >> HOW_SHIFT
    known = c.load("i32", written, 4)
    missing = mask & ~known
    with c.if_(missing.ne(0)):
        with c.if_((how & 1).eq(0) | (how & READS_TOO).ne(0)):
            _suspect(c, state, (0, missing.to("i64") << 24, who, what, place, UNWRITTEN))
        c.store(known | mask, written, 4)


def _prefetch(c: Code, state: Value, starts: Value, index: Value, count: Value) -> None:
    """Let the processor fetch the cells of a range that comes soon: those of global memory lie far apart."""
    last = c.at(c.pointer(state, StateWord.OBJECTS), c.word(state, StateWord.LAST) * (8 * OBJECT_WORDS))
    address = c.load("i64", c.at(starts, c.select(index.ult(count), index, 0) << 3), 8)
    offset = address - c.load("i64", last, 8)
    packed = c.load("i64", c.at(last, 24), 8)
    granule = c.select(offset.ult(c.load("i64", c.at(last, 8), 8)), offset >> ((packed >> 8) & 0xFF), 0)
    cell = c.at(c.load("ptr", c.at(last, 16), 8), granule * _NEAR_BYTES)
    for line in range(0, _FETCHED, 64):
        c.prefetch(c.at(cell, line))


def _ranges(unit: Unit) -> None:
    """``void ranges(state, starts, sizes, step, count, who, what)``: one access to many ranges; step 0: all of one size."""
    params = [("ptr", "state"), ("ptr", "starts"), ("ptr", "sizes"), ("i64", "step"), ("i64", "count"), ("i64", "who"), ("i64", "what")]
    c = Code(unit, "ranges", "void", params, attributes="nounwind")
    state, starts, sizes, step, count, who, what = c.params
    with c.repeat(count) as i:
        _prefetch(c, state, starts, i + _AHEAD, count)
        size = c.load("i32", c.at(sizes, i * step), 4).to("i64")
        with c.if_(size.ne(0)):
            c.call("span", "void", state, c.load("i64", c.at(starts, i << 3), 8), size, who, what)
    c.ret()
    c.finish()
