"""Runs with functions that take two vectors of lanes at once, which are cut into pieces."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest

from ptxlab.engine import Status
from ptxlab.engine.llvm import _pieces
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from ptxlab.engine.llvm.segment import _register_values, segment
from tests.engine.engine_helpers import Bench, program_of
from tests.engine.test_control import Writer, unshared

APPROXIMATE = ("rcp.approx.f32", "sqrt.approx.ftz.f32", "rsqrt.approx.f32", "ex2.approx.ftz.f32", "lg2.approx.f32", "ex2.approx.f16x2")


class Straight(Writer):
    """One run of pure instructions, with approximate functions of any bits."""

    def statement(self, depth: int) -> None:
        kind, say = self.random.random(), self.lines.append
        if kind < 0.4:
            say(f"{self.guard()}{self.random.choice(self.OPS)} {self.register()}, {self.source()}, {self.source()};")
        elif kind < 0.5:
            say(f"setp.{self.random.choice(self.COMPARE)} {self.predicate()}, {self.source()}, {self.register()};")
        elif kind < 0.6:
            say(f"{self.guard()}div.full.f32 {self.register()}, {self.register()}, {self.register()};")
        elif kind < 0.7:
            say(f"mov.b64 %rd5, {{{self.register()}, {self.register()}}}; mov.b64 {{{self.register()}, {self.register()}}}, %rd5;")
        else:
            say(f"{self.guard()}{self.random.choice(APPROXIMATE)} {self.register()}, {self.register()};")

    def body(self, depth: int) -> None:
        for _ in range(8):
            self.statement(depth)

    def text(self) -> str:
        self.body(0)
        self.body(0)
        return super().text()


@pytest.mark.parametrize("lanes", [0xFFFFFFFF, 0x0F0F1234])
@pytest.mark.parametrize("seed", range(10))
def test_random_runs(seed: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code gives what the interpreter gives with a row for every register, also where a piece may end after each op."""
    results = []
    for few in (_pieces._FEW, 1, 0):
        monkeypatch.setattr(_pieces, "_FEW", few)
        # Another constant, so that no cached code is taken.
        program = program_of(f"mov.b32 %r70, {few}; {Straight(seed).text()}", params=".param .u64 out")
        made = program if few else unshared(program)
        bench = Bench(made, backend="llvm" if few else "numpy", arrays=[np.zeros(512, np.uint32)], lanes=lanes)
        bench.set_param("out", bench.addresses[0])
        assert bench.run() == Status.EXIT
        results.append(bench.arrays[0])
    assert results[0].any()
    assert np.array_equal(results[0], results[2])
    assert np.array_equal(results[1], results[2])


def test_a_value_without_a_row_is_not_cut_off() -> None:
    """A piece ends only where all that is needed has a row; behind the last use of such a value, it ends."""
    long = "\n".join(f"{('add', 'sub')[i % 2]}.f32 %f{i + 3}, %f{i + 2}, %f1;" for i in range(14))
    program = program_of(
        f"mov.b32 %f1, 0x40000000; rcp.approx.f32 %f2, %f1; {long} add.f32 %f17, %f16, %f2; mov.b32 %f18, 0;"
        "add.f32 %f19, %f18, %f18; ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f19; st.global.f32 [%rd1+4], %f17; ret;",
        params=".param .u64 out",
    )
    run = program.ops[: next(op.index for op in program.ops if op.opcode.startswith("ld"))]
    cut = [len(ops) for ops, _, _ in _pieces.pieces(program, run, {r for op in run for r in program.writes[op.index]}, 16)]
    assert sum(cut) == len(run) == 19
    assert cut == [17, 2]
    assert [lanes for *_, lanes in _pieces.pieces(program, run, set(), 16)] == [32, 16]


@pytest.mark.parametrize(("module", "limit"), [(_register_values, "_BLOCK"), (segment, "_DEEP")], ids=["block", "deep"])
@pytest.mark.parametrize("seed", range(4))
def test_random_runs_with_limits(seed: int, module: ModuleType, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are those of the interpreter also where a basic block ends after each op, and where LLVM can follow no operation."""
    monkeypatch.setattr(module, limit, 1)
    results = []
    for backend in ("llvm", "numpy"):
        # Another constant than elsewhere, so that no cached code is taken.
        program = program_of(f"mov.b32 %r70, {77 + len(limit)}; {Straight(seed).text()}", params=".param .u64 out")
        bench = Bench(program, backend=backend, arrays=[np.zeros(512, np.uint32)], lanes=0x0F0F1234)
        bench.set_param("out", bench.addresses[0])
        assert bench.run() == Status.EXIT
        results.append(bench.arrays[0])
    assert results[0].any()
    assert np.array_equal(*results)


def test_a_long_run_has_no_long_block() -> None:
    """LLVM takes longer for an instruction of a long block."""
    defined = "".join(f"mov.b32 %f{i}, {i};" for i in range(1, 5))
    program = program_of(defined + "add.f32 %f1, %f2, %f3; max.f32 %f2, %f1, %f4;" * 200 + "ret;")
    nodes = Nodes(program)
    text, _ = emit_region(program, nodes, list(range(len(nodes.nodes))), 16)
    blocks = [len(block.splitlines()) for block in re.split(r"^\w+:$", text, flags=re.MULTILINE)]
    assert sum(blocks) > 2000
    assert max(blocks) < _register_values._BLOCK + 30


def test_llvm_cannot_follow_long_computations() -> None:
    """LLVM looks for known bits through all operands of the instructions before a sum, in time that doubles with each."""
    program = program_of(
        "mov.u32 %r1, %tid.x; mov.u32 %r3, %r1;"
        + "add.s32 %r2, %r1, %r3; xor.b32 %r3, %r2, %r1; mad.lo.s32 %r1, %r2, %r3, %r1;" * 9
        + "ret;"
    )
    nodes = Nodes(program)
    text, _ = emit_region(program, nodes, list(range(len(nodes.nodes))), 8)
    depths: dict[str, int] = {}
    for line in text.splitlines():
        named = re.match(r"\s+(%\w+) = (\w+) (.*)", line)
        if named:
            result, operation, operands = named.groups()
            sources = (depths.get(name, 0) for name in re.findall(r"%\w+", operands))
            depths[result] = 0 if operation in ("call", "load", "phi") else max(sources, default=0) + (operation in ("add", "xor", "mul"))
    assert text.count("= mul <8 x i32>") >= 9
    assert max(depths.values()) <= 8
