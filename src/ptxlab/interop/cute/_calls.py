"""The CUDA functions that compiled host functions call, answered by ptxlab.

CuTe DSL compiles the host side of a kernel too: machine code that builds tensor maps, packs the parameters and calls the CUDA runtime
through a few functions. The same machine code runs here; only these functions are others.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import replace
from functools import cache, partial
from typing import Any, NoReturn

from ptxlab.cuda.products import attribute as device_attribute
from ptxlab.descriptors import encode_tensor_map
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.machine import Device, Module, Result, Stats
from ptxlab.machine.launch.options import refuse

__all__ = ["HostCall", "current_call", "entry_point"]

_STATIC_SHARED = 1
"""``CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES``."""
CLUSTER_DIMENSION = 4
"""``cudaLaunchAttributeClusterDimension``."""
_FAILED = 719
"""``cudaErrorLaunchFailure``: the host function returns."""


class LaunchAttribute(ctypes.Structure):
    """``cudaLaunchAttribute``."""

    _fields_ = (("id", c_int32), ("padding", c_int32), ("value", c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """``cudaLaunchConfig_t``."""

    _fields_ = (
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_size_t),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("count", c_uint32),
    )


class HostCall:
    """One call of a host function, which the answers to the CUDA functions that it calls refer to.

    ``launch`` is called with the kernel, and by keyword with what the host function says: grid, block, cluster, shared_bytes, args.
    """

    def __init__(self, module: Module, device: Device, launch: Callable[..., Result]) -> None:
        self.module = module
        self.device = device
        self.launch_kernel = launch
        self.results: list[Result] = []
        self.error: BaseException | None = None

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Result:
        """Run a host function; errors inside it are raised here."""
        token = current_call.set(self)
        try:
            function(*args, **kwargs)
        except Exception as error:
            if self.error is None and all(result.ok for result in self.results):
                raise refuse("I106", f"the host function ended with {type(error).__name__}: {_message(error)}") from error
        finally:
            current_call.reset(token)
        if self.error is not None:
            raise self.error
        return self.result()

    def result(self) -> Result:
        """Combine the results of the launches."""
        if len(self.results) == 1:
            return self.results[0]
        stats = [r.stats for r in self.results]
        services = sum((Counter(s.services) for s in stats), Counter[str]())
        total = Stats(sum(s.instructions for s in stats), dict(services), sum(s.ctas for s in stats), sum(s.seconds for s in stats))
        first = self.results[0] if self.results else Result((), total, completed=True)
        return replace(
            first,
            diagnostics=tuple(d for r in self.results for d in r.diagnostics),
            stats=total,
            completed=all(r.completed for r in self.results),
            stdout="".join(r.stdout for r in self.results),
        )


def _message(error: BaseException) -> str:
    """Return the first sentence of an error of CuTe DSL, without colours, title and stack."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return re.sub(r"^error\[\w+\]: ", "", lines[0]) if lines else "no message"


current_call: ContextVar[HostCall] = ContextVar("current_call")
"""The call of a host function that is running in this thread."""

_names: list[bytes] = [b""]
"""Kernels by handle; a handle is kept by the host code that asked for it, so it stays valid."""


def _load_library(library: Any, *_: Any) -> None:
    library[0] = 1


def _get_kernel(kernel: Any, _library: Any, name: bytes) -> None:
    if name not in _names:
        _names.append(name)
    kernel[0] = _names.index(name)


def _device_attribute(value: Any, attribute: int, _device: int) -> None:
    found = device_attribute(current_call.get().device, attribute)
    if found is None:
        _refuse(f"cudaDeviceGetAttribute (attribute {attribute})")
    value[0] = found


def _kernel_attribute(value: Any, attribute: int, kernel: int, _device: int) -> None:
    if attribute != _STATIC_SHARED:
        _refuse(f"cuKernelGetAttribute (attribute {attribute})")
    value[0] = int(current_call.get().module[_names[kernel].decode()].program.shared.static_end) - SHARED_RESERVED


