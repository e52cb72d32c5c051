"""Where the kernels change from one way of adding to another: each side of the border has the bits of the exact reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab.formats import encode

KINDS = {
    "f16": ("f16", 16),
    "bf16": ("f16", 16),
    "tf32": ("tf32", 8),
    "e4m3": ("f8f6f4", 32),
    "e5m2": ("f8f6f4", 32),
    "e2m1": ("f8f6f4", 32),
}
M, N = 5, 3
"""An odd number of rows, so that pairs of rows and a single one occur."""


def agree(A: NDArray[Any], B: NDArray[Any], C: NDArray[Any], fmt: str, kind: str, **more: Any) -> None:
    """The bits of the compiled kernels are those of the reference."""
    given = {"arch": "tcgen05", "kind": kind, "a": fmt, "b": fmt, "d": "f32", "A": encode(A, fmt), "B": encode(B, fmt), **more}
    bits = C.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(numerics.mma(**given, C=bits), numerics.reference.mma(**given, C=bits))


def scattered(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.float64]:
    """Random numbers with exponents in a range."""
    return rng.uniform(1, 2, shape) * np.exp2(rng.integers(low, high + 1, shape)) * rng.choice([-1, 1], shape)


@pytest.mark.parametrize("fmt", KINDS)
@pytest.mark.parametrize("value", [1.0, 1.5, 1.75, 1.96875])
def test_sums_of_one_sign(fmt: str, value: float) -> None:
    """Products near four times their exponent: their sum needs more than 32 bits from K = 16 on."""
    kind, k = KINDS[fmt]
    sign = np.where(np.arange(M) % 2, -1.0, 1.0)[:, None]
    for c in (0.0, 1.999, 2.0, -3.7, 100.0):
        agree(np.full((M, k), value) * sign, np.full((N, k), value), np.full((M, N), c), fmt, kind)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32"])
@pytest.mark.parametrize("c", [0.0, 1.999, -1.999, 2.0**60, 2.0**84, -(2.0**85), 2.0**100, 1.5 * 2.0**127])
def test_sums_past_32_bits_beside_accumulators_of_every_size(fmt: str, c: float) -> None:
    """The largest significands: C alone decides whether an i32 holds the sum. Two cells of a block have another C, one of them a zero."""
    kind, k = KINDS[fmt]
    largest = 2 - 2.0 ** -{"f16": 10, "bf16": 7, "tf32": 10}[fmt]
    A = np.full((M, k), largest) * np.where(np.arange(M) % 2, -1.0, 1.0)[:, None]
    B = np.full((N, k), largest)
    B[1, 3] = 0
    for some in (0.0, 1.999, -1.999, 2.0**-20):
        C = np.full((M, N), some)
        C[2, 1] = C[3, 2] = c
        agree(A, B, C, fmt, kind)


@pytest.mark.parametrize("fmt", KINDS)
def test_accumulators_far_above_the_products(fmt: str) -> None:
    """C is so large that no product reaches its window."""
    kind, k = KINDS[fmt]
    rng = np.random.default_rng(4)
    for low in (40, 70, 82, 84, 90, 120):
        agree(rng.standard_normal((M, k)), rng.standard_normal((N, k)), scattered(rng, (M, N), low, low + 6), fmt, kind)


@pytest.mark.parametrize("fmt", KINDS)
def test_accumulators_of_every_size(fmt: str) -> None:
    """C is far below, near and far above the products: where it is truncated, and where the products are."""
    kind, k = KINDS[fmt]
    rng = np.random.default_rng(1)
    for exponent in range(-48, 49, 3):
        agree(rng.standard_normal((M, k)), rng.standard_normal((N, k)), scattered(rng, (M, N), exponent, exponent + 2), fmt, kind)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2"])
def test_rows_of_every_spread(fmt: str) -> None:
    """The integers of a row fit 16 bits or not, and their products fit the sum or not."""
    rng = np.random.default_rng(2)
    for low in range(-14 if fmt == "e5m2" else -6, 8):
        A, B = scattered(rng, (M, 32), low, 7), scattered(rng, (N, 32), low, 7)
        A[rng.random(A.shape) < 0.2] = 0
        agree(A, B, scattered(rng, (M, N), -4, 18), fmt, "f8f6f4")


def test_integers_of_every_size() -> None:
    """The largest elements stand in all columns, so that the sums are as large as their bits allow."""
    for a_spread in range(13):
        for b_spread in range(13):
            A, B = np.full((M, 32), 1.75 * 2.0**7), np.full((N, 32), 1.75 * 2.0**7)
            A[:, 5], B[:, 7] = 1.125 * 2.0 ** (7 - a_spread), 1.125 * 2.0 ** (7 - b_spread)
            agree(A, B, np.full((M, N), 3.0), "e4m3", "f8f6f4")


@pytest.mark.parametrize("c", [0.0, -0.0, 2.0**-149, -(2.0**-130), 2.0**-60, 2.0**-42, 2.0**-41, 2.0**-40, -1.5, 2.0**127])
@pytest.mark.parametrize("fmt", KINDS)
def test_rows_of_zeros(fmt: str, c: float) -> None:
    """Without products C stays, however small it is, and zero is positive."""
    kind, k = KINDS[fmt]
    A = np.zeros((M, k))
    A[0, 0] = 1.0
    agree(A, np.ones((N, k)), np.full((M, N), c), fmt, kind)
    agree(np.zeros((M, k)), np.full((N, k), -0.0), np.full((M, N), c), fmt, kind)


@pytest.mark.parametrize("fmt", ["bf16", "tf32"])
@pytest.mark.parametrize("exponent", [-22, -21, -20, 20, 21, 22, -60, 60])
def test_one_element_beyond_the_moderate_exponents(fmt: str, exponent: int) -> None:
    kind, k = KINDS[fmt]
    rng = np.random.default_rng(exponent + 100)
    A, B = scattered(rng, (M, k), -20, 20), scattered(rng, (N, k), -20, 20)
    A[2, 3] = 1.25 * 2.0**exponent
    agree(A, B, scattered(rng, (M, N), -45, 45), fmt, kind)
    agree(scattered(rng, (M, k), -20, 20), B * 2.0**-40, scattered(rng, (M, N), -45, 45), fmt, kind)


@pytest.mark.parametrize(("kind", "scale", "block"), [("mxf4", "ue8m0", 32), ("mxf4nvf4", "ue8m0", 16), ("mxf4nvf4", "ue4m3", 16)])
def test_groups_whose_terms_are_truncated_or_not(kind: str, scale: str, block: int) -> None:
    """Scales that lie close together or far apart, beside accumulators of every size."""
    rng = np.random.default_rng(3)
    k = 64
    for spread in (0, 3, 6, 13, 14, 15, 40):
        low, high = (-spread // 2, spread - spread // 2) if scale == "ue8m0" else (max(-6, -spread // 2), min(8, spread - spread // 2))
        scales = [encode(np.abs(scattered(rng, (rows, k // block), low, high)), scale, "rz") for rows in (M, N)]
        values = [rng.choice([-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6], (rows, k)) for rows in (M, N)]
        values[0][1] = 0
        for exponent in range(-40, 41):
            C = scattered(rng, (M, N), exponent, exponent)
            C[0, 0] = 0
            agree(*values, C, "e2m1", kind, scale_a=scales[0], scale_b=scales[1], scale=scale, block=block)


@pytest.mark.parametrize("exponent", [-149, -140, -100, -40, 0])
@pytest.mark.parametrize("scale", [-60, -40, 0, 40, 60])
def test_accumulators_beside_groups_of_zeros(scale: int, exponent: int) -> None:
    """A C without products stays as it is, however much smaller it is than the products of its neighbours."""
    A, B = np.full((M, 64), 1.5), np.full((N, 64), -3.0)
    A[1], B[2] = 0, 0
    A[3, 16:] = 0
    scales = {f"scale_{side}": np.full((rows, 2), 127 + scale, np.uint8) for side, rows in (("a", M), ("b", N))}
    agree(A, B, np.full((M, N), -(2.0**exponent)), "e2m1", "mxf4", scale="ue8m0", block=32, **scales)


@pytest.mark.parametrize("spread", [0, 1, 7, 8, 9, 12, 16])
def test_scales_of_groups_as_integers(spread: int) -> None:
    """The largest sums of groups, with scales of four bits that lie closer together or further apart than 32 bits allow."""
    A, B = np.full((M, 64), 6.0), np.full((N, 64), -6.0)
    scales = encode(np.array([1.875, 1.875 * 2.0**-spread, 1.875, 1.875]) * 2.0**8, "ue4m3", "rz")
    given = {"scale_a": np.tile(scales, (M, 1)), "scale_b": np.tile(scales, (N, 1)), "scale": "ue4m3", "block": 16}
    for c in (0.0, 1.0, -(2.0**20) - 1, 2.0**-12):
        agree(A, B, np.full((M, N), c), "e2m1", "mxf4nvf4", **given)


@pytest.mark.parametrize("spread", range(2, 7))
def test_sums_of_groups_that_float32_does_not_hold(spread: int) -> None:
    """Odd numbers of units on both sides of 2^24: with a C of one unit or a few, they are not what the sum of both rounded ones is."""
    A, B = np.full((M, 64), 6.0), np.full((N, 64), 6.0)
    A[:, 16:32] = 0
    A[:, 16] = B[:, 16] = 0.5
    scale_a = encode(np.tile([1.875, 1.125 * 2.0**-spread, 1.875, 1.875], (M, 1)), "ue4m3")
    scale_b = encode(np.tile([1.875, 1.125, 1.875, 1.875], (N, 1)), "ue4m3")
    for exponent in range(-16, -4):
        C = np.full((M, N), 2.0**exponent)
        agree(A, B, C, "e2m1", "mxf4nvf4", scale_a=scale_a, scale_b=scale_b, scale="ue4m3", block=16)


def test_terms_of_groups_that_cancel_but_for_their_last_bit() -> None:
    """1/4 * 80/64 - 1/4 * 81/64 = -2^-8: the difference is lost from the exponent on whose window does not reach so far."""
    A, B = np.zeros((M, 64)), np.zeros((N, 64))
    A[:, 0], A[:, 16], B[:, [0, 16]] = 0.5, -0.5, 0.5
    scale_a = encode(np.tile([10 / 8, 9 / 8, 1, 1], (M, 1)), "ue4m3")
    scale_b = encode(np.tile([1, 9 / 8, 1, 1], (N, 1)), "ue4m3")
    kept = []
    for exponent in range(20, 40):
        C = np.full((M, N), 2.0**exponent, np.float32)
        given = {"scale_a": scale_a, "scale_b": scale_b, "scale": "ue4m3", "block": 16}
        agree(A, B, C, "e2m1", "mxf4nvf4", **given)
        codes = {"A": encode(A, "e2m1"), "B": encode(B, "e2m1"), "C": C.view(np.uint32)}
        D = numerics.mma(arch="tcgen05", kind="mxf4nvf4", a="e2m1", b="e2m1", d="f32", **codes, **given).view(np.float32)
        kept.append(bool((D < C).all()))
    assert kept == [exponent <= 27 for exponent in range(20, 40)]
