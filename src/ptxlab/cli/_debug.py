"""``ptxlab debug``: commands that step through a launch, from files, from a terminal, or from another program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from ptxlab.cli._launch_file import read_launchable
from ptxlab.cli._output import JSON, findings, launch_options, refusing
from ptxlab.debug import Answer, Console, DebugError, Session
from ptxlab.diagnostics import Diagnostic, render_report
from ptxlab.machine import Replay, Result
from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["LaunchDebugger", "debug"]

_PROMPT = "(ptxlab) "
_EXPECTATION = "G105"


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@click.option("-x", "files", multiple=True, type=click.Path(path_type=Path), help="Execute the commands of this file.")
@click.option("--debug-on-finding", is_flag=True, help="Run the checks first, and begin where the first finding is made.")
@click.option("--batch", is_flag=True, help="Do not read commands from standard input; end at a command that is refused.")
@launch_options(LaunchOptions, "trace", "keep_inputs")
@JSON
def debug(
    launch_file: Path, files: tuple[Path, ...], debug_on_finding: bool, batch: bool, form: str | None, options: dict[str, str]
) -> None:
    """Step through the kernel that LAUNCH_FILE (TOML, or a replay bundle) describes, forwards and backwards.

    The command `help` lists the commands. With --json, each command prints one line: its answer, or the diagnostics that refuse it.

    Exit status: 0 clean, 1 if the launch or an `expect` has findings, 2 after wrong use.
    """
    with refusing(form):
        spec = read_launchable(launch_file)
        spec.options = spec.options.read(options)
        with Session(spec.prepare()) as session:
            first = ("check", "continue") if debug_on_finding else ()
            status = _Runner(Console(session), form, batch).run(files, first)
    sys.exit(status)


class LaunchDebugger:
    """Debugs launches of a program: the one after each call of ``breakpoint()``, and with ``on_finding`` those with findings.

    Parameters
    ----------
    on_finding : whether launches with findings are debugged, from where the first finding is made
    files : commands; without them they are read from standard input
    """

    def __init__(self, on_finding: bool, files: tuple[Path, ...]) -> None:
        self._on_finding, self._files = on_finding, files
        self._asked = False

    @property
    def wanted(self) -> bool:
        """Whether the next launch may be debugged."""
        return self._asked or self._on_finding

    def ask(self, *arguments: object, **named: object) -> None:
        """Debug the next launch: what ``breakpoint()`` does."""
        self._asked = True

    def __call__(self, replay: Replay, result: Result) -> None:
        """Debug a launch that has ended, from its start or from its first finding."""
        found = self._on_finding and findings(result.diagnostics) > 0
        if found or self._asked:
            self._asked = False
            with Session(replay) as session:
                first = ("check", "continue") if found else ("where",)
                _Runner(Console(session), None, bool(self._files)).run(self._files, first)


class _Runner:
    """Executes commands, prints answers, and keeps the findings for the exit status."""

    def __init__(self, console: Console, form: str | None, batch: bool) -> None:
        self.console, self.form, self.batch = console, form, batch
        self.refused = self.failed = False

    def run(self, files: tuple[Path, ...], first: tuple[str, ...] = ()) -> int:
        """Execute some commands and those of files; the exit status."""
        for line in chain(first, self._lines(files)):
            if line.strip() in ("quit", "q"):
                break
            try:
                answer = self.console.execute(line)
            except DebugError as error:
                self._refuse(line, error)
                if self.batch and self.refused:
                    break
            else:
                if answer is not None:
                    self._print(line, answer)
        result = self.console.session.result
        self.failed |= result is not None and findings(result.diagnostics) > 0
        return 2 if self.refused else 1 if self.failed else 0

    def _lines(self, files: tuple[Path, ...]) -> Iterator[str]:
        for path in files:
            try:
                yield from path.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise click.UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        if not self.batch:
            prompt = _PROMPT if sys.stdin.isatty() and not self.form else ""
            while True:
                click.echo(prompt, nl=False)
                line = sys.stdin.readline()
                if not line:
                    return
                yield line

    def _print(self, line: str, answer: Answer) -> None:
        stop = answer.stop
        self.failed |= stop is not None and stop.finding is not None and findings([stop.finding]) > 0
        if self.form:
            click.echo(json.dumps({"command": line.strip(), **answer.as_dict()}))
        elif answer.text:
            click.echo(answer.text)
            if stop is not None and self.console.session.result is not None:
                self._report(self.console.session.result.diagnostics)

    def _refuse(self, line: str, error: DebugError) -> None:
        if error.diagnostic.code == _EXPECTATION:
            self.failed = True
        else:
            self.refused = True
        if self.form:
            click.echo(json.dumps({"command": line.strip(), "diagnostics": [d.as_dict() for d in error.diagnostics]}))
        else:
            self._report(error.diagnostics)

    @staticmethod
    def _report(found: tuple[Diagnostic, ...]) -> None:
        if found:
            click.echo(render_report(found, sys.stdout.isatty(), "--json prints all findings"))
