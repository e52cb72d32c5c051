"""Products of f64 matrices: fused multiply-adds along K, each rounded once, as mma.sync does them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.native import address_of, compile_or_load
from ptxlab.native.builder import Function, Module, Value
from ptxlab.numerics._steps import NumericsError

__all__ = ["double_ir", "double_kernel", "mma_f64"]

_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""Rounding -> the number that ``llvm.set.rounding`` has for it."""
_NAN = 0xFFF8000000000000
_QUIET = 1 << 51


def double_ir() -> str:
    """The function ``mma``: ``d[m, n] += sum of a[m, k] * b[n, k]`` under the rounding ``mode``, low k first."""
    module = Module()
    parameters = "i64 rows, i64 columns, i64 count, ptr a, ptr b, ptr d, i32 mode"
    code = Function(module, "mma", "void", parameters, attributes="strictfp")
    module.declare("@llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
    code.do(f"call void @llvm.set.rounding({code['mode']}) strictfp")
    with code.loop(code["rows"]) as m, code.loop(code["columns"]) as n:
        row, column = code["a"].at(m * code["count"], "double"), code["b"].at(n * code["count"], "double")
        cell = code["d"].at(m * code["columns"] + n, "double")
        with code.loop(code["count"]) as k:
            cell.store(_fma(code, row.load("double", k), column.load("double", k), cell.load("double")))
    code.do("call void @llvm.set.rounding(i32 1) strictfp")
    return module.finish()


def _fma(code: Function, a: Value, b: Value, c: Value) -> Value:
    """One fused multiply-add; a NaN is the last one among the operands, quieted, as of the scalar instruction."""
    name = "@llvm.experimental.constrained.fma.f64"
    code.module.declare(name, f"declare double {name}(double, double, double, metadata, metadata)")
    options = 'metadata !"round.dynamic", metadata !"fpexcept.ignore"'
    result = code.emit(f"call double {name}({a}, {b}, {c}, {options}) strictfp", "double")
    nan = code.const("i64", _NAN)
    for operand in (a, b, c):
        bits = operand.bits("i64")
        nan = _is_nan(bits).select(bits | _QUIET, nan)
    bits = result.bits("i64")
    return _is_nan(bits).select(nan, bits).bits("double")


def _is_nan(bits: Value) -> Value:
    """Of the bits of a double; comparisons of numbers would have to be constrained too."""
    return (bits & 0x7FFFFFFFFFFFFFFF).gt(0x7FF0000000000000)


@cache
def double_kernel() -> Any:
    """The compiled function of `double_ir`."""
    library = compile_or_load(("numerics", "double"), ("mma",), double_ir, opt=1)
    return library.function("mma", None, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3, ctypes.c_int32)


def mma_f64(A: NDArray[np.float64], B: NDArray[np.float64], C: NDArray[np.float64], rounding: str = "rn") -> NDArray[np.float64]:
    """D = A B^T + C of mma.sync with f64: one fused multiply-add for each k in turn, C first.

    Parameters
    ----------
    A, B, C : [M, K], [N, K] and [M, N]
    rounding : rn, rz, rm or rp

    Examples
    --------
    >>> A, B = np.array([[1.0, 2.0**-60]]), np.array([[1.0, 1.0]])
    >>> float(mma_f64(A, B, np.zeros((1, 1)), "rp")[0, 0]) > 1
    True
    """
    if rounding not in _MODES:
        raise NumericsError(f"rounding {rounding!r}: expected {', '.join(map(repr, _MODES))}")
    a, b, d = (np.array(matrix, np.float64, order="C", ndmin=2) for matrix in (A, B, C))
    if a.shape[1] != b.shape[1] or d.shape != (len(a), len(b)):
        raise NumericsError(f"expected A [M, K], B [N, K] and C [M, N], got {list(a.shape)}, {list(b.shape)}, {list(d.shape)}")
    pointers = (address_of(matrix) for matrix in (a, b, d))
    double_kernel()(len(a), len(b), a.shape[1], *pointers, _MODES[rounding])
    return d
