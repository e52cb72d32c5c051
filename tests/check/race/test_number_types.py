"""Numbers of another type than the elements of the array (M413): scalar accesses whose value is used as a number, and nothing else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptxlab

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 n)
{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd3, [n];
mad.wide.u32 %rd2, %r1, 8, %rd1;
add.u64 %rd2, %rd2, %rd3;
BODY
ret;
}
"""
LOAD = "ld.global.b32 %r2, [%rd2];\n"


def notes(body: str, array: np.ndarray[Any, Any]) -> list[str]:
    result = ptxlab.loads(KERNEL.replace("BODY", body), file="k.ptx").kernel().launch(block=4, args=[array, 0])
    return [d.message for d in result.diagnostics if d.code == "M413"]


READS, WRITES = "ld.global.b{} reads {} numbers of {} bytes, and a is {}", "st.global.{} writes {} numbers of {} bytes"

WRONG = {
    "f32 of float16": (LOAD + "add.f32 %f1, %r2, %r2;", np.float16, READS.format(32, "f32", 4, "float16")),
    "f32 of bfloat16": (LOAD + "mul.f32 %f1, %r2, %r2;", ml_dtypes.bfloat16, READS.format(32, "f32", 4, "bfloat16")),
    "f32 of float64": (LOAD + "fma.rn.f32 %f1, %r2, %r2, %r2;", np.float64, READS.format(32, "f32", 4, "float64")),
    "f32 into float64": (
        "mul.f32 %f1, 0f3F800000, 0f40000000;\nst.global.f32 [%rd2], %f1;",
        np.float64,
        WRITES.format("f32", "f32", 4),
    ),
    "f64 into float32": ("cvt.f64.f32 %fd1, 0f3F800000;\nst.global.f64 [%rd2], %fd1;", np.float32, WRITES.format("f64", "f64", 8)),
    "f16 of float32": ("ld.global.b16 %h1, [%rd2];\nadd.f16 %h2, %h1, %h1;", np.float32, READS.format(16, "f16", 2, "float32")),
    "f16 of bfloat16": ("ld.global.b16 %h1, [%rd2];\ncvt.f32.f16 %f1, %h1;", ml_dtypes.bfloat16, READS.format(16, "f16", 2, "bfloat16")),
}

RIGHT = {
    "the type of the array": (LOAD + "add.f32 %f1, %r2, %r2;", np.float32),
    "two halves, unpacked": (LOAD + "mov.b32 {%h1, %h2}, %r2;\nadd.f16 %h3, %h1, %h2;", np.float16),
    "two halves at once": (LOAD + "add.f16x2 %r3, %r2, %r2;\nst.global.b32 [%rd2], %r3;", np.float16),
    "upper half of a bfloat16 pair": (LOAD + "and.b32 %r3, %r2, 0xffff0000;\nadd.f32 %f1, %r3, %r3;", ml_dtypes.bfloat16),
    "a vector": ("ld.global.v2.f32 {%f1, %f2}, [%rd2];\nadd.f32 %f3, %f1, %f2;", np.float64),
    "a copy": (LOAD + "st.global.b32 [%rd2], %r2;", np.float64),
    "a half of a float64 as an integer": (LOAD + "and.b32 %r3, %r2, 1;\nst.global.b32 [%rd2], %r3;", np.float64),
    "an array of integers": (LOAD + "add.f32 %f1, %r2, %r2;", np.uint16),
    "a converted number": ("ld.global.b16 %h1, [%rd2];\ncvt.f32.f16 %f1, %h1;\nadd.f32 %f2, %f1, %f1;", np.float16),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_types(name: str) -> None:
    body, dtype, message = WRONG[name]
    (found,) = notes(body, np.ones(16, dtype))
    assert found.startswith(message)


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of(name: str) -> None:
    body, dtype = RIGHT[name]
    assert notes(body, np.ones(16, dtype)) == []


def test_an_address_of_two_arrays_is_not_known() -> None:
    text = KERNEL.replace("BODY", LOAD + "add.f32 %f1, %r2, %r2;").replace("%rd2, %rd2, %rd3", "%rd2, %rd2, %rd4")
    text = text.replace("add.u64 %rd2", "sub.u64 %rd4, %rd3, %rd3;\nadd.u64 %rd2")
    result = ptxlab.loads(text).kernel().launch(block=4, args=[np.ones(16, np.float16), np.ones(16, np.float16)])
    assert result.diagnostics == ()


def test_what_is_said() -> None:
    text = KERNEL.replace("BODY", LOAD + "add.f32 %f1, %r2, %r2;")
    (found,) = ptxlab.loads(text, file="k.ptx").kernel().launch(block=4, args=[np.ones(16, np.float16), 0]).diagnostics
    assert (found.code, found.severity) == ("M413", "note")
    assert found.message == "ld.global.b32 reads f32 numbers of 4 bytes, and a is float16[16], whose elements have 2 bytes"
    assert found.fix == "access a as float16, or pass an array of float32"
    assert dict(found.details)["takes the number"] == "k.ptx:13:1 `add.f32 %f1, %r2, %r2;`"
