"""Accesses of a thread itself, in the generic proxy: ld, st, atom, red, ldmatrix, stmatrix; and the fences that order them."""

from __future__ import annotations

from itertools import chain

from tests.check.race.order_table.frames import (
    ACQUIRED,
    BAR,
    CLUSTER_BAR,
    FENCED_ACQUIRE,
    FENCED_RELEASE,
    FILL,
    FLAG,
    GLOBAL_THEN_READ,
    GLOBAL_THEN_WRITE,
    PAIR_OF_CTAS,
    PEER_THEN_READ,
    READ_THEN_GLOBAL,
    READ_THEN_SHARED,
    RELEASED,
    SHARED_THEN_READ,
    SHARED_THEN_WRITE,
    WRITE_THEN_GLOBAL,
    WRITE_THEN_PEER,
    WRITE_THEN_SHARED,
)
from tests.check.race.order_table.pair import Pair

CONFLICT = "Conflict and Data-races"
RELEASE = "Release and Acquire Patterns"
PRIVATE = "State Spaces"
HINT = "Data Movement and Conversion Instructions: prefetch, prefetchu"


def both(
    forms: tuple[str, ...],
    accesses: str,
    before: str,
    after: str,
    order: str,
    code: str,
    also: tuple[str, ...] = (),
    section: str = CONFLICT,
) -> tuple[Pair, ...]:
    """The instruction as the later and as the earlier of the two accesses."""
    return (Pair(forms, accesses, before, order, section, code, also), Pair(forms, accesses, after, order, section, code, also))


SHARED_LOADS = (
    "ld.shared.b32 %r0, [%smem];",
    "ld.shared::cta.v4.u32 {%r0, %r1, %r2, %r3}, [%smem];",
    "ld.b64 %d0, [%generic];",
    "ld.volatile.shared.s8 %r0, [%smem];",
    "ld.relaxed.cta.shared.f32 %f0, [%smem];",
    "ld.acquire.cta.shared.b16 %h0, [%smem];",
    "ld.shared.b128 %q0, [%smem];",
)
GLOBAL_LOADS = (
    "ld.global.b32 %r0, [%gmem];",
    "ld.b32 %r0, [%gmem];",
    "ld.global.u8 %h0, [%gmem];",
    "ld.global.v2.f64 {%fd0, %fd1}, [%gmem];",
    "ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%gmem];",
    "ld.global.cg.L2::cache_hint.b32 %r0, [%gmem], %policy;",
    "ld.weak.global.b32 %r0, [%gmem];",
    "ld.volatile.global.b32 %r0, [%gmem];",
    "ld.relaxed.gpu.global.b32 %r0, [%gmem];",
    "ld.acquire.sys.global.b64 %d0, [%gmem];",
    "ld.mmio.relaxed.sys.global.b32 %r0, [%gmem];",
)
READ_ONLY_LOADS = (
    "ld.global.nc.b32 %r0, [%gmem];",
    "ld.global.nc.v4.b32 {%r0, %r1, %r2, %r3}, [%gmem];",
    "ldu.global.b32 %r0, [%gmem];",
    "ldu.global.v2.b64 {%d0, %d1}, [%gmem];",
    "ldu.b32 %r0, [%gmem];",
)
PEER_LOADS = ("ld.shared::cluster.b32 %r0, [%peer];", "ld.relaxed.cluster.shared::cluster.b64 %d0, [%peer];")
PRIVATE_LOADS = ("ld.param.b64 %d0, [array];", "ld.local.b32 %r0, [own];", "ld.const.b32 %r0, [constant];")
SHARED_STORES = (
    "st.shared.b32 [%smem], %tid;",
    "st.shared::cta.v2.b64 [%smem], {%d0, %d0};",
    "st.b8 [%generic], %tid;",
    "st.volatile.shared.b32 [%smem], %tid;",
    "st.relaxed.cta.shared.b32 [%smem], %tid;",
    "st.release.cta.shared.b32 [%smem], %tid;",
)
GLOBAL_STORES = (
    "st.global.b32 [%gmem], %tid;",
    "st.b16 [%gmem], %h0;",
    "st.global.v8.f32 [%gmem], {%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0};",
    "st.global.b128 [%gmem], %q0;",
    "st.weak.global.L2::cache_hint.b32 [%gmem], %tid, %policy;",
    "st.volatile.global.b32 [%gmem], %tid;",
    "st.relaxed.gpu.global.b32 [%gmem], %tid;",
    "st.release.gpu.global.b32 [%gmem], %tid;",
    "st.mmio.relaxed.sys.global.b32 [%gmem], %tid;",
)
PEER_STORES = ("st.shared::cluster.b32 [%peer], %tid;", "st.relaxed.cluster.shared::cluster.b32 [%peer], %tid;")
LOCAL_STORES = ("st.local.b32 [own], %r0;",)

