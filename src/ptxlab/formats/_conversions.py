"""Values to codes and back: the rounding and saturation of PTX ``cvt`` (section "Data Movement and Conversion Instructions: cvt")."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats._table import Format, FormatError, codes_array, find

__all__ = ["RANDOM_BITS", "Rounding", "Saturation", "decode", "encode"]


def decode(codes: Any, fmt: str) -> NDArray[np.float32]:
    """Values of element codes; every value of every type is exact in float32.

    Parameters
    ----------
    codes : right-aligned codes, any unsigned dtype; bits above the type's own are refused
    fmt : the element type

    Examples
    --------
    >>> decode([0x38, 0x7E, 0x80], "e4m3").tolist()
    [1.0, 448.0, -0.0]
    >>> decode([0x3F801FFF], "tf32").tolist()  # the low 13 bits are dropped
    [1.0]
    """
    row = find(fmt)
    array = codes_array(codes, row)
    if row.bits == 32:
        kept = array.astype(np.uint32) & np.uint32(0xFFFFFFFF ^ ((1 << row.dropped) - 1))
        return np.asarray(kept).view(np.float32)
    if row.name == "bf16":
        return np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(_table(row)[array])


@cache
def _table(row: Format) -> NDArray[np.float32]:
    codes = np.arange(1 << row.bits, dtype=np.int64)
    if row.is_integer:
        return np.where((codes & row.sign_mask) != 0, codes - (1 << row.bits), codes).astype(np.float32)
    magnitude = codes & row.magnitude_mask
    field, fraction = magnitude >> row.mantissa, magnitude & ((1 << row.mantissa) - 1)
    # ue8m0 has no subnormal numbers: code 0 is 2^-127.
    normal = (field > 0) | (row.mantissa == 0)
    significand = np.where(normal, fraction + (1 << row.mantissa), fraction)
    exponent = np.where(normal, field, 1) - row.bias - row.mantissa
    values = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
    if row.inf is not None:
        values[magnitude == row.inf] = np.inf
    if row.nan is not None:
        values[magnitude >= row.nan] = np.nan
    values = np.copysign(values, np.where((codes & row.sign_mask) != 0, -1.0, 1.0))
    table = values.astype(np.float32)
    table.setflags(write=False)
    return table


Rounding = Literal["rn", "rna", "rz", "rm", "rp", "rs", "rni", "rzi", "rmi", "rpi"]
Saturation = Literal["finite", "unit"]

F64 = NDArray[np.float64]


_ROUND: dict[str, Callable[[F64], F64]] = {
    "rn": np.rint,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
}
"""Rounding to an integer; the argument is below 2^25, so that adding one half is exact."""

RANDOM_BITS = {"f16": 13, "bf16": 16, "e4m3": 16, "e5m2": 16, "e3m2": 16, "e2m3": 16, "e2m1": 8}
"""How many random bits an element of a type takes when it is rounded stochastically."""


def encode(
    values: Any,
    fmt: str,
    rounding: Rounding = "rn",
    saturate: bool | Saturation = False,
    *,
    relu: bool = False,
    random: Any = None,
) -> NDArray[Any]:
    """Codes of the nearest representable values, rounded once from float64.

    Parameters
    ----------
    values : array of float64 or narrower; types without a sign take magnitudes
    fmt : the element type
    rounding : "rn" ties to even, "rna" ties away from zero, "rz" toward zero, "rm" down, "rp" up; to integers also as "rni" and so on;
        "rs" stochastic: away from zero if the discarded fraction and the random bits carry
    saturate : "finite" or True: overflow and infinities become the largest finite value (``.satfinite``). Types with neither Inf nor NaN
        always saturate; their NaN becomes the largest value, in other types the canonical NaN. "unit": clamp to [0, 1], NaN to 0 (``.sat``)
    relu : negative results become +0
    random : for "rs", integers of as many bits as the type takes: 16, for f16 13 and for e2m1 8

    Examples
    --------
    >>> [hex(code) for code in encode([1.0, 0.3, 1e9], "e4m3", saturate=True)]
    ['0x38', '0x2a', '0x7e']
    >>> hex(encode(1.00048828125, "tf32", "rna"))
    '0x3f802000'
    >>> [hex(code) for code in encode([3.0, -3.0], "ue8m0", "rp")]
    ['0x81', '0x81']
    >>> [hex(code) for code in encode([1.25, 1.25], "e2m1", "rs", random=[0x7F, 0x80])]
    ['0x2', '0x3']
    """
    row = find(fmt)
    if rounding[-1:] == "i" and rounding[:-1] in _ROUND and row.is_integer:
        rounding = rounding[:-1]  # type: ignore[assignment]
    if rounding not in (*_ROUND, "rs"):
        raise FormatError(f"no rounding {rounding!r}; there are {', '.join(_ROUND)}, rs")
    if saturate not in (False, True, "finite", "unit"):
        raise FormatError(f"no saturation {saturate!r}; there are 'finite' and 'unit'")
    x = np.asarray(values, dtype=np.float64)
    if saturate == "unit":
        x = np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)) + 0.0
    bits = _random(x, fmt, random) if rounding == "rs" else None
    if bits is None and random is not None:
        raise FormatError(f"random bits belong to the rounding 'rs', not to {rounding!r}")
    if row.is_integer:
        codes = _integers(x, row, rounding)
        return np.where(relu & (x < 0), 0, codes).astype(row.dtype)[()]
    codes = _floats(x, row, rounding, bool(saturate), bits)
    negative = (codes & row.sign_mask) != 0
    return np.where(relu & negative, 0, codes).astype(row.dtype)[()]


def _random(x: F64, fmt: str, given: Any) -> F64:
    """Random bits as fractions below one."""
    width = RANDOM_BITS.get(fmt)
    if width is None:
        raise FormatError(f"{fmt} is not rounded stochastically; {', '.join(RANDOM_BITS)} are")
    bits = np.asarray(given)
    if given is None or bits.dtype.kind not in "ui" or (bits.size and (int(bits.min()) < 0 or int(bits.max()) >> width)):
        raise FormatError(f"stochastic rounding to {fmt}: expected random, unsigned integers below 2^{width}")
    return np.broadcast_to(np.ldexp(bits.astype(np.float64), -width), x.shape)


def _integers(x: F64, row: Format, rounding: Rounding) -> NDArray[Any]:
    low, high = (-128, 127) if row.signed else (0, 255)
    rounded = _ROUND[rounding](np.where(np.isnan(x), 0.0, np.clip(x, low, high)))
    return rounded.astype(np.int64) & 0xFF


def _floats(x: F64, row: Format, rounding: Rounding, saturate: bool, random: F64 | None) -> NDArray[Any]:
    negative = np.signbit(x)
    finite = np.where(np.isfinite(x), x, 0.0)
    if not row.signed:
        finite = np.abs(finite)
        negative = np.zeros_like(negative)
    exponent = np.frexp(finite)[1] - 1
    # With no fraction bits there are no subnormal numbers below 2^emin, and code 0 means 2^-bias.
    lowest = -row.bias if row.mantissa == 0 else row.emin
    exponent = np.maximum(np.where(finite == 0, lowest, exponent), lowest)
    scaled = np.ldexp(finite, row.mantissa - exponent)
    if random is None:
        units = np.abs(_ROUND[rounding](scaled)).astype(np.int64)
    else:
        whole = np.trunc(np.abs(scaled))
        units = (whole + (np.abs(scaled) - whole + random >= 1)).astype(np.int64)
    hidden = 1 << row.mantissa
    magnitude = np.where(units >= hidden, ((exponent + row.bias).astype(np.int64) << row.mantissa) + units - hidden, units)
    if row.mantissa == 0:
        magnitude = np.where(units == 0, 0, magnitude)
    magnitude <<= row.dropped
    first_special = next((code for code in (row.inf, row.nan) if code is not None), None)
    step = 1 << row.dropped
    largest = (row.magnitude_mask + step if first_special is None else first_special) - step
    over = (magnitude > largest) | np.isinf(x)
    toward_zero = (rounding == "rz") | ((rounding == "rm") & ~negative) | ((rounding == "rp") & negative)
    beyond = largest if first_special is None else first_special
    stays = toward_zero & np.isfinite(x)
    magnitude = np.where(over, np.where(stays | saturate, largest, beyond), magnitude)
    codes = magnitude | np.where(negative, row.sign_mask, 0)
    canonical = row.magnitude_mask if row.nan is not None else largest
    return np.where(np.isnan(x), canonical, codes)
