"""Benchmarks of CuTe DSL run the function once, without iterations to warm up: times in ptxlab mean nothing for a GPU, or are estimated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from ptxlab.interop.profiles import run_once
from ptxlab.interop.session import current, replace_attribute

__all__ = ["measure_once"]

_MEASURE = ("benchmark", "_benchmark_for_autotune")
_ONCE = {"warmup_iterations": 0, "iterations": 1}


def measure_once(until: ExitStack) -> None:
    """Change what ``cutlass.testing`` measures with, until a block of ``with`` ends."""
    from cutlass import testing

    for name in _MEASURE:
        function = getattr(testing, name, None)
        if function is not None:
            replace_attribute(until, testing, name, _once(function))


def _once(measure: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(measure)
    def measured(*args: Any, **options: Any) -> Any:
        if not current().settings.estimate_time:
            current().note(run_once("cutlass.testing"))
        return measure(*args, **{**options, **_ONCE})

    return measured
