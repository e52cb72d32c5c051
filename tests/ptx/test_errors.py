"""The exact text of refusals in function bodies, and names that collide."""

from __future__ import annotations

import pytest

from ptxlab.diagnostics import CODES
from ptxlab.ptx import PtxSyntaxError, parse
from tests.ptx.error_text_helpers import HEADER, refusal
from tests.ptx.test_module_errors import CASES as MODULE_CASES

CASES: list[tuple[str, str, str]] = [
    (
        "body",
        "add.s32 %r1, %r2, 4\n\tret;",
        "k.ptx:5:20: error[S101]: expected ',' or ';', found 'ret'\n"
        "  5 | add.s32 %r1, %r2, 4\n"
        "                         ^\n"
        "  fix: end the statement with ';'",
    ),
    (
        "body",
        "\tadd.s32 %r1 %r2, 4;",
        "k.ptx:5:14: error[S101]: expected ',' or ';', found '%r2'\n  5 |  add.s32 %r1 %r2, 4;\n                   ^^^",
    ),
    (
        "body",
        "add.s32 %r1, , 4;",
        "k.ptx:5:14: error[S101]: expected an operand, found ','\n  5 | add.s32 %r1, , 4;\n                   ^",
    ),
    (
        "open",
        "add.s32 %r1, %r2;\n",
        "k.ptx:6:1: error[S101]: expected a statement or '}', found the end of the text",
    ),
    (
        "body",
        "ld.shared.b32 %r1, [%r2-4];",
        "k.ptx:5:24: error[S112]: an address offset cannot be subtracted\n"
        "  5 | ld.shared.b32 %r1, [%r2-4];\n"
        "                             ^\n"
        "  why: Addresses as Operands\n"
        "  fix: add a negative offset: [a+-4]",
    ),
    (
        "body",
        "ld.shared.b32 %r1, [%r2;",
        "k.ptx:5:24: error[S101]: expected '+', ',' or ']', found ';'\n  5 | ld.shared.b32 %r1, [%r2;\n                             ^",
    ),
    (
        "body",
        "ld.global.u32 s, a[1];",
        "k.ptx:5:18: error[S114]: indexing 'a' is not supported\n"
        "  5 | ld.global.u32 s, a[1];\n"
        "                       ^^\n"
        "  why: Arrays as Operands\n"
        "  fix: write the byte offset: [a+4*i]",
    ),
    (
        "body",
        "mov.b64 {%r1, %r2, %rd1;",
        "k.ptx:5:24: error[S101]: expected ',' or '}', found ';'\n  5 | mov.b64 {%r1, %r2, %rd1;\n                             ^",
    ),
    (
        "body",
        "@p {",
        "k.ptx:5:4: error[S101]: expected an instruction, found '{'\n  5 | @p {\n         ^",
    ),
    (
        "body",
        "@!1 bra L;",
        "k.ptx:5:3: error[S101]: expected a predicate, found '1'\n  5 | @!1 bra L;\n        ^",
    ),
    (
        "body",
        "foo bar\nbaz;",
        "k.ptx:5:8: error[S101]: expected ',' or ';', found 'baz'\n  5 | foo bar\n             ^\n  fix: end the statement with ';'",
    ),
    (
        "body",
        ".reg .b32 %r<10>;\n.reg .b64 %r5;",
        "k.ptx:6:11: error[S107]: register '%r5' is already declared on line 5\n"
        "  6 | .reg .b64 %r5;\n"
        "                ^^^\n"
        "  why: Identifiers",
    ),
    (
        "body",
        ".reg .b32 %r<10>;\n.reg .b64 %r<2>;",
        "k.ptx:6:11: error[S107]: register '%r<2>' is already declared on line 5\n"
        "  6 | .reg .b64 %r<2>;\n"
        "                ^^\n"
        "  why: Identifiers",
    ),
    (
        "body",
        "L: ret;\nL: ret;",
        "k.ptx:6:1: error[S107]: label 'L' is already declared on line 5\n  6 | L: ret;\n      ^\n  why: Identifiers",
    ),
    (
        "body",
        ".reg .b31 a;",
        "k.ptx:5:6: error[S111]: unknown type '.b31'\n"
        "  5 | .reg .b31 a;\n"
        "           ^^^^\n"
        "  why: Fundamental Types\n"
        "  fix: did you mean '.b32'?",
    ),
    (
        "body",
        ".reg .bf16 a;",
        "k.ptx:5:6: error[S111]: unknown type '.bf16'\n"
        "  5 | .reg .bf16 a;\n"
        "           ^^^^^\n"
        "  why: Fundamental Types\n"
        "  fix: hold it in '.b16'",
    ),
    (
        "body",
        ".reg a;",
        "k.ptx:5:6: error[S101]: expected a type, found 'a'\n  5 | .reg a;\n           ^",
    ),
    (
        "body",
        ".shraed .b32 a;",
        "k.ptx:5:1: error[S106]: unknown directive '.shraed'\n"
        "  5 | .shraed .b32 a;\n"
        "      ^^^^^^^\n"
        "  why: Directives\n"
        "  fix: did you mean '.shared'?",
    ),
    (
        "body",
        '.file 1 "x"',
        "k.ptx:5:1: error[S106]: directive '.file' is allowed only at module scope\n  5 | .file 1 \"x\"\n      ^^^^^\n  why: Directives",
    ),
    (
        "body",
        ".loc 1 2",
        "k.ptx:6:1: error[S101]: expected a column, found '}'\n  6 | }\n      ^",
    ),
    (
        "body",
        ".loc 1 2 3, inlined 1 2 3",
        "k.ptx:5:13: error[S101]: expected 'function_name' or 'inlined_at', found 'inlined'\n"
        "  5 | .loc 1 2 3, inlined 1 2 3\n"
        "                  ^^^^^^^",
    ),
    (
        "body",
        ".branchtargets a, b;",
        "k.ptx:5:1: error[S106]: directive '.branchtargets' needs a label before it\n"
        "  5 | .branchtargets a, b;\n"
        "      ^^^^^^^^^^^^^^\n"
        "  why: Directives\n"
        "  fix: write 'name: .branchtargets ...;'",
    ),
    (
        "body",
        "mov.u32 a, 0x1G;",
        "k.ptx:5:12: error[S108]: malformed number '0x1G'\n"
        "  5 | mov.u32 a, 0x1G;\n"
        "                 ^^^^\n"
        "  why: Constants\n"
        "  fix: an integer is 12, 0x1F, 0b101 or 017, with an optional U; a float 1.5e3, "
        "0f and 8 or 0d and 16 hex digits",
    ),
    (
        "body",
        "mov.u32 a, 1/0;",
        "k.ptx:5:12: error[S109]: division by zero in a constant expression\n"
        "  5 | mov.u32 a, 1/0;\n"
        "                 ^^^\n"
        "  why: Constant Expressions",
    ),
    (
        "body",
        "mov.u32 a, é;",
        "k.ptx:5:12: error[S102]: unexpected character 'é'\n"
        "  5 | mov.u32 a, é;\n"
        "                 ^\n"
        "  why: PTX text is ASCII (Source Format)",
    ),
    (
        "body",
        'mov.u32 a, "x";',
        'k.ptx:5:12: error[S101]: expected an operand, found the string "x"\n  5 | mov.u32 a, "x";\n                 ^^^',
    ),
    (
        "body",
        "/* open",
        "k.ptx:5:1: error[S103]: this comment has no end\n  5 | /* open\n      ^^\n  fix: close it with '*/'",
    ),
    (
        "body",
        'mov.u32 a, "x',
        "k.ptx:5:12: error[S103]: this string has no end on its line\n  5 | mov.u32 a, \"x\n                 ^\n  fix: close it with '\"'",
    ),
    (
        "body",
        ".reg .b32 %r<x>;",
        "k.ptx:5:14: error[S101]: expected a number of names, found 'x'\n  5 | .reg .b32 %r<x>;\n                   ^",
    ),
    (
        "body",
        "}",
        "k.ptx:6:1: error[S101]: this '}' has no matching '{'\n  6 | }\n      ^",
    ),
    (
        "body",
        "$: ret;",
        "k.ptx:5:1: error[S102]: unexpected character '$'\n  5 | $: ret;\n      ^",
    ),
    (
        "body",
        "123;",
        "k.ptx:5:1: error[S101]: expected a statement or '}', found '123'\n  5 | 123;\n      ^^^",
    ),
    (
        "body",
        "mov.u32 a, " + "(" * 80,
        "k.ptx:5:77: error[S110]: constant expressions nest more than 64 deep\n"
        "  5 | mov.u32 a, ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
        "(((((((((((((((((\n"
        "                                                                                  ^\n"
        "  fix: split the expression or block",
    ),
    (
        "body",
        "{" * 80,
        "k.ptx:5:65: error[S110]: blocks nest more than 64 deep\n"
        "  5 | {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{\n"
        "                                                                      ^\n"
        "  fix: split the expression or block",
    ),
    (
        "body",
        ".loc_intermediate 1 2 3",
        "k.ptx:5:1: error[S106]: '.loc_intermediate' must directly follow a '.loc'\n"
        "  5 | .loc_intermediate 1 2 3\n"
        "      ^^^^^^^^^^^^^^^^^\n"
        "  why: Directives",
    ),
]


