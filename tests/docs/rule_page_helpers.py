"""The pages of diagnostic codes: their form, and their examples as programs.

``docs/rules/README.md`` describes the form. An example is executed as its introduction and the language of its block say; the outcome is
the codes of what it reports.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner

import ptxlab
from ptxlab.cli._main import cli
from ptxlab.diagnostics import Diagnostic

RULES = Path(__file__).parents[2] / "docs" / "rules"
PROGRAMS = Path(__file__).parents[1] / "end_to_end" / "cute"
"""Where ``programs.py`` stands, host functions of CuTe DSL."""

KERNEL = """.version {version}
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 a{map})
{{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
.shared .align 8 .b64 bar;
{body}
ret;
}}
"""
COPY = KERNEL.format(
    version="9.0", target="sm_100a", map="", body="ld.param.u64 %rd1, [a];\nld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1+4], %r1;"
)


def asynchronous(early: str, late: str) -> str:
    """A kernel with code before and behind the wait for a copy."""
    body = f"""ld.param.u64 %rd1, [a];
st.shared.u32 [dyn], 5;
cp.async.ca.shared.global [dyn], [%rd1], 4;
cp.async.commit_group;
{early}
cp.async.wait_group 0;
{late}
st.global.u32 [%rd1+4], %r1;"""
    return KERNEL.format(version="9.0", target="sm_100a", map="", body=body)


@dataclass(frozen=True)
class Example:
    """One fenced block: its heading (Wrong or Right), the introduction above it, its language and text."""

    heading: str
    introduction: str
    language: str
    text: str


@dataclass(frozen=True)
class Page:
    code: str
    title: str
    prose: str
    section: str
    examples: tuple[Example, ...]


def read(path: Path) -> Page:
    """A page in its parts; a page that has another form has no examples."""
    text = path.read_text()
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    title = re.match(r"# \w+: (.*)\n", head)
    section = re.search(r"^PTX ISA: (.*)$", head, re.MULTILINE)
    examples = []
    for part in parts:
        heading, _, rest = part.partition("\n")
        if block := re.fullmatch(r"\s*(.*?)\s*^```(\w+)\n(.*?)^```\s*", rest, re.DOTALL | re.MULTILINE):
            examples.append(Example(heading, block[1], block[2], block[3]))
    prose = head.partition("\n")[2].replace(section[0] if section else "", "").strip()
    return Page(path.stem, title[1] if title else "", prose, section[1] if section else "", tuple(examples))


def findings(example: Example) -> list[Diagnostic]:
    """What the example reports."""
    match example.language:
        case "ptx":
            return _ptx(example)
        case "toml":
            return _launch_file(example.text, "check" if "ptxlab check" in example.introduction else "run")
        case "python":
            return _python(example.text)
        case other:
            raise ValueError(f"no way to execute a block of language {other!r}")


def _ptx(example: Example) -> list[Diagnostic]:
    if found := re.search(r"[Ff]or (sm_\w+) and PTX ISA ([\d.]+)", example.introduction):
        return ptxlab.lint_instruction(example.text, target=found[1], version=found[2])
    if launch := re.search(r"launched with `(.*)`", example.introduction):
        return _launched(example.text, launch[1])
    return ptxlab.lint(example.text)


def _launched(body: str, options: str) -> list[Diagnostic]:
    given: dict[str, Any] = eval(f"dict({options})", {"np": np, "TensorMap": ptxlab.TensorMap})
    given.setdefault("args", [np.zeros(32, np.uint32)])
    second = ""
    if tensor_map := given.pop("map", None):
        second = ", .param .align 128 .b8 map[128]"
        given["args"].append(tensor_map)
    text = KERNEL.format(version=given.pop("version", "9.0"), target=given.pop("target", "sm_100a"), map=second, body=body)
    return _reported(lambda: ptxlab.loads(text)["k"].launch(**given))


def _python(text: str) -> list[Diagnostic]:
    def run() -> Any:
        names: dict[str, Any] = {}
        exec(compile(text, "<example>", "exec"), names)
        return names.get("result") or names.get("found")

    with TemporaryDirectory() as folder, chdir(folder), patch.object(sys, "path", [*sys.path, str(PROGRAMS)]):
        Path("copy.ptx").write_text(COPY)
        return _reported(run)


def _reported(run: Any) -> list[Diagnostic]:
    try:
        result = run()
    except ptxlab.PtxlabError as error:
        return list(error.diagnostics)
    return list(getattr(result, "diagnostics", result) or ())


def _launch_file(text: str, command: str) -> list[Diagnostic]:
    with TemporaryDirectory() as folder, chdir(folder):
        Path("copy.ptx").write_text(COPY)
        Path("early.ptx").write_text(asynchronous("ld.shared.u32 %r1, [dyn];", ""))
        Path("late.ptx").write_text(asynchronous("", "ld.shared.u32 %r1, [dyn];"))
        np.save("sevens.npy", np.full(2, 7, np.uint32))
        Path("launch.toml").write_text(text)
        output = CliRunner().invoke(cli, [command, "launch.toml", "--json"]).output
        return [Diagnostic(d["code"], d["severity"], d["message"]) for d in json.loads(output)["diagnostics"]]
