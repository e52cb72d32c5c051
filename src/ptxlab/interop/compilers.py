"""Compilers whose kernels can run in a session: Triton and CuTe DSL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop.optional_packages import after_import, missing
from ptxlab.interop.session import Session, Settings, activate, launch_site, left_out, replace_attribute
from ptxlab.machine import Kernel, LaunchError, Result
from ptxlab.machine.launch.configuration import dimensions

__all__ = ["CompilerDevice", "require_triton", "run_triton", "switched"]

_OLDEST_TRITON, _NEXT_TRITON = (3, 9), (4, 0)
"""The first version with the driver interface of `ptxlab.interop.triton`, and the first that may have another."""

Switch = Callable[[], AbstractContextManager[None]]
"""Makes the kernels of a compiler run in ptxlab for a ``with`` statement."""


def require_triton() -> None:
    """Refuse a missing Triton, and versions that have, or may have, another driver interface."""
    if find_spec("triton") is None:
        raise LaunchError(missing("Triton is not installed", "triton"))
    import triton

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not _OLDEST_TRITON <= version < _NEXT_TRITON:
        raise LaunchError(missing(f"the driver needs Triton 3.9 or later, below 4, not {triton.__version__}", "triton"))


def run_triton() -> AbstractContextManager[None]:
    """The switch of Triton."""
    require_triton()
    from ptxlab.interop.triton.launches import installed

    return installed()


def _run_cute() -> AbstractContextManager[None]:
    from ptxlab.interop.cute.process import installed

    return installed()


_SWITCHES: dict[str, Switch] = {"triton": run_triton, "cutlass.cute": _run_cute}
"""By the module that a program imports; nothing is done for a module that is not imported."""


class CompilerDevice:
    """Runs the kernels of a compiler in ptxlab: ``device`` of `ptxlab.interop.triton` and of `ptxlab.interop.cute`."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    @contextmanager
    def __call__(
        self, target: str = "sm_100a", *, report: Callable[[Diagnostic], None] | None = None, **settings: Any
    ) -> Iterator[Session]:
        """Run the kernels that are launched inside a ``with`` statement in a session of their own.

        Parameters
        ----------
        target : the architecture to compile for: ``"sm_90a"``, ``"sm_100a"`` or ``"sm_103a"``
        report : called with every finding; default: notes and warnings go to standard error, errors are raised
        settings : the launch options and ``keep_inputs``, as for `ptxlab.Kernel.launch`; ``trace``, a path for the timeline of all
            launches; ``sms``, the streaming multiprocessors of the device; ``keep_going``, to report errors and continue after a kernel
            has ended

        Returns
        -------
        AbstractContextManager[Session]
            the session holds the launches and their findings

        Raises
        ------
        KernelError
            from the launch in which an error was found
        """
        with activate(Session(Settings().changed(target=target, **settings), report)) as session, self._switch():
            yield session


def _enter(stack: ExitStack, switch: Switch) -> None:
    stack.enter_context(switch())


@contextmanager
def switched(session: Session) -> Iterator[Session]:
    """Run all kernels of a ``with`` statement in a session: with its settings, and its launches and findings are recorded there."""
    plain = Kernel.launch

    def launch(kernel: Kernel, grid: Any = 1, *args: Any, **options: Any) -> Result:
        """Launch with the settings as defaults; findings are recorded and raised as for other kernels."""
        selected = session.select(kernel, grid, options.get("cluster", args[1] if len(args) > 1 else None))
        if selected is None:
            return left_out()
        result = plain(kernel, grid, *args, **session.launch_options(kernel) | selected | options)
        session.record(kernel, launch_site(), dimensions("grid", grid), result)
        return result

    with activate(session), ExitStack() as stack:
        replace_attribute(stack, Kernel, "launch", launch)
        for module, switch in _SWITCHES.items():
            stack.callback(after_import(module, partial(_enter, stack, switch)))
        yield session
