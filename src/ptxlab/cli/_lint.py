"""``ptxlab lint``: what is wrong with a module, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ptxlab.diagnostics import Diagnostic, PtxlabError, render_json, render_sarif, render_text

__all__ = ["lint"]


def _print_forms(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Print the declared forms of an instruction, or of all whose names begin so, and end."""
    if name is None or context.resilient_parsing:
        return
    from difflib import get_close_matches

    from ptxlab.isa import load_all
    from ptxlab.isa.catalogue import forms_of
    from ptxlab.isa.form import FORMS
    from ptxlab.isa.help_text import help_text

    load_all()
    found = forms_of(name)
    if not found:
        near = get_close_matches(name, FORMS, 1)
        raise click.UsageError(f"no form of {name} is declared" + (f"; did you mean {near[0]}?" if near else ""))
    click.echo("\n\n".join(map(help_text, found)))
    context.exit()


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "form", flag_value="json", help="Print the findings as JSON.")
@click.option("--sarif", "form", flag_value="sarif", help="Print the findings as SARIF 2.1.0.")
@click.option(
    "--forms", metavar="NAME", is_eager=True, expose_value=False, callback=_print_forms, help="Print the legal forms of an instruction."
)
@click.option("--target", help="Check for this target instead of the module's own; what CUDA C++ is compiled for (default sm_100a).")
@click.option("--version", help="Check for this PTX ISA version instead of the module's own.")
def lint(file: Path, form: str | None, target: str | None, version: str | None) -> None:
    """Check a PTX file: syntax, names, operands, and the legality of its instructions.

    FILE may also be a fat binary, cubin, object file, library or executable that carries PTX, or CUDA C++ (.cu), which nvcc compiles.

    Exit status: 0 clean (notes and warnings may be printed), 1 errors, 2 wrong use.
    """
    from ptxlab.check import lint_module

    found: list[Diagnostic] = []
    try:
        for name, text in _texts(file, target):
            found += lint_module(text, name, target, version)
    except PtxlabError as error:
        found += error.diagnostics
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if form or found:
        click.echo({"json": render_json, "sarif": render_sarif}.get(form or "", render_text)(found))
    if any(d.severity == "error" for d in found):
        raise SystemExit(1)


def _texts(file: Path, target: str | None) -> Iterator[tuple[str, str]]:
    """Name and text of each module in a file."""
    from ptxlab import ptx

    if file.suffix == ".cu":
        from ptxlab.interop import nvcc

        yield f"{file}[ptx]", nvcc.ptx(file, arch=target or "sm_100a")
        return
    raw = file.read_bytes()
    if ptx.is_binary(raw):
        yield from ((found.file, found.text) for found in ptx.embedded(raw, str(file)))
    else:
        yield str(file), raw.rstrip(b"\0").decode("utf-8", "replace")
