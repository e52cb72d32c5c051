"""The state of a warpgroup: instructions that not all of its warps have issued, and accumulators in flight.

A warp continues as soon as it has issued its share of an instruction; the operation begins when all four warps have issued theirs. The
program must not access the registers of D before wgmma.wait_group. Consecutive instructions therefore work on one copy of the matrix, which
is written back when a warp has waited for the last of them. Compiled code does the same with the same words (`ptxlab.isa.warpgroup_words`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.operations.matrices import MatrixProduct
from ptxlab.isa.warpgroup_words import (
    A_BYTES,
    HELD_BYTES,
    NEVER,
    RECORD_WORDS,
    RING,
    SLOT_WORDS,
    WARPS,
    Base,
    GroupWord,
    Record,
    Slot,
)
from ptxlab.isa.wgmma._accumulator import Accumulator
from ptxlab.isa.wgmma._matrices import Matrices, matrices_of
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.isa.wgmma._plan import Form, Operands

__all__ = ["Share", "UndefinedOperands", "Warpgroup", "warpgroup_of"]

_WORD = (1 << 64) - 1

U32 = NDArray[np.uint32]

_STATE, _PERFORMED, _BEGUN, _AWAITED, _ISSUED, _WAITERS = (
    int(word) for word in (GroupWord.STATE, GroupWord.PERFORMED, GroupWord.BEGUN, GroupWord.AWAITED, GroupWord.ISSUED, GroupWord.WAITERS)
)
_COMMITTED, _COMPLETED, _BASES = (int(word) for word in (GroupWord.COMMITTED, GroupWord.COMPLETED, GroupWord.BASES))
_BASE_OF_A = _BASES + int(Base.A)


@dataclass(slots=True, eq=False)
class UndefinedOperands:
    """What is undefined of the operands of one instruction.

    Attributes
    ----------
    chained : whether another instruction on the same D was in flight at issue
    warps, a, d : those that have issued it, and the undefined bits of their registers then, uint32[warp, register, lane]
    origins : those of the undefined bits in registers
    rows, columns : the rows of A and columns of B that have undefined bits, when it performs
    origin : that of the undefined bits that it gives to D
    """

    chained: bool
    a: U32
    d: U32
    warps: dict[int, context.WarpContext] = field(default_factory=dict)
    origins: set[int] = field(default_factory=set)
    rows: NDArray[np.bool_] | None = None
    columns: NDArray[np.bool_] | None = None
    origin: int = 0


@dataclass(slots=True, eq=False)
class Share:
    """A wgmma.mma_async that not all four warps have issued.

    Operands are those of the first warp; A in registers and metadata come from each warp. ``given`` holds the first warp's descriptors and
    predicate as bytes; ``held`` the words of A and metadata (`HELD_BYTES`), None if there are none.
    """

    number: int
    op: Op
    form: Form
    a: int
    b: int
    accumulate: bool
    operands: Operands
    given: tuple[bytes, ...]
    held: U32 | None
    undefined: UndefinedOperands | None = None
    """In a run that follows undefined bits through memory."""
    a_words: U32 | None = field(init=False, default=None)
    """A in registers, uint32[warp, register, lane]."""
    metadata_words: U32 | None = field(init=False, default=None)
    """The registers with metadata, uint32[warp, lane]."""

    def __post_init__(self) -> None:
        if self.held is not None:
            a, metadata = np.split(self.held, [A_BYTES // 4])
            self.a_words = None if self.form.a_rows is None else a.reshape(WARPS, -1, 32)
            self.metadata_words = None if self.form.fragment is None else metadata.reshape(WARPS, 32)

    @property
    def metadata(self) -> NDArray[np.uint8] | None:
        """The codes [warp, row, chunk] of a sparse A."""
        fragment = self.form.fragment
        if self.metadata_words is None or fragment is None:
            return None
        return (self.metadata_words[:, fragment.lane] >> fragment.bit & 0xF).astype(np.uint8)


class Warpgroup(context.Supplied):
    """The state of one warpgroup. Instructions are numbered in the order in which each warp issues them.

    Attributes
    ----------
    words, address : int64 that compiled code has, too (`GroupWord`), and their host address
    shares : by number, instructions that some warp has not issued yet, without those of compiled code (`taken_over`)
    frames : the registers of the warps that have executed a wgmma
    waiters : converged lanes that wait for `performed` to grow, without those that compiled code has blocked
    """

    __slots__ = (
        *("_accumulators", "_array", "_awaited", "_bases", "_ends", "_held", "_matrices", "_products", "_records", "_slots"),
        *("address", "cta", "frames", "index", "shares", "waiters", "words"),
    )  # fmt: skip

    def __init__(self, cta: context.Cta, index: int, matrices: Matrices, state: int) -> None:
        self.cta, self.index, self._matrices = cta, index, matrices
        self.shares: dict[int, Share] = {}
        self.frames: list[U32] = [np.empty((0, 32), np.uint32)] * WARPS
        self.waiters: list[object] = []
        self._awaited: list[int] = []
        self._accumulators: dict[int, Accumulator] = {}
        self._products: dict[tuple[Operands, bool], MatrixProduct] = {}
        count, ends = len(matrices.overlaps), matrices.ends
        self._records = _BASES + Base.CELLS + count
        self._slots = self._records + RECORD_WORDS * count
        self._ends = self._slots + SLOT_WORDS * RING
        self._array: NDArray[np.int64] = np.zeros(self._ends + WARPS * ends, np.int64)
        self._held: U32 | None = None
        self.words, self.address = self._array.data, address_of(self._array)
        self._bases = self.address + 8 * _BASES
        self._array[self._records + Record.LATEST : self._slots : RECORD_WORDS] = -1
        words = self.words
        words[_STATE], words[_AWAITED] = state, NEVER
        words[GroupWord.RECORD_COUNT], words[GroupWord.ENDS_SIZE] = count, ends
        for word, first in ((GroupWord.RECORDS, self._records), (GroupWord.SLOTS, self._slots), (GroupWord.ENDS, self._ends)):
            words[word] = self.address + 8 * first
        words[_BASES + Base.SHARED] = cta.shared_address
        if matrices.holds_registers and state:
            self._held = np.empty((RING, HELD_BYTES // 4), np.uint32)
            words[GroupWord.A] = address_of(self._held)

    def join(self, warp: context.WarpContext) -> None:
        """A warp executes its first wgmma."""
        member = warp.warp_id % WARPS
        self.frames[member] = warp.rows
        self.words[_BASES + Base.FRAMES + member] = address_of(warp.rows)
        warp.join_warpgroup(self.address)

    # ------------------------------------------------------------------------------------------------------ instructions

    @property
    def state(self) -> int:
        """The number of the state that executions depend on which compiled code repeats; 0 if it repeats none."""
        found: int = self.words[_STATE]
        return found

    @property
    def performed(self) -> int:
        """The number of the first instruction that has not been performed."""
        found: int = self.words[_PERFORMED]
        return found

    @property
    def begun(self) -> int:
        """The number of the first instruction that no warp has issued."""
        found: int = self.words[_BEGUN]
        return found

    def issued(self, member: int) -> int:
        """How many instructions a warp has issued."""
        found: int = self.words[_ISSUED + member]
        return found

    def arrived(self, number: int) -> tuple[int, ...]:
        """The warps that have issued an instruction."""
        return tuple(member for member, issued in enumerate(self.words[_ISSUED : _ISSUED + WARPS]) if issued > number)

    def begin(self, share: Share) -> None:
        """The first warp issues an instruction."""
        self.shares[share.number] = share
        self.words[_BEGUN] = share.number + 1
        self.words[self._record(share.form.number) + Record.LATEST] = share.number

    def taken_over(self, number: int) -> tuple[int, int, int, bool, U32 | None]:
        """An instruction that compiled code has begun, which handlers continue: its index, descriptors, scale-d and registers."""
        at = self._slots + SLOT_WORDS * (number & RING - 1)
        key, a, b, accumulate = (self.words[at + word] for word in (Slot.KEY, Slot.A, Slot.B, Slot.ACCUMULATE))
        self.words[at + Slot.NUMBER] = -1
        held = None if self._held is None else self._held[number & RING - 1].copy()
        return key & 0xFFFF_FFFF, a & _WORD, b & _WORD, bool(accumulate), held

    def issue(self, member: int, share: Share) -> bool:
        """A warp issues an instruction; return whether it is the last."""
        number = self.words[_ISSUED + member] = share.number + 1
        if min(self.words[_ISSUED : _ISSUED + WARPS]) < number:
            return False
        del self.shares[share.number]
        return True

    def run(self, share: Share) -> None:
        """Multiply as the program of an instruction says."""
        program = share.operands.program
        assert program is not None
        if share.held is not None:
            self.words[_BASE_OF_A] = address_of(share.held)
        program.run(self._bases, share.accumulate, 0)

    def product(self, share: Share) -> MatrixProduct:
        """What is multiplied, for observers: the same object for the same operands."""
        key = share.operands, share.accumulate
        found = self._products.get(key)
        if found is None:
            form = share.form
            accumulator = self.cta, self.index, form.key
            found = self._products[key] = MatrixProduct(share.operands.matrices, (self.cta,), accumulator, form.d, share.accumulate)
        return found

    def more(self, share: Share) -> NDArray[np.int64]:
        """What compiled code must know more of an execution (`ptxlab.isa.warpgroup_words.More`)."""
        form = share.form
        rows = [-1] * 4 if form.a_rows is None else [128 * row for row in form.a_rows.tolist()]
        legal = sum(1 << code for code in form.codes)
        register = -1 if form.metadata_row < 0 else 128 * form.metadata_row
        constant = 0 if form.metadata is None else address_of(form.metadata)
        metadata = (-1, 0, 0, 0) if form.used is None else (register, constant, address_of(form.used), legal)
        overlaps = self._matrices.overlaps[form.number]
        load = form.moves.load.repetition(False, 0)[1]
        more = *load, *rows, share.a, share.b, int(share.accumulate), *metadata, len(overlaps), *overlaps
        return np.array([word & _WORD for word in more], np.uint64).view(np.int64)

    def complete(self, number: int, launch: context.Machine) -> None:
        """An instruction has been performed."""
        self.words[_PERFORMED] = number + 1
        if self.words[_WAITERS]:
            self.take_over(launch.take_over_waiters)
        if self.waiters:
            launch.wake(self.waiters)
            self._awaited = [end for end in self._awaited if end > number + 1]
            self.words[_AWAITED] = min(self._awaited, default=NEVER)

    # ------------------------------------------------------------------------------------------------------ accumulators

    def _record(self, number: int) -> int:
        return self._records + RECORD_WORDS * number

    def held(self, form: Form) -> Accumulator:
        """The accumulator of an instruction."""
        found = self._accumulators.get(form.number)
        if found is None:
            at = self._record(form.number)
            found = Accumulator(form, self.words[at : at + RECORD_WORDS], self._bases)
            self._accumulators[form.number] = found
            self.words[_BASES + Base.CELLS + form.number] = address_of(found.cells)
        return found

    def chained(self, form: Form) -> bool:
        """Whether an instruction on the same accumulator has been issued, or the accumulator is in flight."""
        at = self._record(form.number)
        return bool(self.words[at + Record.IN_FLIGHT]) or self.words[at + Record.LATEST] >= self.performed

    def write_back(self, end: int) -> None:
        """Write back the accumulators that no instruction with number ``end`` or later uses."""
        for held in self._accumulators.values():
            if held.in_flight and held.latest < end:
                held.write_back()

    def evict(self, form: Form) -> None:
        """Write back the other accumulators that use any of the registers of an instruction."""
        for number in self._matrices.overlaps[form.number]:
            held = self._accumulators.get(number)
            if held is not None and held.in_flight:
                held.write_back()

    # ------------------------------------------------------------------------------------------------------ groups

    def commit(self, member: int) -> None:
        """A warp commits what it has issued; the oldest group leaves a full ring: no wait of the program is for as many."""
        words, size = self.words, self._matrices.ends
        committed = words[_COMMITTED + member]
        words[self._ends + size * member + committed % size] = words[_ISSUED + member]
        words[_COMMITTED + member] = committed + 1
        words[_COMPLETED + member] = max(words[_COMPLETED + member], committed + 1 - size)

    def end_of(self, member: int, count: int) -> int:
        """The number of the last instruction plus one of all groups of a warp but the newest ``count``; 0 if it need not wait for any."""
        words, size = self.words, self._matrices.ends
        stop = words[_COMMITTED + member] - count
        found: int = words[self._ends + size * member + (stop - 1) % size] if stop > words[_COMPLETED + member] else 0
        return found

    def wait(self, member: int, count: int) -> None:
        """A warp has waited for all groups but the newest ``count``, whose instructions have been performed."""
        self.write_back(self.end_of(member, count))
        self.words[_COMPLETED + member] = self.words[_COMMITTED + member] - count

    # ------------------------------------------------------------------------------------------------------ waits

    @property
    def awaits(self) -> Supply:
        """The effect that ends the wait."""
        return Supply.WGMMA_SHARE

    def supplied_by(self, cta: context.Cta, warp: int) -> bool:
        """Return whether the warp is one of the four."""
        return cta is self.cta and warp // WARPS == self.index

    def advice(self) -> str:
        """Return the fix for the report of a hang."""
        return f"let warps {WARPS * self.index}-{WARPS * self.index + WARPS - 1} execute every wgmma.mma_async together"

    def wait_for(self, end: int, sentence: str, retry: bool) -> context.Wait:
        """Wait until the instructions before number ``end`` have been performed."""

        def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
            absent = self.missing() if min(self.words[_ISSUED : _ISSUED + WARPS]) < end else ""
            facts = [("not yet performed", f"{end - self.performed} wgmma.mma_async")]
            if absent:
                facts.append(("warps that have not executed the next of them", absent))
            return sentence, tuple(facts)

        self._awaited.append(end)
        self.words[_AWAITED] = min(self.words[_AWAITED], end)
        return context.Wait(ready=lambda: self.performed >= end, describe=describe, retry=retry, on=self)

    def wait_for_groups(self, end: int, op: Op) -> context.Wait:
        """Wait in an instruction for groups whose last instruction plus one has this number."""
        assert isinstance(op.operands[0], Const)
        return self.wait_for(end, f"wgmma.wait_group {op.operands[0].value} waits for operations of its warpgroup", retry=True)

    def take_over(self, block: Callable[[int, Callable[[int, Op], context.Wait]], None]) -> None:
        """Let the scheduler continue those who wait for groups, and not compiled code, which has blocked them.

        ``block`` is `ptxlab.isa.context.Machine.take_over_waiters`.
        """
        first = self.words[_WAITERS]
        if first:
            self.words[_WAITERS] = 0
            block(first, self.wait_for_groups)

    def missing(self) -> str:
        """The numbers of the warps that have not issued the oldest incomplete instruction."""
        first = min(self.words[_ISSUED : _ISSUED + WARPS])
        arrived = self.arrived(first) if first < self.begun else range(WARPS)
        return ", ".join(str(WARPS * self.index + member) for member in range(WARPS) if member not in arrived)


def warpgroup_of(warp: context.WarpContext) -> Warpgroup:
    """The executing warp's warpgroup; a fault unless it has 128 threads."""
    held: Warpgroup | None = warp.state.get(_KEY)
    if held is not None:
        return held
    groups: dict[int, Warpgroup] = warp.cta.state.setdefault(_KEY, {})
    index = warp.warp_id // WARPS
    found = groups.get(index)
    if found is None:
        if warp.cta.threads < 32 * WARPS * (index + 1):
            warp.fault(
                "W901",
                f"{warp.op.opcode.partition('.sync')[0]} in warp {warp.warp_id}: a warpgroup is 4 warps of 32 threads, but the CTA has "
                f"{warp.cta.threads} threads",
                fix="launch CTAs with a multiple of 128 threads",
            )
        state = warp.state_of_shares(warp.cta.shared.size, (warp.cta.shared_address, index))
        found = groups[index] = Warpgroup(warp.cta, index, warp.machine.of_program(matrices_of), state)
    warp.state[_KEY] = found
    found.join(warp)
    return found


_KEY: Hashable = "wgmma"