GLOBAL_ATOMICS = (
    "atom.global.add.u32 %r0, [%gmem], 1;",
    "atom.relaxed.gpu.global.add.f64 %fd0, [%gmem], %fd0;",
    "atom.global.add.f32 %f0, [%gmem], %f0;",
    "atom.global.add.noftz.f16x2 %r0, [%gmem], %r0;",
    "atom.global.add.noftz.bf16 %h0, [%gmem], %h0;",
    "atom.acquire.cta.global.min.s64 %d0, [%gmem], %d0;",
    "atom.release.sys.global.max.u32 %r0, [%gmem], 1;",
    "atom.global.inc.u32 %r0, [%gmem], 9;",
    "atom.acq_rel.gpu.global.and.b64 %d0, [%gmem], %d0;",
    "atom.global.xor.b32 %r0, [%gmem], 1;",
    "atom.global.exch.b32 %r0, [%gmem], 1;",
    "atom.global.exch.b128 %q0, [%gmem], %q0;",
    "atom.global.cas.b32 %r0, [%gmem], 0, 1;",
    "atom.global.cas.b16 %h0, [%gmem], 0, %h0;",
    "atom.global.add.v2.f32 {%f0, %f1}, [%gmem], {%f0, %f0};",
    "atom.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%gmem], {%f0, %f0, %f0, %f0};",
    "atom.global.max.noftz.v4.bf16 {%h0, %h1, %h2, %h3}, [%gmem], {%h0, %h0, %h0, %h0};",
    "atom.global.add.noftz.v2.f16x2 {%r0, %r1}, [%gmem], {%r0, %r0};",
    "atom.add.u64 %d0, [%gmem], %d0;",
    "red.global.add.u32 [%gmem], 1;",
    "red.relaxed.gpu.global.add.f64 [%gmem], %fd0;",
    "red.global.add.f32 [%gmem], %f0;",
    "red.global.add.noftz.bf16x2 [%gmem], %r0;",
    "red.release.gpu.global.max.s32 [%gmem], 1;",
    "red.global.dec.u32 [%gmem], 9;",
    "red.global.or.b32 [%gmem], 1;",
    "red.global.add.v2.f32 [%gmem], {%f0, %f0};",
    "red.global.min.noftz.v8.f16 [%gmem], {%h0, %h0, %h0, %h0, %h0, %h0, %h0, %h0};",
    "red.global.add.noftz.v2.bf16x2 [%gmem], {%r0, %r0};",
    "red.and.b64 [%gmem], %d0;",
)
SHARED_ATOMICS = (
    "atom.shared.add.u32 %r0, [%smem], 1;",
    "atom.shared::cta.add.f32 %f0, [%smem], %f0;",
    "atom.shared.cas.b64 %d0, [%smem], %d0, %d0;",
    "atom.exch.b32 %r0, [%generic], 1;",
    "red.shared.add.u32 [%smem], 1;",
    "red.shared::cta.xor.b32 [%smem], 1;",
)
PEER_ATOMICS = ("atom.shared::cluster.add.u32 %r0, [%peer], 1;", "red.relaxed.cluster.shared::cluster.add.u32 [%peer], 1;")

MATRIX = FILL + "and.b32 %t, %tid, 31;\nmad.lo.u32 %t, %t, 16, %smem;\n"
MATRIX_THEN_WRITE = MATRIX + "@%warp0 FORM\nORDER\n@%second st.shared.b32 [%smem], %tid;"
WRITE_THEN_MATRIX = MATRIX + "@%first st.shared.b32 [%smem], %smem;\nORDER\n@%warp1 FORM"
MATRIX_THEN_READ = MATRIX + "@%warp0 FORM\nORDER\n@%second ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;"
READ_THEN_MATRIX = MATRIX + "@%first ld.shared.b32 %r8, [%smem];\nst.global.b32 [%out+64], %r8;\nORDER\n@%warp1 FORM"
MATRIX_LOADS = (
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%t];",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%r0, %r1, %r2, %r3}, [%t];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%t];",
    "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32 {%r0, %r1, %r2, %r3}, [%t];",
    "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%r0, %r1}, [%t];",
    "ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4 {%r0}, [%t];",
)
MATRIX_STORES = (
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%t], {%tid, %r0};",
    "stmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16 [%t], {%tid};",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%t], {%tid};",
)
BULK_STORES = ("st.bulk.weak.shared::cta [%smem], 64, 0;", "st.bulk [%generic], 64, 0;")

