"""A of wgmma in registers: from which elements of an array it comes, and that its k is that of B in shared memory."""

from __future__ import annotations

import pytest

from .warpgroup_kernels import MISTAKES, TEXT, launch, mistaken


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
def test_the_kernel_itself(policy: str) -> None:
    result, right = launch(TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, policy: str) -> None:
    text, code, fix = mistaken(name)
    result, right = launch(text, policy=policy)
    assert not right
    assert code in {found.code for found in result.diagnostics}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)


def test_values_that_are_computed_are_not_judged() -> None:
    """As an upcast, or the softmax between two products."""
    text = mistaken("no swizzle of A")[0].replace("wgmma.fence", "xor.b32 %r20, %r20, 0;\n    wgmma.fence")
    result, right = launch(text, check="operands")
    assert not right
    assert result.diagnostics == ()
