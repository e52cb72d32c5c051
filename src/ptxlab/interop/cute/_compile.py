"""Compilation by CuTe DSL without a GPU; ptxlab answers the CUDA calls of its host code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import c_void_p, cast
from functools import cache, cached_property
from glob import escape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from ptxlab.interop.cute._calls import entry_point
from ptxlab.interop.optional_packages import missing
from ptxlab.machine import LaunchError, Module, loads
from ptxlab.machine.launch.options import refuse

__all__ = ["compiling_for", "cutlass", "kernels_of", "loaded"]


def cutlass() -> Any:
    """Import CuTe DSL; an error says what to install."""
    try:
        import_module("cutlass.cute")
    except ImportError as error:
        reason = str(error).partition("\n")[0]
        raise LaunchError(missing(f"CuTe DSL cannot be imported ({reason})", "cute", "I101")) from None
    return import_module("cutlass")


def _dsl() -> Any:
    return cutlass().cutlass_dsl.CuTeDSL._get_dsl()


@contextmanager
def compiling_for(target: str) -> Iterator[None]:
    """Make CuTe DSL compile for ``target``, keep its PTX, and call ptxlab from its host code, in a ``with`` statement."""
    known = cutlass().base_dsl.Arch.__members__
    if target not in known:
        names = ", ".join(name for name in known if name[-1] in "af")
        raise refuse("I102", f"CuTe DSL does not compile for {target}", fix=f"targets are {names}")
    settings, compiler = _dsl().envar, _dsl().compiler_provider
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for owner, name, value in (
            (settings, "arch", target),
            (settings, "keep_ptx", True),
            (settings, "no_cache", True),
            (settings, "lineinfo", True),
            (settings, "dump_dir", folder),
            (compiler, "execution_engine", SimpleNamespace(ExecutionEngine=_engine())),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


@cache
def _engine() -> Any:
    """CuTe DSL's engine for host code, with ptxlab's CUDA functions in front of the runtime's, and the kernels as PTX."""
    engine: Any = import_module("cutlass._mlir.execution_engine").ExecutionEngine

    class Engine(engine):  # type: ignore[misc]
        def __init__(self, module: Any, opt_level: int = 2, shared_libs: Any = ()) -> None:
            super().__init__(module, opt_level=opt_level, shared_libs=shared_libs)
            for name in _cuda_functions(module):
                self.raw_register_runtime(name, cast(entry_point(name), c_void_p))
            self.ptx = _kept_ptx(_dsl().compile_options.full_ptx_path)

        @cached_property
        def kernels(self) -> Module:
            """The module of kernels."""
            if self.ptx is None:
                raise refuse("I107", "CuTe DSL has written no PTX for the host function", fix="launch a kernel in it")
            return loads(self.ptx, file="cute.ptx")

    return Engine


def _kept_ptx(path: str | None) -> str | None:
    """The text that CuTe DSL has written; for sm_110 the file's name ends with that architecture's older name, sm_101."""
    if path is None:
        return None
    expected = Path(path)
    found = next(expected.parent.glob(f"{escape(expected.name.partition('.')[0])}.*.ptx"), None)
    return None if found is None else found.read_text()


def _cuda_functions(module: Any) -> list[str]:
    """The CUDA functions that a module declares."""
    functions = [op for op in module.body.operations if op.operation.name == "llvm.func" and not len(op.regions[0].blocks)]
    names = [str(op.attributes["sym_name"].value) for op in functions]
    return [name for name in names if name.startswith("_cu")]


def kernels_of(function: Any) -> Module | None:
    """The kernels of a compiled function, or of its executor; None if it was compiled outside of `compiling_for`."""
    engine = function.engine
    return engine.kernels if isinstance(engine, _engine()) else None


def loaded(function: Any) -> Any:
    """A compiled function whose host code has looked its kernels up, ready to be called.

    That is done once for each device, and ptxlab has one; the handle of the library is removed, so that no driver is asked to unload it.
    """
    function.__dict__["num_devices"] = 1
    executor = function.to()
    executor.jit_module.cuda_library.clear()
    return executor
