"""Matrices in registers of mma.sync: from which elements of arrays theirs come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from .warp_kernels import BOXED_TEXT, MISTAKES, STEP_OF_A, STEP_OF_B, TEXT, launch, mistaken


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_the_kernel_itself(policy: str, backend: str) -> None:
    result, right = launch(TEXT, policy=policy, backend=backend)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    text, code, fix = mistaken(name)
    result, right = launch(text)
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


@pytest.mark.parametrize("name", ["no swizzle of A", "B with .trans", "registers of A"])
def test_mistakes_in_the_reference_interpreter(name: str) -> None:
    text, code, fix = mistaken(name)
    result, _ = launch(text, backend="numpy", check="operands")
    assert [found.code for found in result.diagnostics] == [code]
    assert fix in result.diagnostics[0].fix


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no swizzle of A",
            "matrix A in registers is not a matrix of the elements that were loaded: its rows do not have the same k; "
            "A[1, 8] is a[1, 0], but A[0, 8] is a[0, 8]",
        ),
        (
            "rows and k of A",
            "matrix A in registers is not a matrix of the elements that were loaded: its rows go on in other rows of the array; "
            "A[0, 8] is a[8, 0], but A[0, 7] is a[0, 7]",
        ),
        ("registers of B", "A and B are multiplied with different k: A[0, 0] is a[0, 0], but B[0, 0] is b[0, 8]"),
        (
            "K step of B",
            "between two instructions that add to the same D k of B moves by 8, where an instruction takes 16 elements of k",
        ),
    ],
)
def test_messages(name: str, message: str) -> None:
    result, _ = launch(mistaken(name)[0], check="operands")
    (found,) = result.diagnostics
    assert found.message == message
    assert any(key == "loaded by" and "ldmatrix" in value for key, value in found.details)


def test_the_model_spec_makes_errors() -> None:
    result, _ = launch(mistaken("registers of B")[0], model="spec", check="operands")
    assert [(found.code, found.severity) for found in result.diagnostics] == [("O104", "error")]


@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_tensor_copies(policy: str) -> None:
    result, right = launch(BOXED_TEXT, policy=policy)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_behind_tensor_copies(name: str) -> None:
    text, code, fix = mistaken(name, BOXED_TEXT)
    result, right = launch(text)
    assert not right
    assert {found.code for found in result.diagnostics} == {code}
    assert any(fix in found.fix for found in result.diagnostics)


def test_a_permutation_of_k_in_both() -> None:
    text = mistaken("registers of A")[0].replace("{%r24, %r25}, {%f0", "{%r25, %r24}, {%f0")
    result, right = launch(text)
    assert right
    assert result.diagnostics == ()


def test_k_backwards() -> None:
    """The last k first, in both."""
    text = TEXT
    for right, wrong in (
        (STEP_OF_A, "sub.u32 %r10, %r10, 2;"),
        (STEP_OF_B, "sub.u32 %r12, %r12, 2;"),
        ("mov.u32 %r14, 0;", "mov.u32 %r14, 0;\n    add.u32 %r10, %r10, 6;\n    add.u32 %r12, %r12, 6;"),
    ):
        text = text.replace(right, wrong)
    result, right_product = launch(text)
    assert right_product
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", ["no swizzle of A", "registers of A", "K step of A"])
def test_values_that_are_computed_are_not_judged(name: str) -> None:
    text = mistaken(name)[0].replace("mma.sync", "add.u32 %r20, %r20, 0;\n    mma.sync")
    result, right = launch(text, check="operands")
    assert not right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", ["no swizzle of A", "K step of A"])
def test_shared_memory_that_is_overwritten_is_not_judged(name: str) -> None:
    """A thread computes with what has been copied, and stores the result in its place."""
    change = """shl.b32 %r15, %r1, 2;
    add.u32 %r15, %r15, %r2;
    mov.u32 %r16, 0;
