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
PEAK_BYTES = 4.8e3 / 1.98
"""That DRAM moves in a cycle: 4.8 TB/s of the NVIDIA H200 datasheet, at 1.98 GHz."""
SAMPLES = 4
"""CTAs that run of each grid."""
APART = 1.2
"""Configurations whose times differ by this factor are compared with each other."""


@cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "kernels_h200.json").read_text())
    return found


def measured_cycles(name: str) -> float:
    """The time by events, in cycles at the clock that the SMs had during the timed launches."""
    found = _record()["kernels"][name]
    return float(found["ns"]) * float(found["clock"])


def sampled(kernel: Kernel) -> list[tuple[int, int, int]]:
    """CTAs in all parts of a grid."""
    x, y, z = kernel.dims
    return sorted({(x * (2 * i + 1) // 8, y * ((3 * i + 1) % 4 * 2 + 1) // 8, z * (2 * i + 1) // 8) for i in range(SAMPLES)})


@dataclass(frozen=True)
class Comparison:
    """``cycles``: measured; ``estimate``: of the model; ``roofline``: of published peaks; ``fitted_roofline``: of the model's own rates.

    Each roofline has the launch added. That of the peaks knows the products and the bytes of the arrays: the longest of the times that the
    tensor core needs for the ones, and DRAM for the others. The other one has bandwidths, traffic and L2 as the model has fitted them.
    """

    name: str
    cycles: float
    estimate: float
    roofline: float
    fitted_roofline: float
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
    assembled = Assembled(int(_record()["kernels"][name]["registers"]))
    found = result.profile.with_assembled(assembled).estimate
    launch = found.parameters.launch
    accessed = sum(array.nbytes for array in kernel.arrays)
    peaks = max(found.roofline["tensor core"], accessed / PEAK_BYTES) + launch
    fitted = max(found.roofline.values()) + launch
    return Comparison(name, measured_cycles(name), found.cycles, peaks, fitted, found.limiter)


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
    heads = "class", "kernels", "median", "90th percentile", "roofline of peaks, median", "roofline of fitted rates, median"
    lines = [title, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, cases in [*families.items(), ("all", found)]:
        (median, ninth), (peaks, _), (fitted, _) = (errors(cases, of) for of in ("estimate", "roofline", "fitted_roofline"))
        lines.append(f"| {name} | {len(cases)} | {median:.1%} | {ninth:.1%} | {peaks:.1%} | {fitted:.1%} |")
    right, total = _pairs(found)
    return "\n".join([*lines, f"pairs in the right order: {right} of {total}"])


def main(which: str, *words: str) -> None:
    chosen = [n for n in CASES if which == "all" or held_out(n) == (which == "held-out")]
    names = [name for name in chosen if not words or any(word in name for word in words)]
    found = []
    for name in names:
        each = compared(name)
        found.append(each)
        cycles = " ".join(f"{value:9.0f}" for value in (each.cycles, each.estimate, each.roofline, each.fitted_roofline))
        print(f"{name:42} {cycles} {each.error:+7.1%}  {each.limiter}", flush=True)
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
