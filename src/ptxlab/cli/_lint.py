"""``ptxlab lint``: what is wrong with a module, without running it; ``ptxlab rule``: what a diagnostic code means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path

import click

from ptxlab.diagnostics import CODES, Diagnostic, PtxlabError, render_json, render_sarif, render_text

__all__ = ["lint", "lsp", "rule"]


def _forms(name: str) -> str:
    """The declared forms of an instruction, or of all whose names begin so, as help text; empty if there are none."""
    from ptxlab.isa import load_all
    from ptxlab.isa.catalogue import forms_of
    from ptxlab.isa.help_text import help_text

    load_all()
    return "\n\n".join(map(help_text, forms_of(name)))


def _print_forms(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Print the forms of an instruction and end."""
    if name is None or context.resilient_parsing:
        return
    found = _forms(name)
    if not found:
        from ptxlab.isa.form import FORMS

        near = get_close_matches(name, FORMS, 1)
        raise click.UsageError(f"no form of {name} is declared" + (f"; did you mean {near[0]}?" if near else ""))
    click.echo(found)
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
    texts = 0
    try:
        for name, text in _texts(file, target):
            texts += 1
            found += lint_module(text, name, target, version)
    except PtxlabError as error:
        found += error.diagnostics
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if form or found:
        click.echo({"json": render_json, "sarif": render_sarif}.get(form or "", render_text)(found))
    if not form:
        click.echo(_summary(file, texts, found), err=True)
    if any(d.severity == "error" for d in found):
        raise SystemExit(1)


def _summary(file: Path, texts: int, found: list[Diagnostic]) -> str:
    """One line: how many modules were checked, and what was found."""
    counts = [(sum(d.severity == severity for d in found), severity) for severity in ("error", "warning", "note")]
    listed = ", ".join(f"{count} {severity}{'s' * (count > 1)}" for count, severity in counts if count)
    return f"{file}: {f'{texts} modules, ' if texts > 1 else ''}{listed or 'nothing found'}"


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


def _page(code: str) -> str:
    """The page of a code, from the installed package or from a source tree; empty if it has none."""
    package = Path(__file__).parents[1]
    pages = [folder / "rules" / f"{code}.md" for folder in (package, package.parents[1] / "docs")]
    return next((path.read_text() for path in pages if path.is_file()), "")


@click.command()
@click.argument("code")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def rule(code: str, as_json: bool) -> None:
    """Explain a diagnostic code such as L113; for an instruction such as tcgen05.cp, print its legal forms."""
    info = CODES.get(code.upper())
    if info is None:
        forms = _forms(code)
        if not forms:
            raise click.UsageError(f"there is no code {code!r}, and no instruction of this name is declared")
        click.echo(forms)
        return
    text = _page(info.code)
    if as_json:
        click.echo(json.dumps(asdict(info) | {"page": text}))
        return
    section = f"section: {info.section}\n" if info.section else ""
    click.echo(f"{info.severity}[{info.code}]: {info.title}\n{section}\n{text}".rstrip())


@click.command()
def lsp() -> None:
    """Serve an editor over standard input and output, by the Language Server Protocol.

    It needs the extra lsp: pip install 'ptxlab[lsp]'.
    """
    try:
        from ptxlab.editor.server import make_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.UsageError("the language server needs pygls: pip install 'ptxlab[lsp]'") from None
    make_server().start_io()
