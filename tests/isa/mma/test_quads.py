"""mma.m8n8k4 with f16 on Volta and Turing: four products of threads 4i to 4i+3 and 4i+16 to 4i+19."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab import numerics


def a_place(lane: int, i: int, row_major: bool) -> tuple[int, int]:
    """Row and column of ai; B of the other major is its transpose."""
    high = 4 if lane >= 16 else 0
    return (lane % 4 + high, i) if row_major else (i % 4 + high, lane % 4)


def c_place(lane: int, i: int, half: bool) -> tuple[int, int]:
    high = 4 if lane >= 16 else 0
    if half:
        return lane % 4 + high, i
    return (lane & 0b1) + (i & 0b10) + high, (i & 0b100) + (lane & 0b10) + (i & 0b1)


def held(matrices: NDArray[Any], place: Any, count: int) -> NDArray[np.uint32]:
    """Registers [32, words] of four matrices."""
    values = np.array([[matrices[lane % 16 // 4][place(lane, i)] for i in range(count)] for lane in range(32)], matrices.dtype)
    return values.view(np.uint32)


@pytest.mark.parametrize("target", ["sm_70", "sm_75"])
@pytest.mark.parametrize(("d", "c"), [("f16", "f16"), ("f32", "f16"), ("f32", "f32")])
@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
def test_four_products(layouts: str, d: str, c: str, target: str) -> None:
    rng = np.random.default_rng(4)
    A, B = (rng.standard_normal((4, 8, 4)).astype(np.float16).view(np.uint16) for _ in range(2))
    C = rng.standard_normal((4, 8, 8)).astype(np.float16 if c == "f16" else np.float32)
    bits = C.view(np.uint16 if c == "f16" else np.uint32)
    a_row, b_col = layouts.startswith("row"), layouts.endswith("col")
    operands = [
        held(A, lambda lane, i: a_place(lane, i, a_row), 4),
        held(B, lambda lane, i: a_place(lane, i, b_col), 4),
        held(bits, lambda lane, i: c_place(lane, i, c == "f16"), 8),
    ]
    words = {"a": 2, "b": 2, "c": operands[2].shape[1], "d": 4 if d == "f16" else 8}
    lists = {o: "{" + ", ".join(f"%{o}{i}" for i in range(words[o])) + "}" for o in words}
    loads = "\n".join(
        f"ld.param.u64 %p, [{o}]; mad.wide.u32 %p, %t, {4 * words[o]}, %p;"
        + " ".join(f"ld.global.b32 %{o}{i}, [%p+{4 * i}];" for i in range(words[o]))
        for o in "abc"
    )
    text = f""".version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b32 %a<2>, %b<2>, %t; .reg .{"f32" if c == "f32" else "b32"} %c<8>; .reg .{"f32" if d == "f32" else "b32"} %d<8>; .reg .b64 %p;
mov.u32 %t, %tid.x;
{loads}
mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c} {lists["d"]}, {lists["a"]}, {lists["b"]}, {lists["c"]};
ld.param.u64 %p, [d]; mad.wide.u32 %p, %t, {4 * words["d"]}, %p;
{" ".join(f"st.global.b32 [%p+{4 * i}], %d{i};" for i in range(words["d"]))}
ret;
}}
"""
    out = np.zeros((32, words["d"]), np.uint32)
    assert ptxlab.loads(text).kernel().launch(grid=1, block=32, args=[*operands, out]).ok
    addend = bits if d == c else C.astype(np.float32).view(np.uint32)
    want = np.stack([
        numerics.reference.mma(arch=f"mma.{target}", kind=None, a="f16", b="f16", d=d, A=A[i], B=B[i], C=addend[i]) for i in range(4)
    ])  # fmt: skip
    assert np.array_equal(out, held(want, lambda lane, i: c_place(lane, i, d == "f16"), 8))
