"""The exact text of refusals outside function bodies: header, functions, variables, debug information."""

from __future__ import annotations

import pytest

from tests.ptx.error_text_helpers import refusal

CASES: list[tuple[str, str, str]] = [
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
        "module",
        ".func f(.param .u32 a) .noreturn 3 {}",
        "k.ptx:4:34: error[S101]: expected a function directive, ';' or '{', found '3'\n"
        "  4 | .func f(.param .u32 a) .noreturn 3 {}\n"
        "                                       ^",
    ),
]


@pytest.mark.parametrize(("where", "text", "expected"), CASES)
def test_text(where: str, text: str, expected: str) -> None:
    assert refusal(where, text) == expected
