"""What the threads of a warp or a CTA do together: shfl, vote, match, redux, elect, activemask, and the barriers that reduce."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.hardware.suite._kernel import Kernel, at, entry, words

WARPS = 24
LANES = np.arange(32)
MASKS = (0xFFFFFFFF, 0x0000FFFF, 0xFFFF0000, 0x55555555, 0xF0F0F0F0, 0x80000001, 0x00000010)
"""Members: the other lanes of the warp go round the instruction."""


def _mask_array(masks: tuple[int, ...] = MASKS) -> np.ndarray:
    return np.resize(np.array(masks, np.uint32), WARPS)


def _members(instruction: str, outputs: str) -> str:
    """The instruction for the lanes of the warp's mask %r10; the others keep what they have."""
    return f"""
{at("%d30", "%masks", 4, "%cta")}
ld.global.b32 %r10, [%d30];
mov.b32 %r11, 1;
shl.b32 %r11, %r11, %t;
and.b32 %r11, %r11, %r10;
setp.ne.u32 %p9, %r11, 0;
@!%p9 bra AROUND;
{instruction}
AROUND:
{outputs}
"""


def _warp_kernel(name: str, instruction: str, masks: np.ndarray, *inputs: np.ndarray, predicate: bool = False) -> Kernel:
    """``instruction`` reads %r1, %r2 ... (or %d1 where the input is 64 bits), writes %r20 and, perhaps, %p1."""
    loads, names = [], []
    for i, array in enumerate(inputs, 1):
        size = array.dtype.itemsize
        loads.append(f"{at('%d31', f'%in{i}', size)} ld.global.b{8 * size} {'%r' if size == 4 else '%d'}{i}, [%d31];")
        names.append(f"in{i}")
    store = f"{at('%d32', '%out', 4)} st.global.b32 [%d32], %r20;"
    if predicate:
        store += f"selp.u32 %r21, 1, 0, %p1; {at('%d32', '%flags', 4)} st.global.b32 [%d32], %r21;"
    body = "\n".join(loads) + "\nmov.b32 %r20, 0xDEADBEEF; setp.ne.u32 %p1, %t, %t;\n" + _members(instruction, store)
    parameters = " ".join(["masks", *names, "out", *(["flags"] if predicate else [])])
    outs = [np.zeros(32 * WARPS, np.uint32) for _ in range(1 + predicate)]
    results = (-2, -1) if predicate else (-1,)
    return Kernel(name, entry(name, parameters, body), (masks, *inputs, *outs), grid=WARPS, block=32, results=results)


def _shuffled(mode: str) -> Iterator[Kernel]:
    """All lanes take part. Widths of segments, clamps and offsets that differ between lanes, also beyond 31."""
    value = words(1, 32 * WARPS)
    everyone = np.full(WARPS, 0xFFFFFFFF, np.uint32)
    clamp = 0 if mode == "up" else 0x1F
    rng = np.random.PCG64([3, len(mode)]).random_raw(2 * 32 * WARPS)
    offsets = (rng[: 32 * WARPS] % 40).astype(np.uint32)
    for width in (32, 16, 8, 4, 2, 1):
        control = np.full(32 * WARPS, (32 - width) << 8 | clamp, np.uint32)
        yield _warp_kernel(f"shfl.{mode}.w{width}", _shfl(mode), everyone, value, offsets, control, predicate=True)
    control = (rng[32 * WARPS :] & 0x1F1F).astype(np.uint32)
    yield _warp_kernel(f"shfl.{mode}.any", _shfl(mode), everyone, value, offsets, control, predicate=True)
    whole = np.tile((32 - np.array([1, 2, 4, 8, 16, 32])) << 8 | clamp, 4).astype(np.uint32)
    control = np.repeat(whole, 32)
    uniform = np.repeat(np.arange(WARPS, dtype=np.uint32) * 3 % 33, 32)
    yield _warp_kernel(f"shfl.{mode}.uniform", _shfl(mode), everyone, value, uniform, control, predicate=True)


def _shfl(mode: str) -> str:
    return f"shfl.sync.{mode}.b32 %r20|%p1, %r1, %r2, %r3, %r10;"


def _shuffled_among_members() -> Iterator[Kernel]:
    """The source lane is a member too: what else is read is undefined."""
    value = words(2, 32 * WARPS)
    masks = _mask_array((0xFFFFFFFF, 0x0000FFFF, 0xFF00FF00, 0x0F0F0F0F, 0x33333333, 0xF))
    groups = {0xFFFFFFFF: 32, 0x0000FFFF: 16, 0xFF00FF00: 8, 0x0F0F0F0F: 4, 0x33333333: 2, 0xF: 4}
    widths = np.repeat([groups[int(m)] for m in masks], 32)
    for mode in ("up", "down", "bfly", "idx"):
        control = ((32 - widths) << 8 | (0 if mode == "up" else 0x1F)).astype(np.uint32)
        offsets = (words(4, 32 * WARPS) % widths).astype(np.uint32)
        yield _warp_kernel(f"shfl.{mode}.members", _shfl(mode), masks, value, offsets, control, predicate=True)


def shuffles() -> Iterator[Kernel]:
    for mode in ("up", "down", "bfly", "idx"):
        yield from _shuffled(mode)
    yield from _shuffled_among_members()


