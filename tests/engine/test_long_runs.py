"""Long runs of pure instructions, which are divided into several regions."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from ptxlab.debug import Session
from ptxlab.engine import Executable, Program, Status, Word
from ptxlab.engine.llvm import entry_points
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.lowering import frame
from ptxlab.engine.lowering.frame import separate
from tests.debug.debug_kernels import prepared
from tests.engine.engine_helpers import HEADER, Bench, program_of
from tests.engine.test_control import Writer, unshared
from tests.engine.test_pieces import Straight

STEP = "add.s32 %r3, %r2, %r3; xor.b32 %r4, %r3, %r2; mad.lo.s32 %r2, %r4, %r2, %r3; min.s32 %r5, %r2, %r4;"
WHOLE = 1_000_000
BRANCHES = "setp.gt.s32 %p1, %r1, 20; @%p1 bra OTHER; {first} bra JOIN; OTHER: {second} JOIN:"
PARTS = {
    "straight": STEP * 20,
    "diverged lanes": BRANCHES.format(first=STEP * 12, second=STEP * 9) + STEP * 7,
    "guards": "setp.lt.s32 %p1, %r1, 9; and.b32 %r4, %r1, 3; setp.eq.s32 %p2, %r4, 1;"
    + "add.s32 %r3, %r2, 7; @%p1 xor.b32 %r2, %r3, %r2; @!%p2 mul.lo.s32 %r3, %r2, %r3; @%p2 mov.b32 %r5, %r2;" * 15,
    "registers of all kinds": "cvt.rn.f32.s32 %f1, %r2; cvt.u64.u32 %rd4, %r2; cvt.u16.u32 %h1, %r2; cvt.rn.f64.s32 %fd1, %r2;"
    "mov.b128 %rq1, {%rd4, %rd4}; setp.lt.s32 %p3, %r2, 5;" + STEP * 8 + "mov.b128 {%rd5, %rd6}, %rq1; add.s64 %rd4, %rd5, %rd6;"
    "cvt.u32.u64 %r6, %rd4; cvt.rzi.s32.f32 %r7, %f1; cvt.u32.u16 %r8, %h1; cvt.rzi.s32.f64 %r9, %fd1; selp.b32 %r10, %r6, %r7, %p3;"
    "xor.b32 %r2, %r2, %r8; xor.b32 %r3, %r9, %r10;",
    "a loop": "mov.b32 %r9, 0; LOOP: " + STEP * 8 + "add.s32 %r9, %r9, 1; setp.lt.s32 %p1, %r9, 5; @%p1 bra LOOP;",
    "equal ops": STEP * 4 + "".join(f"xor.b32 %r{20 + i}, %r2, %r{20 + i - 1};" for i in range(30)) + "mov.b32 %r5, %r49;" + STEP * 4,
    "a trap": STEP * 8 + "setp.eq.s32 %p1, %r1, 13; setp.lt.s32 %p2, %r3, %r3; @%p2 trap;" + STEP * 8 + "@%p1 trap;" + STEP * 8,
    "a fault": STEP * 8
    + "setp.eq.s32 %p1, %r1, 13; mov.b64 %rd9, %rd1; @%p1 mov.b64 %rd9, 4;"
    + STEP * 8
    + "ld.global.b32 %r2, [%rd9];"
    + STEP * 8,
    "a barrier": STEP * 8 + "bar.sync 0;" + STEP * 8,
}


def body(part: str) -> str:
    first = "mov.u32 %r1, %tid.x; mov.b32 %r2, %r1; mov.b32 %r3, 12345; mov.b32 %r5, 0; mov.b32 %r19, %r1; ld.param.u64 %rd1, [out];"
    last = "mad.wide.u32 %rd2, %r1, 16, %rd1; st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; ret;"
    return f"{first} mov.b32 %r4, 0; {part} {last}"


def text(part: str) -> str:
    """A kernel for a launch."""
    registers = (
        ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<80>; .reg .b64 %rd<40>; .reg .b128 %rq<8>; .reg .f32 %f<9>; .reg .f64 %fd<9>;"
    )
    return f"{HEADER}.entry k(.param .u64 out) {{\n{registers}\n{body(part)}\n}}".replace(";", ";\n")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text has the same key wherever it is divided."""
    monkeypatch.setenv("PTXLAB_CACHE", "off")


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """After so many ops a run is divided; every part is a region."""
    monkeypatch.setattr(frame, "_RUN_OPS", request.param)
    monkeypatch.setattr(entry_points, "_REGION_OPS", 1)
    return int(request.param)


