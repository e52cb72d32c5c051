"""Clusters: special registers in every shape, mapa and getctarank, distributed shared memory, cluster barriers, st.async and red.async."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.hardware.suite._kernel import Kernel, at, entry, words

SPECIAL = (
    *(f"%{name}.{axis}" for name in ("ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
    "%cluster_ctarank",
    "%cluster_nctarank",
)
SHAPES = (
    ((1, 1, 1), (3, 2, 1)),
    ((2, 1, 1), (4, 3, 2)),
    ((1, 2, 1), (2, 4, 1)),
    ((2, 2, 1), (4, 2, 3)),
    ((2, 1, 2), (2, 2, 4)),
    ((8, 1, 1), (16, 2, 1)),
    ((2, 2, 2), (4, 4, 2)),
    ((1, 1, 4), (1, 3, 8)),
)


def special_registers() -> Iterator[Kernel]:
    """Every CTA stores them at its linear place in the grid."""
    stores = "\n".join(f"mov.u32 %r2, {name}; st.global.b32 [%d30+{4 * i}], %r2;" for i, name in enumerate(SPECIAL))
    explicit = f"""
mov.pred %p1, %is_explicit_cluster;
selp.u32 %r2, 1, 0, %p1;
st.global.b32 [%d30+{4 * len(SPECIAL)}], %r2;
"""
    for cluster, grid in SHAPES:
        body = f"""
mov.u32 %r0, %ctaid.z; mov.u32 %r1, %nctaid.y; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r0, %r0, %r1, %r2;
mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
{at("%d30", "%out", 4 * (len(SPECIAL) + 1), "%r0")}
{stores}
{explicit}
"""
        name = "special." + "x".join(map(str, cluster))
        out = np.zeros((int(np.prod(grid)), len(SPECIAL) + 1), np.uint32)
        yield Kernel(name, entry(name, "out", body, cluster=cluster), (out,), grid=grid, block=1)
    body = f"{at('%d30', '%out', 4 * (len(SPECIAL) + 1), '%cta')}\n{stores}\n{explicit}"
    out = np.zeros((3, len(SPECIAL) + 1), np.uint32)
    yield Kernel("special.none", entry("special.none", "out", body), (out,), grid=3, block=1)


MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def addresses() -> Iterator[Kernel]:
    """mapa to every rank, and the rank back from the address; of generic addresses the same, and their difference from the own."""
    body = f"""
mov.u32 %r0, 0;
cvta.shared.u64 %d1, buffer;
AGAIN:
mapa.shared::cluster.u32 %r1, %s, %r0;
getctarank.shared::cluster.u32 %r2, %r1;
mapa.u64 %d2, %d1, %r0;
getctarank.u64 %r3, %d2;
cvta.to.shared::cluster.u64 %d3, %d2;
cvt.u32.u64 %r4, %d3;
sub.u32 %r4, %r4, %r1;
cvt.u64.u32 %d4, %r1;
cvta.shared::cluster.u64 %d4, %d4;
sub.u64 %d4, %d4, %d2;
cvt.u32.u64 %r5, %d4;
isspacep.shared::cta %p1, %d2;
selp.u32 %r6, 1, 0, %p1;
isspacep.shared::cluster %p1, %d2;
selp.u32 %r7, 1, 0, %p1;
isspacep.shared %p1, %d1;
selp.u32 %r8, 1, 0, %p1;
mad.lo.u32 %r10, %cta, 4, %r0;
{at("%d30", "%out", 32, "%r10")}
st.global.v4.b32 [%d30], {{%r1, %r2, %r3, %r4}};
st.global.v4.b32 [%d30+16], {{%r5, %r6, %r7, %r8}};
add.u32 %r0, %r0, 1;
setp.lt.u32 %p2, %r0, 4;
@%p2 bra AGAIN;
{MEET}
"""
    text = entry("addresses", "out", body, cluster=(4,), shared=16)
    yield Kernel("addresses", text, (np.zeros((8, 4, 8), np.uint32),), grid=8, block=1)


TYPES = {"b8": "%h", "u8": "%h", "s8": "%h", "b16": "%h", "b32": "%r", "b64": "%d", "f32": "%f", "f64": "%fd", "b128": "%q"}


def _access(name: str, load: str, store: str, kind: str, vector: int, generic: bool, ctas: int) -> Kernel:
    """Each thread stores into the CTA of the next rank, reads what the CTA before it got from there, and keeps both."""
    bits = int(kind[1:])
    size = bits // 8
    whole = size * vector
    register = TYPES[kind]
    first = 1
    group = "{" + ", ".join(f"{register}{first + i}" for i in range(vector)) + "}" if vector > 1 else f"{register}{first}"
    dotted = f"{f'.v{vector}' if vector > 1 else ''}.{kind}"
    window = ".u64" if generic else ".shared::cluster.u32"
    own, next_, before = ("%d20", "%d21", "%d22") if generic else ("%r20", "%r21", "%r22")
    start = "cvt.u64.u32 %d20, %r20; cvta.shared.u64 %d20, %d20;" if generic else ""
    body = f"""
