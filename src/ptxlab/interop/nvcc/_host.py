"""Host code of a CUDA C++ file, called from Python; its kernels run in ptxlab."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ptxlab.diagnostics import diagnose
from ptxlab.interop.nvcc._build import NvccError, Options, PathText, Source, arguments, built, source_file
from ptxlab.interop.nvcc._handlers import Launch, Runtime
from ptxlab.machine import Buffer, Device

__all__ = ["Host", "HostFunction", "Launch", "host"]


class Host:
    """The ``extern "C"`` functions of a compiled CUDA C++ file: ``host["gemm"](m, n, k, a, b)``.

    Attributes
    ----------
    device : where its memory is and its kernels run
    options : keyword arguments of every `Kernel.launch` that it makes, ``{"policy": "lazy"}``
    launches : the launches so far, oldest first
    """

    def __init__(self, library: ctypes.CDLL, device: Device) -> None:
        self.device = device
        self.options: dict[str, Any] = {}
        self.launches: list[Launch] = []
        self._library = library
        self._runtime = Runtime(self, library)

    def __getitem__(self, name: str) -> HostFunction:
        try:
            function = self._library[name]
        except AttributeError:
            found = diagnose("I212", f"the host code has no function named {name!r}", fix='declare it extern "C"')
            raise NvccError(found) from None
        return HostFunction(name, function, self._runtime)

    @property
    def modules(self) -> list[Any]:
        """The PTX modules whose kernels were launched or whose variables were used."""
        return list(self._runtime.images.values())


class HostFunction:
    """A function of the host code.

    Arguments: whole numbers for integers of any size, floats for ``double``, text and bytes for ``const char *``, arrays for pointers to
    host memory, device buffers for pointers to device memory, None for null, and values of ctypes. The result is an ``int``.
    """

    def __init__(self, name: str, function: Any, runtime: Runtime) -> None:
        self.name = name
        self._function = function
        self._runtime = runtime

    def __call__(self, *args: Any) -> int:
        """Call it; what is found in its launches is raised as `KernelError`."""
        given = [_argument(value, f"argument {i} of {self.name}") for i, value in enumerate(args)]
        with self._runtime:
            return int(self._function(*given))


def _argument(value: Any, label: str) -> Any:
    if isinstance(value, Buffer):
        return ctypes.c_void_p(value.address)
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise NvccError(diagnose("I213", f"{label}: the array is not contiguous", fix="pass np.ascontiguousarray(...)"))
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, (int, np.integer)):
        if not -(1 << 63) <= value < 1 << 64:
            raise NvccError(diagnose("I213", f"{label}: {value} does not fit 64 bits"))
        return ctypes.c_uint64(int(value) & (1 << 64) - 1)
    if isinstance(value, (float, np.floating)):
        return ctypes.c_double(float(value))
    if isinstance(value, str):
        return ctypes.c_char_p(value.encode())
    if value is None or isinstance(value, (bytes, ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return value
    raise NvccError(diagnose("I213", f"{label}: a {type(value).__name__} cannot be passed to a host function"))


def host(
    path: PathText, *, text: str | None = None, device: Device | None = None, arch: str = "sm_100a", **options: Unpack[Options]
) -> Host:
    """Compile a CUDA C++ file with its host code, and load it.

    Memory that the host code allocates is the device's; kernels that it launches run in ptxlab; tensor maps that it encodes are those of
    the driver. So host code that fills a kernel's parameters, as that of CUTLASS does, needs no rewriting. Host code is native code: it
    runs in this process.

    Parameters
    ----------
    path, text, arch, options : as for `compile`, but without line information by default
    device : where memory is and kernels run; None: a new one

    Raises
    ------
    NvccError
        as `compile`; I211 if the host code needs a CUDA function that ptxlab does not have
    """
    virtual = "compute_" + arch.removeprefix("sm_")
    given = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-Xlinker", "-Bsymbolic", "-gencode", f"arch={virtual},code={virtual}"]
    without_lines: Options = {"lineinfo": False}
    given += arguments(**without_lines | options)
    with ExitStack() as stack:
        runtime = Source(stack.enter_context(as_file(files(__package__) / "_runtime.cc")), "_runtime.cc")
        linked = stack.enter_context(built(runtime, ".o", ["-c", "-Xcompiler", "-fPIC,-O1"]))
        source = stack.enter_context(source_file(path, text))
        library = stack.enter_context(built(source, ".so", given, [linked]))
        loaded = _load(library, Path(path).name)
    return Host(loaded, device if device is not None else Device(arch))


def _load(library: Path, name: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        _, _, missing = str(error).partition("undefined symbol: ")
        if not missing:
            raise NvccError(diagnose("I203", f"the host code of {name} cannot be loaded: {error}")) from None
        raise NvccError(diagnose("I211", f"the host code of {name} calls {missing}, which ptxlab does not have")) from None
