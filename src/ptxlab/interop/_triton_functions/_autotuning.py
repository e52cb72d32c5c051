"""Autotuning: ``triton.autotune`` takes the first valid configuration, or compares estimated times if the settings ask for that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current, replace_attribute

__all__ = ["change"]


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


def change(stack: ExitStack) -> None:
    """Replace what chooses configurations until the stack is closed."""
    replace_attribute(stack, Autotuner, "prune_configs", first_valid(Autotuner.prune_configs))
