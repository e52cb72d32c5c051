"""How commands print findings, and how they end when something is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ptxlab.diagnostics import Diagnostic, PtxlabError, render_sarif, render_text

__all__ = ["JSON", "SARIF", "emit", "findings", "refusing", "write_text", "writing"]

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
        click.echo(render_text(listed, color=(sys.stderr if err else sys.stdout).isatty()), err=err)


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
