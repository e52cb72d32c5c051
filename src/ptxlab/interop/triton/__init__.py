"""Triton without a GPU: kernels are compiled by Triton as always, and their PTX runs in ptxlab.

Three ways to switch it on: ``ptxlab exec script.py``, the environment variable ``TRITON_DEFAULT_BACKEND=ptxlab``, and `device`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop.session import Session, run_triton, switched_by

__all__ = ["device"]


def device(
    target: str = "sm_100a", *, report: Callable[[Diagnostic], None] | None = None, **settings: Any
) -> AbstractContextManager[Session]:
    """Run the Triton kernels that are launched inside in ptxlab.

    Parameters
    ----------
    target : the architecture to compile for: ``"sm_90a"``, ``"sm_100a"`` or ``"sm_103a"``
    report : called with every finding; default: notes and warnings go to standard error, errors are raised
    settings : the launch options and ``keep_inputs``, as for `ptxlab.Kernel.launch`; ``trace``, a path for the timeline of all launches;
        ``sms``, the streaming multiprocessors of the device; ``keep_going``, to report errors and continue after a kernel has ended

    Returns
    -------
    AbstractContextManager[Session]
        the session holds the launches and their findings

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
    return switched_by(run_triton, target, report, settings)
