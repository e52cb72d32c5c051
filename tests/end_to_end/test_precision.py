"""Few bits are called undefined without reason: of those in global memory at the end, at most 5 % are the same in 64 random fillings.

Over all kernels of the table it is 4.9 %. Most of it is the upper bits of exponents: the rule of floating-point instructions calls all
bits of a result undefined but the sign of what is computed from operands without a sign.
"""

from __future__ import annotations

import pytest

from .precision import KERNELS, over, table


@pytest.mark.parametrize("name", ["vector_add_fp32", "softmax_fp32", "h200_cluster_layer_norm", "h200_carry_flags"])
def test_a_kernel(name: str) -> None:
    called, same = over([name])
    assert sum(called.values()) >= 1000
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)


@pytest.mark.slow
def test_all_kernels_of_the_table() -> None:
    called, same = over(KERNELS)
    assert sum(same.values()) <= 0.05 * sum(called.values()), table(called, same)
    integers = "scalar.integer"
    assert same[integers] <= 0.05 * called[integers], table(called, same)
