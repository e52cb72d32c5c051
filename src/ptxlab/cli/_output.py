"""What commands share: options of launches, printing of findings, a line about a long launch, and the end when something is refused."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ptxlab.diagnostics import Diagnostic, PtxlabError, render_report, render_sarif

if TYPE_CHECKING:
    from ptxlab.machine.launch.options import LaunchOptions

__all__ = [
    "EXECUTOR",
    "FILE_WIDTH",
    "JSON",
    "SARIF",
    "ProgressLine",
    "emit",
    "findings",
    "launch_options",
    "refusing",
    "write_text",
    "writing",
]

FILE_WIDTH = 120
"""Columns of tables that go to a file or a pipe."""
_CLEAR = "\r\x1b[K"

JSON = click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
SARIF = click.option("--sarif", "form", flag_value="sarif", help="Print the findings as SARIF 2.1.0.")

EXECUTOR = click.option(
    "--executor",
    metavar="NAME",
    help="What runs the launches: processes, processes:N, threads:N, dask, dask:ADDRESS or MODULE:FUNCTION; default: this process.",
)


def findings(diagnostics: Iterable[Diagnostic]) -> int:
    """Count the diagnostics without the notes."""
    return sum(d.severity != "note" for d in diagnostics)


def emit(diagnostics: Iterable[Diagnostic], form: str | None, *, err: bool = False, **more: Any) -> None:
    """Print diagnostics as text, JSON or SARIF; the JSON object holds ``more``, too."""
    listed = tuple(diagnostics)
    if form == "sarif":
        click.echo(render_sarif(listed))
    elif form == "json":
        click.echo(json.dumps({"ok": not findings(listed), **more, "diagnostics": [d.as_dict() for d in listed]}))
    elif listed:
        color = (sys.stderr if err else sys.stdout).isatty()
        click.echo(render_report(listed, color, "--json prints all findings"), err=err)


@contextmanager
def refusing(form: str | None, *, err: bool = False, interrupted: str = "interrupted", **more: Any) -> Iterator[None]:
    """Print what is refused inside and end the command with status 2, or with 130 if it is interrupted."""
    try:
        yield
    except PtxlabError as error:
        emit(error.diagnostics, form, err=err, **more)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        sys.exit(130)


@contextmanager
def writing(what: object) -> Iterator[None]:
    """Report a file or folder that cannot be written as wrong use."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"cannot write {what}: {error.strerror}") from None


def write_text(path: Path, text: str) -> None:
    """Write a file."""
    with writing(path):
        path.write_text(text, encoding="utf-8")


Command = Callable[..., Any]


def launch_options(kind: type[LaunchOptions], *without: str) -> Callable[[Command], Command]:
    """Give a command the options of launches; it is called with the texts that were given, as ``options``.

    Parameters
    ----------
    kind : the class whose fields become options
    without : fields that the command sets itself
    """
    described = {name: each for name, each in kind.described().items() if name not in without}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathered(**given: Any) -> Any:
            values = {name: given.pop(name) for name in described}
            texts = {name: value if isinstance(value, str) else str(int(value)) for name, value in values.items() if value is not None}
            return command(options=texts, **given)

        made: Command = gathered
        for name, each in reversed(described.items()):
            words = name.replace("_", "-")
            switch = f"--{words}/--no-{words}" if each.form is None else f"--{words}"
            made = click.option(switch, name, metavar=each.form, default=None, help=each.help)(made)
        return made

    return decorate


class ProgressLine:
    """Shows kernel, launch, CTAs and time of a launch that runs for longer than ``delay`` seconds, and clears the line at its end.

    One thread looks at the launch that is running, so that short launches cost nothing.
    """

    def __init__(self, stream: TextIO, delay: float = 1.0, interval: float = 0.5) -> None:
        self._stream = stream
        self._delay, self._interval = delay, interval
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: tuple[str, int, float] | None = None
        self._ctas = 0, 0
        self._shown = False

    @contextmanager
    def launch(self, kernel: str, number: int) -> Iterator[Callable[[int, int], None]]:
        """Show a launch while it runs; yields what is called with the CTAs that have ended, and all CTAs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ptxlab progress", daemon=True)
            self._thread.start()
        self._ctas = 0, 0
        self._running = kernel, number, time.monotonic()
        try:
            yield self._note
        finally:
            with self._lock:
                self._running = None
                if self._shown:
                    self._write(_CLEAR)
                    self._shown = False

    def _note(self, done: int, total: int) -> None:
        self._ctas = done, total

    def _watch(self) -> None:
        while True:
            time.sleep(self._interval)
            with self._lock:
                if self._running is not None:
                    self._show(*self._running)

    def _show(self, kernel: str, number: int, started: float) -> None:
        seconds = time.monotonic() - started
        if seconds < self._delay:
            return
        done, total = self._ctas
        line = f"ptxlab: {kernel}, launch {number}: {done} of {total} CTAs, {seconds:.0f} s"
        self._write(f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}")
        self._shown = True

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
