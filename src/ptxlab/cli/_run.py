"""``ptxlab run``: launch the kernel of a launch file or a bundle, report what was found, compare with what was expected.

``ptxlab profile``: launch it, and say what its instructions execute, what their accesses cost, and how long it would take.

``ptxlab report``: the same as one page.

``ptxlab warmup``: compile ahead what a first launch would compile.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ptxlab.campaign.launchable import read_launchable
from ptxlab.campaign.outcome import unexpected
from ptxlab.cli._output import FILE_WIDTH, JSON, SARIF, emit, findings, launch_options, refusing, write_text, writing
from ptxlab.machine import warmup_parts
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.replay.bundle import write_bundle

if TYPE_CHECKING:
    from ptxlab.machine import Result
    from ptxlab.profile import Profile

__all__ = ["profile", "report", "run", "warmup"]


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@launch_options(LaunchOptions)
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Write every named array to this folder as .npy.")
@click.option("--bundle", type=click.Path(path_type=Path, dir_okay=False), help="Write the launch to a file for `ptxlab run`.")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@JSON
@SARIF
def run(
    launch_file: Path,
    save: Path | None,
    bundle: Path | None,
    progress: bool | None,
    form: str | None,
    options: dict[str, str],
) -> None:
    """Run the kernel that LAUNCH_FILE (TOML, or a replay bundle) describes."""
    with refusing(form, interrupted="interrupted: no array was written back", stats=None, stdout=""):
        spec = read_launchable(launch_file)
        spec.options = spec.options.read(options)
        if bundle is not None:
            spec.options = spec.options.changed(keep_inputs=True)
        with _progress_bar(spec.name, sys.stderr.isatty() and not form if progress is None else progress) as bar:
            result = spec.launch(bar)
    found = list(result.diagnostics)
    if result.completed:
        found += unexpected(spec)
    if save is not None:
        with writing(f"to {save}"):
            save.mkdir(parents=True, exist_ok=True)
            for name, array in spec.arrays.items():
                np.save(save / f"{Path(name).name}.npy", array)
    if bundle is not None:
        assert result.replay is not None
        with writing(bundle):
            write_bundle(bundle, spec.named(result.replay))
    count = findings(found)
    if not form and result.stdout:
        click.echo(result.stdout, nl=not result.stdout.endswith("\n"))
    emit(found, form, stats=result.stats.as_dict(), stdout=result.stdout)
    if not form:
        click.echo(f"{count} finding{'s' * (count > 1)}: {result.stats}" if count else f"finished: {result.stats}")
    sys.exit(1 if count else 0)


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@launch_options(LaunchOptions)
@click.option("--by", type=click.Choice(["source", "ptx"]), help="Show source lines or PTX lines; default: source lines if there are any.")
@click.option("--all", "everything", is_flag=True, help="Show lines, too, whose instructions only execute.")
@click.option("--compare", type=click.Path(path_type=Path), help="Compare with the kernel of another launch file.")
@click.option(
    "--timeline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the estimated timeline of the first CTAs for Perfetto, in nanoseconds.",
)
@JSON
def profile(
    launch_file: Path,
    by: str | None,
    everything: bool,
    compare: Path | None,
    timeline: Path | None,
    form: str | None,
    options: dict[str, str],
) -> None:
    """Count what the kernel of LAUNCH_FILE executes, and estimate its time.

    The counters are bank conflicts, sectors, copies, products, waits, occupancy. No check runs unless --check names one.
    """
    from rich.console import Console

    from ptxlab.view import estimated_timeline, profile_comparison, profile_tables

    with refusing(form, interrupted="interrupted: there is no profile"):
        result, counted = _profiled(launch_file, options)
        other = None if compare is None else _profiled(compare, options)
    if timeline is not None:
        write_text(timeline, estimated_timeline(counted))
    found = (*result.diagnostics, *(other[0].diagnostics if other is not None else ()))
    facts: dict[str, Any] = {"profile": counted.as_dict(), "stats": result.stats.as_dict()}
    if other is not None:
        facts["compared"] = other[1].as_dict()
    emit(found, form, **facts)
    if not form:
        has_source = any(each.source is not None for each in counted.instructions)
        console = Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)
        if other is None:
            console.print(profile_tables(counted, by or ("source" if has_source else "ptx"), everything))
        else:
            console.print(profile_comparison(counted, other[1]))
    sys.exit(1 if findings(found) else 0)


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@launch_options(LaunchOptions)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=Path("report.html"), show_default=True)
@JSON
def report(launch_file: Path, output: Path, form: str | None, options: dict[str, str]) -> None:
    """Write one page about the kernel of LAUNCH_FILE: estimated timeline, counters by line, rooflines, findings.

    No check runs unless --check names one. The page loads nothing from a network.
    """
    from ptxlab.view import report_page

    with refusing(form, interrupted="interrupted: there is no report"):
        result, counted = _profiled(launch_file, options)
    with writing(output):
        output.write_text(report_page([(counted, result.diagnostics)]), encoding="utf-8")
    emit(result.diagnostics, form, report=str(output))
    if not form:
        click.echo(f"{output}: {output.stat().st_size:,} bytes")
    sys.exit(1 if findings(result.diagnostics) else 0)


def _profiled(launch_file: Path, options: dict[str, str]) -> tuple[Result, Profile]:
    """Launch what a file says; its result, and its profile with what an assembler says, if there is one."""
    from ptxlab.interop.profiles import Profiles

    spec = read_launchable(launch_file)
    spec.options = spec.options.read({"check": "none"} | options)
    result = spec.launch(profile=True)
    return result, Profiles().take(spec.module[result.profile.kernel], None, result)


@contextmanager
def _progress_bar(name: str, show: bool) -> Any:
    """Yield a progress callback that draws a bar on standard error, or None; a file gets only its last state."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("CTAs"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@click.command()
@click.argument("ptx", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the timings as JSON.")
def warmup(ptx: tuple[Path, ...], as_json: bool) -> None:
    """Fill the code cache: the helpers of every launch, and every kernel of the PTX files."""
    timings: dict[str, float] = {}
    with refusing("json" if as_json else None):
        for name, compile_part in warmup_parts(ptx):
            start = time.perf_counter()
            compile_part()
            timings[name] = time.perf_counter() - start
            if not as_json:
                click.echo(f"{timings[name]:8.3f} s  {name}")
    if as_json:
        click.echo(json.dumps(timings))