@pytest.mark.parametrize(("where", "text", "expected"), CASES)
def test_text(where: str, text: str, expected: str) -> None:
    assert refusal(where, text) == expected


def test_every_code_is_shown() -> None:
    """Each code of the front end has at least one text, here or in `test_module_errors`."""
    shown = {code for code in CODES if any(f"[{code}]" in expected for _, _, expected in (*CASES, *MODULE_CASES))}
    assert shown == {code for code in CODES if code.startswith("S1")}


@pytest.mark.parametrize(
    ("declarations", "line"),
    [
        (".reg .b32 %r<20>;\n.reg .b32 %r1<5>;", 5),  # %r10
        (".reg .b32 %r1<5>;\n.reg .b32 %r<20>;", 5),
        (".reg .b32 %r19;\n.reg .b32 %r<20>;", 5),
        (".reg .b32 %r<20>;\n.reg .b32 %r19;", 5),
        (".reg .b32 a;\n.shared .b32 a;", 5),
        (".reg .b32 a;\na: ret;", 5),
        ("L: ret;\n{ L: ret; }\nL: .branchtargets x;", 5),
        (".reg .b32 %p<1>;\n.reg .pred %p<0>;", 5),
    ],
)
def test_collisions(declarations: str, line: int) -> None:
    with pytest.raises(PtxSyntaxError, match=rf"is already declared on line {line}"):
        parse(HEADER + ".func f {\n" + declarations + "\n}")


