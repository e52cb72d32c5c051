"""Whole programs: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.calls import host_call
from ptxlab.diagnostics import Diagnostic, Place
from ptxlab.interop._host_memory import placed, reached_memory, registered
from ptxlab.interop.cute._arguments import host_memory
from ptxlab.interop.cute._compile import compiling_for, cutlass
from ptxlab.interop.session import Session, current, replace_attribute, switched_by
from ptxlab.machine import Kernel, Result

__all__ = ["device", "installed", "surround_calls"]


def device(
    target: str = "sm_100a", *, report: Callable[[Diagnostic], None] | None = None, **settings: Any
) -> AbstractContextManager[Session]:
    """Compile and run the host functions of CuTe DSL that are called inside in ptxlab.

    Parameters, result and errors are those of `ptxlab.interop.triton.device`.

    Examples
    --------
    >>> with device("sm_100a", policy="lazy") as session:                               # doctest: +SKIP
    ...     compiled = cute.compile(host_function, A, B, C)
    ...     compiled(A, B, C)
    >>> session.ok                                                                      # doctest: +SKIP
    True
    """
    return switched_by(installed, target, report, settings)


@contextmanager
def installed() -> Iterator[None]:
    """Run CuTe DSL's kernels in ptxlab for a ``with`` statement."""
    cutlass()
    with ExitStack() as stack:
        stack.enter_context(compiling_for(current().settings.target))
        surround_calls(stack, _in_session)
        yield


@contextmanager
def _in_session(passed: dict[str, Any]) -> Iterator[None]:
    """Launch the kernels of a call of a host function in the current session."""
    memory, session, driver = host_memory(passed), current(), cuda.install()
    arrays = placed(memory)

    def launch(kernel: Kernel, site: Place | None, **shape: Any) -> Result:
        return session.launch(kernel, site, arrays, **shape)

    with host_call(driver, session.device, launch), registered(driver, reached_memory(memory)):
        yield


def surround_calls(stack: ExitStack, surround: Callable[[dict[str, Any]], AbstractContextManager[None]]) -> None:
    """Make every call of a host function happen inside what ``surround`` gives for its tensors and pointers, until the stack is closed."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor

    used: list[weakref.ref[Any]] = []

    def noted(pointers: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def note(self: Any) -> Any:
            used.append(weakref.ref(self))
            return pointers(self)

        return note

    def surrounded(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, exe_args: list[Any]) -> Any:
            passed = {str(i): value for i, ref in enumerate(used) if (value := ref()) is not None}
            used.clear()
            with surround(passed):
                return run(self, exe_args)

        return call

    for owner in (_Tensor, _Pointer):
        replace_attribute(stack, owner, "__c_pointers__", noted(owner.__c_pointers__))
    replace_attribute(stack, JitExecutor, "run_compiled_program", surrounded(JitExecutor.run_compiled_program))
