"""The arithmetic of mma: element codes of A, B and C to those of D, as the target's tensor cores or ptxas' emulation compute it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.formats import decode

__all__ = ["Scales", "architecture", "bit_product", "float_product", "integer_product", "quad_product"]

Codes = NDArray[Any]
_GENERATIONS = (120, 100, 90, 89, 80, 75, 70)
_EIGHT_BIT = ("e4m3", "e5m2")


class Scales(NamedTuple):
    """Scale factors of A [M, factors] and B [N, factors], their type, and the number of stored elements that share a factor."""

    a: NDArray[np.uint8]
    b: NDArray[np.uint8]
    type: str
    block: int


@cache
def architecture(target: str) -> str:
    """The ``arch`` of a target in `ptxlab.numerics`.

    >>> architecture("sm_90a"), architecture("sm_103a"), architecture("sm_86")
    ('mma.sm_90', 'mma.sm_100', 'mma.sm_80')
    """
    number = int(re.sub(r"\D", "", target.split("_")[-1]) or 100)
    return f"mma.sm_{next((g for g in _GENERATIONS if g <= number), 70)}"


def float_product(
    target: str, kind: str | None, types: tuple[str, str, str], a: Codes, b: Codes, c: Codes, metadata: Codes | None, scales: Scales | None
) -> Codes:
    """A floating-point product; ``types`` are those of A, B and D."""
    arch = architecture(target)
    if types[0] in _EIGHT_BIT and arch in ("mma.sm_90", "mma.sm_100"):
        return _as_halves(arch, types, a, b, c, metadata)
    of_scales: dict[str, Any] = {}
    if scales is not None:
        of_scales = {"scale_a": scales.a, "scale_b": scales.b, "scale": scales.type, "block": scales.block}
    return numerics.mma(arch=arch, kind=kind, a=types[0], b=types[1], d=types[2], A=a, B=b, C=c, metadata=metadata, **of_scales)


def _as_halves(arch: str, types: tuple[str, str, str], a: Codes, b: Codes, c: Codes, metadata: Codes | None) -> Codes:
    """Multiply eight-bit elements as f16: first the low halves of all registers of A, then the high halves; add C at the end.

    ptxas emulates the mma in this way for targets whose tensor cores do not have it. Half a register holds two elements of A, or one chunk
    of a sparse A.
    """
    d = types[2]
    first, second = (_halves(decode(a, types[0]), 2), _halves(decode(b, types[1]), 2 if metadata is None else 4))
    chosen = (None, None) if metadata is None else (metadata[:, 0::2], metadata[:, 1::2])
    found = None
    for x, y, codes in zip(first, second, chosen, strict=True):
        found = numerics.mma(arch=arch, kind=None, a="f16", b="f16", d=d, A=x, B=y, C=found, metadata=codes)
    assert found is not None
    number = np.float16 if d == "f16" else np.float32
    with np.errstate(all="ignore"):
        return _words(found.view(number) + np.ascontiguousarray(c, found.dtype).view(number))


def _halves(values: NDArray[np.float32], count: int) -> tuple[Codes, Codes]:
    """Split each row into pieces of ``count`` elements; return the even and the odd pieces as f16."""
    pieces = values.astype(np.float16).view(np.uint16).reshape(len(values), -1, 2, count)
    low, high = (np.ascontiguousarray(pieces[:, :, i]).reshape(len(values), -1) for i in (0, 1))
    return low, high


def _words(values: NDArray[Any]) -> Codes:
    """The bits of floating-point results, with the canonical NaN."""
    bits = values.view(f"u{values.itemsize}")
    found: Codes = np.where(np.isnan(values), bits.dtype.type(0x7FFF if values.itemsize == 2 else 0x7FFFFFFF), bits)
    return found


def quad_product(target: str, d: str, c_type: str, a: Codes, b: Codes, c: Codes) -> Codes:
    """One of the four products of m8n8k4 with f16: tensor cores up to sm_75, ptxas' emulation in f32 on later targets."""
    arch = architecture(target)
    if arch in ("mma.sm_70", "mma.sm_75"):
        addend = _words(c.view(np.float16).astype(np.float32)) if (d, c_type) == ("f32", "f16") else c
        return numerics.mma(arch=arch, kind=None, a="f16", b="f16", d=d, A=a, B=b, C=addend)
    x, y = (matrix.view(np.float16).astype(np.float64) for matrix in (a, b))
    with np.errstate(all="ignore"):
        addend = c.view(np.float16 if c_type == "f16" else np.float32).astype(np.float32)
        # Products of halves are exact in f64, and so is the sum of one with an f32: each rounding below is that of a fused multiply-add.
        products = x[:, None, :] * y[None, :, :]
        if d == "f16":
            pairs = (products[:, :, 0::2] + products[:, :, 1::2]).astype(np.float32)
            return _words((addend + pairs[:, :, 0] + pairs[:, :, 1]).astype(np.float16))
        total = np.zeros_like(addend)
        for k in range(products.shape[2]):
            total = (products[:, :, k] + total).astype(np.float32)
        return _words(addend + total)


def integer_product(
    types: tuple[str, str], bits: int, a: Codes, b: Codes, c: NDArray[np.uint32], metadata: Codes | None, satfinite: bool
) -> Codes:
    """An integer product: exact, then wrapped or clamped once."""
    if metadata is not None:
        a, _ = numerics.expand_sparse(a, metadata, types[0], bits == 4)
    total = _numbers(a, types[0], bits) @ _numbers(b, types[1], bits).T + c.view(np.int32)
    if satfinite:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    found: Codes = total.astype(np.uint64).astype(np.uint32)
    return found


def _numbers(codes: Codes, name: str, bits: int) -> NDArray[np.int64]:
    wide = codes.astype(np.int64)
    return np.where(wide >> (bits - 1) & 1, wide - (1 << bits), wide) if name[0] == "s" else wide


def bit_product(operation: str, a: Codes, b: Codes, c: NDArray[np.uint32]) -> Codes:
    """A product of .b1: the number of pairs of bits that are both one (and) or differ (xor)."""
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    both = wide_a @ wide_b.T
    counted = both if operation == "and" else wide_a.sum(axis=1)[:, None] + wide_b.sum(axis=1) - 2 * both
    found: Codes = counted.astype(np.uint32) + c
    return found
