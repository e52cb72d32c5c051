"""The metadata of sparse products: each instruction takes that of its own k."""

from __future__ import annotations

from itertools import pairwise

import pytest

from .sparse_kernels import NEXT, TEXT, launch


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("columns", [(0, 1, 1, 3), (0, 0, 2, 3), (0, 1, 2, 0), (0, 1, 0, 1)])
def test_metadata_of_another_k(columns: tuple[int, ...]) -> None:
    """All metadata are equal here: the product is right by chance."""
    others = [(i, b - a - 1 & 0xFFFFFFFF) for i, (a, b) in enumerate(pairwise(columns))]
    moves = "".join(f"setp.eq.u32 %p7, %r15, {i};\n    @%p7 add.u32 %r24, %r24, {more};\n    " for i, more in others)
    result, _ = launch(TEXT.replace(NEXT, moves + NEXT), check="operands")
    (found,) = result.diagnostics
    assert found.code == "O108"
    assert found.message.startswith("two instructions that add to the same D take the same metadata of A, byte 0 of columns ")
    assert found.fix == (
        "let each instruction take the metadata of its own k: check the address of the metadata of A, and the sparsity selector"
    )
