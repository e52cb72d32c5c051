"""Few bits are called undefined without reason: of those in global memory at the end, at most 5 % are the same in 64 fillings.

Over all kernels of the table it is 3.2 %. Most of it is the upper bits of exponents: the rule of floating-point instructions calls all bits
of a result undefined but the sign, and what is divided by its own norm is close to 1, or NaN. So conversions of such results, and loads of
them from shared memory, are above the limit by themselves (10.6 and 7.0 %), all in layer-norm kernels: without these, 0.5 and 0.1 %.

Of the kernels, each by itself, 15 of 23 are within the limit. The other eight have 6.6 to 15 %: layer and group norms, where only relations
between the values of a row tell the exponents; sums with a large number that hardly any filling cancels (hadamard, arithmetic in 16
bits); and updates that are too small to change a rounded weight (adam).

Bits that decide addresses and branches are within the limit, each by themselves: of 4,119 that decide addresses none is the same, of 4,579
that decide branches 4.2 %. These ask whether a product with zero is a large number, or whether the upper half of a sum of products is zero.
Of 16 fillings four give all undefined elements one value (zero, infinities, NaN), seven give floats of some size, and one gives what
another array has at the same place: random bits alone hardly ever take branches that ask for such values, or make operands equal.
"""

from __future__ import annotations

import pytest

from .decisions import KINDS
from .precision import DECIDING, KERNELS, decisions_over, over, table

WITHIN = tuple(f"scalar.{family}" for family in ("float", "half", "reciprocals", "approx", "integer", "bits", "compare"))
"""Families that are within the limit by themselves."""


@pytest.mark.parametrize("name", ["vector_add_fp32", "softmax_fp32", "h200_cluster_layer_norm", "h200_carry_flags", "h200_rms_norm_fast"])
def test_a_kernel(name: str) -> None:
    called, same = over([name])
    assert sum(called.values()) >= 1000
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)


@pytest.mark.slow
def test_all_kernels_of_the_table() -> None:
    called, same = over(KERNELS)
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)
    for family in WITHIN:
        assert called[family] >= 1000
        assert same[family] <= 0.05 * called[family], table(called, same)


def test_addresses_of_a_kernel() -> None:
    """Indices with two undefined bits, times the size of an element: multiplication by a power of two moves the bits."""
    found = decisions_over(["h200_sparse_vector"])
    called, same = found.called["addresses"], found.same["addresses"]
    assert sum(called.values()) >= 200
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)


def test_branches_of_a_kernel() -> None:
    """Which lane is the first with a value, a comparison of two sums, and how often an unrolled loop is entered."""
    found = decisions_over(["h200_histogram", "h200_sparse_vector"])
    called, same = found.called["branches"], found.same["branches"]
    assert sum(called.values()) >= 300
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_decisions_of_all_kernels_of_the_table(kind: str) -> None:
    found = decisions_over(DECIDING)
    called, same = found.called[kind], found.same[kind]
    assert sum(called.values()) >= 1000
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)
