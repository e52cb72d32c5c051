"""Mistakes that the vendor's assembler lets pass: a kernel for each, and what a run says of it.

Those that a descriptor, an address, a register or an allocation shows end the run or are reported by it; those of ordering and of the life
of values are found by the race sanitizer in the order of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor

MODULE = """
.version 9.0
.target {target}
.address_size 64
.global .align 8 .b64 gvar;
.visible .entry k(.param .u64 p_out, .param .u64 p_ad, .param .u64 p_bd, .param .u32 p_id, .param .u64 p_zd)
{directives}
{{
.shared .align 1024 .b8 data[32768];
.shared .align 8 .b64 barrier;
.shared .align 8 .b64 second;
.shared .align 8 .b32 slot[4];
.reg .pred p, one, q, e;
.reg .b32 r<40>, tid, warp, lane, taddr, mine, id, n;
.reg .f32 f<64>;
.reg .b64 out, at, ad, bd, zd, generic;
ld.param.u64 out, [p_out];
ld.param.u64 ad, [p_ad];
ld.param.u64 bd, [p_bd];
ld.param.u32 id, [p_id];
ld.param.u64 zd, [p_zd];
mov.u32 tid, %tid.x;
mov.u32 lane, %laneid;
shr.u32 warp, tid, 5;
mul.wide.u32 at, tid, 4;
add.u64 at, at, out;
setp.eq.u32 p, warp, 0;
setp.eq.u32 one, tid, 0;
setp.ne.u32 e, tid, tid;
mov.u32 r10, data;
mad.lo.u32 r10, tid, 16, r10;
mov.u32 r11, data;
add.u32 r11, r11, 32768;
mov.u32 r12, 0;
mov.u32 r13, %ntid.x;
shl.b32 r13, r13, 4;
ZERO: st.shared.v4.u32 [r10], {{r12, r12, r12, r12}};
add.u32 r10, r10, r13;
setp.lt.u32 q, r10, r11;
@q bra ZERO;
fence.proxy.async.shared::cta;
{body}
ret;
}}
"""

ALLOC = "@p tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;\n"
DEALLOC = "bar.sync 0;\n@p tcgen05.dealloc.cta_group::1.sync.aligned.b32 taddr, 128;\n"
SETUP = f"""{ALLOC}@one mbarrier.init.shared::cta.b64 [barrier], 1;
bar.sync 0;
ld.shared.u32 taddr, [slot];
shl.b32 mine, warp, 21;
add.u32 mine, mine, taddr;
"""
MMA = "@one tcgen05.mma.cta_group::1.kind::f16 [taddr], ad, bd, id, e;\n"
COMMIT = "@one tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [barrier];\n"
WAIT = "W: mbarrier.try_wait.parity.shared::cta.b64 q, [barrier], 0;\n@!q bra W;\ntcgen05.fence::after_thread_sync;\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r1}, [mine];\n"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [mine], {tid};\n"
SAVE = "st.global.u32 [at], r1;\n"
FILLED = f"{STORE}tcgen05.wait::st.sync.aligned;\n"
LOADED = f"{LOAD}tcgen05.wait::ld.sync.aligned;\n{SAVE}"

A = SharedMemoryDescriptor(start=0x400, leading=16, stride=1024, swizzle="128B")
B = SharedMemoryDescriptor(start=0x4400, leading=16, stride=1024, swizzle="128B")
F16 = InstructionDescriptor(kind="f16", m=128, n=64, a="f16", b="f16")


@dataclass(frozen=True)
class Mistake:
    """A kernel body, the code of the finding, and what the launch is given."""

    body: str
    code: str
    text: str = ""
    """Part of the message."""
    ids: int = int(F16)
    a: int = int(A)
    b: int = int(B)
    zero: int = 0
    threads: int = 128
    ctas: int = 1
    target: str = "sm_100a"
    directives: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def product(code: str, text: str, mma: str = MMA, **given: Any) -> Mistake:
    """A kernel that is right but for what one product is given."""
    return Mistake(SETUP + mma + COMMIT + WAIT + DEALLOC, code, text, **given)


def idesc(**fields: Any) -> int:
    return int(InstructionDescriptor(**{"kind": "f16", "m": 128, "n": 64, "a": "f16", "b": "f16", **fields}))


def access(instruction: str, code: str, text: str, **given: Any) -> Mistake:
    return Mistake(f"{SETUP}{instruction}\ntcgen05.wait::ld.sync.aligned;\n{DEALLOC}", code, text, **given)


def collector(first: str, second: str, code: str, text: str) -> Mistake:
    lines = [MMA.replace("f16 ", f"f16.collector::a::{use} ") if use else MMA for use in (first, *second.split())]
    return product(code, text, "".join(lines))


OTHER_THREAD = MMA.replace("@one", "setp.eq.u32 q, tid, 32;\n@q")
OTHER_A = MMA.replace("f16 ", "f16.collector::a::use ").replace("ad,", "bd,")
WS = "@one tcgen05.mma.ws.cta_group::1.kind::f16 [taddr], ad, bd, id, e, zd;\n"
ASHIFT = "@one tcgen05.mma.cta_group::1.kind::f16.ashift [taddr], [taddr+64], bd, id, e;\n"
MXF4 = "@one tcgen05.mma.cta_group::1.kind::mxf4.block_scale [taddr], ad, bd, id, [taddr+64], [taddr+72], e;\n"
HALVES = "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {{r1}}, [mine], {0};"
TWO = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;\n"

SHOWN: dict[str, Mistake] = {
    # instruction descriptors
    "idesc all zeros": product("D703", "M = 0", ids=0),
    "idesc all ones": product("D701", "is not legal", ids=0xFFFFFFFF),
    "idesc M = 48": product("D703", "M = 48", ids=idesc(m=48)),
    "idesc M = 256 with cta_group::1": product("D703", "M = 256", ids=idesc(m=256)),
    "idesc reserved bits": product("D701", "bit 6", ids=int(F16) | 1 << 6),
    "idesc invalid atype": product("D701", "invalid code 5", ids=int(F16) | 5 << 7),
    "idesc sparse bit on a dense mma": product("D701", "says sparse", ids=int(F16) | 4),
    "idesc of another kind": product("D701", "invalid code", ids=int(InstructionDescriptor(kind="tf32", m=128, n=64, a="tf32", b="tf32"))),
    "idesc K = 96 on sm_100a": product("D703", "K = 96 needs sm_103a", MXF4, ids=idesc(kind="mxf4", a="e2m1", b="e2m1", k96=True)),
    # shared memory descriptors
    "smem descriptor zero": product("D702", "bits 46-48", a=0),
    "smem descriptor fixed bits": product("D702", "bits 46-48", b=int(B) ^ 1 << 47),
    "smem descriptor swizzle 3": product("D702", "invalid code 3", a=int(A) | 1 << 61),
    "smem descriptor swizzle 7": product("D702", "invalid code 7", a=int(A) | 7 << 61),
    "ashift with M = 64": product("D703", "M = 64 with .ashift", ASHIFT, ids=idesc(m=64)),
    "zero-column mask reserved bits": product("D702", "bits 36-38", WS, ids=idesc(m=64), zero=1 << 36),
    # loads and stores
    "immHalfSplitoff -16": access(HALVES.format(-16), "T622", "beyond column 511"),
    "immHalfSplitoff 65536": access(HALVES.format(65536), "T622", "beyond column 511"),
    "immHalfSplitoff 2^32-1": access(HALVES.format(0xFFFFFFFF), "T622", "beyond column 511"),
    "lane out of range": access(f"add.u32 mine, taddr, {200 << 16};\n{LOAD}", "T623", "cannot reach"),
    "lane misaligned": access(f"add.u32 mine, mine, {8 << 16};\n{LOAD}", "T623", "cannot reach"),
    "lanes of another warp": access(f"add.u32 mine, taddr, {32 << 16};\n{LOAD}", "T623", "cannot reach"),
    "column out of range": access(f"add.u32 mine, mine, 600;\n{LOAD}", "T622", "beyond column 511"),
    "column not allocated": access(f"add.u32 mine, mine, 128;\n{LOAD}", "T621", "column 128"),
    "D out of range": product("T607", "columns 480 to 543", MMA.replace("[taddr]", "[taddr+480]")),
    "D at a wrong lane": product("T611", "lane 16", MMA.replace("[taddr]", f"[taddr+{16 << 16}]")),
    "shift at a wrong lane": product("T611", "lane 16", f"@one tcgen05.shift.cta_group::1.down [taddr+{16 << 16}];\n"),
    # allocation
    "nCols 33 in a register": Mistake("mov.u32 n, 33;\n" + ALLOC.replace("128", "n"), "T601", "nCols is 33"),
    "nCols 1024 in a register": Mistake("mov.u32 n, 1024;\n" + ALLOC.replace("128", "n"), "T601", "nCols is 1024"),
    "missing dealloc": Mistake(SETUP, "T605", "exits with 128 columns"),
    "double dealloc": Mistake(SETUP + DEALLOC + DEALLOC, "T604", "no allocation starts at column 0"),
    "mismatched dealloc": Mistake(SETUP + DEALLOC.replace("128", "64"), "T604", "has 128 columns, not 64"),
    "dealloc of what was never allocated": Mistake("mov.u32 taddr, 64;\n" + DEALLOC, "T604", "no allocation starts at column 64"),
    "growing allocations": Mistake(
        ALLOC.replace("128", "32") + ALLOC.replace("slot", "slot+4") + "bar.sync 0;\n"
        "ld.shared.u32 taddr, [slot+4];\n" + DEALLOC + "ld.shared.u32 taddr, [slot];\n" + DEALLOC.replace("128", "32"),
        "T608",
        "128 columns are allocated after an allocation of 32",
    ),
    "512 and 512": Mistake(ALLOC.replace("128", "512") * 2, "H601", "no warp can continue"),
    "alloc after relinquish": Mistake(
        "@p tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" + ALLOC, "T602", "after one of its threads"
    ),
    "alloc under a predicate of one thread": Mistake(ALLOC.replace("@p", "@one"), "B517", "its predicate is false in lanes 1-31"),
    "alloc to a misaligned address": Mistake(ALLOC.replace("[slot]", "[slot+2]"), "T603", "not an aligned 4-byte word"),
    "alloc to global memory": Mistake(
        ALLOC.replace("shared::cta.", "").replace("[slot]", "[gvar]"), "M407", "not an address in shared memory"
    ),
    # completion
    "commit to a misaligned mbarrier": product("B501", "aligned to 8", MMA + COMMIT.replace("[barrier]", "[barrier+4]")),
    "commit to global memory": product("M407", "not an address in shared memory", MMA + COMMIT.replace("[barrier]", "[gvar]")),
    "commit with nothing pending": product("T633", "arrives at once", ""),
    "commit in another thread than the mma": product("T633", "arrives at once", OTHER_THREAD),
    # collector buffers
    "collector use without a fill": collector("use", "", "T631", "nothing has filled it"),
    "collector use after lastuse": collector("fill", "lastuse use", "T631", "discarded"),
    "collector use after discard": collector("fill", "discard lastuse", "T631", "discarded"),
    "collector use with another A": product("T632", "another matrix A", MMA.replace("f16 ", "f16.collector::a::fill ") + OTHER_A),
    # CTA pairs and whole warps
    "cta_group::2 without a cluster": Mistake(TWO, "T609", "needs the peer CTA", threads=32),
    "cta_group::2 in a cluster of 1": Mistake(TWO, "T609", "needs the peer CTA", threads=32, options={"cluster": 1}),
    "cta_group::2 in a cluster of 3": Mistake(TWO, "T609", "CTA (2, 0, 0)", threads=32, ctas=3, options={"cluster": 3}),
    "alloc in divergent code": Mistake(f"@!one bra L;\n{ALLOC}L:\nbar.sync 0;\n", "H605", "lanes 0 only"),
    "ld in divergent code": access(f"@!one bra L;\n{LOAD}L:\n", "H605", "lanes 0 only"),
    "alloc with .reqntid 16": Mistake(ALLOC, "T626", "32 threads", threads=16, directives=".reqntid 16"),
    "ld after threads have exited": access(f"setp.eq.u32 q, lane, 5;\n@q exit;\n{LOAD}", "T626", "32 threads"),
}

FRAGMENT = "{" + ", ".join(f"f{i}" for i in range(8)) + "}"
WGMMA = f"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {FRAGMENT}, ad, bd, 1, 1, 1, 0, 0;\n"
FROM_REGISTERS = (
    "mov.b32 r1, 0;\nmov.b32 r2, 0;\nmov.b32 r3, 0;\nmov.b32 r4, 0;\n"
    f"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {FRAGMENT}, {{r1, r2, r3, r4}}, bd, 1, 1, 1, 0;\n"
)
ZEROS = "".join(f"mov.f32 f{i}, 0f00000000;\n" for i in range(8))
FENCE, GROUP, DONE = (f"wgmma.{word}.sync.aligned{tail};\n" for word, tail in (("fence", ""), ("commit_group", ""), ("wait_group", " 0")))
USE = "st.global.f32 [at], f0;\n"


def wgmma(body: str, code: str = "", text: str = "", **given: Any) -> Mistake:
    a = 0x400 >> 4 | 1 << 16 | 64 << 32 | 1 << 62
    return Mistake(ZEROS + body, code, text, a=a, b=a, target="sm_90a", **given)


SHOWN |= {
    "wgmma without wait_group": wgmma(FENCE + WGMMA + GROUP + USE, "R805", "may still write to it"),
    "wgmma overwriting D in flight": wgmma(f"{FENCE}{WGMMA}{GROUP}mov.f32 f0, 0f00000000;\n{DONE}{USE}", "R805", "may still write"),
    "wgmma with .reqntid 96": wgmma(FENCE + WGMMA + GROUP + DONE + USE, "W901", "warpgroup", threads=96, directives=".reqntid 96"),
}

ORDERING: dict[str, Mistake] = {
    "ld without wait before the columns are stored to": Mistake(
        f"{SETUP}{FILLED}{LOAD}{STORE}tcgen05.wait::st.sync.aligned;\n{SAVE}{DEALLOC}", "X108", "neither consumed nor awaited"
    ),
    "st and ld without wait::st": Mistake(f"{SETUP}{STORE}{LOADED}{DEALLOC}", "X107", "no tcgen05.wait::st"),
    "mma and ld without commit": Mistake(f"{SETUP}{MMA}bar.sync 0;\n{LOADED}{COMMIT}{WAIT}{DEALLOC}", "X105", "tcgen05.ld reads"),
    "mma and ld without a wait on the commit": Mistake(
        f"{SETUP}{MMA}{COMMIT}bar.sync 0;\n{LOADED}{WAIT}{DEALLOC}", "X105", "nothing has waited for its completion"
    ),
    "ld of columns that nothing has written": Mistake(f"{SETUP}{LOADED}{DEALLOC}", "T614", "which nothing has written"),
    "a second ld of columns that nothing has written": Mistake(
        f"{SETUP}{LOAD}{LOADED}{DEALLOC}", "T614", "tcgen05.ld reads tensor memory column 0, lanes 0-127, which nothing has written"
    ),
    "A written without a proxy fence before the mma": Mistake(
        f"{SETUP}@one st.shared.u32 [data], tid;\n{MMA}{COMMIT}{WAIT}{DEALLOC}", "X102", "no proxy fence stands between"
    ),
    "A overwritten while the mma may read it": Mistake(
        f"{SETUP}{MMA}@one st.shared.u32 [data], tid;\n{COMMIT}{WAIT}{DEALLOC}", "X106", "nothing has waited for its completion"
    ),
    "two threads multiply into one D": Mistake(
        f"{SETUP}{MMA}{OTHER_THREAD}{COMMIT}{WAIT}{DEALLOC}",
        "X105",
        "tcgen05.mma writes",
    ),
}
IN_REGISTERS: dict[str, Mistake] = {
    "wgmma without wgmma.fence": wgmma(WGMMA + GROUP + DONE + USE, "R807", "since the last wgmma.fence"),
    "wgmma overwriting A in registers in flight": wgmma(
        f"{FENCE}{FROM_REGISTERS}{GROUP}mov.b32 r1, 0;\n{DONE}{USE}", "R806", "may still read it"),
    "wgmma products of two groups into one D without wait": wgmma(FENCE + WGMMA + GROUP + WGMMA.replace("m64n16", "m64n8").replace(
        FRAGMENT, "{f0, f1, f2, f3}") + GROUP + DONE + USE, "R805", "may still write to it"),
}  # fmt: skip
"""Registers of wgmma in flight; that the vendor's assembler repairs the first, and serialises, is no help on other compilers."""


