"""Compiled code that finds whether groups of 32 lanes hold different scale factors, or metadata has codes that are not legal."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxlab import native, numerics
from ptxlab.isa.tcgen05._accesses import CELL_BYTES
from ptxlab.isa.tcgen05._side_operands import Scaling, TensorBitFields
from ptxlab.isa.tcgen05._state import tensor_base

__all__ = ["ask_address", "words_to_ask"]

_FUNCTION, _PROGRAM, _COUNT, _ROWS = range(4)
"""Words of what is asked."""
_BASE, _FIRST, _OTHER, _MASK, _END = range(5)
"""Words of a row: the base of tensor memory, the offsets there of two cells, and which of their bits must be the same."""

_HALF = 32
"""Bits of an offset."""


def words_to_ask(scaling: Scaling | None, ctas: int, metadata: numerics.MmaProgram | None) -> NDArray[np.int64]:
    """What is asked about the scale factors of A and B in so many CTAs, and about metadata.

    They are the function and the program for metadata, 0 if there is none, the number of rows, and the rows.
    """
    parts = [] if scaling is None else [_rows(tensor_base(cta), fields) for cta in range(ctas) for fields in (scaling.a, scaling.b)]
    rows = np.concatenate(parts).reshape(-1) if parts else np.zeros(0, np.int64)
    question = (0, 0) if metadata is None else metadata.question
    return np.concatenate([np.array([*question, len(rows) // _END], np.int64), rows])


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
def ask_address() -> int:
    """The host address of ``i64 ask(bases, words)``: 0 if all copies are the same and all codes legal; word 3: `words_to_ask`."""
    return native.compile_or_load(("tcgen05.mma ask",), ("ask",), _ask_ir, opt=1, light=True).address("ask")


def _ask_ir() -> str:
    module = native.Module()
    code, (bases, words) = module.define("i64 ask(ptr bases, ptr words)")
    table, found = words.pointer(3), code.variable("i32", 0)
    function = table.pointer(_FUNCTION)
    with code.loop(table.word(_COUNT)) as i:
        row = table.at(i * (8 * _END) + 8 * _ROWS)
        base = bases.load("i64", row.word(_BASE))
        one, other = ((base + row.word(each)).convert("inttoptr", "ptr").load("i32") for each in (_FIRST, _OTHER))
        found.set(found.get() | ((one ^ other) & row.word(_MASK).to("i32")))
    with code.when(function.ne(0) & found.get().eq(0)):
        code.ret(code.call(function, "i64", table.pointer(_PROGRAM), bases))
    code.ret(found.get().to("i64"))
    return module.finish()
