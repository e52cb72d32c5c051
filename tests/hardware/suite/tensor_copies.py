"""Tensor copies of several CTAs: multicast with every swizzle, slices that each CTA loads for all, stores, and a ring of stages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptxlab import TensorMap
from tests.hardware.suite._kernel import Kernel, at, entry, move_words, words
from tests.hardware.suite.bulk import EXPECT, INIT, MEET, WAIT

BUFFER = 1024
"""The box stands so far behind the mbarriers."""
SWIZZLES = {"none": 256, "32B": 32, "64B": 64, "128B": 128}
"""Bytes of a row of the box."""


def _tensor(dtype: str, rows: int, columns: int, seed: int) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    return words(seed, rows * columns * size, np.uint8).view(dtype).reshape(rows, columns)


def _multicast(swizzle: str, dtype: str, mask: int, coordinates: tuple[int, int]) -> Kernel:
    """CTA 2 of four loads a box for the CTAs of ``mask``, perhaps partly from outside the tensor."""
    tensor = _tensor(dtype, 40, 160, 200)
    columns = SWIZZLES[swizzle] // tensor.itemsize
    size = 16 * SWIZZLES[swizzle]
    tile = TensorMap(tensor, box=(columns, 16), swizzle=swizzle)
    body = f"""
{INIT}
add.u32 %r1, %s, {BUFFER};
mad.wide.u32 %d2, %rank, {size}, %before;
mad.wide.u32 %d3, %rank, {size}, %out;
{move_words("ld.global st.shared", "%d2", "%r1", size)}
fence.proxy.async.shared::cta;
mov.u32 %r2, 1; shl.b32 %r2, %r2, %rank; and.b32 %r2, %r2, {mask}; setp.ne.u32 %p2, %r2, 0;
and.pred %p3, %p1, %p2;
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], {size};
{MEET}
setp.eq.u32 %p4, %rank, 2;
and.pred %p4, %p4, %p1;
mov.u16 %h1, {mask};
mov.b32 %r3, {coordinates[0]}; mov.b32 %r4, {coordinates[1]};
@%p4 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
    [%r1], [%map, {{%r3, %r4}}], [%s], %h1;
@!%p2 bra SKIP;
{WAIT}
SKIP:
{MEET}
{move_words("ld.shared st.global", "%r1", "%d3", size)}
"""
    name = f"multicast.{swizzle}.{dtype}.{mask:04b}.{coordinates[0]},{coordinates[1]}"
    text = entry(name, "[map] tensor before out", body, cluster=(4,), shared=BUFFER + size)
    before = words(201, 4 * size, np.uint8)
    return Kernel(name, text, (tile, tensor, before, np.zeros_like(before)), grid=4)


def multicasts() -> Iterator[Kernel]:
    for swizzle in SWIZZLES:
        for dtype, mask, coordinates in (
            ("uint8", 0b1111, (32, 3)),
            ("uint16", 0b0101, (16, 30)),
            ("float32", 0b1011, (-8, -4)),
            ("uint16", 0b0100, (152, 38)),
        ):
            yield _multicast(swizzle, dtype, mask, coordinates)


def _slices(swizzle: str, ctas: int) -> Kernel:
    """Each CTA loads its slice of the rows into all CTAs: everyone has the whole box."""
    tensor = _tensor("uint16", 64, 128, 202)
    width = SWIZZLES[swizzle]
    rows = 64 // ctas
    part, size = rows * width, 64 * width
    tile = TensorMap(tensor, box=(width // 2, rows), swizzle=swizzle)
    body = f"""
{INIT}
{EXPECT.format(size)}
add.u32 %r1, %s, {BUFFER};
mad.lo.u32 %r2, %rank, {part}, %r1;
mul.lo.u32 %r4, %rank, {rows};
mov.b32 %r3, 8;
mov.u16 %h1, {(1 << ctas) - 1};
{MEET}
@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%map, {{%r3, %r4}}], [%s], %h1;
{WAIT}
mad.wide.u32 %d3, %rank, {size}, %out;
{move_words("ld.shared st.global", "%r1", "%d3", size, 64)}
{MEET}
"""
    name = f"slices.{swizzle}.{ctas}"
    text = entry(name, "[map] tensor out", body, cluster=(ctas,), shared=BUFFER + size)
    return Kernel(name, text, (tile, tensor, np.zeros(ctas * size, np.uint8)), grid=ctas, block=64)


def _stores(swizzle: str, operation: str) -> Kernel:
    """Every CTA stores, or adds, its box, some partly outside the tensor."""
    tensor = _tensor("uint32", 24, 72, 203)
    width = SWIZZLES[swizzle]
    size = 8 * width
    columns = width // 4
    tile = TensorMap(tensor, box=(columns, 8), swizzle=swizzle)
    opcode = (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
        if operation == "store"
        else f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group"
    )
    body = f"""
{INIT}
add.u32 %r1, %s, {BUFFER};
mad.wide.u32 %d2, %cta, {size}, %given;
{move_words("ld.global st.shared", "%d2", "%r1", size)}
fence.proxy.async.shared::cta;
bar.sync 0;
rem.u32 %r3, %cta, 3; mul.lo.u32 %r3, %r3, {columns};
div.u32 %r4, %cta, 3; mul.lo.u32 %r4, %r4, 9;
@%p1 {opcode} [%map, {{%r3, %r4}}], [%r1];
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;
"""
    name = f"{operation}.{swizzle}"
    text = entry(name, "[map] tensor given", body, shared=BUFFER + size)
    return Kernel(name, text, (tile, tensor, words(204, 9 * size, np.uint8)), grid=9, results=(1,))


def _ring(stages: int, steps: int) -> Kernel:
    """A producer warp fills stages, two consumer warps add them up and free them: full and empty mbarriers, phases that flip."""
    tensor = _tensor("uint32", 16 * steps, 32, 205)
    size = 16 * 128
    tile = TensorMap(tensor, box=(32, 16), swizzle="128B")
    first = "\n".join(
        f"@%p1 mbarrier.init.shared::cta.b64 [%s+{16 * i}], 1;\n@%p1 mbarrier.init.shared::cta.b64 [%s+{16 * i + 8}], 64;"
        for i in range(stages)
    )

    def wait(bar: str, parity: str, label: str) -> str:
        return f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [{bar}], {parity};\n@!%p7 bra {label};\n"

    advance = f"""
