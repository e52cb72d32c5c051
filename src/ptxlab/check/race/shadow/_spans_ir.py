"""The compiled functions that record accesses to ranges of memory, granule by granule."""

from __future__ import annotations

from ptxlab.check.race.shadow._suspects_ir import emit_suspect, suspects_found
from ptxlab.check.race.shadow.shadow_words import (
    HOW_SHIFT,
    MEMOS,
    NEAR,
    OBJECT_WORDS,
    READS_TOO,
    RECENT_CELLS,
    UNWRITTEN,
    MemoWord,
    StateWord,
)
from ptxlab.native.builder import Function, Module, Value

__all__ = ["AHEAD", "emit_prefetch", "emit_spans"]

AHEAD = 4
_FETCHED = 256
"""Prefetched: the cells of the range that is so many ranges later, and so many bytes of them."""
_FORWARD = 8
"""Prefetched within a range: the cell that is so many cells later."""
_NEAR_BYTES = 16 * NEAR
_NEAR_WORDS = 2 * NEAR
_ENTRIES = f"<{_NEAR_WORDS} x i64>"
"""The near entries of a cell."""
_MIX = 0x9E37_79B9_7F4A_7C15
"""2^64 divided by the golden ratio: the highest bits of a product with it depend on all bits of the other factor."""


def emit_spans(module: Module) -> None:
    """Emit ``ranges``, and ``span``, which other functions call."""
    _visit_or_repeat(module)
    _span(module)
    _ranges(module)


class _Watched:
    """The object that a function accesses, in variables."""

    def __init__(self, c: Function) -> None:
        self._c = c
        self.found = c.variable("ptr", 0)
        self.origin, self.size, self._packed, self._proxy = (c.variable("i64", 0) for _ in range(4))
        self.cells, self._written, self._further = (c.variable("ptr", 0) for _ in range(3))

    def contains(self, address: Value) -> Value:
        """Whether a host address lies in the object."""
        return (address - self.origin.get()).ult(self.size.get())

    def select(self, state: Value, address: Value, who: Value) -> None:
        """Make the object that an address lies in the one that is accessed; none has the size 0."""
        c = self._c
        found = c.call("find", "ptr", state, address)
        self.size.set(0)
        with c.when(found.ne(0)):
            self.found.set(found)
            for word, variable in ((0, self.origin), (1, self.size), (3, self._packed), (4, self._proxy)):
                variable.set(found.load("i64", word))
            for word, pointer in ((2, self.cells), (5, self._written), (6, self._further)):
                pointer.set(found.load("ptr", word))
            tags = {MemoWord.EPOCH: state.word(StateWord.EPOCH), MemoWord.OBJECT: found.convert("ptrtoint", "i64"), MemoWord.WHO: who}
            recent = state.at(8 * StateWord.RECENT)
            other = c.const("i64", 0)
            for word, value in tags.items():
                other = other | (recent.word(word) ^ value)
            with c.when(other.ne(0)):
                for word, value in tags.items():
                    recent.set_word(word, value)
                for number in range(RECENT_CELLS):
                    recent.set_word(number * MemoWord.END + MemoWord.WHAT, 0)

    def prefetch(self, address: Value) -> None:
        """Prefetch the cells of a range that follows soon, if it lies in the object."""
        _prefetch(address - self.origin.get(), self.size.get(), self._packed.get(), self.cells.get())

    def access(self, state: Value, address: Value, size: Value, who: Value, what: Value) -> None:
        """Access a range of bytes that begins in the object, granule by granule; ``what`` without its mask."""
        c, origin, packed = self._c, self.origin.get(), self._packed.get()
        entries, shift, unit_shift = packed & 0xFF, (packed >> 8) & 0xFF, (packed >> 16) & 0xFF
        begin = address - origin
        stop_at, limit = begin + size, self.size.get()
        end = stop_at.ult(limit).select(stop_at, limit)
        first, last = begin >> shift, (end - 1) >> shift
        with c.loop(last - first + 1) as i:
            granule = first + i
            start = granule << shift
            low = begin.ugt(start).select(begin - start, 0) >> unit_shift
            stop = start + (c.const("i64", 1) << shift)
            high = (end.ult(stop).select(end, stop) - start + ((c.const("i64", 1) << unit_shift) - 1)) >> unit_shift
            bits = ((c.const("i64", 1) << high) - 1) & ~((c.const("i64", 1) << low) - 1)
            masked, written = what | (bits << 24), self._written.get()
            with c.when(written.ne(0)):
                _initialised(c, state, written.at(granule << 2), who, masked, origin + start)
            cell = self.cells.get().at(granule * _NEAR_BYTES)
            cell.at(_FORWARD * _NEAR_BYTES).prefetch()
            recent = state.at(((granule & (RECENT_CELLS - 1)) * MemoWord.END + StateWord.RECENT) << 3)
            before = cell.load(_ENTRIES)
            known = _equal(before, recent.load(_ENTRIES, MemoWord.BEFORE)) & recent.word(MemoWord.WHAT).eq(masked)
            with c.when(known) as otherwise:
                cell.store(recent.load(_ENTRIES, MemoWord.AFTER))
                otherwise()
                further = self._further.get().at(granule * ((entries - NEAR) << 4) - _NEAR_BYTES)
                place = cell, further, entries, who, masked, self._proxy.get(), origin + start
                repeats = c.call("visit_or_repeat", "i64", state, self.found.get(), *place)
                recent.set_word(MemoWord.WHAT, repeats.ne(0).select(masked, 0))
                recent.store(before, MemoWord.BEFORE)
                recent.store(cell.load(_ENTRIES), MemoWord.AFTER)


