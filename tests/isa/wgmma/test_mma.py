"""Each form of wgmma.mma_async against numerics and layouts outside the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.layout import operand_addresses
from tests.sweep_helpers import one_in

from . import wgmma_helpers as bench

Array = NDArray[Any]
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
FLOATS = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
FLOATS += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
A_START, B_START = bench.BASE, bench.BASE + 0x4000


def instruction(d: str, a: str, b: str, n: int, suffix: str = "") -> str:
    return f"wgmma.mma_async.sync.aligned.m64n{n}k{256 // BITS[a]}.{d}.{a}.{b}{suffix}"


def codes(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> Array:
    """Any codes of a small type; middling magnitudes of the others."""
    if BITS[element] == 8:
        return rng.integers(0, 256, shape).astype(np.uint8)
    values = (rng.standard_normal(shape) * 4).astype(np.float16 if element == "f16" else np.float32)
    if element == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.view(np.uint16 if element == "f16" else np.uint32)


def accumulators(rng: np.random.Generator, d: str, n: int) -> Array:
    if d == "s32":
        return rng.integers(0, 1 << 32, (1, 64, n)).astype(np.uint32)
    values = rng.standard_normal((1, 64, n)) * 4
    return values.astype(np.float16).view(np.uint16) if d == "f16" else values.astype(np.float32).view(np.uint32)


def place(image: Array, matrix: Array, start: int, major: str, swizzle: str) -> int:
    """Write a matrix [rows, k] into the image; returns its descriptor."""
    rows, k = matrix.shape
    size = matrix.itemsize
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    if major == "k":
        leading, stride = (128, 256) if swizzle == "none" else (16, 8 * width)
    elif swizzle == "none":
        leading, stride = 128 * (rows * size // 16), 128
    else:
        leading, stride = 8 * width * (k // 8), 8 * width
    descriptor = WgmmaDescriptor(start=start, leading=leading, stride=stride, swizzle=swizzle)
    addresses = operand_addresses(descriptor, rows, k, 8 * size, major)  # type: ignore[arg-type]
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows, k, size)
    image[(addresses - bench.BASE)[:, :, None] + np.arange(size)] = raw
    return int(descriptor)


def check(
    types: tuple[str, str, str],
    n: int,
    seed: int,
    *,
    registers: bool = False,
    majors: tuple[str, str] = ("k", "k"),
    swizzles: tuple[str, str] = ("128B", "128B"),
    scale: tuple[int, int] = (1, 1),
    enable: bool = True,
    satfinite: bool = False,
    opcode: str = "",
    **options: Any,
) -> None:
    d, a, b = types
    k = 256 // BITS[a]
    rng = np.random.default_rng(seed)
    A, B, C = codes(rng, a, (64, k)), codes(rng, b, (n, k)), accumulators(rng, d, n)
    image = np.zeros(bench.IMAGE, np.uint8)
    descriptors = np.array(
        [[place(image, A, A_START, majors[0], swizzles[0]), place(image, B, B_START, majors[1], swizzles[1])]], np.uint64
    )
    tail = bench.tail_of(a, registers, scale, tuple(int(m == "mn") for m in majors))
    found = bench.run(
        opcode or instruction(d, a, b, n, ".satfinite" if satfinite else ""),
        image,
        descriptors,
        C,
        a=A[None] if registers else None,
        enable=enable,
        tail=tail,
        **options,
    )
    want = numerics.mma(
        arch="wgmma",
        kind=None,
        a=a,
        b=b,
        d=d,
        A=A,
        B=B,
        C=C[0] if enable else None,
        saturate=satfinite,
        negate_a=scale[0] < 0,
        negate_b=scale[1] < 0,
    )
    np.testing.assert_array_equal(found[0], want)


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", FLOATS + INTEGERS, ids="-".join)
def test_types(types: tuple[str, str, str], registers: bool) -> None:
    check(types, 32, 1, registers=registers)
    check(types, 32, 2, registers=registers, enable=False)


@pytest.mark.parametrize("n", one_in(5, range(8, 257, 8)))
def test_every_n(n: int) -> None:
    check(("f32", "f16", "f16"), n, n, registers=n % 16 == 0)
    check(("f16", "f16", "f16"), n, n, registers=n % 16 == 8)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("majors", [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")], ids="-".join)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_majorness(element: str, majors: tuple[str, str], swizzle: str) -> None:
    check(("f32", element, element), 64, 3, majors=majors, swizzles=("128B", swizzle))
    check(("f32", element, element), 64, 4, majors=majors, swizzles=(swizzle, "64B"))
    if majors[0] == "k":
        check(("f32", element, element), 64, 5, majors=majors, swizzles=("128B", swizzle), registers=True)


@pytest.mark.parametrize("scale", [(-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("types", [("f32", "f16", "f16"), ("f32", "tf32", "tf32"), ("f16", "e4m3", "e5m2")], ids="-".join)
def test_scale(types: tuple[str, str, str], scale: tuple[int, int]) -> None:
    check(types, 16, 6, scale=scale)
    check(types, 16, 7, scale=scale, registers=True)


def test_satfinite() -> None:
    for seed in range(4):
        check(("s32", "s8", "u8"), 16, seed, satfinite=True, registers=bool(seed & 1))


@pytest.mark.parametrize("n", [8, 24, 48, 112, 256])
def test_n_of_integers(n: int) -> None:
    check(("s32", "s8", "s8"), n, n, registers=n % 16 == 0)


def check_bits(opcode: str, n: int, registers: bool, enable: bool) -> None:
    """Common ones of rows of 256 bits."""
    rng = np.random.default_rng(n)
    A, B = rng.integers(0, 256, (64, 32), np.uint8), rng.integers(0, 256, (n, 32), np.uint8)
    C = accumulators(rng, "s32", n)
    image = np.zeros(bench.IMAGE, np.uint8)
    descriptors = np.array([[place(image, A, A_START, "k", "none"), place(image, B, B_START, "k", "128B")]], np.uint64)
    dot = np.unpackbits(A, axis=1).astype(np.int64) @ np.unpackbits(B, axis=1).astype(np.int64).T
    found = bench.run(opcode, image, descriptors, C, a=A[None] if registers else None, enable=enable)
    np.testing.assert_array_equal(found[0], (dot + enable * C[0].astype(np.int64)).astype(np.uint32))


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("n", [8, 96])
def test_single_bits(n: int, registers: bool) -> None:
    for enable in (False, True):
        check_bits(f"wgmma.mma_async.sync.aligned.m64n{n}k256.s32.b1.b1.and.popc", n, registers, enable)


@pytest.mark.parametrize("policy", ["lazy", "random"])
def test_policies(policy: str) -> None:
    check(("f32", "bf16", "bf16"), 128, 8, policy=policy)
    check(("s32", "u8", "s8"), 64, 9, registers=True, policy=policy)
