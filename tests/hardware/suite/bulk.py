"""Bulk copies and reductions of contiguous bytes: every direction, operation and type; sizes, multicast, groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.hardware.scalar_inputs import CASES, inputs
from tests.hardware.suite._kernel import Kernel, entry, move_words, words

BAR = 128
"""Shared memory starts with mbarriers; buffers stand behind these bytes."""
INIT = """
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], 1;
@%p1 fence.mbarrier_init.release.cluster;
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
WAIT = """
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%s], 0;
@!%p7 bra WAIT;
"""
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], {};"


def _load(name: str, opcode: str, size: int, skip: int) -> Kernel:
    """Global to shared memory, away from the start in both."""
    body = f"""
{INIT}
add.u32 %r1, %s, {BAR + skip};
add.u64 %d1, %given, {skip};
mov.u64 %d2, %out;
{MEET}
{EXPECT.format(size)}
@%p1 {opcode} [%r1], [%d1], {size}, [%s];
{WAIT}
{move_words("ld.shared st.global", "%r1", "%d2", size)}
"""
    text = entry(name, "given out", body, cluster=(1,), shared=BAR + skip + size)
    return Kernel(name, text, (words(100, size + skip, np.uint8), np.zeros(size, np.uint8)))


def loads() -> Iterator[Kernel]:
    for space in ("shared::cluster", "shared::cta"):
        for size, skip in ((16, 0), (48, 16), (1024, 32), (4080, 112), (16384, 0)):
            yield _load(f"load.{space}.{size}", f"cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes", size, skip)


def _multicast(mask: int, size: int) -> Kernel:
    """CTA 1 of four loads into the CTAs of ``mask``; what the others hold stays."""
    body = f"""
{INIT}
add.u32 %r1, %s, {BAR};
mov.u64 %d1, %given;
mad.wide.u32 %d2, %rank, {size}, %before;
mad.wide.u32 %d3, %rank, {size}, %out;
{move_words("ld.global st.shared", "%d2", "%r1", size)}
fence.proxy.async.shared::cta;
mov.u32 %r2, 1; shl.b32 %r2, %r2, %rank; and.b32 %r2, %r2, {mask}; setp.ne.u32 %p2, %r2, 0;
and.pred %p3, %p1, %p2;
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], {size};
{MEET}
setp.eq.u32 %p4, %rank, 1;
and.pred %p4, %p4, %p1;
mov.u16 %h1, {mask};
@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d1], {size}, [%s], %h1;
@!%p2 bra SKIP;
{WAIT}
SKIP:
{MEET}
{move_words("ld.shared st.global", "%r1", "%d3", size)}
"""
    name = f"multicast.{mask:04b}"
    text = entry(name, "given before out", body, cluster=(4,), shared=BAR + size)
    before = words(102, 4 * size, np.uint8)
    return Kernel(name, text, (words(101, size, np.uint8), before, np.zeros_like(before)), grid=4)


def _peer(name: str, opcode: str, values: np.ndarray, held: np.ndarray) -> Kernel:
    """Each CTA of a pair sends its buffer to the other, which waits for the bytes."""
    size = values.nbytes // 2
    body = f"""
{INIT}
add.u32 %r1, %s, {BAR};
add.u32 %r2, %s, {BAR + size};
mad.wide.u32 %d1, %rank, {size}, %given;
mad.wide.u32 %d2, %rank, {size}, %held;
mad.wide.u32 %d3, %rank, {size}, %out;
{move_words("ld.global st.shared", "%d1", "%r1", size, 64)}
{move_words("ld.global st.shared", "%d2", "%r2", size, 64)}
{EXPECT.format(size)}
fence.proxy.async;
{MEET}
xor.b32 %r3, %rank, 1;
mapa.shared::cluster.u32 %r4, %r2, %r3;
mapa.shared::cluster.u32 %r5, %s, %r3;
@%p1 {opcode} [%r4], [%r1], {size}, [%r5];
{WAIT}
{move_words("ld.shared st.global", "%r2", "%d3", size, 64)}
{MEET}
"""
    text = entry(name, "given held out", body, cluster=(2,), shared=BAR + 2 * size)
    return Kernel(name, text, (values, held, np.zeros_like(held)), grid=2, block=64)


