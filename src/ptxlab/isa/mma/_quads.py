"""mma.m8n8k4 with f16: four independent products.

Section "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Product i belongs to threads 4i to 4i + 3, which hold rows
(columns) 0 to 3, and to threads 4i + 16 to 4i + 19, which hold rows (columns) 4 to 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.catalogue import Flow, service
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.mma._arithmetic import quad_product
from ptxlab.isa.mma._registers import read, write
from ptxlab.isa.mma._undefined import product_of, undefined
from ptxlab.layout import matrix_fragment, matrix_fragment_layout

__all__: list[str] = []

_SECTION = "Multiply-and-Accumulate Instruction: mma"


def _values(registers: NDArray[np.uint32], half: bool) -> NDArray[Any]:
    """The values of each thread, [32, values]."""
    rows = np.ascontiguousarray(registers.T)
    return rows.view(np.uint16) if half else rows


_PRODUCT = matrix_fragment_layout("m8n8k4 row").coefficients("P").offsets()[:, :1]
"""The number of each thread's product."""


def _gather(values: NDArray[Any], name: str, width: int) -> NDArray[Any]:
    """Matrices [4, 8, width] of values in the layout of that name."""
    at = matrix_fragment(f"m8n8k4 {name}")
    found = np.empty((4, 8, width), values.dtype)
    found[_PRODUCT, at.row, at.column] = values
    return found


def _multiply(warp: context.WarpContext) -> None:
    q = warp.q
    a = _gather(_values(read(warp, "a"), True), q.alayout, 4)
    b = _gather(_values(read(warp, "b"), True), {"row": "col", "col": "row"}[q.blayout], 4)
    c = _gather(_values(read(warp, "c"), q.c == "f16"), q.c, 8)
    d = np.stack([quad_product(warp.machine.target, q.d, q.c, a[i], b[i], c[i]) for i in range(4)])
    write(warp, _registers(d, q.d))


def _undefined_bits(warp: context.WarpContext) -> NDArray[Any]:
    """The undefined bits of the registers of D."""
    q = warp.q
    a = _gather(_values(undefined(warp, "a"), True), q.alayout, 4)
    b = _gather(_values(undefined(warp, "b"), True), {"row": "col", "col": "row"}[q.blayout], 4)
    c = _gather(_values(undefined(warp, "c"), q.c == "f16"), q.c, 8)
    return _registers(product_of(a, b, c) != 0, q.d)


def _registers(matrices: NDArray[Any], d: str) -> NDArray[Any]:
    """The registers of matrices [4, 8, 8] of bits of elements of D; a truth value stands for all bits."""
    at, kind = matrix_fragment(f"m8n8k4 {d}"), np.uint16 if d == "f16" else np.uint32
    values = matrices[_PRODUCT, at.row, at.column]
    bits = np.where(values, ~kind(0), kind(0)) if values.dtype == np.bool_ else values.astype(kind)
    return np.ascontiguousarray(bits).view(np.uint32).T


for _d, _c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
    service(
        f"mma.sync.aligned.m8n8k4.(alayout=row|col).(blayout=row|col).(d={_d}).f16.f16.(c={_c})",
        section=_SECTION,
        fidelity="hardware",
        outputs=1,
        effects=LOCAL,
        flow=Flow(("a", "b", "c"), _undefined_bits),
        d="v4.b32" if _d == "f16" else "v8.f32",
        a="v2.b32",
        b="v2.b32",
        c="v4.b32" if _c == "f16" else "v8.f32",
    )(_multiply)
