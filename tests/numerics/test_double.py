"""Products in f64 against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ptxlab import numerics

INFINITY = float("inf")


def rounded(value: Fraction, mode: str) -> float:
    """A fraction as a double."""
    nearest = float(value)
    if mode == "rn" or Fraction(nearest) == value:
        return nearest
    below = nearest if Fraction(nearest) < value else float(np.nextafter(nearest, -INFINITY))
    above = nearest if Fraction(nearest) > value else float(np.nextafter(nearest, INFINITY))
    return {"rm": below, "rp": above, "rz": below if value > 0 else above}[mode]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_each_step_is_rounded_once(mode: str) -> None:
    rng = np.random.default_rng(5)
    A, B, C = rng.standard_normal((16, 8)), rng.standard_normal((8, 8)), rng.standard_normal((16, 8))
    A[:4] *= 2.0**-530
    B[:4] *= 2.0**-530
    C[:4, :4] *= 2.0**-1060
    D = numerics.mma_f64(A, B, C, mode)
    for m in range(16):
        for n in range(8):
            total = C[m, n]
            for k in range(8):
                total = rounded(Fraction(A[m, k]) * Fraction(B[n, k]) + Fraction(total), mode)
            assert D[m, n] == total


def test_the_rounding_of_the_process_is_left_as_it_was() -> None:
    one = np.ones((1, 1))
    numerics.mma_f64(one, one, one * 2.0**-60, "rp")
    assert 1.0 + 2.0**-60 == 1.0
    assert -1.0 - 2.0**-60 == -1.0


def test_infinities_and_nan() -> None:
    infinite, nan = np.full((1, 1), INFINITY), np.array([[0x7FF0000000000123]], np.uint64).view(np.float64)
    assert numerics.mma_f64(infinite, np.zeros((1, 1)), np.ones((1, 1))).view(np.uint64)[0, 0] == 0xFFF8000000000000
    assert numerics.mma_f64(nan, np.ones((1, 1)), np.ones((1, 1))).view(np.uint64)[0, 0] == 0x7FF8000000000123


def test_arguments() -> None:
    with pytest.raises(numerics.NumericsError, match=r"^error\[N101\]: rounding 'ru': expected 'rz', 'rn', 'rp', 'rm'$"):
        numerics.mma_f64(np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), "ru")
    with pytest.raises(
        numerics.NumericsError, match=r"^error\[N101\]: expected A \[M, K\], B \[N, K\] and C \[M, N\], got \[1, 2\], \[1, 1\], \[1, 1\]$"
    ):
        numerics.mma_f64(np.ones((1, 2)), np.ones((1, 1)), np.ones((1, 1)))
