"""Results computed outside the machine: chains of fused steps, rounding, integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics

from .case_helpers import Array, padded

F64 = NDArray[np.float64]

STEP = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
"""Elements of K that one dense instruction consumes, by kind."""

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4"}


def codes(array: Array) -> Array:
    """The raw bits of each element."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def chain(a: Array, b: Array, element: str, block_k: int, d: str = "f32", arch: str = "tcgen05") -> Array:
    """a [M, K] times b [N, K] as a tile loop computes it: the bits of D after every step of K, zeros up to a whole block."""
    kind = KINDS[element]
    by = kind if arch == "tcgen05" else None
    a_codes, b_codes = (codes(padded(x, (1, block_k))) for x in (a, b))
    bits = None
    for k in range(0, a_codes.shape[1], STEP[kind]):
        part = slice(k, k + STEP[kind])
        bits = numerics.mma(arch=arch, kind=by, a=element, b=element, d=d, A=a_codes[:, part], B=b_codes[:, part], C=bits)
    assert bits is not None
    return bits


def rounded(bits: Array, to: str) -> Array:
    """f32 bits rounded to the nearest value of another type."""
    with np.errstate(over="ignore"):
        return bits.view(np.float32).astype(DTYPES[to])


def product(a: Array, b: Array, to: str, steps: int, element: str = "", bits: int = 23) -> tuple[F64, F64]:
    """a [M, K] times b [N, K] in float64, and how far a chain of steps that keep so many bits and one rounding may be from it."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    exact = x @ y.T
    cut = 2.0**-9 if element == "tf32" else 0  # thirteen bits of each operand
    chain_error = (cut + 8 * steps * 2.0**-bits) * (np.abs(x) @ np.abs(y).T)
    return exact, chain_error + rounding(np.abs(exact) + chain_error, to)


def rounding(magnitude: F64, to: str) -> F64:
    """Half a unit in the last place of a type at a magnitude, and at its smallest subnormal number."""
    epsilon, tiny = {
        "f32": (2.0**-24, 2.0**-149),
        "f16": (2.0**-11, 2.0**-24),
        "bf16": (2.0**-8, 2.0**-133),
    }[to]
    return magnitude * epsilon + tiny


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z rounded once: float64 with rounding to odd holds enough for float32 and float16."""
    p = x.astype(np.float64) * y.astype(np.float64)
    w = z.astype(np.float64)
    s = p + w
    t = s - p
    rest = (p - (s - t)) + (w - t)
    odd = (s.view(np.int64) & 1).astype(bool)
    toward = np.where(rest > 0, np.inf, -np.inf)
    s = np.where((rest != 0) & ~odd, np.nextafter(s, toward), s)
    return s.astype(x.dtype)


def philox(seed: int, counter: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], ...]:
    """Philox 4x32 with ten rounds, the counter in the first word."""
    words = [counter.astype(np.uint64), *(np.zeros(counter.shape, np.uint64) for _ in range(3))]
    keys = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    for _ in range(10):
        left, right = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (right >> shift) ^ words[1] ^ keys[0],
            right & low,
            (left >> shift) ^ words[3] ^ keys[1],
            left & low,
        ]
        keys = (keys + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    return tuple(w.astype(np.uint32) for w in words)