mad.lo.u32 %r20, %t, {whole}, %s;
{start}
add.u32 %r30, %rank, 1; rem.u32 %r30, %r30, {ctas};
add.u32 %r31, %rank, {ctas - 1}; rem.u32 %r31, %r31, {ctas};
mapa{window} {next_}, {own}, %r30;
mapa{window} {before}, {own}, %r31;
{at("%d30", "%given", whole)}
ld.global{dotted} {group}, [%d30];
{MEET}
{store}{dotted} [{next_}], {group};
{MEET}
{load}{dotted} {group}, [{before}];
{at("%d31", "%out", 2 * whole)}
st.global{dotted} [%d31], {group};
ld.shared{dotted} {group}, [%r20];
st.global{dotted} [%d31+{whole}], {group};
{MEET}
"""
    given = words(80 + whole, 32 * ctas * whole, np.uint8)
    text = entry(name, "given out", body, cluster=(ctas,), shared=32 * whole)
    return Kernel(name, text, (given, np.zeros(2 * given.size, np.uint8)), grid=ctas, block=32)


def accesses() -> Iterator[Kernel]:
    for kind in TYPES:
        for vector in (1, 2, 4):
            if int(kind[1:]) * vector > 128:
                continue
            ctas = 2 if vector == 1 else 4
            name = f"{kind}.v{vector}"
            yield _access(f"access.{name}", "ld.shared::cluster", "st.shared::cluster", kind, vector, False, ctas)
            yield _access(f"access.generic.{name}", "ld", "st", kind, vector, True, ctas)
    for load, store in (
        ("ld.relaxed.cluster", "st.relaxed.cluster"),
        ("ld.acquire.cluster", "st.release.cluster"),
        ("ld.volatile", "st.volatile"),
    ):
        name = f"access.{load.removeprefix('ld.')}"
        yield _access(name, f"{load}.shared::cluster", f"{store}.shared::cluster", "b32", 1, False, 8)


BARRIERS = (
    ("barrier.cluster.arrive", "barrier.cluster.wait"),
    ("barrier.cluster.arrive.aligned", "barrier.cluster.wait.aligned"),
    ("barrier.cluster.arrive.release", "barrier.cluster.wait.acquire"),
    ("barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"),
    ("fence.acq_rel.cluster; barrier.cluster.arrive.relaxed", "barrier.cluster.wait.acquire"),
    ("fence.sc.cluster; barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait.aligned"),
)


def barriers() -> Iterator[Kernel]:
    """Seven rounds: a word for the CTA of rank + round, which reads it behind the barrier."""
    for number, (arrive, wait) in enumerate(BARRIERS):
        body = f"""
