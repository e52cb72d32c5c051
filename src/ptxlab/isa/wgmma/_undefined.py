"""Undefined bits through a wgmma.mma_async, in a run that follows them through memory.

They move as the data does: registers are read at issue, shared memory when the instruction performs, and the registers of D receive theirs
when they receive D.
"""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context, operations
from ptxlab.isa._undefined_products import product_of
from ptxlab.isa.warpgroup_words import WARPS
from ptxlab.isa.wgmma._accumulator import Accumulator, Undefined
from ptxlab.isa.wgmma._fragments import a_matrix
from ptxlab.isa.wgmma._state import Share, UndefinedOperands, Warpgroup

__all__ = ["begin_undefined", "issue_undefined", "multiply_undefined", "read_undefined"]


def begin_undefined(group: Warpgroup, share: Share) -> UndefinedOperands:
    """The first warp issues an instruction."""
    registers = share.form.index.registers
    return UndefinedOperands(group.chained(share.form), np.zeros((WARPS, 4, 32), np.uint32), np.zeros((WARPS, registers, 32), np.uint32))


def issue_undefined(share: Share, found: UndefinedOperands, warp: context.WarpContext, member: int) -> None:
    """A warp issues it: read its registers of A and D."""
    found.warps[member] = warp
    if share.a_words is not None:
        found.a[member] = warp.undefined(1)
        found.origins |= warp.origins_of(1)
    if share.accumulate and not found.chained:
        found.d[member] = warp.undefined(0)
        found.origins |= warp.origins_of(0)


def read_undefined(group: Warpgroup, share: Share, cta: context.Cta, undefined: operations.UndefinedBits) -> None:
    """It is about to perform: read shared memory."""
    found = share.undefined
    assert found is not None
    shared = undefined.of(cta.shared)
    a = a_matrix(found.a, np.dtype(np.uint32)) if share.operands.a is None else share.operands.a.read(shared)
    found.rows = (a != 0).any(axis=1)
    found.columns = (share.operands.b.read(shared) != 0).any(axis=1)
    held = group.held(share.form)
    before = {held.undefined.origin} if held.in_flight and held.undefined is not None and held.undefined.origin else set()
    found.origin = undefined.origin(found.origins | before)


def multiply_undefined(share: Share, held: Accumulator) -> None:
    """Give elements of D the undefined bits of their row of A, their column of B, and, if they are added to, of themselves."""
    found = share.undefined
    assert found is not None
    assert found.rows is not None
    assert found.columns is not None
    index = held.index
    warps = [found.warps[member] for member in range(WARPS)]
    operand = share.op.operands[0]
    if not share.accumulate:
        before = np.zeros_like(held.cells)
    elif held.undefined is not None:
        before = held.undefined.cells
    else:
        before = index.cells(np.stack([warp.undefined(operand) for warp in warps]) if found.chained else found.d)
    element = np.uint32(0xFFFF_FFFF if index.values == 1 else 0xFFFF)
    cells = product_of(found.columns[:, None], found.rows[:, None], before) & element
    held.undefined = Undefined(cells, found.origin, warps, operand)