def _store(name: str, opcode: str, values: np.ndarray, held: np.ndarray, pieces: int = 1, read: bool = False) -> Kernel:
    """Shared to global memory in ``pieces`` groups; with ``read`` the source is overwritten once the copies have read it."""
    size = values.nbytes
    part = size // pieces
    copies = "\n".join(
        f"add.u64 %d3, %mem, {i * part}; add.u32 %r2, %s, {BAR + i * part};\n"
        f"@%p1 {opcode} [%d3], [%r2], {part};\n"
        "@%p1 cp.async.bulk.commit_group;"
        for i in range(pieces)
    )
    overwrite = """
@%p1 cp.async.bulk.wait_group.read 0;
bar.sync 0;
setp.lt.u32 %p5, %t, 4;
mad.lo.u32 %r3, %t, 4, %r1;
@%p5 st.shared.b32 [%r3], -1;
"""
    body = f"""
{INIT}
add.u32 %r1, %s, {BAR};
mov.u64 %d1, %given;
{move_words("ld.global st.shared", "%d1", "%r1", size, 64)}
fence.proxy.async;
bar.sync 0;
{copies}
{overwrite if read else ""}
@%p1 cp.async.bulk.wait_group {1 if pieces > 1 else 0};
@%p1 cp.async.bulk.wait_group 0;
"""
    return Kernel(name, entry(name, "given mem", body, shared=BAR + size), (values, held), block=64, results=(-1,))


REDUCTIONS = {
    "add": "u32 s32 u64 f16 bf16 f32 f64",
    "min": "u32 s32 u64 s64 f16 bf16",
    "max": "u32 s32 u64 s64 f16 bf16",
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "inc": "u32",
    "dec": "u32",
}
IN_SHARED = {"add": "u32 s32 u64", "min": "u32 s32", "max": "u32 s32", "and": "b32", "or": "b32", "xor": "b32", "inc": "u32", "dec": "u32"}


def _operands(kind: str) -> tuple[np.ndarray, np.ndarray]:
    found = [inputs(kind, seed).astype(f"u{int(kind.lstrip('subf')) // 8}") for seed in (0, 1)]
    assert len(found[0]) == CASES
    return found[0], found[1]


def reductions() -> Iterator[Kernel]:
    for op, kinds in REDUCTIONS.items():
        for kind in kinds.split():
            flush = ".noftz" if kind in ("f16", "bf16") and op == "add" else ""
            held, values = _operands(kind)
            yield _store(f"reduce.{op}.{kind}", f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{flush}.{kind}", values, held)
    for op, kinds in IN_SHARED.items():
        for kind in kinds.split():
            held, values = _operands(kind)
            opcode = f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind}"
            yield _peer(f"reduce.peer.{op}.{kind}", opcode, values, held)


def kernels() -> list[Kernel]:
    found = [*loads(), *(_multicast(mask, 256) for mask in (0b0001, 0b0010, 0b1010, 0b0111, 0b1111))]
    send = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    found += [_peer(f"peer.{size}", send, words(103, 2 * size, np.uint8), words(104, 2 * size, np.uint8)) for size in (16, 240, 4096)]
    store = "cp.async.bulk.global.shared::cta.bulk_group"
    for size, pieces in ((16, 1), (2048, 1), (2048, 4), (8192, 8)):
        held = words(106, size, np.uint8)
        found += [
            _store(f"store.{size}.{pieces}{'.read' if read else ''}", store, words(105, size, np.uint8), held, pieces, read)
            for read in (False, True)
        ]
    return [*found, *reductions()]
