"""Arithmetic of atomics and of reductions over a warp, on the bits of values as Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Collective
from ptxlab.isa.scalar.float_helpers import NAN64

__all__ = ["combine", "redux"]


def combine(operation: str, type: str, old: int, a: int, b: int = 0, *, in_global: bool = False) -> int:
    """The new value of memory that an atomic operation finds with the value ``old``."""
    bits = TYPE_BITS[type]
    most = (1 << bits) - 1
    if operation == "exch":
        return a
    if operation == "cas":
        return b if old == a else old
    if operation in ("and", "or", "xor"):
        return {"and": old & a, "or": old | a, "xor": old ^ a}[operation]
    if operation == "inc":
        return 0 if old >= a else old + 1
    if operation == "dec":
        return a if old == 0 or old > a else old - 1
    if type[0] in "usb" and type[1:].isdigit():
        if operation == "add":
            return (old + a) & most
        sign = 1 << (bits - 1) if type[0] == "s" else 0
        return (min if operation == "min" else max)(old, a, key=lambda v: v ^ sign)
    if type.endswith("x2"):
        halves = [combine(operation, type[:-2], old >> s & 0xFFFF, a >> s & 0xFFFF) for s in (0, 16)]
        return halves[0] | halves[1] << 16
    return _add_doubles(old, a, in_global) if type == "f64" else _float_combine(operation, type, old, a, in_global)


def _add_doubles(old: int, a: int, in_global: bool) -> int:
    """The NaN of the operand in global memory, as it is; else that of the old value, quieted."""
    for operand in (a, old) if in_global else (old, a):
        if operand << 1 & (1 << 64) - 1 > 0x7FF << 53:
            return operand if in_global else operand | 1 << 51
    x, y = np.array([old, a], np.uint64).view(np.float64)
    with np.errstate(all="ignore"):
        total = x + y
    return NAN64 if np.isnan(total) else int(total.view(np.uint64))


def _float_combine(operation: str, type: str, old: int, a: int, flush: bool) -> int:
    x, y = (_f32(type, v, flush) for v in (old, a))
    canonical = 0x7FFFFFFF if type == "f32" else 0x7FFF
    if operation == "add":
        with np.errstate(all="ignore"):
            total32 = np.array([x], np.float32) + np.array([y], np.float32)
        if np.isnan(total32[0]):
            return canonical
        pattern = int(total32.view(np.uint32)[0])
        if type == "f32":
            return pattern & 0x80000000 if flush and not pattern & 0x7F800000 else pattern
        if type == "f16":
            return int(total32.astype(np.float16).view(np.uint16)[0])
        return (pattern + 0x7FFF + (pattern >> 16 & 1)) >> 16
    if np.isnan(x) or np.isnan(y):
        return canonical if np.isnan(x) and np.isnan(y) else a if np.isnan(x) else old
    key = {old: (float(x), old >> 15 ^ 1), a: (float(y), a >> 15 ^ 1)}
    return (min if operation == "min" else max)(old, a, key=lambda v: key[v])


def _f32(type: str, pattern: int, flush: bool) -> Any:
    if type == "f16":
        return np.array([pattern], np.uint16).view(np.float16).astype(np.float32)[0]
    bits = pattern << 16 if type == "bf16" else pattern
    if flush and not bits & 0x7F800000:
        bits &= 0x80000000
    return np.array([bits], np.uint32).view(np.float32)[0]


def redux(native: Collective, values: list[int]) -> int:
    """The reduction of the values of a group of lanes."""
    mode, *flags = native.mode.split(".")
    if native.type != "f32":
        total = values[0]
        for value in values[1:]:
            total = combine(mode, native.type, total, value)
        return total
    if "abs" in flags:
        values = [v & 0x7FFFFFFF for v in values]
    numbers = [v for v in values if v & 0x7FFFFFFF <= 0x7F800000]
    if not numbers or ("NaN" in flags and len(numbers) < len(values)):
        return 0x7FFFFFFF
    return (min if mode == "min" else max)(numbers, key=lambda v: v ^ 0x80000000 if v < 0x80000000 else v ^ 0xFFFFFFFF)
