"""Whole programs: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ptxlab.diagnostics import Diagnostic
from ptxlab.interop._host_memory import attached, placed
from ptxlab.interop.cute._arguments import host_memory
from ptxlab.interop.cute._calls import HostCall, current_call
from ptxlab.interop.cute._compile import compiling_for, cutlass, kernels_of
from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import Session, Settings, activate, current, launch_site
from ptxlab.machine import Kernel

__all__ = ["device", "install_on_import", "installed"]


@contextmanager
def device(target: str = "sm_100a", *, report: Callable[[Diagnostic], None] | None = None, **settings: Any) -> Iterator[Session]:
    """Compile and run the host functions of CuTe DSL that are called inside in ptxlab.

    Parameters
    ----------
    target : the architecture to compile for
    report, settings : as for `ptxlab.interop.triton.device`

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
    >>> with device("sm_100a", policy="lazy") as session:                               # doctest: +SKIP
    ...     compiled = cute.compile(host_function, A, B, C)
    ...     compiled(A, B, C)
    >>> session.ok                                                                      # doctest: +SKIP
    True
    """
    cutlass()
    with activate(Session(Settings().changed(target=target, **settings), report)) as session, installed():
        yield session


@contextmanager
def installed() -> Iterator[None]:
    """Run CuTe DSL's kernels in ptxlab for a ``with`` statement."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Pointer, _Tensor
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Function

    used: list[weakref.ref[Any]] = []
    with ExitStack() as stack:
        stack.enter_context(compiling_for(current().settings.target))
        for owner, name, wrapper in (
            (_Tensor, "__c_pointers__", _noted(used)),
            (_Pointer, "__c_pointers__", _noted(used)),
            (JitExecutor, "run_compiled_program", _simulated(used)),
            (Function, "_load_cuda_library", _loaded_without_driver),
        ):
            old = getattr(owner, name)
            setattr(owner, name, wrapper(old))
            stack.callback(setattr, owner, name, old)
        yield


def _noted(used: list[weakref.ref[Any]]) -> Callable[..., Any]:
    """Record the tensors and pointers that are passed to the next call of a host function."""

    def wrapper(pointers: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def note(self: Any) -> Any:
            used.append(weakref.ref(self))
            return pointers(self)

        return note

    return wrapper


def _simulated(used: list[weakref.ref[Any]]) -> Callable[..., Any]:
    """A call of a host function whose kernels are launched in the current session."""

    def wrapper(run: Callable[..., Any]) -> Callable[..., Any]:
        def simulate(self: Any, exe_args: list[Any]) -> Any:
            kernels = kernels_of(self.jit_module)
            if kernels is None or current_call.get(None) is not None:
                return run(self, exe_args)
            given = {str(i): value for i, ref in enumerate(used) if (value := ref()) is not None}
            used.clear()
            session, site = current(), launch_site("cutlass", "nvidia_cutlass_dsl")
            memory = host_memory(given)
            arrays = placed(memory)
            with attached(session.device, memory):
                HostCall(kernels, session.device, lambda kernel, **shape: session.launch(kernel, site, arrays, **shape)).run(
                    run, self, exe_args
                )
            return 0

        return simulate

    return wrapper


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


_for_good = ExitStack()


def install_on_import() -> None:
    """Run the host functions of a program that is about to import CuTe DSL in the current session, to the program's end."""
    after_import("cutlass.cute", lambda: _for_good.enter_context(installed()))
