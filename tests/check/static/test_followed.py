"""After an edit, only kernels that it changes or moves are analysed again, with the findings of a first check."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ptxlab.check import Abandoned, Checked, Followed, lint_module
from ptxlab.check.static import dataflow
from ptxlab.check.static.dataflow import Report
from ptxlab.engine import Program

HEADER = """.version 9.0
.target sm_90a
.address_size 64
.global .align 8 .b8 cell[8];
"""
FUNCTION = """.func helper()
{
  .reg .b32 %r<4>;
  mov.u32 %r1, 4;
  add.u32 %r1, %r1, 1;
  ret;
}
"""
KERNEL = """.visible .entry NAME()
{
  .reg .b32 %r<4>;
  .reg .pred %p<4>;
  .shared .align 16 .b8 data[64];
  mov.u32 %r0, %tid.x;
  CALL
  mov.u32 %r1, data;
  add.u32 %r1, %r1, 2;
  st.shared.b32 [%r1], %r0;
  ret;
}
"""
FIRST, SECOND = KERNEL.replace("NAME", "first").replace("CALL", ""), KERNEL.replace("NAME", "second").replace("CALL", "call helper, ();")
TEXT = HEADER + FUNCTION + FIRST + SECOND


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels whose data flow is followed."""
    names: list[str] = []
    analyse = dataflow.analyse

    def noted(program: Program, target: str, wanted: Callable[[], bool]) -> list[Report]:
        names.append(program.name)
        return analyse(program, target, wanted)

    monkeypatch.setattr(dataflow, "analyse", noted)
    return names


EDITS = {
    "nothing": (TEXT, []),
    "the first kernel": (TEXT.replace(FIRST, FIRST.replace("%r1, 2;", "%r1, 1;")), ["first"]),
    "the second kernel": (TEXT.replace(SECOND, SECOND.replace("%r1, 2;", "%r1, 4;")), ["second"]),
    "a called function": (TEXT.replace("%r1, 4;", "%r1, 3;"), ["second"]),
    "a line more in the first kernel": (
        TEXT.replace(FIRST, FIRST.replace("  mov.u32 %r1, data;", "\n  mov.u32 %r1, data;")),
        ["first", "second"],
    ),
    "a line more in the second kernel": (
        TEXT.replace(SECOND, SECOND.replace("  mov.u32 %r1, data;", "\n  mov.u32 %r1, data;")),
        ["second"],
    ),
    "the target": (TEXT.replace("sm_90a", "sm_100a"), ["first", "second"]),
    "the head of a kernel": (TEXT.replace("first()", "first() .reqntid 32, 1, 1"), ["first", "second"]),
    "another name": (TEXT.replace("first()", "third()"), ["third", "second"]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit(edit: str, analysed: list[str]) -> None:
    text, again = EDITS[edit]
    followed = Followed()
    assert [d.code for d in lint_module(TEXT, "k.ptx", None, None, followed=followed) if d.severity == "error"] == ["M405", "M405"]
    analysed.clear()
    found = lint_module(text, "k.ptx", None, None, followed=followed)
    assert analysed == again
    assert found == lint_module(text, "k.ptx", None, None)


def test_two_functions_on_one_line(analysed: list[str]) -> None:
    """What stands on the line of another function counts for both."""
    text = HEADER + FIRST.rstrip("\n") + " " + SECOND.replace("call helper, ();", "")
    followed = Followed()
    lint_module(text, "k.ptx", None, None, followed=followed)
    analysed.clear()
    edited = text.replace("} .visible", "  } .visible")
    assert lint_module(edited, "k.ptx", None, None, followed=followed) == lint_module(edited, "k.ptx", None, None)
    assert analysed[:2] == ["first", "second"]


def test_what_is_no_longer_wanted_is_not_followed_to_its_end(analysed: list[str]) -> None:
    """The answer no ends the analysis between two rules of a kernel, and nothing of it is kept."""
    followed, answers = Followed(), iter([True, True, False])
    with pytest.raises(Abandoned):
        Checked(TEXT, "k.ptx").findings(followed, lambda: next(answers))
    assert analysed == ["first"]
    assert Checked(TEXT, "k.ptx").findings(followed) == lint_module(TEXT, "k.ptx", None, None)
    assert analysed == ["first", "first", "second", "first", "second"]
