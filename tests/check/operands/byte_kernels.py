"""A product of one warp of 8-bit elements, whose B stands in rows of k: the bytes of a word come from four rows of the array."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import ptxlab
from ptxlab.engine import Executable

K, COLUMNS = 64, 32
TILES = 4
"""Of eight columns: a lane has four neighbours, one for each tile."""
_BYTES = range(4)
_COPY = """shl.b32 %r10, %r1, 4;
    add.u32 %r10, %r10, %r2;
    cvt.u64.u32 %rd4, %r1;
    shl.b64 %rd4, %rd4, 4;
    add.u64 %rd4, %rd4, %rd2;
""" + "\n".join(f"    cp.async.cg.shared.global [%r10+{512 * i}], [%rd4+{512 * i}], 16;" for i in range(4))
TEXT = """
.version 8.4
.target sm_89
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{
    .reg .b8 %c<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b32 %w<8>; .reg .b32 %t<8>; .reg .b32 %b<8>; .reg .b32 %a<4>;
    .reg .b64 %rd<12>; .reg .f32 %f<16>;
    .shared .align 128 .b8 tile[2048];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [d];
    COPY
    cp.async.wait_all;
    bar.warp.sync 0xffffffff;
    shr.u32 %r3, %r1, 2;
    and.b32 %r4, %r1, 3;
    mul.lo.u32 %r5, %r3, 64;
    mad.lo.u32 %r5, %r4, 4, %r5;
    cvt.u64.u32 %rd4, %r5;
    add.u64 %rd1, %rd1, %rd4;
    mul.lo.u32 %r6, %r4, 128;
    mad.lo.u32 %r6, %r3, 4, %r6;
    cvt.u64.u32 %rd4, %r6;
    add.u64 %rd2, %rd2, %rd4;
    add.u32 %r2, %r2, %r6;
    BODY
    mul.lo.u32 %r5, %r3, 128;
    mad.lo.u32 %r5, %r4, 32, %r5;
    cvt.u64.u32 %rd4, %r5;
    add.u64 %rd3, %rd3, %rd4;
    STORES
    ret;
}
""".replace("COPY", _COPY)


def _product(tile: int, b: tuple[str, str], accumulate: bool) -> str:
    d = ", ".join(f"%f{4 * tile + i}" for i in range(4))
    c = d if accumulate else ", ".join(["0f00000000"] * 4)
    return f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {{{d}}}, {{%a0, %a1, %a2, %a3}}, {{{', '.join(b)}}}, {{{c}}};"


_SHIFTED = "shl.b32 %r20, {1}, 8; shl.b32 %r21, {2}, 16; shl.b32 %r22, {3}, 24;"
_MULTIPLIED = "mul.lo.u32 %r20, {1}, 256; mul.lo.u32 %r21, {2}, 65536; mul.lo.u32 %r22, {3}, 16777216;"
_NARROWED = "".join(f"cvt.u16.u32 %h{i}, {{{i}}}; cvt.u8.u16 %c{i}, %h{i}; " for i in _BYTES)
JOINS = {
    "or": f"{_SHIFTED} or.b32 %r20, %r20, {{0}}; or.b32 %r21, %r21, %r22; or.b32 {{to}}, %r20, %r21;",
    "lop3": f"{_SHIFTED} lop3.b32 %r20, {{0}}, %r20, %r21, 0xFE; or.b32 {{to}}, %r20, %r22;",
    "bfi": "bfi.b32 %r20, {1}, {0}, 8, 8; bfi.b32 %r20, {2}, %r20, 16, 8; bfi.b32 {to}, {3}, %r20, 24, 8;",
    "prmt": "prmt.b32 %r20, {0}, {1}, 0x3340; prmt.b32 %r21, {2}, {3}, 0x3340; prmt.b32 {to}, %r20, %r21, 0x5410;",
    "mov": f"{_NARROWED} mov.b32 {{to}}, {{{{%c0, %c1, %c2, %c3}}}};",
    "products": f"{_MULTIPLIED} xor.b32 %r20, %r20, {{0}}; xor.b32 %r21, %r21, %r22; or.b32 {{to}}, %r20, %r21;",
}
"""Four registers with one byte each become a word."""


def words(space: str, order: tuple[int, ...] = (0, 1, 2, 3), selectors: tuple[int, ...] = (0x5140, 0x7362, 0x5410, 0x7632)) -> str:
    """Four words of rows, whose bytes are exchanged; ``order`` is that of the rows."""
    first, second, low, high = selectors
    at = "%rd2" if space == "global" else "%r2"
    lines = []
    for step in range(2):
        lines += _loads_of_a(step)
        for half in range(2):
            lines += [f"ld.{space}.b32 %w{i}, [{at}+{32 * (32 * step + 16 * half + order[i])}];" for i in _BYTES]
            lines += [f"prmt.b32 %t{2 * i + j}, %w{2 * i}, %w{2 * i + 1}, {s:#x};" for i in range(2) for j, s in enumerate((first, second))]
            lines += [
                f"prmt.b32 %b{2 * (2 * j + i) + half}, %t{j}, %t{2 + j}, {s:#x};" for j in range(2) for i, s in enumerate((low, high))
            ]
        lines += [_product(tile, (f"%b{2 * tile}", f"%b{2 * tile + 1}"), step > 0) for tile in range(TILES)]
    return _kernel_text(lines)


def single_bytes(space: str, join: str, order: tuple[int, ...] = (0, 1, 2, 3), kind: str = "u8") -> str:
    """A load for each byte; ``order`` is that of the rows."""
    at = "%rd2" if space == "global" else "%r2"
    lines = []
    for step in range(2):
        lines += _loads_of_a(step)
        for tile in range(TILES):
            for half in range(2):
                lines += [f"ld.{space}.{kind} %w{i}, [{at}+{32 * (32 * step + 16 * half + order[i]) + tile}];" for i in _BYTES]
                lines.append(JOINS[join].format(*[f"%w{i}" for i in _BYTES], to=f"%b{2 * tile + half}"))
        lines += [_product(tile, (f"%b{2 * tile}", f"%b{2 * tile + 1}"), step > 0) for tile in range(TILES)]
    return _kernel_text(lines)


def _loads_of_a(step: int) -> list[str]:
    return [f"ld.global.b32 %a{i}, [%rd1+{32 * step + 512 * (i % 2) + 16 * (i // 2)}];" for i in _BYTES]


def _kernel_text(lines: list[str]) -> str:
    # A lane has the columns 2 t and 2 t + 1 of each tile, which are the columns 4 (2 t) + tile and 4 (2 t + 1) + tile of D.
    stores = [
        f"st.global.f32 [%rd3+{1024 * (i // 2) + 16 * (i % 2) + 4 * tile}], %f{4 * tile + i};" for tile in range(TILES) for i in range(4)
    ]
    return TEXT.replace("BODY", "\n    ".join(lines)).replace("STORES", "\n    ".join(stores))


@cache
def _kernel(text: str) -> ptxlab.Kernel:
    return ptxlab.loads(text, file="bytes.ptx").kernel()


def launch(text: str, backend: str = "llvm", **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((16, K), (K, COLUMNS)))
    d = np.zeros((16, COLUMNS), np.float32)
    kernel = _kernel(text)
    with kernel.replaced(kernel.program, Executable(kernel.program, backend=backend)) if backend != "llvm" else nullcontext():
        result = kernel.launch(block=32, args=[a, b, d], check="operands", **options)
    return result, bool((d == a.astype(np.float64) @ b.astype(np.float64)).all())
