"""Benchmarks: what ``triton.testing`` measures runs once.

If the settings ask for estimates, benchmarks give the estimated times of their launches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import triton.testing
from triton.testing import _summarize_statistics

from ptxlab import cuda
from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current, replace_attribute

__all__ = ["change"]

_SHORTEST_TIME = 1e-3
"""Milliseconds, of a function that launches nothing; benchmarks divide by times."""


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    grad_to_none: Any = None,
    quantiles: list[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Run a function once.

    Returns
    -------
    the milliseconds that it took here, or that its launches would take on a GPU, in the form that Triton's function of this name gives
    """
    session = current()
    session.note_run_once("do_bench")
    driver = cuda.install()
    driver.synchronize()
    started = session.seconds
    fn()
    driver.synchronize()
    return _summarize_statistics([(session.seconds - started) * 1e3 or _SHORTEST_TIME], quantiles, return_mode)


def first_point(mark: Any, bench: Any, save_path: str, show_plots: bool, print_data: bool, **kwargs: Any) -> dict[str, Any]:
    """In place of `triton.testing.Mark._run`: each line for the first value of x, with neither a plot nor pandas.

    Returns
    -------
    the row of the table
    """
    current().note(
        diagnose(
            "I306",
            f"perf_report ran each line of {bench.plot_name} for the first of {len(bench.x_vals)} values; there is no plot and no file",
            fix="run the other values on a GPU",
        )
    )
    first = bench.x_vals[0]
    values = first if isinstance(first, (list, tuple)) else [first] * len(bench.x_names)
    row = dict(zip(bench.x_names, values, strict=True))
    point = {**row, **bench.args, **kwargs}
    for value, name in zip(bench.line_vals, bench.line_names, strict=True):
        found = mark.fn(**{**point, bench.line_arg: value})
        row[f"{name} ({bench.ylabel})"] = found[0] if isinstance(found, (tuple, list)) else found
    if print_data:
        print(f"{bench.plot_name}: {', '.join(f'{name} = {value}' for name, value in row.items())}")
    return row


def change(stack: ExitStack) -> None:
    """Replace the functions of ``triton.testing`` until the stack is closed."""
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):  # the last two: from Triton 3.8 on
            replace_attribute(stack, triton.testing, name, do_bench)
    replace_attribute(stack, triton.testing.Mark, "_run", first_point)
