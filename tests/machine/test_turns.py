"""Barriers that compiled code completes, and warps that it lets run: results, statistics and findings as by the scheduler alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.check.race.clocks.clusters import Clusters
from ptxlab.diagnostics import render_text
from ptxlab.engine.llvm.executable import Executable
from ptxlab.engine.turns.words import arrivals
from ptxlab.machine.launch import launch as launching
from tests.machine.launch_helpers import kernel, store

SHARED = ".shared .align 4 .b32 data[256];"
MINE = "mov.u32 r10, data; shl.b32 r11, tid, 2; add.u32 r10, r10, r11;"
Outcome = tuple[Any, ...]


def outcome(body: str, threads: int, ctas: int, options: dict[str, Any], alone: bool) -> Outcome:
    """What a launch does, with the clocks of its warps at the end; ``alone``: the scheduler chooses each warp."""
    clocks: list[Any] = []
    out = np.zeros(threads * ctas + 64, np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(launching, "turns_of", lambda launch, executable: None)
        patch.setattr(Clusters, "leave", lambda self, ended: clocks.append(ended.rows.tolist()))
        made = kernel(MINE + body, shared=SHARED)
        result = made.launch(grid=ctas, block=threads, args=[out], max_instructions=400_000, **options)
    stats = result.stats
    return (out.tolist(), clocks), stats.instructions, stats.services, stats.ctas, render_text(result.diagnostics)


def agree(body: str, threads: int, ctas: int = 2, **options: Any) -> Outcome:
    """Both ways; what they do."""
    alone, shared = (outcome(body, threads, ctas, options, alone) for alone in (True, False))
    assert alone == shared
    return shared


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of compiled code that may let several warps run."""
    made: list[int] = []
    run_turns: Callable[..., Any] = Executable.run_turns

    def count(self: Executable, *args: Any) -> Any:
        run = run_turns(self, *args)
        return lambda context: made.append(1) or run(context)  # type: ignore[func-returns-value]

    monkeypatch.setattr(Executable, "run_turns", count)
    return made


EXCHANGE = """
    mov.u32 r1, 0;
    sub.u32 r12, size, tid; sub.u32 r12, r12, 1; shl.b32 r12, r12, 2; mov.u32 r13, data; add.u32 r13, r13, r12;
LOOP:
    add.u32 r2, tid, r1; st.shared.u32 [r10], r2;
    bar.sync 0;
    ld.shared.u32 r3, [r13]; add.u32 r4, r4, r3;
    barrier.sync 0;
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, 20; @q bra LOOP;
""" + store("r4")


