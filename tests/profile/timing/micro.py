"""Micro-benchmarks in PTX: one instruction again and again, in so many chains that depend on themselves, in so many warps of one CTA.

Each kernel stores the clock of the SM before and after for each warp. One chain and one warp give a latency, many give a throughput.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptxlab import TensorMap
from tests.hardware.suite._kernel import HEAD, Kernel, entry

__all__ = ["MICRO", "WAIT", "Micro", "cycles", "measured"]

UNROLL, LOOPS = 16, 24
SHARED = 40960
GRID = 528
"""CTAs of a kernel that reads with all SMs: four on each."""


@dataclass(frozen=True)
class Micro:
    """``count``: how many times each warp executes what is measured."""

    name: str
    count: int
    kernel: Kernel


def cycles(raw: bytes) -> int:
    """From the first clock of a warp to the last one."""
    clocks = np.frombuffer(raw, np.uint64).reshape(-1, 2)
    clocks = clocks[clocks[:, 1] > 0]
    return int(clocks[:, 1].max() - clocks[:, 0].min())


def _chains(step: str, chains: int) -> str:
    return "\n".join(step.replace("#", str(c)) for c in range(chains))


def measured(
    name: str,
    step: str,
    *,
    warps: int = 1,
    chains: int = 1,
    unroll: int = UNROLL,
    loops: int = LOOPS,
    before: str = "",
    size: int = 1 << 16,
    grid: int = 1,
    cluster: tuple[int, int, int] = (1, 1, 1),
    maps: bool = False,
    box: int = 64,
    only: str = "",
    after: str = "",
) -> Micro:
    """``step`` with # for the number of a chain; ``before`` is executed once; ``only`` a guard for what is measured.

    ``box``: the rows of a box of the tensor map.
    """
    body = "\n".join(_chains(step, chains) for _ in range(unroll))
    set_up = "\n".join(
        f"ld.global.u32 %r{c}, [%data+{16 * c}]; ld.global.f32 %f{c}, [%data+{16 * c}]; ld.global.f64 %fd{c % 8}, [%data+{16 * c}];"
        f"cvt.u64.u32 %d{c}, %r{c}; add.u64 %d{c}, %d{c}, %data; add.u32 %r{c}, %r{c}, %s; mov.b32 {{%h{2 * c}, %h{2 * c + 1}}}, %r{c};"
        for c in range(8)
    )
    uses = "\n".join(
        f"xor.b32 %r40, %r40, %r{c}; mov.b32 %r41, %f{c}; xor.b32 %r40, %r40, %r41; cvt.u32.u64 %r41, %d{c}; xor.b32 %r40, %r40, %r41;"
        f"mov.b64 %d41, %fd{c % 8}; cvt.u32.u64 %r41, %d41; xor.b32 %r40, %r40, %r41;"
        f"mov.b32 %r41, {{%h{2 * c}, %h{2 * c + 1}}}; xor.b32 %r40, %r40, %r41;"
        for c in range(8)
    )
    text = f"""
{set_up}
ld.global.u32 %r30, [%data+200]; ld.global.u32 %r31, [%data+204]; ld.global.f32 %f18, [%data+200]; ld.global.f32 %f19, [%data+204];
ld.global.f64 %fd6, [%data+208]; ld.global.f64 %fd7, [%data+216]; mov.u32 %r40, 0; mov.b32 {{%h20, %h21}}, %r30;
mad.lo.u32 %r32, %t, 16, %s; mul.wide.u32 %d30, %g, 16; add.u64 %d30, %d30, %data; mov.u32 %r33, %s; mov.b64 %d31, 0; mov.u32 %r35, 0;
st.shared.u32 [%r32], %r32; st.shared.u32 [%r32+4], %r32; st.shared.u32 [%r32+8], %r32; st.shared.u32 [%r32+12], %r32;
setp.eq.u32 %p1, %t, 0; shr.u32 %r36, %t, 7; mad.lo.u32 %r36, %r36, 8192, %s;
@%p1 mbarrier.init.shared.b64 [%s+40000], 1;
fence.mbarrier_init.release.cluster;
{before}
bar.sync 0;
mov.u32 %r45, {loops};
{only}
mov.u64 %d45, %clock64;
AGAIN:
{body}
sub.u32 %r45, %r45, 1;
setp.ne.u32 %p9, %r45, 0;
@%p9 bra AGAIN;
mov.u64 %d46, %clock64;
shr.u32 %r46, %g, 5;
mad.wide.u32 %d47, %r46, 16, %out;
st.global.v2.u64 [%d47], {{%d45, %d46}};
SKIP:
{after}
{uses}
setp.eq.u32 %p10, %r40, 0x3ac51e77;
@%p10 st.global.u32 [%out], %r40;
"""
    data: Any = np.zeros(size // 4, np.uint32)
    out = np.zeros(2 * warps * grid, np.uint64)
    parameters, args = "out data", [out, data]
    if maps:
        parameters, args = "out data [map]", [out, data, TensorMap(data.view(np.uint16).reshape(-1, 64), (64, box), "128B", dtype="f16")]
    code = entry(name, parameters, text, shared=SHARED, cluster=cluster if cluster != (1, 1, 1) else ())
    kernel = Kernel(name, code, tuple(args), grid, 32 * warps, results=(0,), cluster=cluster)
    return Micro(name, unroll * loops * chains, kernel)


USE = " xor.b32 %r40, %r40, %r20; xor.b32 %r40, %r40, %r21; xor.b32 %r40, %r40, %r22;"
MULTIPLIED = "{%r30, %r31, %r30, %r31}, {%r30, %r31}"
SCALAR = {
    "add_xor.u32": "add.u32 %r#, %r#, %r30; xor.b32 %r#, %r#, %r31;",
    "mad.lo.u32": "mad.lo.u32 %r#, %r#, %r30, %r31;",
    "mul.hi.u32": "mul.hi.u32 %r#, %r#, %r30; add.u32 %r#, %r#, %r31;",
    "mad.wide.u32": "cvt.u32.u64 %r#, %d#; mad.wide.u32 %d#, %r#, %r30, %d31;",
    "add.u64": "add.u64 %d#, %d#, %data; xor.b64 %d#, %d#, %out;",
    "lop3": "lop3.b32 %r#, %r#, %r30, %r31, 0x96; shf.l.wrap.b32 %r#, %r#, %r31, %r30;",
    "prmt": "prmt.b32 %r#, %r#, %r30, %r31;",
    "min_max": "min.u32 %r#, %r#, %r30; max.u32 %r#, %r#, %r31;",
    "setp_selp": "setp.lt.u32 %p2, %r#, %r30; selp.u32 %r#, %r#, %r31, %p2;",
    "popc": "popc.b32 %r#, %r#;",
    "bfind": "bfind.u32 %r#, %r#;",
    "fma.f32": "fma.rn.f32 %f#, %f#, %f18, %f19;",
    "add.f32": "add.rn.f32 %f#, %f#, %f18;",
    "mul.f32": "mul.rn.f32 %f#, %f#, %f18;",
    "max.f32": "max.f32 %f#, %f#, %f18; add.rn.f32 %f#, %f#, %f19;",
    "fma.f64": "fma.rn.f64 %fd#, %fd#, %fd6, %fd7;",
    "fma.f16x2": "fma.rn.f16x2 %r#, %r#, %r30, %r31;",
    "fma.bf16x2": "fma.rn.bf16x2 %r#, %r#, %r30, %r31;",
    "ex2.approx": "ex2.approx.ftz.f32 %f#, %f#;",
    "lg2.approx": "lg2.approx.ftz.f32 %f#, %f#;",
    "rcp.approx": "rcp.approx.ftz.f32 %f#, %f#;",
    "rsqrt.approx": "rsqrt.approx.ftz.f32 %f#, %f#;",
    "sin.approx": "sin.approx.ftz.f32 %f#, %f#;",
    "tanh.approx": "tanh.approx.f32 %f#, %f#;",
    "ex2.f16x2": "ex2.approx.f16x2 %r#, %r#;",
    "div.rn": "div.rn.f32 %f#, %f#, %f18;",
    "div.full": "div.full.f32 %f#, %f#, %f18;",
    "sqrt.rn": "sqrt.rn.f32 %f#, %f#;",
    "cvt.f32.s32": "cvt.rn.f32.s32 %f#, %r#; mov.b32 %r#, %f#;",
    "cvt.f16.f32": "cvt.rn.f16.f32 %h#, %f#; cvt.f32.f16 %f#, %h#;",
    "cvt.f16x2.f32": "cvt.rn.f16x2.f32 %r#, %f#, %f18; mov.b32 %f#, %r#;",
    "cvt.s32.f32": "cvt.rzi.s32.f32 %r#, %f#; mov.b32 %f#, %r#;",
    "shfl": "shfl.sync.bfly.b32 %r#, %r#, 1, 31, -1;",
    "ballot": "setp.ne.u32 %p2, %r#, %r30; vote.sync.ballot.b32 %r#, %p2, -1;",
    "redux": "redux.sync.add.u32 %r#, %r#, -1;",
    "activemask": "bar.warp.sync -1;",
    "ld.shared.b32": "ld.shared.u32 %r#, [%r#];",
    "ld.shared.v4": "ld.shared.v4.u32 {%r#, %r20, %r21, %r22}, [%r#];" + USE,
    "st.shared.b32": "st.shared.u32 [%r32], %r#;",
    "st.shared.v4": "st.shared.v4.u32 [%r32], {%r#, %r30, %r31, %r32};",
    "ldmatrix.x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r#, %r20, %r21, %r22}, [%r#];" + USE,
    "stmatrix.x4": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r32], {%r#, %r30, %r31, %r33};",
    "atom.shared": "atom.shared.add.u32 %r#, [%r32], %r#;",
    "ld.global.l1": "ld.global.ca.u32 %r20, [%d#]; cvt.u64.u32 %d32, %r20; add.u64 %d#, %d#, %d32;",
    "ld.global.l2": "ld.global.cg.u32 %r20, [%d#]; cvt.u64.u32 %d32, %r20; add.u64 %d#, %d#, %d32;",
    "atom.global": "atom.global.add.u32 %r#, [%d30], %r#;",
    "red.global": "red.global.add.u32 [%d30], %r#;",
    "st.global": "st.global.u32 [%d30], %r#;",
    "st.global.v4": "st.global.v4.u32 [%d30], {%r#, %r30, %r31, %r33};",
    "fence.cta": "fence.acq_rel.cta;",
    "fence.gpu": "fence.acq_rel.gpu;",
    "fence.proxy.async": "fence.proxy.async;",
    "cp.async.wait": "cp.async.cg.shared.global [%r32], [%d30], 16; cp.async.commit_group; cp.async.wait_group 0;",
    "mma.f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f#, %f8, %f9, %f10}, " + MULTIPLIED + ", {%f#, %f8, %f9, %f10};",
    "mma.tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f#, %f8, %f9, %f10}, " + MULTIPLIED + ", {%f#, %f8, %f9, %f10};",
    "mma.s8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r#, %r24, %r25, %r26}, " + MULTIPLIED + ", {%r#, %r24, %r25, %r26};",
    "clock": "mov.u32 %r#, %clock;",
    "bar.sync": "bar.sync 0;",
}  # fmt: skip
ALONE = ("bar.sync", "fence.cta", "fence.gpu", "fence.proxy.async", "cp.async.wait", "clock", "activemask")
"""Instructions that have no chains."""
WAIT = "{ .reg .pred %w; AGAIN_W: mbarrier.try_wait.parity.shared.b64 %w, [%s+40000], %r35; @!%w bra AGAIN_W; xor.b32 %r35, %r35, 1; }"
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
ONE = "@!%p1 bra SKIP;"


def _bulk(size: int, copies: int) -> str:
    copy = f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%data], {size}, [%s+40000];"
    return f"mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], {size * copies}; {copy * copies} {WAIT}"


def _tensor(copies: int) -> str:
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%map, {%r46, %r46}], [%s+40000];"
    return f"mbarrier.arrive.expect_tx.shared.b64 %d31, [%s+40000], {8192 * copies}; {copy * copies} {WAIT}"


def _warpgroup(kind: str, n: int, products: int, from_registers: bool) -> tuple[str, str]:
    """What is measured, and the registers that it needs."""
    types, k = {"f16": ("f32.f16.f16", 16), "tf32": ("f32.tf32.tf32", 8), "e4m3": ("f32.e4m3.e4m3", 32), "s8": ("s32.s8.s8", 32)}[kind]
    registers = ", ".join(f"%w{i}" for i in range(n // 2))
    more = {"f16": "p, 1, 1, 0, 0", "tf32": "p, 1, 1", "e4m3": "p, 1, 1", "s8": "p"}[kind]
    if from_registers:
        more = "p, 1, 1, 0"
    a = "{%r30, %r31, %r30, %r31}" if from_registers else "%d42"
    one = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{registers}}}, {a}, %d43, %{more};"
    step = f"wgmma.fence.sync.aligned; {one * products} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    before = f".reg .{'s32' if kind == 's8' else 'f32'} %w<{n // 2}>; .reg .pred %p; setp.ne.u32 %p, %r30, 1234567;"
    before += "".join(f"mov.b32 %w{i}, 0;" for i in range(n // 2))
    before += "cvt.u64.u32 %d42, %s; shr.u64 %d42, %d42, 4; and.b64 %d42, %d42, 0x3fff;"
    before += "or.b64 %d42, %d42, 0x4000004000010000; mov.u64 %d43, %d42;"
    return step, before


def _keep(n: int) -> str:
    return "".join(f"mov.b32 %r41, %w{i}; xor.b32 %r40, %r40, %r41;" for i in range(n // 2))


def _stream(load: str, bytes_of_thread: int | str) -> str:
    step = "".join(
        f"ld.global.{load}.v4.u32 {{%r{8 + 4 * i}, %r{9 + 4 * i}, %r{10 + 4 * i}, %r{11 + 4 * i}}}, [%d30];"
        f"add.u64 %d30, %d30, {bytes_of_thread};"
        for i in range(4)
    )
    return step + "".join(f"xor.b32 %r40, %r40, %r{i};" for i in range(8, 24))


def _all() -> Iterator[Micro]:
    for name, step in SCALAR.items():
        forms = ((1, 1), (4, 1), (8, 1), (16, 1), (32, 1)) if name in ALONE else ((1, 1), (1, 4), (4, 4), (16, 4), (32, 2))
        for warps, chains in forms:
            yield measured(f"{name}.w{warps}.c{chains}", step, warps=warps, chains=chains)
    far = "ld.global.cg.u32 %r20, [%d0]; cvt.u64.u32 %d32, %r20; add.u64 %d0, %d0, %d32; add.u64 %d0, %d0, 69888;"
    yield measured("ld.global.dram.w1.c1", far, size=1 << 28, loops=200)
    for size in (16, 128, 512, 2048, 8192, 16384, 32768):
        yield measured(f"bulk.{size}.x1", _bulk(size, 1), only=ONE, unroll=4)
    for size, copies in ((512, 16), (2048, 8), (8192, 4), (8192, 16), (16384, 8)):
        yield measured(f"bulk.{size}.x{copies}", _bulk(size, copies), only=ONE, unroll=4)
    for copies in (1, 2, 4, 8, 16):
        yield measured(f"tensor.8192.x{copies}", _tensor(copies), only=ONE, unroll=4, maps=True, before="mov.u32 %r46, 0;")
    arrive = f"mbarrier.arrive.shared.b64 %d31, [%s+40000]; {WAIT}"
    yield measured("mbarrier.arrive_wait", arrive, only=ONE)
    yield measured("cluster.barrier", "barrier.cluster.arrive; barrier.cluster.wait;", warps=4, grid=2, cluster=(2, 1, 1))
    other = "mapa.shared::cluster.u32 %r0, %s, 1; st.shared::cluster.u32 [%r0], %r0;"
    load = "ld.shared::cluster.u32 %r0, [%r0];"
    yield measured("ld.dsmem.w1.c1", load, grid=2, cluster=(2, 1, 1), before=other, only=MEET, after=MEET)
    for kind, sides in (("f16", (8, 32, 64, 128, 256)), ("tf32", (128, 256)), ("e4m3", (128, 256)), ("s8", (128, 256))):
        for n in sides:
            for products in (1, 4):
                for warps in (4, 8) if n == 128 else (4,):
                    step, before = _warpgroup(kind, n, products, False)
                    found = measured(f"wgmma.{kind}.n{n}.x{products}.w{warps}", step, warps=warps, unroll=1, loops=48, before=before)
                    yield _kept(found, n)
    for n in (64, 128):
        for products in (1, 4):
            step, before = _warpgroup("f16", n, products, True)
            yield _kept(measured(f"wgmma.registers.n{n}.x{products}.w4", step, warps=4, unroll=1, loops=48, before=before), n)
    for load in ("ca", "cg"):
        for warps in (4, 8, 16, 32):
            yield measured(
                f"stream.{load}.w{warps}.one_sm",
                _stream(load, "%d34" if load == "ca" else 16384),
                before="cvt.u64.u32 %d34, %r30;",
                warps=warps,
                unroll=2,
                loops=16,
                size=1 << 22,
            )
    step = GRID * 512 * 16
    start = "mul.wide.u32 %d30, %g, 16; add.u64 %d30, %d30, %data;"
    again = _stream("cg", step) + f"sub.u64 %d30, %d30, {4 * step};"
    yield measured("stream.l2.grid", again, warps=16, unroll=1, loops=8, grid=GRID, size=4 * step, before=start)
    yield measured("stream.dram.grid", _stream("cg", step), warps=16, unroll=1, loops=24, grid=GRID, size=24 * 4 * step, before=start)


def _kept(micro: Micro, n: int) -> Micro:
    kernel = micro.kernel
    text = kernel.text.replace("SKIP:", "SKIP:\n" + _keep(n), 1)
    return Micro(micro.name, micro.count, replace(kernel, text=HEAD + text, entry=kernel.symbol, module=True))


MICRO: dict[str, Micro] = {micro.name: micro for micro in _all()}
