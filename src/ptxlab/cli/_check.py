"""``ptxlab check``: a launch file under several schedules with every check, and whether the results depend on the schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ptxlab.campaign.executors import executors
from ptxlab.campaign.plan import MOST_SCHEDULES, Source, cells_of
from ptxlab.campaign.results import cases
from ptxlab.campaign.runner import run_cells
from ptxlab.cli._output import EXECUTOR, JSON, SARIF, emit, findings, launch_options, refusing
from ptxlab.diagnostics import PtxlabError
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.observe.observer import tracing

__all__ = ["check"]

_DEFAULT_SCHEDULES = 5


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@click.option(
    "--schedules",
    type=click.IntRange(1, MOST_SCHEDULES),
    default=_DEFAULT_SCHEDULES,
    show_default=True,
    help="How many: eager, lazy, and random ones.",
)
@click.option("--seeds", type=click.IntRange(0, 1000), hidden=True, help="Random schedules besides eager and lazy.")
@launch_options(LaunchOptions, "policy", "seed")
@EXECUTOR
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@JSON
@SARIF
def check(
    launch_file: Path,
    schedules: int,
    seeds: int | None,
    executor: str | None,
    progress: bool | None,
    form: str | None,
    options: dict[str, str],
) -> None:
    """Run LAUNCH_FILE with every check under several schedules, and compare the results."""
    count = schedules if seeds is None else 2 + seeds
    if executor and "trace" in options:
        raise click.UsageError("--trace writes a timeline of launches in this process: leave --executor out")
    with refusing(form, schedules=count):
        source = Source(launch_file)
        read = source.read().options.read(options)
        source.trace = None if executor else tracing(read.trace)
        given: dict[str, Any] = {"check": "all", **{name: getattr(read, name) for name in options if name != "trace"}}
        cells = list(cells_of(source, count=count, options=given))
        shown = sys.stderr.isatty() and not form if progress is None else progress
        running = run_cells(cells, executors(executor))
        bar: Any = click.progressbar(running, length=count, label="schedules", file=sys.stderr, hidden=not shown)
        results = {}
        with bar as ended:
            for result in ended:
                if result.refused:
                    raise PtxlabError(*result.diagnostics)
                results[result.cell.key] = result
        (case,) = cases(results[cell.key] for cell in cells)
    emit(case.diagnostics, form, schedules=count)
    found = findings(case.diagnostics)
    if not form:
        click.echo(f"{found} finding{'s' * (found != 1)} under {count} schedules")
    sys.exit(1 if found else 0)
