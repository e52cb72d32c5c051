"""Items of modules, and sections with debug information, in hand-written samples."""

from __future__ import annotations

import pytest

from ptxlab.ptx import (
    Alias,
    File,
    Float,
    Function,
    Integer,
    Pragma,
    Section,
    SymbolValue,
    Variable,
    parse,
)
from tests.ptx.language_helpers import item, load

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
