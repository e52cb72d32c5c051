"""mma.m8n8k4 with f16: four products side by side.

Section "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Product i belongs to threads 4i to 4i + 3, which bring the rows
(columns) 0 to 3, and to those 16 further, which bring 4 to 7.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.mma._arithmetic import quad_product
from ptxlab.isa.mma._registers import read, write

__all__: list[str] = []

_SECTION = "Multiply-and-Accumulate Instruction: mma"


def _values(registers: NDArray[np.uint32], half: bool) -> NDArray[Any]:
    """What each thread holds, [32, values]."""
    rows = np.ascontiguousarray(registers.T)
    return rows.view(np.uint16) if half else rows


@cache
def _across(along: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row [32, 4] and k [32, 4] of the values of A or B: along K each thread has a row of four, else a column of four rows."""
    lane, value = np.arange(32)[:, None], np.arange(4)[None]
    here, other = np.broadcast_arrays(lane % 4, value)
    return (here + lane // 16 * 4, other) if along else (other + lane // 16 * 4, here)


@cache
def _accumulator(half: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column [32, 8] of the values of C or D."""
    lane, value = np.arange(32)[:, None], np.arange(8)[None]
    row = lane % 4 if half else (lane & 1) + (value & 2)
    column = value if half else (value & 4) + (lane & 2) + (value & 1)
    row, column = np.broadcast_arrays(row + lane // 16 * 4, column)
    return row, column


_PRODUCT = np.arange(32)[:, None] % 16 // 4


def _gather(values: NDArray[Any], places: tuple[NDArray[np.intp], NDArray[np.intp]], width: int) -> NDArray[Any]:
    """Matrices [4, 8, width]."""
    found = np.empty((4, 8, width), values.dtype)
    found[_PRODUCT, places[0], places[1]] = values
    return found


def _multiply(warp: context.WarpContext) -> None:
    q = warp.q
    a = _gather(_values(read(warp, "a"), True), _across(q.alayout == "row"), 4)
    b = _gather(_values(read(warp, "b"), True), _across(q.blayout == "col"), 4)
    c = _gather(_values(read(warp, "c"), q.c == "f16"), _accumulator(q.c == "f16"), 8)
    d = np.stack([quad_product(warp.machine.target, q.d, q.c, a[i], b[i], c[i]) for i in range(4)])
    half = q.d == "f16"
    row, column = _accumulator(half)
    values = np.ascontiguousarray(d[_PRODUCT, row, column], np.uint16 if half else np.uint32)
    write(warp, values.view(np.uint32).T)


for _d, _c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
    service(
        f"mma.sync.aligned.m8n8k4.(alayout=row|col).(blayout=row|col).(d={_d}).f16.f16.(c={_c})",
        section=_SECTION,
        fidelity="hardware",
        outputs=1,
        effects=LOCAL,
        d="v4.b32" if _d == "f16" else "v8.f32",
        a="v2.b32",
        b="v2.b32",
        c="v4.b32" if _c == "f16" else "v8.f32",
    )(_multiply)