def diagnostics(mistake: Mistake, policy: str = "eager") -> list[Any]:
    text = MODULE.format(body=mistake.body, target=mistake.target, directives=mistake.directives)
    out = np.zeros(1024, np.uint32)
    options = {"grid": mistake.ctas, "block": mistake.threads, "max_instructions": 1_000_000, **mistake.options}
    args = [out, mistake.a, mistake.b, mistake.ids, mistake.zero]
    return list(ptxlab.loads(text).kernel().launch(args=args, policy=policy, check="all", **options).diagnostics)


@pytest.mark.parametrize("name", SHOWN | ORDERING)
def test_mistakes(name: str) -> None:
    mistake = (SHOWN | ORDERING)[name]
    for policy in ("eager", "lazy"):
        found = [d for d in diagnostics(mistake, policy) if d.code == mistake.code]
        assert found, [str(d) for d in diagnostics(mistake, policy)]
        assert mistake.text in found[0].message
        assert found[0].reason or mistake.code[0] == "H"
        assert found[0].place is not None or mistake.code in ("T605", "H601")


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("name", IN_REGISTERS)
def test_registers_in_flight(name: str, policy: str) -> None:
    mistake = IN_REGISTERS[name]
    found = next(d for d in diagnostics(mistake, policy) if d.code == mistake.code)
    assert mistake.text in found.message