add.u32 %r10, %r10, 1;
add.u32 %r11, %r11, 1;
setp.eq.u32 %p3, %r11, {stages};
@%p3 mov.u32 %r11, 0;
@%p3 xor.b32 %r12, %r12, 1;
setp.lt.u32 %p4, %r10, {steps};
"""
    body = (
        f"""
setp.eq.u32 %p1, %t, 0;
{first}
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r20, 0;
setp.ge.u32 %p2, %t, 64;
@!%p2 bra CONSUME;
setp.eq.u32 %p1, %t, 64;
@!%p1 ret;
PRODUCE:
mad.lo.u32 %r13, %r11, 16, %s;
mad.lo.u32 %r14, %r11, {size}, %s;
add.u32 %r14, %r14, {BUFFER};
add.u32 %r16, %r13, 8;
xor.b32 %r15, %r12, 1;
{wait("%r16", "%r15", "EMPTY")}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {size};
mul.lo.u32 %r17, %r10, 16;
mov.b32 %r18, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%map, {{%r18, %r17}}], [%r13];
{advance}
@%p4 bra PRODUCE;
ret;
CONSUME:
mad.lo.u32 %r13, %r11, 16, %s;
mad.lo.u32 %r14, %r11, {size}, %s;
mad.lo.u32 %r14, %t, 4, %r14;
{wait("%r13", "%r12", "FULL")}
"""
        + "\n".join(f"ld.shared.b32 %r19, [%r14+{BUFFER + 256 * i}]; mad.lo.u32 %r20, %r20, 31, %r19;" for i in range(size // 256))
        + f"""
mbarrier.arrive.shared::cta.b64 _, [%r13+8];
{advance}
@%p4 bra CONSUME;
{at("%d30", "%out", 4, "%t")}
st.global.b32 [%d30], %r20;
"""
    )
    name = f"ring.{stages}.{steps}"
    text = entry(name, "[map] tensor out", body, shared=BUFFER + stages * size)
    return Kernel(name, text, (tile, tensor, np.zeros(64, np.uint32)), block=96)


def kernels() -> list[Kernel]:
    found = [*multicasts(), *(_slices(swizzle, ctas) for swizzle in SWIZZLES for ctas in (2, 4, 8))]
    found += [_stores(swizzle, operation) for swizzle in SWIZZLES for operation in ("store", "add", "xor", "max")]
    return [*found, *(_ring(stages, steps) for stages, steps in ((1, 3), (2, 7), (4, 13)))]