def _first_device(device: Any) -> None:
    device[0] = 0


def _accept(*_: Any) -> None:
    """Accept a raised limit: the launch checks the device's limits."""


def _encode_tiled(
    where: int, data_type: int, rank: int, address: int | None, dims: Any, strides: Any, box: Any, steps: Any, *modes: int
) -> None:
    interleave, swizzle, promotion, fill = modes
    raw = encode_tensor_map(
        data_type=data_type,
        rank=rank,
        address=address or 0,
        dims=dims[:rank],
        strides=strides[: rank - 1],
        box=box[:rank],
        element_strides=steps[:rank],
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=promotion,
        oob_fill=fill,
        target=current_call.get().module.target,
    )
    ctypes.memmove(where, raw, len(raw))


def _launch(configuration: Any, kernel: int, parameters: Any) -> int:
    call = current_call.get()
    config = configuration[0]
    if call.error is not None:
        return _FAILED
    found = call.module[_names[kernel].decode()]
    attributes = [config.attributes[i] for i in range(config.count)]
    clusters = [tuple(a.value[:3]) for a in attributes if a.id == CLUSTER_DIMENSION]
    result = call.launch_kernel(
        found,
        grid=tuple(config.grid),
        block=tuple(config.block),
        cluster=clusters[-1] if clusters else None,
        shared_bytes=config.shared_bytes,
        args=[ctypes.string_at(parameters[i], p.size) for i, p in enumerate(found.parameters)],
    )
    call.results.append(result)
    return 0 if result.ok else _FAILED


def _refuse(function: str) -> NoReturn:
    raise refuse("I105", f"the host function calls {function}, which ptxlab does not have", fix="do that outside the host function")


_U32S, _U64S, _WORD, _HANDLE = POINTER(c_uint32), POINTER(c_uint64), POINTER(c_int32), POINTER(c_void_p)

FUNCTIONS: dict[str, tuple[tuple[Any, ...], Callable[..., int | None]]] = {
    "_cudaLibraryLoadData": ((_HANDLE, c_void_p, c_void_p, c_void_p, c_int32, c_void_p, c_void_p, c_int32), _load_library),
    "_cudaLibraryGetKernel": ((_HANDLE, c_void_p, c_char_p), _get_kernel),
    "_cuKernelGetAttribute": ((_WORD, c_int32, c_void_p, c_int32), _kernel_attribute),
    "_cudaDeviceGetAttribute": ((_WORD, c_int32, c_int32), _device_attribute),
    "_cudaGetDevice": ((_WORD,), _first_device),
    "_cudaKernelSetAttributeForDevice": ((c_void_p, c_int32, c_int32, c_int32), _accept),
    "_cudaFuncSetAttribute": ((c_void_p, c_int32, c_int32), _accept),
    "_cudaLaunchKernelEx": ((POINTER(LaunchConfig), c_void_p, _HANDLE), _launch),
    "_cuTensorMapEncodeTiled": (
        (c_void_p, c_int32, c_uint32, c_void_p, _U64S, _U64S, _U32S, _U32S, c_int32, c_int32, c_int32, c_int32),
        _encode_tiled,
    ),
}
"""Types of the arguments, and the answer, by the name under which host code calls it."""


def _guarded(answer: Callable[..., int | None], *arguments: Any) -> int:
    """Return the status for the host code; an exception cannot pass through it and is kept for the caller.

    Host code aborts the process where any call but a launch fails: it gets success, and its next launch fails.
    """
    try:
        return answer(*arguments) or 0
    except BaseException as error:
        call = current_call.get()
        call.error = call.error or error
        return _FAILED if answer is _launch else 0


@cache
def entry_point(name: str) -> Any:
    """The C function that answers calls of ``name``; it lives as long as the process, as the host code may."""
    types, answer = FUNCTIONS.get(name, ((), partial(_refuse, name.lstrip("_"))))
    return ctypes.CFUNCTYPE(c_int32, *types)(partial(_guarded, answer))
