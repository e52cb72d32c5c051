"""The adapter through requests and events, against values and lines computed by hand."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
import time
from typing import Any

import pytest

from ptxlab.debug.dap.adapter import _REQUESTS

from ..debug_kernels import CALL, LOOP, copies, prepared
from ..gemm_kernels import compiled
from .client_helpers import Editor, editor

PTX = {"sourceReference": 1}


def values(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["name"]: row["value"] for row in rows}


def scope(client: Editor, name: str, thread: int = 1) -> list[dict[str, Any]]:
    """The variables of a scope of the innermost frame."""
    frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]
    (found,) = [each for each in client.ask("scopes", frameId=frame["id"])["scopes"] if each["name"] == name]
    rows: list[dict[str, Any]] = client.ask("variables", variablesReference=found["variablesReference"])["variables"]
    return rows


def test_steps_forwards_and_backwards() -> None:
    with editor(prepared(LOOP)) as client:
        assert client.start()["reason"] == "entry"
        assert client.line() == 6
        for command, line in (("next", 7), ("stepIn", 8), ("next", 9), ("stepBack", 8), ("stepBack", 7), ("next", 8)):
            client.ask(command, threadId=1, granularity="instruction")
            assert client.event("stopped")["reason"] == "step"
            assert client.line() == line
        client.ask("stepBack", threadId=1)
        client.event("stopped")
        assert client.line() == 7
        assert client.ask("continue", threadId=1) == {"allThreadsContinued": True}
        assert client.event("stopped")["description"] == "ended"
        (ended,) = client.ask("threads")["threads"]
        assert ended["name"] == "the launch has ended"
        assert client.ask("stackTrace", threadId=ended["id"])["stackFrames"] == []
        client.ask("reverseContinue", threadId=1)
        assert client.event("stopped")["reason"] == "entry"
        assert client.line() == 6


def test_breakpoints_of_all_kinds() -> None:
    with editor(prepared(LOOP)) as client:
        client.start()
        asked = [
            {"line": 11, "condition": "%r2 == 3"},
            {"line": 13, "hitCondition": "5"},
            {"line": 3},
            {"line": 12, "condition": "%zz == 1"},
        ]
        made = client.ask("setBreakpoints", source=PTX, breakpoints=asked)["breakpoints"]
        assert [each["verified"] for each in made] == [True, True, False, False]
        client.ask("continue", threadId=1)
        stop = client.event("stopped")
        assert (stop["reason"], stop["hitBreakpointIds"], client.line()) == ("breakpoint", [made[0]["id"]], 11)
        assert client.ask("evaluate", expression="%r2 + 1", context="watch")["result"] == "4"
        client.ask("continue", threadId=1)
        client.event("stopped")
        assert (client.line(), client.ask("evaluate", expression="%r2", context="hover")["result"]) == (13, "5")
        assert client.ask("setBreakpoints", source=PTX, breakpoints=[])["breakpoints"] == []
        (code,) = client.ask("setFunctionBreakpoints", breakpoints=[{"name": "mul.wide"}])["breakpoints"]
        assert code["verified"]
        client.ask("continue", threadId=1)
        assert client.event("stopped")["reason"] == "function breakpoint"
        assert client.line() == 15
        client.ask("setFunctionBreakpoints", breakpoints=[])
        frame = client.ask("stackTrace", threadId=1)["stackFrames"][0]
        reference = frame["instructionPointerReference"]
        shown = client.ask("disassemble", memoryReference=reference, instructionOffset=-100, instructionCount=200)["instructions"]
        assert len(shown) == 200
        store = next(each for each in shown if "st.global" in each["instruction"])
        assert store["line"] == 18
        client.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": store["address"]}])
        client.ask("continue", threadId=1)
        assert client.event("stopped")["reason"] == "instruction breakpoint"
        assert client.line() == 18
        client.ask("setInstructionBreakpoints", breakpoints=[])
        info = client.ask("dataBreakpointInfo", name="%r3")
        assert client.ask("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"]}])["breakpoints"][0]["verified"]
        client.ask("reverseContinue", threadId=1)
        assert client.event("stopped")["reason"] == "data breakpoint"
        assert client.line() == 12


def test_source_lines_and_functions() -> None:
    with editor(prepared(CALL, 1)) as client:
        client.start()
        assert client.ask("setBreakpoints", source={"path": "kernel.cu"}, breakpoints=[{"line": 12}, {"line": 77}])["breakpoints"][0][
            "verified"
        ]
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "double"}])
        client.ask("continue", threadId=1)
        assert client.event("stopped")["reason"] == "function breakpoint"
        frames = client.ask("stackTrace", threadId=1)["stackFrames"]
        assert [(f["name"], f["line"], f["source"]["name"]) for f in frames] == [("double", 3, "kernel.cu"), ("k", 11, "kernel.cu")]
        client.ask("stepOut", threadId=1)
        client.event("stopped")
        client.ask("continue", threadId=1)
        assert client.event("stopped")["reason"] == "breakpoint"
        assert client.line() == 12
        assert client.ask("source", source=PTX, sourceReference=1)["content"] == CALL
        assert {each["name"] for each in client.ask("loadedSources")["sources"]} == {"k.ptx", "kernel.cu"}


def test_variables_memory_and_commands() -> None:
    with editor(copies(policy="lazy")) as client:
        client.start()
        client.ask("setBreakpoints", source=PTX, breakpoints=[{"line": 22}])
        client.ask("continue", threadId=1)
        client.event("stopped")
        registers = scope(client, "Registers")
        assert values(registers)["%r1"] == "0 (0x0)"
        assert values(registers)["%r4"] == "no value"
        (row,) = [each for each in registers if each["name"] == "%r1"]
        lanes = client.ask("variables", variablesReference=row["variablesReference"], start=30, count=2)["variables"]
        assert values(lanes) == {"lane 30": "30 (0x1e)", "lane 31": "31 (0x1f)"}
        assert values(scope(client, "Special registers"))["%ntid.x"] == "32"
        assert values(scope(client, "Barriers"))["mbarrier 0"].startswith("kind mbarrier, offset")
        assert scope(client, "Operations") == []
        held = client.ask("readMemory", memoryReference="shared:0x400", offset=4, count=8)
        assert base64.b64decode(held["data"]) == b"\2\0\0\0" * 2
        assert client.ask("readMemory", memoryReference="shared:0xf00000", count=8)["unreadableBytes"] == 8
        (out,) = [each for each in registers if each["name"] == "%rd1"]
        held = client.ask("readMemory", memoryReference=out["memoryReference"], count=300)
        assert (len(base64.b64decode(held["data"])), held["unreadableBytes"]) == (128, 172)
        assert "mbarrier" in client.ask("evaluate", expression="barriers", context="repl")["result"]
        assert client.ask("evaluate", expression="%r1 + 5", context="repl")["result"] == "5"
        client.ask("evaluate", expression="back 2", context="repl")
        assert client.event("stopped")["reason"] == "step"


def test_findings_are_exceptions() -> None:
    with editor(copies()) as client:
        client.ask("initialize")
        client.ask("launch", stopAtEnd=True)
        client.event("initialized")
        client.ask("setExceptionBreakpoints", filters=["checks"])
        client.ask("configurationDone")
        stop = client.event("stopped")
        assert (stop["reason"], client.line()) == ("exception", 18)
        assert client.ask("exceptionInfo", threadId=1)["exceptionId"] == "X103"
        client.ask("evaluate", expression="earlier", context="repl")
        client.event("stopped")
        assert "no finding" in client.refused("exceptionInfo", threadId=1)


def test_operands_of_a_matrix_instruction() -> None:
    with editor(compiled("gl_mm_i8")) as client:
        client.start()
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "tcgen05.mma"}])
        client.ask("continue", threadId=1)
        stop = client.event("stopped")
        rows = scope(client, "Operands", stop["threadId"])
        (a,) = [each for each in rows if each["name"] == "a .s8 [128, 32]"]
        assert a["indexedVariables"] == 128
        assert (
            len(client.ask("variables", variablesReference=a["variablesReference"], start=0, count=3)["variables"][0]["value"].split())
            == 32
        )


def test_the_end_without_standing_there() -> None:
    with editor(prepared(LOOP)) as client:
        client.start(stopAtEnd=False)
        client.ask("continue", threadId=1)
        assert client.event("exited") == {"exitCode": 0}
        client.event("terminated")
        client.send("disconnect")
        assert client.answer()["success"]


@pytest.mark.parametrize("arguments", ["{}", "5"])
def test_the_command_ends_after_disconnect(arguments: str) -> None:
    """Its input stays open; whether the request is malformed does not matter."""
    command = [sys.executable, "-c", "from ptxlab.cli import main; main(['debug', '--dap'])"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        body = f'{{"type": "request", "seq": 1, "command": "disconnect", "arguments": {arguments}}}'
        process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        process.stdin.flush()
        assert b'"command": "disconnect", "success": ' + (b"true" if arguments == "{}" else b"false") in process.stdout.read()
        assert process.wait(20) == 0


def test_pause_while_the_launch_moves() -> None:
    text = LOOP.replace("%r2, 5", "%r2, 100000000")
    with editor(prepared(text)) as client:
        client.start()
        client.ask("continue", threadId=1)
        client.send("pause", threadId=1)
        assert client.event("stopped")["reason"] == "pause"
        assert client.answer()["command"] == "pause"


def where(client: Editor) -> int:
    """The point at which the launch stands; the console tells it as another stop."""
    text = client.ask("evaluate", expression="where", context="repl")["result"]
    client.event("stopped")
    return int(text.split("\n")[0].partition("point ")[2])


def test_pause_on_the_way_back() -> None:
    """The launch comes back to where it stood, and moves again."""
    text = LOOP.replace("%r2, 5", "%r2, 100000000")
    with editor(prepared(text)) as client:
        client.start()
        client.ask("continue", threadId=1)
        time.sleep(1)
        client.ask("pause", threadId=1)
        client.event("stopped")
        here = where(client)
        client.ask("reverseContinue", threadId=1)
        client.ask("pause", threadId=1)
        assert client.event("stopped")["reason"] == "pause"
        assert where(client) == here > 0
        client.ask("reverseContinue", threadId=1)
        assert client.event("stopped")["reason"] == "entry"
        assert where(client) == 0


@pytest.mark.parametrize("seed", range(4))
def test_wrong_requests_get_errors(seed: int) -> None:
    chance = random.Random(seed)
    things: list[Any] = [None, -1, 0, 1, 2**70, "", "x", "0x", [], {}, [1], [{}], {"a": 1}, True, 1.5, [{"line": "x"}], {"path": 5}]
    names = (
        "threadId",
        "frameId",
        "source",
        "breakpoints",
        "variablesReference",
        "memoryReference",
        "count",
        "expression",
        "filters",
        "name",
    )
    with editor(prepared(LOOP)) as client:
        assert "nothing is debugged yet" in client.refused("threads")
        client.start()
        for body in (b"{", b"[]", b'"x"', b"\xff\xfe"):
            client.raw.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert not client.answer()["success"]
        client.raw.sendall(b"Content-Length: x\r\n\r\n")
        assert not client.answer()["success"]
        for _ in range(60):
            command = chance.choice([c for c in _REQUESTS if c not in ("disconnect", "terminate")] + ["", "frobnicate"])
            client.send(command, **{name: chance.choice(things) for name in chance.sample(names, 3)})
            client.answer()
        client.ask("threads")
