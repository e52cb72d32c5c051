"""Diagnostics as text and JSON."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ptxlab.diagnostics import CODES, Diagnostic, Place, PtxlabError, clean_line, render_json, render_report, render_text

FULL = Diagnostic(
    "M401",
    "error",
    "read of 4 bytes outside any allocation",
    reason="Global State Space",
    fix="grow the array",
    place=Place("k.ptx", 12, 2, 13),
    source=Place("kernel.py", 2, 5),
    excerpt="\tld.global.b32 %r1, [%rd2];",
    details=(("CTA", "(0, 0, 0)"), ("lanes", "0-15")),
)


def test_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("def f():\n\tx = load(p)\n")
    assert render_text([FULL]) == (
        "error[M401]: read of 4 bytes outside any allocation\n"
        "  --> k.ptx:12:2\n"
        "  12 |  ld.global.b32 %r1, [%rd2];\n"
        "     |  ^^^^^^^^^^^^^\n"
        "  source: kernel.py:2:5\n"
        "  2 |  x = load(p)\n"
        "    |     ^\n"
        "  CTA: (0, 0, 0)\n"
        "  lanes: 0-15\n"
        "  why: Global State Space\n"
        "  fix: grow the array"
    )


def test_source_beside_the_ptx_file(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("first\nsecond\n")
    found = FULL.at(Place(str(tmp_path / "k.ptx"), 1, 1), "", Place("kernel.py", 2, 1))
    assert "  2 | second\n    | ^\n" in render_text([found])


@pytest.mark.parametrize("file", ["missing.py", "/dev/zero", "/", "a\0b", "x" * 5000])
def test_source_that_cannot_be_read(file: str) -> None:
    text = render_text([FULL.at(FULL.place, "", Place(file, 1, 1))])
    assert f"  source: {file}:1:1\n  CTA" in text


def test_line_beyond_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("only\n")
    assert "  source: kernel.py:9:5\n  CTA" in render_text([FULL.at(None, "", Place("kernel.py", 9, 5))])


def test_several_and_none() -> None:
    note = Diagnostic("X1", "note", "one")
    warning = Diagnostic("X2", "warning", "two")
    assert render_text([note, warning]) == "note[X1]: one\n\nwarning[X2]: two"
    assert render_text([]) == ""


def test_long_lines_are_cut_around_the_caret() -> None:
    line = "a" * 500 + "BAD" + "c" * 500
    lines = render_text([Diagnostic("X1", "error", "m", place=Place("k", 1, 501, 3), excerpt=line)]).split("\n")
    assert len(lines[2]) == len("  1 | ") + 110
    caret = lines[3].index("^")
    assert lines[2][caret : caret + 3] == "BAD"
    assert lines[3].count("^") == 3
    assert lines[2].endswith("…")


def test_color() -> None:
    colored = render_text([FULL], color=True)
    assert "\x1b[1;31merror" in colored
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_text([FULL])


def test_brackets_are_not_markup() -> None:
    found = Diagnostic("X1", "error", "[bold]not[/bold] [red")
    assert "[bold]not[/bold] [red" in render_text([found], color=True)


def test_json() -> None:
    assert json.loads(render_json([FULL, Diagnostic("X1", "note", "é")])) == [
        {
            "code": "M401",
            "severity": "error",
            "message": "read of 4 bytes outside any allocation",
            "reason": "Global State Space",
            "fix": "grow the array",
            "place": {"file": "k.ptx", "line": 12, "column": 2, "length": 13},
            "source": {"file": "kernel.py", "line": 2, "column": 5, "length": 0},
            "excerpt": "\tld.global.b32 %r1, [%rd2];",
            "details": {"CTA": "(0, 0, 0)", "lanes": "0-15"},
        },
        {"code": "X1", "severity": "note", "message": "é"},
    ]
    assert render_json([]) == "[]"


def test_json_keeps_every_detail_of_a_name() -> None:
    found = Diagnostic("X1", "note", "so", details=(("from", "a"), ("to", "b"), ("from", "c")))
    assert json.loads(render_json([found]))[0]["details"] == {"from": ["a", "c"], "to": "b"}


def test_text_cuts_very_many_details() -> None:
    details = tuple((f"detail {n}", "x") for n in range(100))
    few, many = (Diagnostic("X1", "note", "so", details=details[:n]) for n in (60, 100))
    assert str(few).count("detail") == render_text([few]).count("detail") == 60
    for text in (str(many), render_text([many])):
        lines = [line.strip() for line in text.splitlines()[1:]]
        assert lines == [
            *(f"detail {n}: x" for n in range(40)),
            "further: 40 more like these, all of them in the JSON output",
            *(f"detail {n}: x" for n in range(80, 100)),
        ]
    assert len(many.as_dict()["details"]) == 100


def test_text_cuts_long_names() -> None:
    found = Diagnostic("X1", "note", "so", details=(("n" * 401, "x"), ("n" * 400, "y")))
    assert str(found).splitlines()[1:] == [f"  {'n' * 400} ...: x", f"  {'n' * 400}: y"]


def test_clean_line() -> None:
    assert clean_line("\ta\x1b[0m\u2028\ud800b\r") == " a [0m  b"


def race(line: int, first: int, times: int = 1, source: int = 14, cta: str = "(0, 1, 0)") -> Diagnostic:
    """A race of an unrolled store."""
    details = (("kernel", "mm"), ("CTA", cta), *((("occurrences", str(times)),) if times > 1 else ()))
    return Diagnostic(
        "X114",
        "error",
        f"st.global writes bytes {first:#x}-{first + 3:#x} of argument c, which st.global at line {line + 4} writes",
        place=Place("mm.ptx", line, 2),
        source=Place("mm.py", source, 5),
        details=details,
    )


FAULT = Diagnostic(
    "M402", "error", "write of 4 bytes past the end of argument c", place=Place("mm.ptx", 90, 2), source=Place("mm.py", 14, 5)
)


def test_findings_of_one_cause_are_one_block() -> None:
    races = [race(40 + 4 * i, 16 * i, times=2, cta=f"(0, {i % 3}, 0)") for i in range(64)]
    text = render_report([*races, FAULT])
    lines = text.split("\n")
    assert lines[0] == "error[M402]: write of 4 bytes past the end of argument c"
    assert len(lines) <= 40
    assert text.count("error[") == 2
    assert "  more like this: 63 at lines 44, 48, 52, 56, 60, 64, 68, 72, ... (63 instructions, 3 CTAs, 126 occurrences)\n" in text + "\n"


def test_causes_that_are_not_equal_stay_apart() -> None:
    other_message = replace(race(48, 0), message="ld.global reads bytes 0x0-0x3 of argument c, which st.global at line 3 writes")
    other_code = replace(race(52, 0), code="X101")
    elsewhere = race(56, 0, source=15)
    other_launch = replace(race(60, 0), details=(("kernel", "mm"), ("launched at", "mm.py:30")))
    no_source = [replace(race(line, 0), source=None) for line in (40, 44)]
    findings = [race(40, 0), other_message, other_code, elsewhere, other_launch, *no_source]
    assert render_report(findings).count("X1") == len(findings)
    assert "more like this" not in render_report(findings)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_is_causes_first(seed: int) -> None:
    codes = ["M402", "D701", "H601", "X101", "T614", "F106", "M410", "X109"]
    findings = [Diagnostic(code, CODES[code].severity, code) for code in codes]
    random.Random(seed).shuffle(findings)
    shown = re.findall(r"\[(\w+)\]", render_report(findings))
    assert shown[:6] == codes[:6]
    assert set(shown[6:]) == {"M410", "X109"}, "notes are last"


def test_a_long_report_ends_with_headlines() -> None:
    findings = [
        Diagnostic("X101", "error", f"cause {chr(97 + i)}", place=Place("k.ptx", i + 1), fix="wait", reason="rule") for i in range(26)
    ]
    text = render_report(findings, more="--json prints all findings")
    lines = text.split("\n")
    assert len(lines) <= 60 + 12 + 3
    whole = text.count("  fix: wait")
    assert "error[X101]: cause a\n  --> k.ptx:1:1\n" in text
    assert f"error[X101]: cause {chr(97 + whole)} --> k.ptx:{whole + 1}:1" in lines
    assert lines[-2:] == [f"and {26 - whole - 12} findings of {26 - whole - 12} other causes", "--json prints all findings"]


def test_one_finding_is_shown_whole_however_long() -> None:
    long = Diagnostic("H601", "error", "no warp can continue", details=tuple((f"warp {i}", "waits") for i in range(60)))
    assert render_report([long]) == render_text([long])


def test_an_exception_says_each_cause_once() -> None:
    error = PtxlabError(race(40, 0), race(44, 16), FAULT)
    assert len(error.diagnostics) == 3
    blocks = str(error).split("\n\n")
    assert blocks[0] == str(FAULT)
    assert blocks[1] == f"{race(40, 0)}\n  more like this: 1 at line 44 (1 instruction, 1 CTA, 1 occurrence)"


def test_a_long_line_is_not_cut_where_it_points() -> None:
    """Whatever the column, the character above the caret is the one that the place names."""
    line = "".join(chr(0x4E00 + i) for i in range(400))
    for column in range(1, 401):
        for length in (1, 7, 150):
            text = render_text([Diagnostic("M402", "error", "m").at(Place("k.ptx", 7, column, min(length, 401 - column)), line)])
            shown, caret = text.splitlines()[2:4]
            assert shown[caret.index("^")] == line[column - 1]
            assert len(shown) <= 120
