"""The exact text of every refusal of the front end."""

from __future__ import annotations

import pytest

from ptxlab.diagnostics import CODES
from ptxlab.ptx import PtxSyntaxError, parse

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
WRAP = {"module": HEADER + "%s", "body": HEADER + ".func f {\n%s\n}", "open": HEADER + ".func f {\n%s", "text": "%s"}

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
        "module",
        ".globl x;",
        "k.ptx:4:1: error[S106]: unknown directive '.globl'\n"
        "  4 | .globl x;\n"
        "      ^^^^^^\n"
        "  why: Directives\n"
        "  fix: did you mean '.global'?",
    ),
    (
        "module",
        ".reg .b32 a;",
        "k.ptx:4:1: error[S106]: directive '.reg' is allowed only in a function body\n  4 | .reg .b32 a;\n      ^^^^\n  why: Directives",
    ),
    (
        "module",
        ".entry k(.param .u32 a, .param .u32 a) {}",
        "k.ptx:4:37: error[S107]: parameter 'a' is already declared on line 4\n"
        "  4 | .entry k(.param .u32 a, .param .u32 a) {}\n"
        "                                          ^\n"
        "  why: Identifiers",
    ),
    (
        "module",
        ".entry k() {}\n.entry k() {}",
        "k.ptx:5:8: error[S107]: function 'k' has a second body\n  5 | .entry k() {}\n             ^\n  why: Identifiers",
    ),
    (
        "module",
        ".global .u32 x;\n.func x {}",
        "k.ptx:5:7: error[S107]: function 'x' is already declared on line 4\n  5 | .func x {}\n            ^\n  why: Identifiers",
    ),
    (
        "module",
        ".entry k() .reqntid 1, 2, 3, 4 {}",
        "k.ptx:4:12: error[S101]: '.reqntid' takes 1 to 3 values, not 4\n"
        "  4 | .entry k() .reqntid 1, 2, 3, 4 {}\n"
        "                 ^^^^^^^^^^^^^^^^^^^",
    ),
    (
        "module",
        ".entry k() .reqnitd 1 {}",
        "k.ptx:4:12: error[S106]: unknown function directive '.reqnitd'\n"
        "  4 | .entry k() .reqnitd 1 {}\n"
        "                 ^^^^^^^^\n"
        "  why: Directives\n"
        "  fix: did you mean '.reqntid'?",
    ),
    (
        "module",
        ".entry k(.u32 a) {}",
        "k.ptx:4:10: error[S101]: expected '.param' or '.reg', found '.u32'\n  4 | .entry k(.u32 a) {}\n               ^^^^",
    ),
    (
        "module",
        ".visible .u32 x;",
        "k.ptx:4:10: error[S101]: expected '.entry', '.func' or a state space, found '.u32'\n  4 | .visible .u32 x;\n               ^^^^",
    ),
    (
        "module",
        ".global .align 3 .b8 x;",
        "k.ptx:4:16: error[S101]: an alignment is a power of two, not 3\n  4 | .global .align 3 .b8 x;\n                     ^",
    ),
    (
        "module",
        ".global .u32 x[-1];",
        "k.ptx:4:16: error[S101]: an array dimension is not negative: -1\n  4 | .global .u32 x[-1];\n                     ^^",
    ),
    (
        "module",
        ".global .u8 x = 0x0F(y);",
        "k.ptx:4:17: error[S101]: a mask selects one byte: 0xFF, 0xFF00, ...\n"
        "  4 | .global .u8 x = 0x0F(y);\n"
        "                      ^^^^\n"
        "  why: Initializers",
    ),
    (
        "module",
        ".global .u32 x = {1, 2;",
        "k.ptx:4:23: error[S101]: expected ',' or '}', found ';'\n  4 | .global .u32 x = {1, 2;\n                            ^",
    ),
    (
        "module",
        "add.s32 a, b, c;",
        "k.ptx:4:1: error[S101]: expected a directive, found 'add.s32'\n  4 | add.s32 a, b, c;\n      ^^^^^^^",
    ),
    (
        "module",
        ".section .debug_info { .b8 1 .c 4 }",
        "k.ptx:4:30: error[S101]: expected '.b8', '.b16', '.b32', '.b64', 'label:' or '}', found '.c'\n"
        "  4 | .section .debug_info { .b8 1 .c 4 }\n"
        "                                   ^^",
    ),
    (
        "module",
        ".file x",
        "k.ptx:4:7: error[S101]: expected a file index, found 'x'\n  4 | .file x\n            ^",
    ),
    (
        "module",
        ".pragma nounroll;",
        "k.ptx:4:9: error[S101]: expected a string, found 'nounroll'\n  4 | .pragma nounroll;\n              ^^^^^^^^",
    ),
    (
        "module",
        ".address_size 48",
        "k.ptx:4:15: error[S101]: expected '32' or '64', found '48'\n  4 | .address_size 48\n                    ^^",
    ),
    (
        "module",
        ".address_size 32",
        "k.ptx:4:15: error[S113]: a second '.address_size' that differs from the first\n"
        "  4 | .address_size 32\n"
        "                    ^^\n"
        "  why: PTX Module Directives",
    ),
    (
        "module",
        ".version 9.1",
        "k.ptx:4:10: error[S113]: a second '.version' that differs from the first\n"
        "  4 | .version 9.1\n"
        "               ^^^\n"
        "  why: PTX Module Directives",
    ),
    (
        "text",
        ".version nine",
        "k.ptx:1:10: error[S101]: expected a version such as 9.0, found 'nine'\n  1 | .version nine\n               ^^^^",
    ),
    (
        "text",
        "",
        "k.ptx:1:1: error[S104]: the module has no '.version' directive\n"
        "  why: PTX Module Directives: .version\n"
        "  fix: begin the module with '.version 9.0' or another version",
    ),
    (
        "text",
        ".version 9.0\n",
        "k.ptx:2:1: error[S105]: the module has no '.target' directive\n"
        "  why: PTX Module Directives: .target\n"
        "  fix: write '.target sm_100a' or another target after '.version'",
    ),
    (
        "text",
        ".version 9.0\n.entry k() {}",
        "k.ptx:2:1: error[S105]: '.entry' has no '.target' directive before it\n"
        "  2 | .entry k() {}\n"
        "      ^^^^^^\n"
        "  why: PTX Module Directives: .target\n"
        "  fix: write '.target sm_100a' or another target after '.version'",
    ),
    (
        "text",
        ".target sm_90",
        "k.ptx:1:1: error[S104]: '.target' has no '.version' directive before it\n"
        "  1 | .target sm_90\n"
        "      ^^^^^^^\n"
        "  why: PTX Module Directives: .version\n"
        "  fix: begin the module with '.version 9.0' or another version",
    ),
    (
        "text",
        "// c\n.entry k() {}",
        "k.ptx:2:1: error[S104]: '.entry' has no '.version' directive before it\n"
        "  2 | .entry k() {}\n"
        "      ^^^^^^\n"
        "  why: PTX Module Directives: .version\n"
        "  fix: begin the module with '.version 9.0' or another version",
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
        "module",
        ".global .u32 x = 1.5 + 1;",
        "k.ptx:4:18: error[S109]: operator '+' takes two integers, or (but for bits and logic) two floats\n"
        "  4 | .global .u32 x = 1.5 + 1;\n"
        "                       ^^^^^^^\n"
        "  why: Constant Expressions",
    ),
    (
        "module",
        ".global .u32 %x<9999>;",
        "k.ptx:4:14: error[S101]: a parameterised name has no dimensions or initialiser, "
        "and at most 4096 numbers\n"
        "  4 | .global .u32 %x<9999>;\n"
        "                   ^^^^^^^^\n"
        "  why: Parameterized Variable Names",
    ),
    (
        "body",
        ".loc_intermediate 1 2 3",
        "k.ptx:5:1: error[S106]: '.loc_intermediate' must directly follow a '.loc'\n"
        "  5 | .loc_intermediate 1 2 3\n"
        "      ^^^^^^^^^^^^^^^^^\n"
        "  why: Directives",
    ),
    (
        "module",
        ".func f(.param .u32 a) .noreturn 3 {}",
        "k.ptx:4:34: error[S101]: expected a function directive, ';' or '{', found '3'\n"
        "  4 | .func f(.param .u32 a) .noreturn 3 {}\n"
        "                                       ^",
    ),
]


@pytest.mark.parametrize(("where", "text", "expected"), CASES)
def test_text(where: str, text: str, expected: str) -> None:
    with pytest.raises(PtxSyntaxError) as error:
        parse(WRAP[where] % text, "k.ptx")
    assert str(error.value) == expected


def test_every_code_is_shown() -> None:
    """Each code of the front end has at least one text above."""
    shown = {code for code in CODES if any(f"[{code}]" in expected for _, _, expected in CASES)}
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
