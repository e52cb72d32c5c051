"""The tables of the approximate functions follow from the results: with another slope or curvature near a row's, some result differs.

The results are those of an H200, as `test_approximation_sweeps_h200` shows. From the results of an interval a search finds its row again.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.isa.scalar import approximation_tables as tables

from ..form_helpers import form, with_numpy

Integers = NDArray[np.int64]
ALL = np.arange(1 << 17)
NEAR = 3
"""How far the neighbours go."""

SQUARES = sum(np.where(ALL >> bit & 1, ALL >> (18 - bit), 0) for bit in range(17)) >> 1
"""The truncated square of each rest, added up row by row."""

TANH_BITS = (0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3)
TANH_STARTS = [0, *accumulate(1 << bits for bits in TANH_BITS)]


def results(opcode: str, operands: Integers) -> Integers:
    with np.errstate(all="ignore"):
        (got,) = with_numpy(form(opcode, 1), [operands.astype(np.uint32)])
    return got.astype(np.int64)


def sums(found: Integers, scale: int) -> tuple[Integers, Integers]:
    """Between what sums the results, positive f32, were truncated; the unit is ``2**-scale``."""
    significand, shift = found & 0x7FFFFF | 0x800000, (found >> 23) - 150 + scale
    return significand << shift, (significand + 1 << shift) - 1


def binade(start: int, index: int) -> Integers:
    """The operands of an interval; 64 intervals are a binade, whose first operand has the bits ``start``."""
    return start + (index << 17) + ALL


def reciprocals(index: int) -> tuple[Integers, Integers, Integers]:
    rest = ALL[::2]
    return rest, *sums(results("rcp.approx.ftz.f32", 0x3F800000 + (index << 16) + rest // 2), 40)


def reciprocal_roots(index: int) -> tuple[Integers, Integers, Integers]:
    rest = ALL[index == 0 :]  # the result for 1 is a special case
    return rest, *sums(results("rsqrt.approx.ftz.f32", binade(0x3F800000, index))[index == 0 :], 40)


def roots(index: int) -> tuple[Integers, Integers, Integers]:
    return ALL, *sums(results("sqrt.approx.ftz.f32", binade(0x3F800000, index)), 40)


def powers(index: int) -> tuple[Integers, Integers, Integers]:
    return ALL, *sums(results("ex2.approx.ftz.f32", binade(0x3F800000, index)), 37)


def logarithms(index: int) -> tuple[Integers, Integers, Integers]:
    rest = ALL[(index == 0) << 12 :]  # the smallest results are truncated elsewhere
    return rest, *sums(results("lg2.approx.ftz.f32", binade(0x3F800000, index))[-len(rest) :], 38)


def sines(index: int) -> tuple[Integers, Integers, Integers]:
    """Operands between two and a half and three quarters of a turn; the fraction of a turn is truncated twice."""
    first, last = (int(np.float32((2 - (index + more) / 64) * np.pi / 2).view(np.uint32)) for more in (1.01, -0.01))
    operands = np.arange(first, last)
    factor = float(np.uint32(0x3E22F983).view(np.float32))
    turns = (operands.astype(np.uint32).view(np.float32) * np.float64(factor)).view(np.int64) >> 29 << 29
    fixed = (turns.view(np.float64) * 2.0**25).astype(np.int64)
    place = (1 << 24) - 1 - fixed
    chosen = (place >> 17 == index) & (place >= 0) & (place > 1 << 12)
    return place[chosen] & 0x1FFFF, *sums(results("sin.approx.ftz.f32", operands[chosen]), 37)


def tangents(index: int) -> tuple[Integers, Integers, Integers]:
    at = max(i for i, start in enumerate(TANH_STARTS) if start <= index)
    bits = TANH_BITS[at]
    operands = (119 + at << 23) + (index - TANH_STARTS[at] << 23 - bits) + (ALL << 6 - bits)
    return ALL, *sums(results("tanh.approx.f32", operands), 39)


KINDS = {
    "rcp": (tables.RCP, reciprocals, 14, 0x8FCE, 2),
    "rsqrt": (tables.RSQRT, reciprocal_roots, 14, 0x7FFF, 4),
    "sqrt": (tables.SQRT, roots, 15, 0x7FFF, 2),
    "ex2": (tables.EX2, powers, 13, 0x77E2, 1),
    "lg2": (tables.LG2, logarithms, 12, 0x3345, 2),
    "sin": (tables.SIN, sines, 11, 0, 1),
    "tanh": (tables.TANH, tangents, 15, 0, 1),
}


def values(rest: Integers, low: Integers, high: Integers, slope: int, curvature: int) -> tuple[int, int]:
    """The least and the largest value with which all sums lie between their bounds."""
    more = slope * rest + curvature * SQUARES[rest]
    return int((low - more).max()), int((high - more).min())


def check(kind: str, index: int) -> None:
    table, operands, scale, offset, factor = KINDS[kind]
    value, slope, curvature = table[index]
    rest, low, high = operands(index)
    least, largest = values(rest, low, high, slope, curvature * factor)
    assert least <= (value << scale) + offset <= largest
    some = slice(None, None, 61)
    for d in range(-NEAR, NEAR + 1):
        for e in range(-NEAR, NEAR + 1):
            least, largest = values(rest[some], low[some], high[some], slope + d, (curvature + e) * factor)
            if least <= largest and (d or e):
                least, largest = values(rest, low, high, slope + d, (curvature + e) * factor)
                assert least > largest, (slope + d, curvature + e)


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind: str) -> None:
    for index in (0, 1, len(KINDS[kind][0]) // 2, len(KINDS[kind][0]) - 1):
        check(kind, index)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_row(kind: str) -> None:
    for index in range(len(KINDS[kind][0])):
        check(kind, index)


def test_a_reciprocal_is_the_truncated_one_or_the_next_number() -> None:
    """For every significand, so that the last bit of the sum tells which."""
    rest = ALL[::2]
    for index, (value, slope, curvature) in enumerate(tables.RCP):
        found = (value << 14) + slope * rest + 2 * curvature * SQUARES[rest] + 0x8FCE >> 16
        more = found - (1 << 47) // ((1 << 23) + (index << 16) + rest // 2)
        assert more.min() >= 0
        assert more.max() <= 1