def executed(program: Program, backend: str, lanes: int = 0xFFFFFFFF) -> tuple[object, ...]:
    """What a warp leaves, and how far it came."""
    bench = Bench(program, backend=backend, arrays=[np.zeros(512, np.uint32)], lanes=lanes, services=lambda *_: None)
    bench.set_param("out", bench.addresses[0])
    status = bench.run()
    return status, bench.fault if status is Status.FAULT else None, bench.arrays[0].tolist(), int(bench.context.words[Word.FUEL])


def undivided(given: str, monkeypatch: pytest.MonkeyPatch) -> Program:
    with monkeypatch.context() as patch:
        patch.setattr(frame, "_RUN_OPS", WHOLE)
        return program_of(given, params=".param .u64 out")


@pytest.mark.parametrize("limit", [1, 7, 16], indirect=True)
@pytest.mark.parametrize("lanes", [0xFFFFFFFF, 0x0F0F1234])
@pytest.mark.parametrize("name", PARTS)
def test_parts_do_what_the_run_does(name: str, lanes: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divided or not, compiled or not: memory, faults, and instructions that are counted."""
    program, whole = program_of(body(PARTS[name]), params=".param .u64 out"), undivided(body(PARTS[name]), monkeypatch)
    assert program.cuts
    assert not whole.cuts
    found = executed(program, "llvm", lanes)
    assert any(found[2]) or name in ("a trap", "a fault")
    assert found == executed(unshared(program), "numpy", lanes) == executed(whole, "llvm", lanes)


@pytest.mark.parametrize("limit", [1, 5], indirect=True)
@pytest.mark.parametrize("writer", [Writer, Straight])
@pytest.mark.parametrize("seed", range(10))
def test_random_programs(seed: int, writer: type[Writer], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = writer(seed).text()
    program = program_of(given, params=".param .u64 out")
    assert program.cuts
    assert executed(program, "llvm") == executed(unshared(program), "numpy") == executed(undivided(given, monkeypatch), "llvm")


def test_each_part_is_a_region() -> None:
    """Of limited size, and none is small where the block goes on."""
    most = frame._RUN_OPS
    for ops, parts in ((most, 1), (most + 1, 1), (most * 3 // 2 - 10, 1), (most * 3 // 2 + 10, 2), (4 * most, 4)):
        program = program_of(body(STEP * (ops // 4 - 3)), params=".param .u64 out")
        assert len(program.cuts) == parts - 1
        nodes = Nodes(program)
        assert all(most // 2 <= node.stop - node.start <= most * 3 // 2 + 20 for node in nodes.nodes[: parts - 1])
        bench = Bench(program, arrays=[np.zeros(512, np.uint32)])
        bench.set_param("out", bench.addresses[0])
        assert bench.run() is Status.EXIT
        assert bench.executable.compiled == parts + 1  # the store is one
        assert len({tuple(nodes.region_of(number)) for number in range(len(nodes.nodes))}) == parts + 1


@pytest.mark.parametrize("limit", [12], indirect=True)
def test_equal_ops_are_not_divided(limit: int) -> None:
    """They are a loop in compiled code, however many they are, and do not count."""
    equal = "".join(f"xor.b32 %r{20 + i}, %r2, %r{20 + i - 1};" for i in range(50))
    program = program_of(body(STEP * 2 + equal + STEP * 2), params=".param .u64 out")
    assert not [cut for cut in program.cuts if program.ops[cut - 1].opcode == program.ops[cut].opcode == "xor.b32"]
    assert program.cuts
    assert not program_of(f"{equal} ret;").cuts


@pytest.mark.parametrize("limit", [8], indirect=True)
def test_lanes_do_not_stop_at_a_cut(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for want of fuel nor for other lanes, in both back ends: warps take turns as if the run were whole."""
    program = program_of(body(STEP * 20), params=".param .u64 out")
    for backend in ("llvm", "numpy"):
        bench = Bench(program, backend=backend, arrays=[np.zeros(512, np.uint32)], fuel=1)
        bench.set_param("out", bench.addresses[0])
        bench.context.words[Word.PC], bench.context.words[Word.LIMIT] = 0, min(program.cuts)
        assert bench.executable.run(bench.context) is Status.EXIT


@pytest.mark.parametrize("limit", [8], indirect=True)
def test_what_is_live_at_a_cut(limit: int) -> None:
    """By a walk from the cut to the end."""
    program = program_of(body(PARTS["guards"]), params=".param .u64 out")
    nodes, (block, *_) = Nodes(program), program.blocks
    assert len(program.blocks) == 1
    assert len(nodes.nodes) > 5
    for node in nodes.nodes[:-1]:
        needed, killed = set(), set()
        for op in program.ops[node.stop : block.stop]:
            kept = () if op.guard is None else (op.guard.index, *program.writes[op.index])
            needed |= {*program.reads[op.index], *kept} - killed
            killed |= set() if op.guard is not None else set(program.writes[op.index])
        assert nodes.live_behind(node) == needed
        assert all(program.registers[register].offset >= 0 for register in needed)


def launched(part: str, **options: object) -> tuple[object, ...]:
    out = np.zeros((64, 4), np.uint32)
    result = ptxlab.loads(text(part)).kernel().launch(grid=1, block=64, args=[out], **options)
    profile = None if result.profile is None else result.profile.as_dict()
    stats = result.stats.instructions
    return out.tolist(), stats, [str(each) for each in result.diagnostics], profile


UNDEFINED = STEP * 4 + "add.s32 %r6, %r7, %r2; setp.lt.s32 %p1, %r1, 40; @%p1 mov.b32 %r6, 1;" + STEP * 4 + "xor.b32 %r5, %r6, %r5;"


@pytest.mark.parametrize("limit", [3, 16], indirect=True)
@pytest.mark.parametrize("name", [*PARTS, "undefined bits"])
@pytest.mark.parametrize("check", ["none", "all"])
def test_findings_and_statistics(name: str, check: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    part = PARTS.get(name, UNDEFINED)
    found = launched(part, check=check)
    assert bool(found[2]) == (name in ("a trap", "a fault") or (name == "undefined bits" and check == "all"))
    monkeypatch.setattr(frame, "_RUN_OPS", WHOLE)
    assert found == launched(part, check=check)


@pytest.mark.parametrize("limit", [8], indirect=True)
def test_a_profile_is_that_of_the_run(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters and the estimate of time: counted programs are not divided."""
    found = launched(PARTS["diverged lanes"], profile=True)
    monkeypatch.setattr(frame, "_RUN_OPS", WHOLE)
    assert found == launched(PARTS["diverged lanes"], profile=True)


@pytest.mark.parametrize("limit", [8], indirect=True)
@pytest.mark.parametrize("name", ["straight", "diverged lanes", "guards"])
def test_steps_of_the_debugger(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards and backwards over cuts every instruction is a step, and leaves what it leaves in a run that is whole."""
    kernel = ptxlab.loads(text(PARTS[name])).kernel()
    assert kernel.program.cuts
    assert not separate(kernel.program).cuts
    states = []
    for most in (limit, WHOLE):
        monkeypatch.setattr(frame, "_RUN_OPS", most)
        with Session(prepared(text(PARTS[name]), 64, out=256)) as session:
            seen = [(session.where().line, session.digest())]
            while session.step_any().reason != "ended":
                seen.append((session.where().line, session.digest()))
            for expected in reversed(seen[-30:]):
                session.step_any_back()
                assert (session.where().line, session.digest()) == expected
            states.append(seen)
    assert [line for line, _ in states[0]] == [line for line, _ in states[1]]
    assert len(states[0]) > 2 * 70


def test_an_executable_that_is_compiled_ahead() -> None:
    """All parts are there."""
    program = program_of(body(STEP * 1500), params=".param .u64 out")
    executable = Executable(program)
    executable.compile_all()
    assert executable.compiled == len(program.cuts) + 2 == 4  # the store is one
