"""Whole programs: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop._host_memory import attached, placed
from ptxlab.interop.cute._arguments import host_memory
from ptxlab.interop.cute._calls import HostCall, current_call
from ptxlab.interop.cute._compile import compiling_for, cutlass, kernels_of
from ptxlab.interop.session import Session, current, launch_site, replace_attribute, switched_by
from ptxlab.machine import Kernel

__all__ = ["device", "installed"]


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
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Function

    used: list[weakref.ref[Any]] = []
    with ExitStack() as stack:
        stack.enter_context(compiling_for(current().settings.target))
        for owner, name, wrapper in (
            (_Tensor, "__c_pointers__", partial(_noted, used)),
            (_Pointer, "__c_pointers__", partial(_noted, used)),
            (JitExecutor, "run_compiled_program", partial(_simulated, used)),
            (Function, "_load_cuda_library", _loaded_without_driver),
        ):
            replace_attribute(stack, owner, name, wrapper(getattr(owner, name)))
        yield


def _noted(used: list[weakref.ref[Any]], pointers: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Record the tensors and pointers that are passed to the next call of a host function."""

    def note(self: Any) -> Any:
        used.append(weakref.ref(self))
        return pointers(self)

    return note


def _simulated(used: list[weakref.ref[Any]], run: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a host function whose kernels are launched in the current session."""

    def simulate(self: Any, exe_args: list[Any]) -> Any:
        kernels = kernels_of(self.jit_module)
        if kernels is None:
            used.clear()
        if kernels is None or current_call.get(None) is not None:
            return run(self, exe_args)
        memory = host_memory({str(i): value for i, ref in enumerate(used) if (value := ref()) is not None})
        used.clear()
        arrays = placed(memory)
        session, site = current(), launch_site("cutlass", "nvidia_cutlass_dsl")
        with attached(session.device, memory):
            call = HostCall(kernels, session.device, lambda kernel, **shape: session.launch(kernel, site, arrays, **shape))
            call.run(run, self, exe_args)
        return 0

    return simulate


def _loaded_without_driver(load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Load the library of kernels for ptxlab's one device, without a handle that a driver would unload."""

    def wrapper(self: Any) -> Any:
        kernels = kernels_of(self)
        if kernels is None:
            return load(self)
        self.__dict__["num_devices"] = 1
        if current_call.get(None) is not None:
            return load(self)
        HostCall(kernels, current().device, Kernel.launch).run(load, self)
        return []

    return wrapper
