"""Alignment and errors: what ends a kernel, and what does not. Each kernel runs in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from ptxlab.silicon._case import Array, Case, head
from ptxlab.silicon.parts.tma import wrong_copies
from ptxlab.tables import TENSOR_MEMORY_TARGETS

__all__ = ["faults"]

_READ = (
    ("ld.global.b16", "%h1", 1),
    ("ld.global.b32", "%r1", 2),
    ("ld.global.b64", "%q1", 4),
    ("ld.global.v2.b32", "{%r1, %r2}", 4),
    ("ld.global.v4.b32", "{%r1, %r2, %r3, %r4}", 8),
    ("ld.global.nc.b64", "%q1", 4),
    ("ld.shared.b32", "%r1", 2),
    ("ld.shared.v2.b32", "{%r1, %r2}", 4),
    ("ld.shared.v4.b32", "{%r1, %r2, %r3, %r4}", 8),
)
"""Loads, what they load into, and an offset that is not aligned."""
_WRITTEN = (
    ("st.global.b32", "%r1", 2),
    ("st.global.v4.b32", "{%r1, %r2, %r3, %r4}", 4),
    ("st.shared.b64", "%q1", 4),
    ("red.global.add.u32", "%r1", 2),
    ("red.shared.add.u32", "%r1", 1),
)
_TEXTS = {"condition": "a condition of a record kit", "file": "record kit", "function": "k"}
"""What an assertion prints."""
_DECLARED = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n" + "".join(
    f".global .align 1 .b8 {name}[{len(text) + 1}] = {{{', '.join(str(code) for code in text.encode())}, 0}};\n"
    for name, text in _TEXTS.items()
)
_CALL = """
mov.u64 %q0, condition; cvta.global.u64 %q0, %q0;
mov.u64 %q1, file; cvta.global.u64 %q1, %q1;
mov.u64 %q2, function; cvta.global.u64 %q2, %q2;
call.uni __assertfail, (%q0, %q1, 7, %q2, 1);
"""
_BULK_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_BULK_STORE = "cp.async.bulk.global.shared::cta.bulk_group"


def _bulk_load(to: str, source: str, size: int = 64, barrier: str = "%r7") -> tuple[str, str]:
    """One thread loads, and waits some time for the bytes."""
    return (
        _BULK_LOAD,
        f"""
setp.eq.u32 %p2, %t, 0;
add.u32 %r7, %s, 6144;
@%p2 mbarrier.init.shared::cta.b64 [%r7], 1;
fence.proxy.async;
bar.warp.sync -1;
@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {size};
mov.b32 %r6, {size};
@%p2 {_BULK_LOAD} [{to}], [{source}], %r6, [{barrier}];
mov.b32 %r6, 0;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7], 0;
add.u32 %r6, %r6, 1;
setp.lt.and.u32 %p1, %r6, 2000, !%p3;
@%p1 bra WAIT;
""",
    )


def _bulk_store(to: str, source: str) -> tuple[str, str]:
    return (
        _BULK_STORE,
        f"""