def votes() -> Iterator[Kernel]:
    masks = _mask_array()
    some = (words(5, 32 * WARPS) & 1).astype(np.uint32)
    for label, given in (
        ("some", some),
        ("all", some | 1),
        ("none", some * 0),
        ("few", np.where(words(6, 32 * WARPS) % 16 == 0, 1, 0).astype(np.uint32)),
    ):
        for sign in ("", "!"):
            head = "setp.ne.u32 %p2, %r1, 0; "
            name = f"{label}{'.not' if sign else ''}"
            yield _warp_kernel(f"vote.ballot.{name}", head + f"vote.sync.ballot.b32 %r20, {sign}%p2, %r10;", masks, given)
            for mode in ("all", "any", "uni"):
                yield _warp_kernel(
                    f"vote.{mode}.{name}", head + f"vote.sync.{mode}.pred %p1, {sign}%p2, %r10;", masks, given, predicate=True
                )


def matches() -> Iterator[Kernel]:
    masks = _mask_array()
    for label, spread in (("few", 3), ("one", 1), ("many", 20)):
        narrow = (words(7, 32 * WARPS) % spread).astype(np.uint32)
        wide = narrow.astype(np.uint64) << np.uint64(33) | np.uint64(5)
        for bits, given, register in ((32, narrow, "%r1"), (64, wide, "%d1")):
            yield _warp_kernel(f"match.any.b{bits}.{label}", f"match.any.sync.b{bits} %r20, {register}, %r10;", masks, given)
            yield _warp_kernel(
                f"match.all.b{bits}.{label}", f"match.all.sync.b{bits} %r20|%p1, {register}, %r10;", masks, given, predicate=True
            )


def reductions() -> Iterator[Kernel]:
    masks = _mask_array()
    wild = words(8, 32 * WARPS)
    edges = np.resize(np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32), 32 * WARPS)
    for label, given in (("wild", wild), ("edges", edges)):
        for op, kinds in (("add", "u32 s32"), ("min", "u32 s32"), ("max", "u32 s32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")):
            for kind in kinds.split():
                yield _warp_kernel(f"redux.{op}.{kind}.{label}", f"redux.sync.{op}.{kind} %r20, %r1, %r10;", masks, given)


def elections() -> Iterator[Kernel]:
    yield _warp_kernel("elect", "elect.sync %r20|%p1, %r10;", _mask_array(), predicate=True)
    yield _warp_kernel("bar.warp", "bar.warp.sync %r10; add.u32 %r20, %t, 1;", _mask_array())
    body = f"""
setp.ge.u32 %p1, %t, 20;
@%p1 ret;
activemask.b32 %r1;
{at("%d30", "%out", 4)}
st.global.b32 [%d30], %r1;
"""
    yield Kernel("activemask.exited", entry("activemask.exited", "out", body), (np.zeros(96, np.uint32),), grid=3, block=32)
    yield Kernel("activemask.short", entry("activemask.short", "out", body.replace("20", "2000")), (np.zeros(80, np.uint32),), block=80)


def _barrier_reduction(name: str, instruction: str, popc: bool, threads: int, joined: int) -> Kernel:
    """``joined`` threads of the CTA meet, several times with other predicates."""
    body = f"""
setp.ge.u32 %p8, %t, {joined};
@%p8 ret;
mov.u32 %r9, 0;
AGAIN:
mad.lo.u32 %r8, %r9, {threads}, %t;
{at("%d30", "%given", 4, "%r8")}
ld.global.b32 %r1, [%d30];
setp.ne.u32 %p2, %r1, 0;
{instruction}
{"" if popc else "selp.u32 %r20, 1, 0, %p1;"}
{at("%d31", "%out", 4, "%r8")}
st.global.b32 [%d31], %r20;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 4;
@%p3 bra AGAIN;
"""
    given = np.stack([words(9, threads) & 1, np.ones(threads), np.zeros(threads), words(10, threads) & 7]).astype(np.uint32)
    return Kernel(name, entry(name, "given out", body), (given, np.zeros_like(given)), block=threads)


def barriers() -> Iterator[Kernel]:
    for head in ("bar.red", "barrier.red", "barrier.cta.red.aligned"):
        start, aligned = (head.removesuffix(".aligned"), ".aligned" if head.endswith("aligned") else "")
        for op, kind in (("popc", "u32"), ("and", "pred"), ("or", "pred")):
            result = "%r20" if op == "popc" else "%p1"
            for sign in ("", "!"):
                for threads, joined, count in ((128, 128, ""), (128, 64, " 64,")):
                    instruction = f"{start}.{op}{aligned}.{kind} {result}, 3,{count} {sign}%p2;"
                    name = f"{head}.{op}{'.not' if sign else ''}.{joined}"
                    yield _barrier_reduction(name, instruction, op == "popc", threads, joined)
    yield _producers()


def _producers() -> Kernel:
    """Two warps produce and two consume through named barriers, one for full and one for empty."""
    body = f"""
mov.u32 %r9, 0;
and.b32 %r1, %t, 63;
mad.lo.u32 %r2, %r1, 4, %s;
setp.lt.u32 %p1, %t, 64;
@!%p1 bra CONSUME;
PRODUCE:
setp.ne.u32 %p2, %r9, 0;
@%p2 barrier.sync 2, 128;
mad.lo.u32 %r3, %r9, 1000, %r1;
st.shared.b32 [%r2], %r3;
bar.arrive 1, 128;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 6;
@%p3 bra PRODUCE;
ret;
CONSUME:
bar.sync 1, 128;
xor.b32 %r4, %r2, 252;
ld.shared.b32 %r5, [%r4];
mad.lo.u32 %r6, %r9, 64, %r1;
{at("%d30", "%out", 4, "%r6")}
st.global.b32 [%d30], %r5;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p3, %r9, 6;
@%p3 barrier.arrive 2, 128;
@%p3 bra CONSUME;
"""
    return Kernel("producers", entry("producers", "out", body, shared=256), (np.zeros((6, 64), np.uint32),), block=128)


def kernels() -> list[Kernel]:
    return [*shuffles(), *votes(), *matches(), *reductions(), *elections(), *barriers()]
