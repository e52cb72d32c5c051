"""The chain of a tcgen05.mma: all that it does to the memories of its CTAs, in one call of compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxlab import numerics
from ptxlab.isa.tcgen05._accesses import CELL_BYTES, COLUMN_BYTES
from ptxlab.isa.tcgen05._descriptors import Gather
from ptxlab.isa.tcgen05._element_types import Format
from ptxlab.isa.tcgen05._mma_plan import Lanes, Unit

__all__ = ["chain_of"]

_SHARED, _TENSOR = 1, 2
"""The bases of the first CTA; those of the second follow. Base 0 is for host addresses."""
_RUN = 16
"""Lanes that stay together."""


def chain_of(
    product: numerics.MmaKernel, a: Gather | int, a_format: Format, b: Gather, b_format: Format, units: Sequence[Unit], column: int
) -> numerics.MmaProgram | None:
    """The chain of a dense product, None where codes have to be unpacked first. ``column`` is D's first, ``a`` A's in tensor memory."""
    if a_format.packed or b_format.packed or not all(_in_runs(unit.lanes) for unit in units):
        return None
    group = max(unit.cta for unit in units) + 1
    sources_a = [_shared(a, cta) if isinstance(a, Gather) else _tensor(a, a_format, units[0].lanes, product.k, cta) for cta in range(group)]
    sources_b = [_shared(b, cta) for cta in range(group)]
    return product.program(sources_a, sources_b, [(unit.cta, unit.holder, _cells(unit, column)) for unit in units])


def _in_runs(lanes: Lanes) -> bool:
    if isinstance(lanes, slice):
        return True
    runs = lanes.reshape(-1, _RUN)
    return bool((runs == runs[:, :1] // _RUN * _RUN + np.arange(_RUN)).all())


def _shared(operand: Gather, cta: int) -> numerics.OperandGather:
    offset, order, over_rows, over_k = operand.slots
    return numerics.OperandGather(_SHARED + 2 * cta, offset, order, 16, over_rows, over_k)


def _tensor(first: int, fmt: Format, lanes: Lanes, k: int, cta: int) -> numerics.OperandGather:
    columns = np.arange(first, first + k * fmt.container // 32)
    order = columns * (COLUMN_BYTES // CELL_BYTES) + np.arange(128)[lanes, None]
    return numerics.OperandGather(_TENSOR + 2 * cta, 0, order.reshape(-1), CELL_BYTES, CELL_BYTES * len(columns), fmt.container // 8)


def _cells(unit: Unit, column: int) -> numerics.AccumulatorRef:
    base, first = _TENSOR + 2 * unit.cta, column + unit.column
    if isinstance(unit.lanes, slice):
        return numerics.AccumulatorRef(base, COLUMN_BYTES * first + CELL_BYTES * unit.lanes.start, COLUMN_BYTES)
    runs = unit.lanes[::_RUN] // _RUN
    columns = np.arange(first, first + unit.columns)[:, None] * (COLUMN_BYTES // CELL_BYTES // _RUN)
    return numerics.AccumulatorRef(base, 0, 0, (columns + runs).reshape(-1))
