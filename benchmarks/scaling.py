"""How launches become faster with several workers: ``python -m benchmarks.scaling``.

Beside each number of workers stands what as many processes reach that run the same launch at the same time, each with one worker: more than
that this machine does not give.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .workloads import HEADS, KERNELS, SCALE, SIZE, _normal

ROOT = Path(__file__).resolve().parents[1]
DEPTH = 16384
LENGTH = 4096


def _gemm() -> tuple[str, dict[str, Any], list[Any]]:
    arrays = [*_normal((SIZE, DEPTH), (DEPTH, SIZE)), np.zeros((SIZE, SIZE), np.float16)]
    sizes = (SIZE, SIZE, DEPTH, DEPTH, SIZE, SIZE)
    return "mm_ptr_fp16", {"grid": 64, "block": 128, "shared_bytes": 98320}, [*arrays, *sizes, None, None]


def _tma_gemm() -> tuple[str, dict[str, Any], list[Any]]:
    import ptxlab

    a, b = _normal((2 * SIZE, DEPTH), (SIZE, DEPTH))
    maps: list[Any] = []
    for array in (a, b, np.zeros((2 * SIZE, SIZE), np.float16)):
        maps += [ptxlab.TensorMap(array, box=(64, 128), swizzle="128B"), *array.shape, array.shape[1], 1]
    geometry = {"grid": 128, "block": 128, "cluster": 2, "shared_bytes": 98352}
    return "mm_host_desc_fp16_cta2", geometry, [*maps, 2 * SIZE, SIZE, DEPTH, None, None]


def _attention() -> tuple[str, dict[str, Any], list[Any]]:
    q, k, v = _normal(*((HEADS, LENGTH, 64),) * 3)
    out, lse = np.zeros_like(q), np.zeros((HEADS, LENGTH), np.float32)
    geometry = {"grid": (LENGTH // 128, HEADS), "block": 128, "shared_bytes": 114720}
    return "flash_fp16", geometry, [q, k, v, out, lse, LENGTH, SCALE, None, None]


LAUNCHES: dict[str, tuple[str, Callable[[], tuple[str, dict[str, Any], list[Any]]]]] = {
    "gemm_pointers": (f"GEMM {SIZE}x{SIZE}x{DEPTH} f16, pointers, 64 clusters", _gemm),
    "gemm_descriptors": (f"GEMM {2 * SIZE}x{SIZE}x{DEPTH} f16, TMA, CTA pairs, 64 clusters", _tma_gemm),
    "attention": (f"flash attention S={LENGTH} d=64, {HEADS} heads, {LENGTH // 128 * HEADS} clusters", _attention),
}


def _launcher(name: str, check: str) -> Callable[[int], float]:
    """A function that launches with a number of workers and returns the seconds that it took."""
    import ptxlab

    ptx, geometry, arguments = LAUNCHES[name][1]()
    kernel = ptxlab.load(KERNELS / f"{ptx}.ptx").kernel()

    def launch(workers: int) -> float:
        started = time.perf_counter()
        result = kernel.launch(**geometry, args=arguments, check=check, workers=workers)
        seconds = time.perf_counter() - started
        result.raise_for_errors()
        assert result.stats.workers == workers, result.stats.why_alone
        return seconds

    launch(1)
    return launch


def one_of_many(name: str, check: str) -> None:
    """Launch with one worker whenever a line comes, and print the seconds."""
    launch = _launcher(name, check)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(launch(1), flush=True)


def _independent(name: str, check: str, count: int, repeats: int) -> list[float]:
    """Seconds until as many processes have launched at the same time."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--one-of-many", name, check]
    many = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    found = []
    try:
        for process in many:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for _ in range(repeats):
            started = time.perf_counter()
            for process in many:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            for process in many:
                assert process.stdout is not None
                process.stdout.readline()
            found.append(time.perf_counter() - started)
    finally:
        for process in many:
            process.kill()
            process.communicate()
    return found


def measure(name: str, check: str, workers: list[int], repeats: int) -> list[dict[str, Any]]:
    """A row for each number of workers.

    Each launch that is timed follows one with as many workers, as those of the independent processes do: a core that was idle is slow.
    """
    launch = _launcher(name, check)
    seconds: dict[int, list[float]] = {count: [] for count in (1, *workers)}
    for _ in range(repeats):
        for count, found in seconds.items():
            launch(count)
            found.append(launch(count))
    one = median(seconds[1])
    rows = []
    for count in workers:
        took = median(seconds[count])
        together = median(_independent(name, check, count, repeats))
        rows.append({"workers": count, "seconds": took, "times": one / took, "independent": count * one / together})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--launches", nargs="+", default=list(LAUNCHES), choices=list(LAUNCHES))
    parser.add_argument("--checks", nargs="+", default=["none", "all"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--one-of-many", nargs=2, metavar=("LAUNCH", "CHECK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_of_many:
        one_of_many(*options.one_of_many)
        return
    console = Console()
    found: dict[str, dict[str, Any]] = {}
    for name in options.launches:
        found[name] = {check: measure(name, check, options.workers, options.repeats) for check in options.checks}
        for check, rows in found[name].items():
            table = Table("workers", "seconds", "times one", "independent processes", title=f"{LAUNCHES[name][0]}, check={check}")
            for row in rows:
                table.add_row(
                    *(f"{row[key]:.{digits}f}" for key, digits in (("workers", 0), ("seconds", 3), ("times", 2), ("independent", 2)))
                )
            console.print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
