"""What the figures must be, and whether they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from .numerics import CASES, OF_NUMPY, SLOWER

__all__ = ["REQUIRED", "Required", "missed", "table"]


@dataclass(frozen=True)
class Required:
    """A figure, found in the results by ``path``, and the least (``least``) or the most that it may be.

    ``beside`` is the path of the same figure under the default checks, for which nothing is required.
    """

    name: str
    path: tuple[str, ...]
    limit: float
    least: bool = False
    unit: str = ""
    beside: tuple[str, ...] = ()

    def met(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit


def _faster(name: str, title: str, limit: float) -> Required:
    path = ("workloads", name, "speedup")
    return Required(f"{title}: times faster than the interpreter", (*path, "none"), limit, True, beside=(*path, "default"))


def _added(name: str, title: str) -> Required:
    path = ("workloads", name, "added_of_interpreter")
    return Required(f"{title}: seconds that checks add, of the interpreter's", path, ADDED_BEFORE[name] / 2)


ADDED_BEFORE = {"gemm_pointers": 0.247, "gemm_descriptors": 0.833, "attention": 0.318}
"""Seconds that checks added before they were made fast (commit 84e7ddfd), as a part of the interpreter's seconds in the same run."""

REQUIRED = (
    _faster("gemm_pointers", "GEMM 1024x1024x1024 f16, pointers", 8),
    _faster("gemm_descriptors", "GEMM 1024x1024x1024 f16, TMA, CTA pairs", 3),
    _faster("attention", "flash attention", 8),
    _added("gemm_pointers", "GEMM 1024x1024x1024 f16, pointers"),
    _added("gemm_descriptors", "GEMM 1024x1024x1024 f16, TMA, CTA pairs"),
    _added("attention", "flash attention"),
    Required("GEMM 1024x1024x1024 f16, TMA, CTA pairs: times the arithmetic", ("workloads", "gemm_descriptors", "times_arithmetic"), 2.5),
    Required("cold start to the first result", ("cold_start", "empty_cache_s"), 1, unit="s"),
    Required("60,000 lines to the first instruction", ("cold_start", "first_instruction_s"), 10, unit="s"),
    Required("one of 40 kernels, more than that kernel alone", ("cold_start", "more_for_40_kernels_cpu_s"), 0.3, unit="s"),
    Required("scalar code, a warp-instruction", ("units", "scalar_ns"), 50, unit="ns"),
    Required("bar.sync, a warp-instruction", ("units", "service_us", "bar.sync"), 10, unit="us"),
    Required("mbarrier, a warp-instruction", ("units", "service_us", "mbarrier"), 10, unit="us"),
    Required("cp.async, a warp-instruction", ("units", "service_us", "cp.async"), 10, unit="us"),
    Required("tensor copy of 128 bytes", ("units", "service_us", "tensor copy, 128 bytes"), 10, unit="us"),
    Required("tcgen05.mma 64x8x16", ("units", "service_us", "tcgen05.mma 64x8x16"), 10, unit="us"),
    Required("parsing", ("units", "parse_lines_per_s"), 100_000, True, "lines/s"),
    Required("lint without the data flow", ("units", "lint_lines_per_s"), 100_000, True, "lines/s"),
    Required("lint", ("units", "lint_dataflow_lines_per_s"), 20_000, True, "lines/s"),
    Required("lint of 370,000 lines", ("units", "lint_long_cpu_s"), 20, unit="s"),
    Required("lint of 370,000 lines, memory", ("units", "lint_long_peak_mib"), 1500, unit="MiB"),
    *(
        Required(f"layouts: {name}", ("units", "addresses_per_s", name), 20e6, True, "addresses/s")
        for name in ("operands", "operands, 4 bits", "accumulators", "scale factors", "fragments")
    ),
    *(
        Required(f"{case}, {title}, of NumPy's rate", ("numerics", case, f"{key}_of_numpy"), factor * least, True)
        for case, least in OF_NUMPY.items()
        for key, title, factor in (("prepared", "on prepared operands", 1), ("call", "on codes", 0.5))
    ),
    *(
        Required(f"{case}, {title}, times as slow", ("numerics", case, f"{sort}_times"), SLOWER)
        for case in CASES
        for sort, title in (("wide", "wide exponents"), ("cancelling", "sums that cancel"))
    ),
)
"""The demands of the project on speed, on one otherwise idle core with AVX-512.

Of the GEMM with tensor maps three times the interpreter is asked. A kernel that names whole tiles leaves it hardly more than products in
float32, for which it calls a BLAS.

Checks may add half of the seconds that they added before they were made fast. The seconds of the interpreter in the same run stand for the
speed of the machine. ``python -m benchmarks.compare OTHER added`` compares two versions on one machine.
"""


def _found(results: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = results
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return float(value)


def judged(results: dict[str, Any]) -> Iterator[tuple[Required, float, float | None]]:
    """Each figure that was measured, and the same under the default checks."""
    for required in REQUIRED:
        value = _found(results, required.path)
        if value is not None:
            yield required, value, _found(results, required.beside) if required.beside else None


def missed(results: dict[str, Any]) -> list[str]:
    """The names of the figures that are not what they must be."""
    return [required.name for required, value, _ in judged(results) if not required.met(value)]


def table(results: dict[str, Any]) -> Table:
    made = Table(title="required", title_justify="left")
    for column in ("", "required", "check='none'", "", "default checks", ""):
        made.add_column(column, justify="left" if not column else "right")
    for required, value, beside in judged(results):
        limit = f"{'>=' if required.least else '<='} {_number(required.limit)} {required.unit}".rstrip()
        cells = [_number(value), _verdict(required, value)]
        cells += ["", ""] if beside is None else [_number(beside), _verdict(required, beside)]
        made.add_row(required.name, limit, *cells)
    return made


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


def _verdict(required: Required, value: float) -> str:
    return "[green]met[/]" if required.met(value) else "[red]not met[/]"
