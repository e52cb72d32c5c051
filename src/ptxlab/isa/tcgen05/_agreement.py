"""Compiled code that finds whether groups of 32 lanes hold different scale factors."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.isa.tcgen05._accesses import CELL_BYTES
from ptxlab.isa.tcgen05._side_operands import Scaling, TensorBitFields
from ptxlab.isa.tcgen05._state import tensor_base

__all__ = ["differ_address", "words_of_copies"]

_BASE, _FIRST, _OTHER, _MASK, _END = range(5)
"""Words of a row: the base of tensor memory, the offsets there of two cells, and which of their bits must be the same."""

_HALF = 32
"""Bits of an offset."""


def words_of_copies(scaling: Scaling, ctas: int) -> NDArray[np.int64]:
    """The number of rows, and the rows, for the scale factors of A and B in so many CTAs."""
    rows = np.concatenate([_rows(tensor_base(cta), fields) for cta in range(ctas) for fields in (scaling.a, scaling.b)])
    return np.concatenate([[len(rows)], rows.reshape(-1)])


def _rows(base: int, fields: TensorBitFields) -> NDArray[np.int64]:
    """The rows of all cells with fields."""
    places = fields.places.reshape(len(fields.places), -1)
    bytes_of_cells = places[0] % CELL_BYTES
    first, *others = places - bytes_of_cells
    found = []
    for other in others:
        pairs, which = np.unique(first << _HALF | other, return_inverse=True)
        masks = np.zeros(len(pairs), np.int64)
        np.bitwise_or.at(masks, which, fields.limit << 8 * bytes_of_cells)
        found.append(np.stack([np.full_like(masks, base), pairs >> _HALF, pairs & (1 << _HALF) - 1, masks], axis=1))
    return np.concatenate(found)


@cache
def differ_address() -> int:
    """The host address of ``i64 differ(bases, words)``: 0 if all copies are the same; word 3 is the address of `words_of_copies`."""
    return native.compile_or_load(("scale factors differ",), ("differ",), _differ_ir, opt=1, light=True).address("differ")


def _differ_ir() -> str:
    module = native.Module()
    code, (bases, words) = module.define("i64 differ(ptr bases, ptr words)")
    table, found = words.pointer(3), code.variable("i32", 0)
    with code.loop(table.word(0)) as i:
        row = table.at(i * (8 * _END) + 8)
        base = bases.load("i64", row.word(_BASE))
        one, other = ((base + row.word(each)).convert("inttoptr", "ptr").load("i32") for each in (_FIRST, _OTHER))
        found.set(found.get() | ((one ^ other) & row.word(_MASK).to("i32")))
    code.ret(found.get().to("i64"))
    return module.text()
