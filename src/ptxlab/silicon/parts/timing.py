"""Cycles of matrix instructions: one after the other in a chain, and as many as the unit takes. For information; nothing is compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from ptxlab.silicon._case import Array, Case, head
from ptxlab.silicon.parts import mma, tcgen05, wgmma
from ptxlab.tables import MMA_KINDS, TENSOR_MEMORY_TARGETS

__all__ = ["STEPS", "timing"]

STEPS = 32
"""Instructions that the cycles are of."""
_KEPT = Array("whether results are stored", np.zeros(4, np.uint32), ("word",))


def _case(
    name: str,
    target: str,
    registers: str,
    before: str,
    step: str,
    after: str,
    *,
    warps: int,
    keep: str = "",
    last: str = "",
    image: int = 16,
) -> Case:
    """A kernel that reads the clock before and after `STEPS` times ``step``, the second time round; each warp stores its cycles.

    ``keep`` stores the results if the predicate kept holds, which the compiler cannot know: it would leave out what computes bits that
    nobody reads.
    """
    text = f"""{head(target)}.visible .entry k(.param .u64 p_kept, .param .u64 p_out)
{{
.shared .align 1024 .b8 data[{image}];
.shared .align 8 .b64 barrier;
.shared .align 4 .b32 slot;
.reg .pred p, q, e, more, kept;
.reg .b32 t, i, round, s, bar, v;
.reg .b64 out, start, end;
{registers}
ld.param.u64 out, [p_kept];
ld.global.u32 v, [out];
setp.ne.u32 kept, v, 0;
ld.param.u64 out, [p_out];
mov.u32 t, %tid.x;
mov.u32 s, data;
mov.u32 bar, barrier;
shl.b32 i, t, 2;
FILL:
add.u32 v, s, i;
setp.lt.u32 more, i, {image};
@more st.shared.b32 [v], 0;
add.u32 i, i, {128 * warps};
@more bra FILL;
{before}
mov.u32 round, 0;
ROUND:
bar.sync 0;
mov.u64 start, %clock64;
mov.u32 i, 0;
STEP:
{step}
add.u32 i, i, 1;
setp.lt.u32 more, i, {STEPS};
@more bra STEP;
{after}
{keep}
mov.u64 end, %clock64;
sub.u64 end, end, start;
add.u32 round, round, 1;
setp.lt.u32 more, round, 2;
@more bra ROUND;
shr.u32 v, t, 5;
mad.wide.u32 out, v, 8, out;
and.b32 v, t, 31;
setp.eq.u32 q, v, 0;
@q st.global.u64 [out], end;
{last}
ret;
}}
"""
    return Case(
        name, text, 1, 32 * warps, (_KEPT,), (Array.zeros("cycles", (warps,), ("warp",), np.uint64),), (name.partition(",")[0],), "time"
    )


def _mma(target: str) -> Iterator[Case]:
    """mma.sync: a chain through C of one warp, then eight warps with four chains each."""
    for form in mma.forms():
        if not form.opcode.startswith("mma") or form.types[0] in ("s4", "u4", "b1") or "m8n8" in form.opcode:
            continue
        a, b, c = form.counts
        kind = "f32" if form.types[2] == "f32" else "b32"
        for chains, warps in ((1, 1), (4, 8)):
            results = [[f"c{chain}_{i}" for i in range(c)] for chain in range(chains)]
            flat = [name for names in results for name in names]
            vectors = ["{" + ", ".join(f"{x}{i}" for i in range(n)) + "}" for x, n in (("a", a), ("b", b))]
            registers = f".reg .b32 a<{a}>, b<{b}>;\n.reg .{kind} {', '.join(flat)};"
            before = "\n".join([*(f"mov.b32 a{i}, t;" for i in range(a)), *(f"mov.b32 b{i}, t;" for i in range(b))])
            before += "\n" + "\n".join(f"mov.b32 {name}, 0;" if kind == "b32" else f"mov.f32 {name}, 0f00000000;" for name in flat)
            step = "\n".join(f"{form.opcode} {{{', '.join(n)}}}, {vectors[0]}, {vectors[1]}, {{{', '.join(n)}}};" for n in results)
            keep = "\n".join(f"@kept st.global.{kind} [out+8], {name};" for name in flat)
            name = f"{form.opcode}, {'one chain' if chains == 1 else '4 chains in each of 8 warps'}"
            yield _case(name, target, registers, before, step, "", warps=warps, keep=keep)


def _wgmma(target: str) -> Iterator[Case]:
    for d, a, b in wgmma.FORMS:
        if a != b:
            continue
        for n in (8, 64, 128, 256):
            form = wgmma.Form(d, a, b, n)
            names = ", ".join(f"d{i}" for i in range(form.count))
            tail = ", 1, 1" * (d != "s32") + ", 0, 0" * (a in ("f16", "bf16"))
            leading = 128 >> 4 << 16 | 256 >> 4 << 32
            registers = f".reg .b32 d<{form.count}>;\n.reg .b64 x, y;"
            before = "\n".join(f"mov.b32 d{i}, 0;" for i in range(form.count))
            before += f"""
