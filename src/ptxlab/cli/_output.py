"""What commands share: options of launches, printing of findings, and the end when something is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxlab.diagnostics import Diagnostic, PtxlabError, render_report, render_sarif

if TYPE_CHECKING:
    from ptxlab.machine.launch.options import LaunchOptions

__all__ = ["JSON", "SARIF", "emit", "findings", "launch_options", "refusing", "write_text", "writing"]

JSON = click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
SARIF = click.option("--sarif", "form", flag_value="sarif", help="Print the findings as SARIF 2.1.0.")


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
