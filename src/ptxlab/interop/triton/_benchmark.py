"""Benchmarks and autotuning: what ``triton.testing`` measures runs once, ``triton.autotune`` takes the first valid configuration.

The profiler, ``triton.profiler``, records nothing.

Diagnostics say so, because times in ptxlab mean nothing for a GPU. If the settings ask for estimates, benchmarks give the estimated times
of their launches, and autotuning compares these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import triton.testing
from triton._C.libproton import proton
from triton._C.libtriton import nvidia
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError
from triton.testing import _summarize_statistics

from ptxlab import cuda
from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current, replace_attribute
from ptxlab.interop.triton._cublas import CublasLt

__all__ = ["change_measurements", "do_bench"]

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


def start_profiler(*_: Any) -> int:
    """In place of what `triton.profiler.start` calls, which asks the driver; returns the number of the session."""
    current().note(
        diagnose(
            "I306",
            "the profiler records nothing, and no file is written",
            reason="times in ptxlab say nothing about a GPU",
            fix="profile on a GPU",
        )
    )
    return 0


def profiler_nothing(*_: Any, **__: Any) -> None:
    """In place of what needs a session of the profiler, or its file."""


def nothing_recorded(metrics: Any, *_: Any, **__: Any) -> tuple[None, Any]:
    """In place of `triton.profiler.viewer.parse`, which reads the file of the profiler: there is no tree."""
    return None, metrics


def show_no_profile(stack: ExitStack) -> None:
    """Give programs a `triton.profiler.viewer` that shows nothing, and needs neither pandas nor hatchet."""
    name = "triton.profiler.viewer"
    module: Any = sys.modules.get(name)
    if module is None:
        module = sys.modules[name] = ModuleType(name)
        module.parse = module.print_tree = None
        stack.callback(sys.modules.pop, name, None)
    replace_attribute(stack, module, "parse", nothing_recorded)
    replace_attribute(stack, module, "print_tree", profiler_nothing)


def first_valid(prune: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Narrow what `Autotuner.prune_configs` gives down to one configuration, unless times are estimated."""

    def prune_to_first(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
        configs = prune(tuner, kwargs)
        if current().settings.estimate_time:
            return configs
        for position, config in enumerate(configs):
            if position + 1 == len(configs) or _is_valid(tuner, config, kwargs):
                current().note(
                    diagnose(
                        "I305",
                        f"autotuning of {tuner.base_fn.__name__} took the first valid one of {len(tuner.configs)} configurations: {config}",
                        reason="times in ptxlab say nothing about a GPU",
                        fix="--estimate-time compares all of them by estimated times",
                    )
                )
                return [config]
        return configs

    return prune_to_first


def _is_valid(tuner: Any, config: Any, kwargs: dict[str, Any]) -> bool:
    arguments = {**tuner.nargs, **kwargs, **config.all_kwargs()}
    if config.pre_hook:
        config.pre_hook(arguments)
    try:
        kernel = tuner.fn.run(**{**arguments, "warmup": True})
        kernel._init_handles()
    except (OutOfResources, CompileTimeAssertionFailure, PTXASError):
        return False
    return True


def change_measurements(stack: ExitStack) -> None:
    """Make benchmarks, autotuning and the profiler say that times mean nothing, until the stack is closed."""
    replace_attribute(stack, Autotuner, "prune_configs", first_valid(Autotuner.prune_configs))
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(triton.testing, name):  # the last two: from Triton 3.8 on
            replace_attribute(stack, triton.testing, name, do_bench)
    replace_attribute(stack, triton.testing.Mark, "_run", first_point)
    replace_attribute(stack, nvidia.cublas, "CublasLt", CublasLt)
    replace_attribute(stack, proton, "start", start_profiler)
    for name in ("set_metric_kernels", "activate", "activate_all", "deactivate", "deactivate_all", "finalize", "finalize_all"):
        if hasattr(proton, name):  # older versions have some of them
            replace_attribute(stack, proton, name, profiler_nothing)
    show_no_profile(stack)
