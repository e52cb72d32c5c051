"""The state of a warpgroup: instructions that not all of its warps have issued, and accumulators in flight.

A warp continues as soon as it has issued its share of an instruction; the operation begins when all four warps have issued theirs. The
program must not access the registers of D before wgmma.wait_group. Consecutive instructions therefore work on one copy of the matrix, which
is written back when a warp has waited for the last of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Op, Resolved
from ptxlab.isa.wgmma._fragments import WARPS, AccumulatorIndex

if TYPE_CHECKING:
    from ptxlab.isa.wgmma._plan import Form, Operands

__all__ = ["Accumulator", "Share", "Undefined", "UndefinedOperands", "Warpgroup", "warpgroup_of"]

_ALL_LANES = 0xFFFF_FFFF

U32 = NDArray[np.uint32]


@dataclass(slots=True, eq=False)
class Accumulator:
    """A matrix D in flight: its elements uint32[column, row], and the registers of the four warps that receive it."""

    rows: NDArray[np.intp]
    index: AccumulatorIndex
    frames: list[U32]
    cells: U32
    undefined: Undefined | None = None

    @classmethod
    def load(cls, rows: NDArray[np.intp], index: AccumulatorIndex, frames: list[U32], needed: bool) -> Accumulator:
        """Make an accumulator; it reads the registers only if their values are ``needed``."""
        if not needed:
            return cls(rows, index, frames, np.empty(index.from_registers.shape, np.uint32))
        registers = np.empty((WARPS, index.registers, 32), np.uint32)
        for warp, frame in enumerate(frames):
            frame.take(rows, axis=0, out=registers[warp])
        return cls(rows, index, frames, index.cells(registers))

    def store(self) -> None:
        """Write the registers."""
        registers = self.index.of_cells(self.cells)
        for frame, values in zip(self.frames, registers, strict=True):
            frame[self.rows] = values
        if self.undefined is not None:
            self.undefined.store(self.index)


@dataclass(slots=True, eq=False)
class Undefined:
    """The undefined bits of a matrix D in flight: of its elements uint32[column, row], with their origin, and the registers for them."""

    cells: U32
    origin: int
    warps: list[context.WarpContext]
    operand: Resolved

    def store(self, index: AccumulatorIndex) -> None:
        """Give them to the registers."""
        for warp, masks in zip(self.warps, index.of_cells(self.cells), strict=True):
            warp.set_undefined(self.operand, masks, self.origin, _ALL_LANES)


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
    """A wgmma.mma_async that not all four warps have issued. Operands are those of the first warp; A in registers comes from each warp.

    ``given`` holds the first warp's descriptors and predicate as bytes; ``metadata`` the codes [warp, row, chunk] of a sparse A.
    """

    number: int
    op: Op
    form: Form
    a: int
    b: int
    accumulate: bool
    operands: Operands
    given: tuple[bytes, ...]
    frames: list[U32]
    a_words: U32 | None
    metadata: NDArray[np.uint8] | None
    arrived: int = 0
    undefined: UndefinedOperands | None = None
    """In a run that follows undefined bits through memory."""


@dataclass(slots=True, eq=False)
class Warpgroup(context.Supplied):
    """The state of one warpgroup. Instructions are numbered in the order in which each warp issues them.

    Attributes
    ----------
    issued : number of instructions that each warp has issued
    ends : for each warp the committed groups that it has not waited for, each as the number of its last instruction plus one
    shares : instructions that some warp has not issued yet; ``first`` is the number of the first
    performed : number of the first that has not been performed
    latest : for each set of registers of D the last instruction on it that a warp has issued
    accumulators : matrices that have not been written back, by their registers
    waiters : converged lanes that wait for `performed` to grow
    """

    cta: context.Cta
    index: int
    issued: list[int] = field(default_factory=lambda: [0] * WARPS)
    ends: list[list[int]] = field(default_factory=lambda: [[] for _ in range(WARPS)])
    shares: deque[Share] = field(default_factory=deque)
    first: int = 0
    performed: int = 0
    latest: dict[bytes, int] = field(default_factory=dict)
    accumulators: dict[bytes, Accumulator] = field(default_factory=dict)
    waiters: list[object] = field(default_factory=list)

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

    def write_back(self, end: int) -> None:
        """Write back the accumulators that no instruction with number ``end`` or later uses."""
        for key in [k for k in self.accumulators if self.latest[k] < end]:
            self.accumulators.pop(key).store()

    def evict(self, registers: frozenset[int]) -> None:
        """Write back the accumulators that use any of these registers."""
        for key in [k for k, held in self.accumulators.items() if not registers.isdisjoint(held.rows.tolist())]:
            self.accumulators.pop(key).store()

    def wait_for(self, end: int, sentence: str, retry: bool) -> context.Wait:
        """Wait until the instructions before number ``end`` have been performed."""

        def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
            absent = self.missing() if self.first < end else ""
            facts = [("not yet performed", f"{end - self.performed} wgmma.mma_async")]
            if absent:
                facts.append(("warps that have not executed the next of them", absent))
            return sentence, tuple(facts)

        return context.Wait(ready=lambda: self.performed >= end, describe=describe, retry=retry, on=self)

    def missing(self) -> str:
        """The numbers of the warps that have not issued the oldest incomplete instruction."""
        arrived = self.shares[0].arrived if self.shares else 15
        return ", ".join(str(WARPS * self.index + w) for w in range(WARPS) if not arrived >> w & 1)


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
        found = groups[index] = Warpgroup(warp.cta, index)
    warp.state[_KEY] = found
    return found


_KEY: Hashable = "wgmma"
