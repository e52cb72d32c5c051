"""Products of elements that threads gather: the bytes of a word come from places that no steps connect, in one array or in two."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np

import ptxlab
from ptxlab.engine import Executable

from . import scaled_kernels, tensor_kernels, word_kernels
from .byte_tile_kernels import COLUMNS, ROWS, join, turned

_CHUNK = 16
ORDER = (7, 4, 1, 13, 2, 11, 0, 14, 5, 9, 15, 3, 10, 8, 6, 12)
"""The k of 16 bytes."""
_OTHER = (4, 7, 1, 13, 2, 11, 0, 14, 5, 9, 15, 3, 10, 8, 6, 12)
_LOAD = "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];"
_STORE = "st.shared.v4.b32 [%r13], {%r20, %r21, %r22, %r23};"
_LOADED_AGAIN = "ld.shared.v2.b32 {%r20, %r21}, [%r13];\n    ld.shared.v2.b32 {%r22, %r23}, [%r13+8];"
_STORED_BYTES = "\n    ".join(f"st.shared.u8 [%r13+{i}], %e{i};" for i in range(_CHUNK))
_JOINED = "\n    ".join(join(4 * i, f"%r{20 + i}") for i in range(4))


def _loads(base: str, order: tuple[int, ...] = ORDER, pitch: int = ROWS) -> str:
    return "\n    ".join(f"ld.global.u8 %e{i}, [{base}+{pitch * k}];" for i, k in enumerate(order))


def joined(pitch: int = ROWS) -> str:
    """A and B are words that ``prmt`` puts together of bytes of four rows of the array, in the same order of k."""
    return turned(word_kernels.LOADED_TEXT.replace(_LOAD, f"{_loads('%rd1', pitch=pitch)}\n    {_JOINED}"), pitch)


def stored_bytes() -> str:
    """The same with a store for each byte."""
    return turned(word_kernels.LOADED_TEXT.replace(_LOAD, _loads("%rd1")).replace(_STORE, _STORED_BYTES), ROWS)


def stored_again(text: str) -> str:
    """The same words loaded from shared memory, and stored once more."""
    last = _STORE if _STORE in text else _STORED_BYTES
    assert last in text
    return text.replace(last, f"{last}\n    {_LOADED_AGAIN}\n    {_STORE}")


def of_two_arrays() -> str:
    """Every second k comes from another array, of the same shape."""
    text = joined().replace(".param .u64 c)", ".param .u64 c, .param .u64 b)")
    for i in range(1, _CHUNK, 2):
        text = text.replace(f"ld.global.u8 %e{i}, [%rd1+", f"ld.global.u8 %e{i}, [%rd15+")
    text = text.replace(f"add.u64 %rd1, %rd1, {_CHUNK * ROWS};", "add.u64 %rd1, %rd1, 2048;\n    add.u64 %rd15, %rd15, 2048;")
    return text.replace(
        "add.u64 %rd1, %rd1, %rd2;", "add.u64 %rd1, %rd1, %rd2;\n    ld.param.u64 %rd15, [b];\n    add.u64 %rd15, %rd15, %rd2;"
    )


HALVES = (5, 0, 3, 6, 1, 7, 4, 2)
"""The k of eight 16-bit elements."""


def of_halves(pitch: int = ROWS, order: Iterable[int] = HALVES) -> str:
    """Words of two 16-bit elements from different rows of the array, with eight k in an order; ``pitch`` is in bytes."""
    loads = [f"ld.global.u16 %h{i}, [%rd1+{pitch * k}];" for i, k in enumerate(order)]
    packs = [f"mov.b32 %r{20 + i}, {{%h{2 * i}, %h{2 * i + 1}}};" for i in range(4)]
    text = word_kernels.LOADED_TEXT.replace(_LOAD, "\n    ".join([*loads, *packs]))
    return (
        text.replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b16 %h<8>;")
        .replace("mul.wide.u32 %rd2, %r1, 256;", "mul.wide.u32 %rd2, %r1, 2;")
        .replace("add.u64 %rd1, %rd1, 16;", f"add.u64 %rd1, %rd1, {8 * pitch};")
    )


def launch_halves(text: str, pitch: int, backend: str = "llvm") -> tuple[Any, bool]:
    """The result, and whether the product is right; ``pitch`` is in bytes."""
    a = np.random.default_rng(5).integers(-4, 5, (64, pitch // 2)).astype(np.float16)
    c = np.zeros((ROWS, COLUMNS), np.float32)
    kernel = ptxlab.loads(text, file="halves.ptx").kernel()
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        result = kernel.launch(block=ROWS, args=[a, c], check="operands")
    rows = a[:, :ROWS].T.astype(np.float64)
    return result, bool((c == rows @ rows[:COLUMNS].T).all())


def of_four_bits() -> str:
    """The block-scaled kernel whose threads put words together of the bytes of a row, with two elements of 4 bits, in another order."""
    lines = [*_loads("%rd1", pitch=1).split("\n    "), _JOINED, _STORE]
    text = scaled_kernels.TEXT.replace("cp.async.cg.shared.global [%r13], [%rd1], 16;", "\n    ".join(lines))
    return text.replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b32 %e<16>;")


def in_tensor_memory(of_a: tuple[int, ...] = ORDER) -> str:
    """A is gathered in registers and stored to tensor memory, in an order of k; B is in shared memory as above."""
    lines = []
    for word in range(0, tensor_kernels.WORDS, 4):
        lines.append(_loads("%rd13", tuple(4 * word + k for k in of_a)))
        lines += [join(4 * i, f"%a{word + i}") for i in range(4)]
    text = tensor_kernels.TEXT.replace(tensor_kernels.LOADS, "\n    ".join(lines))
    copy = "cp.async.cg.shared.global [%r13], [%rd1], 16;"
    text = text.replace(tensor_kernels.ROW, "cvt.u64.u32 %rd14, %r1;")
    return turned(text.replace(copy, "\n    ".join([_loads("%rd1"), _JOINED, _STORE])), ROWS)


def in_another_order() -> str:
    """The same where A and B have different k."""
    return in_tensor_memory(_OTHER)


EXCHANGED = (ORDER[2], ORDER[1], ORDER[0], *ORDER[3:])
"""Two k of the first array."""


def a_of_two_arrays(of_a: tuple[int, ...] = ORDER, b_too: bool = True) -> str:
    """A in tensor memory and, with ``b_too``, B in shared memory take every second k from another array; A in an order of k."""
    text = in_tensor_memory(of_a).replace(".param .u64 c)", ".param .u64 c, .param .u64 b)")
    first, base = "ld.global.u8 %e0, [%rd13+", "ld.param.u64 %rd15, [b];\n    add.u64 {}, %rd15, {};\n    "
    text = text.replace(first, base.format("%rd14", "%rd14") + first, 1)
    for i in range(1, _CHUNK, 2):
        text = text.replace(f"ld.global.u8 %e{i}, [%rd13+", f"ld.global.u8 %e{i}, [%rd14+")
        if b_too:
            text = text.replace(f"ld.global.u8 %e{i}, [%rd1+", f"ld.global.u8 %e{i}, [%rd15+")
    text = text.replace(f"add.u64 %rd1, %rd1, {_CHUNK * ROWS};", "add.u64 %rd1, %rd1, 2048;\n    add.u64 %rd15, %rd15, 2048;")
    return text.replace("add.u64 %rd1, %rd1, %rd2;", "add.u64 %rd1, %rd1, %rd2;\n    " + base.format("%rd15", "%rd2"))


def launch(text: str, arrays: int = 1, backend: str = "llvm", pitch: int = ROWS, of_b: int = 2) -> tuple[Any, bool]:
    """The result, and whether the product is right; ``of_b`` is from how many arrays B comes, if A comes from two."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (ROWS, pitch)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    c = np.zeros((ROWS, COLUMNS), np.float32)
    kernel = ptxlab.loads(text, file="gathered.ptx").kernel()
    args = [a, c, b][: 1 + arrays]
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        result = kernel.launch(block=ROWS, args=args, check="operands")
    others = np.isin(np.arange(ROWS) % _CHUNK, ORDER[1::2])[:, None] if arrays > 1 else np.zeros((ROWS, 1), bool)
    rows = np.where(others, b, a)[:, :ROWS].T.astype(np.float64)
    columns = rows if of_b > 1 else a[:, :ROWS].T.astype(np.float64)
    return result, bool((c == rows @ columns[:COLUMNS].T).all())


