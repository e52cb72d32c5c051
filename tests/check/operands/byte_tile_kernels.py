"""Products of 8-bit elements of a transposed array: threads put the words of A together from bytes of four rows, and store them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np

import ptxlab
from ptxlab.engine import Executable

from . import tensor_kernels
from .word_kernels import LOADED_TEXT

ROWS, COLUMNS = 128, 64
_CHUNK = 16
_LOAD = "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd1];"
_STORE = "st.shared.v4.b32 [%r13], {%r20, %r21, %r22, %r23};"
_REGISTERS = ".reg .f32 %f<64>; .reg .b32 %e<16>;"


def join(first: int, to: str) -> str:
    """A word of four registers with a byte each."""
    low, high = (f"prmt.b32 %e{first + i}, %e{first + i}, %e{first + i + 1}, 0x3340;" for i in (0, 2))
    return f"{low}\n    {high}\n    prmt.b32 {to}, %e{first}, %e{first + 2}, 0x5410;"


def _loads(base: str, pitch: int, first: int) -> list[str]:
    return [f"ld.global.u8 %e{i}, [{base}+{pitch * (first + i)}];" for i in range(_CHUNK)]


def joined(pitch: int = ROWS) -> str:
    """A and B are in shared memory; ``pitch`` is that of the rows of the array, which are k."""
    lines = [*_loads("%rd1", pitch, 0), *[join(4 * i, f"%r{20 + i}") for i in range(4)]]
    return turned(LOADED_TEXT.replace(_LOAD, "\n    ".join(lines)), pitch)


def stored_bytes(pitch: int = ROWS) -> str:
    """The same with a store for each byte."""
    stores = [f"st.shared.u8 [%r13+{i}], %e{i};" for i in range(_CHUNK)]
    return turned(LOADED_TEXT.replace(_LOAD, "\n    ".join(_loads("%rd1", pitch, 0))).replace(_STORE, "\n    ".join(stores)), pitch)


def stored_again(pitch: int = ROWS) -> str:
    """The same words stored to shared memory, loaded from there, and stored once more."""
    more = "ld.shared.v2.b32 {%r20, %r21}, [%r13];\n    ld.shared.v2.b32 {%r22, %r23}, [%r13+8];"
    return joined(pitch).replace(_STORE, f"{_STORE}\n    {more}\n    {_STORE}")


def in_tensor_memory(pitch: int = ROWS) -> str:
    """A is put together in registers and stored to tensor memory; B is in shared memory as above."""
    lines = []
    for word in range(0, tensor_kernels.WORDS, 4):
        lines += [*_loads("%rd13", pitch, 4 * word), *[join(4 * i, f"%a{word + i}") for i in range(4)]]
    text = tensor_kernels.TEXT.replace(tensor_kernels.LOADS, "\n    ".join(lines))
    copy = "cp.async.cg.shared.global [%r13], [%rd1], 16;"
    text = text.replace(tensor_kernels.ROW, "cvt.u64.u32 %rd14, %r1;")
    own = [*_loads("%rd1", pitch, 0), *[join(4 * i, f"%r{20 + i}") for i in range(4)], _STORE]
    return turned(text.replace(copy, "\n    ".join(own)), pitch)


def turned(text: str, pitch: int) -> str:
    return (
        text.replace(".reg .f32 %f<64>;", _REGISTERS)
        .replace("mul.wide.u32 %rd2, %r1, 256;", "cvt.u64.u32 %rd2, %r1;")
        .replace("add.u64 %rd1, %rd1, 16;", f"add.u64 %rd1, %rd1, {_CHUNK * pitch};")
        .replace("kind::f16", "kind::f8f6f4")
    )


def launch(text: str, backend: str = "llvm", pitch: int = ROWS, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    a = np.random.default_rng(5).integers(-4, 5, (ROWS, pitch)).astype(ml_dtypes.float8_e4m3fn)
    c = np.zeros((ROWS, COLUMNS), np.float32)
    kernel = ptxlab.loads(text, file="bytes.ptx").kernel()
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        result = kernel.launch(block=ROWS, args=[a, c], check="operands", **options)
    rows = a[:, :ROWS].T.astype(np.float64)
    return result, bool((c == rows @ rows[:COLUMNS].T).all())