setp.eq.u32 %p2, %t, 0;
fence.proxy.async;
bar.warp.sync -1;
@%p2 {_BULK_STORE} [{to}], [{source}], 64;
@%p2 cp.async.bulk.commit_group;
@%p2 cp.async.bulk.wait_group 0;
""",
    )


_MORE = {
    "ldmatrix, a row that is not aligned": (
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%s+8];",
    ),
    "ldmatrix, aligned": ("ldmatrix.sync.aligned.m8n8.x1.shared.b16", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%s+16];"),
    "cp.async, a source that is not aligned": (
        "cp.async.cg.shared.global",
        "cp.async.cg.shared.global [%s], [%a+4], 16; cp.async.wait_all;",
    ),
    "cp.async, a destination that is not aligned": (
        "cp.async.cg.shared.global",
        "cp.async.cg.shared.global [%s+4], [%a], 16; cp.async.wait_all;",
    ),
    "ld.global, address 0": ("ld.global.b32", "mov.b64 %q2, 0; ld.global.b32 %r1, [%q2];"),
    "st.global, address 0": ("st.global.b32", "mov.b64 %q2, 0; st.global.b32 [%q2], %r1;"),
    "ld.global, far outside": ("ld.global.b32", "add.u64 %q2, %a, 0x400000000000; ld.global.b32 %r1, [%q2];"),
    "st.global, far outside": ("st.global.b32", "add.u64 %q2, %a, 0x400000000000; st.global.b32 [%q2], %r1;"),
    "ld.shared, far outside": ("ld.shared.b32", "add.u32 %r2, %s, 0x80000; ld.shared.b32 %r1, [%r2];"),
    "st.shared, far outside": ("st.shared.b32", "add.u32 %r2, %s, 0x80000; st.shared.b32 [%r2], %r1;"),
    "trap": ("trap", "trap;"),
    "an assertion that fails": ("call.uni", _CALL),
    "ld.local, far outside": ("ld.local.b32", "mov.u32 %r2, 0x7000000; ld.local.b32 %r1, [%r2];"),
    "division by zero": ("div.u32", "ld.global.b32 %r1, [%a]; xor.b32 %r2, %r1, %r1; div.u32 %r3, %r1, %r2;"),
    "mbarrier.init, not aligned": ("mbarrier.init.shared.b64", "mbarrier.init.shared.b64 [%s+4], 1;"),
    "cp.async.bulk, a load, aligned": _bulk_load("%s", "%a+16"),
    "cp.async.bulk, a load, shared memory is not aligned": _bulk_load("%s+8", "%a"),
    "cp.async.bulk, a load, global memory is not aligned": _bulk_load("%s", "%a+8"),
    "cp.async.bulk, a load, the mbarrier is not aligned": _bulk_load("%s", "%a", barrier="%r7+4"),
    "cp.async.bulk, a load, the size is no multiple of 16": _bulk_load("%s", "%a", size=56),
    "cp.async.bulk, a store, aligned": _bulk_store("%a+16", "%s"),
    "cp.async.bulk, a store, shared memory is not aligned": _bulk_store("%a", "%s+8"),
    "cp.async.bulk, a store, global memory is not aligned": _bulk_store("%a+8", "%s"),
}
"""What is special -> the opcode, and the code. %a: an array of 4 KiB; %s: 8 KiB of shared memory."""
_TENSOR_FRAME = """
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 64;
ld.shared.b32 %r5, [%s];
{}
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 64;
"""
_MMA = """
mov.b64 %q1, {a};
mov.b64 %q2, {b};
shr.u32 %r6, %s, 4;
cvt.u64.u32 %q0, %r6;
add.u64 %q1, %q1, %q0;
add.u64 %q2, %q2, %q0;
mov.b32 %r6, {idesc};
setp.ne.u32 %p1, 0, 0;
add.u32 %r7, %s, 6144;
setp.eq.u32 %p2, %t, 0;
@%p2 mbarrier.init.shared.b64 [%r7], 1;
fence.proxy.async.shared::cta;
bar.warp.sync -1;
@%p2 tcgen05.mma.cta_group::1.kind::{kind} [%r5], %q1, %q2, %r6, %p1;
@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7], 0;
@!%p3 bra WAIT;
tcgen05.fence::after_thread_sync;
"""


def _tensor() -> Iterator[tuple[str, str, str]]:
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32"
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32"
    wait = "tcgen05.wait::ld.sync.aligned; tcgen05.wait::st.sync.aligned;"
    plain = int(SharedMemoryDescriptor(start=0, leading=128, stride=256))
    for what, offset in (("outside the allocation", 64), ("beyond the last column", 600), ("in lanes of another warp", 32 << 16)):
        yield f"tcgen05.ld, {what}", load, _TENSOR_FRAME.format(f"add.u32 %r6, %r5, {offset}; {load} {{%r1}}, [%r6]; {wait}")
        yield f"tcgen05.st, {what}", store, _TENSOR_FRAME.format(f"add.u32 %r6, %r5, {offset}; {store} [%r6], {{%r1}}; {wait}")
    yield (
        "tcgen05.dealloc, twice",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
        _TENSOR_FRAME.format("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 64;"),
    )
    yield (
        "tcgen05.alloc, never released",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 64;"),
    )
    right = InstructionDescriptor(kind="f16", m=128, n=16, a="f16", b="f16")
    descriptors = {
        "a shape that does not exist": int(right) & ~(31 << 24) | 3 << 24,
        "N = 0": int(right) & ~(63 << 17),
        "a type that does not exist": int(right) | 7 << 7,
        "a reserved bit": int(right) | 1 << 29,
        "sparse, the instruction is not": int(right) | 1 << 2,
        "everything legal": int(right),
    }
    for what, idesc in descriptors.items():
        code = _MMA.format(kind="f16", a=plain, b=plain, idesc=idesc)
        yield f"tcgen05.mma, the instruction descriptor: {what}", "tcgen05.mma.cta_group::1.kind::f16", _TENSOR_FRAME.format(code)
    for what, change in (("no version", 1 << 46), ("a swizzling mode that does not exist", 7 << 61 ^ plain >> 61 << 61)):
        code = _MMA.format(kind="f16", a=plain ^ change, b=plain, idesc=int(right))
        yield f"tcgen05.mma, the descriptor of A: {what}", "tcgen05.mma.cta_group::1.kind::f16", _TENSOR_FRAME.format(code)


def _cases(target: str) -> Iterator[tuple[str, str, str]]:
    for opcode, value, offset in _READ:
        base = "%s" if "shared" in opcode else "%a"
        yield f"{opcode}, aligned", opcode, f"{opcode} {value}, [{base}+16];"
        yield f"{opcode}, not aligned", opcode, f"{opcode} {value}, [{base}+{offset}];"
    for opcode, value, offset in _WRITTEN:
        base = "%s" if "shared" in opcode else "%a"
        yield f"{opcode}, aligned", opcode, f"{opcode} [{base}+16], {value};"
        yield f"{opcode}, not aligned", opcode, f"{opcode} [{base}+{offset}], {value};"
    yield from ((name, opcode, code) for name, (opcode, code) in _MORE.items())
    if target in TENSOR_MEMORY_TARGETS:
        yield from _tensor()


def faults(target: str) -> Iterator[Case]:
    """Kernels of one warp; most have one error."""
    for name, opcode, code in _cases(target):
        first = head(target) + ("" if "__assertfail" not in code else _DECLARED)
        text = f"""{first}.visible .entry k(.param .u64 a, .param .u64 out)
{{
.reg .b16 %h<2>; .reg .b32 %r<8>, %s, %t; .reg .b64 %q<3>, %a, %out; .reg .pred %p<4>;
.shared .align 1024 .b8 data[8192];
ld.param.u64 %a, [a];
ld.param.u64 %out, [out];
mov.u32 %s, data;
mov.u32 %t, %tid.x;
mov.b32 %r1, 1; mov.b32 %r2, 2; mov.b32 %r3, 3; mov.b32 %r4, 4;
mov.b64 %q1, 5; mov.b16 %h1, 6;
mad.lo.u32 %r5, %t, 4, %s;
mov.u32 %r6, 0;
FILL:
st.shared.b32 [%r5], %r6;
add.u32 %r5, %r5, 128;
add.u32 %r6, %r6, 1;
setp.lt.u32 %p1, %r6, 64;
@%p1 bra FILL;
bar.sync 0;
{code.strip()}
bar.sync 0;
// What was loaded is stored, every bit of it.
mov.b64 {{%r5, %r6}}, %q1;
cvt.u32.u16 %r7, %h1;
xor.b32 %r1, %r1, %r2; xor.b32 %r1, %r1, %r3; xor.b32 %r1, %r1, %r4; xor.b32 %r1, %r1, %r5; xor.b32 %r1, %r1, %r6; xor.b32 %r1, %r1, %r7;
mad.wide.u32 %out, %t, 4, %out;
st.global.b32 [%out], %r1;
ret;
}}
"""
        data = Array("a", np.arange(1, 1025, dtype=np.uint32), ("word",))
        out = Array.zeros("out", (32,), ("thread",))
        yield Case(name, text, 1, 32, (data,), (out,), (opcode,), "fault")
    yield from wrong_copies(target)
