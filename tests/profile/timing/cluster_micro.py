"""Micro-benchmarks of clusters: barriers, arrivals in other CTAs, fences, distributed shared memory, multicast copies; and streams of DRAM.

Each CTA of a cluster has another one as its partner. Round trips alternate; else both do the same, with traffic in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.hardware.suite._kernel import Kernel, entry
from tests.profile.timing.micro import WAIT, Micro, measured

__all__ = ["CLUSTER_MICRO", "launches", "streams"]

SIZES = (2, 4, 8)
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
ONE = "@!%p1 bra SKIP;"
NEXT = "mov.u32 %r47, %cluster_nctarank; sub.u32 %r46, %r47, 1; sub.u32 %r46, %r46, %rank; mapa.shared::cluster.u32 %r47, %s, %r46;"
"""The rank of the partner in %r46 (the first CTA has the last one, and so on), and its buffer in %r47."""
SECOND = "setp.lt.and.u32 %p4, %r46, %rank, %p1; @%p4 "
"""A guard for one thread of the CTAs in the upper half."""
RELEASES = {"": "", ".relaxed": ".relaxed.cluster", ".release": ".release.cluster"}
ACQUIRES = {"": "", ".relaxed": ".relaxed.cluster", ".acquire": ".acquire.cluster"}
REMOTE = "shared::cluster.b64 _, [%r47+40000]"


def _wait(how: str) -> str:
    return WAIT.replace("parity.", f"parity{how}.")


def _pair(name: str, step: str, size: int = 2, **options: Any) -> Micro:
    options = {"before": NEXT + MEET, "after": MEET} | options
    return measured(name, step, grid=size, cluster=(size, 1, 1), **options)


def _barriers() -> Iterator[Micro]:
    for size in SIZES:
        for warps in (1, 4, 12):
            yield _pair(f"cluster.barrier.c{size}.w{warps}", MEET, size, warps=warps)
            yield _pair(f"cluster.barrier.relaxed.c{size}.w{warps}", MEET.replace("arrive", "arrive.relaxed"), size, warps=warps)
    for how, suffix in RELEASES.items():
        for warps in (1, 8):
            yield _pair(f"mbarrier.arrive{how}.remote.w{warps}", f"mbarrier.arrive{suffix}.{REMOTE};", warps=warps)
    for size in SIZES:
        for how, suffix in RELEASES.items():
            wait, arrive = _wait(".acquire.cluster" if how == ".release" else ""), f"mbarrier.arrive{suffix}.{REMOTE};"
            yield _pair(f"mbarrier.round_trip{how}.c{size}", f"{wait} {arrive}", size, only=ONE, before=NEXT + MEET + SECOND + arrive)
    for how, suffix in ACQUIRES.items():
        step = "mbarrier.try_wait.parity#.shared.b64 %p2, [%s+40000], 1;".replace("#", suffix)
        yield measured(f"mbarrier.try_wait{how}", step)
    store = "st.global.u32 [%d30], %r0;"
    for scope in ("cta", "cluster", "gpu"):
        yield measured(f"fence.acq_rel.{scope}", f"fence.acq_rel.{scope};")
        yield measured(f"fence.acq_rel.{scope}.after_store", f"{store} fence.acq_rel.{scope};")
        yield measured(f"fence.acq_rel.{scope}.grid", f"fence.acq_rel.{scope};", warps=4, grid=132, size=1 << 20)
        yield measured(f"fence.acq_rel.{scope}.grid_after_store", f"{store} fence.acq_rel.{scope};", warps=4, grid=132, size=1 << 20)
    for what in ("fence.sc.cluster", "fence.sc.gpu", "fence.proxy.async.shared::cta", "fence.proxy.async.global"):
        yield measured(what, f"{what};")


def _distributed() -> Iterator[Micro]:
    chain = "ld.shared::cluster.u32 %r#, [%r#];"
    start = NEXT + "".join(f"mov.u32 %r{c}, %r47;" for c in range(4)) + "st.shared.u32 [%s], %r47;"
    loop = start + "mapa.shared::cluster.u32 %r45, %s, %r46; st.shared::cluster.u32 [%r45], %r45;" + MEET
    place = NEXT + "mad.lo.u32 %r36, %t, 16, %r47;" + MEET
    for size in SIZES:
        yield _pair(f"dsmem.ld.c{size}.latency", chain, size, before=loop)
    yield _pair("dsmem.atom.c2.latency", "atom.shared::cluster.add.u32 %r0, [%r36], %r0;", before=place)
    expect = "mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], 4;"
    one = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r47], %r0, [%r47+40000];"
    for size in SIZES:
        yield _pair(f"dsmem.st_async.round_trip.c{size}", f"{expect} {WAIT} {one}", size, only=ONE, before=NEXT + MEET + SECOND + one)
    many = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r36], {%r0, %r30, %r31, %r33}, [%r47+40000];"
    for warps in (4, 16):
        expect = f"@%p1 mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], {16 * 32 * warps * 8};"
        yield _pair(f"dsmem.st_async.v4.c2.w{warps}.x8", f"{expect} {many * 8} {WAIT} bar.sync 0;", warps=warps, unroll=2, before=place)
    for size in (16, 1024, 8192, 16384):
        for copies in (1, 4):
            copy = f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r47+16384], [%s], {size}, [%r47+40000];"
            expect = f"mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], {size * copies};"
            yield _pair(f"dsmem.bulk.{size}.x{copies}", f"{expect} {copy * copies} {WAIT}", only=ONE, unroll=4)


def _multicasts() -> Iterator[Micro]:
    """One CTA copies to all, each waits for the bytes, and all meet; without multicast, each copies for itself."""
    meet = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    first = "setp.eq.and.u32 %p3, %rank, 0, %p1; mov.u32 %r46, 0; mov.u32 %r47, %cluster_nctarank; "
    first += "mov.u32 %r44, 1; shl.b32 %r44, %r44, %r47; sub.u32 %r44, %r44, 1; cvt.u16.u32 %h30, %r44;" + MEET
    bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    tensor = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    for size in (1, *SIZES):
        for copied, copies in ((512, 1), (2048, 1), (8192, 1), (8192, 4), (16384, 2), (32768, 1)):
            expect = f"@%p1 mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], {copied * copies};"
            for how, guard, suffix, mask in (("multicast", "%p3", ".multicast::cluster", ", %h30"), ("each", "%p1", "", "")):
                if size == 1 and how == "multicast":
                    continue
                copy = f"@{guard} {bulk}{suffix} [%s], [%data], {copied}, [%s+40000]{mask};"
                step = f"{expect} {copy * copies} {WAIT} {meet}"
                yield _pair(f"bulk.{how}.c{size}.{copied}.x{copies}", step, size, unroll=4, before=first)
                copy = f"@{guard} {tensor}{suffix} [%s], [%map, {{%r46, %r46}}], [%s+40000]{mask};"
                step = f"{expect} {copy * copies} {WAIT} {meet}"
                name = f"tensor.{how}.c{size}.{copied}.x{copies}"
                yield _pair(name, step, size, unroll=4, maps=True, box=copied // 128, before=first)


CLUSTER_MICRO: dict[str, Micro] = {micro.name: micro for make in (_barriers, _distributed, _multicasts) for micro in make()}


def launches() -> Iterator[Kernel]:
    """Kernels that do nothing, with clusters of several sizes."""
    for size in (1, 2, 4, 8):
        for grid in (8, 128, 1320, 13200):
            for block, shared in ((128, 0), (384, 0), (384, 100), (384, 200)):
                name = f"empty.c{size}.{grid}x{block}.shared{shared}"
                code = entry(name, "out", "", cluster=(size,) if size > 1 else ())
                yield Kernel(name, code, (None,), grid, block, shared * 1024, results=(), cluster=(size, 1, 1))


def streams() -> Iterator[Kernel]:
    """Kernels that read, write or copy arrays of several sizes, and columns of arrays, 16 bytes in each access."""
    load = "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1]; xor.b32 %r8, %r4, %r5; xor.b32 %r8, %r8, %r6; xor.b32 %r8, %r8, %r7;"
    keep = "setp.eq.u32 %p1, %r8, 0x3ac51e77; @%p1 st.global.u32 [%to], %r8;"
    store = "st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7};"
    start = "mul.wide.u32 %d3, %g, 16; add.u64 %d1, %d3, %from; add.u64 %d2, %d3, %to; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;"
    bodies = {"read": load + keep, "write": "mov.u32 %r7, 0;" + store, "copy": load + store}
    block = np.zeros(1, np.uint32)
    for megabytes in (1, 4, 16, 32, 48, 64, 96, 128, 256, 512):
        given = np.broadcast_to(block, (megabytes << 18,)), np.broadcast_to(block.copy(), (megabytes << 18,))
        for what, body in bodies.items():
            name = f"stream.{what}.{megabytes}"
            yield Kernel(name, entry(name, "from to", start + body), given, (megabytes << 20) // (256 * 16), 256, results=())
    rows = 8192
    given = np.broadcast_to(block, (rows << 12,)), np.broadcast_to(block.copy(), (1 << 16,))
    for width in (64, 128, 256, 512, 1024):
        per_row = width // 16
        walk = f"""
rem.u32 %r10, %t, {per_row}; div.u32 %r11, %t, {per_row}; mad.lo.u32 %r10, %cta, {per_row}, %r10; mov.u32 %r8, 0;
mul.wide.u32 %d1, %r11, 16384; mul.wide.u32 %d2, %r10, 16; add.u64 %d1, %d1, %d2; add.u64 %d1, %d1, %from;
mov.u32 %r12, {rows // (256 // per_row)};
AGAIN: {load.replace("xor.b32 %r8, %r4", "xor.b32 %r8, %r8, %r4; xor.b32 %r8, %r8")}
add.u64 %d1, %d1, {256 // per_row * 16384}; sub.u32 %r12, %r12, 1; setp.ne.u32 %p2, %r12, 0; @%p2 bra AGAIN; {keep}"""
        name = f"columns.{width}"
        yield Kernel(name, entry(name, "from to", walk), given, 16384 // width, 256, results=())
