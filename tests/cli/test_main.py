"""The command group: its table, and that help imports next to nothing."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from ptxlab import cli as cli_package
from ptxlab.cli._main import COMMANDS, cli
from tests.time_helpers import quickest

HEAVY = ("numpy", "llvmlite", "rich", "ml_dtypes", "torch", "triton", "ptxlab.machine", "ptxlab.isa")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_commands_say(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert inspect.cleandoc(command.help or "").splitlines()[0] == COMMANDS[name]


def test_every_module_of_a_command_is_in_the_table() -> None:
    for file in Path(cli_package.__file__).parent.glob("*.py"):
        if "\n@click.command" in file.read_text():
            assert file.stem[1:].replace("_", "-") in COMMANDS


def test_an_unknown_command() -> None:
    assert cli.get_command(click.Context(cli), "no-such") is None


def test_help_imports_nothing_heavy() -> None:
    program = """
import atexit, sys
atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr))
sys.argv = ["ptxlab", "--help"]
from ptxlab.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Run a Python script" in done.stdout
    assert not set(ast.literal_eval(done.stderr)) & set(HEAVY)


def test_the_console_script_helps_in_less_than_three_tenths_of_a_second() -> None:
    script = Path(sys.executable).with_name("ptxlab")
    if not script.exists():
        pytest.skip("needs the console script: pip install")

    def seconds() -> float:
        before, started = os.times(), time.perf_counter()
        done = subprocess.run([script, "--help"], capture_output=True, text=True)
        wall, after = time.perf_counter() - started, os.times()
        assert done.stdout.startswith("Usage: ptxlab [OPTIONS] COMMAND [ARGS]...")
        return min(wall, after.children_user + after.children_system - before.children_user - before.children_system)

    assert quickest(seconds, 0.3) < 0.3, "processor time of `ptxlab --help`"