@pytest.mark.parametrize(
    "declarations",
    [
        ".reg .b32 %r<20>;\n.reg .b32 %r20, %r01, %rx;",
        ".reg .b32 %r1<5>;\n.reg .b32 %r<10>;",
        ".reg .b32 %r<5>;\n{ .reg .b32 %r<5>; L: ret; }\n{ .reg .b64 %r3; L: ret; }",
        ".reg .b32 a1<3>;\n.reg .b32 a<1>;",
        ".reg .b32 r<0>;\n.reg .b32 r0;",
        ".callprototype_: .callprototype _ (.param .b32 _, .param .b32 _);".replace(".callprototype_", "P"),
    ],
)
def test_no_collision(declarations: str) -> None:
    parse(HEADER + ".func f(.param .b32 %r3) {\n" + declarations + "\n}")


def test_long_tokens_are_cut() -> None:
    with pytest.raises(PtxSyntaxError) as error:
        parse(HEADER + "." + "x" * 100_000)
    found = error.value.diagnostic
    assert found.message == f"unknown directive '.{'x' * 39}...'"
    assert found.place is not None
    assert found.place.length == 100_001
    assert len(found.excerpt) == 2000


def test_control_characters_do_not_reach_the_terminal() -> None:
    with pytest.raises(PtxSyntaxError) as error:
        parse(HEADER + "\x1b[31m")
    assert "\x1b" not in str(error.value)
    assert error.value.diagnostic.message == "unexpected character U+001B"
