"""How long the debugger takes for a step back: ``python -m benchmarks.steps_back LAUNCH ...``, launch files or replay bundles.

Each launch runs to its end, and then goes to places that lie evenly in it. At each place an instruction, a line and a point are undone,
and a line of the resident warp that is listed last. The table shows the longest and the median time of each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ptxlab.campaign.launchable import read_launchable
from ptxlab.debug import Session

_APART = 0.013
"""Places are so much of the launch away from even ones, at which CTAs begin; the last one is the end."""
MOST = 0.2
"""The seconds that a step back may take."""


def line_of_another_warp(session: Session) -> None:
    """Undo a line of another warp than the one that is next, if there is one."""
    warps = session.warps()
    if warps:
        session.choose_thread(warps[-1]["cta"], warps[-1]["warp"])
    session.step_line_back()


MOVES: dict[str, Callable[[Session], Any]] = {
    "instruction": lambda session: session.step_back(),
    "line": lambda session: session.step_line_back(),
    "point": lambda session: session.step_any_back(),
    "line of another warp": line_of_another_warp,
}


def measure(launch: Path, places: int, clock: Callable[[], float]) -> tuple[int, dict[str, list[float]]]:
    """The points of a launch, and the seconds of each kind of step back at the places."""
    taken: dict[str, list[float]] = {name: [] for name in MOVES}
    with Session(read_launchable(launch).prepare()) as session:
        session.run()
        end = session.position
        for number in range(places, 0, -1):
            place = replace(end, step=max(int(end.step * (number / places - _APART * (number < places))), 1))
            for name, move in MOVES.items():
                session.go_to(place)
                started = clock()
                move(session)
                taken[name].append(clock() - started)
    return end.step, taken


def main() -> int:
    """Measure, print a table, and return 1 if a step back takes longer than it may."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps_back", description=__doc__)
    parser.add_argument("launches", nargs="+", type=Path)
    parser.add_argument("--places", type=int, default=8)
    parser.add_argument("--wall", action="store_true", help="measure the time that passes, not that of the processor: on an idle machine")
    given = parser.parse_args()
    table = Table(title="milliseconds of a step back: longest (median)", title_justify="left")
    for column in ("", "points", *MOVES):
        table.add_column(column, justify="left" if not column else "right")
    slow = False
    for launch in given.launches:
        points, taken = measure(launch, given.places, time.perf_counter if given.wall else time.process_time)
        slow |= max(map(max, taken.values())) > MOST
        table.add_row(launch.name[:60], f"{points:,}", *(f"{1e3 * max(each):.0f} ({1e3 * median(each):.0f})" for each in taken.values()))
    Console(width=160).print(table)
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
