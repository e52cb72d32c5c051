"""``ptxlab lint``: what is wrong with a module, without running it; ``ptxlab rule``: what a diagnostic code means."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path

import click

from ptxlab.check.static.selection import Selection, added, at_base, configured, github_annotations, kept, statistics
from ptxlab.diagnostics import CODES, Diagnostic, PtxlabError, render_json, render_sarif, render_text

__all__ = ["lint", "lsp", "rule"]


def _forms(name: str) -> str:
    """The declared forms of an instruction, or of all whose names begin so, as help text; empty if there are none."""
    from ptxlab.isa import load_all
    from ptxlab.isa.help_text import forms_of, help_text

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
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "form", flag_value="json", help="Print the findings as JSON.")
@click.option("--sarif", "form", flag_value="sarif", help="Print the findings as SARIF 2.1.0.")
@click.option("--github", "form", flag_value="github", help="Print the findings as annotations of GitHub Actions.")
@click.option("--statistics", "form", flag_value="statistics", help="Print how often each code was found.")
@click.option(
    "--forms", metavar="NAME", is_eager=True, expose_value=False, callback=_print_forms, help="Print the legal forms of an instruction."
)
@click.option("--target", help="Check for this target instead of the module's own; what CUDA C++ is compiled for (default sm_100a).")
@click.option("--version", help="Check for this PTX ISA version instead of the module's own.")
@click.option("--select", metavar="CODES", help="Show only codes that begin so, such as L1,X102.")
@click.option("--ignore", metavar="CODES", help="Do not show codes that begin so.")
@click.option("--diff", "base", metavar="COMMIT", help="Show only findings that the file did not have at this commit of git.")
@click.option("--watch", is_flag=True, help="Check again whenever the file changes, until interrupted.")
@click.option("--dataflow/--no-dataflow", default=None, help="Follow values and states along the paths of each kernel (default), or not.")
def lint(
    files: tuple[Path, ...],
    form: str | None,
    target: str | None,
    version: str | None,
    select: str | None,
    ignore: str | None,
    base: str | None,
    watch: bool,
    dataflow: bool | None,
) -> None:
    """Check PTX files: syntax, names, operands, the legality of their instructions, and what their paths show.

    A FILE may also be a fat binary, cubin, object file, library or executable that carries PTX, or CUDA C++ (.cu), which nvcc compiles.
    A comment // ptxlab: ignore[CODE] on a line suppresses the findings there. The table [tool.ptxlab] of pyproject.toml may set select,
    ignore, target, version and dataflow.

    Exit status: 0 clean (notes and warnings may be printed), 1 errors, 2 wrong use.
    """
    try:
        settings = configured(files[0].resolve().parent)
        chosen = Selection(_codes(select, settings, "select"), _codes(ignore, settings, "ignore"))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    follow = dataflow if dataflow is not None else bool(settings.get("dataflow", True))
    options = (target or _text(settings, "target"), version or _text(settings, "version"), follow)
    while True:
        stamps = [_stamp(file) for file in files]
        errors = _check(files, form, chosen, base, options)
        if not watch:
            break
        while [_stamp(file) for file in files] == stamps:
            time.sleep(_POLL)
    if errors:
        raise SystemExit(1)


_POLL = 0.2
"""Seconds between two looks at a file that is watched."""
_Options = tuple[str | None, str | None, bool]
"""Target, version, and whether the data flow is followed."""


def _codes(given: str | None, settings: dict[str, object], key: str) -> tuple[str, ...]:
    configured_codes = settings.get(key, [])
    assert isinstance(configured_codes, list)
    return Selection.codes(given if given is not None else ",".join(map(str, configured_codes)))


def _text(settings: dict[str, object], key: str) -> str | None:
    found = settings.get(key)
    return None if found is None else str(found)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _check(files: tuple[Path, ...], form: str | None, chosen: Selection, base: str | None, options: _Options) -> bool:
    """Check files once and print what is found; whether there are errors."""
    found: list[Diagnostic] = []
    summaries = []
    for file in files:
        texts, here = _findings(file, chosen, base, options)
        summaries.append(_summary(file, texts, here))
        found += here
    if form == "github":
        for line in github_annotations(found):
            click.echo(line)
    elif form == "statistics":
        click.echo(statistics(found), nl=bool(found))
    elif form or found:
        click.echo({"json": render_json, "sarif": render_sarif}.get(form or "", render_text)(found))
    if form not in ("json", "sarif", "github"):
        click.echo("\n".join(summaries), err=True)
    return any(d.severity == "error" for d in found)


def _findings(file: Path, chosen: Selection, base: str | None, options: _Options) -> tuple[int, list[Diagnostic]]:
    """The number of modules in a file, and what is found in them."""
    from ptxlab.check import lint_module

    found: list[Diagnostic] = []
    texts = 0
    target, version, dataflow = options
    try:
        for name, text in _texts(file, target):
            texts += 1
            here = lint_module(text, name, target, version, dataflow)
            if base is not None and (before := at_base(file, base)):
                here = added(here, lint_module(before, name, target, version, dataflow))
            found += kept(here, chosen, text)
    except PtxlabError as error:
        found += error.diagnostics
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    return texts, found


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
