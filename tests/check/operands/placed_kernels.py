"""Products of one warp whose lanes load each word of A and B from wherever a table says, so that any layout has a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxlab

ROWS, COLUMNS, K = 16, 8, 32
STEPS, PAIRS = 2, 8
"""Instructions, and pairs of elements of k that each one takes."""
Words = NDArray[np.int64]


def places(name: str) -> tuple[Words, Words]:
    """Of each register, ``[step, register, lane]``, the row and the pair of k that the instruction takes it for, over all steps."""
    step, register, lane = np.ogrid[:STEPS, : 4 if name == "a" else 2, :32]
    upper, later = (register % 2, register // 2) if name == "a" else (0 * register, register)
    return np.broadcast_arrays(lane // 4 + 8 * upper + 0 * step, PAIRS * step + lane % 4 + 4 * later)  # type: ignore[return-value]


def _load(first: int, count: int, base: str, table: str, how: str) -> str:
    """Load registers from ``first`` on, each from where the table says."""
    lines = []
    for number in range(count):
        register = f"%r{first + number}"
        lines += [f"ld.global.u32 %r9, [{table}+{128 * number}];", "cvt.u64.u32 %rd9, %r9;", f"add.u64 %rd9, %rd9, {base};"]
        if how == "shared":
            place = f"add.u32 %r9, %r8, {128 * (first + number)};"
            lines += [place, "cp.async.ca.shared.global [%r9], [%rd9], 4;", "cp.async.wait_all;", f"ld.shared.b32 {register}, [%r9];"]
        elif how == "two loads":
            lines += [f"@%p0 ld.global.b32 {register}, [%rd9];", f"@!%p0 ld.global.b32 {register}, [%rd9];"]
        else:
            lines += [f"ld.global.b32 {register}, [%rd9];"]
        if how == "computed":
            lines += [f"xor.b32 {register}, {register}, 0x80008000;", f"xor.b32 {register}, {register}, 0x80008000;"]
    return "\n".join(f"    {line}" for line in lines)


def ptx(how: str) -> str:
    """The kernel; registers 20 to 27 hold A, 30 to 33 hold B."""
    moves, products = [], []
    for number in range(STEPS):
        a, b = [f"%r{20 + 4 * number + i}" for i in range(4)], [f"%r{30 + 2 * number + i}" for i in range(2)]
        if how == "moved":
            moves += [
                f"mov.b64 %rd{20 + number}, {{{', '.join(b)}}};",
                f"mov.b64 {{%r{40 + 2 * number}, %r{41 + 2 * number}}}, %rd{20 + number};",
            ]
            b = [f"%r{40 + 2 * number + i}" for i in range(2)]
        products += [
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, "
            f"{{{', '.join(a)}}}, {{{', '.join(b)}}}, {{%f0, %f1, %f2, %f3}};"
        ]
    body = "\n".join(f"    {line}" for line in (*moves, *products))
    return f"""
.version 9.0
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 of_a, .param .u64 of_b, .param .u64 d)
{{
    .reg .pred %p<2>; .reg .b32 %r<48>; .reg .b64 %rd<24>; .reg .f32 %f<4>;
    .shared .align 128 .b8 words[8192];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p0, %r1, 11;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [of_a];
    ld.param.u64 %rd4, [of_b];
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd3, %rd3, %rd5;
    add.u64 %rd4, %rd4, %rd5;
    mov.u32 %r8, words;
    shl.b32 %r2, %r1, 2;
    add.u32 %r8, %r8, %r2;
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
{_load(20, 8, "%rd1", "%rd3", how)}
{_load(30, 4, "%rd2", "%rd4", how)}
{body}
    ld.param.u64 %rd6, [d];
    shl.b32 %r2, %r1, 4;
    cvt.u64.u32 %rd7, %r2;
    add.u64 %rd6, %rd6, %rd7;
    st.global.v4.f32 [%rd6], {{%f0, %f1, %f2, %f3}};
    ret;
}}
"""


def arranged(matrix: NDArray[np.float16], name: str, form: str, padding: int, row: Words, pair: Words) -> tuple[Any, NDArray[np.uint32]]:
    """The array that holds a matrix in a form, and for each register from which byte of it a lane loads."""
    words = np.ascontiguousarray(matrix).view(np.uint32)
    if form == "rows":
        held = np.zeros((len(matrix), K + 2 * padding), np.float16)
        held[:, :K] = matrix
        return held, (row * (K + 2 * padding) * 2 + 4 * pair).astype(np.uint32)
    number = np.arange(row.size).reshape(row.shape)
    if form == "registers":
        held = words[row, pair].reshape(-1, 32).view(np.float16)
    elif form == "lanes":
        held, number = (
            np.ascontiguousarray(words[row, pair].reshape(-1, 32).T).view(np.float16),
            number % 32 * (row.size // 32) + number // 32,
        )
    else:
        held = words[row, pair].reshape(-1).view(np.float16)
    return held, (4 * number).astype(np.uint32)


def launch(
    how: str, forms: Sequence[str], paddings: Sequence[int], pairs: Sequence[Words], rows: Sequence[Words], seed: int
) -> tuple[Any, bool]:
    """The result, and whether the product is right; ``pairs`` and ``rows`` are those of A and of B that each register takes."""
    rng = np.random.default_rng(seed)
    a, b = (rng.choice(np.float16([-3, -2, -1, 1, 2, 3]), (rows_, K)) for rows_ in (ROWS, COLUMNS))
    arrays, tables = zip(*map(arranged, (a, b), "ab", forms, paddings, rows, pairs), strict=True)
    d = np.zeros((32, 2, 2), np.float32)
    result = ptxlab.loads(ptx(how), file="placed.ptx").kernel().launch(block=32, args=[*arrays, *tables, d], check="operands")
    found = d.reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(ROWS, COLUMNS)
    return result, bool((found == a.astype(np.float64) @ b.astype(np.float64).T).all())
