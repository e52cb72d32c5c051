"""One session for all kernels that a program launches: by Triton, by CuTe DSL, by `ptxlab.Kernel.launch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import Session, activate, launch_site
from ptxlab.machine import Kernel, Result
from ptxlab.machine.launch.configuration import dimensions

__all__ = ["switched"]


def _triton() -> AbstractContextManager[None]:
    from ptxlab.interop.triton.activation import require_triton

    require_triton()
    from ptxlab.interop.triton.runtime import installed

    return installed()


def _cute() -> AbstractContextManager[None]:
    from ptxlab.interop.cute.scripts import installed

    return installed()


_SWITCHES: dict[str, Callable[[], AbstractContextManager[None]]] = {"triton": _triton, "cutlass.cute": _cute}
"""By the module that a program imports; nothing is done for a module that is not imported."""


def _enter(stack: ExitStack, switch: Callable[[], AbstractContextManager[None]]) -> None:
    stack.enter_context(switch())


@contextmanager
def switched(session: Session) -> Iterator[Session]:
    """Run all kernels of a ``with`` statement in a session: with its settings, and its launches and findings are recorded there."""
    with activate(session), _plain_launches(session), ExitStack() as stack:
        for module, switch in _SWITCHES.items():
            stack.callback(after_import(module, partial(_enter, stack, switch)))
        yield session


@contextmanager
def _plain_launches(session: Session) -> Iterator[None]:
    """Make the settings the defaults of `ptxlab.Kernel.launch`; findings are recorded and raised as for other kernels."""
    plain = Kernel.launch

    def launch(kernel: Kernel, grid: Any = 1, *args: Any, **options: Any) -> Result:
        result = plain(kernel, grid, *args, **session.launch_options() | options)
        session.record(kernel, launch_site(), dimensions("grid", grid), result)
        return result

    setattr(Kernel, "launch", launch)  # noqa: B010  (an assignment would be one to a method)
    try:
        yield
    finally:
        setattr(Kernel, "launch", plain)  # noqa: B010
