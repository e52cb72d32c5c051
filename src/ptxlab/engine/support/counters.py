"""What compiled code of counted programs counts: executions, and what accesses of shared and global memory cost.

There is one row of `Counter` for each op. Shared memory has 32 banks, each 4 bytes wide, and gives one word of each bank in a wavefront.
The lanes of an access take part in groups that access 128 bytes if their addresses are consecutive: all lanes with up to 4 bytes each, 16
lanes with 8 bytes, 8 lanes with 16 bytes (`store_order` describes the same groups, which an H200 shows). A group needs as many wavefronts
as the bank from which it wants most has words to give; lanes that want the same word share it. Lanes of an atomic operation do not. Two
neighbouring groups of a load are one if lanes 2i and 2i+1 load from the same address or one of them loads nothing: so an H200 counts.

Global memory moves in sectors of 32 bytes. Atomic operations on the same address move their sector again, those on others do not.
"""

from __future__ import annotations

from enum import IntEnum

from ptxlab.engine.context import Word
from ptxlab.engine.support.accesses import all_addresses
from ptxlab.engine.support.footprint import SECTOR, emit_touch
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.native.builder import Module, Value

__all__ = [
    "ATOMIC",
    "COPY",
    "COUNTER_WORDS",
    "EXTENT_LIMIT",
    "LINE",
    "LOAD",
    "PATTERN_WORDS",
    "Counter",
    "count_executions",
    "emit_count",
    "note_extent",
]

ATOMIC, COPY, LOAD = "atomic", "copy", "load"
"""Accesses that are no stores: atomic operations, what cp.async reads, and loads into registers."""

LINE = 128
"""Bytes of a cache line."""
_WORD = 4
"""Bytes of a word of a bank."""
_BANKS = 32
_WINDOW_SHIFT = 32


class Counter(IntEnum):
    """A column of the table of counters."""

    EXECUTIONS = 0
    """Warps that execute the op; it stands at the first op of each node, and holds for all its ops"""
    THREADS = 1
    """Lanes that execute it, those counted whose guard is false; it stands where EXECUTIONS does"""
    SHARED_REQUESTS = 2
    """Executions in which some lane accesses shared memory"""
    SHARED_WAVEFRONTS = 3
    SHARED_LEAST = 4
    """Wavefronts without bank conflicts: one for each group of lanes that accesses memory"""
    SHARED_BYTES = 5
    """Bytes that lanes access, each lane counted"""
    GLOBAL_REQUESTS = 6
    GLOBAL_SECTORS = 7
    GLOBAL_LEAST = 8
    """Sectors that would hold the different bytes that lanes access"""
    GLOBAL_LINES = 9
    """Cache lines of 128 bytes"""
    GLOBAL_BYTES = 10
    """Bytes that lanes access, each lane counted"""
    EXTENT_BELOW = 11
    """`EXTENT_LIMIT` less the first byte of shared memory, or column of tensor memory, that the op has accessed: the largest such number"""
    EXTENT_END = 12
    """The end of what it has accessed there"""


COUNTER_WORDS = 16
"""Words from one row to the next."""
EXTENT_LIMIT = 1 << SHARED_RANK_SHIFT
"""Bytes of shared memory that a CTA can name."""
_DISTANCES = 4
"""The word of a pattern where its 32 distances begin."""
_SHARED_PATTERN, _GLOBAL_PATTERN, PATTERN_WORDS = 0, _DISTANCES + 32, 2 * (_DISTANCES + 32)
"""Where the patterns of an op begin, and the words from those of one op to those of the next."""


def count_executions(context: Value, op: int) -> None:
    """Count that the converged lanes execute a node, which begins with an op, and note it in the trace of the warp, if there is one."""
    code = context.function
    place = context.word(Word.TRACE)
    with code.when(place.ne(0)):
        context.pointer(Word.TRACE).store(code.const("i32", op), align=4)
        context.set_word(Word.TRACE, place + 4)
    row = _row(context, code.const("i64", op))
    _add(row, Counter.EXECUTIONS, code.const("i64", 1))
    _add(row, Counter.THREADS, context.load("i32", 2 * Word.MASK).intrinsic("ctpop").to("i64"))


