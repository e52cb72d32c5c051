"""Element types against ml_dtypes, NumPy and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.formats import FORMATS, FormatError, decode, encode

KNOWN: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "s8": np.int8,
    "u8": np.uint8,
}
FLOATS = ["f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]


def all_codes(fmt: str) -> Any:
    return np.arange(1 << FORMATS[fmt].bits, dtype=FORMATS[fmt].dtype)


def same(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    nan = np.isnan(x)
    return bool(
        np.array_equal(nan, np.isnan(y)) and np.array_equal(x[~nan], y[~nan]) and np.array_equal(np.signbit(x[~nan]), np.signbit(y[~nan]))
    )


@pytest.mark.parametrize("fmt", KNOWN)
def test_decode_is_ml_dtypes(fmt: str) -> None:
    codes = all_codes(fmt)
    assert same(decode(codes, fmt), codes.view(KNOWN[fmt]).astype(np.float32))


def test_decode_ue4m3_ignores_the_top_bit() -> None:
    codes = all_codes("ue4m3")
    assert same(decode(codes, "ue4m3"), (codes & 0x7F).view(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_decode_tf32_truncates_first() -> None:
    codes = np.array([0x3F801FFF, 0x7F800001, 0x7F802000, 0x00001FFF, 0xFF801234], np.uint32)
    assert same(decode(codes, "tf32"), np.array([1.0, np.inf, np.nan, 0.0, -np.inf]))


@pytest.mark.parametrize("fmt", FORMATS)
def test_values_encode_to_their_codes(fmt: str) -> None:
    row = FORMATS[fmt]
    codes = (
        all_codes(fmt) if row.bits <= 16 else np.arange(0, 1 << 32, 65521, dtype=np.uint32) & np.uint32(row.magnitude_mask | row.sign_mask)
    )
    values = decode(codes, fmt)
    kept = ~np.isnan(values)
    if fmt == "ue4m3":
        codes = codes & 0x7F
    for rounding in ("rn", "rna", "rz", "rm", "rp"):
        assert np.array_equal(encode(values[kept], fmt, rounding), codes[kept])  # type: ignore[arg-type]


@pytest.mark.parametrize("fmt", ["f16", "bf16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_nearest_is_ml_dtypes(fmt: str) -> None:
    rng = np.random.default_rng(1)
    row = FORMATS[fmt]
    wide = np.ldexp(rng.standard_normal(20000), rng.integers(row.emin - row.mantissa - 3, row.bias + 3, 20000))
    # Halfway points and their neighbours.
    with np.errstate(invalid="ignore"):
        exact = decode(all_codes(fmt), fmt).astype(np.float64)
    exact = np.sort(exact[np.isfinite(exact)])
    middle = (exact[1:] + exact[:-1]) / 2
    with np.errstate(over="ignore"):
        x = np.concatenate([wide, exact, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(KNOWN[fmt]).view(row.dtype)
    ours = encode(x, fmt)
    # ml_dtypes turns overflow in e4m3 into NaN as PTX does, and keeps a sign on it.
    assert np.array_equal(ours, expected)


@given(
    st.sampled_from(FLOATS), st.sampled_from(["rn", "rna", "rz", "rm", "rp"]), st.floats(allow_nan=False, allow_infinity=False, width=32)
)
def test_rounding_is_exact(fmt: str, rounding: Any, x: float) -> None:
    row = FORMATS[fmt]
    value = Fraction(x)
    exponent = max(math.frexp(x)[1] - 1, row.emin) if x else row.emin
    quantum = Fraction(2) ** (exponent - row.mantissa)
    units = value / quantum
    floor = math.floor(units)
    rest = units - floor
    rounded = {
        "rz": math.trunc(units),
        "rm": floor,
        "rp": math.ceil(units),
        "rn": floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2)),
        "rna": floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and x > 0)),
    }[rounding]
    largest = max(
        Fraction(float(v))
        for v in decode([row.magnitude_mask, (row.inf or row.nan or 1 << row.dropped) - (1 << row.dropped)], fmt)
        if np.isfinite(v)
    )
    result = float(decode(encode(x, fmt, rounding, saturate=True), fmt))
    assert Fraction(result) == max(-largest, min(largest, rounded * quantum))
    assert np.signbit(result) == np.signbit(x)


@pytest.mark.parametrize(
    ("fmt", "plain", "saturated"),
    [
        ("f16", [0x7C00, 0xFC00, 0x7FFF], [0x7BFF, 0xFBFF, 0x7FFF]),
        ("bf16", [0x7F80, 0xFF80, 0x7FFF], [0x7F7F, 0xFF7F, 0x7FFF]),
        ("tf32", [0x7F800000, 0xFF800000, 0x7FFFE000], [0x7F7FE000, 0xFF7FE000, 0x7FFFE000]),
        ("e4m3", [0x7F, 0xFF, 0x7F], [0x7E, 0xFE, 0x7F]),
        ("e5m2", [0x7C, 0xFC, 0x7F], [0x7B, 0xFB, 0x7F]),
        ("e2m3", [0x1F, 0x3F, 0x1F], [0x1F, 0x3F, 0x1F]),
        ("e3m2", [0x1F, 0x3F, 0x1F], [0x1F, 0x3F, 0x1F]),
        ("e2m1", [0x7, 0xF, 0x7], [0x7, 0xF, 0x7]),
    ],
)
def test_overflow_and_nan(fmt: str, plain: list[int], saturated: list[int]) -> None:
    for x in ([np.inf, -np.inf, np.nan], [1e300, -1e300, -np.nan]):
        assert encode(x, fmt).tolist() == plain
        assert encode(x, fmt, saturate=True).tolist() == saturated


def test_where_tf32_overflows() -> None:
    """Half of the last place beyond the largest number: to even and away from zero both leave the range there."""
    below, tie = np.array([0x7F7FEFFF, 0x7F7FF000], np.uint32).view(np.float32)
    for rounding in ("rn", "rna"):
        assert encode([below, tie, -tie], "tf32", rounding).tolist() == [0x7F7FE000, 0x7F800000, 0xFF800000]  # type: ignore[arg-type]
        assert encode([below, tie, -tie], "tf32", rounding, True).tolist() == [0x7F7FE000, 0x7F7FE000, 0xFF7FE000]  # type: ignore[arg-type]
    # A tie below: 1 + 2^-11 goes to even, or away.
    assert [int(encode(1 + 2**-11, "tf32", rounding)) for rounding in ("rn", "rna")] == [0x3F800000, 0x3F802000]  # type: ignore[arg-type]


def test_rounding_toward_zero_does_not_overflow() -> None:
    assert hex(encode(1e6, "f16", "rz")) == "0x7bff"
    assert hex(encode(1e6, "f16", "rm")) == "0x7bff"
    assert hex(encode(-1e6, "f16", "rm")) == "0xfc00"


def test_integers_clamp() -> None:
    assert encode([-1000, -1.5, 127.5, 300], "s8").tolist() == [0x80, 0xFE, 0x7F, 0x7F]
    assert encode([-3, 2.5, 300], "u8").tolist() == [0, 2, 255]


def test_errors() -> None:
    with pytest.raises(FormatError, match=r"^error\[N102\]: no element type 'e9m9'; there are f32, tf32, f16, "):
        decode([0], "e9m9")
    with pytest.raises(FormatError, match=r"^error\[N102\]: e2m1 codes are unsigned integers below 2\^4; got int64$"):
        decode([16], "e2m1")
    with pytest.raises(FormatError, match=r"^error\[N102\]: no rounding 'rx'; there are rn, rna, rz, rm, rp, rs$"):
        encode(1.0, "f16", "rx")  # type: ignore[arg-type]
