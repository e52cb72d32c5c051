"""A session that Visual Studio Code has had, from initialize to disconnect, is replayed: ``ptxlab debug --dap`` answers alike.

`recording.record` has recorded it.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxlab.debug.dap.protocol import Connection

from .recording.record import FOLDER, RECORDING, prepare

Message = dict[str, Any]
COMMAND = [sys.executable, "-c", "from ptxlab.cli import main; main(['debug', '--dap'])"]
NEEDED: dict[str, dict[str, type]] = {
    "initialize": {"supportsConfigurationDoneRequest": bool, "supportsStepBack": bool, "supportsDisassembleRequest": bool},
    "setBreakpoints": {"breakpoints": list},
    "setFunctionBreakpoints": {"breakpoints": list},
    "setInstructionBreakpoints": {"breakpoints": list},
    "setDataBreakpoints": {"breakpoints": list},
    "dataBreakpointInfo": {"dataId": str, "description": str},
    "threads": {"threads": list},
    "stackTrace": {"stackFrames": list},
    "scopes": {"scopes": list},
    "variables": {"variables": list},
    "evaluate": {"result": str, "variablesReference": int},
    "disassemble": {"instructions": list},
    "readMemory": {"address": str},
}
"""By request: the fields that the protocol asks of the body of an answer."""
NEEDED_OF_EACH: dict[str, dict[str, type]] = {
    "breakpoints": {"verified": bool},
    "threads": {"id": int, "name": str},
    "stackFrames": {"id": int, "name": str, "line": int, "column": int},
    "scopes": {"name": str, "variablesReference": int, "expensive": bool},
    "variables": {"name": str, "value": str, "variablesReference": int},
    "instructions": {"address": str, "instruction": str},
}
STOPS = [
    ("entry", 5),
    ("step", 6),
    ("breakpoint", 8),
    ("step", 7),
    ("breakpoint", 8),
    ("step", 7),
    ("breakpoint", 8),
    ("data breakpoint", 9),
    ("function breakpoint", 9),
    ("function breakpoint", 9),
    ("breakpoint", 11),
    ("function breakpoint", 9),
    ("breakpoint", 11),
    ("entry", 5),
    ("pause", None),
    ("step", 12),
]
"""By hand: why the launch stops, and the line of sum.cu at which the thread of the stop stands; at the end there is none."""


@pytest.fixture(scope="module")
def recorded() -> list[Message]:
    """The recording, behind the line that names the versions."""
    return [json.loads(line) for line in RECORDING.read_text().splitlines()][1:]


def replay(recorded: list[Message], folder: Path) -> Iterator[tuple[Message, Message]]:
    """Send the requests in their order to the command; pairs of what the adapter said in the recording, and says now."""
    prepare(folder)
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        adapter = Connection(process.stdout, process.stdin)
        for line in recorded:
            message = json.loads(json.dumps(line["message"]).replace(FOLDER, str(folder)))
            if line["from"] == "editor":
                adapter.send(message)
            else:
                found = adapter.receive()
                assert found is not None
                yield message, found
        assert process.wait(20) == 0


@pytest.fixture(scope="module")
def pairs(recorded: list[Message], tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Message, Message]]:
    """All that the adapter said in the recording, beside what it says now."""
    return list(replay(recorded, tmp_path_factory.mktemp("session").resolve()))


def agrees(expected: Any, found: Any) -> bool:
    """Whether what is expected has been found; objects may have more fields."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(key in found and agrees(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(agrees, expected, found))
    return type(found) is type(expected) and bool(found == expected)


def bodies(pairs: list[tuple[Message, Message]], command: str) -> list[Message]:
    """The bodies of the answers to a request."""
    return [found["body"] for _, found in pairs if found.get("command") == command]


def test_the_session_goes_from_initialize_to_disconnect(recorded: list[Message]) -> None:
    client = json.loads(RECORDING.read_text().partition("\n")[0])
    assert (client["client"], client["version"]) == ("Visual Studio Code", "1.99.3")
    asked = [line["message"]["command"] for line in recorded if line["from"] == "editor"]
    assert (asked[0], asked[-1]) == ("initialize", "disconnect")
    assert {"launch", "stepIn", "stepBack", "reverseContinue", "readMemory", "disassemble", "setDataBreakpoints", "terminate"} < set(asked)


def test_the_answers_are_those_of_the_recording(pairs: list[tuple[Message, Message]]) -> None:
    assert len(pairs) > 150
    for expected, found in pairs:
        assert agrees(expected, found), (expected, found)


def test_each_request_succeeds_but_a_watch_without_a_value(recorded: list[Message], pairs: list[tuple[Message, Message]]) -> None:
    asked = [line["message"] for line in recorded if line["from"] == "editor"]
    answers = [found for _, found in pairs if found["type"] == "response"]
    assert [each["request_seq"] for each in answers] == [each["seq"] for each in asked]
    refused = [each for each in answers if not each["success"]]
    assert [(each["command"], each["message"].partition(":")[0]) for each in refused] == [("evaluate", "%r2 has no value in lane 0 yet")]


def test_the_answers_have_the_fields_of_the_protocol(pairs: list[tuple[Message, Message]]) -> None:
    seen = set()
    for _, found in pairs:
        if found["type"] == "response" and found["success"]:
            seen.add(found["command"])
            for field, kind in NEEDED.get(found["command"], {}).items():
                assert type(found["body"][field]) is kind
                for row in found["body"][field] if kind is list else ():
                    assert all(type(row[name]) is each for name, each in NEEDED_OF_EACH[field].items()), row
    assert seen >= NEEDED.keys()


def test_the_stops_are_those_of_the_kernel(pairs: list[tuple[Message, Message]]) -> None:
    stops: list[tuple[str, int | None]] = []
    for _, found in pairs:
        if found.get("event") == "stopped":
            stops.append((found["body"]["reason"], None))
        elif found.get("command") == "stackTrace" and stops[-1][1] is None and found["body"]["stackFrames"]:
            stops[-1] = stops[-1][0], found["body"]["stackFrames"][0]["line"]
    assert stops == STOPS


def test_the_values_are_those_of_the_kernel(pairs: list[tuple[Message, Message]]) -> None:
    """The sum before and behind the round of 3, and in the end; the half of the output that the second warp has not stored yet."""
    watched = [found["body"]["result"] for _, found in pairs if found.get("command") == "evaluate" and found["success"]]
    assert watched == ["3", "3", "3", "none", "3", "6", "3", *["10"] * 7]
    first, second = bodies(pairs, "readMemory")
    assert (base64.b64decode(first["data"]), int(second["address"], 16) - int(first["address"], 16)) == (bytes(128), 128)
    assert "data" not in second
    shown = [row["instruction"] for row in bodies(pairs, "disassemble")[0]["instructions"] if row["instruction"] != "??"]
    assert (len(shown), shown[0], shown[-1]) == (18, "mov.u32 %r1, %tid.x;", "ret;")
