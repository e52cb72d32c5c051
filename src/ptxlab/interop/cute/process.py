"""Programs and ``with`` statements: host functions are compiled and called as usual, and their kernels run in ptxlab."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.diagnostics import Diagnostic
from ptxlab.interop._host_memory import call_in_session, reached_memory, registered
from ptxlab.interop.cute._arguments import host_memory
from ptxlab.interop.cute._compile import compiling_for, cutlass
from ptxlab.interop.cute._kept import LIBRARY, kept_folder, settings
from ptxlab.interop.optional_packages import after_import
from ptxlab.interop.session import FOR_GOOD, Session, current, replace_attribute, switched_by

__all__ = ["device", "installed", "prepare"]


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
    """Run CuTe DSL's kernels in the current session for a ``with`` statement."""
    cutlass()
    function = import_module("cutlass.cutlass_dsl.cuda_jit_executor").CudaDialectJitCompiledFunction
    load = function._load_cuda_library

    def load_in_session(self: Any) -> Any:
        with call_in_session([]):
            return load(self)

    with ExitStack() as stack:
        stack.enter_context(compiling_for(current().settings.target))
        _surround_calls(stack, call_in_session)
        replace_attribute(stack, function, "_load_cuda_library", load_in_session)
        yield


@cache
def prepare() -> None:
    """Install the driver, and set the variables of CuTe DSL, which reads them when it is imported."""
    driver = cuda.install()
    os.environ.update(settings(driver.bridge.devices[0].target or "", kept_folder(), build(LIBRARY)))

    def surround(values: list[tuple[str, Any]]) -> AbstractContextManager[None]:
        """Host memory is the device's during a call; what the program has allocated on the device is so already."""
        memory = driver.bridge.memory
        memory.update()
        return registered(driver, reached_memory((name, v) for name, v in values if not isinstance(v, int) or memory.containing(v) is None))

    after_import("cutlass.cute.runtime", partial(_surround_calls, FOR_GOOD, surround))
    after_import("cutlass.testing", _measure_once)


def _surround_calls(stack: ExitStack, surround: Callable[[list[tuple[str, Any]]], AbstractContextManager[object]]) -> None:
    """Make every call of a host function happen inside what ``surround`` gives for its host memory, until the stack is closed."""
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
            with surround(host_memory(passed)):
                return run(self, exe_args)

        return call

    for owner in (_Tensor, _Pointer):
        replace_attribute(stack, owner, "__c_pointers__", noted(owner.__c_pointers__))
    replace_attribute(stack, JitExecutor, "run_compiled_program", surrounded(JitExecutor.run_compiled_program))


def _measure_once() -> None:
    """Let ``cutlass.testing`` run functions once, without warming up: times in ptxlab mean nothing for a GPU, or are estimated."""
    testing = import_module("cutlass.testing")

    def once(measure: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(measure)
        def measured(*args: Any, **options: Any) -> Any:
            current().note_run_once("cutlass.testing")
            return measure(*args, **{**options, "warmup_iterations": 0, "iterations": 1})

        return measured

    for name in ("benchmark", "_benchmark_for_autotune"):
        if hasattr(testing, name):
            replace_attribute(FOR_GOOD, testing, name, once(getattr(testing, name)))
