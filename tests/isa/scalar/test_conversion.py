"""cvt to and from small floats against ml_dtypes; packing, saturation, relu."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ..form_helpers import Words, cases, form, with_numpy

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
COUNT = 4000
SHOWS = {
    "test_to_small_floats": ("cvt.rn.satfinite{.relu}.(to=e2m3x2|e3m2x2|e2m1x2).f32", "cvt.rn.satfinite{.relu}.(to=e4m3x2|e5m2x2).f32"),
    "test_relu_of_small_floats": ("cvt.rn.satfinite{.relu}.(to=e*",),
    "test_halves_to_small_floats": (
        "cvt.rn.satfinite{.relu}.(to=e2m3x2|e3m2x2|e2m1x2).(source=f16x2|bf16x2)",
        "cvt.rn.satfinite{.relu}.(to=e4m3x2|e5m2x2).(source=bf16x2)",
    ),
    "test_from_small_floats": ("cvt.rn{.relu}.(to=f16x2).(source=e*",),
    "test_scales": ("cvt.(rnd=rz|rp){.satfinite}.ue8m0x2.f32",),
    "test_scales_of_halves": ("cvt.(rnd=rz|rp){.satfinite}.ue8m0x2.bf16x2",),
    "test_scales_back": ("cvt.rn.bf16x2.ue8m0x2",),
}
SCALES = [Fraction(2) ** e for e in range(-127, 128)]
"""What the codes of ue8m0 stand for."""
SMALL = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "e5m2x2": (ml_dtypes.float8_e5m2, 8, 57344.0),
    "e2m3x2": (ml_dtypes.float6_e2m3fn, 8, 7.5),
    "e3m2x2": (ml_dtypes.float6_e3m2fn, 8, 28.0),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 4, 6.0),
}


def inputs(seed: int) -> Words:
    """f32 with many ties and many values near the ranges of small formats."""
    rng = np.random.default_rng(seed)
    words = cases("f32", COUNT, seed)
    near = (rng.integers(-64, 65, COUNT) * 2.0 ** rng.integers(-20, 13, COUNT)).astype(np.float32).view(np.uint32)
    return np.where(rng.random(COUNT) < 0.6, near, words).astype(np.uint32)


def codes(words: Words, kind: str) -> Words:
    """What ml_dtypes makes of finite values within the range."""
    dtype, _, largest = SMALL[kind]
    values = np.clip(words.view(np.float32), -largest, largest)
    return values.astype(dtype).view(np.uint8).astype(np.uint32)


@pytest.mark.parametrize("kind", SMALL)
def test_to_small_floats(kind: str) -> None:
    _, step, _ = SMALL[kind]
    a, b = inputs(0), inputs(1)
    (got,) = with_numpy(form(f"cvt.rn.satfinite.{kind}.f32", 2), [a, b])
    got = got.astype(np.uint32)
    for words, part in ((a, got >> step), (b, got & (1 << step) - 1)):
        number = ~np.isnan(words.view(np.float32))
        assert np.array_equal(part[number], codes(words, kind)[number])
        nan = {"e4m3x2": 0x7F, "e5m2x2": 0x7F, "e2m3x2": 0x1F, "e3m2x2": 0x1F, "e2m1x2": 0x7}[kind]
        assert set(part[~number].tolist()) == {nan}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("source", ["f32", "f16x2", "bf16x2"])
def test_relu_of_small_floats(kind: str, source: str) -> None:
    step, count = SMALL[kind][1], 2 if source == "f32" else 1
    given = [inputs(2), inputs(3)] if count == 2 else [cases(source, COUNT, 3)]
    (plain,) = with_numpy(form(f"cvt.rn.satfinite.{kind}.{source}", count), given)
    (relu,) = with_numpy(form(f"cvt.rn.satfinite.relu.{kind}.{source}", count), given)
    sign = 0x20 if kind in ("e2m3x2", "e3m2x2") else 1 << (step - 1)
    for shift in (0, step):
        part = plain.astype(np.uint32) >> shift & (1 << step) - 1
        assert np.array_equal(relu.astype(np.uint32) >> shift & (1 << step) - 1, np.where(part & sign, 0, part))


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("source", ["f16x2", "bf16x2"])
def test_halves_to_small_floats(source: str, kind: str) -> None:
    _, step, _ = SMALL[kind]
    packed = cases(source, COUNT, 4)
    (got,) = with_numpy(form(f"cvt.rn.satfinite.{kind}.{source}", 1), [packed])
    for shift in (0, 1):
        half = (packed >> np.uint32(16 * shift)).astype(np.uint16)
        values = half.view(np.float16 if source == "f16x2" else ml_dtypes.bfloat16).astype(np.float32)
        number = ~np.isnan(values)
        part = got.astype(np.uint32) >> shift * step & (1 << step) - 1
        assert np.array_equal(part[number], codes(values.view(np.uint32), kind)[number])


@pytest.mark.parametrize("kind", SMALL)
def test_from_small_floats(kind: str) -> None:
    dtype, step, _ = SMALL[kind]
    bits = {"e2m3x2": 6, "e3m2x2": 6, "e2m1x2": 4}.get(kind, 8)
    one = np.arange(1 << bits, dtype=np.uint16)
    word = (one | one[::-1] << np.uint16(step)).astype(np.uint8 if step == 4 else np.uint16)
    (got,) = with_numpy(form(f"cvt.rn.f16x2.{kind}", 1), [word])
    want = one.astype(np.uint8).view(dtype).astype(np.float32).astype(np.float16)
    for part, expected in ((got & np.uint32(0xFFFF), want), (got >> np.uint32(16), want[::-1])):
        assert np.array_equal(part.astype(np.uint16).view(np.float16), expected, equal_nan=True)
        signs = np.signbit(part.astype(np.uint16).view(np.float16)) == np.signbit(expected)
        assert signs[~np.isnan(expected)].all()


@pytest.mark.parametrize("mode", ["rz", "rp"])
def test_scales(mode: str) -> None:
    """ue8m0 is a power of two; rounding down or up of the exponent."""
    size = np.abs(inputs(5).view(np.float32))
    size = size[np.isfinite(size) & (size > 0)].astype(np.float64)
    (got,) = with_numpy(
        form(f"cvt.{mode}.satfinite.ue8m0x2.f32", 2), [size.astype(np.float32).view(np.uint32), np.zeros(len(size), np.uint32)]
    )
    exponent = np.log2(size)
    want = np.clip(np.ceil(exponent) if mode == "rp" else np.floor(exponent), -127, 127).astype(np.int64) + 127
    exact = 2.0 ** np.round(exponent) == size
    want = np.where(exact, np.clip(np.round(exponent), -127, 127).astype(np.int64) + 127, want)
    assert np.array_equal(got.astype(np.int64) >> 8, want)


@pytest.mark.parametrize("mode", ["rz", "rp"])
def test_scales_of_halves(mode: str) -> None:
    """A bf16 that is no power of two lies between two scales; its sign does not matter."""
    packed = cases("bf16x2", COUNT, 6)
    (got,) = with_numpy(form(f"cvt.{mode}.satfinite.ue8m0x2.bf16x2", 1), [packed])
    for shift in (0, 1):
        half = (packed >> np.uint32(16 * shift)).astype(np.uint16) & np.uint16(0x7FFF)
        part = got >> shift * 8 & 0xFF
        for word, code in zip(half.tolist(), part.tolist(), strict=True):
            if word > 0x7F80:
                assert code == 0xFF
                continue
            size = Fraction(float(np.uint32(word << 16).view(np.float32))) if word < 0x7F80 else Fraction(2) ** 200
            scale = bisect_left(SCALES, size) if mode == "rp" else bisect_right(SCALES, size) - 1
            want = min(max(scale, 0), 254)
            assert code == want, hex(word)


def test_scales_back() -> None:
    code = np.arange(256, dtype=np.uint16)
    (got,) = with_numpy(form("cvt.rn.bf16x2.ue8m0x2", 1), [code | code << np.uint16(8)])
    values = (got << np.uint32(16)).view(np.float32)
    assert np.array_equal(values[:255].astype(np.float64), 2.0 ** (np.arange(255) - 127.0))
    assert np.isnan(values[255])
    assert np.array_equal(got >> np.uint32(16), got & np.uint32(0xFFFF))


def test_packed_halves_put_a_above_b() -> None:
    one, two = np.array([0x3F800000], np.uint32), np.array([0x40000000], np.uint32)
    assert with_numpy(form("cvt.rn.f16x2.f32", 2), [one, two])[0].tolist() == [0x3C004000]
    assert with_numpy(form("cvt.rn.bf16x2.f32", 2), [one, two])[0].tolist() == [0x3F804000]


@pytest.mark.parametrize(
    ("opcode", "word", "result"),
    [
        ("cvt.rn.satfinite.f16.f32", 0x7F800000, 0x7BFF),
        ("cvt.rn.satfinite.f16.f32", 0xC7800000, 0xFBFF),
        ("cvt.rn.f16.f32", 0x47800000, 0x7C00),
        ("cvt.rn.relu.f16.f32", 0xBF800000, 0),
        ("cvt.rn.relu.f16.f32", 0xFFC00000, 0x7FFF),
        ("cvt.sat.f32.f32", 0xFFC00000, 0),
        ("cvt.sat.f32.f32", 0x40000000, 0x3F800000),
        ("cvt.rni.ftz.s32.f32", 0x00000001, 0),
        ("cvt.rpi.ftz.f32.f32", 0x00000001, 0),
        ("cvt.rpi.f32.f32", 0x00000001, 0x3F800000),
        ("cvt.sat.u8.s32", 0xFFFFFFFF, 0),
        ("cvt.sat.s8.u32", 0xFFFFFFFF, 0x7F),
        ("cvt.s64.s8", 0x80, 0xFFFFFFFFFFFFFF80),
        ("cvt.u64.s8", 0x80, 0xFFFFFFFFFFFFFF80),
        ("cvt.rn.f32.u64", 0xFFFFFFFFFFFFFFFF, 0x5F800000),
    ],
)
def test_single_values(opcode: str, word: int, result: int) -> None:
    chosen = form(opcode, 1)
    dtype = cases(chosen.sources[0], 1, 0).dtype
    assert int(with_numpy(chosen, [np.array([word], dtype)])[0][0]) == result


@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_halves_widen_exactly(source: str) -> None:
    dtype = np.float16 if source == "f16" else ml_dtypes.bfloat16
    word = np.arange(65536, dtype=np.uint32).astype(np.uint16)
    for to, float_type in (("f32", np.float32), ("f64", np.float64)):
        (got,) = with_numpy(form(f"cvt.{to}.{source}", 1), [word])
        assert np.array_equal(got.view(float_type), word.view(dtype).astype(float_type), equal_nan=True)
