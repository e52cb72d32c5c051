"""Packed integers, saturating sums and carry-less products against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ..form_helpers import cases, form, with_numpy

SHOWS = {
    "test_sums": ("add{.sat}.(type=u16x2|s16x2|u8x4|s8x4)", "sub{.sat}.(type=u8x4|s8x4)", "add.sat.(type=u32)"),
    "test_negation": ("neg.(type=s8x4)",),
    "test_extremes": ("m??{.relu}.(type=s16x2|s8x4)", "m??.(type=u16x2|u8x4)"),
    "test_comparison": ("set.(op=*).(type=u8x4|u16x2)", "set.(op=*).(type=s8x4|s16x2)"),
    "test_carryless_products": ("clmad.*",),
}

COUNT = 500


def elements(type: str, word: int) -> list[int]:
    """The lowest first."""
    count = int(type[-1]) if "x" in type else 1
    bits = 32 // count
    found = [word >> bits * i & ((1 << bits) - 1) for i in range(count)]
    return [v - (1 << bits) if type[0] == "s" and v >> (bits - 1) else v for v in found]


def word_of(type: str, values: list[int]) -> int:
    bits = 32 // len(values)
    return sum((v & ((1 << bits) - 1)) << bits * i for i, v in enumerate(values))


def limits(type: str) -> tuple[int, int]:
    bits = 32 // (int(type[-1]) if "x" in type else 1)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type[0] == "s" else (0, (1 << bits) - 1)


def check(opcode: str, type: str, function: Callable[..., int], sources: int) -> None:
    words = [cases("b32", COUNT, seed) for seed in range(sources)]
    (got,) = with_numpy(form(opcode, sources), words)
    for i in range(COUNT):
        given = [elements(type, int(w[i])) for w in words]
        want = word_of(type, [function(*each) for each in zip(*given, strict=True)])
        assert int(got[i]) == want, (opcode, [hex(int(w[i])) for w in words])


@pytest.mark.parametrize("type", ["u16x2", "s16x2", "u8x4", "s8x4", "u32"])
@pytest.mark.parametrize("sat", ["", ".sat"])
def test_sums(type: str, sat: str) -> None:
    low, high = limits(type)

    def clamped(value: int) -> int:
        return min(max(value, low), high) if sat else value

    check(f"add{sat}.{type}", type, lambda m, n: clamped(m + n), 2)
    if type.endswith("x4"):
        check(f"sub{sat}.{type}", type, lambda m, n: clamped(m - n), 2)


def test_negation() -> None:
    check("neg.s8x4", "s8x4", lambda m: -m, 1)


@pytest.mark.parametrize("type", ["u16x2", "s16x2", "u8x4", "s8x4"])
def test_extremes(type: str) -> None:
    check(f"min.{type}", type, min, 2)
    check(f"max.{type}", type, max, 2)
    if type[0] == "s":
        check(f"min.relu.{type}", type, lambda m, n: max(min(m, n), 0), 2)
        check(f"max.relu.{type}", type, lambda m, n: max(m, n, 0), 2)


OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda m, n: m == n, "ne": lambda m, n: m != n, "lt": lambda m, n: m < n, "le": lambda m, n: m <= n,
    "gt": lambda m, n: m > n, "ge": lambda m, n: m >= n, "lo": lambda m, n: m < n, "ls": lambda m, n: m <= n,
    "hi": lambda m, n: m > n, "hs": lambda m, n: m >= n,
}  # fmt: skip


@pytest.mark.parametrize("type", ["u16x2", "s16x2", "u8x4", "s8x4"])
def test_comparison(type: str) -> None:
    for op, holds in OPERATORS.items():
        if type[0] == "u" or op not in ("lo", "ls", "hi", "hs"):
            check(f"set.{op}.{type}", type, lambda m, n, holds=holds: -int(holds(m, n)), 2)


@pytest.mark.parametrize("mode", ["lo", "hi"])
def test_carryless_products(mode: str) -> None:
    a, b, c = (cases("u64", 200, seed) for seed in range(3))
    (got,) = with_numpy(form(f"clmad.{mode}.u64", 3), [a, b, c])
    for m, n, addend, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        product = 0
        for i in range(64):
            if n >> i & 1:
                product ^= m << i
        part = product >> 64 if mode == "hi" else product & (1 << 64) - 1
        assert result == part ^ addend, (hex(m), hex(n))


@pytest.mark.parametrize("type", ["f16", "f16x2", "bf16", "bf16x2"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_elements_outside_a_tensor(type: str, relu: str) -> None:
    """``fma.oob`` is ``fma`` but for a factor that is the NaN of a tensor copy for what is outside the tensor; its sign does not matter."""
    words = [cases(type, COUNT, seed) for seed in range(3)]
    step = words[0].dtype.type(0x7FF7)
    for w, every in zip(words, (5, 7, 11), strict=True):
        w[::every] = step if not type.endswith("x2") else w[::every] & np.uint32(0xFFFF0000) | step
        w[:: 2 * every] |= w.dtype.type(0x8000)
    (got,) = with_numpy(form(f"fma.rn.oob{relu}.{type}", 3), words)
    (plain,) = with_numpy(form(f"fma.rn{relu}.{type}", 3), words)
    for shift in range(0, 32 if type.endswith("x2") else 16, 16):
        parts = [(w >> w.dtype.type(shift)) & w.dtype.type(0xFFFF) for w in (got, plain, *words)]
        outside = np.any([p & p.dtype.type(0x7FFF) == 0x7FF7 for p in parts[2:4]], axis=0)
        assert shift or outside.any()
        assert np.array_equal(parts[0], np.where(outside, 0, parts[1]))
