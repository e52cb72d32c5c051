"""Compare estimates with the times of an H200: ``python -m tests.profile.timing.evaluate fitted|held-out|all [WORD...]``.

Prints each case, and the error table: by class the median and the 90th percentile of the absolute error, of the model and of a roofline;
pairs of configurations in the right order; what autotuning by estimate would choose. Each evaluation that uses the half that is held out
adds a line to ``data/evaluations.log``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import ptxlab
from ptxlab.profile import Assembled
from tests.hardware.suite._kernel import Kernel
from tests.profile.timing.cases import CASES
from tests.profile.timing.problems import held_out

__all__ = ["Comparison", "compared", "errors", "measured_cycles"]

DATA = Path(__file__).parents[1] / "data"
SMS = 132
SAMPLES = 4
"""CTAs that run of each grid."""
APART = 1.2
"""Configurations whose times differ by this factor are compared with each other."""


@cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "kernels_h200.json").read_text())
    return found


def _metric(name: str, metric: str) -> float:
    record = _record()
    return float(record["kernels"][name]["ncu"][record["metrics"].index(metric)])


def measured_cycles(name: str) -> float:
    """The time by events, in cycles at the clock that ncu has seen for this kernel."""
    clock = _metric(name, "sm__cycles_elapsed.max") / _metric(name, "gpu__time_duration.sum")
    return float(_record()["kernels"][name]["ns"]) * clock


def sampled(kernel: Kernel) -> list[tuple[int, int, int]]:
    """CTAs in all parts of a grid."""
    x, y, z = kernel.dims
    return sorted({(x * (2 * i + 1) // 8, y * ((3 * i + 1) % 4 * 2 + 1) // 8, z * (2 * i + 1) // 8) for i in range(SAMPLES)})


@dataclass(frozen=True)
class Comparison:
    """``cycles``: measured; ``estimate``, ``roofline``: of the model, and of its rooflines with the launch alone."""

    name: str
    cycles: float
    estimate: float
    roofline: float
    limiter: str

    @property
    def error(self) -> float:
        return self.estimate / self.cycles - 1


def compared(name: str) -> Comparison:
    """Run some CTAs of a case and estimate its time."""
    kernel = CASES[name].make()
    result = ptxlab.loads(kernel.text)[kernel.symbol].launch(
        grid=kernel.grid,
        block=kernel.block,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster if kernel.cluster != (1, 1, 1) else None,
        args=[int(a) if isinstance(a, np.integer) else a for a in kernel.args],
        check="none",
        profile=True,
        only=sampled(kernel),
        registers=kernel.registers,
        device=ptxlab.Device("sm_90a", sms=SMS),
    )
    assembled = Assembled(int(_metric(name, "launch__registers_per_thread")))
    found = result.profile.with_assembled(assembled).estimate
    roofline = max(found.roofline.values()) + found.parameters.launch
    return Comparison(name, measured_cycles(name), found.cycles, roofline, found.limiter)


def errors(found: list[Comparison], of: str = "estimate") -> tuple[float, float]:
    """The median and the 90th percentile of the absolute errors."""
    values = [abs(getattr(each, of) / each.cycles - 1) for each in found]
    return float(np.median(values)), float(np.percentile(values, 90))


def _pairs(found: list[Comparison]) -> tuple[int, int]:
    """Of the pairs of configurations of a problem that differ enough: how many are in the right order, and how many there are."""
    right = total = 0
    for one, other in combinations(found, 2):
        if CASES[one.name].problem == CASES[other.name].problem and max(one.cycles, other.cycles) >= APART * min(one.cycles, other.cycles):
            total += 1
            right += (one.cycles < other.cycles) == (one.estimate < other.estimate)
    return right, total


def _tuned(found: list[Comparison]) -> list[tuple[str, float]]:
    """By Triton problem: the time of the configuration that the estimate chooses, by that of the best one."""
    problems = defaultdict(list)
    for each in found:
        if CASES[each.name].triton:
            problems[CASES[each.name].problem].append(each)
    return [
        (name, min(cases, key=lambda each: each.estimate).cycles / min(each.cycles for each in cases))
        for name, cases in problems.items()
        if len(cases) > 1
    ]


def _table(title: str, found: list[Comparison]) -> str:
    families = defaultdict(list)
    for each in found:
        families[CASES[each.name].family].append(each)
    lines = [title, "| class | kernels | median | 90th percentile | roofline, median |", "|---|---|---|---|---|"]
    for name, cases in [*families.items(), ("all", found)]:
        (median, ninth), (other, _) = errors(cases), errors(cases, "roofline")
        lines.append(f"| {name} | {len(cases)} | {median:.1%} | {ninth:.1%} | {other:.1%} |")
    right, total = _pairs(found)
    return "\n".join([*lines, f"pairs in the right order: {right} of {total}"])


def main(which: str, *words: str) -> None:
    chosen = [n for n in CASES if which == "all" or held_out(n) == (which == "held-out")]
    names = [name for name in chosen if not words or any(word in name for word in words)]
    found = []
    for name in names:
        each = compared(name)
        found.append(each)
        print(f"{name:42} {each.cycles:9.0f} {each.estimate:9.0f} {each.error:+7.1%} {each.roofline:9.0f}  {each.limiter}", flush=True)
    halves = {"fitted": [e for e in found if not held_out(e.name)], "held out": [e for e in found if held_out(e.name)]}
    for title, half in halves.items():
        if half:
            print(_table(title, half))
    for name, factor in _tuned(found):
        print(f"tuned {name}: {factor:.2f} of the best time")
    if halves["held out"] and not words:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
        median, ninth = errors(halves["held out"])
        with (DATA / "evaluations.log").open("a") as log:
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} on {commit}"
            log.write(f"{now}: {len(halves['held out'])} kernels, median {median:.1%}, 90th percentile {ninth:.1%}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
