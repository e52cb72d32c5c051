"""Products in a loop over many tiles, with A in registers of a warpgroup or in tensor memory; what goes wrong in one of the tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.machine.warp import context_words
from ptxlab.numerics import MmaProgram

from . import warpgroup_kernels, word_kernels
from .swizzled_rows import copy_rows
from .warpgroup_kernels import COLUMNS, LOAD_A, MMA, ROW_OF_LANE, ROWS, STORED

K = 64
"""Of a tile."""
_TILE_OF_A, _TILE_OF_B = 2 * ROWS * K, 2 * COLUMNS * K
BOX = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_BOXES = f"""@!%p1 bra WAIT;
    shl.b32 %r25, %r24, 6;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], BYTES;
    {BOX} [%r2], [%rd1, {{%r25, 0}}], [%r3];
    {BOX} [%r26], [%rd2, {{%r25, 0}}], [%r3];
WAIT:
    and.b32 %r27, %r24, 1;
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r27;
    @!%p2 bra WAITING;"""
_ROW = """shr.u32 %r28, %r3, 3;
    mul.wide.u32 %rd8, %r28, PITCH;
    add.u64 %rd3, %rd3, %rd8;
    mul.wide.u32 %rd8, %r24, 128;
    add.u64 %rd3, %rd3, %rd8;"""
_COPIES, _COPIES_OF_A = (
    copy_rows(128, ROWS, rows_of_b).replace("mul.wide.u32 %rd3, %r3, 16;", f"mul.wide.u32 %rd3, %r5, 16;\n    {_ROW}")
    for rows_of_b in (COLUMNS, 0)
)
_DIRECT = "\n    ".join(
    f"ld.global.b32 %r{20 + i}, [%rd{pointer}+{offset}];" for i, (pointer, offset) in enumerate(((8, 0), (9, 0), (8, 16), (9, 16)))
)
_POINTERS = """shr.u32 %r17, %r10, 2;
    shr.u32 %r18, %r1, 5;
    shl.b32 %r18, %r18, 4;
    add.u32 %r17, %r17, %r18;
    mul.wide.u32 %rd8, %r17, PITCH;
    add.u64 %rd8, %rd8, %rd1;
    and.b32 %r17, %r10, 3;
    mul.wide.u32 %rd9, %r17, 4;
    add.u64 %rd8, %rd8, %rd9;
    add.u64 %rd9, %rd8, EIGHT_ROWS;"""
STEP_OF_A = "add.u32 %r10, %r10, 2;"
STEP_OF_POINTERS = "add.u64 %rd8, %rd8, 32;\n    add.u64 %rd9, %rd9, 32;"
_ROWS_OF_128 = "0x4000004000010000"
WAYS = ("boxes", "global", "copies", "copies of A")
"""A and B in boxes of tensor maps; A from global memory, and B in boxes; both copied by threads; A copied by threads, and B in boxes."""


def of_registers(way: str, tiles: int) -> str:
    """The PTX of a product of a warpgroup whose A has been loaded to registers."""
    pitch, direct, of_a, of_b = 2 * K * tiles, way == "global", way == "boxes", way != "copies"
    bring = _BOXES.replace("BYTES", str(_TILE_OF_A * of_a + _TILE_OF_B))
    if not of_a:
        bring = "\n".join(line for line in bring.splitlines() if "[%rd1," not in line)
    if not direct and not of_a:
        bring = f"{_COPIES_OF_A}\n    mov.u32 %r3, full;\n    setp.eq.u32 %p1, %r1, 0;\n    {bring}" if of_b else _COPIES
    step = STEP_OF_POINTERS if direct else STEP_OF_A
    copied = f"sub.u64 %rd5, %rd5, {16 * 8 * ROWS};"
    bring = bring.replace(copied, f"sub.u64 %rd5, %rd5, {ROWS * pitch};")
    text = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry product({".param .align 64 .b8 a[128]" if of_a else ".param .u64 a"},
                        {".param .align 64 .b8 b[128]" if of_b else ".param .u64 b"}, .param .u64 d)
{{
    .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .f32 %f<8>;
    .shared .align 1024 .b8 tile[{_TILE_OF_A + _TILE_OF_B}];
    .shared .align 8 .b64 full;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mov.u32 %r3, full;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    {"mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1;" if of_a else "ld.param.u64 %rd1, [a];"}
    {"mov.b64 %rd2, b; cvta.param.u64 %rd2, %rd2;" if of_b else "ld.param.u64 %rd2, [b];"}
    add.u32 %r26, %r2, {_TILE_OF_A};
    bar.sync 0;
    mov.u32 %r24, 0;
    and.b32 %r10, %r1, 31;
    {_POINTERS if direct else ""}
    {" ".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(8))}
TILE:
    {bring}
    fence.proxy.async.shared::cta;
    bar.sync 0;
{ROW_OF_LANE}
    shr.u32 %r9, %r26, 4;
    cvt.u64.u32 %rd10, %r9;
    or.b64 %rd10, %rd10, {_ROWS_OF_128};
    mov.u32 %r14, 0;
STEP:
    or.b32 %r15, %r14, %r24;
    setp.ne.u32 %p3, %r15, 0;
    xor.b32 %r11, %r10, %r8;
    shl.b32 %r11, %r11, 4;
    add.u32 %r11, %r11, %r7;
    {_DIRECT if direct else LOAD_A}
    wgmma.fence.sync.aligned;
    {MMA}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    {step}
    add.u64 %rd10, %rd10, 2;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p2, %r14, 4;
    @%p2 bra STEP;
    bar.sync 0;
    add.u32 %r24, %r24, 1;
    setp.lt.u32 %p2, %r24, {tiles};
    @%p2 bra TILE;
{warpgroup_kernels.TEXT[warpgroup_kernels.TEXT.index("    ld.param.u64 %rd6, [d];") : warpgroup_kernels.TEXT.index(STORED)]}
{STORED}
    ret;
}}
"""
    return text.replace("PITCH", str(pitch)).replace("EIGHT_ROWS", str(8 * pitch))


