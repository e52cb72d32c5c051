"""Host code of a CUDA C++ file, called from Python: it calls the runtime library over the virtual driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ptxlab import cuda
from ptxlab.cuda.building import build
from ptxlab.cuda.calls import host_call, launching
from ptxlab.cuda.libraries import runtime_of
from ptxlab.diagnostics import diagnose
from ptxlab.interop.nvcc._build import Options, PathText, arguments, built
from ptxlab.interop.toolkit import NvccError, release
from ptxlab.machine import Buffer, Device, Kernel, Module, Result

__all__ = ["Host", "Launch", "host"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch that host code made."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_bytes: int
    result: Result


class Host:
    """The ``extern "C"`` functions of a compiled CUDA C++ file: ``host["gemm"](m, n, k, a, b)``.

    Attributes
    ----------
    options : keyword arguments of every `Kernel.launch` that it makes, ``{"policy": "lazy"}``
    launches : the launches so far, oldest first
    modules : the PTX modules whose kernels were launched or whose variables were used
    """

    def __init__(self, library: ctypes.CDLL, runtime: ctypes.CDLL, device: Device) -> None:
        self.options: dict[str, Any] = {}
        self.launches: list[Launch] = []
        self.modules: list[Module] = []
        self.device = device
        self._library, self._runtime = library, runtime

    @property
    def device(self) -> Device:
        """Where its memory is and its kernels run; one that is set gives its buffers addresses of the driver."""
        return self._device

    @device.setter
    def device(self, device: Device) -> None:
        cuda.install().adopt(device)
        self._device = device

    def __getitem__(self, name: str) -> Callable[..., int]:
        """The function with a name, whose result is an ``int``; what is found in its launches is raised as `KernelError`.

        Its arguments are whole numbers for integers of any size, floats for ``double``, text and bytes for ``const char *``, arrays for
        pointers to host memory, device buffers for pointers to device memory, None for null, and values of ctypes.
        """
        try:
            function = self._library[name]
        except AttributeError:
            found = diagnose("I212", f"the host code has no function named {name!r}", fix='declare it extern "C"')
            raise NvccError(found) from None
        return lambda *values: self.call(function, [_argument(value, f"argument {i} of {name}") for i, value in enumerate(values)])

    def call(self, function: Any, arguments: list[Any]) -> int:
        """Call a function of the library with values of ctypes."""
        with host_call(cuda.install(), self.device, launching(self.options, self._launched)) as call:
            self._runtime.cudaGetLastError()  # that of an earlier call
            try:
                return int(function(*arguments))
            finally:
                self.modules += call.modules
                self.device.diagnostics += call.misuses

    def _launched(self, kernel: Kernel, shape: dict[str, Any], result: Result) -> None:
        self.launches.append(Launch(kernel.name, shape["grid"], shape["block"], shape["cluster"], shape["shared_bytes"], result))


def _argument(value: Any, label: str) -> Any:
    if isinstance(value, Buffer):
        return ctypes.c_void_p(value.address)
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise NvccError(diagnose("I213", f"{label}: the array is not contiguous", fix="pass np.ascontiguousarray(...)"))
        return value.ctypes
    if isinstance(value, (int, np.integer)):
        if not -(1 << 63) <= value < 1 << 64:
            raise NvccError(diagnose("I213", f"{label}: {value} does not fit 64 bits"))
        return ctypes.c_uint64(int(value))
    if isinstance(value, (float, np.floating)):
        return ctypes.c_double(float(value))
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, (bytes, ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return value
    raise NvccError(diagnose("I213", f"{label}: a {type(value).__name__} cannot be passed to a host function"))


def host(
    path: PathText, *, text: str | None = None, device: Device | None = None, arch: str = "sm_100a", **options: Unpack[Options]
) -> Host:
    """Compile a CUDA C++ file with its host code, and load it.

    The host code calls ptxlab's CUDA runtime library over the virtual driver: memory that it allocates is the device's, and kernels that
    it launches run in ptxlab. So host code that fills a kernel's parameters, as that of CUTLASS does, needs no rewriting. Host code is
    native code: it runs in this process.

    Parameters
    ----------
    path, text, arch, options : as for `compile`, but without line information by default
    device : where memory is and kernels run; None: a new one. Buffers that it has already get other addresses

    Raises
    ------
    NvccError
        as `compile`; I211 if the host code needs a CUDA function that ptxlab does not have
    BuildError
        I501 or I502 if the driver or the runtime library cannot be compiled
    """
    virtual = "compute_" + arch.removeprefix("sm_")
    given = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-Xlinker", "-Bsymbolic", "-gencode", f"arch={virtual},code={virtual}"]
    without_lines: Options = {"lineinfo": False}
    given += arguments(**without_lines | options)
    cuda.install()
    runtime = ctypes.CDLL(str(build(runtime_of(release()))), ctypes.RTLD_GLOBAL)
    with built(path, text, ".so", given) as library:
        try:
            loaded = ctypes.CDLL(str(library))
        except OSError as error:
            _, _, missing = str(error).partition("undefined symbol: ")
            code, why = ("I211", f"calls {missing}, which ptxlab does not have") if missing else ("I203", f"cannot be loaded: {error}")
            raise NvccError(diagnose(code, f"the host code of {Path(path).name} {why}")) from None
    found = device if device is not None else Device(arch)
    found.target = found.target or arch
    return Host(loaded, runtime, found)
