"""``ptxlab check``: a launch file under several schedules with every check, and whether the results depend on the schedule."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ptxlab.cli._launch_file import read_launchable
from ptxlab.cli._output import JSON, SARIF, emit, findings, launch_options, refusing
from ptxlab.cli._run import unexpected
from ptxlab.diagnostics import Diagnostic, diagnose
from ptxlab.formats import bytes_of
from ptxlab.machine.launch.options import LaunchOptions
from ptxlab.machine.observe.observer import tracing

__all__ = ["ORDER_DEPENDENT", "check", "differences", "schedule_name", "schedules"]

ORDER_DEPENDENT = "M410"
"""The note about additions, which says more than the differing results that follow from it."""


@click.command()
@click.argument("launch_file", type=click.Path(path_type=Path))
@click.option("--seeds", type=click.IntRange(0, 1000), default=3, show_default=True, help="Random schedules besides eager and lazy.")
@launch_options(LaunchOptions, "policy", "seed")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar (default: on a terminal).")
@JSON
@SARIF
def check(launch_file: Path, seeds: int, progress: bool | None, form: str | None, options: dict[str, str]) -> None:
    """Run LAUNCH_FILE with every check under several schedules, and compare the results."""
    order = schedules(2 + seeds)
    # Findings of the same code and place are listed once, with the schedules that showed them.
    found: dict[tuple[str, str], tuple[Diagnostic, list[str]]] = {}
    first: tuple[str, dict[str, Any]] | None = None
    trace = None
    shown = sys.stderr.isatty() and not form if progress is None else progress
    bar: Any = click.progressbar(order, label="schedules", file=sys.stderr, hidden=not shown)
    with refusing(form, schedules=len(order)), bar as steps:
        for policy, seed in steps:
            name = schedule_name(policy, seed)
            spec = read_launchable(launch_file)
            spec.options = spec.options.changed(policy=policy, seed=seed, check="all").read(options)
            trace = trace or tracing(spec.options.trace)
            spec.options = spec.options.changed(trace=trace)
            result = spec.launch()
            diagnostics = list(result.diagnostics)
            if result.completed:
                first = first or (name, spec.arrays)
                diagnostics += [*differences(first[0], first[1], name, spec.arrays), *unexpected(spec)]
            for each in diagnostics:
                found.setdefault((each.code, str(each.place)), (each, []))[1].append(name)
    listed = [replace(d, details=(*d.details, ("found under", ", ".join(names)))) for d, names in found.values()]
    if any(d.code == ORDER_DEPENDENT for d in listed):
        listed = [d for d in listed if d.code != "F106"]
    emit(listed, form, schedules=len(order))
    count = findings(listed)
    if not form:
        click.echo(f"{count} finding{'s' * (count != 1)} under {len(order)} schedules")
    sys.exit(1 if count else 0)


def schedules(count: int) -> list[tuple[str, int]]:
    """So many policies with their seeds: eager, lazy, and random ones."""
    return [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(1, count - 1))][:count]


def schedule_name(policy: str, seed: int) -> str:
    """``random 3``."""
    return policy if policy != "random" else f"random {seed}"


def differences(name: str, before: dict[str, Any], other: str, after: dict[str, Any]) -> Iterator[Diagnostic]:
    """Outputs that are not the same bits under two schedules."""
    for array, old in before.items():
        wrong = np.flatnonzero(bytes_of(old) != bytes_of(after[array]))
        if len(wrong):
            element = np.unravel_index(int(wrong[0]) // old.itemsize, old.shape)
            index = ", ".join(str(int(i)) for i in element)
            yield diagnose(
                "F106",
                f"{array}[{index}] is {old[element]} under the schedule {name} and {after[array][element]} under {other}",
                fix="look at the other findings first; without any, the kernel depends on an order that nothing guarantees",
            )