def emit_count(module: Module, space: str, source: str, size: int, kind: str = "") -> None:
    """``void count_SPACE_SOURCE_SIZE[_KIND](context, mask, row, offset, op)``: count one access; SOURCE as for ``resolve_*``."""
    if space in ("global", "generic"):
        emit_touch(module)
    _OneAccess(module, space, source, size, kind)


def note_extent(context: Value, op: int | Value, first: Value, end: Value) -> None:
    """Note that an op accesses shared or tensor memory from ``first`` to ``end``."""
    row = _row(context, context.function.const("i64", op) if isinstance(op, int) else op)
    for counter, number in ((Counter.EXTENT_BELOW, first.constant(EXTENT_LIMIT) - first), (Counter.EXTENT_END, end)):
        row.set_word(counter, row.word(counter).max(number))


def _row(context: Value, op: Value) -> Value:
    return context.pointer(Word.COUNTERS).at(op * (8 * COUNTER_WORDS))


def _add(row: Value, counter: Counter, number: Value) -> None:
    row.set_word(counter, row.word(counter) + number)


class _OneAccess:
    """The function that counts accesses of one space and size, while it is written."""

    def __init__(self, module: Module, space: str, source: str, size: int, kind: str) -> None:
        name = f"count_{space}_{source}_{size}" + (f"_{kind}" if kind else "")
        code, (context, mask, row, offset, op) = module.define(f"void {name}(ptr context, i32 mask, ptr row, i64 offset, i32 op)")
        self.code, self.context, self.op, self.size, self.kind = code, context, op.to("i64"), size, kind
        self.row = _row(context, op.to("i64"))
        self.patterns = context.pointer(Word.PATTERNS).at(op.to("i64") * (8 * PATTERN_WORDS))
        self.addresses = all_addresses(source, row, offset)
        self.kept = code.stack("<32 x i64>", align=64)
        if space != "generic":
            self._count(mask, shared=space != "global")
            return
        window = self.addresses >> _WINDOW_SHIFT
        shared, local, param = (window.eq(base >> _WINDOW_SHIFT).cast("i32") for base in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW))
        self._count(mask & shared, shared=True)
        self._count(mask & ~(shared | local | param), shared=False)

    def _count(self, mask: Value, shared: bool) -> None:
        requests, count, number = (
            (Counter.SHARED_REQUESTS, self._shared, Counter.SHARED_BYTES)
            if shared
            else (Counter.GLOBAL_REQUESTS, self._global, Counter.GLOBAL_BYTES)
        )
        with self.code.when(mask.ne(0)):
            _add(self.row, requests, self.code.const("i64", 1))
            _add(self.row, number, mask.intrinsic("ctpop").to("i64") * self.size)
            count(mask)
            if not shared:
                self._touch(mask)

    def _touch(self, mask: Value) -> None:
        """Note which sectors of device memory the lanes access; atomic operations read and write."""
        code = self.code
        self.kept.store(self.addresses, align=64)
        for write in (False, True):
            if self.kind == ATOMIC or write == (self.kind not in (COPY, LOAD)):
                code.call("touch", "void", self.context, mask, self.kept, code.const("i64", self.size), code.const("i64", int(write)))

    # ---------------------------------------------------------------------------------------------------- shared memory

    def _shared(self, mask: Value) -> None:
        """Count wavefronts: each group of lanes has as many slots as it has lanes, a slot being the banks that a lane accesses."""
        code, width = self.code, max(self.size, _WORD)
        active, offsets = mask.cast("<32 x i1>"), self.addresses & (EXTENT_LIMIT - 1)
        lowest, highest = (active.select(offsets, other).reduce(least) for other, least in ((EXTENT_LIMIT, "umin"), (0, "umax")))
        note_extent(self.context, self.op, lowest, highest + self.size)
        group = _BANKS * _WORD // width
        places = self.addresses >> (width.bit_length() - 1)
        lanes = code.lanes("i64", 32)
        joined = self._joined(mask, places, group) if self.kind == LOAD and group < 32 else code.const("i32", 0)
        groups = joined.cast("<32 x i1>").select(lanes & (32 - 2 * group), lanes & (32 - group))
        slots = ((places & (group - 1)) | groups).to("<32 x i32>")
        zero = code.const("<32 x i32>", 0)
        used = mask.cast("<32 x i1>").select(code.const("<32 x i32>", 1) << slots, zero).reduce("or")
        least = code.const("i64", 0)
        for first in range(0, 32, group):
            counts = (mask & _lanes(first, group)).ne(0)
            if first % (2 * group):
                before = (mask & joined & _lanes(first - group, group)).ne(0)
                counts = counts & ~before
            least = least + counts.to("i64")
        _add(self.row, Counter.SHARED_LEAST, least)
        with code.when(used.intrinsic("ctpop").eq(mask.intrinsic("ctpop"))) as otherwise:
            _add(self.row, Counter.SHARED_WAVEFRONTS, least)
            otherwise()
            # The same distances between the lanes have the same conflicts, whatever the first bank is.
            pattern = self._pattern(_SHARED_PATTERN, mask, places - self._of_first_lane(mask, places))
            with code.when(~pattern.known):
                pattern.keep(self._conflicts(mask, places, slots, group, joined))
            _add(self.row, Counter.SHARED_WAVEFRONTS, pattern.number(0))

    def _joined(self, mask: Value, places: Value, group: int) -> Value:
        """The lanes whose group is one with its neighbour, as bits."""
        code = self.code
        order = ", ".join(f"i32 {lane ^ 1}" for lane in range(32))
        other = code.emit(f"shufflevector {places}, <32 x i64> poison, <32 x i32> <{order}>", "<32 x i64>")
        odd = code.const("i32", 0x55555555)
        neighbours = ((mask & odd) << 1) | ((mask >> 1) & odd)
        fits = places.eq(other).cast("i32") | ~neighbours | ~mask
        joined = code.const("i32", 0)
        for first in range(0, 32, 2 * group):
            both = _lanes(first, 2 * group)
            joined = joined | (fits & both).eq(both).select(code.const("i32", both), code.const("i32", 0))
        return joined

    def _of_first_lane(self, mask: Value, values: Value) -> Value:
        self.kept.store(values, align=64)
        return self.kept.load("i64", mask.lowest_bit().to("i64"))

    def _pattern(self, first_word: int, mask: Value, distances: Value) -> _Pattern:
        place = self.patterns.at(8 * first_word)
        return _Pattern(place, mask, mask.cast("<32 x i1>").select(distances, self.code.const("<32 x i64>", 0)))

    def _conflicts(self, mask: Value, places: Value, slots: Value, group: int, joined: Value) -> Value:
        """The wavefronts of all groups: of each the most accesses to one slot."""
        code = self.code
        kept, wanted = code.stack("<32 x i32>", align=64), code.stack("<32 x i8>", align=32)
        kept.store(slots, align=64)
        wanted.store(code.const("<32 x i8>", 0), align=32)
        self.kept.store(places, align=64)
        rest = mask.variable()
        with code.loop_while(lambda: rest.get().ne(0)):
            left = rest.get()
            lane = left.lowest_bit()
            if self.kind == ATOMIC:
                rest.set(left & (left - 1))
            else:
                same = places.eq(self.kept.load("i64", lane.to("i64"))).cast("i32")
                own = code.const("i32", _lanes(0, group)) << (lane & (32 - group))
                if self.kind == LOAD and group < 32:
                    both = code.const("i32", _lanes(0, 2 * group)) << (lane & (32 - 2 * group))
                    own = (joined & own).ne(0).select(both, own)
                rest.set(left & ~(same & own))
            place = wanted.at(kept.load("i32", lane.to("i64")).to("i64"))
            place.store(place.load("i8") + 1)
        counts = wanted.load("<32 x i8>", align=32)
        total = code.const("i64", 0)
        for first in range(0, 32, group):
            total = total + counts.part(first, group).reduce("umax").to("i64")
        return total

    # ---------------------------------------------------------------------------------------------------- global memory

    def _global(self, mask: Value) -> None:
        """Count sectors and lines. Addresses are multiples of the size, so that two accesses are to the same bytes or apart."""
        code, size = self.code, self.size
        zero = code.const("<32 x i64>", 0)
        active = mask.cast("<32 x i1>")
        first = active.select(self.addresses, code.const("<32 x i64>", -1)).reduce("umin")
        base = first & -LINE
        places = (self.addresses - base) >> (size.bit_length() - 1)
        bits = active.select(code.const("<32 x i64>", 1) << (places & 63), zero).reduce("or")
        near = active.select(places, zero).reduce("umax").ult(64)
        if self.kind == ATOMIC:
            near = near & bits.intrinsic("ctpop").eq(mask.intrinsic("ctpop").to("i64"))
        with code.when(near) as otherwise:
            self._add_global(_folded(bits, SECTOR // size), _folded(bits, LINE // size), self._least(bits.intrinsic("ctpop")))
            otherwise()
            # The same distances from the beginning of a line touch as many sectors.
            pattern = self._pattern(_GLOBAL_PATTERN, mask, self.addresses - base)
            with code.when(~pattern.known):
                lines = self._different(mask, LINE)
                with code.when(lines.eq(mask.intrinsic("ctpop").to("i64"))) as shared:
                    pattern.keep(lines, lines, self._least(lines))  # each lane has a line of its own, as in random gathers
                    shared()
                    moved = self._repeated(mask) if self.kind == ATOMIC else self._different(mask, SECTOR)
                    pattern.keep(moved, lines, self._least(self._different(mask, size)))
            self._add_global(*map(pattern.number, range(3)))

    def _add_global(self, sectors: Value, lines: Value, least: Value) -> None:
        for counter, number in ((Counter.GLOBAL_SECTORS, sectors), (Counter.GLOBAL_LINES, lines), (Counter.GLOBAL_LEAST, least)):
            _add(self.row, counter, number)

    def _least(self, pieces: Value) -> Value:
        """The sectors that would hold so many different pieces of memory."""
        return (pieces * self.size + SECTOR - 1) >> (SECTOR.bit_length() - 1)

    def _different(self, mask: Value, unit: int) -> Value:
        """How many different units of memory the lanes access."""
        code = self.code
        keys = self.addresses >> (unit.bit_length() - 1)
        self.kept.store(keys, align=64)
        rest, count = mask.variable(), code.variable("i64", 0)
        with code.loop_while(lambda: rest.get().ne(0)):
            left = rest.get()
            key = self.kept.load("i64", left.lowest_bit().to("i64"))
            rest.set(left & ~keys.eq(key).cast("i32"))
            count.set(count.get() + 1)
        return count.get()

    def _repeated(self, mask: Value) -> Value:
        """How many sectors atomic operations move: of each one as many as its most wanted address has lanes."""
        code = self.code
        sectors = self.addresses >> (SECTOR.bit_length() - 1)
        self.kept.store(self.addresses, align=64)
        rest, total = mask.variable(), code.variable("i64", 0)
        with code.loop_while(lambda: rest.get().ne(0)):
            left = rest.get()
            first = self.kept.load("i64", left.lowest_bit().to("i64"))
            together = left & sectors.eq(first >> (SECTOR.bit_length() - 1)).cast("i32")
            rest.set(left & ~together)
            inner, most = together.variable(), code.variable("i64", 0)
            with code.loop_while(lambda: inner.get().ne(0)):
                some = inner.get()
                same = some & self.addresses.eq(self.kept.load("i64", some.lowest_bit().to("i64"))).cast("i32")
                inner.set(some & ~same)
                number = same.intrinsic("ctpop").to("i64")
                most.set(number.max(most.get()))
            total.set(total.get() + most.get())
        return total.get()


class _Pattern:
    """What the last access of an op has cost whose lanes had other distances: the mask, numbers, and the distances."""

    def __init__(self, place: Value, mask: Value, distances: Value) -> None:
        self._place, self._mask, self._distances = place, mask.to("i64"), distances
        differs = place.load("<32 x i64>", _DISTANCES).ne(distances).cast("i32")
        self.known = place.word(0).eq(self._mask) & differs.eq(0)

    def keep(self, *numbers: Value) -> None:
        self._place.set_word(0, self._mask)
        for index, number in enumerate(numbers):
            self._place.set_word(1 + index, number)
        self._place.store(self._distances, _DISTANCES)

    def number(self, index: int) -> Value:
        return self._place.word(1 + index)


def _lanes(first: int, count: int) -> int:
    """So many lanes as bits."""
    return ((1 << count) - 1) << first


def _folded(bits: Value, pieces: int) -> Value:
    """How many groups of ``pieces`` neighbouring bits have one that is set."""
    pieces, step = min(pieces, 64), 1
    while step < pieces:
        bits = bits | (bits >> step)
        step *= 2
    return (bits & sum(1 << at for at in range(0, 64, pieces))).intrinsic("ctpop")
