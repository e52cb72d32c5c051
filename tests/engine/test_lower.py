"""Names, operands, layouts; the exact text of what is refused."""

from __future__ import annotations

import pytest

from ptxlab import ptx
from ptxlab.diagnostics import PtxlabError
from ptxlab.engine import lower
from ptxlab.isa.operands import Addr, Const, Group, Reg, SymbolAddress, Unused
from tests.engine.engine_helpers import HEADER, program_of

REFUSED = [
    ("add.s32 %r1, %r2;", "U207", 1, "add.s32: 2 operands are given, 3 are expected", ""),
    ("add.s32 %r1, %r2, %rd3;", "U206", 19, "add.s32: operand 3: %rd3 is .b64 (64 bits), but .s32 (32 bits) is expected", ""),
    ("add.s32 %rx1, %r2, %r3;", "U203", 9, "the register %rx1 is not declared", "declare it with .reg"),
    ("mov.u32 %r1, %r80;", "U203", 14, "the register %r80 is not declared", "%r0 to %r79 are declared"),
    ("LOOP: bra LOOP1;", "U204", 11, "the label LOOP1 is not declared", "did you mean LOOP?"),
    ("mov.u64 %rd1, nothing;", "U205", 15, "nothing is not declared", ""),
    ("frob.s32 %r1;", "U202", 1, "there is no instruction frob.s32", ""),
    ("setpp.s32 %r1;", "U202", 1, "there is no instruction setpp.s32", "did you mean setp?"),
    (
        "add.q7.s32 %r1, %r2, %r3;",
        "U202",
        1,
        "add does not exist with the modifiers of add.q7.s32",
        "forms like add.(type=u16|s16|u32|s32|u64|s64) or add.cc.(type=u32|s32|u64|s64) exist",
    ),
    ("multimem.red.global.add.u32;", "U201", 1, "multimem.red.global.add.u32 is not executed by this version of ptxlab", ""),
    ("call foo;", "U205", 6, "the function foo is not declared", ""),
    ("@%r1 bra L; L:", "U208", 2, "the guard %r1 is not a predicate register", ""),
    ("mov.u32 %tid.x, %r1;", "U206", 9, "mov.u32: operand 1: %tid.x is a special register and cannot be written", ""),
    ("ld.global.b32 %r1, [%h1];", "U206", 20, "ld.global.b32: the address register %h1 is .b16, but 32 or 64 bits are expected", ""),
    ("mov.b64 %rd1, {%r1, %r2, %r3};", "U206", 15, "mov.b64: operand 2: a vector of 3 cannot make up 64 bits", ""),
    ("st.shared.v2.b32 [%r1], {%r2};", "U206", 25, "st.shared.v2.b32: operand 2: a vector of 2 registers of type .b32 is expected", ""),
    ("brx.idx %r1, L; L:", "U204", 14, "L names no .branchtargets list", ""),
    ("mov.u32 %r1, %f1;", "U206", 14, "mov.u32: operand 2: %f1 is .f32, but .u32 is expected", ""),
    ("add.u32 %r1, %r2, 0f3F800000;", "U206", 19, "add.u32: operand 3: a floating-point constant cannot stand for .u32", ""),
    ("ld.global.b32 5, [%rd1];", "U206", 15, "ld.global.b32: operand 1: a register of type .b32 is expected as destination", ""),
    ("{ .reg .u32 a; mov.u32 a, 1; } mov.u32 %r1, a;", "U205", 45, "a is not declared", ""),
    ("ld.shared.b64 %r1, [%r2];", "U206", 15, "ld.shared.b64: operand 1: %r1 is .b32 (32 bits), but .b64 (64 bits) is expected", ""),
    ("st.global.b32 [%rd1], _;", "U206", 23, "st.global.b32: operand 2: the bit bucket _ stands only for a destination", ""),
    ("bra %r1;", "U206", 5, "bra: operand 1: a label is expected", ""),
]


