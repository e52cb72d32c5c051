"""The metadata of sparse products: each instruction takes that of its own k."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ptxlab.isa.tcgen05 import _mma
from ptxlab.machine.warp.warp import Warp
from ptxlab.numerics import MmaProgram

from .sparse_kernels import NEXT, TEXT, launch


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


OTHERS = [(0, 1, 1, 3), (0, 0, 2, 3), (0, 1, 2, 0), (0, 1, 0, 1)]


def with_columns(columns: tuple[int, ...]) -> str:
    """The kernel, whose products take the metadata of these columns."""
    others = [(i, b - a - 1 & 0xFFFFFFFF) for i, (a, b) in enumerate(pairwise(columns))]
    moves = "".join(f"setp.eq.u32 %p7, %r15, {i};\n    @%p7 add.u32 %r24, %r24, {more};\n    " for i, more in others)
    return TEXT.replace(NEXT, moves + NEXT)


@pytest.mark.parametrize("columns", [(0, 1, 2, 3), *OTHERS])
def test_compiled_code_finds_the_same(columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers execute the products of the first CTA, and compiled code most of those of the others."""
    monkeypatch.setattr(MmaProgram, "optimised", True)
    issue, handled, found = _mma.launch, [], []
    monkeypatch.setattr(_mma, "launch", lambda warp, *rest: (handled.append(warp), issue(warp, *rest))[1])
    for repeats in (True, False):
        handled.clear()
        if not repeats:
            monkeypatch.setattr(Warp, "repeats", False)
        result, right = launch(with_columns(columns), ctas=4, check="operands")
        found.append((result.diagnostics, right, result.stats.instructions, result.stats.services))
        assert len(handled) < 16 if repeats else len(handled) == 16
    assert found[0] == found[1]
    assert {each.code for each in found[0][0]} == (set() if columns == (0, 1, 2, 3) else {"O108"})


@pytest.mark.parametrize("columns", OTHERS)
def test_metadata_of_another_k(columns: tuple[int, ...]) -> None:
    """All metadata are equal here: the product is right by chance."""
    result, _ = launch(with_columns(columns), check="operands")
    (found,) = result.diagnostics
    assert found.code == "O108"
    assert found.message.startswith("two instructions that add to the same D take the same metadata of A, byte 0 of columns ")
    assert found.fix == (
        "let each instruction take the metadata of its own k: check the address of the metadata of A, and the sparsity selector"
    )
