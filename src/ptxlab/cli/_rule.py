"""``ptxlab rule``: what a diagnostic code means."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ptxlab.diagnostics import CODES

__all__ = ["page", "rule"]


def page(code: str) -> str:
    """The page of a code, from the installed package or from a source tree; empty if it has none."""
    here = Path(__file__).parents[1]
    for folder in (here / "rules", here.parents[1] / "docs" / "rules"):
        path = folder / f"{code}.md"
        if path.is_file():
            return path.read_text()
    return ""


@click.command()
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def rule(code: str, as_json: bool) -> None:
    """Explain a diagnostic code such as L113; for an instruction such as tcgen05.cp, print its legal forms."""
    info = CODES.get(code.upper())
    if info is None:
        from ptxlab.isa import load_all
        from ptxlab.isa.catalogue import forms_of
        from ptxlab.isa.help_text import help_text

        load_all()
        forms = forms_of(code)
        if not forms:
            raise click.UsageError(f"there is no code {code!r}, and no instruction of this name is declared")
        click.echo("\n\n".join(map(help_text, forms)))
        return
    text = page(info.code)
    if as_json:
        fields = {"code": info.code, "severity": info.severity, "title": info.title, "section": info.section, "page": text}
        click.echo(json.dumps(fields))
        return
    click.echo(f"{info.severity}[{info.code}]: {info.title}")
    if info.section:
        click.echo(f"section: {info.section}")
    if text:
        click.echo("\n" + text.rstrip())