@pytest.mark.parametrize(("body", "code", "column", "message", "fix"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals(body, code, column, message, fix):
    with pytest.raises(PtxlabError) as caught:
        program_of(body)
    found = caught.value.diagnostic
    assert (found.code, found.message, found.fix) == (code, message, fix)
    assert (found.place.line, found.place.column) == (9, column)
    assert found.excerpt == body


def test_all_errors_are_told_in_order():
    with pytest.raises(PtxlabError) as caught:
        program_of("\n".join(["frob;", "bra A;", "add.s32 %r1, %r2;"] * 50))
    codes = [d.code for d in caught.value.diagnostics]
    assert len(codes) == 100
    assert codes[:3] == ["U202", "U204", "U207"]


def test_a_declaration_is_no_kernel():
    module = ptx.parse(f"{HEADER}.entry k();")
    with pytest.raises(PtxlabError, match="k is declared but has no body"):
        lower(module, module.functions["k"])


def test_parameters_are_aligned():
    program = program_of(
        "ret;", params=".param .u8 a, .param .u64 b, .param .align 64 .b8 c[130], .param .u16 d, .param .u64 .ptr .global e"
    )
    assert [(p.name, p.offset, p.size, p.pointer) for p in program.parameters] == [
        ("a", 0, 1, False),
        ("b", 8, 8, True),
        ("c", 64, 130, False),
        ("d", 194, 2, False),
        ("e", 200, 8, True),
    ]
    assert program.param_bytes == 208


@pytest.mark.parametrize(
    ("declared", "variables", "end", "dynamic"),
    [
        ("", {}, 0x400, 0x400),
        (".shared .b8 a[52];", {"a": 0x400}, 0x434, 0x440),
        (".shared .b8 a[52]; .extern .shared .align 1024 .b8 d[];", {"a": 0x400, "d": 0x800}, 0x434, 0x800),
        (".extern .shared .align 16 .b8 d[]; .extern .shared .align 128 .b8 e[];", {"d": 0x400, "e": 0x400}, 0x400, 0x400),
        (".shared .b8 a[3]; .shared .b64 b; .shared .align 128 .v4 .b32 c;", {"a": 0x400, "b": 0x408, "c": 0x480}, 0x490, 0x490),
        (".shared .b8 unused[512]; .shared .b8 a[16];", {"a": 0x400}, 0x410, 0x410),
    ],
)
def test_shared_layout(declared, variables, end, dynamic):
    body = " ".join(f"mov.u32 %r1, {name};" for name in variables)
    layout = program_of(body, before=declared).shared
    assert (layout.variables, layout.static_end, layout.dynamic) == (variables, end, dynamic)


def test_operands_resolve():
    program = program_of(
        """.shared .align 8 .b8 s[64]; mov.u32 %r1, s+8; mov.b64 {%r2, _}, %rd1; ld.param.b32 %r3, [p+4]; st.global.b32 [g+12], %r3;
        mov.u32 %r4, WARP_SZ; mov.pred %p1, !%p2; mov.f32 %f1, 0f3F800000; ld.shared.b32 %r5, [1024]; elect.sync _|%p3, -1; ret;""",
        params=".param .u64 p",
        before=".global .b32 g[8];",
    )
    move, unpack, load, store, size, negated, one, absolute, elect, _ = program.ops
    assert move.operands[1] == SymbolAddress("shared", "s", 0x408)
    assert unpack.operands[0] == Group((Reg(unpack.operands[0].items[0].index), Unused()))
    assert load.operands[1] == Addr(SymbolAddress("param", "p", 0x380), 4)
    assert store.operands[0] == Addr(SymbolAddress("global", "g", 0), 12)
    assert program.symbols == ["g"]
    assert size.operands[1] == Const(32)
    assert negated.operands[1].negated
    assert one.operands[1] == Const(0x3F800000, 32)
    assert absolute.operands[1] == Addr(None, 1024)
    assert elect.operands[0].first == Unused()


def test_inner_scopes_have_their_own_names():
    program = program_of(
        """.reg .b32 a; mov.u32 a, 1;
        { .reg .b32 a; .reg .pred p; L: mov.u32 a, 2; setp.eq.u32 p, a, 3; @p bra L; bra OUT; }
        { .reg .b64 a; L: mov.u64 a, 2; bra L; } OUT: mov.u32 %r1, a; ret;"""
    )
    assert [r.type for r in program.registers if r.name == "a"] == ["b32", "b32", "b64"]
    assert len(program.ops) == 7  # the unreachable block is left out


def test_vector_registers():
    program = program_of(".reg .v4 .b32 v; ld.global.v4.b32 v, [%rd1]; add.s32 %r1, v.x, v.w; ret;")
    load, add, _ = program.ops
    assert [program.registers[item.index].name for item in load.operands[0].items] == ["v.x", "v.y", "v.z", "v.w"]
    assert program.registers[add.operands[2].index].name == "v.w"


def test_code_that_runs_off_the_end_exits():
    program = program_of("mov.u32 %r1, 1; L:")
    assert [op.opcode for op in program.ops] == ["mov.u32", "exit"]


@pytest.mark.parametrize(
    ("before", "scale", "read"),
    [
        ("", "0", False),
        ("", "1", True),
        ("mov.b32 %r9, 0; setp.ne.b32 %p1, %r9, 0;", "%p1", False),
        ("mov.b32 %r9, 1; setp.ne.b32 %p1, %r9, 0;", "%p1", True),
        ("mov.b32 %r8, 5; add.s32 %r9, %r8, -5; setp.ne.b32 %p1, %r9, 0;", "%p1", False),
        ("mov.b32 %r9, %tid.x; setp.ne.b32 %p1, %r9, %r9;", "%p1", True),
        ("mov.b32 %r9, 0; setp.ne.b32 %p1, %r9, 0; setp.eq.b32 %p1, %r9, 0;", "%p1", True),
        ("setp.eq.b32 %p2, %tid.x, 0; mov.b32 %r9, 0; @%p2 setp.ne.b32 %p1, %r9, 0;", "%p1", True),
        ("mov.b32 %r9, %r9; setp.ne.b32 %p1, %r9, 0;", "%p1", True),
    ],
)
def test_a_product_that_adds_to_nothing_does_not_read_its_destination(before, scale, read):
    text = f"""{HEADER.replace("sm_100a", "sm_90a")}.entry k() {{
      .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<3>; .reg .f32 %f<5>;
      mov.b64 %rd1, 0; mov.b64 %rd2, 0; {before}
      wgmma.fence.sync.aligned;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1, %f2, %f3, %f4}}, %rd1, %rd2, {scale}, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
      max.f32 %f1, %f1, %f2; st.local.f32 [0], %f1; ret;
    }}"""
    module = ptx.parse(text)
    program = lower(module, module.functions["k"])
    undefined = {program.registers[register].name for register in program.unwritten}
    assert undefined >= {"%f1", "%f2", "%f3", "%f4"} if read else not undefined
    assert program.tracked is read
