"""Arguments of Triton's launches that Triton does not take itself, and the place of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ptxlab.formats import ArrayError, array_of
from ptxlab.interop._host_memory import HostArray
from ptxlab.machine.launch.options import refuse

__all__ = ["source_file", "with_arrays"]

source_file: ContextVar[str] = ContextVar("source_file", default="")
"""The file of the kernel that is being compiled, a part of the cache key.

Else Triton's cache would return the PTX of an equal kernel in another file, with the source places of that file.
"""


def wrapped(value: Any) -> Any:
    """Convert an argument for Triton: arrays get an address, NumPy numbers become Python numbers, also in tuples."""
    if isinstance(value, tuple):
        parts = map(wrapped, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "data_ptr"):
        return value
    try:
        array = array_of(value)
    except ArrayError as error:
        raise refuse("I302", f"an argument of type {type(value).__name__}: {error}", fix=error.fix) from None
    return value if array is None else HostArray(array)


def with_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a kernel launch: it accepts NumPy arrays, and the compiler learns the source file of the kernel."""

    def run_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = source_file.set(self.fn.__code__.co_filename)
        try:
            return run(self, *map(wrapped, args), **{name: wrapped(value) for name, value in kwargs.items()})
        finally:
            source_file.reset(token)

    return run_with_arrays
