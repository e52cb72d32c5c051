"""Small floats against exact arithmetic: stochastic rounding, four at a time, s2f6, scale factors, sums and products.

The magnitudes of a format stand in a sorted array of float64, which holds all that is compared here exactly.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from ..form_helpers import Words, cases, form, with_numpy

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHOWS = {
    "test_stochastic_rounding_of_halves": ("cvt.rs{.relu}{.satfinite}.(to=f16x2|bf16x2).f32",),
    "test_stochastic_rounding_of_four": ("cvt.rs{.relu}.satfinite.(to=e4m3x4*",),
    "test_fixed_point": ("cvt.rn.satfinite{.relu}*.(to=s2f6x2)*",),
    "test_to_bf16_with_scale_factors": ("cvt.rn{.relu}{.satfinite}*.(to=bf16x2).(source=e4m3x2*",),
    "test_arithmetic": (
        "add{.rnd=rn}{.satfinite}*",
        "sub{.rnd=rn}{.satfinite}*",
        "mul{.rnd=rn}{.satfinite}*",
        "fma{.rnd=rn}{.satfinite}*",
    ),
}

COUNT = 2000
Floats = NDArray[np.float64]
TYPES: dict[str, tuple[Any, int, int, int]] = {
    "f16": (np.float16, 0x7BFF, 0x7FFF, 15),
    "bf16": (ml_dtypes.bfloat16, 0x7F7F, 0x7FFF, 15),
    "e4m3": (ml_dtypes.float8_e4m3fn, 0x7E, 0x7F, 7),
    "e5m2": (ml_dtypes.float8_e5m2, 0x7B, 0x7F, 7),
    "e2m3": (ml_dtypes.float6_e2m3fn, 0x1F, 0x1F, 5),
    "e3m2": (ml_dtypes.float6_e3m2fn, 0x1F, 0x1F, 5),
    "e2m1": (ml_dtypes.float4_e2m1fn, 0x7, 0x7, 3),
}
"""The type outside ptxlab, the largest code, what a NaN becomes, the place of the sign."""
SMALL = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]


def decode(kind: str, codes: NDArray[Any]) -> Floats:
    """The numbers of codes."""
    dtype, _, _, sign = TYPES[kind]
    return (codes & (2 << sign) - 1).astype(f"u{np.dtype(dtype).itemsize}").view(dtype).astype(np.float64)


@cache
def grid(kind: str) -> Floats:
    """The magnitudes by code, and one more: what would come behind the largest."""
    found = decode(kind, np.arange(TYPES[kind][1] + 1, dtype=np.uint32))
    return np.append(found, 2 * found[-1] - found[-2])


def finish(kind: str, number: Floats, code: NDArray[Any], saturate: bool, relu: bool) -> NDArray[Any]:
    """Codes of magnitudes with limit, sign and NaN."""
    _, largest, nan, sign = TYPES[kind]
    infinity = nan if kind == "e4m3" else largest + 1
    code = np.where(code > largest, largest if saturate else infinity, code)
    negative = np.signbit(number)
    code = np.where(negative, 0 if relu else code | 1 << sign, code)
    return np.where(np.isnan(number), nan, code).astype(np.uint32)


def inputs(kind: str, seed: int) -> Words:
    """f32 over the whole range of a format and somewhat beyond, special values among them."""
    rng = np.random.default_rng([seed, *kind.encode()])
    magnitudes = grid(kind)
    low, high = np.log2(magnitudes[1]) - 3, min(np.log2(magnitudes[-1]) + 1, 127.9)
    numbers = rng.choice([-1.0, 1.0], COUNT) * 2.0 ** rng.uniform(low, high, COUNT)
    numbers = np.where(rng.random(COUNT) < 0.2, rng.choice(magnitudes[:-1], COUNT), numbers)
    return np.where(rng.random(COUNT) < 0.15, cases("f32", COUNT, seed), numbers.astype(np.float32).view(np.uint32)).astype(np.uint32)


def stochastic(words: Words, kind: str, random: NDArray[Any], bits: int, saturate: bool, relu: bool) -> NDArray[Any]:
    """Away from zero if the random bits and the first bits of what is cut off have a carry."""
    number, magnitudes = words.view(np.float32).astype(np.float64), grid(kind)
    size = np.abs(number)
    code = np.clip(np.searchsorted(magnitudes, size, side="right") - 1, 0, len(magnitudes) - 2)
    rest = (size - magnitudes[code]) / (magnitudes[code + 1] - magnitudes[code])
    inside = size < magnitudes[-1]
    carry = np.floor(np.where(inside, rest, 0.0) * 2.0**bits) + random >= 1 << bits
    return finish(kind, number, np.where(inside, code + carry, len(magnitudes) - 1), saturate, relu)


@pytest.mark.parametrize("flags", ["", ".relu", ".satfinite", ".relu.satfinite"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_stochastic_rounding_of_halves(kind: str, flags: str) -> None:
    """13 random bits for f16, 16 for bf16: of the upper half of the random word for the first source, of the lower for the second."""
    a, b, random = inputs(kind, 0), inputs(kind, 1), cases("b32", COUNT, 2)
    (got,) = with_numpy(form(f"cvt.rs{flags}.{kind}x2.f32", 3), [a, b, random])
    bits = {"f16": 13, "bf16": 16}[kind]
    part = np.uint32((1 << bits) - 1)
    how = bits, "satfinite" in flags, "relu" in flags
    assert np.array_equal(got >> np.uint32(16), stochastic(a, kind, random >> np.uint32(16) & part, *how))
    assert np.array_equal(got & np.uint32(0xFFFF), stochastic(b, kind, random & part, *how))


def reversed16(words: NDArray[Any]) -> NDArray[Any]:
    return np.array([int(f"{word:016b}"[::-1], 2) for word in words.tolist()], np.uint32)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("kind", SMALL)
def test_stochastic_rounding_of_four(kind: str, relu: str) -> None:
    sources, r = [inputs(kind, seed) for seed in range(4)], cases("b32", COUNT, 9).astype(np.int64)
    (got,) = with_numpy(form(f"cvt.rs{relu}.satfinite.{kind}x4.f32", 5), [*sources, r.astype(np.uint32)])
    step = 4 if kind == "e2m1" else 8
    if kind == "e2m1":
        first, second = (r >> 24) << 8 | r >> 8 & 0xFF, (r >> 16 & 0xFF) << 8 | r & 0xFF
    else:
        first, second = r >> 16, r & 0xFFFF
    for i, (source, chunk) in enumerate(zip(sources, (reversed16(first), first, reversed16(second), second), strict=True)):
        part = got.astype(np.uint32) >> np.uint32(step * (3 - i)) & np.uint32((1 << step) - 1)
        assert np.array_equal(part, stochastic(source, kind, chunk, 16, True, bool(relu)))


def test_stochastic_rounding_has_no_bias() -> None:
    """Over all random bits, 5.25 becomes 5.5 as often as 5."""
    random = np.arange(65536, dtype=np.uint32)
    words = [np.full(65536, np.float32(v).view(np.uint32), np.uint32) for v in (0, 5.25, 0, 0)]
    (got,) = with_numpy(form("cvt.rs.satfinite.e4m3x4.f32", 5), [*words, random << np.uint32(16)])
    values = decode("e4m3", got >> np.uint32(16) & np.uint32(0xFF))
    assert values.mean() == 5.25
    assert set(values) == {5.0, 5.5}


# ------------------------------------------------------------------------------------------------ s2f6 and scale factors


def scale(codes: NDArray[Any]) -> Floats:
    return np.where(codes == 0xFF, np.nan, 2.0 ** (codes.astype(np.float64) - 127))


def fixed(words: Words, by: Floats, relu: str) -> NDArray[Any]:
    """In units of 2**-6, ties to even; NaN becomes the largest."""
    whole = np.clip(np.rint(words.view(np.float32).astype(np.float64) / by * 64), 0 if relu else -128, 127)
    return np.where(np.isnan(whole), 127, whole).astype(np.int64) & 0xFF


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("scaled", ["", ".scaled::n2::ue8m0"])
def test_fixed_point(scaled: str, relu: str) -> None:
    rng = np.random.default_rng(5)
    a, b = ((rng.integers(-300, 301, COUNT) / 128.0).astype(np.float32).view(np.uint32) for _ in range(2))
    a[::9] = cases("f32", COUNT, 3)[::9]
    codes = rng.integers(124, 131, (2, COUNT)).astype(np.uint16)
    codes[:, ::40] = 0xFF
    factor = [codes[0] << np.uint16(8) | codes[1]] if scaled else []
    by = [scale(c) if scaled else np.ones(COUNT) for c in codes]
    (got,) = with_numpy(form(f"cvt.rn.satfinite{relu}{scaled}.s2f6x2.f32", 2 + len(factor)), [a, b, *factor])
    assert np.array_equal(got, fixed(a, by[0], relu) << 8 | fixed(b, by[1], relu))
    a, b = a & np.uint32(0xFFFF0000), b & np.uint32(0xFFFF0000)
    (got,) = with_numpy(form(f"cvt.rn.satfinite{relu}{scaled}.s2f6x2.bf16x2", 1 + len(factor)), [a | b >> np.uint32(16), *factor])
    assert np.array_equal(got, fixed(a, by[0], relu) << 8 | fixed(b, by[1], relu))


@pytest.mark.parametrize("flags", ["", ".relu", ".satfinite"])
@pytest.mark.parametrize("scaled", ["", ".scaled::n2::ue8m0"])
@pytest.mark.parametrize("kind", [*SMALL, "s2f6"])
def test_to_bf16_with_scale_factors(kind: str, scaled: str, flags: str) -> None:
    bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(kind, 8)
    step = 4 if kind == "e2m1" else 8
    one = np.tile(np.arange(1 << bits, dtype=np.uint16), 512 >> bits)
    two = one[::-1].copy()
    codes = np.random.default_rng(6).choice([0, 1, 3, 100, 127, 140, 250, 254, 255], (2, 512)).astype(np.uint16)
    word = (two << np.uint16(step) | one).astype(np.uint8 if step == 4 else np.uint16)
    (got,) = with_numpy(
        form(f"cvt.rn{flags}{scaled}.bf16x2.{kind}x2", 2 if scaled else 1),
        [word, *([codes[0] << np.uint16(8) | codes[1]] if scaled else [])],
    )
    for part, source, code in ((got >> np.uint32(16), two, codes[0]), (got & np.uint32(0xFFFF), one, codes[1])):
        number = source.astype(np.uint8).view(np.int8) / 64.0 if kind == "s2f6" else decode(kind, source)
        number = number * scale(code) if scaled else number
        number = np.where(np.isnan(number), np.nan, number)
        code16 = nearest(kind="bf16", number=number, lost=np.zeros(512), saturate="satfinite" in flags, relu="relu" in flags)
        assert np.array_equal(part, code16)


# ------------------------------------------------------------------------------------------------ arithmetic

SOURCES = ["e5m2", "e4m3", "e3m2", "e2m3", "e2m1", "e2m1p4", "ue8m0"]


def elements(type: str, words: NDArray[Any], i: int) -> Floats:
    """The numbers at place i."""
    codes = words.astype(np.uint32) >> np.uint32((4 if type == "e2m1" else 8) * i) & np.uint32(0xFF)
    return scale(codes) if type == "ue8m0" else decode(type.removesuffix("p4"), codes)


def nearest(kind: str, number: Floats, lost: Floats, saturate: bool, relu: bool = False) -> NDArray[Any]:
    """Codes nearest to number + lost, where lost is too small to be in the float64; ties to even."""
    magnitudes = grid(kind)
    size, lost = np.abs(number), np.where(np.signbit(number), -lost, lost)
    high = np.clip(np.searchsorted(magnitudes, size, side="right"), 1, len(magnitudes) - 1)
    middle = (magnitudes[high - 1] + magnitudes[high]) / 2
    up = (size > middle) | (size == middle) & ((lost > 0) | (lost == 0) & (high % 2 == 0))
    return finish(kind, number, np.where(up, high, high - 1), saturate, relu)


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    s = a + b
    t = s - a
    lost = (a - (s - t)) + (b - t)
    return s, np.where(np.isfinite(lost), lost, 0.0)


@pytest.mark.parametrize("saturate", ["", ".satfinite"])
@pytest.mark.parametrize("to", ["e4m3", "e5m2"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_arithmetic(op: str, to: str, saturate: str) -> None:
    for k, source in enumerate(SOURCES):
        other = SOURCES[(k + 3) % len(SOURCES)] if op in ("mul", "fma") else to
        types = [source, other, to] if op == "fma" else [source, other]
        listed = [source, other] if op in ("mul", "fma") else [source]
        words = [cases("b16" if t == "e2m1" else "b32", COUNT, 7 * k + i) for i, t in enumerate(types)]
        for i, type in enumerate(types):
            if type == "ue8m0":  # half of them near 1, where the other term counts
                near = (words[i] & np.uint32(0x0F0F0F0F)) + np.uint32(0x78787878)
                words[i] = np.where(np.arange(COUNT) % 2 == 0, near, words[i]).astype(np.uint32)
        (got,) = with_numpy(form(f"{op}{saturate}.{to}x4.{'.'.join(f'{t}x4' for t in listed)}", len(types)), words)
        for i in range(4):
            m, n, *c = (elements(t, w, i) for t, w in zip(types, words, strict=True))
            if op in ("add", "sub"):
                number, lost = two_sum(m, n if op == "add" else -n)
            else:
                number, lost = two_sum(m * n, c[0]) if c else (m * n, np.zeros(COUNT))
            want = nearest(to, number, lost, bool(saturate))
            part = got >> np.uint32(8 * i) & np.uint32(0xFF)
            overflow = ~np.isfinite(number) | (np.abs(number) > grid(to)[-2])
            same = (part == want) | (overflow & (part & 0x7F == want & 0x7F) & (want & 0x7F == 0x7F))  # the sign of a NaN says nothing
            bad = np.flatnonzero(~same)
            assert not bad.size, (op, source, other, [float(v[bad[0]]) for v in (m, n, *c)], hex(part[bad[0]]), hex(want[bad[0]]))