EIGHT = "{" + ", ".join(["tid"] * 8) + "}"
READY = "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n"


def test_the_kernel_without_a_mistake() -> None:
    """What the mistakes are made in is right."""
    right = [
        product("", ""),
        collector("fill", "use lastuse", "", ""),
        product("", "", WS, ids=idesc(m=64)),
        product("", "", f"tcgen05.st.sync.aligned.32x32b.x8.b32 [mine+64], {EIGHT};\n{READY}{ASHIFT}"),
        Mistake(f"{SETUP}{STORE}tcgen05.wait::st.sync.aligned;\n{LOADED}{DEALLOC}", ""),
        wgmma(FENCE + WGMMA + GROUP + DONE + USE),
    ]
    for mistake in right:
        for policy in ("eager", "lazy", "random"):
            assert [str(d) for d in diagnostics(mistake, policy)] == []


def test_a_descriptor_with_wrong_bits_is_given_right() -> None:
    for wrong in (int(B) ^ 1 << 47, int(B) ^ 1 << 53):
        found = next(d for d in diagnostics(product("D702", "", b=wrong)) if d.code == "D702")
        assert found.fix == f"write {int(B):#018x}, which differs in these bits only"


def test_what_was_written_near_columns_that_were_not() -> None:
    """Warp 0 writes one column of its lanes, and all warps read it."""
    first = "@p tcgen05.st.sync.aligned.32x32b.x1.b32 [mine], {tid};\n@p tcgen05.wait::st.sync.aligned;\n"
    late = Mistake(f"{SETUP}setp.lt.u32 p, tid, 32;\n{first}bar.sync 0;\n{LOADED}{DEALLOC}", "T614")
    found = next(d for d in diagnostics(late) if d.code == "T614")
    line = found.place.line
    assert dict(found.details)["written"].startswith("tensor memory column 0, lanes 0-31 by warp 0 of CTA (0, 0, 0) at line ")
    assert found.fix == f"let line {line} read the columns and lanes that were written: its address, its shape and the warp decide"
    nothing = next(d for d in diagnostics(ORDERING["ld of columns that nothing has written"]) if d.code == "T614")
    assert "written" not in dict(nothing.details)
    assert nothing.fix.startswith("write the columns before line ")


def test_shapes_that_end_before_the_last_column() -> None:
    """With as many registers; none, where the column itself is too high."""
    eight = "{r0, r1, r2, r3, r4, r5, r6, r7}"
    load = "add.u32 mine, mine, 504;\ntcgen05.ld.sync.aligned.16x64b.x8.b32 " + eight + ", [mine];"
    found = next(d for d in diagnostics(access(load, "T622", "")) if d.code == "T622")
    assert found.fix == (
        "correct the column, bits 0-15 of the address, or the offset of the second half; "
        "the shape .32x32b.x8 has as many registers and ends at column 511"
    )
    found = next(d for d in diagnostics(SHOWN["column out of range"]) if d.code == "T622")
    assert found.fix.endswith("the offset of the second half")
