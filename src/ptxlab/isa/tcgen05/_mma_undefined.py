"""Undefined bits through a tcgen05.mma: an element of D depends on a row of A, on a column of B, and on what it is added to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context, operations
from ptxlab.isa._undefined_products import product_of
from ptxlab.isa.tcgen05._cp import shift_down
from ptxlab.isa.tcgen05._mma_plan import Disabled, Plan
from ptxlab.isa.tcgen05._mma_units import Unit
from ptxlab.isa.tcgen05._state import CtaGroup

__all__ = ["multiply_undefined"]

Some = NDArray[np.bool_]


def multiply_undefined(
    plan: Plan, cta_group: CtaGroup, accumulate: bool, disabled: Disabled | None, undefined: operations.UndefinedBits
) -> None:
    """Do to undefined bits what `Plan.perform` does to the data."""
    shared = [undefined.of(cta.shared) for cta in cta_group.ctas]
    words = [undefined.of(cta.tensor.words) for cta in cta_group.ctas]
    shares = [(plan.share_of_b(each) != 0).any(axis=1) for each in shared]
    element = np.uint32((1 << plan.d_bits) - 1)
    found = []
    for unit in plan.units:
        cells = words[unit.cta]
        rows = _rows_of_a(plan, unit, shared[unit.cta], cells)
        columns = _columns_of_b(plan, unit, shares[unit.holder], cells)
        first = plan.column + unit.column
        d = cells[first : first + unit.columns, unit.lanes] & element if accumulate else np.zeros((unit.columns, unit.rows), np.uint32)
        found.append(product_of(columns[:, None], rows[:, None], d) & element)
    for unit, masks in zip(plan.units, found, strict=True):
        first = plan.column + unit.column
        lanes = np.arange(128)[unit.lanes]
        written = np.ones(len(lanes), bool) if disabled is None else ~np.isin(lanes, disabled[unit.cta])
        words[unit.cta][first : first + unit.columns, lanes[written]] = masks[:, written]
    if plan.shift_a and isinstance(plan.a, int):
        for each in words:
            shift_down(each, plan.a)


def _rows_of_a(plan: Plan, unit: Unit, shared: context.U8, cells: context.U32) -> Some:
    """The rows of A of which an element, a scale factor or a metadata code has undefined bits."""
    rows: Some = (plan.codes_of_a(shared, cells, unit.lanes) != 0).any(axis=1)
    if plan.scaling is not None:
        rows = rows | (plan.scaling.copies("a", cells) != 0).any(axis=(0, 2))
    if plan.metadata:
        rows = rows | (plan.metadata[unit.bank].read(cells) != 0).any(axis=1)
    return rows


def _columns_of_b(plan: Plan, unit: Unit, share: Some, cells: context.U32) -> Some:
    """The columns of a part of B of which an element or a scale factor has undefined bits."""
    columns = share[unit.first : unit.first + unit.columns]
    if plan.scaling is not None:
        factors: Some = (plan.scaling.copies("b", cells) != 0).any(axis=(0, 2))
        columns = columns | factors[unit.part * unit.columns : (unit.part + 1) * unit.columns]
    return columns
