"""The pages of the reference that are written by hand: they name what the commands accept, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxlab.cli._main import COMMANDS, cli
from ptxlab.machine.launch.options import LaunchOptions

from .test_generated import DOCS

LAUNCH_FILE = (DOCS / "reference" / "launch-file.md").read_text()
COMMAND_LINE = (DOCS / "reference" / "command-line.md").read_text()
HEAD = 'ptx = "copy.ptx"\ngrid = 1\nblock = 1\n'
ARGUMENT = '[[args]]\nname = "A"\narray = {shape = [2]%s}\n'


def keys(heading: str, key: str) -> set[str]:
    """What stands as code in the first column of the tables below a heading, and in other columns as the name of a key."""
    section = LAUNCH_FILE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (table,) = re.findall(rf"^\| {key} \| value \|\n\|---\|---\|\n((?:\|.*\n)+)", section, re.MULTILINE)
    return {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


def accepted(text: str, tmp_path: Path) -> set[str]:
    """The keys that the refusal of an unknown one lists."""
    path = tmp_path / "launch.toml"
    path.write_text(text)
    output = CliRunner().invoke(cli, ["run", str(path)]).output
    found = re.search(r"(?:known keys:|known are) (.*)", output)
    assert found, output
    return set(found[1].split(", "))


def test_the_keys_of_a_launch_file(tmp_path: Path) -> None:
    given = keys("Top level", "key")
    assert {"policy", "check"} <= given
    assert given | set(LaunchOptions.described()) == accepted(HEAD + "x = 1\n", tmp_path)


def test_the_keys_of_an_array(tmp_path: Path) -> None:
    assert keys("Arguments", "key of `array`") == accepted(HEAD + ARGUMENT % ", x = 1", tmp_path)


def test_the_kinds_of_arguments(tmp_path: Path) -> None:
    (tmp_path / "launch.toml").write_text(HEAD + '[[args]]\nname = "A"\n')
    output = CliRunner().invoke(cli, ["run", str(tmp_path / "launch.toml")]).output
    (found,) = re.findall(r"exactly one of ([\w, ]+?) says", output)
    assert keys("Arguments", "key") == set(found.split(", "))


def test_the_keys_of_a_tensor_map(tmp_path: Path) -> None:
    """In both modes: the box, or what maps in im2col mode have in its place."""
    text = HEAD + ARGUMENT % "" + '[[args]]\ntensor_map = {array = "A", %s, x = 1}\n'
    tiled, im2col = (accepted(text % given, tmp_path) for given in ("box = [2]", "channels = 1"))
    assert tiled - im2col == {"box"}
    assert keys("Tensor maps", "key of `tensor_map`") == tiled | im2col


def test_the_keys_of_an_expectation(tmp_path: Path) -> None:
    section = LAUNCH_FILE.partition("## Expected results")[2]
    given = {name for line in section.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)} - {"true"}
    assert given == accepted(HEAD + ARGUMENT % "" + '[[expect]]\nname = "A"\nx = 1\n', tmp_path)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_its_help(command: str) -> None:
    assert f"\n## ptxlab {command}\n\n```console\n$ ptxlab {command} --help\nUsage: ptxlab {command}" in COMMAND_LINE


def test_every_launch_option_is_an_option_of_the_commands() -> None:
    section = COMMAND_LINE.partition("## ptxlab run")[2].partition("## ptxlab check")[0]
    assert [name for name in LaunchOptions.described() if f"--{name.replace('_', '-')} " not in section] == []
