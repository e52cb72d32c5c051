"""Measure, and print a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from . import required
from .generated import services
from .workloads import KERNELS, SIZE, WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

BLAS_KERNELS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables that name the kernels of NumPy's BLAS; without them it takes those for this processor."""


def byte_code_in(folder: Path | str) -> dict[str, str]:
    """The environment in which Python writes byte code to a folder, and loads it from there."""
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}


def worker(cache: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run one measurement in a fresh process; adds the wall time of that process."""
    env = {name: value for name, value in os.environ.items() if name not in BLAS_KERNELS} | {"PTXLAB_CACHE_DIR": str(cache)} | environment
    started = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.worker", *arguments]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{run.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    result["wall_s"] = time.perf_counter() - started
    if not result.get("good", True):
        raise SystemExit(f"{' '.join(arguments)}: wrong result, off by {result['worst']}")
    return result


def measure_workload(console: Console, name: str, repeats: int) -> dict[str, Any]:
    """ptxlab without and with checks, cold and warm; the interpreter with its default threads and with one."""
    found: dict[str, Any] = {"title": WORKLOADS[name].title}
    for check in ("none", "default"):
        with tempfile.TemporaryDirectory() as cache, console.status(f"{name}, check={check}"):
            cold = worker(Path(cache), "launch", name, check, str(repeats))
            again = worker(Path(cache), "launch", name, check, "1")
        found[check] = {
            "cold_first_s": cold["first_s"],
            "new_process_first_s": again["first_s"],
            "warm_s": median(cold["warm_s"]),
            "instructions": cold["instructions"],
            "peak_mib": cold["peak_mib"],
        }
    for key, extra in (("interpreter", {}), ("interpreter_one_thread", ONE_THREAD)):
        with console.status(f"{name}, {key}"):
            run = worker(KERNELS, "interpret", name, str(max(1, repeats // 2)), TRITON_INTERPRET="1", **extra)
        found[key] = {"first_s": run["first_s"], "warm_s": median(run["warm_s"]), "peak_mib": run["peak_mib"]}
    best = min(found["interpreter"]["warm_s"], found["interpreter_one_thread"]["warm_s"])
    found["speedup"] = {check: best / found[check]["warm_s"] for check in ("none", "default")}
    found["cost"] = found["default"]["warm_s"] / found["none"]["warm_s"]
    found["added_of_interpreter"] = (found["default"]["warm_s"] - found["none"]["warm_s"]) / best
    return found


def measure_cold_start(repeats: int) -> dict[str, Any]:
    """From the start of Python to the first result of flash_causal_fp16 (1,968 instructions), default checks.

    Python loads byte code, as where a package is installed. And from the text of a kernel of 60,000 lines to its first instructions, with
    an empty cache; and from the text of a module of 40 kernels, 392,000 lines, to those of one kernel.
    """
    runs, long = [], []
    with tempfile.TemporaryDirectory() as byte_code:
        environment = byte_code_in(byte_code)
        for _ in range(repeats + 1):
            with tempfile.TemporaryDirectory() as cache:
                runs.append([worker(Path(cache), "cold", **environment)["wall_s"] for _ in range(2)])
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            long.append(worker(Path(cache), "first_instruction", "60000")["seconds"])
    with tempfile.TemporaryDirectory() as cache:
        many = worker(Path(cache), "many_kernels", "40", "9200")
    return {
        "empty_cache_s": median(run[0] for run in runs[1:]),
        "filled_cache_s": median(run[1] for run in runs[1:]),
        "first_instruction_s": median(long),
        "one_kernel_cpu_s": many["alone_cpu_s"],
        "one_of_40_kernels_cpu_s": many["together_cpu_s"],
        "more_for_40_kernels_cpu_s": many["together_cpu_s"] - many["alone_cpu_s"],
    }


def measure_units(repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        scalar = worker(cache, "scalar", str(repeats))
        machine = {name: worker(cache, "services", name, str(repeats)) for name in services()}
        parse = worker(cache, "parse", str(repeats))
        lint, long = worker(cache, "lint", str(repeats)), worker(cache, "lint_long", "38")
        addresses = worker(cache, "addresses", str(repeats), **ONE_THREAD)
    return {
        "scalar_ns": 1e9 * median(scalar["seconds"]),
        "service_us": {name: 1e6 * median(run["seconds"]) for name, run in machine.items()},
        "parse_lines_per_s": median(parse["lines_per_s"]),
        "parse_lines": parse["lines"],
        "lint_lines_per_s": median(lint["lines_per_s"]),
        "lint_dataflow_lines_per_s": median(lint["dataflow_lines_per_s"]),
        "lint_long_cpu_s": long["cpu_s"],
        "lint_long_peak_mib": long["peak_mib"],
        "addresses_per_s": {name: median(rates) for name, rates in addresses["addresses_per_s"].items()},
    }


def table_of_workloads(results: dict[str, Any]) -> Table:
    table = Table(title="seconds, medians; one process each", title_justify="left")
    for column in ("", "cold", "new process,\nfilled cache", "warm", "peak MiB", "times faster than\nthe interpreter"):
        table.add_column(column, justify="left" if not column else "right")
    for found in results.values():
        table.add_row(f"[bold]{found['title']}[/]")
        for check, label in (("none", "ptxlab, check='none'"), ("default", "ptxlab, default checks")):
            r = found[check]
            numbers = (f"{r[k]:.2f}" for k in ("cold_first_s", "new_process_first_s", "warm_s"))
            table.add_row(f"  {label}", *numbers, f"{r['peak_mib']:.0f}", f"{found['speedup'][check]:.1f}")
        for key, label in (("interpreter", "TRITON_INTERPRET=1"), ("interpreter_one_thread", "TRITON_INTERPRET=1, one BLAS thread")):
            r = found[key]
            table.add_row(f"  {label}", f"{r['first_s']:.2f}", "", f"{r['warm_s']:.2f}", f"{r['peak_mib']:.0f}", "")
    return table


def table_of_units(units: dict[str, Any], cold: dict[str, Any]) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("Python start to first result, empty cache", f"{cold['empty_cache_s']:.2f} s")
    table.add_row("Python start to first result, filled cache", f"{cold['filled_cache_s']:.2f} s")
    table.add_row("60,000 lines: text to first instruction, empty cache", f"{cold['first_instruction_s']:.2f} s")
    table.add_row("scalar code, per warp-instruction", f"{units['scalar_ns']:.1f} ns")
    one, many = cold["one_kernel_cpu_s"], cold["one_of_40_kernels_cpu_s"]
    table.add_row(
        "40 kernels, 392,000 lines: text to first instruction of one; of that one alone (processor time)", f"{many:.2f} s; {one:.2f} s"
    )
    for name, value in units["service_us"].items():
        each = "each" if " " in name else "per warp-instruction"
        table.add_row(f"{name}, {each}", f"{value:.2f} us")
    table.add_row("parsing", f"{units['parse_lines_per_s']:,.0f} lines/s")
    table.add_row("lint without the data flow", f"{units['lint_lines_per_s']:,.0f} lines/s")
    table.add_row("lint", f"{units['lint_dataflow_lines_per_s']:,.0f} lines/s")
    table.add_row("lint of 370,000 lines", f"{units['lint_long_cpu_s']:.1f} s, {units['lint_long_peak_mib']:.0f} MiB")
    for name, value in units["addresses_per_s"].items():
        table.add_row(f"layouts, {name}, one core", f"{value / 1e6:,.0f} million addresses/s")
    return table


def measure_numerics(repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        found: dict[str, Any] = worker(Path(cache), "numerics", str(repeats), **ONE_THREAD)["cases"]
    return found


def table_of_numerics(found: dict[str, Any]) -> Table:
    table = Table(title="one instruction m128n256, one core, GFLOP/s", title_justify="left")
    for column in ("", "numerics.mma on codes", "on prepared operands", "wide exponents", "sums cancel", "general path", "NumPy float32 @"):
        table.add_column(column, justify="left" if not column else "right")
    for name, rates in found.items():
        table.add_row(name, *(f"{rates[key]:.1f}" for key in ("call", "prepared", "wide", "cancelling", "general", "numpy")))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", action="append", choices=[*WORKLOADS, "units", "numerics"], help="measure only this")
    parser.add_argument("--require", action="store_true", help="exit with status 1 if a figure is not what it must be")
    options = parser.parse_args()
    console = Console()
    repeats = 3 if options.quick else 7
    chosen = options.only or [*WORKLOADS, "units", "numerics"]
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    results: dict[str, Any] = {"machine": machine, "workloads": {}}
    console.print(machine)
    for name in WORKLOADS:
        if name in chosen:
            results["workloads"][name] = measure_workload(console, name, repeats)
    if results["workloads"]:
        console.print(table_of_workloads(results["workloads"]))
    if "units" in chosen:
        with console.status("units"):
            results["cold_start"] = measure_cold_start(1 if options.quick else 3)
            results["units"] = measure_units(repeats)
        console.print(table_of_units(results["units"], results["cold_start"]))
    if "numerics" in chosen:
        with console.status("numerics"):
            results["numerics"] = measure_numerics(repeats)
        console.print(table_of_numerics(results["numerics"]))
        gemm = results["workloads"].get("gemm_descriptors")
        if gemm is not None:
            gemm["times_arithmetic"] = gemm["none"]["warm_s"] / (2 * SIZE**3 / 1e9 / results["numerics"]["f16"]["prepared"])
    console.print(required.table(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.require and required.missed(results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
