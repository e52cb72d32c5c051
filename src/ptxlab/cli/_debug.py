"""``ptxlab debug``: commands that step through a launch, from files, from a terminal, or from another program."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import click

from ptxlab.campaign.launchable import read_launchable
from ptxlab.cli._output import JSON, findings, launch_options, refusing
from ptxlab.debug import BREAKPOINT, Answer, Console, DebugError, Session, calls_breakpoint
from ptxlab.diagnostics import Diagnostic, render_report
from ptxlab.machine import Kernel, Replay, Result
from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["LaunchDebugger", "debug"]

_PROMPT = "(ptxlab) "
_EXPECTATION = "G105"


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path), required=False)
@click.option("-x", "files", multiple=True, type=click.Path(path_type=Path), help="Execute the commands of this file.")
@click.option("--debug-on-finding", is_flag=True, help="Run the checks first, and begin where the first finding is made.")
@click.option(
    "--tui", is_flag=True, help="Show source, PTX, registers, memory and barriers in panes of the terminal (pip install 'ptxlab[debug]')."
)
@click.option("--dap", is_flag=True, help="Serve an editor over standard input and output, by the Debug Adapter Protocol.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Serve editors at this port of this computer instead, one after the other; 0: any."
)
@click.option("--batch", is_flag=True, help="Do not read commands from standard input; end at a command that is refused.")
@launch_options(LaunchOptions, "trace", "keep_inputs")
@JSON
def debug(
    launch_file: Path | None,
    files: tuple[Path, ...],
    debug_on_finding: bool,
    tui: bool,
    dap: bool,
    port: int | None,
    batch: bool,
    form: str | None,
    options: dict[str, str],
) -> None:
    """Step through the kernel that LAUNCH_FILE (TOML, or a replay bundle) describes, forwards and backwards.

    The command `help` lists the commands. With --json, each command prints one line: its answer, or the diagnostics that refuse it. With
    --dap or --port an editor debugs, and may name LAUNCH_FILE itself.

    Exit status: 0 clean, 1 if the launch or an `expect` has findings, 2 after wrong use.
    """
    if dap or port is not None:
        serve(launch_file, options, port)
        return
    if launch_file is None:
        raise click.UsageError("name a launch file or a bundle")
    with refusing(form), Session(_prepared(launch_file, options)) as session:
        first = ("check", "continue") if debug_on_finding else ()
        if tui:
            _show_panes(session, first)
            return
        status = _Runner(Console(session), form, batch).run(files, first)
    sys.exit(status)


def _prepared(launch_file: Path, options: dict[str, str]) -> Replay:
    spec = read_launchable(launch_file)
    spec.options = spec.options.read(options)
    replay: Replay = spec.prepare()
    return replay


def _show_panes(session: Session, first: tuple[str, ...]) -> None:
    try:
        from ptxlab.debug.terminal.app import DebuggerApp
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--tui needs the package {error.name}: pip install 'ptxlab[debug]'") from None
    for command in first:
        Console(session).execute(command)
    DebuggerApp(session).run()


def serve(launch_file: Path | None, options: dict[str, str], port: int | None) -> None:
    """Serve editors by the Debug Adapter Protocol: one over standard input and output, or one after the other at a port."""
    from ptxlab.debug.dap.adapter import Adapter
    from ptxlab.debug.dap.protocol import Connection

    def load(arguments: dict[str, Any]) -> Replay:
        named = arguments.get("program")
        if named is None and launch_file is None:
            raise KeyError("program")
        given = {name: str(arguments[name]) for name in LaunchOptions.described() if name in arguments}
        try:
            return _prepared(Path(named) if named is not None else launch_file or Path(), options | given)
        except click.ClickException as error:
            raise ValueError(error.format_message()) from None

    if port is None:
        editor = Connection(sys.stdin.buffer, sys.stdout.buffer)
        with redirect_stdout(sys.stderr):
            Adapter(editor, load).serve()
        return
    with socket.create_server(("127.0.0.1", port)) as listening:
        click.echo(f"listening on port {listening.getsockname()[1]}", err=True)
        while True:
            connection, _ = listening.accept()
            with suppress(OSError), connection, connection.makefile("rb") as received, connection.makefile("wb") as sent:
                Adapter(Connection(received, sent), load).serve()


class LaunchDebugger:
    """Debugs launches of a program: the one after each call of ``breakpoint()``, and those whose kernels reach one.

    With ``on_finding`` it also debugs those with findings.

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
        """Whether the next launch may be debugged, of whatever kernel."""
        return self._asked or self._on_finding

    def stops_in(self, kernel: Kernel) -> bool:
        """Whether a kernel calls ``breakpoint()``."""
        return calls_breakpoint(kernel.program.ops)

    def ask(self, *arguments: object, **named: object) -> None:
        """Debug the next launch: what ``breakpoint()`` does."""
        self._asked = True

    def __call__(self, replay: Replay, result: Result) -> None:
        """Debug a launch that has ended, from its start, its first finding, or where it first reaches a ``breakpoint()``."""
        found = self._on_finding and findings(result.diagnostics) > 0
        reaches = self.stops_in(replay.kernel)
        if not (found or reaches or self._asked):
            return
        with Session(replay) as session:
            if reaches:
                session.break_at("instruction", BREAKPOINT)
            if not found and not self._asked and not session.run().breakpoints:
                return
            self._asked = False
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
