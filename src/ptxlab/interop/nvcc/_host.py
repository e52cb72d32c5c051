"""Host code of a CUDA C++ file, called from Python; its kernels run in ptxlab."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ptxlab import ptx
from ptxlab.cuda.products import attribute
from ptxlab.descriptors import encode_tensor_map
from ptxlab.diagnostics import PtxlabError, diagnose
from ptxlab.interop.nvcc._build import NvccError, Options, PathText, Source, arguments, built, source_file
from ptxlab.isa.context import Misuse
from ptxlab.machine import Buffer, Device, KernelError, Module, Result, loads

__all__ = ["Host", "HostFunction", "Launch", "host"]


# Numbers of CUDA errors and of copy directions: the CUDA runtime API.
INVALID_VALUE, OUT_OF_MEMORY, INVALID_SYMBOL, NOT_FOUND, LAUNCH_FAILED = 1, 2, 13, 500, 719
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS = range(5)


class _Shape(Structure):
    _fields_ = [("grid", c_uint32 * 3), ("block", c_uint32 * 3), ("cluster", c_uint32 * 3), ("shared_bytes", c_uint64)]


class _TensorMapArguments(Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("data_type", "rank")),
        ("address", c_uint64),
        *((name, POINTER(c_uint64)) for name in ("dims", "strides")),
        *((name, POINTER(c_uint32)) for name in ("box", "element_strides")),
        *((name, POINTER(c_int32)) for name in ("lower", "upper")),
        *((name, c_uint32) for name in ("channels", "pixels", "interleave", "swizzle", "l2_promotion", "oob_fill")),
    ]


_HANDLERS = [
    ("allocate", CFUNCTYPE(c_int, c_uint64, POINTER(c_uint64))),
    ("release", CFUNCTYPE(c_int, c_uint64)),
    ("copy", CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64, c_int)),
    ("fill", CFUNCTYPE(c_int, c_uint64, c_int, c_uint64)),
    ("attribute", CFUNCTYPE(c_int, c_int, POINTER(c_int))),
    ("variable", CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_uint64))),
    ("launch", CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(_Shape), POINTER(c_void_p))),
    ("tensor_map", CFUNCTYPE(c_int, c_void_p, POINTER(_TensorMapArguments))),
]


class Handlers(Structure):
    """The table of functions that ``_runtime.cc`` declares."""

    _fields_ = _HANDLERS


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch that host code made."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_bytes: int
    result: Result


class Runtime:
    """The handlers of one host library. As a context manager, it raises at the end of a call what failed during it."""

    def __init__(self, host: Host, library: Any) -> None:
        self.host = host
        self.images: dict[int, Module] = {}
        self._error: BaseException | None = None
        self._table = Handlers(*(kind(self._guarded(getattr(self, f"_{name}"))) for name, kind in _HANDLERS))
        self._library = library

    def __enter__(self) -> None:
        self._error = None
        self._library.ptxlab_begin(ctypes.byref(self._table))

    def __exit__(self, *_: object) -> None:
        if self._error is not None:
            raise self._error

    def _guarded(self, handler: Callable[..., int]) -> Callable[..., int]:
        """Wrap a callback: an exception is kept for the end of the call, and the host code gets an error number."""

        def call(*args: Any) -> int:
            try:
                return handler(*args)
            except Misuse as error:
                self._error = self._error or PtxlabError(diagnose(error.code, f"host code: {error.message}"))
            except BaseException as error:
                self._error = self._error or error
            return LAUNCH_FAILED

        return call

    def _module(self, image: int) -> Module:
        """The module of a fat binary in the memory of the library."""
        found = self.images.get(image)
        if found is None:
            size = 16 + int.from_bytes(ctypes.string_at(image + 8, 8), "little")
            text = ptx.embedded(ctypes.string_at(image, size), "host code")[-1]
            found = self.images[image] = loads(text.text, file=text.file)
        return found

    # ------------------------------------------------------------------------------------------ memory

    def _allocate(self, size: int, address: Any) -> int:
        address[0] = self.host.device.memory.allocate(size, "cudaMalloc", written=False).base
        return 0

    def _release(self, address: int) -> int:
        memory = self.host.device.memory
        found = memory.find(address)
        if found is None or found.base != address or found.freed:
            return INVALID_VALUE
        memory.free(found)
        return 0

    def _copy(self, to: int, source: int, size: int, kind: int) -> int:
        memory = self.host.device.memory
        if kind == BY_ADDRESS:
            kind = 2 * self._is_device(source) + self._is_device(to)
        if kind == DEVICE_TO_DEVICE:
            memory.move(to, source, size)
            return 0
        target = memory.view(to, size, write=True).ctypes.data if kind == HOST_TO_DEVICE else to
        origin = memory.view(source, size).ctypes.data if kind == DEVICE_TO_HOST else source
        ctypes.memmove(target, origin, size)
        if kind == HOST_TO_DEVICE:
            memory.define(to, size)
        elif kind == DEVICE_TO_HOST:
            self.host.device.read_by_host(source, size)
        return 0

    def _is_device(self, address: int) -> bool:
        found = self.host.device.memory.find(address)
        return found is not None and address < found.base + found.size

    def _fill(self, address: int, value: int, size: int) -> int:
        if size:
            self.host.device.memory.view(address, size, write=True)[:] = value & 0xFF
            self.host.device.memory.define(address, size)
        return 0

    def _variable(self, image: int, name: bytes, address: Any) -> int:
        found = self.host.device.module_addresses(self._module(image)).get(name.decode())
        if found is None:
            return INVALID_SYMBOL
        address[0] = found
        return 0

    # ---------------------------------------------------------------------------------- device, launches

    def _attribute(self, number: int, value: Any) -> int:
        found = attribute(self.host.device, number)
        if found is None:
            return INVALID_VALUE
        value[0] = found
        return 0

    def _launch(self, image: int, name: bytes, shape: Any, given: Any) -> int:
        if self._error is not None:
            return LAUNCH_FAILED
        kernel = self._module(image)[name.decode()]
        args = [ctypes.string_at(given[i], p.size) for i, p in enumerate(kernel.parameters)]
        grid, block, named = (tuple(getattr(shape[0], field)) for field in ("grid", "block", "cluster"))
        cluster = named if named[0] else None
        shared_bytes = shape[0].shared_bytes
        result = kernel.launch(grid, block, cluster, shared_bytes=shared_bytes, args=args, device=self.host.device, **self.host.options)
        self.host.launches.append(Launch(kernel.name, grid, block, cluster, shared_bytes, result))
        if result.ok:
            return 0
        self._error = self._error or KernelError(*result.diagnostics)
        return LAUNCH_FAILED

    def _tensor_map(self, target: int, arguments: Any) -> int:
        a = arguments[0]
        rank = a.rank
        fields: dict[str, Any] = {
            f: getattr(a, f) for f in ("data_type", "rank", "address", "interleave", "swizzle", "l2_promotion", "oob_fill")
        }
        fields |= {"dims": a.dims[:rank], "strides": a.strides[: rank - 1], "element_strides": a.element_strides[:rank]}
        fields |= (
            {"box": a.box[:rank]}
            if a.box
            else {"im2col": True, "lower": a.lower[: rank - 2], "upper": a.upper[: rank - 2], "channels": a.channels, "pixels": a.pixels}
        )
        try:
            raw = encode_tensor_map(**fields, target=self.host.device.target or "sm_90a")
        except PtxlabError as error:
            # Much host code ends the process where the driver refuses: it goes on here, and its launches are refused.
            self._error = self._error or error
            return 0
        ctypes.memmove(target, raw, len(raw))
        return 0


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
