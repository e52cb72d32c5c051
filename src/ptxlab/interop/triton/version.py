"""Which Triton the driver works with."""

from __future__ import annotations

from importlib.util import find_spec

from ptxlab.interop.extras import missing
from ptxlab.machine import LaunchError

__all__ = ["require_triton"]

_OLDEST, _NEXT = (3, 9), (4, 0)
"""The first version with this driver interface, and the first that may have another."""


def require_triton() -> None:
    """Refuse to go on without Triton, or with one that has, or may have, another driver interface."""
    if find_spec("triton") is None:
        raise LaunchError(missing("Triton is not installed", "triton"))
    import triton

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not _OLDEST <= version < _NEXT:
        raise LaunchError(missing(f"the driver needs Triton 3.9 or later, below 4, not {triton.__version__}", "triton"))
