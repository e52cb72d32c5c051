"""Inputs computed from seeds: bits that no version of NumPy changes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.hardware.suite._kernel import words

__all__ = ["below_two", "full", "integers", "ordinary", "special"]

Array = NDArray[Any]
FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2), "f64": (11, 52)}
"""Bits of exponent and mantissa."""
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32, "u32": np.uint32,
}  # fmt: skip


def _raw(seed: int, shape: tuple[int, ...], size: int) -> Array:
    return words(seed, int(np.prod(shape)), np.dtype(f"u{size}")).reshape(shape)


def ordinary(seed: int, kind: str, *shape: int, spread: int = 4) -> Array:
    """Numbers of both signs with random mantissas and exponents between those of 2^-spread and 1."""
    dtype = np.dtype(DTYPES[kind])
    raw = _raw(seed, shape, dtype.itemsize)
    if kind not in FIELDS:
        return raw.view(dtype)
    exponent, mantissa = FIELDS[kind]
    bias = (1 << exponent - 1) - 1
    low = max(bias - spread, 1)
    chosen = (_raw(seed + 1000003, shape, 4) % (bias - low + 1) + low).astype(raw.dtype)
    one = raw.dtype.type(1)
    sign, fraction = raw >> raw.dtype.type(exponent + mantissa), raw & raw.dtype.type((1 << mantissa) - 1)
    return (sign << raw.dtype.type(exponent + mantissa) | chosen << raw.dtype.type(mantissa) | fraction * one).view(dtype)


def full(seed: int, kind: str, *shape: int) -> Array:
    """Finite numbers of all exponents, subnormals and zeros included."""
    exponent, mantissa = FIELDS[kind]
    found = _raw(seed, shape, np.dtype(DTYPES[kind]).itemsize)
    kind_of = found.dtype.type
    top = kind_of((1 << exponent) - 1 << mantissa)
    found = np.where(found & top == top, found & ~kind_of(1 << mantissa + 1), found)
    found = np.where(found % kind_of(61) == 0, found & kind_of(1 << exponent + mantissa), found)
    return np.where(found % kind_of(17) == 1, found & ~top, found).view(DTYPES[kind])


def below_two(seed: int, kind: str, *shape: int) -> Array:
    """Numbers below 2 of all exponents, subnormals and zeros included."""
    exponent, mantissa = FIELDS[kind]
    found = full(seed, kind, *shape)
    bits = found.view(f"u{found.itemsize}")
    return (bits & ~bits.dtype.type(1 << exponent + mantissa - 1)).view(found.dtype)


def special(array: Array, kind: str, places: dict[tuple[int, ...], float]) -> Array:
    """The array with NaN, infinities or other numbers at places."""
    for place, value in places.items():
        array[place] = np.asarray(value).astype(DTYPES[kind])
    return array


def integers(seed: int, low: int, high: int, *shape: int, dtype: Any = np.int32) -> Array:
    """Integers from ``low`` up to ``high``, which is not among them."""
    return (_raw(seed, shape, 4).astype(np.int64) % (high - low) + low).astype(dtype)