shr.u32 v, s, 4;
cvt.u64.u32 x, v;
add.u64 x, x, {leading};
add.u64 y, x, {2048 >> 4};
setp.eq.u32 p, 0, 0;
fence.proxy.async.shared::cta;"""
            step = f"{form.opcode} {{{names}}}, x, y, p{tail};"
            after = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
            keep = "\n".join(f"@kept st.global.b32 [out+8], d{i};" for i in range(form.count))
            fenced = f"wgmma.fence.sync.aligned;\n{step}"
            yield _case(form.opcode, target, registers, before, fenced, after, warps=4, keep=keep, image=2048 + 32 * n)


def _tcgen05(target: str) -> Iterator[Case]:
    for kind, n in ((kind, n) for kind in tcgen05.kinds(target) for n in (32, 128, 256)):
        row = MMA_KINDS[kind]
        fmt = "e4m3" if "f8f6f4" in kind else "e2m1" if row.container == 4 else next(iter(row.ab))
        vector = {"mxf8f6f4": "1X", "mxf4": "2X", "mxf4nvf4": "4X"}.get(kind)
        opcode = f"tcgen05.mma.cta_group::1.kind::{kind}" + (f".block_scale.scale_vec::{vector}" if vector else "")
        idesc = int(InstructionDescriptor(kind=kind, m=128, n=n, a=fmt, b=fmt, d="s32" if kind == "i8" else "f32"))
        descriptor = int(SharedMemoryDescriptor(leading=128, stride=256))
        scales = ", [scale], [scale]" if vector else ""
        registers = ".reg .b32 tensor, scale, at, w, parity;\n.reg .b64 x, y;"
        before = f"""
setp.lt.u32 q, t, 32;
@q tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
@q tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
setp.eq.u32 p, t, 0;
@p mbarrier.init.shared::cta.b64 [bar], 1;
fence.proxy.async.shared::cta;
bar.sync 0;
ld.shared.u32 tensor, [slot];
shr.u32 w, t, 5;
shl.b32 w, w, 21;
add.u32 w, w, tensor;
mov.u32 i, 0;
CLEAR:
add.u32 at, w, i;
tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {{i}};
add.u32 i, i, 1;
setp.lt.u32 more, i, 512;
@more bra CLEAR;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
add.u32 scale, tensor, 256;
shr.u32 v, s, 4;
cvt.u64.u32 x, v;
add.u64 x, x, {descriptor};
add.u64 y, x, {4096 >> 4};
setp.eq.u32 e, 0, 0;
setp.eq.u32 p, t, 0;"""
        step = f"@p {opcode} [tensor], x, y, {idesc}{scales}, e;"
        after = """@p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 q, [bar], round;
@!q bra WAIT;"""
        last = """tcgen05.fence::after_thread_sync;
bar.sync 0;
setp.lt.u32 q, t, 32;
@q tcgen05.dealloc.cta_group::1.sync.aligned.b32 tensor, 512;"""
        name = f"{opcode}, M 128, N {n}"
        yield _case(name, target, registers, before, step, after, warps=4, last=last, image=4096 + 32 * n)


def timing(target: str) -> Iterator[Case]:
    """Every kind of matrix instruction that the target has."""
    yield from _mma(target)
    if target == "sm_90a":
        yield from _wgmma(target)
    if target in TENSOR_MEMORY_TARGETS:
        yield from _tcgen05(target)
