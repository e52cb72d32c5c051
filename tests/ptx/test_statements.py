"""Statements and operands of bodies, in hand-written samples."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.ptx import (
    Arguments,
    Block,
    CallPrototype,
    Float,
    Guard,
    Instruction,
    Integer,
    Label,
    Location,
    Memory,
    Name,
    Negative,
    Not,
    Offset,
    Operand,
    Pair,
    Pragma,
    RegisterDeclaration,
    Sink,
    Statement,
    Targets,
    Variable,
    Vector,
    operand_span,
    parse,
)
from tests.ptx.language_helpers import HEADER, item


def body(text: str) -> list[Statement]:
    block = item(".func f {\n" + text + "\n}").body
    assert isinstance(block, Block)
    return block.statements


def one(text: str) -> Any:
    (only,) = body(text)
    return only


def operands(text: str) -> tuple[Operand, ...]:
    instruction = one(f"op.x {text};")
    assert isinstance(instruction, Instruction)
    return instruction.operands


def test_registers() -> None:
    assert body(".reg .b32 %r<10>, x;\n.reg .v4 .f32 %v;\n.reg .pred p, q;\n.reg .b64 %rd<99999999999>;") == [
        RegisterDeclaration("b32", (("%r", 10), ("x", None))),
        RegisterDeclaration("f32", (("%v", None),), 4),
        RegisterDeclaration("pred", (("p", None), ("q", None))),
        RegisterDeclaration("b64", (("%rd", 99999999999),)),
    ]


def test_local_variables() -> None:
    assert body(".param .b32 ret0;\n.local .align 16 .b8 depot[16];\n.shared .b64 bar, bars[2];") == [
        Variable("param", "b32", "ret0"),
        Variable("local", "b8", "depot", 16, 1, (16,)),
        Variable("shared", "b64", "bar"),
        Variable("shared", "b64", "bars", dims=(2,)),
    ]


def test_statements_and_lines() -> None:
    text = "L: add.s32 a, b, c; sub.s32 a,\n  // between; {\n b /* ; */ ,\n\n 1; ret;; $M:ret;"
    found = body(text)
    assert found == [
        Label("L"),
        Instruction("add.s32", (Name("a"), Name("b"), Name("c"))),
        Instruction("sub.s32", (Name("a"), Name("b"), Integer(1))),
        Instruction("ret", ()),
        Label("$M"),
        Instruction("ret", ()),
    ]
    places = [(s.line, s.column) for s in found]
    assert places == [(5, 1), (5, 4), (5, 21), (9, 5), (9, 11), (9, 14)]


def test_windows_line_ends() -> None:
    module = parse(HEADER.replace("\n", "\r\n") + ".func f {\r\n.loc 1 2 3\r\nret;\r\n}\r\n")
    body = module.functions["f"].body
    assert body is not None
    assert body.statements == [Location(1, 2, 3), Instruction("ret", ())]
    assert body.statements[1].line == 6


def test_guards() -> None:
    found = body("@p ret;\n@!%q bra L;\n@ ! $x\texit;\n@%p1\n  trap;")
    assert [s.guard for s in found] == [Guard("p", False), Guard("%q", True), Guard("$x", True), Guard("%p1", False)]  # type: ignore[union-attr]


def test_scopes() -> None:
    found = body("{ .reg .pred p; L: @p bra L; { L: .loc 1 5 6\n ret; } }\n{ L: }")
    assert found == [
        Block(
            [
                RegisterDeclaration("pred", (("p", None),)),
                Label("L"),
                Instruction("bra", (Name("L"),), Guard("p", False)),
                Block([Label("L"), Location(1, 5, 6), Instruction("ret", ())]),
            ]
        ),
        Block([Label("L")]),
    ]


def test_locations() -> None:
    text = (
        ".loc 1 2 3\n.loc\t2 43 13, function_name $L__info_string0, inlined_at 1 22 30 // x.py:43:13\n"
        ".loc 1 15 3, function_name .debug_str+16, inlined_at 1 10 5\n.loc 1 7 0 .loc 1 8 0\n.loc_intermediate 2 23 6\nret;"
    )
    assert body(text) == [
        Location(1, 2, 3),
        Location(2, 43, 13, "$L__info_string0", 0, (1, 22, 30)),
        Location(1, 15, 3, ".debug_str", 16, (1, 10, 5)),
        Location(1, 7, 0),
        Location(1, 8, 0, intermediate=(2, 23, 6)),
        Instruction("ret", ()),
    ]


def test_location_before_a_percent_name() -> None:
    assert body(".loc 1 2 3\n%top: ret;") == [Location(1, 2, 3), Label("%top"), Instruction("ret", ())]


def test_targets_and_prototypes() -> None:
    text = (
        "T: .branchtargets\n\tA,\n\tB;\nC: .calltargets f, g;\nP0: .callprototype _ ;\n"
        "P1: .callprototype (.param .u32 _) _ (.param .b8 _[12], .param .f32 x) .noreturn .abi_preserve 10;"
    )
    assert body(text) == [
        Targets("branchtargets", "T", ("A", "B")),
        Targets("calltargets", "C", ("f", "g")),
        CallPrototype("P0", (), ()),
        CallPrototype(
            "P1",
            (Variable("param", "u32", "_"),),
            (Variable("param", "b8", "_", dims=(12,)), Variable("param", "f32", "x")),
            ("noreturn", "abi_preserve 10"),
        ),
    ]


def test_pragma_in_a_body() -> None:
    assert body('.pragma "nounroll";\n.pragma "a" , "b" ;') == [Pragma(("nounroll",)), Pragma(("a", "b"))]


def test_calls() -> None:
    found = body("call.uni (r), f, (a, 4, 0f00000000);\ncall f;\ncall (_), %rd1, (), P;\n@p call.uni f, (x);\ncall (r), f, ((1+2)*3);")
    assert [s.operands for s in found] == [  # type: ignore[union-attr]
        (Arguments((Name("r"),)), Name("f"), Arguments((Name("a"), Integer(4), Float(0, 32)))),
        (Name("f"),),
        (Arguments((Sink(),)), Name("%rd1"), Arguments(()), Name("P")),
        (Name("f"), Arguments((Name("x"),))),
        (Arguments((Name("r"),)), Name("f"), Arguments((Integer(9),))),
    ]


def test_unknown_opcodes_parse() -> None:
    opcode = "tcgen05.cp.cta_group::2.64X128B.warpx2::02_13.b8x16.b4x16_p64"
    assert one(f"{opcode} [a], b;") == Instruction(opcode, (Memory(Name("a")), Name("b")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%tid.x", (Name("%tid.x"),)),
        ("%v.x, $_a, a$b, %r1.b0", (Name("%v.x"), Name("$_a"), Name("a$b"), Name("%r1.b0"))),
        ("_, a", (Sink(), Name("a"))),
        ("p|q, _|q, p | _", (Pair(Name("p"), Name("q")), Pair(Sink(), Name("q")), Pair(Name("p"), Sink()))),
        ("!p, -r, - r, ! p", (Not(Name("p")), Negative(Name("r")), Negative(Name("r")), Not(Name("p")))),
        ("{a,b}, { c, _, 1 }", (Vector((Name("a"), Name("b"))), Vector((Name("c"), Sink(), Integer(1))))),
        ("{a, b}|p, c", (Pair(Vector((Name("a"), Name("b"))), Name("p")), Name("c"))),
        ("[a], [ %r26 + 0 ], [a+-4], [sym+8]", (*(Memory(Name(n), o) for n, o in [("a", 0), ("%r26", 0), ("a", -4), ("sym", 8)]),)),
        ("[0x400], [12+4], [a+(4*2)], [a+8-4]", (Memory(Integer(0x400)), Memory(Integer(16)), Memory(Name("a"), 8), Memory(Name("a"), 4))),
        ("[a+0xFFFFFFFFFFFFFFFC]", (Memory(Name("a"), -4),)),
        ("[a].unified", (Memory(Name("a"), unified=True),)),
        (
            "[%rd8, {%r133, %r100}], [%rd9]",
            (Memory(Name("%rd8"), 0, (Vector((Name("%r133"), Name("%r100"))),)), Memory(Name("%rd9"))),
        ),
        (
            "[d], [m, {x, y, z}], [b], {o1, o2}, mask, policy",
            (
                Memory(Name("d")),
                Memory(Name("m"), 0, (Vector((Name("x"), Name("y"), Name("z"))),)),
                Memory(Name("b")),
                Vector((Name("o1"), Name("o2"))),
                Name("mask"),
                Name("policy"),
            ),
        ),
        ("[t, s, {x}], [t+64, x]", (Memory(Name("t"), 0, (Name("s"), Vector((Name("x"),)))), Memory(Name("t"), 64, (Name("x"),)))),
        ("sym+4, sym-4, sym+-4, sym + 4*2", (*(Offset(Name("sym"), o) for o in (4, -4, -4, 8)),)),
        ("WARP_SZ, -WARP_SZ, WARP_SZ*2, [WARP_SZ]", (Integer(32), Integer(-32), Integer(64), Memory(Integer(32)))),
        ("0f3F800000, 0F3f800000, 0d3FF0000000000000", (Float(0x3F800000, 32), Float(0x3F800000, 32), Float(0x3FF0000000000000, 64))),
        ("0d7FF0000000000001, 0dFFF8000000000123", (Float(0x7FF0000000000001, 64), Float(0xFFF8000000000123, 64))),
        ("1.5, 1e3, -2.5E-1, 1.", (*(Float(b, 64) for b in (0x3FF8 << 48, 0x408F400000000000, 0xBFD0 << 48, 0x3FF0 << 48)),)),
        ("-0f3F800000", (Float(0xBF800000, 32),)),
        ("12, 0x1F, 017, 0b101, 12U, 0xFU, 0", (*(Integer(v) for v in (12, 31, 15, 5, 12, 15, 0)),)),
        ("-1, -0x10, 18446744073709551615, 0xFFFFFFFFFFFFFFFF", (*(Integer(v) for v in (-1, -16, 2**64 - 1, 2**64 - 1)),)),
        ("-9223372036854775808, -9223372036854775807-1", (Integer(-(2**63)), Integer(-(2**63)))),
    ],
)  # fmt: skip
def test_operands(text: str, expected: tuple[Operand, ...]) -> None:
    assert operands(text) == expected
    # comments keep the regular expressions out: the exact parser must read the same
    assert operands(text + " /* exactly */") == expected


def test_operand_spans() -> None:
    module = parse(HEADER + ".func f {\n@!p\n  call (r),\n    f , ( a, b ), P ;\n op {b}|c;\n}", "s.ptx")
    body = module.functions["f"].body
    assert body is not None
    call = body.statements[0]
    assert isinstance(call, Instruction)
    assert [operand_span(module, call, i) for i in range(4)] == [(6, 8, 3), (7, 5, 1), (7, 9, 8), (7, 19, 1)]
    assert operand_span(module, call, 4) == (5, 1, 0)
    assert operand_span(module, Instruction("ret", (Name("a"),)), 0) == (0, 0, 0)
