"""A sparse product of matrices in registers: a row of A stores two of each four elements of k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from .warp_kernels import COLUMNS, LOAD_A, LOAD_B, MMA, ROWS, STEP_OF_B, TEXT, K

FIRST_TWO = 0x44444444
"""Of each four elements of k the first two are stored."""
SPARSE = MMA.replace("mma.sync.aligned.m16n8k16", "mma.sp::ordered_metadata.sync.aligned.m16n8k32").replace(
    "{%r24, %r25}, {%f0, %f1, %f2, %f3}", f"{{%r24, %r25, %r26, %r27}}, {{%f0, %f1, %f2, %f3}}, {FIRST_TWO:#x}, 0"
)
LOAD = LOAD_B.replace("x2", "x4").replace("{%r24, %r25}", "{%r24, %r25, %r26, %r27}")
STEP = STEP_OF_B.replace(", 2;", ", 4;")
KERNEL = (
    TEXT.replace(MMA, f"mov.b32 %r28, {FIRST_TWO:#x};\n    {SPARSE.replace(hex(FIRST_TWO), '%r28')}")
    .replace(LOAD_B, LOAD)
    .replace("and.b32 %r12, %r12, 1;", "and.b32 %r12, %r12, 3;")
    .replace(STEP_OF_B, STEP)
    .replace("setp.lt.u32 %p3, %r14, 4;", "setp.lt.u32 %p3, %r14, 2;")
)


def launch(text: str, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (ROWS, K)).astype(np.float16) for _ in range(2))
    d = np.zeros((ROWS, COLUMNS), np.float32)
    result = ptxlab.loads(text, file="sparse.ptx").kernel().launch(block=32, args=[a, b, d], **options)
    rows = np.zeros((ROWS, K))
    rows.reshape(ROWS, K // 4, 4)[:, :, :2] = a[:, : K // 2].reshape(ROWS, K // 4, 2)
    return result, bool((d == rows @ b[:COLUMNS].astype(np.float64).T).all())


def test_the_kernel_itself() -> None:
    result, right = launch(KERNEL)
    assert right
    assert result.diagnostics == ()


A = "{%r20, %r21, %r22, %r23}, {%r24"
B = "{%r24, %r25, %r26, %r27}, {"
MISTAKES = {
    "registers of B": (B, "{%r26, %r27, %r24, %r25}, {", "O104", "give the registers of B in the order 2, 3, 0, 1"),
    "two registers of B": (B, "{%r24, %r26, %r25, %r27}, {", "O104", "give the registers of B in the order 0, 2, 1, 3"),
    "registers of A": (A, "{%r22, %r23, %r20, %r21}, {%r24", "O104", "give the registers of A in the order 2, 3, 0, 1"),
    "K step of B": (STEP, STEP_OF_B, "O105", "is loaded by 32 elements of k from instruction to instruction"),
    "B with .trans": (LOAD, LOAD.replace("x4", "x4.trans"), "O101", "load B without .trans"),
    "rows of A": (LOAD_A, LOAD_A.replace("x4", "x4.trans"), "O101", "load A without .trans"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    old, new, code, fix = MISTAKES[name]
    assert old in KERNEL
    result, right = launch(KERNEL.replace(old, new), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_a_permutation_of_k_in_both() -> None:
    result, right = launch(KERNEL.replace(A, MISTAKES["registers of A"][1]).replace(B, MISTAKES["registers of B"][1]), check="operands")
    assert right
    assert result.diagnostics == ()


def test_the_message_names_elements_of_both() -> None:
    result, _ = launch(KERNEL.replace(B, MISTAKES["two registers of B"][1]), check="operands")
    (found,) = result.diagnostics
    assert found.message == "A and B are multiplied with different k: A[0, 4] is a[0, 4], but B[0, 8] is b[0, 16]"
