"""The profiler, ``triton.profiler``, records nothing, because times in ptxlab mean nothing for a GPU."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from triton._C.libproton import proton

from ptxlab.interop.session import current, replace_attribute

__all__ = ["change"]


def start_profiler(*_: Any) -> int:
    """In place of what `triton.profiler.start` calls, which asks the driver; returns the number of the session."""
    current().note_unmeasured("I306", "the profiler records nothing, and no file is written", fix="profile on a GPU")
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


def change(stack: ExitStack) -> None:
    """Replace the functions that ``triton.profiler`` calls until the stack is closed."""
    replace_attribute(stack, proton, "start", start_profiler)
    for name in ("set_metric_kernels", "activate", "activate_all", "deactivate", "deactivate_all", "finalize", "finalize_all"):
        if hasattr(proton, name):  # older versions have some of them
            replace_attribute(stack, proton, name, profiler_nothing)
    show_no_profile(stack)