_SCALES_LOADED = "ld.global.v4.b32 {%r26, %r27, %r28, %r29}, [%rd6];"
_PLANES = (0, 2, 1, 3)
"""Where the bytes of the words stand in global memory."""


def with_interleaved_scales(text: str) -> str:
    """The block-scaled kernel whose scale factors stand in global memory in a plane for each byte of a word."""
    lines = []
    for i in range(4):
        lines += [f"ld.global.u8 %e{j}, [%rd6+{i + 128 * plane}];" for j, plane in enumerate(_PLANES)]
        lines.append(join(0, f"%r{26 + i}"))
    assert _SCALES_LOADED in text
    text = text.replace(_SCALES_LOADED, "\n    ".join(lines)).replace("mul.wide.u32 %rd7, %r1, 16;", "mul.wide.u32 %rd7, %r1, 4;")
    return text.replace(".reg .f32 %f<64>;", ".reg .f32 %f<64>; .reg .b32 %e<16>;")


def launch_scaled(text: str) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    a, blocked, c = scaled_kernels.arguments()
    planes = np.zeros((4, 128), np.uint8)
    planes[list(_PLANES)] = blocked.reshape(-1, 4).T
    result = (
        ptxlab.loads(with_interleaved_scales(text), file="scaled.ptx").kernel().launch(block=128, args=[a, planes, c], check="operands")
    )
    return result, bool((c == scaled_kernels.product(a, blocked)).all())
