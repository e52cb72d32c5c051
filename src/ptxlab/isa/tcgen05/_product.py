"""A tcgen05.mma in numbers, for observers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.operations.products import NO_BYTES, HeldLine, Product, ProductPlace
from ptxlab.isa.tcgen05._descriptors import Gather
from ptxlab.isa.tcgen05._mma_plan import Plan
from ptxlab.isa.tcgen05._mma_units import Unit
from ptxlab.isa.tcgen05._state import CtaGroup

__all__ = ["TensorProduct"]

Codes = NDArray[Any]


class TensorProduct(Product):
    """A tcgen05.mma on a CTA group."""

    def __init__(self, plan: Plan, cta_group: CtaGroup, accumulate: bool) -> None:
        found = plan.instruction
        self.m, self.n, self.k = found.m, found.n, found.k
        self.a, self.b, self.d = found.a, found.b, found.d
        self.accumulate, self.sparse = accumulate, bool(plan.metadata)
        self._plan, self._group = plan, cta_group

    @property
    def ctas(self) -> tuple[context.Cta, ...]:
        """The CTA, or the pair."""
        return self._group.ctas

    @property
    def accumulator(self) -> Hashable:
        """The place and the shape of D."""
        return self._group.ctas[0], self._plan.column, self._plan.d_lane, self.m, self.n

    def facts(self) -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
        """The instruction descriptor, the matrix descriptors, and addresses in tensor memory."""
        plan = self._plan
        found: list[tuple[str, tuple[tuple[str, object], ...]]] = [("instruction", tuple(plan.instruction.fields()))]
        found += [(f"descriptor of {each.name}", tuple(each.descriptor.fields())) for each in plan.operands]
        if isinstance(plan.a, int):
            found.append(("A in tensor memory", (("column", plan.a), ("columns", plan.a_columns))))
        if plan.scaling is not None:
            factors = (("A", plan.scaling.a), ("B", plan.scaling.b))
            found += [(f"scale factors of {name}", (("column", each.column), ("columns", each.columns))) for name, each in factors]
        if plan.metadata:
            found.append(("sparsity metadata", (("column", plan.metadata[0].column), ("columns", plan.metadata[0].columns))))
        found.append(("D in tensor memory", (("lane", plan.d_lane), ("column", plan.column), ("columns", plan.columns))))
        return tuple(found)

    def _unit(self, m: int, n: int) -> tuple[Unit, int, int]:
        """The unit that computes an element of D, and the element's row and column there."""
        units = self._plan.units
        cta, row = divmod(m, units[0].rows)
        part, column = divmod(n, units[0].columns)
        return next(unit for unit in units if (unit.cta, unit.part) == (cta, part)), row, column

    def place(self, m: int, n: int) -> ProductPlace:
        """The cell of tensor memory."""
        unit, row, column = self._unit(m, n)
        return ProductPlace(
            self._group.ctas[unit.cta], int(np.arange(128)[unit.lanes][row]), column=self._plan.column + unit.column + column
        )

    def codes(self, operand: str) -> Codes:
        """The elements that the units take, one after the other."""
        plan, ctas, found = self._plan, self._group.ctas, {}
        for unit in plan.units:
            if operand == "a" and unit.cta not in found:
                found[unit.cta] = plan.codes_of_a(ctas[unit.cta].shared, ctas[unit.cta].tensor.words, unit.lanes)
            elif operand == "b" and unit.part not in found:
                found[unit.part] = plan.share_of_b(ctas[unit.holder].shared)[unit.first : unit.first + unit.columns]
        return np.concatenate([found[number] for number in sorted(found)])

    def scale_factors(self, operand: str) -> tuple[str, Codes] | None:
        """Those of A are in the tensor memory of the CTA that computes the rows; those of B in that of each CTA."""
        scaling = self._plan.scaling
        if scaling is None:
            return None
        holders = [self._group.ctas[unit.cta] for unit in self._first_units()] if operand == "a" else self._group.ctas[:1]
        return scaling.type, np.concatenate([scaling.factors(operand, cta.tensor.words) for cta in holders])

    def metadata(self) -> Codes | None:
        """Read from tensor memory, of each CTA for its rows."""
        plan = self._plan
        if not plan.metadata:
            return None
        return np.concatenate([plan.metadata[unit.bank].read(self._group.ctas[unit.cta].tensor.words) for unit in self._first_units()])

    def _first_units(self) -> list[Unit]:
        """A unit of each CTA."""
        return list({unit.cta: unit for unit in reversed(self._plan.units)}.values())[::-1]

    def bytes_of(self, operand: str, line: int) -> tuple[tuple[context.Cta, NDArray[np.intp]], ...]:
        """The bytes of the chunks that hold the row."""
        placed = {"a": self._plan.a, "b": self._plan.b}.get(operand)
        if not isinstance(placed, Gather):
            return NO_BYTES
        if operand == "a":
            unit, row, _ = self._unit(line, 0)
            return ((self._group.ctas[unit.cta], placed.bytes_of(row)),)
        unit, _, column = self._unit(0, line)
        return ((self._group.ctas[unit.holder], placed.bytes_of(self._plan.b_first + unit.first + column)),)

    def held(self, operand: str, line: int) -> tuple[HeldLine, ...]:
        """The cells of a row of A, and of scale factors and metadata, which are in the tensor memory of each CTA that takes them."""
        plan, ctas = self._plan, self._group.ctas
        unit, row, _ = self._unit(0, line) if operand in ("b", "scale_b") else self._unit(line, 0)
        if operand == "a" and isinstance(plan.a, int):
            return (HeldLine(ctas[unit.cta], cells=(np.arange(128)[unit.lanes][row], np.arange(plan.a, plan.a + plan.a_columns))),)
        if operand == "metadata" and plan.metadata:
            return (HeldLine(ctas[unit.cta], cells=plan.metadata[unit.bank].cells(row)),)
        if operand == "scale_a" and plan.scaling is not None:
            return (HeldLine(ctas[unit.cta], cells=plan.scaling.a.cells(row)),)
        if operand == "scale_b" and plan.scaling is not None:
            return tuple(HeldLine(cta, cells=plan.scaling.b.cells(line)) for cta in ctas)
        return ()

    def read_d(self) -> Codes:
        """The cells of D; an f16 is the lower half."""
        rows, columns = self._plan.units[0].rows, self._plan.units[0].columns
        found = np.zeros((self.m, self.n), np.uint32)
        for unit in self._plan.units:
            found[self._rows(unit, rows), self._columns(unit, columns)] = self._cells(unit)[:, np.arange(128)[unit.lanes]].T
        return found.astype(np.uint16) if self.d == "f16" else found

    def write_d(self, bits: Codes) -> None:
        """Write the cells of D."""
        rows, columns = self._plan.units[0].rows, self._plan.units[0].columns
        for unit in self._plan.units:
            self._cells(unit)[:, np.arange(128)[unit.lanes]] = bits[self._rows(unit, rows), self._columns(unit, columns)].T

    def _rows(self, unit: Unit, rows: int) -> slice:
        return slice(unit.cta * rows, (unit.cta + 1) * rows)

    def _columns(self, unit: Unit, columns: int) -> slice:
        return slice(unit.part * columns, (unit.part + 1) * columns)

    def _cells(self, unit: Unit) -> context.U32:
        first = self._plan.column + unit.column
        return self._group.ctas[unit.cta].tensor.words[first : first + unit.columns]
