"""The modes of cvt beyond rounding and overflow: stochastic rounding, relu, unit saturation, unsigned types, integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.formats import FORMATS, FormatError, decode, encode
from ptxlab.formats._conversions import RANDOM_BITS

FLOATS = ["f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]


def test_ue8m0_by_the_exponent_field() -> None:
    """rz keeps the exponent field of |x|; rp takes the next one unless the fraction is zero."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 0x7F800000, 5000, dtype=np.uint32) | rng.integers(0, 2, 5000, dtype=np.uint32) << np.uint32(31)
    bits[:100] &= np.uint32(0xFF800000)
    x = bits.view(np.float32)
    field, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    assert np.array_equal(encode(x, "ue8m0", "rz"), field)
    # 2^-127 is a subnormal of f32: half of its fraction's range.
    up = np.where(field == 0, fraction > 1 << 22, fraction != 0)
    assert np.array_equal(encode(x, "ue8m0", "rp", "finite"), np.minimum(field + up, 254))


def test_ue8m0_ends() -> None:
    assert encode([0.0, -0.0, 2.0**-149, 2.0**-127], "ue8m0", "rp").tolist() == [0, 0, 0, 0]
    assert encode([1.7e38, 1.8e38, np.inf, np.nan, -np.inf], "ue8m0", "rp", True).tolist() == [254, 254, 254, 255, 254]
    assert encode([1.7e38, 1.8e38, np.inf, np.nan], "ue8m0", "rp").tolist() == [254, 255, 255, 255]
    assert encode([3e38, -3e38], "ue8m0", "rz").tolist() == [254, 254]


def test_ue4m3_is_e4m3_of_the_magnitude() -> None:
    x = np.ldexp(np.random.default_rng(2).standard_normal(3000), np.arange(3000) % 24 - 12)
    for rounding in ("rn", "rz", "rp"):
        expected = encode(np.abs(x), "e4m3", rounding, True)  # type: ignore[arg-type]
        assert np.array_equal(encode(x, "ue4m3", rounding, True), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("fmt", RANDOM_BITS)
def test_stochastic_is_the_carry_of_an_addition(fmt: str) -> None:
    """For normal results: the bits of f32 below the fraction, plus the random bits aligned with them, carry or do not."""
    row, width = FORMATS[fmt], RANDOM_BITS[fmt]
    rng = np.random.default_rng(3)
    exponent = rng.integers(row.emin, row.emin + (1 << row.exponent) - 3, 4000)
    fraction = rng.integers(0, 1 << 23, 4000)
    fraction[:200] &= -1 << (23 - row.mantissa)
    sign = rng.choice([-1.0, 1.0], 4000)
    x = sign * np.ldexp(1 + fraction / 2.0**23, exponent)
    random = rng.integers(0, 1 << width, 4000)
    dropped = 23 - row.mantissa
    carried = (fraction + (random << (dropped - width))) >> dropped
    expected = sign * np.ldexp(1 + carried / 2.0**row.mantissa, exponent)
    assert np.array_equal(decode(encode(x, fmt, "rs", True, random=random), fmt), expected)


def test_stochastic_probability() -> None:
    every = np.arange(1 << 16)
    up = decode(encode(np.full(1 << 16, 1 + 0.3 / 8), "e4m3", "rs", random=every), "e4m3") > 1
    assert abs(up.mean() - 0.3) < 2**-15
    assert not up[: 1 << 15].any(), "the small ones do not carry"


@given(st.sampled_from(FLOATS), st.sampled_from(["rn", "rna", "rz", "rm", "rp"]), st.floats(width=32))
def test_relu(fmt: str, rounding: Any, x: float) -> None:
    plain, clamped = encode(x, fmt, rounding), encode(x, fmt, rounding, relu=True)
    assert clamped == (0 if int(plain) & FORMATS[fmt].sign_mask else plain)


@given(st.sampled_from(list(RANDOM_BITS)), st.floats(width=32), st.integers(0, 2**16 - 1))
def test_stochastic_relu(fmt: str, x: float, random: int) -> None:
    random &= (1 << RANDOM_BITS[fmt]) - 1
    plain, clamped = (encode(x, fmt, "rs", relu=relu, random=random) for relu in (False, True))
    assert clamped == (0 if int(plain) & FORMATS[fmt].sign_mask else plain)


@given(st.sampled_from(["f16", "f32"]), st.floats(width=32))
def test_unit_saturation(fmt: str, x: float) -> None:
    expected = encode(0.0 if math.isnan(x) else min(max(x, 0.0), 1.0) + 0.0, fmt)
    assert encode(x, fmt, "rn", "unit") == expected


@given(st.sampled_from(["s8", "u8"]), st.sampled_from(["rni", "rzi", "rmi", "rpi"]), st.floats(-400, 400))
def test_integers(fmt: str, rounding: Any, x: float) -> None:
    exact = Fraction(x)
    whole = {"rni": round(exact), "rzi": math.trunc(exact), "rmi": math.floor(exact), "rpi": math.ceil(exact)}[rounding]
    low, high = (-128, 127) if fmt == "s8" else (0, 255)
    assert encode(x, fmt, rounding) == min(max(whole, low), high) & 0xFF


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.0, "f16", "rni"), "no rounding 'rni'; there are rn, rna, rz, rm, rp, rs"),
        ((1.0, "f16", "rn", "all"), "no saturation 'all'; there are 'finite' and 'unit'"),
        ((1.0, "tf32", "rs"), "tf32 is not rounded stochastically; f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1 are"),
        ((1.0, "f16", "rs"), "stochastic rounding to f16: expected random, unsigned integers below 2^13"),
    ],
)
def test_errors(arguments: Any, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        encode(*arguments)
    assert caught.value.diagnostic.message == text


def test_random_bits_without_their_rounding() -> None:
    with pytest.raises(FormatError, match=r"^error\[N102\]: random bits belong to the rounding 'rs', not to 'rn'$"):
        encode(1.0, "f16", random=3)
    with pytest.raises(FormatError, match=r"^error\[N102\]: stochastic rounding to e2m1: expected random, unsigned integers below 2\^8$"):
        encode(1.0, "e2m1", "rs", random=256)