CHANGE:
    ld.shared.b32 %r17, [%r15];
    xor.b32 %r17, %r17, 0x01000100;
    st.shared.b32 [%r15], %r17;
    add.u32 %r15, %r15, 128;
    add.u32 %r16, %r16, 1;
    setp.lt.u32 %p1, %r16, 24;
    @%p1 bra CHANGE;
    bar.warp.sync 0xffffffff;
    mov.f32 %f0, 0f00000000;"""
    result, _ = launch(mistaken(name)[0].replace("mov.f32 %f0, 0f00000000;", change), check="operands")
    assert result.diagnostics == ()


DIRECT = """
.version 9.0
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .reg .b32 %r<32>; .reg .b64 %rd<12>; .reg .f32 %f<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd6, [d];
    shr.u32 %r2, %r1, 2;
    and.b32 %r3, %r1, 3;
    mul.wide.u32 %rd3, %r2, 64;
    mul.wide.u32 %rd4, %r3, {bytes};
    add.u64 %rd3, %rd3, %rd4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    mov.f32 %f0, 0f00000000;
{body}
    mul.wide.u32 %rd7, %r2, 32;
    add.u64 %rd6, %rd6, %rd7;
    mul.wide.u32 %rd7, %r3, 8;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v2.f32 [%rd6], {{%f0, %f1}};
    st.global.v2.f32 [%rd6+256], {{%f2, %f3}};
    ret;
}}
"""
"""Registers that are loaded from global memory; rows of 32 elements of k."""
_PRODUCT = "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{{a}}}, {{{b}}}, {{{c}}};\n"


def _direct(text: str, **options: Any) -> tuple[Any, bool]:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (2, 16, 32)).astype(np.float16)
    d = np.zeros((16, 8), np.float32)
    result = ptxlab.loads(text, file="direct.ptx").kernel().launch(block=32, args=[a, b, d], **options)
    return result, bool((d == a.astype(np.float64) @ b[:8].astype(np.float64).T).all())


def _vectors(b: str = "{first}, {second}") -> str:
    """Four contiguous words of each row in a lane: k is permuted in A and in B alike."""
    body = "    ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1];\n    ld.global.v4.b32 {%r14, %r15, %r16, %r17}, [%rd1+512];\n"
    body += "    ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd2];\n"
    for step in (0, 2):
        own = f"%r{10 + step}, %r{14 + step}, %r{11 + step}, %r{15 + step}"
        c = "%f0, %f0, %f0, %f0" if not step else "%f0, %f1, %f2, %f3"
        body += _PRODUCT.format(a=own, b=b.format(first=f"%r{20 + step}", second=f"%r{21 + step}"), c=c)
    return DIRECT.format(bytes=16, body=body)


def _words(offsets_of_b: tuple[int, int, int, int] = (0, 16, 32, 48)) -> str:
    """The words that the layout of the registers names, one by one."""
    body = "".join(f"    ld.global.b32 %r{10 + i}, [%rd1+{at}];\n" for i, at in enumerate((0, 512, 16, 528, 32, 544, 48, 560)))
    body += "".join(f"    ld.global.b32 %r{20 + i}, [%rd2+{at}];\n" for i, at in enumerate(offsets_of_b))
    for step in (0, 1):
        c = "%f0, %f0, %f0, %f0" if not step else "%f0, %f1, %f2, %f3"
        own = ", ".join(f"%r{10 + 4 * step + i}" for i in range(4))
        body += _PRODUCT.format(a=own, b=f"%r{20 + 2 * step}, %r{21 + 2 * step}", c=c)
    return DIRECT.format(bytes=4, body=body)


def test_vectors_from_global_memory() -> None:
    result, right = _direct(_vectors())
    assert right
    assert result.diagnostics == ()


def test_words_from_global_memory() -> None:
    result, right = _direct(_words())
    assert right
    assert result.diagnostics == ()


def test_words_from_global_memory_in_another_order() -> None:
    result, right = _direct(_words((16, 0, 32, 48)))
    assert not right
    assert [found.code for found in result.diagnostics] == ["O104"]
    assert result.diagnostics[0].fix == "give the registers of B in the order 1, 0, counted from 0"


@pytest.mark.parametrize(
    ("axes", "lanes", "loads"),
    [
        ((0, 2, 1, 3), 16, "    ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd8];\n"),
        ((1, 0, 2, 3), 4, "".join(f"    ld.global.b32 %r{20 + word}, [%rd8+{128 * word}];\n" for word in range(4))),
    ],
    ids=["words of a lane", "lanes of a word"],
)
def test_an_array_that_is_arranged_for_the_registers(axes: tuple[int, ...], lanes: int, loads: str) -> None:
    """The host has put the words of a lane one after the other in the second operand, or those of the lanes."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (2, 16, 32)).astype(np.float16)
    # By row n, word, and lane t of the row: a lane has the words t, t + 4, t + 8, t + 12.
    arranged = np.zeros_like(b)
    arranged[:8] = b[:8].reshape(8, 4, 4, 2).transpose(axes).reshape(8, 32)
    plain = _words()
    start = plain.index("    ld.global.b32 %r20")
    end = plain.index("    mma.sync")
    at = f"    ld.param.u64 %rd8, [b];\n    mul.wide.u32 %rd9, %r1, {lanes};\n    add.u64 %rd8, %rd8, %rd9;\n"
    d = np.zeros((16, 8), np.float32)
    result = ptxlab.loads(plain[:start] + at + loads + plain[end:]).kernel().launch(block=32, args=[a, arranged, d])
    assert (d == a.astype(np.float64) @ b[:8].astype(np.float64).T).all()
    assert result.diagnostics == ()


def test_rows_that_are_gathered() -> None:
    """Lanes take rows in another order, and D is stored as it is."""
    text = TEXT.replace("and.b32 %r9, %r1, 7;", "and.b32 %r9, %r1, 7;\n    xor.b32 %r9, %r9, 5;")
    result, right = launch(text, check="operands")
    assert not right
    assert result.diagnostics == ()
