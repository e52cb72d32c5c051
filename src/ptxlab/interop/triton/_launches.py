"""What changes in Triton while its kernels run in ptxlab: arguments may be arrays of the host, and kernels may call ``breakpoint()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
from triton.backends.nvidia.compiler import CUDABackend
from triton.backends.nvidia.driver import CudaLauncher
from triton.compiler.code_generator import CodeGenerator
from triton.language import core
from triton.runtime.jit import JITFunction

from ptxlab.debug import BREAKPOINT
from ptxlab.formats import ArrayError, array_of
from ptxlab.interop._host_memory import HostArray
from ptxlab.interop.session import current, replace_attribute
from ptxlab.interop.triton._benchmark import change_measurements
from ptxlab.machine.launch.options import refuse

__all__ = ["Named", "change"]

Named = list[tuple[str, Any]]
"""The arguments of a launch that are no constants, by their names."""

_source_file: ContextVar[str] = ContextVar("_source_file", default="")
"""The file of the kernel that is being compiled, a part of the cache key.

Else Triton's cache would return the PTX of an equal kernel in another file, with the source places of that file.
"""


def change(stack: ExitStack, around: Callable[[Named, Callable[[], None]], None]) -> None:
    """Change Triton until the stack is closed; ``around`` is called with the arguments of each launch, and with what launches."""
    change_measurements(stack)
    known: dict[str, Any] = CodeGenerator.builtin_namespace
    replace_attribute(stack, CodeGenerator, "builtin_namespace", known | {"breakpoint": core.builtin(_stop)})
    digest = CUDABackend.hash
    replace_attribute(stack, CUDABackend, "hash", lambda self: f"ptxlab-{digest(self)}-{_source_file.get()}")
    replace_attribute(stack, JITFunction, "run", _with_arrays(JITFunction.run))
    replace_attribute(stack, CudaLauncher, "__init__", _with_signature(CudaLauncher.__init__))
    replace_attribute(stack, CudaLauncher, "__call__", _surrounded(CudaLauncher.__call__, around))


def _stop(_semantic: Any = None) -> None:
    """What ``breakpoint()`` becomes: an instruction at which the debugger stops, and the result that Triton wants."""
    if current().debugger is None:
        raise refuse("I310", "a kernel calls breakpoint(), and no debugger is there", fix="run the script under `ptxlab exec`")
    core.inline_asm_elementwise(f"{BREAKPOINT}; mov.b32 $0, 0;", "=r", [], dtype=core.int32, is_pure=False, pack=1, _semantic=_semantic)


def _with_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _source_file.set(self.fn.__code__.co_filename)
        try:
            return run(self, *map(_wrapped, args), **{name: _wrapped(value) for name, value in kwargs.items()})
        finally:
            _source_file.reset(token)

    return run_with_arrays


def _wrapped(value: Any) -> Any:
    """Convert an argument for Triton: arrays get an address, NumPy numbers become Python numbers, also in tuples."""
    if isinstance(value, tuple):
        parts = map(_wrapped, value)
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "data_ptr"):
        return value
    try:
        array = array_of(value)
    except ArrayError as error:
        raise refuse("I302", f"an argument of type {type(value).__name__}: {error}", fix=error.fix) from None
    return value if array is None else HostArray(array)


def _with_signature(make: Callable[..., None]) -> Callable[..., None]:
    def make_with_signature(self: Any, src: Any, metadata: Any) -> None:
        make(self, src, metadata)
        self.ptxlab_signature = dict(src.signature)

    return make_with_signature


def _surrounded(call: Callable[..., None], around: Callable[[Named, Callable[[], None]], None]) -> Callable[..., None]:
    def launch(
        self: Any, x: int, y: int, z: int, stream: Any, kernel: Any, packed: Any, described: Any, enter: Any, exit: Any, *args: Any
    ) -> None:
        if enter is not None:
            enter(described)
        if x * y * z > 0:
            named = list(_leaves(self.ptxlab_signature.keys(), self.ptxlab_signature.values(), args))
            around(named, partial(call, self, x, y, z, stream, kernel, packed, described, None, None, *args))
        if exit is not None:
            exit(described)

    return launch


def _leaves(names: Iterable[str], types: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for name, kind, value in zip(names, types, values, strict=False):
        if isinstance(kind, tuple):
            yield from _leaves((f"{name}[{i}]" for i in range(len(kind))), kind, value)
        elif kind != "constexpr":
            yield name, value
