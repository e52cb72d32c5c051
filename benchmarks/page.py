"""Measure, and write the page of the benchmarks: ``python -m benchmarks.page --measure all``.

What is measured is stored in ``benchmarks/figures.json``, one entry for each section. The page and its plots are made of what is stored
there; without ``--measure`` they are only written again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from ptxlab.native import host

from . import campaign, cold, scaling
from .__main__ import ONE_THREAD, measure_workload, worker
from .chart import bars
from .workloads import WORKLOADS

__all__ = ["FIGURES", "pages"]

FIGURES = Path(__file__).parent / "figures.json"
DOCS = Path(__file__).resolve().parents[1] / "docs"
_ARITHMETIC = {"call": "numerics.mma on codes", "prepared": "on prepared operands", "numpy": "NumPy float32 @"}
_LARGE = 8192


@dataclass(frozen=True)
class Section:
    """A part of the page: what is measured, the sentences above the figures, its table, and its plot."""

    title: str
    measure: Callable[[int], dict[str, Any]]
    text: str
    rows: Callable[[dict[str, Any]], Iterator[tuple[str, ...]]]
    plot: Callable[[dict[str, Any]], str]


# ------------------------------------------------------------------------------------------------------------------ cold


def _cold(repeats: int) -> dict[str, Any]:
    ptxas = cold.assembler(cold.COLD)
    return {name: cold.measure(name, repeats, ptxas) for name in cold.COLD}


def _cold_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "kernel", "lines", "`ptxas -O3`", "ptxlab, no checks", "ptxlab, all checks", f"{cold.TIMES} × ptxas + {cold.MORE} s", ""
    for each in found.values():
        seconds = each["seconds"]
        most = cold.allowed(seconds["ptxas"])
        numbers = (f"{value:.2f}" for value in (seconds["ptxas"], seconds["none"], seconds["all"], most))
        yield each["title"], f"{each['lines']:,}", *numbers, each["note"]


def _cold_plot(found: dict[str, Any]) -> str:
    groups = {each["title"]: [each["seconds"][key] for key in ("ptxas", "none", "all")] for each in found.values()}
    return bars("Seconds of cold compilation, ptxas and ptxlab", ("ptxas -O3", "ptxlab, no checks", "ptxlab, all checks"), groups, "s")


# ------------------------------------------------------------------------------------------------------------ arithmetic


def _arithmetic(repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        found: dict[str, Any] = worker(Path(cache), "numerics", str(repeats), **ONE_THREAD)["cases"]
    return found


def _arithmetic_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "kind", *(f"`{name}`" if "." in name else name for name in _ARITHMETIC.values()), "codes / NumPy", "prepared / NumPy"
    for name, rates in found.items():
        ratios = (f"{rates[key] / rates['numpy']:.2f}" for key in ("call", "prepared"))
        yield name, *(f"{rates[key]:.0f}" for key in _ARITHMETIC), *ratios


def _arithmetic_plot(found: dict[str, Any]) -> str:
    groups = {name: [rates[key] for key in _ARITHMETIC] for name, rates in found.items()}
    return bars("GFLOP/s of one instruction", tuple(_ARITHMETIC.values()), groups, "GFLOP/s")


# --------------------------------------------------------------------------------------------------------------- kernels


def _kernels(repeats: int) -> dict[str, Any]:
    return {name: measure_workload(Console(quiet=True), name, repeats) for name in WORKLOADS}


def _kernel_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "kernel", "no checks", "all checks", "times", "`TRITON_INTERPRET=1`, one BLAS thread", "interpreter / no checks"
    for each in found.values():
        none, checked, other = (each[key]["warm_s"] for key in ("none", "default", "interpreter_one_thread"))
        yield each["title"], f"{none:.3f}", f"{checked:.3f}", f"{each['cost']:.2f}", f"{other:.3f}", f"{other / none:.1f}"


def _kernel_plot(found: dict[str, Any]) -> str:
    groups = {name: [each[key]["warm_s"] for key in ("none", "default", "interpreter_one_thread")] for name, each in found.items()}
    return bars("Seconds of warm launches", ("ptxlab, no checks", "ptxlab, all checks", "TRITON_INTERPRET=1"), groups, "s")


# --------------------------------------------------------------------------------------------------------------- workers


def _workers(repeats: int) -> dict[str, Any]:
    counts = [count for count in (2, 4, 8, 16) if count <= (os.cpu_count() or 1)]
    return {name: scaling.measure(name, "none", counts, repeats) for name in scaling.LAUNCHES}


def _worker_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "kernel", "workers", "seconds", "times as fast as one", "independent processes"
    for name, rows in found.items():
        for row in rows:
            yield scaling.LAUNCHES[name][0], str(row["workers"]), *(f"{row[key]:.2f}" for key in ("seconds", "times", "independent"))


def _worker_plot(found: dict[str, Any]) -> str:
    groups = {f"{name}, {row['workers']} workers": [row["times"], row["independent"]] for name, rows in found.items() for row in rows}
    return bars("How many times as fast as one worker", ("workers", "independent processes"), groups, "times")


# -------------------------------------------------------------------------------------------------------------- campaign


def _campaign(repeats: int) -> dict[str, Any]:
    return {"rows": campaign.measure(8, repeats)}


def _campaign_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield from campaign.table_rows(found["rows"])


def _campaign_plot(found: dict[str, Any]) -> str:
    rows = found["rows"]
    groups = {f"{row['processes']} processes": [row["cells_per_s"], row["processes"] * rows[0]["cells_per_s"]] for row in rows}
    return bars("Cells of a campaign per second", ("cells per second", "of as many as one process each"), groups, "cells/s")


# ---------------------------------------------------------------------------------------------------------------- memory


def _memory(repeats: int) -> dict[str, Any]:
    found = {}
    for check in ("none", "all"):
        with tempfile.TemporaryDirectory() as cache:
            found[f"{check}, compiles"] = worker(Path(cache), "one_cluster", str(_LARGE), check)
            # What runs often is compiled again, optimised.
            worker(Path(cache), "one_cluster", str(_LARGE), check)
            found[check] = worker(Path(cache), "one_cluster", str(_LARGE), check)
    return found


def _memory_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "checks", "arrays, MiB", "the process itself, MiB", "most in the launch, MiB", "most / arrays", "without the process / arrays"
    for check, each in found.items():
        arrays, own, most = (each[key] for key in ("arrays_mib", "own_mib", "launched_mib"))
        yield check, f"{arrays:.0f}", f"{own:.0f}", f"{most:.0f}", f"{most / arrays:.2f}", f"{(most - own) / arrays:.2f}"


def _memory_plot(found: dict[str, Any]) -> str:
    groups = {f"checks: {check}": [each["arrays_mib"], each["launched_mib"] - each["own_mib"]] for check, each in found.items()}
    return bars("Memory of one cluster of a large product", ("arrays", "most in the launch, without the process"), groups, "MiB")


SECTIONS = {
    "cold": Section(
        "Cold compilation beside ptxas",
        _cold,
        "From the text to the end of one cluster, in a new process with an empty cache, beside `ptxas -O3` on the same entry. Seconds of "
        "processor time; the start of Python and `import ptxlab` are not counted, the modules that it imports when it needs them are. They "
        "are loaded from byte code, as where a package is installed.",
        _cold_rows,
        _cold_plot,
    ),
    "arithmetic": Section(
        "Arithmetic",
        _arithmetic,
        "GFLOP/s of instructions of m128n256 on one processor, beside NumPy's float32 product in the same run.",
        _arithmetic_rows,
        _arithmetic_plot,
    ),
    "kernels": Section(
        "Launches, with and without checks",
        _kernels,
        "Seconds of warm launches, beside the same Triton kernel under its interpreter.",
        _kernel_rows,
        _kernel_plot,
    ),
    "workers": Section(
        "Several workers",
        _workers,
        "How many times as fast a launch is with several workers, beside what as many independent processes reach.",
        _worker_rows,
        _worker_plot,
    ),
    "campaign": Section(
        "A campaign",
        _campaign,
        "A GEMM of 512³ with all checks under many schedules: cells per second on processes of one machine, with `--executor processes:N`. "
        "`busy` is the part of the time in which the processes run cells.",
        _campaign_rows,
        _campaign_plot,
    ),
    "memory": Section(
        "Memory",
        _memory,
        f"One cluster of a product of {_LARGE} × {_LARGE} matrices (`only=`), in a process that compiles the kernel, and in one that finds "
        "its code in the cache. The memory of the process itself is what it has after the same kernel has multiplied small matrices.",
        _memory_rows,
        _memory_plot,
    ),
}
"""By the name of their entry in the stored figures."""


def _table(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    header = next(rows)
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _page(stored: dict[str, Any]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Generated by `python -m benchmarks.page --measure all`, which measures and draws. The speed of a shared machine varies;",
        "compare figures of one section only. [Performance](performance.md) says what they mean, and what a launch compiles.",
    ]
    for name, section in SECTIONS.items():
        if name in stored:
            entry = stored[name]
            lines += ["", f"## {section.title}", "", section.text, "", f"Measured on {entry['machine']}.", ""]
            lines += [f"![{section.title}](figures/benchmarks-{name}.svg)", "", *_table(section.rows(entry["figures"]))]
    return "\n".join(lines) + "\n"


def pages(stored: dict[str, Any] | None = None) -> dict[str, Callable[[], str]]:
    """The page and its plots, by their places in the folder of the documentation; of the stored figures, or of others."""
    stored = json.loads(FIGURES.read_text()) if stored is None else stored
    plots = {name: section for name, section in SECTIONS.items() if name in stored}
    return {
        "benchmarks.md": partial(_page, stored),
        **{f"figures/benchmarks-{name}.svg": partial(each.plot, stored[name]["figures"]) for name, each in plots.items()},
    }


def _machine() -> str:
    processors = f"{os.cpu_count()} processors with vectors of {host().vector_bits} bits"
    return f"{platform.machine()}, {processors}, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--measure", nargs="+", default=[], choices=["all", *SECTIONS], help="measure these sections first")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    stored = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in SECTIONS if "all" in options.measure else options.measure:
        stored[name] = {"machine": _machine(), "figures": SECTIONS[name].measure(options.repeats)}
        FIGURES.write_text(json.dumps(stored, indent=1) + "\n")
    for name, page in pages(stored).items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
