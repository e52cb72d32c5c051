"""Control flow: splits, limits, fuel, services, undefined registers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ptxlab.engine import Fault, Status, Word
from ptxlab.engine.lowering._basic_blocks import order_blocks
from ptxlab.engine.lowering.frame import row_bytes
from tests.engine.engine_helpers import FULL, Bench, program_of

SHOWS = {
    "test_lanes_leave_a_loop_one_by_one": ("bra*",),
    "test_indexed_branch": ("brx.idx*",),
    "test_exits_under_a_guard": ("exit", "ret*"),
}

BACKENDS = ("llvm", "numpy")
START = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 64; add.s64 %rd3, %rd1, %rd2;"


def run(body, *, backend="llvm", start=START, **options):
    bench = Bench(program_of(f"{start}\n{body}", params=".param .u64 out"), backend=backend, arrays=[np.zeros(512, np.uint32)], **options)
    bench.set_param("out", bench.addresses[0])
    bench.run()
    return bench, bench.arrays[0].reshape(32, 16)


def both(body, **options):
    one, out = run(body, backend="llvm", **options)
    two, other = run(body, backend="numpy", **options)
    assert one.status == two.status
    assert np.array_equal(out, other)
    return one, out


@pytest.mark.parametrize("backend", BACKENDS)
def test_lanes_leave_a_loop_one_by_one(backend):
    body = """mov.u32 %r2, 0; mov.u32 %r3, 0;
    LOOP: add.s32 %r3, %r3, %r2; add.s32 %r2, %r2, 1; setp.le.u32 %p1, %r2, %r1; @%p1 bra LOOP;
    st.global.b32 [%rd3], %r3; ret;"""
    _, out = run(body, backend=backend)
    assert out[:, 0].tolist() == [sum(range(i + 1)) for i in range(32)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_splits_meet_behind_an_if(backend):
    """The vote behind the join sees all lanes, whichever way they came."""
    body = """setp.lt.u32 %p1, %r1, 9; setp.lt.u32 %p2, %r1, 5; mov.u32 %r4, 7;
    @%p1 bra ONE; mov.u32 %r4, 1; bra JOIN;
    ONE: @%p2 bra TWO; mov.u32 %r4, 2; bra JOIN;
    TWO: mov.u32 %r4, 3;
    JOIN: setp.eq.u32 %p3, %r4, 2; vote.sync.ballot.b32 %r5, %p3, -1; st.global.v2.b32 [%rd3], {%r4, %r5}; ret;"""
    _, out = run(body, backend=backend)
    assert out[:, 0].tolist() == [3] * 5 + [2] * 4 + [1] * 23
    assert (out[:, 1] == 0b111100000).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_indexed_branch(backend):
    body = """table: .branchtargets A0, A1, A2; rem.u32 %r2, %r1, 3; brx.idx %r2, table;
    A2: mov.u32 %r4, 12; bra END; A1: mov.u32 %r4, 11; bra END; A0: mov.u32 %r4, 10;
    END: st.global.b32 [%rd3], %r4; ret;"""
    _, out = run(body, backend=backend)
    assert out[:, 0].tolist() == [10 + i % 3 for i in range(32)]
    bench, _ = run(body.replace("%r1, 3;", "%r1, 4;"), backend=backend)
    assert (bench.status, bench.fault) == (Status.FAULT, (Fault.BRANCH_RANGE, 3, 3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_guarded_indexed_branch(backend):
    body = """table: .branchtargets A0, A1; mov.u32 %r4, 1; and.b32 %r2, %r1, 1; setp.lt.u32 %p1, %r1, 8; @%p1 brx.idx %r2, table; bra END;
    A1: mov.u32 %r4, 11; bra END; A0: mov.u32 %r4, 10; END: st.global.b32 [%rd3], %r4; ret;"""
    _, out = run(body, backend=backend)
    assert out[:, 0].tolist() == [10, 11] * 4 + [1] * 24


@pytest.mark.parametrize("backend", BACKENDS)
def test_exits_under_a_guard(backend):
    body = "setp.lt.u32 %p1, %r1, 4; @%p1 exit; st.global.b32 [%rd3], 1; setp.lt.u32 %p1, %r1, 6; @%p1 ret; st.global.b32 [%rd3+4], 2;"
    bench, out = run(body, backend=backend)
    assert out[:8, 0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert out[:8, 1].tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert int(bench.context.words[Word.EXITED]) == FULL
    assert int(bench.context.words[Word.LIVE]) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_fuel_ends_an_endless_loop(backend):
    bench, _ = run("LOOP: add.s32 %r2, %r2, 1; bra LOOP;", backend=backend, fuel=1000)
    assert bench.status == Status.FUEL
    fuel = int(bench.context.words[Word.FUEL].view(np.int64))
    assert -10 < fuel <= 0
    bench.context.words[Word.FUEL] = 50
    assert bench.executable.run(bench.context) == Status.FUEL


@pytest.mark.parametrize("backend", BACKENDS)
def test_services_see_registers_and_guards(backend):
    seen = []

    def serve(bench, op, active):
        seen.append((op.opcode, active, bench.row("%r2").tolist()))

    body = """add.s32 %r2, %r1, 100; setp.gt.u32 %p1, %r1, 40; setp.lt.u32 %p2, %r1, 2; @%p1 bar.sync %r2; @%p2 bar.sync %r2;
      @!%p1 bar.sync %r2; st.global.b32 [%rd3], %r2; ret;"""
    _, out = run(body, backend=backend, services=serve)
    assert seen == [("bar.sync", 3, list(range(100, 132))), ("bar.sync", FULL, list(range(100, 132)))]
    assert out[:, 0].tolist() == list(range(100, 132))


def test_a_service_at_the_end_of_a_block():
    body = """mov.u32 %r2, 0; LOOP: add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; bar.sync 0;
      NEXT: @%p1 bra LOOP; st.global.b32 [%rd3], %r2; ret;"""
    count = []
    for backend in BACKENDS:
        _, out = run(body, backend=backend, services=lambda bench, op, active: count.append(active))
        assert (out[:, 0] == 3).all()
    assert count == [FULL] * 6


@pytest.mark.parametrize("backend", BACKENDS)
class TestUndefined:
    def test_an_address(self, backend):
        bench, _ = run("setp.lt.u32 %p1, %r1, 30; @%p1 mov.u64 %rd9, %rd3; st.global.b32 [%rd9], %r1; ret;", backend=backend)
        fault, lane, register = bench.fault
        assert (bench.status, fault, lane) == (Status.FAULT, Fault.UNDEFINED, 30)
        assert bench.program.registers[register].name == "%rd9"

    def test_paths_that_define_it_are_fine(self, backend):
        body = """setp.lt.u32 %p1, %r1, 7; @%p1 mov.u64 %rd9, %rd3; @!%p1 bra SKIP; st.global.b32 [%rd9], 5; SKIP: @!%p1 mov.u64 %rd9, %rd3;
          st.global.b32 [%rd9+4], 6; ret;"""
        bench, out = run(body, backend=backend)
        assert bench.status == Status.EXIT
        assert out[:, 0].tolist() == [5] * 7 + [0] * 25
        assert (out[:, 1] == 6).all()

    def test_copies_carry_it(self, backend):
        body = (
            "setp.lt.u32 %p1, %r1, 30; @%p1 mov.u32 %r5, 4; add.s32 %r6, %r5, 1; cvt.u64.u32 %rd5, %r6; add.s64 %rd6, %rd5, %rd3; {} ret;"
        )
        bench, _ = run(body.format("st.global.b32 [%rd3], %r6;"), backend=backend)
        assert bench.status == Status.EXIT
        bench, _ = run(body.format("st.global.b8 [%rd6], %r6;"), backend=backend)
        assert bench.fault[:2] == (Fault.UNDEFINED, 30)

    @pytest.mark.parametrize("bits", [32, 64])
    def test_a_match_has_the_lanes_that_may_be_equal(self, backend, bits):
        """Bit 0 of %rd5 is undefined in two of four lanes; lanes of which bits 1 to 3 are the same may match."""
        body = (
            """and.b64 %rd5, %rd9, 1; cvt.u64.u32 %rd6, %r1; shr.u64 %rd7, %rd6, 1; and.b64 %rd6, %rd6, 14; and.b64 %rd8, %rd7, 1;
          setp.eq.u64 %p1, %rd8, 0; @!%p1 mov.u64 %rd5, 0; or.b64 %rd5, %rd5, %rd6; cvt.u32.u64 %r5, %rd5; or.b64 %rd5, %rd5, 1099511627776;
          match.any.sync.b"""
            + f"{bits} %r6, {'%r5' if bits == 32 else '%rd5'}, -1; st.global.b32 [%rd3], %r6; ret;"
        )
        bench, _ = run(body, backend=backend)
        info = next(r for r in bench.program.registers if r.name == "%r6")
        open_ = [tid // 2 % 2 == 0 for tid in range(32)]
        wanted = [sum(1 << i for i in range(32) if i != tid and i & 14 == tid & 14 and (open_[i] or open_[tid])) for tid in range(32)]
        assert replace(info, offset=info.shadow).view(bench.frame).tolist() == wanted

    def test_a_branch(self, backend):
        bench, _ = run(
            "setp.lt.u32 %p1, %r1, 30; @%p1 setp.eq.u32 %p2, %r1, %r1; @%p2 bra END; st.global.b32 [%rd3], 1; END: ret;", backend=backend
        )
        assert bench.fault[:2] == (Fault.UNDEFINED, 30)

    def test_selection_and_masking_hide_it(self, backend):
        body = """setp.lt.u32 %p1, %r1, 30; @%p1 mov.u64 %rd9, %rd3; selp.b64 %rd10, %rd9, %rd3, %p1; st.global.b32 [%rd10], 3;
          @%p1 setp.eq.u32 %p2, %r1, 1; and.pred %p3, %p2, %p1; @%p3 bra END; st.global.b32 [%rd3+4], 1; END: ret;"""
        bench, out = run(body, backend=backend)
        assert bench.status == Status.EXIT, bench.fault
        assert (out[:, 0] == 3).all()
        assert np.flatnonzero(out[:, 1] == 0).tolist() == [1]

    def test_a_service_operand(self, backend):
        bench, _ = run("setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r5, 0; bar.sync %r5; ret;", backend=backend, services=lambda *_: None)
        assert bench.fault[:2] == (Fault.UNDEFINED, 3)

    def test_loads_define(self, backend):
        bench, _ = run(
            """setp.lt.u32 %p1, %r1, 3; @%p1 ld.global.b64 %rd9, [%rd3]; @!%p1 mov.u64 %rd9, 0; @%p1 mov.u64 %rd9, %rd3;
            add.s64 %rd9, %rd9, 0; selp.b64 %rd9, %rd9, %rd3, %p1; st.global.b32 [%rd9], 1; ret;""",
            backend=backend,
        )
        assert bench.status == Status.EXIT, bench.fault


# ----------------------------------------------------------------------------------------------------- random programs


class Writer:
    """A random structured program over %r2..%r15 and %p1..%p6; every loop ends."""

    OPS = ("add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.u32", "shl.b32", "shr.s32")
    COMPARE = ("lt.s32", "gt.u32", "eq.s32", "ne.s32", "ge.s32")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0
        self.counters = 40

    def register(self) -> str:
        return f"%r{self.random.randint(2, 15)}"

    def source(self) -> str:
        return self.register() if self.random.random() < 0.7 else str(self.random.randint(-5, 40))

    def predicate(self) -> str:
        return f"%p{self.random.randint(1, 6)}"

    def guard(self) -> str:
        return "" if self.random.random() < 0.75 else f"@{self.random.choice(['', '!'])}{self.predicate()} "

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def statement(self, depth: int) -> None:
        kind = self.random.random()
        say = self.lines.append
        if kind < 0.5 or depth > 3:
            say(f"{self.guard()}{self.random.choice(self.OPS)} {self.register()}, {self.source()}, {self.source()};")
        elif kind < 0.6:
            say(f"{self.guard()}setp.{self.random.choice(self.COMPARE)} {self.predicate()}, {self.source()}, {self.register()};")
        elif kind < 0.66:
            say(f"{self.guard()}selp.b32 {self.register()}, {self.source()}, {self.source()}, {self.predicate()};")
        elif kind < 0.72:
            say(f"{self.guard()}st.shared.b32 [%r20+{4 * self.random.randint(0, 3)}], {self.register()};")
        elif kind < 0.78:
            say(f"{self.guard()}ld.shared.b32 {self.register()}, [%r20+{4 * self.random.randint(0, 3)}];")
        elif kind < 0.82:
            say(f"mov.b64 %rd5, {{{self.register()}, {self.register()}}}; mov.b64 {{{self.register()}, {self.register()}}}, %rd5;")
        elif kind < 0.92:
            other, join = self.label(), self.label()
            say(f"@{self.predicate()} bra {other};")
            self.body(depth + 1)
            say(f"bra {join};")
            say(f"{other}:")
            self.body(depth + 1)
            say(f"{join}:")
        else:
            head, out = self.label(), self.label()
            counter = f"%r{self.counters}"
            self.counters += 1
            say(f"mov.u32 {counter}, 0; {head}:")
            self.body(depth + 1)
            if self.random.random() < 0.5:
                say(f"@{self.predicate()} bra {out};")
                self.body(depth + 1)
            say(f"add.s32 {counter}, {counter}, 1; and.b32 %r21, {self.register()}, 3; setp.lt.u32 %p9, {counter}, %r21; @%p9 bra {head};")
            say(f"{out}:")

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.statement(depth)

    def text(self) -> str:
        first = "".join(f"mul.lo.u32 %r{i}, %r1, {i * 2654435761 % 1000}; xor.b32 %r{i}, %r{i}, {i}; " for i in range(2, 16))
        first += "".join(f"setp.lt.u32 %p{i}, %r{i + 3}, 900; " for i in range(1, 7))
        first += "mov.u32 %r20, s; shl.b32 %r21, %r1, 4; add.s32 %r20, %r20, %r21;"
        for _ in range(12):
            self.statement(0)
        last = "".join(f"st.global.b32 [%rd3+{4 * (i - 2)}], %r{i}; " for i in range(2, 16))
        return "\n".join([START, ".shared .align 16 .b8 s[512];", first, *self.lines, last, "ret;"])


def unshared(program):
    """The same program with a row for every register."""
    program = replace(program, registers=[replace(r) for r in program.registers])
    for register in program.registers:
        register.offset = program.frame_bytes
        program.frame_bytes += max(row_bytes(register.bits), 64)
    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    """Compiled code with shared rows gives what the interpreter gives with a row for every register; fuel counts the same."""
    program = program_of(Writer(seed).text(), params=".param .u64 out")
    results = []
    for backend, made in (("llvm", program), ("numpy", unshared(program))):
        bench = Bench(made, backend=backend, arrays=[np.zeros(512, np.uint32)])
        bench.set_param("out", bench.addresses[0])
        assert bench.run() == Status.EXIT
        results.append((bench.arrays[0], bench.shared, int(bench.context.words[Word.FUEL])))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


@pytest.mark.parametrize("seed", range(30))
def test_loops_are_contiguous_and_exits_behind(seed):
    """Every edge goes forward, or back to the header of a loop around it; a loop's blocks stand together."""
    rng = random.Random(seed)
    count = rng.randint(2, 40)
    graph = [[rng.randrange(count) for _ in range(rng.randint(0, 2))] for _ in range(count)]
    for i in range(count - 1):
        graph[i].append(i + 1)
    order, depths, headers = order_blocks(graph)
    position = {block: i for i, block in enumerate(order)}
    assert sorted(position) == list(range(count))
    around = []
    for i, header in enumerate(headers):
        chain = [header] if header >= 0 else []
        while chain and chain[-1] >= 0:
            outer = chain[-1]
            up = max(
                (
                    h
                    for j, h in enumerate(headers[: outer + 1])
                    if h < outer and depths[outer] > 1 and h >= 0 and depths[h] == depths[outer] - 1
                ),
                default=-1,
            )
            chain.append(up)
        around.append(set(chain))
        assert header <= i
    for block, targets in enumerate(graph):
        for target in targets:
            a, b = position[block], position[target]
            assert b > a or (headers[b] == b and b in around[a] | {a})
