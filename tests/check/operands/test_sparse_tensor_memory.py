"""A sparse product whose A is in tensor memory, where tcgen05.st or tcgen05.cp has written it: its k must be that of B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab

from . import tensor_kernels
from .sparse_kernels import FIRST_TWO, TEXT, launch
from .tensor_kernels import LOADS, WORDS

_MMA = "tcgen05.mma.sp.cta_group::1.kind::f16 [%r4], %rd10, %rd11, [%r24], %r6, %p4;"
NEXT_OF_A, NEXT_OF_B = "add.u32 %r30, %r30, 8;", "add.u64 %rd11, %rd11, 4;"
_REGISTERS = ", ".join(f"%a{i}" for i in range(WORDS))
STORE = f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r30], {{{_REGISTERS}}};"
_IN_TENSOR_MEMORY = (
    TEXT.replace(_MMA, f"{_MMA.replace('%rd10', '[%r30]')}\n    {NEXT_OF_A}")
    .replace("    add.u64 %rd10, %rd10, 2;\n", "")
    .replace("[%r3], 128;", "[%r3], 256;")
    .replace("%r4, 128;", "%r4, 256;")
    .replace(".reg .f32 %f<64>;", f".reg .f32 %f<64>; .reg .b32 %a<{WORDS}>;")
)
_WAIT = "    @!%p2 bra WAIT;\n    mov.u32 %r15, 0;"
STORED = _IN_TENSOR_MEMORY.replace(
    _WAIT,
    f"""    ld.param.u64 %rd13, [a];
    mul.wide.u32 %rd14, %r1, 256;
    add.u64 %rd13, %rd13, %rd14;
{LOADS}
    add.u32 %r30, %r4, 128;
    {STORE}
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
{_WAIT}""",
)


def copied(steps: tuple[int, ...] = (0, 2, 4, 6)) -> str:
    """A is copied from shared memory: 32 bytes of each row at a time, which begin at these multiples of 16 bytes."""
    copies = "".join(
        f"    add.u32 %r31, %r30, {8 * i};\n    add.u64 %rd15, %rd10, {step};\n    @%p2 tcgen05.cp.cta_group::1.128x256b [%r31], %rd15;\n"
        for i, step in enumerate(steps)
    )
    return _IN_TENSOR_MEMORY.replace(_WAIT, f"    add.u32 %r30, %r4, 128;\n{copies}{_WAIT}")


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("text", [STORED, copied()], ids=["stored", "copied"])
def test_the_kernel_itself(text: str, policy: str) -> None:
    result, right = launch(text, policy=policy)
    assert right
    assert result.diagnostics == ()


_EIGHT = [f"%a{i}" for i in range(8)]
MISTAKES = {
    #                         the right text, the wrong text, the code, what the fix says
    "registers of sixteen":  (STORE, STORE.replace(", ".join(_EIGHT), ", ".join(_EIGHT[4:] + _EIGHT[:4])), "O104", "each k of A is the k"),
    "registers of four":     (STORE, STORE.replace("{%a0, %a1", "{%a1, %a0"), "O104", "each k of A is the k of B"),
    "K step of A":           (NEXT_OF_A, "add.u32 %r30, %r30, 4;", "O105", "advance the address of A by 8 columns"),
    "K step of B":           (NEXT_OF_B, "add.u64 %rd11, %rd11, 2;", "O105", "advance the start address of B by 64 bytes"),
    "rows":                  (LOADS, tensor_kernels._EXCHANGED.replace("%r25", "%r31"), "O101", "correct the addresses with which A is"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    old, new, code, fix = MISTAKES[name]
    assert old in STORED
    result, right = launch(STORED.replace(old, new), check="operands")
    assert not right
    assert result.diagnostics[0].code == code
    assert fix in result.diagnostics[0].fix


@pytest.mark.parametrize("steps", [(0, 4, 2, 6), (2, 0, 4, 6), (0, 1, 2, 3)])
def test_copies_of_other_k(steps: tuple[int, ...]) -> None:
    result, right = launch(copied(steps), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O105"}


def launch_tf32(text: str, **options: Any) -> tuple[Any, bool]:
    """The same with words as elements, of which one of two is stored: the result, and whether the product is right."""
    text = text.replace("kind::f16", "kind::tf32").replace("0x08100014", hex(0x08100014 | 2 << 7 | 2 << 10))
    a = np.random.default_rng(5).integers(-4, 5, (128, 64)).astype(np.float32)
    metadata, c = np.full(128, FIRST_TWO, np.uint32), np.zeros((128, 64), np.float32)
    result = ptxlab.loads(text, file="sparse.ptx").kernel().launch(block=128, args=[a, metadata, c], **options)
    rows = np.zeros((128, 64))
    rows[:, ::2] = a[:, :32]
    return result, bool((c == rows @ a[:64].astype(np.float64).T).all())


@pytest.mark.parametrize("text", [STORED, copied()], ids=["stored", "copied"])
def test_one_of_two(text: str) -> None:
    result, right = launch_tf32(text)
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_with_one_of_two(name: str) -> None:
    """Two registers are two k."""
    old, new, code, fix = MISTAKES[name]
    result, right = launch_tf32(STORED.replace(old, new), check="operands")
    assert not right
    assert result.diagnostics[0].code == code
    assert fix in result.diagnostics[0].fix