mov.u32 %r0, 0;
AGAIN:
add.u32 %r1, %rank, %r0; and.b32 %r1, %r1, 7;
mad.lo.u32 %r2, %t, 4, %s;
mapa.shared::cluster.u32 %r3, %r2, %r1;
mad.lo.u32 %r4, %r0, 4096, %g;
{arrive}; {wait};
st.shared::cluster.b32 [%r3], %r4;
{arrive};
add.u32 %r5, %r0, 1;
{wait};
ld.shared.b32 %r6, [%r2];
mad.lo.u32 %r7, %r0, 512, %g;
{at("%d30", "%out", 4, "%r7")}
st.global.b32 [%d30], %r6;
mov.u32 %r0, %r5;
setp.lt.u32 %p1, %r0, 7;
@%p1 bra AGAIN;
"""
        name = f"barrier.{number}"
        yield Kernel(name, entry(name, "out", body, cluster=(8,), shared=256), (np.zeros((7, 512), np.uint32),), grid=8, block=64)


WAIT = """
WAIT:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%s], 0;
@!%p7 bra WAIT;
"""


def _asynchronous(name: str, opcode: str, kind: str, vector: int, turns: int = 1) -> Kernel:
    """Each thread sends its value to the CTA of the next rank ``turns`` times; that CTA waits for all the bytes."""
    size = int(kind[1:]) // 8
    whole = size * vector
    register = TYPES["b32" if size == 4 else "b64"]
    if kind[0] == "f":
        register = TYPES[kind]
    group = "{" + ", ".join(f"{register}{1 + i}" for i in range(vector)) + "}" if vector > 1 else f"{register}1"
    dotted = f"{f'.v{vector}' if vector > 1 else ''}.{kind}"
    moved = f"{f'.v{vector}' if vector > 1 else ''}.b{8 * size}" if kind[0] != "f" else dotted
    expected = 64 * whole * turns
    body = (
        f"""
setp.eq.u32 %p1, %t, 0;
@%p1 mbarrier.init.shared::cta.b64 [%s], 1;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], {expected};
mad.lo.u32 %r20, %t, {whole}, %s;
{at("%d30", "%mem", whole)}
{at("%d31", "%given", whole)}
ld.global{moved} {group}, [%d30];
st.shared{moved} [%r20+128], {group};
ld.global{moved} {group}, [%d31];
fence.mbarrier_init.release.cluster;
{MEET}
xor.b32 %r30, %rank, 1;
mapa.shared::cluster.u32 %r21, %r20, %r30;
mapa.shared::cluster.u32 %r22, %s, %r30;
"""
        + f"{opcode}{dotted} [%r21+128], {group}, [%r22];\n" * turns
        + f"""
{WAIT}
ld.shared{moved} {group}, [%r20+128];
{at("%d32", "%out", whole)}
st.global{moved} [%d32], {group};
{MEET}
"""
    )
    given, mem = words(90, 128 * whole, np.uint8), words(91, 128 * whole, np.uint8)
    text = entry(name, "mem given out", body, cluster=(2,), shared=128 + 64 * whole)
    return Kernel(name, text, (mem, given, np.zeros_like(mem)), grid=2, block=64)


def asynchronous() -> Iterator[Kernel]:
    tail = ".shared::cluster.mbarrier::complete_tx::bytes"
    for kind in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        for vector in (1, 2, 4):
            if int(kind[1:]) * vector <= 128:
                yield _asynchronous(f"st.async.{kind}.v{vector}", f"st.async.weak{tail}", kind, vector)
    operations = {
        "inc": "u32",
        "dec": "u32",
        "min": "u32 s32",
        "max": "u32 s32",
        "add": "u32 s32 u64",
        "and": "b32",
        "or": "b32",
        "xor": "b32",
    }
    for op, kinds in operations.items():
        for kind in kinds.split():
            for turns in (1, 3):
                yield _asynchronous(f"red.async.{op}.{kind}.x{turns}", f"red.async.relaxed.cluster{tail}.{op}", kind, 1, turns)


def kernels() -> list[Kernel]:
    return [*special_registers(), *addresses(), *accesses(), *barriers(), *asynchronous()]
