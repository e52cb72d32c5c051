"""What the linter says about operands of instructions in the compact notation: each verdict is that of ptxas 13.5."""

from __future__ import annotations

import pytest

from ptxlab import lint, lint_instruction

from .batches import judge
from .test_verdicts import assembler

CASES = [
    # a variable lies in the state space that the instruction names
    ("ld.shared.b32 %r1, [smem];", "sm_90", "9.4", ""),
    ("ld.shared::cluster.b32 %r1, [smem];", "sm_90", "9.4", ""),
    ("ld.shared.b32 %r1, [gvar];", "sm_90", "9.4", "gvar lies in the state space .global; the instruction accesses .shared"),
    ("st.global.b32 [smem], %r1;", "sm_90", "9.4", "smem lies in the state space .shared; the instruction accesses .global"),
    ("ld.global.b32 %r1, [cvar];", "sm_90", "9.4", "cvar lies in the state space .const; the instruction accesses .global"),
    ("ld.const.b32 %r1, [cvar];", "sm_90", "9.4", ""),
    (
        "atom.shared::cta.add.u32 %r1, [gvar], %r2;",
        "sm_90",
        "9.4",
        "gvar lies in the state space .global; the instruction accesses .shared::cta",
    ),
    ("red.add.u32 [gvar], %r2;", "sm_90", "9.4", ""),
    ("red.add.u32 [cvar], %r2;", "sm_90", "9.4", "cvar lies in the state space .const, which a generic address does not reach here"),
    ("discard.global.L2 [smem], 128;", "sm_90", "9.4", "smem lies in the state space .shared; the instruction accesses .global"),
    ("cp.async.ca.shared.global [smem], [gvar], 16;", "sm_90", "9.4", ""),
    (
        "cp.async.ca.shared.global [gvar], [gvar], 16;",
        "sm_90",
        "9.4",
        "gvar lies in the state space .global; the instruction accesses .shared",
    ),
    (
        "cp.async.ca.shared.global [smem], [cvar], 16;",
        "sm_90",
        "9.4",
        "cvar lies in the state space .const; the instruction accesses .global",
    ),
    # an address in a 16-bit register
    ("ld.global.b32 %r1, [%h1];", "sm_90", "9.4", ""),
    ("st.shared.b32 [%h1+4], %r1;", "sm_75", "7.0", ""),
    ("red.add.u32 [%h1], %r2;", "sm_100a", "9.4", ""),
    ("cp.async.ca.shared.global [%h1], [%h2], 4;", "sm_90", "9.4", ""),
    # registers of type .b128
    ("ld.global.b128 %rq1, [%rd1];", "sm_75", "8.3", ""),
    ("ld.global.b128 %rq1, [%rd1];", "sm_90", "8.2", "ld with .b128 needs PTX ISA 8.3; the module has 8.2"),
    ("cvt.rm.f16.s64 %rq0, %rd22;", "sm_90", "8.2", "a register of type .b128 needs PTX ISA 8.3; the module has 8.2"),
    # the predicate of elect.sync
    ("elect.sync _|%p1, -1;", "sm_90", "9.4", ""),
    ("elect.sync %r1, -1;", "sm_90", "9.4", "the destination is a pair, d|p, with a predicate register"),
    ("elect.sync %r1|_, -1;", "sm_90", "9.4", "the destination is a pair, d|p, with a predicate register"),
    ("match.all.sync.b32 %r1, %r2, -1;", "sm_90", "9.4", ""),
    # types given twice
    ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", "sm_90", "9.4", ""),
    ("fma.rn.f16x2.f16x2 %r1, %r2, %r3, %r4;", "sm_90", "9.4", "fma does not exist with the modifiers of fma.rn.f16x2.f16x2"),
    ("add.bf16x2.bf16x2 %r1, %r2, %r3;", "sm_90", "9.4", "add does not exist with the modifiers of add.bf16x2.bf16x2"),
    ("add.rn.f32x2.f16x2.f32x2 %rd1, %r2, %rd3;", "sm_107a", "9.4", ""),
    # .ftz on f64
    ("rcp.rn.ftz.f64 %fd1, %fd2;", "sm_90", "9.4", ""),
    ("sqrt.rn.ftz.f64 %fd1, %fd2;", "sm_90", "9.4", "sqrt does not exist with the modifiers of sqrt.rn.ftz.f64"),
    ("testp.normal.f64 %p1, %fd1;", "sm_90", "9.4", ""),
    # other operands and modifiers
    ("cvta.to.global.u64 %rd1, %rd2;", "sm_90", "9.4", ""),
    ("cvta.u64.to.global %rd1, %rd2;", "sm_90", "9.4", "cvta does not exist with the modifiers of cvta.u64.to.global"),
    ("st.L2::cache_hint.u16 [%rd7], %h0, %rd1;", "sm_90", "9.4", ""),
    ("discard.L2.global [%rd1], 128;", "sm_90", "9.4", ""),
    ("isspacep.global %p1, %fd1;", "sm_90", "9.4", "operand 2: %fd1 is .f64, but .u64 is expected"),
    ("createpolicy.range.global.L2::evict_last.b64 %rd2, [%rd9], %f1, %r1;", "sm_90", "9.4", "%f1 is .f32, but .u32 is expected"),
    ("st.L2::cache_hint.u16 [%rd7], %h0, %fd1;", "sm_90", "9.4", "operand 3: %fd1 is .f64, but .u64 is expected"),
]


@pytest.mark.parametrize(("instruction", "target", "version", "message"), CASES, ids=[f"{c[0]} {c[2]}" for c in CASES])
def test_verdict(instruction: str, target: str, version: str, message: str) -> None:
    errors = [d.message for d in lint_instruction(instruction, target=target, version=version) if d.severity == "error"]
    assert len(errors) == bool(message), errors
    assert not message or message in errors[0]


def test_a_short_address_is_noted_in_a_module_too() -> None:
    text = (
        ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() { .reg .b16 %h<2>; .reg .b32 %r<2>;\nld.shared.b32 %r1, [%h1]; ret; }"
    )
    (found,) = lint(text)
    assert (found.code, found.severity, found.place and found.place.line) == ("L124", "note", 5)


@pytest.mark.oracle
@pytest.mark.compiler
def test_the_assembler_says_the_same() -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("ptxas 13.5 is not installed: pip install 'ptxlab[assembler]'")
    for instruction, target, version, message in CASES:
        assert judge(ptxas, [instruction], target, version)[instruction].outcome == ("reject" if message else "accept"), instruction