def _equal(one: Value, other: Value) -> Value:
    return one.eq(other).cast(f"i{_NEAR_WORDS}").eq((1 << _NEAR_WORDS) - 1)


def _span(module: Module) -> None:
    """``void span(state, address, size, who, what)``: one access to a range of bytes; ``what`` without its mask."""
    c = Function(module, "span", "void", "ptr state, i64 address, i64 size, i64 who, i64 what", internal=True)
    state, address, size, who, what = c.parameters
    watched = _Watched(c)
    watched.select(state, address, who)
    with c.when(watched.contains(address)):
        watched.access(state, address, size, who, what)


def _ranges(module: Module) -> None:
    """``void ranges(state)``: one access to many ranges (`StateWord.ACCESSED`).

    ``void ranges_from(state, first)``: the same, of which the starts count from a host address.
    """
    c = Function(module, "ranges_from", "void", "ptr state, i64 first", internal=True)
    state, base = c.parameters
    starts, sizes = (state.pointer(StateWord.ACCESSED + i) for i in range(2))
    step, count, who, what = (state.word(StateWord.ACCESSED + i) for i in range(2, 6))
    watched = _Watched(c)
    with c.loop(count) as i:
        ahead = i + AHEAD
        watched.prefetch(base + starts.load("i64", ahead.ult(count).select(ahead, 0)))
        address, size = base + starts.load("i64", i), sizes.at(i * step).load("i32").to("i64")
        with c.when(~watched.contains(address)):
            watched.select(state, address, who)
        with c.when(watched.contains(address) & size.ne(0)):
            watched.access(state, address, size, who, what)
    c.ret()
    c = Function(module, "ranges", "void", "ptr state")
    c.call("ranges_from", "void", c["state"], c.const("i64", 0))


def _visit_or_repeat(module: Module) -> None:
    """``i64 visit_or_repeat(state, found, cell, further, entries, who, what, proxy, place)``: one access to one granule of an object.

    If a memo has the result of the same access to equal entries, that is stored. The result is 1 if it is the same for equal entries.
    """
    parameters = "ptr state, ptr found, ptr cell, ptr further, i64 entries, i64 who, i64 what, i64 proxy, i64 place"
    c = Function(module, "visit_or_repeat", "i64", parameters, internal=True)
    state, found, cell, _, entries, who, what, _, _ = c.parameters
    before = cell.load(_ENTRIES)
    memo = _memo(state, cell)
    known = _equal(before, memo.load(_ENTRIES, MemoWord.BEFORE))
    epoch = state.word(StateWord.EPOCH)
    tags = {MemoWord.EPOCH: epoch, MemoWord.OBJECT: found.convert("ptrtoint", "i64"), MemoWord.WHO: who, MemoWord.WHAT: what}
    for word, value in tags.items():
        known = known & memo.word(word).eq(value)
    with c.when(known):
        cell.store(memo.load(_ENTRIES, MemoWord.AFTER))
        c.ret(1)
    suspects, last = suspects_found(state), cell.load("i64", 7)
    c.call("visit", "void", state, *c.parameters[2:])
    fitted = last.eq(0) | entries.eq(NEAR)
    repeats = suspects_found(state).eq(suspects) & fitted
    with c.when(repeats):
        for word, value in tags.items():
            memo.set_word(word, value)
        memo.store(before, MemoWord.BEFORE)
        memo.store(cell.load(_ENTRIES), MemoWord.AFTER)
    c.ret(repeats.to("i64"))


def _memo(state: Value, cell: Value) -> Value:
    """The place of the memo for a cell's entries. The entries of neighbouring cells often alternate between a few values."""
    mixed = cell.load("i64")
    for word in (1, 2, 3):
        mixed = mixed + cell.load("i64", word)
    number = (mixed * _MIX) >> (64 - MEMOS.bit_length() + 1)
    return state.at(number * (8 * MemoWord.END) + 8 * StateWord.MEMO)


def _initialised(c: Function, state: Value, written: Value, who: Value, what: Value, place: Value) -> None:
    """Report a read of bytes that nothing has written, once; mark written bytes."""
    mask, how = ((what >> 24) & 0xFFFFFFFF).to("i32"), what >> HOW_SHIFT
    known = written.load("i32")
    missing = mask & ~known
    with c.when(missing.ne(0)):
        with c.when((how & 1).eq(0) | (how & READS_TOO).ne(0)):
            emit_suspect(c, state, (0, missing.to("i64") << 24, who, what, place, UNWRITTEN))
        written.store(known | mask)


def emit_prefetch(state: Value, address: Value) -> None:
    """Prefetch the cells of a range that follows soon, in the object of the last access: ranges of global memory are far apart."""
    last = state.pointer(StateWord.OBJECTS).at(state.word(StateWord.LAST) * (8 * OBJECT_WORDS))
    _prefetch(address - last.load("i64"), last.load("i64", 1), last.load("i64", 3), last.load("ptr", 2))


def _prefetch(offset: Value, size: Value, packed: Value, cells: Value) -> None:
    """Prefetch the cells from an offset in an object on, or the first ones."""
    granule = offset.ult(size).select(offset >> ((packed >> 8) & 0xFF), 0)
    cell = cells.at(granule * _NEAR_BYTES)
    for line in range(0, _FETCHED, 64):
        cell.at(line).prefetch()
