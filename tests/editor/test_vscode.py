"""The extension for Visual Studio Code: its files fit each other, and its grammar names the parts of a kernel."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
MANIFEST = json.loads((FOLDER / "package.json").read_text())
GRAMMAR = json.loads((FOLDER / "syntaxes" / "ptx.tmLanguage.json").read_text())


def rules(patterns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules in their order, those that are included in the places of what includes them."""
    found = []
    for rule in patterns:
        if "include" in rule:
            named = GRAMMAR["repository"][rule["include"].removeprefix("#")]
            found += rules(named.get("patterns", [named]))
        else:
            found.append(rule)
    return found


def scopes(line: str) -> list[tuple[str, str]]:
    """The pieces of a line with their scopes, as an editor finds them: the first match counts, of several at one place the first rule."""
    found, at = [], 0
    while True:
        matches = [
            (m.start(), number, m)
            for number, rule in enumerate(RULES)
            if "match" in rule and (m := re.compile(rule["match"]).search(line, at))
        ]
        if not matches:
            return found
        _, number, match = min(matches, key=lambda each: each[:2])
        rule = RULES[number]
        if "name" in rule:
            found.append((match[0], rule["name"]))
        found += [(match[int(group)], named["name"]) for group, named in rule.get("captures", {}).items()]
        at = max(match.end(), at + 1)


RULES = rules(GRAMMAR["patterns"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            ".visible .entry k(",
            {".entry": "storage.type.function.ptx", "k": "entity.name.function.ptx", ".visible": "storage.modifier.ptx"},
        ),
        ("LOOP: // again", {"LOOP": "entity.name.label.ptx", "// again": "comment.line.double-slash.ptx"}),
        ("    .reg .b32 %r<4>;", {".reg": "storage.modifier.ptx", ".b32": "storage.type.ptx", "%r": "variable.other.register.ptx"}),
        ("    .maxntid 128, 1, 1", {".maxntid": "keyword.control.directive.ptx", "128": "constant.numeric.ptx"}),
        (
            "    @%p1 st.shared::cta.b32 [%r1+4], %tid.x;",
            {
                "st.shared::cta.b32": "support.function.instruction.ptx",
                "%p1": "variable.other.register.ptx",
                "%tid.x": "variable.other.register.ptx",
            },
        ),
        ("    or.b64 %rd1, %rd1, 0x4000404000010000;", {"0x4000404000010000": "constant.numeric.hex.ptx"}),
        ("    mov.f32 %f0, 0f3F800000;", {"0f3F800000": "constant.numeric.float.ptx"}),
        ("    ret;", {"ret": "support.function.instruction.ptx"}),
    ],
)
def test_the_grammar(line: str, expected: dict[str, str]) -> None:
    found = dict(scopes(line))
    assert {piece: found.get(piece) for piece in expected} == expected


def test_the_manifest_names_files_that_exist() -> None:
    contributed = MANIFEST["contributes"]
    names = [MANIFEST["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    assert all((FOLDER / name).is_file() for name in names)
    assert contributed["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    json.loads((FOLDER / "language-configuration.json").read_text())


def test_the_commands_are_those_of_the_server() -> None:
    pytest.importorskip("pygls")
    from ptxlab.editor.server import make_server

    text = (FOLDER / "extension.js").read_text()
    asked = set(re.findall(r'ask\("([\w.]+)"\)', text))
    assert asked == set(make_server().protocol.fm.commands)
    assert set(re.findall(r'registerCommand\("([\w.]+)"', text)) == {each["command"] for each in MANIFEST["contributes"]["commands"]}


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_extension_is_a_program() -> None:
    subprocess.run(["node", "--check", str(FOLDER / "extension.js")], check=True)


def test_the_debugger_takes_what_the_manifest_offers() -> None:
    from ptxlab.cli._debug import debug
    from ptxlab.machine.launch.options import LaunchOptions

    (debugger,) = MANIFEST["contributes"]["debuggers"]
    offered = set(debugger["configurationAttributes"]["launch"]["properties"])
    assert offered <= {"program", "stopOnEntry", "stopAtEnd", *LaunchOptions.described()}
    assert set(debugger["initialConfigurations"][0]) <= {"type", "request", "name"} | offered
    command = MANIFEST["contributes"]["configuration"]["properties"]["ptxlab.debugCommand"]["default"]
    assert command[:2] == ["ptxlab", debug.name]
    assert set(command[2:]) <= {option for parameter in debug.params for option in parameter.opts}
    assert f'registerDebugAdapterDescriptorFactory("{debugger["type"]}"' in (FOLDER / "extension.js").read_text()
