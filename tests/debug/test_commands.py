"""The commands: what they answer, in text and as plain values, and how they refuse what they do not understand."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest

from ptxlab.debug import COMMANDS, Console, DebugError, Position, Session, calls_breakpoint

from .debug_kernels import LOOP, copies, prepared


def text(console: Console, line: str) -> str:
    answer = console.execute(line)
    assert answer is not None
    json.dumps(answer.as_dict(), allow_nan=False)
    return answer.text


def test_a_script_about_the_loop() -> None:
    with Session(prepared(LOOP)) as session:
        console = Console(session)
        assert console.execute("  # nothing") is None
        assert text(console, "break line 11 if %r2 == 3 hits 1") == "breakpoint 1"
        assert text(console, "continue") == (
            "breakpoint 1, point 16\n  CTA (0, 0, 0) warp 0 lanes 0xffffffff\n  11 | add.s32 %r3, %r3, %r2;"
        )
        assert text(console, "registers %r3 %rd3") == "%r3 .b32 3 (0x3)\n%rd3 .b64 no value"
        assert text(console, "print %r2 * 2 + %laneid") == "6"
        assert text(console, "thread lane 4") == "CTA (0, 0, 0) warp 0 lane 4"
        assert text(console, "print %r2 * 2 + %laneid") == "10"
        assert text(console, "special %tid.x %laneid") == "%laneid 4\n%tid.x 4"
        assert text(console, "back 2").splitlines()[-1] == "  13 | setp.lt.u32 %p1, %r2, 5;"
        assert ">   13   setp.lt.u32 %p1, %r2, 5;" in text(console, "list")
        assert text(console, "stack") == "k at line 13"
        assert text(console, "warps") == "cta (0, 0, 0)  warp 0  frozen False  groups [lanes 0xffffffff line 13 state runs]"
        assert text(console, "breakpoints") == "number 1  line 11  if %r2 == 3  hits 1  hit 0"
        assert text(console, "delete 1") == ""
        assert text(console, "watch global out 4") == "watchpoint 2"
        assert "watchpoint 2: 00000000 -> 0a000000, written by opcode st.global.b32, line 18" in text(console, "continue")
        assert text(console, "memory global out 3 u32") == "10 11 12"
        assert text(console, "continue") == "ended, point 29"


def test_commands_about_operations(tmp_path: Path) -> None:
    with Session(copies(), policy="lazy") as session:
        console = Console(session)
        for line in ("break line 20", "continue", "delete 1", "async"):
            console.execute(line)
        assert text(console, "operations").startswith("number 0  opcode cp.async.bulk.shared::cta")
        assert "can perform True" in text(console, "operations")
        assert "bytes 256" in text(console, "barriers")
        saved = tmp_path / "position.json"
        text(console, f"save '{saved}'")
        first = session.digest()
        assert text(console, "perform 1").startswith("chosen, point")
        assert text(console, "memory shared tile 2 u32") == "2 2"
        text(console, f"load '{saved}'")
        assert session.digest() == first
        assert text(console, "memory shared tile 1 f32") == "nan"
        answer = console.execute("memory shared tile 1 f32")
        assert answer is not None
        assert answer.as_dict() == {"value": ["nan"]}


def test_every_command_has_help() -> None:
    with Session(prepared(LOOP)) as session:
        shown = text(Console(session), "help").splitlines()
        assert [line.split()[0] for line in shown if line[0] != " "] == list(COMMANDS)
        assert text(Console(session), "help step").split("  ")[0] == "step [N]"
        assert text(Console(session), "help step").endswith("  Execute N instructions of the chosen thread.")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump 4", "G101.*there is no command 'jump'"),
        ("step x", "G101.*'x' is no whole number"),
        ("step 0", "G101.*'0' does not say how often"),
        ("perform", "G101.*one number is expected, not ''"),
        ("where 4", "G101.*where takes nothing, not '4'"),
        ("break line 11 when %r1", "G101.*after the place follows if or hits, not 'when'"),
        ("break 'line", "G101.*No closing quotation"),
        ("watch colour", "G101.*no value is named by 'colour'"),
        ("thread finger 3", "G101.*no 'finger'"),
        ("memory shared", "G101.*memory is followed by"),
        ("tensor 1", "G101.*tensor is followed by"),
        ("load /nowhere/position", "G104.*cannot read /nowhere/position: No such file"),
        ("expect %laneid == 3", "G105.*%laneid == 3 is not true in CTA"),
    ],
)
def test_refused_commands(line: str, message: str) -> None:
    with Session(prepared(LOOP)) as session, pytest.raises(DebugError, match=message):
        Console(session).execute(line)


@pytest.mark.parametrize("seed", range(3))
def test_random_words_are_refused_or_answered(seed: int) -> None:
    chance = random.Random(seed)
    words = ["1", "0", "-1", "0x10", "x", "global", "shared", "tensor", "line", "if", "hits", "%r1", "==", "f32", "out", "'", "cta", "9,9"]
    with Session(prepared(LOOP)) as session:
        console = Console(session)
        for _ in range(150):
            name = chance.choice([name for name in COMMANDS if name != "save"])
            with contextlib.suppress(DebugError):
                console.execute(" ".join([name, *chance.choices(words, k=chance.randrange(4))]))
        assert session.go_to(Position(0)).line == 6


def test_an_instruction_with_constant_operands() -> None:
    """Only that with these operands stops: in each iteration another one comes first."""
    events = LOOP.replace("  add.s32 %r2, %r2, 1;", "  pmevent 7;\n  add.s32 %r2, %r2, 1;\n  pmevent 15;")
    with Session(prepared(events)) as session:
        console = Console(session)
        assert text(console, "break instruction pmevent 15 if %r2 == 2") == "breakpoint 1"
        assert text(console, "continue").splitlines()[-1] == "  14 | pmevent 15;"
        assert text(console, "print %r2") == "2"
        with pytest.raises(DebugError, match=r"G103.*instruction pmevent 3"):
            console.execute("break instruction pmevent 3")


@pytest.mark.parametrize(("event", "expected"), [("15", True), ("7", False)])
def test_the_instruction_of_a_breakpoint_of_the_kernel(event: str, expected: bool) -> None:
    replay = prepared(LOOP.replace("  ret;", f"  pmevent {event};\n  ret;"))
    assert calls_breakpoint(replay.kernel.program.ops) is expected
