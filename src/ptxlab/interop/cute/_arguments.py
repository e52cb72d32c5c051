"""Arguments of host functions: arrays become tensors of CuTe DSL; memory of the host is the device's for the time of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ptxlab.cuda import Driver
from ptxlab.formats.dlpack import DeviceArray, strided_view
from ptxlab.interop._host_memory import HostArray, placed, reached_memory, registered
from ptxlab.machine import Buffer, Device
from ptxlab.machine.launch.arguments import as_array, buffer_address
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.replay.replay import Placed, placed_buffer
from ptxlab.native import address_of

__all__ = ["example", "host_memory", "is_tensor", "on_device", "outside_of"]

ALIGNMENT = 16
"""What host functions may assume of the address of an array, in bytes: what TMA needs."""

TYPES = {
    "bool": "Boolean", "int8": "Int8", "uint8": "Uint8", "int16": "Int16", "uint16": "Uint16", "int32": "Int32", "uint32": "Uint32",
    "int64": "Int64", "uint64": "Uint64", "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32", "float64": "Float64",
    "float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2", "float8_e8m0fnu": "Float8E8M0FNU",
}  # fmt: skip
"""Element types: as NumPy, ml_dtypes and torch name them -> as CuTe DSL names them."""


def _place(value: Any, name: str) -> Placed | None:
    """An array or buffer, where it lies; None for any other argument."""
    if hasattr(value, "__c_pointers__") or hasattr(value, "__get_mlir_types__"):
        return None
    if isinstance(value, Buffer):
        return placed_buffer(name, value)
    array = as_array(value, name)
    return None if array is None else Placed(name, address_of(array), array.shape, array.dtype, array.strides, array)


def _tensor(place: Placed, address: int) -> Any:
    """The tensor that CuTe DSL passes for an array at an address: code is compiled for its element type, shape and strides."""
    import cutlass
    from cutlass.cute.runtime import from_dlpack

    if any(stride % place.dtype.itemsize for stride in place.strides):
        what = f"the strides {place.strides} are no multiples of the {place.dtype.itemsize} bytes of an element"
        raise refuse("I103", f"argument {place.name}: {what}")
    if str(place.dtype) not in TYPES:
        raise refuse(
            "I103",
            f"argument {place.name}: CuTe DSL has no element type for {place.dtype}",
            fix="pass the bytes as uint8 and give them their type in the host function (cute.recast_tensor)",
        )
    if address % ALIGNMENT:
        raise refuse(
            "I103",
            f"argument {place.name}: the array starts {address % ALIGNMENT} bytes after a multiple of {ALIGNMENT}",
            fix="copy it, or pass from_dlpack(array)",
        )
    owner = DeviceArray(address, place.shape, place.strides, place.dtype.itemsize)
    tensor: Any = from_dlpack(owner, assumed_align=ALIGNMENT)
    tensor.element_type = getattr(cutlass, TYPES[str(place.dtype)])
    tensor.ptxlab_owner = owner
    return tensor


def example(value: Any, name: str) -> Any:
    """Return what a host function is compiled with in place of an array."""
    found = _place(value, name)
    return value if found is None else _tensor(found, 0)


@contextmanager
def on_device(values: Mapping[str, Any], driver: Driver, device: Device) -> Iterator[tuple[dict[str, Any], list[Placed]]]:
    """Make arrays of the host memory of the device for the time of a call; yields what the host function takes, and all arrays."""
    arrays = [found for name, value in values.items() if (found := _place(value, name)) is not None]
    for position, (name, value) in enumerate(values.items()):
        if isinstance(value, Buffer):
            buffer_address(value, device, f"{position} ({name})")
    passed = {**values, **{place.name: _tensor(place, place.address) for place in arrays}}
    memory = host_memory(passed)
    given = [(place.name, HostArray(place.host)) for place in arrays if place.host is not None]
    with registered(driver, reached_memory([*given, *memory])):
        yield passed, [*arrays, *placed(memory)]


def host_memory(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The host memory that arguments lie in or point to, by the names of the arguments."""
    return [(name, memory) for name, value in values.items() for memory in _memory(value, name)]


def _memory(value: Any, name: str) -> Iterator[HostArray | int]:
    from cutlass.cute.runtime import _Pointer, _Tensor

    if type(value) is _Tensor:
        if not hasattr(value, "ptxlab_owner"):
            yield HostArray(_view(value, name))
    elif type(value) is _Pointer:
        yield int(value._pointer)
    elif isinstance(value, Mapping):
        yield from _memory(list(value.values()), name)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            yield from _memory(item, name)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _memory([getattr(value, f.name) for f in dataclasses.fields(value)], name)


def outside_of(device: Device, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What tensors and pointers lie in or point to and the device's memory does not hold: host memory of the program."""
    from cutlass.cute import AddressSpace
    from cutlass.cute.runtime import _Tensor

    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        address = int(value.data_ptr if type(value) is _Tensor else value._pointer)
        if device.memory.containing(address) is None:
            on_host = type(value) is _Tensor and value.memspace != AddressSpace.gmem
            found.append((name, HostArray(_view(value, name)) if on_host else address))
    return found


def _view(tensor: Any, name: str) -> NDArray[Any]:
    """The host memory of a tensor, as unsigned integers of its element size."""
    from cutlass.cute import AddressSpace

    if tensor.memspace == AddressSpace.gmem:
        raise refuse("I103", f"argument {name}: a tensor in the memory of a GPU", fix="make it of an array on the CPU")
    size = tensor._dltensor_wrapper.dtype.width // 8
    shape, steps = tuple(map(int, tensor.shape)), tuple(int(s) * size for s in tensor.stride)
    return strided_view(tensor.data_ptr, shape, steps, f"u{size}")


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of CuTe DSL, with or without memory."""
    from cutlass.cute.runtime import _FakeTensor, _Tensor

    return type(value) in (_FakeTensor, _Tensor)
