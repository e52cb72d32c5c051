"""Every entry point takes every option of a launch, with the same default, and refuses a wrong value with the same diagnostic."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import ptxlab
from ptxlab.campaign.launch_file import read_launch_file
from ptxlab.cli._check import check
from ptxlab.cli._exec import exec_
from ptxlab.cli._run import run
from ptxlab.interop.session import Session, Settings
from ptxlab.machine.launch.configuration import LaunchConfiguration
from ptxlab.machine.launch.options import LaunchOptions

GEOMETRY = ("grid", "block", "cluster", "shared_bytes", "args")
OBJECTS = ("device", "progress", "outside", "grid_workspace", "profile")
"""Arguments of `Kernel.launch` that text cannot give: Python objects, addresses, and what has a command of its own."""
PTX = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 a) .reqntid 32 { ret; }\n"

# Written by hand: (default, another value in Python, in TOML, as text), and wrong values with what is said of them.
OPTIONS: dict[str, tuple[Any, Any, str, str]] = {
    "policy": ("eager", "lazy", '"lazy"', "lazy"),
    "seed": (0, -7, "-7", "-7"),
    "model": ("practice", "spec", '"spec"', "spec"),
    "check": ("all", frozenset({"memory", "race"}), '["memory", "race"]', "memory,race"),
    "only": (None, ((1, 0, 0),), "[[1, 0, 0]]", "1,0,0"),
    "registers": (None, 64, "64", "64"),
    "contract": (False, True, "true", "1"),
    "tmem_offset": (0, 32, "32", "32"),
    "max_instructions": (None, 1000, "1000", "1000"),
    "trace": (None, "t.json", '"t.json"', "t.json"),
    "keep_inputs": (False, True, "true", "1"),
    "undefined": ("report", "random", '"random"', "random"),
    "workers": (1, "auto", '"auto"', "auto"),
}
WRONG: dict[str, tuple[Any, str, str, str]] = {
    "policy": ("late", '"late"', "late", "policy must be one of 'eager', 'lazy', 'random', not 'late'"),
    "seed": ("x", '"x"', "x", "seed must be an int from -9223372036854775808 to 18446744073709551616, not 'x'"),
    "model": ("letter", '"letter"', "letter", "model must be one of 'practice', 'spec', not 'letter'"),
    "check": ("weather", '"weather"', "weather", "there is no check named 'weather'"),
    "only": ("here", '"here"', "here", "only takes CTA coordinates (x, y, z), not 'here'"),
    "registers": (0, "0", "0", "registers must be an int from 1 to 512, not 0"),
    "contract": ("yes", '"yes"', "yes", "contract must be True or False, not 'yes'"),
    "tmem_offset": (512, "512", "512", "tmem_offset must be an int from 0 to 511, not 512"),
    "max_instructions": (-1, "-1", "-1", "max_instructions must be an int from 0 to 4611686018427387904, not -1"),
    "keep_inputs": ("no", '"no"', "no", "keep_inputs must be True or False, not 'no'"),
    "undefined": ("ones", '"ones"', "ones", "undefined must be one of 'report', 'zero', 'random', not 'ones'"),
    "workers": (0, "0", "0", "workers must be an int from 1 to 1024, not 0"),
}
"""Without ``trace``: every text is a path."""
SWITCHES = ("contract", "keep_inputs")
TEXTS = {name: (name.replace("_", "-"), f"PTXLAB_{name.upper()}") for name in OPTIONS}
COMMANDS: dict[str, tuple[click.Command, tuple[str, ...]]] = {
    "run": (run, ()),
    "check": (check, ("policy", "seed")),  # it runs under all policies, and random ones with several seeds
    "exec": (exec_, ()),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for _, variable in TEXTS.values():
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def launch_file(folder: Path, line: str = "") -> Path:
    path = folder / "launch.toml"
    path.write_text(f'ptx = "k.ptx"\ngrid = 2\nargs = [{{name = "A", array = {{shape = [4]}}}}]\n{line}\n')
    return path


def kernel() -> ptxlab.Kernel:
    return ptxlab.loads(PTX).kernel()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[LaunchConfiguration]:
    """The configurations of the launches of a test."""
    found: list[LaunchConfiguration] = []
    make = LaunchConfiguration.__post_init__

    def note(self: LaunchConfiguration) -> None:
        make(self)
        found.append(self)

    monkeypatch.setattr(LaunchConfiguration, "__post_init__", note)
    return found


# The entry points: each is called with an option in Python, TOML and text, and launches a kernel with it.


def by_api(folder: Path, name: str, value: Any, toml: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel().launch(grid=2, args=[np.zeros(4, np.float32)], **{name: value})


def by_launch_file(folder: Path, name: str, value: Any, toml: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read_launch_file(launch_file(folder, f"{name} = {toml}")).launch()


def by_command(command: str, path: str) -> Callable[..., None]:
    def enter(folder: Path, name: str, value: Any, toml: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        called, _ = COMMANDS[command]
        words = [f"--{TEXTS[name][0]}"] if name in SWITCHES else [f"--{TEXTS[name][0]}={text}"]
        launch_file(folder)
        done = CliRunner().invoke(called, [*words, path])
        if done.exit_code == 2:
            code, message = re.findall(r"error\[(\w+)\]: (.*)", done.output)[0]
            raise Refused(code, message)
        assert done.exit_code == 0, done.output

    return enter


def by_variable(folder: Path, name: str, value: Any, toml: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEXTS[name][1], text)
    launched(Session(Settings.from_environment()))


def by_session(folder: Path, name: str, value: Any, toml: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the pytest mark, `interop.triton.device` and `interop.cute.device` make their sessions."""
    launched(Session(Settings.from_environment().changed(**{name: value})))


