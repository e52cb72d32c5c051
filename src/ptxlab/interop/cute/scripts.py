"""Whole programs: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop._host_memory import call_in_session
from ptxlab.interop.cute._arguments import host_memory
from ptxlab.interop.cute._compile import compiling_for, cutlass
from ptxlab.interop.session import Session, current, replace_attribute, switched_by

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
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Function

    load = Function._load_cuda_library

    def load_in_session(self: Any) -> Any:
        with call_in_session([]):
            return load(self)

    with ExitStack() as stack:
        stack.enter_context(compiling_for(current().settings.target))
        surround_calls(stack, lambda passed: call_in_session(host_memory(passed)))
        replace_attribute(stack, Function, "_load_cuda_library", load_in_session)
        yield


def surround_calls(stack: ExitStack, surround: Callable[[dict[str, Any]], AbstractContextManager[object]]) -> None:
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
