"""The texts of findings, `lint` of modules, the command line, and the pages of the codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.cli._main import cli
from ptxlab.isa import load_all
from ptxlab.isa.form import FORMS
from tests.sweep_helpers import one_in
from tests.time_helpers import processor_seconds, quickest

load_all()

ROOT = Path(__file__).parents[2]
KERNELS = sorted(
    [*(ROOT / "tests" / "end_to_end" / "triton").glob("*.ptx"), *(ROOT / "tests" / "end_to_end" / "triton_sm90").glob("*.ptx")]
)
WRONG = """.version 8.6
.target sm_100a
.address_size 64
.entry k() {
  .reg .b32 %r<4>;
  .reg .f32 %f;
  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%f];
  ret;
}
"""


@pytest.mark.parametrize("path", one_in(3, KERNELS), ids=lambda p: p.stem)
def test_no_error_on_compiled_kernels(path: Path) -> None:
    assert [str(d) for d in ptxlab.lint(path.read_text()) if d.severity == "error"] == []


def test_a_long_kernel_in_a_second() -> None:
    head, load = WRONG.split("  tcgen05")[0].replace(".f32 %f;", ".f32 %f<2>;"), "  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];\n"
    text = head + (load + "  add.u32 %r1, %r2, %r3;\n") * 1000 + "  ret;\n}\n"
    ptxlab.lint(WRONG)
    assert ptxlab.lint(text, dataflow=False) == []
    assert quickest(lambda: processor_seconds(lambda: ptxlab.lint(text, dataflow=False)), 1) < 1


def test_place_and_text() -> None:
    (found,) = ptxlab.lint(WRONG)
    assert str(found) == (
        "<ptx>:7:53: error[L111]: [%f] is not a tensor-memory address in brackets, [%r1], with a register of type .b32 or .u32 or .s32\n"
        "  7 |   tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%f];\n"
        "                                                          ^^^^\n"
        "  why: Tensorcore 5th Generation Instructions: tcgen05.ld"
    )


def test_target_and_version_of_the_caller() -> None:
    text = KERNELS[0].read_text()
    assert "L106" not in {d.code for d in ptxlab.lint(text)}
    assert "L108" in {d.code for d in ptxlab.lint(text, target="sm_103a", version="8.6")}
    with pytest.raises(ValueError, match="not a PTX ISA version"):
        ptxlab.lint(text, version="nine")


def test_registers_of_inner_blocks() -> None:
    text = WRONG.replace("  tcgen05", "  { .reg .b32 %f; tcgen05").replace("[%f];", "[%f]; }")
    assert ptxlab.lint(text, dataflow=False) == []


def test_lint_command(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ptx"
    path.write_text(WRONG)
    run = CliRunner().invoke(cli, ["lint", str(path), "--json"])
    assert run.exit_code == 1
    assert [d["code"] for d in json.loads(run.output)] == ["L111"]
    path.write_text(WRONG.replace("[%f]", "[%r3]"))
    assert CliRunner().invoke(cli, ["lint", str(path), "--no-dataflow"]).exit_code == 0
    assert CliRunner().invoke(cli, ["lint", str(path), "--version", "x"]).exit_code == 2
    assert CliRunner().invoke(cli, ["lint", str(tmp_path / "none.ptx")]).exit_code == 2


def test_rule_command() -> None:
    run = CliRunner().invoke(cli, ["rule", "L113"])
    assert run.exit_code == 0
    assert run.output.startswith("error[L113]: a constant outside its range\nsection: Instruction Operands\n\n# L113")
    assert json.loads(CliRunner().invoke(cli, ["rule", "l112", "--json"]).output)["severity"] == "error"
    assert CliRunner().invoke(cli, ["rule", "X999"]).exit_code == 2
    assert CliRunner().invoke(cli, ["rule", "tcgen05.cp"]).output == CliRunner().invoke(cli, ["lint", "--forms", "tcgen05.cp"]).output


def test_forms_are_printed_from_their_declaration() -> None:
    run = CliRunner().invoke(cli, ["lint", "--forms", "tcgen05.ld.red"])
    assert run.exit_code == 0
    assert (
        run.output
        == """tcgen05.ld.red.sync.aligned.shape.num.redOp{.abs}{.NaN}.type r, redval, [taddr];
tcgen05.ld.red.sync.aligned.shape.num.redOp{.abs}{.NaN}.type r, redval, [taddr], immHalfSplitoff;

  .shape          = .32x32b, .16x32bx2
  .num            = .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128
  .redOp          = .min, .max
  .type           = .u32, .s32, .f32
  r                 a vector of 32-bit registers in braces
  redval            a 32-bit register for the reduced value
  [taddr]           a tensor-memory address in brackets, [%r1]
  immHalfSplitoff   immHalfSplitoff, an integer constant

  .red needs at least .x2
  with .abs: .abs is only for .f32
  with .NaN: .NaN is only for .f32

  .red: sm_103f family, sm_110f family; PTX ISA 8.8

  PTX ISA: Tensorcore 5th Generation Instructions: tcgen05.ld
"""
    )


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_help_text(name: str) -> None:
    run = CliRunner().invoke(cli, ["lint", "--forms", name])
    assert run.exit_code == 0
    assert run.output.startswith(name)
    assert run.output.count("PTX ISA: ") >= len(FORMS[name])
    assert max(map(len, run.output.splitlines())) < 240


def test_forms_of_a_family_and_of_nothing() -> None:
    run = CliRunner().invoke(cli, ["lint", "--forms", "wgmma"])
    assert [line.split(".")[1][:5] for line in run.output.splitlines() if line.startswith("wgmma")][-1] == "wait_"
    run = CliRunner().invoke(cli, ["lint", "--forms", "tcgen05.cpy"])
    assert run.exit_code == 2
    assert "no form of tcgen05.cpy is declared; did you mean tcgen05.cp?" in run.output


def test_forms_of_the_compact_notation() -> None:
    run = CliRunner().invoke(cli, ["lint", "--forms", "addc.cc"])
    table = "  .type = .u32, .s32, .u64, .s64\n  d       .type\n  a       .type\n  b       .type\n"
    assert run.output == f"addc.cc.type d, a, b;\n\n{table}\n  PTX ISA: Extended-Precision Integer Arithmetic Instructions: addc\n"
    assert CliRunner().invoke(cli, ["rule", "popc"]).output.startswith("popc.type d, a;\n")


def test_lint_as_sarif(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ptx"
    path.write_text(WRONG)
    run = CliRunner().invoke(cli, ["lint", str(path), "--sarif"])
    assert run.exit_code == 1
    (result,) = json.loads(run.output)["runs"][0]["results"]
    assert result["ruleId"] == "L111"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path.as_uri()


def test_a_line_of_summary_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(".version 9.0\n.target sm_100a\n.visible .entry k()\n{\nret;\n}\n")
    clean = CliRunner().invoke(cli, ["lint", str(path)])
    assert (clean.exit_code, clean.stdout, clean.stderr) == (0, "", f"{path}: nothing found\n")
    assert CliRunner().invoke(cli, ["lint", str(path), "--json"]).stderr == ""
    path.write_text(path.read_text().replace("ret;", "ret;\nadd.u33 %r1;\nadd.u34 %r1;"))
    wrong = CliRunner().invoke(cli, ["lint", str(path)])
    assert (wrong.exit_code, wrong.stderr) == (1, f"{path}: 2 errors\n")
