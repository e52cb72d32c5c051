"""Every construct of the language, in hand-written samples."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.ptx import (
    Alias,
    Arguments,
    Block,
    CallPrototype,
    File,
    Float,
    Function,
    Guard,
    Instruction,
    Integer,
    Label,
    Location,
    Memory,
    Module,
    Name,
    Negative,
    Not,
    Offset,
    Operand,
    Pair,
    Pragma,
    RegisterDeclaration,
    Section,
    Sink,
    Statement,
    SymbolValue,
    Targets,
    Variable,
    Vector,
    operand_span,
    parse,
    to_text,
)

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def load(text: str) -> Module:
    """Parse, and check that the printed module is the same one."""
    module = parse(HEADER + text)
    assert parse(to_text(module)) == module
    return module


def item(text: str) -> Any:
    (only,) = load(text).items
    return only


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


# ------------------------------------------------------------------------------------------- module


@pytest.mark.parametrize("version", [(8, 0), (8, 6), (8, 8), (9, 0), (9, 4), (9, 5)])
def test_header(version: tuple[int, int]) -> None:
    text = ".version {}.{} // first\n/* then */ .target sm_100a, texmode_independent,\n debug\n.address_size 64"
    module = parse(text.format(*version), "a.ptx")
    assert module.version == version
    assert module.targets == ("sm_100a", "texmode_independent", "debug")
    assert module.target == "sm_100a"
    assert module.address_size == 64
    assert module.items == []
    assert module.file == "a.ptx"


def test_header_defaults_and_repetition() -> None:
    module = parse(".version 8.0 .target sm_90 .version 8.0 .target sm_90a, debug")
    assert (module.version, module.targets, module.address_size) == ((8, 0), ("sm_90", "sm_90a", "debug"), 64)


def test_linkage() -> None:
    module = load(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.visible .entry k() {}\n.weak .func w {}\n"
        ".func plain;\n.common .global .b32 c;\n.extern .shared .align 16 .b8 smem[];\n.visible .const .u32 v;"
    )
    assert [i.linkage for i in module.items] == ["extern", "visible", "weak", "", "common", "extern", "visible"]  # type: ignore[union-attr]
    assert module.functions["vprintf"].returns == (Variable("param", "b32", "r"),)
    assert module.functions["vprintf"].body is None


def test_definition_wins_over_prototype() -> None:
    module = load(".func f(.param .b32 a);\n.func f(.param .b32 a) { ret; }\n.func f(.param .b32 a);")
    assert module.functions["f"].body is not None
    assert len(module.items) == 3


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        (".global .u32 x;", Variable("global", "u32", "x")),
        (".shared .align 128 .b8 s[4096];", Variable("shared", "b8", "s", 128, 1, (4096,))),
        (".extern .shared .align 16 .b8 s[];", Variable("shared", "b8", "s", 16, 1, (-1,), None, "extern")),
        (".const .align 4 .f32 c[2][3];", Variable("const", "f32", "c", 4, 1, (2, 3))),
        (".global .v4 .f32 v;", Variable("global", "f32", "v", None, 4)),
        (".global .align 8 .v2 .b64 v[4*2];", Variable("global", "b64", "v", 8, 2, (8,))),
        (".tex .u32 t;", Variable("tex", "u32", "t")),
        (".global .texref t;", Variable("global", "texref", "t")),
        (".global .u32 x = 5;", Variable("global", "u32", "x", initialiser=Integer(5))),
        (".global .s32 x = -(1 << 4);", Variable("global", "s32", "x", initialiser=Integer(-16))),
        (".global .f32 x = 0f3F800000;", Variable("global", "f32", "x", initialiser=Float(0x3F800000, 32))),
        (".const .f64 x = .5;", Variable("const", "f64", "x", initialiser=Float(0x3FE0000000000000, 64))),
        (
            ".global .b8 x[3] = {1, 0xFF, -2};",
            Variable("global", "b8", "x", dims=(3,), initialiser=(Integer(1), Integer(255), Integer(-2))),
        ),
        (
            ".global .s32 x[2][2] = {{1,2}, {3},};",
            Variable("global", "s32", "x", dims=(2, 2), initialiser=((Integer(1), Integer(2)), (Integer(3),))),
        ),
        (".global .b8 x[1] = {};", Variable("global", "b8", "x", dims=(1,), initialiser=())),
        (".global .u64 p = y;", Variable("global", "u64", "p", initialiser=SymbolValue("y"))),
        (".global .u64 p = y+8;", Variable("global", "u64", "p", initialiser=SymbolValue("y", 8))),
        (".global .u64 p = y-8;", Variable("global", "u64", "p", initialiser=SymbolValue("y", -8))),
        (".global .u64 p = generic(y)+8;", Variable("global", "u64", "p", initialiser=SymbolValue("y", 8, True))),
        (
            ".global .u64 p[2] = {generic(y+4), y};",
            Variable("global", "u64", "p", dims=(2,), initialiser=(SymbolValue("y", 4, True), SymbolValue("y"))),
        ),
        (
            ".global .u8 p[] = {0xFF(y), 0xff00(y+4), 0xFF0000(generic(y)+4), 0xFF00(131187), 7};",
            Variable(
                "global",
                "u8",
                "p",
                dims=(-1,),
                initialiser=(
                    SymbolValue("y", mask=0xFF),
                    SymbolValue("y", 4, mask=0xFF00),
                    SymbolValue("y", 4, True, 0xFF0000),
                    Integer(0),
                    Integer(7),
                ),
            ),
        ),
        (
            ".global .samplerref s = { addr_mode_0 = clamp_to_border, force_unnormalized_coords = 1 };",
            Variable(
                "global",
                "samplerref",
                "s",
                initialiser=(
                    (SymbolValue("addr_mode_0"), SymbolValue("clamp_to_border")),
                    (SymbolValue("force_unnormalized_coords"), Integer(1)),
                ),
            ),
        ),
        (
            ".global .attribute(.managed, .unified(19,0x5F)) .align 4 .b8 m[16];",
            Variable("global", "b8", "m", 4, 1, (16,), attributes=(".managed", ".unified(19, 95)")),
        ),
    ],
)
def test_variables(text: str, variable: Variable) -> None:
    assert item(text) == variable


def test_several_declarators() -> None:
    found = load(".global .u32 a = 1, b[2], %v<3>;").items
    assert found == [
        Variable("global", "u32", "a", initialiser=Integer(1)),
        Variable("global", "u32", "b", dims=(2,)),
        *(Variable("global", "u32", f"%v{i}") for i in range(3)),
    ]


def test_parameters() -> None:
    f = item(
        ".visible .entry k(\n\t.param .align 64 .b8 map[128],\n\t.param .u64 .ptr .global .align 16 a,\n"
        "\t.param .u64 .ptr.shared.align 8 b, .param .b64 .ptr c, .param .u32 d[4], .param .u64 .ptr .align 4 e\n)\n{ }"
    )
    assert f.params == (
        Variable("param", "b8", "map", 64, 1, (128,)),
        Variable("param", "u64", "a", ptr=("global", 16)),
        Variable("param", "u64", "b", ptr=("shared", 8)),
        Variable("param", "b64", "c", ptr=("", 0)),
        Variable("param", "u32", "d", dims=(4,)),
        Variable("param", "u64", "e", ptr=("", 4)),
    )
    assert (f.params[1].line, f.params[1].column) == (6, 2)


def test_function_parameters_in_registers() -> None:
    f = item(".func (.reg .b32 r) foo (.reg .b32 n, .reg .f64 d, .param .align 4 .b8 rest[]) { ret; }")
    assert f.returns == (Variable("reg", "b32", "r"),)
    assert [p.space for p in f.params] == ["reg", "reg", "param"]


def test_function_directives() -> None:
    f = item(
        ".entry k() .reqntid 128, 1, 2 .maxntid 256 .minnctapersm 1+1 .maxnctapersm 3 .maxnreg 255\n"
        ".reqnctapercluster 2, 1 .maxclusterrank 8 .explicitcluster .blocksareclusters .minperctamemory 2048;\n"
        '.pragma "nounroll", "x"; .language "ptx", 0x7 { }'
    )
    assert f.directives == (
        ("reqntid", (128, 1, 2)),
        ("maxntid", (256,)),
        ("minnctapersm", (2,)),
        ("maxnctapersm", (3,)),
        ("maxnreg", (255,)),
        ("reqnctapercluster", (2, 1)),
        ("maxclusterrank", (8,)),
        ("explicitcluster", ()),
        ("blocksareclusters", ()),
        ("minperctamemory", (2048,)),
        ("pragma", ("nounroll", "x")),
        ("language", ("ptx", 7)),
    )
    assert f.directive("maxnreg") == (255,)
    assert f.directive("noreturn") is None


def test_function_attributes() -> None:
    f = item(".func .attribute(.unified(0xAB, 0xCD)) bar() .noreturn .abi_preserve 10 .abi_preserve_control 14;")
    assert f.directives == (
        ("attribute", (".unified(171, 205)",)),
        ("noreturn", ()),
        ("abi_preserve", (10,)),
        ("abi_preserve_control", (14,)),
    )


def test_alias_pragma_file() -> None:
    module = load('.func g {}\n.alias h, g;\n.pragma "a", "b";\n.file 1 "dir/x.py"\n.file 2 "y.py", 1399012139, 83')
    assert module.items[1:] == [
        Alias("h", "g"),
        Pragma(("a", "b")),
        File(1, "dir/x.py"),
        File(2, "y.py", 1399012139, 83),
    ]
    assert module.files == {1: "dir/x.py", 2: "y.py"}


# --------------------------------------------------------------------------------------- statements


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


# ----------------------------------------------------------------------------------------- operands


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


# -------------------------------------------------------------------------------------------- debug


def test_sections() -> None:
    module = load(
        "\t.section\t.debug_abbrev\n\t{\n.b8 1   // Abbreviation } Code\n.b8 17,0\n\t}\n"
        "\t.section .debug_info {\n$L__begin: .b32 68\n.b64 $L__tmp0-$L__func_begin0 \n.b32 .debug_abbrev\n"
        ".b32 .debug_loc+0x4\n.b8 -11, 11,\n 112 /* more */, 97\n.b16 -5\n.b64 label + 12\n}\n"
        "\t.section\t.debug_macinfo\t{\t}\n.func f { ret; }\n.section .debug_str { info_string0:\n.b8 95 }"
    )
    sections = [i for i in module.items if isinstance(i, Section)]
    assert [(s.name, s.lines) for s in sections] == [
        (".debug_abbrev", (".b8 1", ".b8 17,0")),
        (
            ".debug_info",
            (
                "$L__begin:",
                ".b32 68",
                ".b64 $L__tmp0-$L__func_begin0",
                ".b32 .debug_abbrev",
                ".b32 .debug_loc+0x4",
                ".b8 -11, 11, 112 , 97",
                ".b16 -5",
                ".b64 label + 12",
            ),
        ),
        (".debug_macinfo", ()),
        (".debug_str", ("info_string0:", ".b8 95")),
    ]


def test_dwarf_lines() -> None:
    module = load('@@DWARF .section .debug_pubnames, "", @progbits\n@@DWARF .byte 0x2b, 0x00\n.func f {}\n@@DWARF .4byte x')
    assert [i.lines for i in module.items if isinstance(i, Section)] == [
        ('.section .debug_pubnames, "", @progbits', ".byte 0x2b, 0x00"),
        (".4byte x",),
    ]


def test_intermediate_source() -> None:
    module = load(
        '.file 1 "a"\n.nv_intermediate_source_section {\n .code_block {\n  .ir_name: "Tile{IR"\n  .sourceFileName: 1\n'
        '  .source_begin\n   if (x) { "open\n  .source_end\n }\n}\n.func f {}'
    )
    (section,) = [i for i in module.items if isinstance(i, Section)]
    assert section.name == ".nv_intermediate_source_section"
    assert section.lines[4] == '   if (x) { "open'
    assert isinstance(module.items[-1], Function)
