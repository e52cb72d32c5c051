"""Measurements: what ``triton.testing`` measures runs once, and ``triton.autotune`` takes the first valid configuration.

If the settings ask for estimates, benchmarks give the estimated times of their launches, and autotuning compares these.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from inspect import signature
from typing import Any

import triton.testing
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current, replace_attribute
from ptxlab.interop.torch import HostEvent

__all__ = ["change"]


def once(measure: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of ``triton.testing`` run what it measures once; the time is that of the simulation, or estimated."""

    @wraps(measure)
    def measured(*args: Any, **options: Any) -> Any:
        given = signature(measure).bind(*args, **options).arguments
        current().note_run_once("do_bench")
        start, end = HostEvent(), HostEvent()
        start.record()
        given["fn"]()
        end.record()
        return triton.testing._summarize_statistics([start.elapsed_time(end)], given.get("quantiles"), given.get("return_mode", "mean"))

    return measured


def first_point(mark: Any, bench: Any, save_path: str, show_plots: bool, print_data: bool, **kwargs: Any) -> dict[str, Any]:
    """In place of `triton.testing.Mark._run`: return the row of the first value of x, with neither a plot nor pandas."""
    what = f"perf_report ran each line of {bench.plot_name} for the first of {len(bench.x_vals)} values; there is no plot and no file"
    current().note(diagnose("I306", what, fix="run the other values on a GPU"))
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


def first_valid(tuner: Any, kwargs: dict[str, Any], configs: list[Any]) -> list[Any]:
    """Narrow what `Autotuner.prune_configs` gives down to one configuration, unless times are estimated."""
    if current().settings.estimate_time or not configs:
        return configs
    config = next((config for config in configs[:-1] if _is_valid(tuner, config, kwargs)), configs[-1])
    what = f"autotuning of {tuner.base_fn.__name__} took the first valid one of {len(tuner.configs)} configurations: {config}"
    current().note_unmeasured("I305", what, fix="--estimate-time compares all of them by estimated times")
    return [config]


def _is_valid(tuner: Any, config: Any, kwargs: dict[str, Any]) -> bool:
    arguments = {**tuner.nargs, **kwargs, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook(arguments)
    with suppress(OutOfResources, CompileTimeAssertionFailure, PTXASError):
        tuner.fn.run(**{**arguments, "warmup": True})._init_handles()
        return True
    return False


def change(stack: ExitStack) -> None:
    """Replace the functions of ``triton.testing``, and what chooses configurations, until the stack is closed."""
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):  # the last two: from Triton 3.8 on
            replace_attribute(stack, triton.testing, name, once(getattr(triton.testing, name)))
    replace_attribute(stack, triton.testing.Mark, "_run", first_point)
    prune = Autotuner.prune_configs
    replace_attribute(stack, Autotuner, "prune_configs", lambda tuner, kwargs: first_valid(tuner, kwargs, prune(tuner, kwargs)))