@pytest.mark.parametrize("check", ["none", "all", "operands"])
@pytest.mark.parametrize("threads", [128, 32, 100])
def test_barriers_of_whole_ctas_need_no_return(check: str, threads: int, runs: list[int]) -> None:
    """Each warp begins and exits by the scheduler; 32 turns of a cluster end there, too."""
    body = "mov.u32 r4, 0;" + EXCHANGE
    options = {"check": (check,) if check == "operands" else check}
    outcome(body, threads, 1, options, alone=False)
    runs.clear()
    _, _, services, _, findings = outcome(body, threads, 1, options, alone=False)
    assert findings == ""
    warps = -(-threads // 32)
    assert services == {"bar.sync": 20 * warps, "barrier.sync": 20 * warps}
    assert len(runs) <= 2 * warps + 40 * (warps - 1) // 32 + 2
    agree(body, threads, check=options["check"])


GROUPS = """
    mov.u32 r1, 0; mov.u32 r4, 0; xor.b32 r12, r11, 128; mov.u32 r13, data; add.u32 r13, r13, r12;
    setp.ge.u32 p, warp, 2; @p bra.uni OTHERS;
FIRST:
    st.shared.u32 [r10], r1; bar.sync 1, 64; ld.shared.u32 r3, [r13]; add.u32 r4, r4, r3; barrier.sync.aligned 3, 64;
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, 20; @q bra FIRST;
    bra.uni JOIN;
OTHERS:
    st.shared.u32 [r10], r1; bar.sync 2, 64; ld.shared.u32 r3, [r13]; add.u32 r4, r4, r3; {}
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, 20; @q bra OTHERS;
JOIN: bar.sync 0;
"""


@pytest.mark.parametrize("check", ["none", "all", "race"])
@pytest.mark.parametrize("last", ["bar.sync 4, 64;", ""])
def test_barriers_of_parts_of_ctas_need_no_return(check: str, last: str, runs: list[int]) -> None:
    """Only those who meet are ordered: without the second barrier two of the warps race."""
    body = GROUPS.format(last) + store("r4")
    options = {"check": (check,) if check == "race" else check}
    outcome(body, 128, 1, options, alone=False)
    runs.clear()
    *_, findings = outcome(body, 128, 1, options, alone=False)
    assert bool(findings) == (check != "none" and not last)
    if not findings:
        assert len(runs) <= 2 * 4 + 160 // 32 + 2
    agree(body, 128, check=options["check"])


NUMBERS = {
    "before the loop": ("mov.u32 r8, 3; mov.u32 r9, 128;", "", True),
    "on all paths": ("mov.u32 r8, 3; setp.lt.u32 p, tid, 500; @p bra ON; mov.u32 r9, 128; bra ON; ON: mov.u32 r9, 128;", "", False),
    "on one path": ("mov.u32 r8, 3; mov.u32 r9, 128; setp.gt.u32 p, tid, 500; @!p bra ON; mov.u32 r8, 4; ON:", "", False),
    "on the path that is executed": ("mov.u32 r9, 128; setp.lt.u32 p, tid, 500; @!p bra ON; mov.u32 r8, 3; ON:", "", False),
    "by some lanes": ("mov.u32 r9, 128; setp.lt.u32 p, tid, 500; @p mov.u32 r8, 3;", "", False),
    "in the loop": ("mov.u32 r9, 128; mov.u32 r8, 3;", "add.u32 r8, r8, 1;", False),
    "no number": ("mov.u32 r9, 128; mov.u32 r8, warp; and.b32 r8, r8, 0;", "", False),
    "another one in the block": ("mov.u32 r9, 128; mov.u32 r8, 3;", "mov.u32 r8, 5;", True),
}
"""What stands before a loop and in it, and whether the numbers of the barrier are certain."""


@pytest.mark.parametrize("check", ["none", "race"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_barriers_that_other_blocks_move_to_registers(name: str, check: str) -> None:
    before, step, certain = NUMBERS[name]
    body = f"""
        mov.u32 r1, 0; {before}
    LOOP:
        st.shared.u32 [r10], r1; {step}
        bar.sync r8, r9;
        add.u32 r1, r1, 1; setp.lt.u32 q, r1, 5; @q bra LOOP;
    """ + store("tid")
    *_, findings = agree(body, 128, check=check if check == "none" else (check,))
    assert findings == ""
    program, _ = kernel(MINE + body, shared=SHARED).variant(True, check == "race")
    (barrier,) = (op for op in program.ops if op.opcode == "bar.sync")
    assert bool(arrivals(program)[barrier.index]) == certain


FENCED = """
    mov.u32 r1, 0; setp.eq.u32 p, warp, {warp};
LOOP:
    @p fence.acq_rel.cta;
    bar.sync 0;
    add.u32 r1, r1, 1; setp.lt.u32 q, r1, 20; @q bra LOOP;
""" + store("tid")


@pytest.mark.parametrize("warp", [0, 1, 3])
def test_barriers_after_rows_that_the_race_check_handles_itself(warp: int, runs: list[int]) -> None:
    """The warp returns with its row in each round, and compiled code counts its arrival after that; the others need no return."""
    body = FENCED.format(warp=warp)
    outcome(body, 128, 1, {"check": ("race",)}, alone=False)
    runs.clear()
    outcome(body, 128, 1, {"check": ("race",)}, alone=False)
    assert len(runs) <= 20 + 2 * 4
    agree(body, 128, check="all")


PARTS = """
    setp.lt.u32 p, warp, 2; @p bra FIRST;
    mov.u32 r1, 0;
B:  st.shared.u32 [r10], tid; bar.sync 2, 64; add.u32 r1, r1, 1; setp.lt.u32 q, r1, 5; @q bra B;
    bra.uni JOIN;
FIRST:
    mov.u32 r1, 0;
A:  st.shared.u32 [r10], tid; bar.sync 1, 64; add.u32 r1, r1, 1; setp.lt.u32 q, r1, 9; @q bra A;
JOIN: bar.sync 0;
    sub.u32 r2, 508, r11; mov.u32 r13, data; add.u32 r13, r13, r2; ld.shared.u32 r4, [r13];
""" + store("r4")
EXITS = """
    setp.eq.u32 p, warp, 3; @p bra SPIN;
    bar.sync 0; bra.uni END;
SPIN: mov.u32 r1, 0;
S:  add.u32 r1, r1, 1; setp.lt.u32 q, r1, 2000; @q bra S;
    ret;
END:
""" + store("tid")
MIXED = """
    bar.sync 0;
    setp.eq.u32 p, warp, 0; @p bra.uni PRODUCE;
    bar.sync 1, 128;
    bra.uni GO;
PRODUCE: st.shared.u32 [r10], tid; bar.arrive 1, 128;
GO: setp.gt.u32 t, tid, 5; bar.red.popc.u32 r4, 0, t;
    bar.sync 0;
""" + store("r4")
DIVERGED = """
    setp.lt.u32 p, lane, 7; @p bra FEW;
    barrier.sync 0; bra.uni JOIN;
FEW: mov.u32 r1, 5; barrier.sync 0;
JOIN: barrier.sync 0; barrier.sync 0;
""" + store("tid")
FLAG = """
    setp.eq.u32 p, cta, 0; @p bra FIRST;
S:  ld.acquire.gpu.global.u32 r2, [out+1024]; setp.ne.u32 q, r2, 7; @q bra S;
    bar.sync 0; ld.global.u32 r3, [out+1032];
    bra.uni END;
FIRST: mov.u32 r2, 7; bar.sync 0; st.global.u32 [out+1032], r2; bar.sync 0; st.release.gpu.global.u32 [out+1024], r2; bar.sync 0;
END: bar.sync 0;
"""


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("body", [PARTS, EXITS, MIXED, DIVERGED, FLAG])
def test_other_barriers(body: str, check: str) -> None:
    agree(body, 128, check=check)


RACE = "st.shared.u32 [r10], tid; sub.u32 r2, 508, r11; mov.u32 r13, data; add.u32 r13, r13, r2; {} ld.shared.u32 r4, [r13]; bar.sync 0;"
WRONG = {
    "a hang": "setp.eq.u32 p, warp, 1; @p bra OTHER; bar.sync 0; bra.uni END; OTHER: bar.sync 1; END:",
    "a warp that never comes": "setp.eq.u32 p, warp, 1; bar.sync 0; @p bra SPIN; bar.sync 0; bra.uni END; SPIN: bra.uni SPIN; END:",
    "counts that differ": "setp.eq.u32 p, warp, 3; @p bra O; bar.sync 1, 128; bra.uni END; O: bar.sync 1, 96; END:",
    "too many threads": "setp.lt.u32 p, warp, 3; bar.sync 1, 32; bar.sync 1, 64; bar.sync 2, 96;",
    "lanes that come twice": "setp.eq.u32 p, tid, 0; barrier.sync 0; @p barrier.sync 0; barrier.sync 0;",
    "a budget": "mov.u32 r1, 0; L: bar.sync 0; add.u32 r1, r1, 1; bra.uni L;",
    "a race": RACE.format("") + store("r4"),
    "no race": RACE.format("bar.sync 0;") + store("r4"),
}


@pytest.mark.parametrize("check", ["none", "all"])
@pytest.mark.parametrize("name", WRONG)
def test_findings(name: str, check: str) -> None:
    *_, findings = agree(WRONG[name], 128, check=check)
    assert bool(findings) == (name != "no race" and (name != "a race" or check == "all"))


@pytest.mark.parametrize("check", ["none", "race"])
@pytest.mark.parametrize("opcode", ["bar.sync", "barrier.cluster.arrive", "barrier.cluster.wait"])
def test_a_barrier_that_is_not_the_compiled_one_reaches_its_handler(check: str, opcode: str) -> None:
    """A program may have other services than the one of which its code was compiled."""
    own, calls = kernel("bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;"), []
    program, executable = own.variant(True, check == "race")

    def handler(warp: Any) -> Any:
        calls.append(warp.op.opcode)
        return meeting.row.semantics(warp)

    meeting = next(op for op in program.ops if op.opcode == opcode)
    changed = replace(meeting, row=replace(meeting.row, semantics=handler))
    ops = [changed if op is meeting else op for op in program.ops]
    checks = "none" if check == "none" else (check,)
    for ran, expected in ((program, 0), (replace(program, ops=ops), 4)):
        with own.replaced(ran, executable):
            own.launch(grid=2, block=64, cluster=2, args=[np.zeros(128, np.uint32)], check=checks).raise_for_errors()
        assert len(calls) >= expected if expected else not calls


STATEMENTS = (
    "bar.sync 0;",
    "barrier.sync 0;",
    "bar.sync 1, 64;",
    "bar.sync 1, 96;",
    "bar.arrive 2, 96;",
    "bar.sync 2, 96;",
    "setp.gt.u32 t, tid, 9; bar.red.popc.u32 r4, 0, t;",
    "st.shared.u32 [r10], tid;",
    "ld.shared.u32 r4, [r10+64];",
    "atom.global.add.u32 r4, [out+1024], 1;",
    "ret;",
)
PROGRAMS = st.lists(st.lists(st.sampled_from(STATEMENTS), max_size=5), min_size=3, max_size=3)


@given(PROGRAMS, PROGRAMS, st.sampled_from(["none", "all"]))
@settings(max_examples=25, deadline=None)
def test_drawn_programs(first: list[list[str]], second: list[list[str]], check: str) -> None:
    """Each of three warps executes its statements twice, with barriers of the CTA between the two parts."""
    parts = []
    for number, programs in enumerate((first, second)):
        for warp, program in enumerate(programs):
            parts.append(f"setp.ne.u32 p, warp, {warp}; @p bra.uni P{number}{warp};\n" + "\n".join(program) + f"\nP{number}{warp}:")
        parts.append("bar.sync 0; bar.sync 0;")
    agree("mov.u32 r4, 0;\n" + "\n".join(parts) + store("r4"), 96, check=check)
