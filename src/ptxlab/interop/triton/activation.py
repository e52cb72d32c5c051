"""A context in which Triton's kernels run in ptxlab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop.optional_packages import missing
from ptxlab.interop.session import Session, Settings, activate
from ptxlab.machine import LaunchError

__all__ = ["device", "require_triton"]

_OLDEST, _NEXT = (3, 9), (4, 0)
"""The first version with this driver interface, and the first that may have another."""


def require_triton() -> None:
    """Refuse a missing Triton, and versions that have, or may have, another driver interface."""
    if find_spec("triton") is None:
        raise LaunchError(missing("Triton is not installed", "triton"))
    import triton

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not _OLDEST <= version < _NEXT:
        raise LaunchError(missing(f"the driver needs Triton 3.9 or later, below 4, not {triton.__version__}", "triton"))


@contextmanager
def device(target: str = "sm_100a", *, report: Callable[[Diagnostic], None] | None = None, **settings: Any) -> Iterator[Session]:
    """Run the Triton kernels that are launched inside in ptxlab.

    Parameters
    ----------
    target : the architecture to compile for: ``"sm_90a"``, ``"sm_100a"`` or ``"sm_103a"``
    report : called with every finding; default: notes and warnings go to standard error, errors are raised
    settings : the launch options and ``keep_inputs``, as for `ptxlab.Kernel.launch`; ``trace``, a path for the timeline of all launches;
        ``sms``, the streaming multiprocessors of the device; ``keep_going``, to report errors and continue after a kernel has ended

    Yields
    ------
    Session
        it holds the launches and their findings

    Raises
    ------
    KernelError
        from the launch in which an error was found

    Examples
    --------
    >>> import numpy as np
    >>> import triton                                                                   # doctest: +SKIP
    >>> import ptxlab.interop.triton                                                    # doctest: +SKIP
    >>> with ptxlab.interop.triton.device("sm_100a", policy="lazy") as session:         # doctest: +SKIP
    ...     add_kernel[(4,)](x, y, out, 1000, BLOCK=256)
    >>> session.ok                                                                      # doctest: +SKIP
    True
    """
    require_triton()
    from ptxlab.interop.triton.runtime import installed

    with activate(Session(Settings().changed(target=target, **settings), report)) as session, installed():
        yield session
