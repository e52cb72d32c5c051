"""What compiled code of counted programs counts: executions, and what accesses of shared and global memory cost.

There is one row of `Counter` for each op. Shared memory has 32 banks, each 4 bytes wide, and gives one word of each bank in a wavefront.
The lanes of an access take part in groups that access 128 bytes if their addresses are consecutive: all lanes with up to 4 bytes each, 16
lanes with 8 bytes, 8 lanes with 16 bytes (`store_order` describes the same groups, which an H200 shows). A group needs as many wavefronts
as the bank from which it wants most has words to give; lanes that want the same word share it. Lanes of an atomic operation do not.

Global memory moves in sectors of 32 bytes.
"""

from __future__ import annotations

from enum import IntEnum

from ptxlab.engine.context import Word
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from ptxlab.native.builder import Module, Value

__all__ = ["COUNTER_WORDS", "LINE", "SECTOR", "Counter", "count_executions", "emit_count"]

SECTOR, LINE = 32, 128
"""Bytes of a sector and of a cache line."""
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


COUNTER_WORDS = 16
"""Words from one row to the next."""


def count_executions(context: Value, op: int) -> None:
    """Count that the converged lanes execute a node, which begins with an op."""
    row = _row(context, context.function.const("i64", op))
    _add(row, Counter.EXECUTIONS, context.function.const("i64", 1))
    _add(row, Counter.THREADS, context.load("i32", 2 * Word.MASK).intrinsic("ctpop").to("i64"))


def emit_count(module: Module, space: str, source: str, size: int, atomic: bool) -> None:
    """``void count_SPACE_SOURCE_SIZE[_atomic](context, mask, row, offset, op)``: count one access; SOURCE as for ``resolve_*``."""
    _OneAccess(module, space, source, size, atomic)


def _row(context: Value, op: Value) -> Value:
    return context.pointer(Word.COUNTERS).at(op * (8 * COUNTER_WORDS))


def _add(row: Value, counter: Counter, number: Value) -> None:
    row.set_word(counter, row.word(counter) + number)


class _OneAccess:
    """The function that counts accesses of one space and size, while it is written."""

    def __init__(self, module: Module, space: str, source: str, size: int, atomic: bool) -> None:
        name = f"count_{space}_{source}_{size}" + "_atomic" * atomic
        code, (context, mask, row, offset, op) = module.define(f"void {name}(ptr context, i32 mask, ptr row, i64 offset, i32 op)")
        self.code, self.size, self.atomic = code, size, atomic
        self.row = _row(context, op.to("i64"))
        if source == "32":
            self.addresses = (row.load("<32 x i32>") + offset.to("i32")).to("<32 x i64>")
        elif source == "64":
            self.addresses = row.load("<32 x i64>") + offset
        else:
            self.addresses = offset.splat(32)
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

    # ---------------------------------------------------------------------------------------------------- shared memory

    def _shared(self, mask: Value) -> None:
        """Count wavefronts: each group of lanes has as many slots as it has lanes, a slot being the banks that a lane accesses."""
        code, width = self.code, max(self.size, _WORD)
        group = _BANKS * _WORD // width
        places = self.addresses >> (width.bit_length() - 1)
        lanes = code.lanes("i64", 32)
        slots = ((places & (group - 1)) | (lanes & (32 - group))).to("<32 x i32>")
        zero = code.const("<32 x i32>", 0)
        used = mask.cast("<32 x i1>").select(code.const("<32 x i32>", 1) << slots, zero).reduce("or")
        least = code.const("i64", 0)
        for first in range(0, 32, group):
            least = least + (mask & ((1 << group) - 1 << first)).ne(0).to("i64")
        _add(self.row, Counter.SHARED_LEAST, least)
        with code.when(used.intrinsic("ctpop").eq(mask.intrinsic("ctpop"))) as otherwise:
            _add(self.row, Counter.SHARED_WAVEFRONTS, least)
            otherwise()
            _add(self.row, Counter.SHARED_WAVEFRONTS, self._conflicts(mask, places, slots, group))

    def _conflicts(self, mask: Value, places: Value, slots: Value, group: int) -> Value:
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
            if self.atomic:
                rest.set(left & (left - 1))
            else:
                same = places.eq(self.kept.load("i64", lane.to("i64"))).cast("i32")
                rest.set(left & ~(same & (code.const("i32", (1 << group) - 1) << (lane & (32 - group)))))
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
        near = active.select(places, zero).reduce("umax").ult(64)
        with code.when(near) as otherwise:
            bits = active.select(code.const("<32 x i64>", 1) << (places & 63), zero).reduce("or")
            for counter, unit in ((Counter.GLOBAL_SECTORS, SECTOR), (Counter.GLOBAL_LINES, LINE)):
                _add(self.row, counter, _folded(bits, min(unit // size, 64)))
            self._least(bits.intrinsic("ctpop"))
            otherwise()
            for counter, unit in ((Counter.GLOBAL_SECTORS, SECTOR), (Counter.GLOBAL_LINES, LINE)):
                _add(self.row, counter, self._different(mask, unit))
            self._least(self._different(mask, size))

    def _least(self, pieces: Value) -> None:
        """So many different pieces of memory are accessed."""
        _add(self.row, Counter.GLOBAL_LEAST, (pieces * self.size + SECTOR - 1) >> (SECTOR.bit_length() - 1))

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


def _folded(bits: Value, pieces: int) -> Value:
    """How many groups of ``pieces`` neighbouring bits have one that is set."""
    step = 1
    while step < pieces:
        bits = bits | (bits >> step)
        step *= 2
    return (bits & sum(1 << at for at in range(0, 64, pieces))).intrinsic("ctpop")
