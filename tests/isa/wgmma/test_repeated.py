"""Instructions of warpgroups that compiled code repeats: the same bits, statistics and findings as with handlers that are always called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.engine.repetitions import Repetitions
from ptxlab.isa.wgmma._state import Warpgroup
from ptxlab.machine.warp import context_words
from ptxlab.numerics import MmaProgram

from . import wgmma_helpers as bench

A = int(WgmmaDescriptor(start=0x400, leading=128, stride=256))
B = int(WgmmaDescriptor(start=0x2400, leading=128, stride=256))
STEP = 2048 >> 4
"""What is added to a descriptor for the next matrix."""
COMMIT, WAIT, FENCE = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned", "wgmma.fence.sync.aligned;"
IN_REGISTERS, SPARSE = "{%a0, %a1, %a2, %a3}", ".sp"


def product(types: str, n: int, k: int, a: str = "%da", p: str = "%p", d: str = "d", sparse: bool = False) -> str:
    count = n // 2 // (2 if types.startswith("f16") else 1)
    ds = ", ".join(f"%{d}{j}" for j in range(count))
    scales = "" if types.startswith("s32") else ", 1, -1"
    transposed = "" if "f16" not in types.split(".")[1] else ", 0" if a == IN_REGISTERS else ", 0, 0"
    metadata = "%m, 0, " if sparse else ""
    name = f"wgmma.mma_async{SPARSE if sparse else ''}.sync.aligned.m64n{n}k{k}.{types}"
    return f"{name} {{{ds}}}, {a}, %db, {metadata}{p}{scales}{transposed};"


def module(loop: str, times: int = 12, registers: int = 64, before: str = "", float_values: bool = True) -> str:
    """Each warpgroup executes ``loop`` with %i from 0 on, matrices that change, and %p, which is false at first and sometimes later."""
    value = "and.b32 %x, %x, 0x3fff3fff; or.b32 %x, %x, 0x20002000;" if float_values else ""
    store = "".join(f"st.global.b32 [%o+{4 * j}], %d{j};" for j in range(registers))
    store += "".join(f"st.global.b32 [%o+{4 * (registers + j)}], %e{j};" for j in range(registers))
    return bench.head(
        ".param .u64 o",
        f".reg .pred %p, %q, %r; .reg .b32 %d<{registers}>, %e<{registers}>, %a<4>, %t, %i, %j, %x, %w, %m, %g, %s; "
        ".reg .b64 %o, %da, %db, %v, %z; .shared .align 1024 .b8 mem[24576];",
        f"""
ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x; mov.u32 %s, %ntid.x; mad.lo.u32 %s, %x, %s, %t;
mad.wide.u32 %o, %s, {8 * registers}, %o; shr.u32 %w, %t, 5; shr.u32 %g, %t, 7; mov.b32 %m, 0x44444444;
{"".join(f"mov.b32 %d{j}, %t; mov.b32 %e{j}, 0;" for j in range(registers))}
mov.u32 %i, %t;
fill:
mul.lo.u32 %x, %i, 0x9E3779B1; shr.u32 %j, %x, 15; xor.b32 %x, %x, %j; {value}
mad.lo.u32 %j, %i, 4, mem; st.shared.b32 [%j], %x; mov.u32 %j, %ntid.x; add.u32 %i, %i, %j; setp.lt.u32 %q, %i, 6144; @%q bra fill;
fence.proxy.async.shared::cta; bar.sync 0;
mov.u32 %i, 0; setp.ne.u32 %p, %i, 0; {before}
again:
and.b32 %j, %i, 1; mul.wide.u32 %v, %j, {STEP}; add.u64 %da, %v, {A:#x};
and.b32 %j, %i, 3; mad.lo.u32 %j, %g, 2, %j; mul.wide.u32 %v, %j, {STEP}; add.u64 %db, %v, {B:#x};
{"".join(f"mad.lo.u32 %x, %i, 77, {j}; mad.lo.u32 %x, %x, 0x85EBCA6B, %t; {value} mov.b32 %a{j}, %x;" for j in range(4))}
{loop}
add.u32 %i, %i, 1; rem.u32 %j, %i, 5; setp.ne.u32 %p, %j, 3; setp.lt.u32 %q, %i, {times}; @%q bra again;
{WAIT} 0;
{store}
""",
    )


def launched(text: str, monkeypatch: pytest.MonkeyPatch, threads: int = 256, **options: Any) -> tuple[int, list[Any]]:
    """How many executions were known, and what launches have in common: two with them, and one without."""
    kernel, known, found, called = ptxlab.loads(text).kernel(), [], [], []
    add, issue = Repetitions.add, Warpgroup.issue
    with monkeypatch.context() as patch:
        patch.setattr(MmaProgram, "optimised", True)
        patch.setattr(Repetitions, "add", lambda self, *given: (known.append(given), add(self, *given)))
        patch.setattr(Warpgroup, "issue", lambda self, *given: (called.append(given), issue(self, *given))[1])
        calls = []
        for repeats in (True, True, False):
            called.clear()
            if not repeats:
                patch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
            out = np.zeros((2 * threads, 256), np.uint32)
            result = kernel.launch(grid=(2,), block=(threads,), args=[out], **({"check": "none"} | options))
            stats = result.stats.instructions, result.stats.services
            found.append((out.tobytes(), stats, [str(each) for each in result.diagnostics], result.completed))
            calls.append(len(called))
    assert found[0] == found[2]
    assert found[1] == found[2]
    assert max(calls[:2]) < calls[2] if known else (calls[0] == calls[1] == calls[2])
    return len(known), found


LOOPS = {
    "f16": FENCE + product("f32.f16.f16", 64, 16) + product("f32.f16.f16", 64, 16, p="1") + COMMIT + f"{WAIT} 0;",
    "two D": FENCE + product("f32.bf16.bf16", 32, 16) + COMMIT + product("f32.bf16.bf16", 32, 16, d="e", p="1") + COMMIT + f"{WAIT} 1;",
    "in flight": FENCE + product("f32.e4m3.e5m2", 64, 32) + COMMIT + f"{WAIT} 2;",
    "f16 D": FENCE + product("f16.f16.f16", 128, 16) + COMMIT + f"{WAIT} 0;",
    "tf32": FENCE + product("f32.tf32.tf32", 40, 8) + COMMIT + f"{WAIT} 0;",
    "A in registers": FENCE + product("f32.f16.f16", 64, 16, IN_REGISTERS) + COMMIT + f"{WAIT} 0;",
    "A of bytes in registers": FENCE + product("f32.e5m2.e4m3", 64, 32, IN_REGISTERS) + COMMIT + f"{WAIT} 0;",
    "sparse": FENCE + product("f32.f16.f16", 32, 32, sparse=True) + product("f32.f16.f16", 32, 16, p="1") + COMMIT + f"{WAIT} 0;",
    "overlapping D": FENCE
    + product("f32.f16.f16", 64, 16)
    + COMMIT
    + f"{WAIT} 0;{FENCE}"
    + product("f32.f16.f16", 32, 16, p="1")
    + COMMIT
    + f"{WAIT} 0;",
    "no waits": FENCE + product("f32.f16.f16", 64, 16) * 5 + COMMIT,
    "turns": "and.b32 %j, %w, 3; setp.ne.u32 %r, %j, 1; @%r bra on; mov.u32 %j, 0; spin: add.u32 %j, %j, 1; setp.lt.u32 %r, %j, 300;"
    " @%r bra spin; on:" + FENCE + product("f32.f16.f16", 64, 16) + COMMIT + f"{WAIT} 1;",
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("threads", [128, 256])
def test_the_same_bits_and_statistics(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    times = 40 if name == "no waits" else 12
    known, found = launched(module(LOOPS[name], times), monkeypatch, threads)
    assert known
    assert found[0][3]


@pytest.mark.parametrize("name", LOOPS)
def test_the_same_bits_as_of_later_operations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(LOOPS[name], 40 if name == "no waits" else 12)
    _, soon = launched(text, monkeypatch)
    _, later = launched(text, monkeypatch, policy="lazy")
    assert soon[0][0] == later[0][0]


def test_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = FENCE + product("s32.s8.u8", 64, 32) + product("s32.s8.u8", 64, 32, p="1") + COMMIT + f"{WAIT} 0;"
    known, _ = launched(module(loop, float_values=False), monkeypatch)
    assert known


@pytest.mark.parametrize("name", ["f16", "f16 D", "A in registers"])
@pytest.mark.parametrize("adds", [False, True])
def test_registers_that_nothing_has_written(name: str, adds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first product defines D, or adds to its undefined bits, which then stay until a product that does not add."""
    text = re.sub(r"mov\.b32 %d\d+, %t;", "", module(LOOPS[name], before="setp.eq.u32 %p, %i, 0;" if adds else ""))
    known, found = launched(text, monkeypatch, check=("register",))
    assert known
    assert found[0][3]


@pytest.mark.parametrize(
    "options", [{"policy": "lazy"}, {"policy": "random", "seed": 3}, {"check": "all", "model": "spec"}, {"trace": None}], ids=str
)
def test_nothing_is_repeated(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where operations perform later, and where an observer has no functions for it."""
    if "trace" in options:
        options = {"trace": tmp_path / "trace"}
    known, _ = launched(module(LOOPS["two D"]), monkeypatch, **options)
    assert not known


def test_registers_that_are_used_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program could tell when D is written."""
    loop = FENCE + product("f32.f16.f16", 64, 16) + "add.u32 %x, %d0, %d1; xor.b32 %e0, %e0, %x;" + COMMIT + f"{WAIT} 0;"
    known, _ = launched(module(loop), monkeypatch)
    assert not known


MISTAKES = {
    "another descriptor": "setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 2, %r; @%r add.u64 %db, %db, 16;",
    "another predicate": "setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 1, %r; @%r setp.ne.u32 %p, 0, 0;",
    "a descriptor that differs in the warp": "setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %t, 37, %r; @%r add.u64 %db, %db, 16;",
    "a warp that leaves": f"setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 3, %r; @%r bra out; bra.uni on; out: {WAIT} 0; exit; on:",
    "a warp that passes over one": "setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 0, %r; @%r bra again_later; bra.uni on;"
    " again_later: add.u32 %i, %i, 1; on:",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_findings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known, found = launched(module(MISTAKES[name] + LOOPS["f16"]), monkeypatch)
    assert known
    assert found[0][2]


def test_another_instruction_in_one_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    one = product("f32.f16.f16", 64, 16)
    loop = f"setp.eq.u32 %r, %i, 9; setp.eq.and.u32 %r, %w, 2, %r; {FENCE} @%r bra other; {one} bra.uni done; other: {one} done:"
    known, found = launched(module(loop + COMMIT + f"{WAIT} 0;"), monkeypatch)
    assert known
    assert "the instruction is" in found[0][2][0]


def test_executions_that_leave_a_full_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions that compiled code has begun go on with handlers."""
    monkeypatch.setattr("ptxlab.engine.repetitions._MOST", 6)
    known, _ = launched(module(LOOPS["f16"], 30), monkeypatch)
    assert known > 20
