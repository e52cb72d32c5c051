"""A of wgmma in registers: from which elements of an array it comes, and that its k is that of B in shared memory."""

from __future__ import annotations

import pytest

from .warpgroup_kernels import DIRECT_LOAD, DIRECT_STEP, DIRECT_TEXT, MISTAKES, MMA, STEP_OF_B, TEXT, launch, mistaken


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


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_loads_beside_a_tensor_copy_of_b(policy: str) -> None:
    result, right = launch(DIRECT_TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


_REGISTERS = "{%r20, %r21, %r22, %r23}"


@pytest.mark.parametrize(
    ("old", "new", "code", "fix"),
    [
        (MMA, MMA.replace(_REGISTERS, "{%r22, %r23, %r20, %r21}"), "O104", "give the registers of A in the order 2, 3, 0, 1"),
        (DIRECT_STEP, "add.u64 %rd8, %rd8, 16;", "O105", "from which A is loaded by 16 elements of k"),
        (DIRECT_LOAD, DIRECT_LOAD.replace("+1024]", "+1040]").replace("+1040];\n    \n", "+1024];"), "O101", "correct the addresses"),
        (STEP_OF_B, "add.u64 %rd10, %rd10, 1;", "O105", "advance the start address of B by 32 bytes"),
    ],
    ids=["registers of A", "K step of A", "addresses of A", "K step of B"],
)
def test_mistakes_beside_a_tensor_copy_of_b(old: str, new: str, code: str, fix: str) -> None:
    assert old in DIRECT_TEXT
    result, right = launch(DIRECT_TEXT.replace(old, new), check="operands")
    assert not right
    assert code in {found.code for found in result.diagnostics}
    assert any(fix in found.fix for found in result.diagnostics if found.code == code)
