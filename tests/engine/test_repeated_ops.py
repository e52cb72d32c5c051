"""Unrolled loops in the text: runs of ops that differ in their registers alone, which compiled code executes in a loop."""

from __future__ import annotations

import numpy as np
import pytest

from ptxlab.engine import Status
from ptxlab.engine.llvm import runs
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.llvm.region import emit_region
from ptxlab.engine.lowering import repeated_ops
from ptxlab.engine.lowering.frame import mirrored, separate
from ptxlab.engine.program import Program
from tests.engine.engine_helpers import Bench, program_of
from tests.engine.test_control import unshared

COUNT = 20
EQUAL = {
    "other registers": "xor.b32 %x{to}, %x{a}, %x{b};",
    "a sum in one register": "add.u32 %x1, %x1, %x{a};",
    "a chain": "mad.lo.u32 %x{a}, %x{before}, 3, %x{a};",
    "one register twice": "mul.lo.u32 %x{to}, %x{a}, %x{a};",
    "the operand is the result": "add.u32 %x{a}, %x{a}, 7;",
    "the first operand changes": "max.f32 %e{a}, %e{a}, 0f3F800000;",
    "negated operands": "selp.b32 %x{to}, %x{a}, %x{b}, !%q{a};",
    "predicates": "setp.lt.u32 %q{a}, %x{a}, %x{b};",
    "two results": "setp.lt.u32 %q{a}|%q{to}, %x{a}, %x{b};",
    "registers joined": "mov.b64 %y{a}, {{%x{a}, %x{b}}};",
    "registers cut": "mov.b64 {{%x{to}, %x{a}}}, %y{b};",
    "pairs": "add.rn.f32x2 %y{a}, %y{a}, %y{b};",
    "halves": "add.u16 %z{a}, %z{a}, %z{b};",
    "other widths": "cvt.u64.u32 %y{to}, %x{a};",
    "functions of two vectors": "ex2.approx.ftz.f32 %e{to}, %e{a};",
    "a function": "div.full.f32 %e{to}, %e{a}, %e{b};",
    "a function with rare operands": "rcp.approx.f32 %x{to}, %x{a};",
    "a function with more rare operands": "sqrt.approx.f32 %x{to}, %x{a};",
    "a function of what it gave": "rcp.approx.ftz.f32 %x{a}, %x{before};",
    "a function around another": "ex2.approx.f32 %e{to}, %e{a};",
    "a function of f64": "rcp.approx.ftz.f64 %y{to}, %y{a};",
    "a function of f16": "tanh.approx.f16 %z{to}, %z{a};",
    "a function of pairs": "ex2.approx.f16x2 %x{to}, %x{a};",
    "a function of a negated operand": "rcp.approx.f32 %e{to}, -%e{a};",
    "a function of a constant": "div.full.f32 %e{to}, 0f3F800000, %e{b};",
    "a special register": "add.u32 %x{to}, %x{a}, %laneid;",
}


def made(statement: str, count: int = COUNT, between: str = "") -> Program:
    """Registers with different contents in all lanes, equal ops on them, and what they hold then, mixed."""
    places = range(1, count + 1)
    begin = "".join(
        f"mad.lo.u32 %x{i}, %laneid, {2654435761 * i % 2**32}, {i}; mul.wide.u32 %y{i}, %x{i}, {40503 * i};"
        f"cvt.u16.u32 %z{i}, %x{i}; cvt.rn.f32.u16 %e{i}, %z{i}; setp.gt.s32 %q{i}, %x{i}, {i};"
        for i in (*places, *(100 + i for i in places))
    )
    run = between.join(statement.format(a=i, b=1 + i % count, to=100 + i, before=max(i - 1, 1)) for i in places)
    end = "".join(
        f"cvt.u32.u64 %x300, %y{i}; cvt.u32.u16 %x301, %z{i}; mov.b32 %x302, %e{i}; selp.b32 %x303, {i}, 0, %q{i};"
        f"mad.lo.u32 %x304, %x304, 31, %x{i};" + "".join(f"mad.lo.u32 %x304, %x304, 31, %x{r};" for r in (300, 301, 302, 303))
        for i in (*places, *(100 + i for i in places))
    )
    return program_of(
        f"mov.b32 %x304, 0; {begin} {run} {end} ld.param.u64 %y300, [out]; mad.wide.u32 %y300, %laneid, 4, %y300;"
        "st.global.u32 [%y300], %x304; ret;",
        params=".param .u64 out",
        regs=".reg .b32 %x<400>; .reg .b64 %y<400>; .reg .b16 %z<200>; .reg .f32 %e<200>; .reg .pred %q<200>;",
    )


def result(program: Program, backend: str, lanes: int) -> np.ndarray:
    bench = Bench(program, backend=backend, arrays=[np.zeros(32, np.uint32)], lanes=lanes)
    bench.set_param("out", bench.addresses[0])
    assert bench.run() == Status.EXIT
    return bench.arrays[0]


def code(program: Program) -> str:
    nodes = Nodes(program)
    return emit_region(program, nodes, nodes.region_of(0), 16)[0]


@pytest.mark.parametrize("lanes", [0xFFFFFFFF, 0x0F0F1234])
@pytest.mark.parametrize("name", EQUAL)
def test_equal_ops(name: str, lanes: int) -> None:
    """A loop over equal ops gives what the interpreter gives with a row for every register."""
    program = made(EQUAL[name])
    found = result(program, "llvm", lanes)
    assert found.any()
    assert np.array_equal(found, result(unshared(program), "numpy", lanes))


def test_the_code_of_equal_ops_is_written_once() -> None:
    """However many they are; a few ops, or different ones, are written one by one."""
    equal, least = EQUAL["other registers"], repeated_ops._LEAST
    assert [code(made(equal, count)).count(" xor <") for count in (least - 1, least, 4 * least)] == [least - 1, 1, 1]
    assert code(made(f"{equal} and.b32 %x{{to}}, %x{{to}}, %x{{b}};")).count(" xor <") == COUNT


def test_functions_have_a_loop_of_their_own() -> None:
    """One call for a run of an approximate instruction, if all its operands are registers."""
    for name, statement in EQUAL.items():
        if "function" in name:
            whole = " -%" not in statement and "0f" not in statement
            assert code(made(statement)).count("call void @run_") == whole, name


def test_ops_with_guards_are_no_run() -> None:
    """Their code merges what they write with what was there."""
    program = made("@%q{a} add.u32 %x{a}, %x{a}, 7;")
    assert not list(repeated_ops.repeated_runs([op for op in program.ops if op.guard], program.registers))


def test_other_variants_write_every_op() -> None:
    """A debugger wants to know what each op writes; undefined bits are followed from op to op."""
    program = made(EQUAL["other registers"])
    assert code(separate(program)).count(" xor <") >= COUNT
    run = [op for op in program.ops if op.opcode == "xor.b32"]
    assert runs._has_rows(program, run)
    assert not runs._has_rows(mirrored(program, frozenset()), run)
