"""A of wgmma in registers: from which elements of an array it comes, and that its k is that of B in shared memory."""

from __future__ import annotations

import pytest

from .warpgroup_kernels import DIRECT_LOAD, DIRECT_STEP, DIRECT_TEXT, LOAD_A, MISTAKES, MMA, STEP_OF_A, STEP_OF_B, TEXT, launch, mistaken


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
    text = mistaken("no swizzle of A")[0].replace("wgmma.fence", "add.u32 %r20, %r20, 0;\n    wgmma.fence")
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


_LANE = """shr.u32 %r16, %r1, 2;
    and.b32 %r17, %r16, 7;
    shr.u32 %r16, %r1, 5;
    shl.b32 %r16, %r16, 4;
    add.u32 %r16, %r16, %r17;
    shl.b32 %r16, %r16, 7;
    and.b32 %r18, %r1, 3;
    shl.b32 %r18, %r18, 2;
    add.u32 %r16, %r16, %r18;
    shl.b32 %r18, %r14, 1;"""
"""Where the first word of the lane is in its row of 128 bytes, and the first of the two chunks of the step."""
LOADS = {
    "two of x2": """xor.b32 %r12, %r11, 16;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20, %r21}, [%r11];
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r22, %r23}, [%r12];""",
    "ld.global": f"""{_LANE}
    shl.b32 %r18, %r18, 4;
    add.u32 %r16, %r16, %r18;
    cvt.u64.u32 %rd11, %r16;
    add.u64 %rd11, %rd11, %rd1;
    ld.global.b32 %r20, [%rd11];
    ld.global.b32 %r21, [%rd11+1024];
    ld.global.b32 %r22, [%rd11+16];
    ld.global.b32 %r23, [%rd11+1040];""",
    "ld.shared": f"""{_LANE}
    xor.b32 %r18, %r18, %r17;
    shl.b32 %r18, %r18, 4;
    add.u32 %r16, %r16, %r2;
    add.u32 %r19, %r16, %r18;
    xor.b32 %r18, %r18, 16;
    add.u32 %r16, %r16, %r18;
    ld.shared.b32 %r20, [%r19];
    ld.shared.b32 %r21, [%r19+1024];
    ld.shared.b32 %r22, [%r16];
    ld.shared.b32 %r23, [%r16+1024];""",
}
EXCHANGED = MMA.replace("{%r20, %r21, %r22, %r23}", "{%r22, %r23, %r20, %r21}")


@pytest.mark.parametrize("way", LOADS)
def test_other_loads_of_a(way: str) -> None:
    text = TEXT.replace(LOAD_A, LOADS[way])
    result, right = launch(text)
    assert right
    assert result.diagnostics == ()
    result, right = launch(text.replace(MMA, EXCHANGED), check="operands")
    assert not right
    assert [found.code for found in result.diagnostics] == ["O104"]


def test_k_backwards() -> None:
    """The last k first, in both."""
    text = TEXT.replace(STEP_OF_A, "sub.u32 %r10, %r10, 2;").replace(STEP_OF_B, "sub.u64 %rd10, %rd10, 2;")
    text = text.replace("mov.u32 %r14, 0;", "mov.u32 %r14, 0;\n    add.u32 %r10, %r10, 6;\n    add.u64 %rd10, %rd10, 6;")
    result, right = launch(text)
    assert right
    assert result.diagnostics == ()
