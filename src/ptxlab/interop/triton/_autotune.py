"""``triton.autotune``: the first configuration that compiles and fits is taken, and a note says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError

from ptxlab.diagnostics import diagnose
from ptxlab.interop.session import current

__all__ = ["first_valid"]


def first_valid(prune: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Narrow what `Autotuner.prune_configs` gives down to one configuration."""

    def prune_to_first(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
        configs = prune(tuner, kwargs)
        for position, config in enumerate(configs):
            if position + 1 == len(configs) or _is_valid(tuner, config, kwargs):
                current().note(
                    diagnose(
                        "I305",
                        f"autotuning of {tuner.base_fn.__name__} took the first valid one of {len(tuner.configs)} configurations: {config}",
                        reason="times in ptxlab say nothing about a GPU",
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
