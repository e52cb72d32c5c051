"""``ptxlab campaign``: many launches on an executor, with the results in one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from ptxlab.campaign.cell import CellResult
from ptxlab.campaign.executors import executors
from ptxlab.campaign.plan import read_campaign
from ptxlab.campaign.results import Case, ResultFile, cases, junit
from ptxlab.campaign.runner import run_cells
from ptxlab.cli._output import EXECUTOR, JSON, SARIF, emit, findings, refusing, write_text, writing
from ptxlab.diagnostics import Diagnostic, render_sarif

__all__ = ["campaign"]


@click.command()
@click.argument("campaign_file", type=click.Path(path_type=Path))
@EXECUTOR
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder of the results; default: NAME.results, for NAME.toml."
)
@click.option("--fresh", is_flag=True, help="Run everything again: results in the folder are dropped.")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@JSON
@SARIF
def campaign(campaign_file: Path, executor: str | None, output: Path | None, fresh: bool, progress: bool | None, form: str | None) -> None:
    """Run the launches that CAMPAIGN_FILE (TOML) describes, and collect the results in a folder.

    An interrupted campaign goes on where it was if the command is given again. A launch runs again if its launch file, or what that
    reads, has changed.
    """
    folder = output or campaign_file.with_suffix(".results")
    shown = sys.stderr.isatty() and not form if progress is None else progress
    with refusing(form, interrupted=f"interrupted: the results so far are in {folder}; give the command again to go on"):
        plan = read_campaign(campaign_file)
        engine = executors(executor)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if fresh:
                (folder / "results.jsonl").unlink(missing_ok=True)
            with ResultFile(folder / "results.jsonl") as kept:
                left = [cell for cell in plan.cells if cell.key not in kept.results]
                with _progress(run_cells(left, engine), len(plan.cells), len(left), shown) as results:
                    for result in results:
                        kept.add(result)
                done = [kept.results[cell.key] for cell in plan.cells]
        found = cases(done)
    _write(folder, plan.name, found)
    diagnostics = _listed(found)
    emit(diagnostics, form, cases=[case.as_dict() for case in found], cells=len(done), ran=len(left))
    if not form:
        _print_table(found)
        count = findings(diagnostics)
        click.echo(f"{len(done)} launches, {len(left)} of them now: {count} finding{'s' * (count != 1)}; results are in {folder}")
    sys.exit(1 if findings(diagnostics) else 0)


def _listed(found: Iterable[Case]) -> list[Diagnostic]:
    """All findings, each with its case."""
    return [replace(each, details=(("case", case.name), *each.details)) for case in found for each in case.diagnostics]


def _write(folder: Path, name: str, found: Sequence[Case]) -> None:
    write_text(folder / "results.json", json.dumps([case.as_dict() for case in found], indent=1))
    write_text(folder / "junit.xml", junit(name, found))
    write_text(folder / "findings.sarif", render_sarif(_listed(found)))


@contextmanager
def _progress(results: Iterator[CellResult], total: int, left: int, show: bool) -> Iterator[Iterator[CellResult]]:
    """Yield the results, and draw a bar on standard error."""
    if not show:
        yield results
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("launches"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=total - left)
        bad = 0

        def drawn() -> Iterator[CellResult]:
            nonlocal bad
            for result in results:
                bad += not result.ok
                bar.update(task, advance=1, description=f"{bad} with findings" if bad else "")
                yield result

        yield drawn()


def _print_table(found: Iterable[Case]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("launch", "schedules", "findings", "seconds"):
        table.add_column(column, justify="right" if column in ("schedules", "seconds") else "left")
    for case in found:
        codes = ", ".join(f"{code} x {count}" if count > 1 else code for code, count in case.as_dict()["codes"].items())
        table.add_row(case.name, str(len(case.results)), codes or "none", f"{sum(r.seconds for r in case.results):.2f}")
    Console(soft_wrap=not sys.stdout.isatty()).print(table)
