"""Compiled code that finds whether groups of 32 lanes hold different scale factors."""

from __future__ import annotations

from collections.abc import Iterator
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


def words_of_copies(scaling: Scaling, ctas: int) -> NDArray[np.int64]:
    """The number of rows, and the rows, for the scale factors of A and B in so many CTAs."""
    rows = [row for cta in range(ctas) for fields in (scaling.a, scaling.b) for row in _rows(tensor_base(cta), fields)]
    return np.array([len(rows), *[word for row in rows for word in row]], np.int64)


def _rows(base: int, fields: TensorBitFields) -> Iterator[tuple[int, int, int, int]]:
    masks: dict[tuple[int, int], int] = {}
    first, *others = (places.reshape(-1).tolist() for places in fields.places)
    for other in others:
        for place, copy in zip(first, other, strict=True):
            byte = place % CELL_BYTES
            cells = place - byte, copy - byte
            masks[cells] = masks.get(cells, 0) | fields.limit << 8 * byte
    for (cell, copy), mask in masks.items():
        yield base, cell, copy, mask


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