def launched(session: Session) -> None:
    session.launch(kernel(), None, grid=(2, 1, 1), args=[np.zeros(4, np.float32)])


SCRIPT = """
import numpy, ptxlab
from ptxlab.interop.session import current
text = open("k.ptx").read()
current().launch(ptxlab.loads(text).kernel(), None, grid=(2, 1, 1), args=[numpy.zeros(4, "float32")])
"""


class Refused(Exception):
    """A command has printed a refusal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


ENTRIES: Mapping[str, Callable[..., None]] = {
    "Kernel.launch": by_api,
    "launch file": by_launch_file,
    "run": by_command("run", "launch.toml"),
    "check": by_command("check", "launch.toml"),
    "exec": by_command("exec", "script.py"),
    "variable": by_variable,
    "session": by_session,
}


def cases(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Entry points with the options that they have; a switch of a command takes no value, so none can be wrong."""
    own = {entry: COMMANDS[entry][1] if entry in COMMANDS else () for entry in ENTRIES}
    switches = {entry: SWITCHES if entry in COMMANDS and table is WRONG else () for entry in ENTRIES}
    return [(entry, name) for entry in ENTRIES for name in table if name not in (*own[entry], *switches[entry])]


def test_the_table_has_all_options() -> None:
    assert list(OPTIONS) == [field.name for field in fields(LaunchOptions)] == list(LaunchOptions.described())
    assert set(WRONG) == set(OPTIONS) - {"trace"}
    assert LaunchOptions() == LaunchOptions(**{name: default for name, (default, *_) in OPTIONS.items()})
    assert all(option.help.endswith(".") for option in Settings.described().values())


def test_the_signature_of_launch_is_that_of_the_options() -> None:
    parameters = dict(inspect.signature(ptxlab.Kernel.launch).parameters)
    given = {name: p for name, p in parameters.items() if name not in ("self", *GEOMETRY, *OBJECTS)}
    assert {name: p.default for name, p in given.items()} == {name: default for name, (default, *_) in OPTIONS.items()}
    assert all(p.kind is p.KEYWORD_ONLY for p in given.values())
    documented = re.findall(r"^        (\w+) : ", str(ptxlab.Kernel.launch.__doc__), re.MULTILINE)
    assert documented == [name for name in parameters if name != "self"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_the_options(command: str) -> None:
    called, own = COMMANDS[command]
    described = (Settings if command == "exec" else LaunchOptions).described()
    shown = CliRunner().invoke(called, ["--help"], terminal_width=200).output
    for name, option in described.items():
        if name not in (*own, "keep_going"):
            assert f"--{name.replace('_', '-')}" in shown
            assert " ".join(option.help.split()[:3]) in " ".join(shown.split())


@pytest.mark.parametrize("entry", ENTRIES)
def test_defaults(entry: str, folder: Path, seen: list[LaunchConfiguration], monkeypatch: pytest.MonkeyPatch) -> None:
    """An option set to its default is the same launch as one where it is left out."""
    ENTRIES[entry](folder, "tmem_offset", 0, "0", "0", monkeypatch)
    options = seen[0].keywords()
    assert options | {"keep_inputs": False} == {name: default for name, (default, *_) in OPTIONS.items()}


@pytest.mark.parametrize(("entry", "name"), cases(OPTIONS))
def test_accepted(entry: str, name: str, folder: Path, seen: list[LaunchConfiguration], monkeypatch: pytest.MonkeyPatch) -> None:
    default, value, toml, text = OPTIONS[name]
    ENTRIES[entry](folder, name, value, toml, text, monkeypatch)
    found = getattr(seen[-1], name)
    assert found != default
    if name == "trace":
        assert (folder / "t.json").exists()
    else:
        assert found == value


@pytest.mark.parametrize(("entry", "name"), cases(WRONG))
def test_refused(entry: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, toml, text, message = WRONG[name]
    with pytest.raises((ptxlab.LaunchError, ptxlab.PtxlabError, Refused)) as caught:
        ENTRIES[entry](folder, name, value, toml, text, monkeypatch)
    error = caught.value
    found = error if isinstance(error, Refused) else error.diagnostic
    assert (found.code, found.message) == ("A310", message)


def test_an_unknown_option_of_a_session() -> None:
    with pytest.raises(ptxlab.LaunchError) as caught:
        Settings().changed(polity="lazy")
    assert caught.value.diagnostic.message == "there is no option named 'polity'"
    options = [*OPTIONS, "target", "sms", "keep_going", "leaks", "limit_ctas", "launches", "estimate_time", "skip_kernels"]
    assert caught.value.diagnostic.fix == f"options are {', '.join(options)}"


MARKED = """
import pytest

@pytest.mark.parametrize("value", [pytest.param(value, marks=pytest.mark.ptxlab(**{name: value}), id=name) for name, value in VALUES])
def test_marked(value, request, ptxlab_session):
    assert getattr(ptxlab_session.settings, request.node.callspec.id) == value
"""


def test_the_mark(folder: Path) -> None:
    """The pytest mark, in a pytest run of its own."""
    values = [(name, value) for name, (_, value, *_) in OPTIONS.items()]
    wrong = [(name, value) for name, (value, *_) in WRONG.items()]
    for file, table in (("test_right", values), ("test_wrong", wrong)):
        (folder / f"{file}.py").write_text(f"VALUES = {table!r}\n{MARKED}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q"]
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300).stdout
    outcomes = set(re.findall(r"^(PASSED|ERROR) (test_\w+)\.py::test_marked\[(\w+)\]", output, re.MULTILINE))
    expected = {("PASSED", "test_right", name) for name in OPTIONS} | {("ERROR", "test_wrong", name) for name in WRONG}
    assert outcomes == expected, output
    for _, _, _, message in WRONG.values():
        assert f"error[A310]: {message}" in output