def of_both(tiles: int) -> str:
    """The PTX of a product of a warpgroup for which threads copy A and B, and a box brings B again, which all but the sixth tile take."""
    text = of_registers("copies", tiles)
    box = _BOXES.replace("BYTES", str(_TILE_OF_B)).replace("[%r26]", "[%r31]").replace("[%rd2,", "[%rd12,")
    box = "\n".join(line for line in box.splitlines() if "[%rd1," not in line)
    select = f"setp.ne.u32 %p5, %r24, 5;\n    mov.u64 %rd13, %rd10;\n    @%p5 add.u64 %rd13, %rd13, {_TILE_OF_B // 16};"
    for old, new in (
        (".param .u64 d)", ".param .u64 d, .param .align 64 .b8 again[128])"),
        (f"tile[{_TILE_OF_A + _TILE_OF_B}]", f"tile[{_TILE_OF_A + 2 * _TILE_OF_B}]"),
        ("ld.param.u64 %rd2, [b];", "ld.param.u64 %rd2, [b];\n    mov.b64 %rd12, again; cvta.param.u64 %rd12, %rd12;"),
        (
            "    fence.proxy",
            f"    mov.u32 %r3, full;\n    setp.eq.u32 %p1, %r1, 0;\n    add.u32 %r31, %r26, {_TILE_OF_B};\n    {box}\n    fence.proxy",
        ),
        (MMA, f"{select}\n    {MMA.replace('%rd10', '%rd13')}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    return text


MMA_OF_SHARED = MMA.replace("{%r20, %r21, %r22, %r23}", "%rd14").replace("1, 1, 0;", "1, 1, 0, 0;")


def of_shared(way: str, tiles: int) -> str:
    """The PTX of a product of a warpgroup whose A and B are in shared memory: in boxes, or copied by threads."""
    text = of_registers(way, tiles)
    for old, new in (
        (LOAD_A, ""),
        (MMA, MMA_OF_SHARED),
        (STEP_OF_A, "add.u64 %rd14, %rd14, 2;"),
        ("    mov.u32 %r14, 0;\nSTEP:", f"    shr.u32 %r9, %r2, 4;\n    cvt.u64.u32 %rd14, %r9;\n    or.b64 %rd14, %rd14, {_ROWS_OF_128};\n"
         "    mov.u32 %r14, 0;\nSTEP:"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new, 1)
    return text


def in_turn(text: str, period: int = 3) -> str:
    """The same, where another instruction like the one in the loop multiplies one of ``period`` tiles."""
    mma = next(each for each in (MMA, MMA_OF_SHARED) if each in text)
    turns = f"""rem.u32 %r29, %r24, {period};
    setp.eq.u32 %p6, %r29, 0;
    @%p6 bra OTHER;
    {mma}
    bra.uni ISSUED;
OTHER:
    {mma}
ISSUED:"""
    return text.replace(mma, turns, 1)


_WORDS = 32
_REGISTERS = [f"%a{i}" for i in range(_WORDS)]
STORE = f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r24], {{{', '.join(_REGISTERS)}}};"
MMA_OF_CELLS = "tcgen05.mma.cta_group::1.kind::f16 [%r4], [%r16], %rd11, %r6, %p4;"


def of_cells(tiles: int, boxed: bool = False) -> str:
    """The PTX of a product whose A, of 128 rows, threads load and store to tensor memory; B, of 64 rows, is in a box.

    ``boxed``: A is in a box, too, from which threads load it.
    """
    lines = []
    for i in range(0, _WORDS, 4):
        place = f"xor.b32 %r17, %r18, {4 * i};\n    add.u32 %r17, %r17, %r19;\n    " if boxed else ""
        space, address = ("shared", "%r17") if boxed else ("global", f"%rd1+{4 * i}")
        lines.append(f"{place}ld.{space}.v4.b32 {{{', '.join(_REGISTERS[i : i + 4])}}}, [{address}];")
    loads = "\n    ".join(lines)
    of_a = f"{BOX} [%r20], [%rd1, {{%r10, 0}}], [%r3];" if boxed else ""
    pointer = f"ld.param.u64 %rd1, [a];\n    mul.wide.u32 %rd2, %r1, {2 * K * tiles};\n    add.u64 %rd1, %rd1, %rd2;"
    rows = "mov.b64 %rd1, a;\n    cvta.param.u64 %rd1, %rd1;" if boxed else pointer
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry product({".param .align 64 .b8 a[128]" if boxed else ".param .u64 a"}, .param .align 64 .b8 b[128], .param .u64 d)
{{
    .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .f32 %f<64>; .reg .b32 %a<{_WORDS}>;
    .shared .align 1024 .b8 tile[24576];
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 done;
    .shared .align 4 .b32 columns;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    setp.eq.u32 %p2, %r1, 0;
    mov.u32 %r2, tile;
    mov.u32 %r3, full;
    mov.u32 %r5, done;
    mov.u32 %r7, columns;
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 128;
    @%p2 mbarrier.init.shared::cta.b64 [%r3], 1;
    @%p2 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p2 fence.mbarrier_init.release.cluster;
    add.u32 %r20, %r2, 8192;
    shl.b32 %r19, %r1, 7;
    add.u32 %r19, %r19, %r20;
    and.b32 %r18, %r1, 7;
    shl.b32 %r18, %r18, 4;
    {rows}
    mov.b64 %rd2, b;
    cvta.param.u64 %rd2, %rd2;
    bar.sync 0;
    ld.shared.b32 %r4, [%r7];
    add.u32 %r24, %r4, 64;
    mov.b32 %r6, 0x08100010;
    mov.u32 %r8, 0;
TILE:
    and.b32 %r9, %r8, 1;
    @!%p2 bra WAIT;
    shl.b32 %r10, %r8, 6;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {24576 if boxed else 8192};
    {BOX} [%r2], [%rd2, {{%r10, 0}}], [%r3];
    {of_a}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], %r9;
    @!%p3 bra WAIT;
    {loads}
    {"" if boxed else f"add.u64 %rd1, %rd1, {2 * K};"}
    {STORE}
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra WAITING;
    shr.u32 %r14, %r2, 4;
    cvt.u64.u32 %rd11, %r14;
    or.b64 %rd11, %rd11, 0x4000404000010000;
    mov.u32 %r16, %r24;
    mov.u32 %r15, 0;
STEP:
    or.b32 %r14, %r15, %r8;
    setp.ne.u32 %p4, %r14, 0;
    {MMA_OF_CELLS}
    add.u32 %r16, %r16, 8;
    add.u64 %rd11, %rd11, 2;
    add.u32 %r15, %r15, 1;
    setp.lt.u32 %p5, %r15, 4;
    @%p5 bra STEP;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r5], %r9;
    @!%p6 bra WAITING;
    bar.sync 0;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p7, %r8, {tiles};
    @%p7 bra TILE;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{word_kernels.LOADED}}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    ld.param.u64 %rd4, [d];
    mul.wide.u32 %rd5, %r1, 256;
    add.u64 %rd5, %rd5, %rd4;
{word_kernels.STORED}
    bar.sync 0;
    @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 128;
    ret;
}}
"""


def of_pairs(tiles: int) -> str:
    """The same for a CTA pair: each CTA has 128 of 256 rows of A, and 32 of 64 rows of B."""
    together = "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    text = of_cells(tiles)
    begin = """mov.u32 %r31, %cluster_ctarank;
    setp.eq.and.u32 %p8, %r31, 0, %p2;
    shl.b32 %r33, %r31, 7;
    add.u32 %r33, %r33, %r1;
    shl.b32 %r32, %r31, 5;
    ld.param.u64 %rd1, [a];
    mul.wide.u32 %rd2, %r33,"""
    after = "    tcgen05.fence::after_thread_sync;\n    @!{} bra"
    for old, new in (
        ("ld.param.u64 %rd1, [a];\n    mul.wide.u32 %rd2, %r1,", begin),
        ("    bar.sync 0;\n    ld.shared.b32 %r4", f"    {together}\n    ld.shared.b32 %r4"),
        ("{%r10, 0}", "{%r10, %r32}"),
        ("[%r3], 8192;", "[%r3], 4096;"),
        (f"    bar.sync 0;\n{after.format('%p2')}", f"    {together}\n{after.format('%p8')}"),
        ("cta_group::1", "cta_group::2"),
        ("0x08100010", "0x10100010"),
        ("one.shared::cluster.b64 [%r5];", "one.shared::cluster.multicast::cluster.b64 [%r5], %h0;"),
        (".reg .pred %p<8>;", ".reg .pred %p<9>; .reg .b16 %h<1>;"),
        ("    mov.u32 %r8, 0;", "    mov.b16 %h0, 3;\n    mov.u32 %r8, 0;"),
        ("mul.wide.u32 %rd5, %r1, 256;", "mul.wide.u32 %rd5, %r33, 256;"),
        ("    bar.sync 0;\n    @%p1 tcgen05.dealloc", f"    {together}\n    @%p1 tcgen05.dealloc"),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    return text


def launch(text: str, tiles: int, **options: Any) -> tuple[Any, bool]:
    """The result, and whether the product is right."""
    rng, ctas = np.random.default_rng(5), 2 if "cta_group::2" in text else 1
    rows, columns = (128 * ctas, 64) if "tcgen05" in text else (ROWS, COLUMNS)
    a = rng.integers(-4, 5, (rows, K * tiles)).astype(np.float16)
    b = rng.integers(-4, 5, (columns, K * tiles)).astype(np.float16)
    d = np.zeros((rows, columns), np.float32)
    maps = [ptxlab.TensorMap(array, box=(K, len(array) // ctas), swizzle="128B") for array in (a, b)]
    args = [each if f".b8 {name}[128]" in text else array for name, each, array in zip("ab", maps, (a, b), strict=True)]
    args += [d, *([maps[1]] if "again[128]" in text else [])]
    result = ptxlab.loads(text, file="loop.ptx").kernel().launch(grid=ctas, cluster=ctas, block=128, args=args, **options)
    return result, bool((d == a.astype(np.float64) @ b.astype(np.float64).T).all())


def both_ways(owner: type, name: str, text: str, tiles: int, **options: Any) -> tuple[list[Any], bool, list[int]]:
    """The findings, which are the same with handlers alone, whether the product is right, and how often a method has been called."""
    found, called = [], []
    method = getattr(owner, name)
    for repeats in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            called.append(0)

            def counted(*given: Any) -> Any:
                called[-1] += 1
                return method(*given)

            patch.setattr(owner, name, counted)
            patch.setattr(MmaProgram, "optimised", True)
            if not repeats:
                patch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
            result, right = launch(text, tiles, check="operands", **options)
            found.append((result.diagnostics, result.stats.instructions, result.stats.services, result.completed, right))
    assert found[0] == found[1]
    return list(found[0][0]), found[0][-1], called