ACCESSES = (
    *both(SHARED_LOADS, "reads shared memory", WRITE_THEN_SHARED, SHARED_THEN_WRITE, BAR, "X101"),
    *both(GLOBAL_LOADS, "reads global memory", WRITE_THEN_GLOBAL, GLOBAL_THEN_WRITE, BAR, "X114"),
    Pair(READ_ONLY_LOADS, "reads global memory, which must not change before", GLOBAL_THEN_WRITE, BAR, CONFLICT, "X114"),
    Pair(PEER_LOADS, "reads shared memory of another CTA", WRITE_THEN_PEER, CLUSTER_BAR, CONFLICT, "X101", options=PAIR_OF_CTAS),
    Pair(PRIVATE_LOADS, "reads what no other thread can write", ".local .b32 own;\nst.local.b32 [own], 1;\nFORM", "", PRIVATE),
    *both(SHARED_STORES, "writes shared memory", READ_THEN_SHARED, SHARED_THEN_READ, BAR, "X101"),
    Pair(SHARED_STORES, "writes shared memory", SHARED_THEN_WRITE, BAR, CONFLICT, "X101"),
    *both(GLOBAL_STORES, "writes global memory", READ_THEN_GLOBAL, GLOBAL_THEN_READ, BAR, "X114"),
    Pair(GLOBAL_STORES, "writes global memory", WRITE_THEN_GLOBAL, BAR, CONFLICT, "X114"),
    Pair(PEER_STORES, "writes shared memory of another CTA", PEER_THEN_READ, CLUSTER_BAR, CONFLICT, "X101", options=PAIR_OF_CTAS),
    Pair(LOCAL_STORES, "writes what no other thread can read", ".local .b32 own;\nFORM", "", PRIVATE),
    *both(GLOBAL_ATOMICS, "reads and writes global memory, atomically", READ_THEN_GLOBAL, GLOBAL_THEN_WRITE, BAR, "X114"),
    *both(SHARED_ATOMICS, "reads and writes shared memory, atomically", READ_THEN_SHARED, SHARED_THEN_WRITE, BAR, "X101"),
    Pair(
        PEER_ATOMICS, "reads and writes shared memory of another CTA", PEER_THEN_READ, CLUSTER_BAR, CONFLICT, "X101", options=PAIR_OF_CTAS
    ),
    *both(MATRIX_LOADS, "reads shared memory", WRITE_THEN_MATRIX, MATRIX_THEN_WRITE, BAR, "X101"),
    *both(MATRIX_STORES, "writes shared memory", READ_THEN_MATRIX, MATRIX_THEN_READ, BAR, "X101"),
    *both(BULK_STORES, "writes shared memory, weakly", READ_THEN_SHARED, SHARED_THEN_READ, BAR, "X101"),
    Pair(BULK_STORES, "writes shared memory, weakly", WRITE_THEN_SHARED, BAR, CONFLICT, "X101"),
)

RELEASES = (
    f"st.release.gpu.global.b32 {FLAG}, 1;",
    f"red.release.gpu.global.add.u32 {FLAG}, 1;",
    f"atom.release.gpu.global.exch.b32 %r9, {FLAG}, 1;",
    f"atom.acq_rel.gpu.global.add.u32 %r9, {FLAG}, 1;",
)
ACQUIRES = (
    f"ld.acquire.gpu.global.b32 %r0, {FLAG};",
    f"atom.acquire.gpu.global.or.b32 %r0, {FLAG}, 0;",
    f"atom.acq_rel.gpu.global.cas.b32 %r0, {FLAG}, 7, 7;",
)
FENCES = ("fence.acq_rel.gpu;", "fence.sc.gpu;", "membar.cta;", "membar.gl;", "membar.sys;")
SYNCHRONISATION = (
    Pair(RELEASES, "releases", RELEASED, "FORM", RELEASE, "X114", without=f"st.relaxed.gpu.global.b32 {FLAG}, 1;"),
    Pair(ACQUIRES, "acquires", ACQUIRED, "FORM", RELEASE, "X114", without=f"ld.relaxed.gpu.global.b32 %r0, {FLAG};"),
    Pair((*FENCES, "fence.release.gpu;"), "orders, for a release pattern", FENCED_RELEASE, "FORM", RELEASE, "X114"),
    Pair((*FENCES, "fence.acquire.gpu;"), "orders, for an acquire pattern", FENCED_ACQUIRE, "FORM", RELEASE, "X114"),
)

HINTS = (
    "prefetch.global.L1 [%gmem];",
    "prefetch.global.L2::evict_last [%gmem];",
    "prefetch.tensormap [%tensormap];",
    "prefetchu.L1 [%gmem];",
    "applypriority.global.L2::evict_normal [%gmem], 128;",
)
NO_ORDER = (Pair(HINTS, "a hint: no access of the memory model", WRITE_THEN_GLOBAL, "", HINT),)
DISCARDS = (
    Pair(
        ("discard.global.L2 [%gmem], 128;",),
        "writes global memory: an unstable indeterminate value, weakly",
        GLOBAL_THEN_WRITE,
        BAR,
        "Data Movement and Conversion Instructions: discard",
        "X114",
    ),
)

TABLE: tuple[Pair, ...] = tuple(chain(ACCESSES, SYNCHRONISATION, NO_ORDER, DISCARDS))
