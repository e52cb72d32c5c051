"""How a tcgen05.mma is carried out: which gathers, which products, where in tensor memory.

A plan depends on descriptors and addresses only, so that one plan serves every execution of the same instruction on any CTA.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.isa import context
from ptxlab.isa.tcgen05._accesses import block, cells, common, operand
from ptxlab.isa.tcgen05._descriptors import Gather
from ptxlab.isa.tcgen05._element_types import Format
from ptxlab.isa.tcgen05._shift import shift_down
from ptxlab.isa.tcgen05._side_operands import Scaling, TensorBitFields, legal_metadata
from ptxlab.isa.tcgen05._state import CtaGroup
from ptxlab.layout import data_path_lanes
from ptxlab.native import BoundedCache

__all__ = ["A_COLUMNS", "Disabled", "Lanes", "Plan", "Unit", "units"]

Codes = NDArray[Any]
Lanes = slice | NDArray[np.int64]
Disabled = tuple[NDArray[np.intp], ...]
"""For each CTA the lanes of D that keep what they have."""

Parts = dict[tuple[int, bytes], numerics.Prepared]
"""By part of B, and its scale factors."""

_NO_LANES: NDArray[np.intp] = np.empty(0, np.intp)
_NO_CELLS: NDArray[np.uint32] = np.empty(0, np.uint32)


A_COLUMNS = 8
"""Columns of A in tensor memory: 256 bits for each row."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One product: rows of A of CTA ``cta`` of the team, times part ``part`` of B, into these lanes and columns (from D's first).

    ``bank`` is the part of the data path that multiplies; ``holder`` the CTA with that part of B, from its column ``first`` on.
    """

    cta: int
    part: int
    bank: int
    holder: int
    first: int
    lanes: Lanes
    column: int
    columns: int

    @property
    def rows(self) -> int:
        """How many rows of A."""
        return self.lanes.stop - self.lanes.start if isinstance(self.lanes, slice) else len(self.lanes)


def units(m: int, n: int, group: int, ws: bool, sparse: bool, lane: int) -> tuple[Unit, ...]:
    """Products of the data path layouts A to G: section "Data Path Layout Organization". ``lane`` is D's.

    B comes in as many parts as there are CTAs, each from one CTA's shared memory, or as there are banks, each with its own part of N.
    """
    banks = data_path_lanes(m, group, ws, sparse) + lane
    parts = max(group, len(banks))
    columns, share = n // parts, n // group
    found = []
    for cta in range(group):
        for part in range(parts):
            bank = part % len(banks)
            lanes = banks[bank]
            contiguous = int(lanes[-1]) - int(lanes[0]) == len(lanes) - 1
            place: Lanes = slice(int(lanes[0]), int(lanes[-1]) + 1) if contiguous else lanes
            holder, first = divmod(part * columns, share)
            found.append(Unit(cta, part, bank, holder, first, place, 0 if len(banks) > 1 else part * columns, columns))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """See the module.

    Attributes
    ----------
    a : a gather from shared memory, or the first column of A in tensor memory
    metadata : for each bank, of a sparse A
    b_first : the column of B that the product begins at (the shift of the zero-column mask)
    zeroed : columns of the product whose column of B counts as zero
    shift_a : whether A is shifted down by one row afterwards (.ashift)
    chain : where each CTA has one matrix A and one part of B, dense and without scale factors: all of it; else None
    held : what the collector buffer of this instruction can hold: matrix A, or B of .ws
    """

    kind: str
    d: str
    column: int
    a: Gather | int
    a_format: Format
    b: Gather
    b_format: Format
    units: tuple[Unit, ...]
    saturate: bool
    negate_a: bool
    negate_b: bool
    held: Hashable
    a_columns: int = A_COLUMNS
    scaling: Scaling | None = None
    metadata: tuple[TensorBitFields, ...] = ()
    b_first: int = 0
    zeroed: NDArray[np.bool_] | None = None
    shift_a: bool = False
    chain: numerics.MmaProgram | None = None
    known: BoundedCache[Hashable, tuple[context.MemoryAccess, ...]] = field(default_factory=lambda: BoundedCache(64))

    @property
    def columns(self) -> int:
        """Columns of D."""
        return max(unit.column + unit.columns for unit in self.units)

    def perform(self, team: CtaGroup, accumulate: bool, scale: int, disabled: Disabled | None) -> None:
        """Read the operands and multiply."""
        if self.chain is not None and disabled is None:
            self.chain.run(team.bases, accumulate, scale)
            return
        ctas = team.ctas
        parts: Parts = {}
        ready: dict[tuple[int, int], numerics.Prepared] = {}
        shares = [self._share_of_b(cta) for cta in ctas]
        for unit in self.units:
            cta = ctas[unit.cta]
            # Banks differ in their copies of A and of the metadata, which both lie in tensor memory.
            source = (unit.cta, 0 if isinstance(self.a, Gather) and not self.metadata else unit.bank)
            a = ready.get(source)
            if a is None:
                a = ready[source] = self._prepare_a(cta, unit)
            b = self._prepare_b(shares[unit.holder], unit, cta, parts)
            first = self.column + unit.column
            block = cta.tensor.words[first : first + unit.columns]
            still = _NO_LANES if disabled is None else disabled[unit.cta]
            kept = block[:, still] if len(still) else _NO_CELLS
            cells = block[:, unit.lanes] if isinstance(unit.lanes, slice) else block.take(unit.lanes, axis=1)
            numerics.mma_prepared(self.kind, self.d, a, b, cells, accumulate=accumulate, saturate=self.saturate, scale_input_d=scale)
            if not isinstance(unit.lanes, slice):
                block[:, unit.lanes] = cells
            if len(still):
                block[:, still] = kept
        if self.shift_a and isinstance(self.a, int):
            for cta in ctas:
                shift_down(cta.tensor.words, self.a)

    def accesses(self, team: CtaGroup, accumulate: bool, disabled: Disabled | None) -> Iterable[context.MemoryAccess]:
        """What the operation reads and writes; remembered for the memories that it is asked for."""
        key: Hashable = team.places, accumulate
        if disabled is not None:
            key = key, tuple(lanes.tobytes() for lanes in disabled)
        found = self.known.get(key)
        if found is None:
            accesses = context.MemoryAccess.together(self._touches(team.ctas, accumulate, disabled))
            found = self.known[key] = tuple(map(common, accesses))
        return found

    def _touches(self, ctas: tuple[context.Cta, ...], accumulate: bool, disabled: Disabled | None) -> Iterator[context.MemoryAccess]:
        for number, cta in enumerate(ctas):
            yield operand(cta, self.b)
            if isinstance(self.a, Gather):
                yield operand(cta, self.a)
            parts: list[TensorBitFields] = [] if self.scaling is None else [self.scaling.a, self.scaling.b]
            for part in (*parts, *self.metadata):
                yield cells(cta, part.column, part.place, part.lane)
            for unit in self.units:
                if unit.cta != number:
                    continue
                lanes = np.arange(128)[unit.lanes]
                if isinstance(self.a, int):
                    yield from block(cta, self.a, self.a_columns, lanes, self.shift_a)
                if disabled is not None:
                    lanes = np.setdiff1d(lanes, disabled[number])
                yield from block(cta, self.column + unit.column, unit.columns, lanes, True, accumulate)

    def _share_of_b(self, cta: context.Cta) -> Codes:
        """The columns of B that a CTA holds, as rows of codes."""
        codes = self.b_format.shared(self.b.read(cta.shared))[self.b_first :]
        if self.zeroed is not None:
            codes[self.zeroed] = 0
        return codes

    def _prepare_b(
        self, share: Codes, unit: Unit, cta: context.Cta, known: dict[tuple[int, bytes], numerics.Prepared]
    ) -> numerics.Prepared:
        """A part of B, scaled as ``cta`` says: each CTA keeps the scale factors of all parts."""
        options: dict[str, Any] = {}
        mark = b""
        if self.scaling is not None:
            part = slice(unit.part * unit.columns, (unit.part + 1) * unit.columns)
            factors = self.scaling.factors("b", cta.tensor.words)[part]
            options = {"scales": factors, "scale": self.scaling.type, "block": self.scaling.block}
            mark = factors.tobytes()
        found = known.get((unit.part, mark))
        if found is None:
            codes = share[unit.first : unit.first + unit.columns]
            found = known[unit.part, mark] = numerics.prepare(
                codes, self.b_format.name, role="b", kind=self.kind, negate=self.negate_b, sparse=bool(self.metadata), **options
            )
        return found

    def _codes_of_a(self, cta: context.Cta, lanes: Lanes) -> Codes:
        """The elements [rows, k] of A, from shared memory or from these lanes of tensor memory."""
        if isinstance(self.a, Gather):
            return self.a_format.shared(self.a.read(cta.shared))
        cells = cta.tensor.words[self.a : self.a + self.a_columns, lanes]
        return self.a_format.tensor(np.ascontiguousarray(cells.T))

    def _prepare_a(self, cta: context.Cta, unit: Unit) -> numerics.Prepared:
        options: dict[str, Any] = {}
        if self.scaling is not None:
            options = {"scales": self.scaling.factors("a", cta.tensor.words), "scale": self.scaling.type, "block": self.scaling.block}
        if self.metadata:
            options["metadata"] = self._metadata(cta, unit.bank)
        codes = self._codes_of_a(cta, unit.lanes)
        return numerics.prepare(codes, self.a_format.name, role="a", kind=self.kind, negate=self.negate_a, **options)

    def _metadata(self, cta: context.Cta, bank: int) -> NDArray[np.uint8]:
        codes = self.metadata[bank].read(cta.tensor.words)
        wrong = ~np.isin(codes, legal_metadata(self.kind))
        if wrong.any():
            row, chunk = np.argwhere(wrong)[0]
            code = int(codes[row, chunk])
            legal = ", ".join(f"{known:#06b}" for known in legal_metadata(self.kind))
            message = f"the sparsity metadata of row {row}, chunk {chunk} is {code:#06b}, which selects nothing"
            raise context.Misuse("D707", message, fix=f"write {legal}; check the address and the sparsity selector")
        return codes
