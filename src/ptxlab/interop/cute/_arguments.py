"""Arguments of host functions: arrays become tensors of CuTe DSL, at the addresses that they have."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptxlab.formats.dlpack import DeviceArray, strided_view
from ptxlab.interop._host_memory import HostArray, placed
from ptxlab.machine import Buffer, Device
from ptxlab.machine.launch.arguments import as_array, buffer_address
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.replay.replay import Placed, placed_buffer

__all__ = ["example", "host_memory", "is_tensor", "passed"]

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
    return None if array is None else Placed.of(name, array)


def _tensor(place: Placed, address: int) -> Any:
    """The tensor that CuTe DSL passes for an array at an address: code is compiled for its element type, shape and strides."""
    import cutlass
    from cutlass.cute.runtime import from_dlpack

    element, size = getattr(cutlass, TYPES.get(str(place.dtype), ""), None), place.dtype.itemsize
    what = fix = ""
    if any(stride % size for stride in place.strides):
        what = f"the strides {place.strides} are no multiples of the {size} bytes of an element"
    elif element is None:
        what = f"CuTe DSL has no element type for {place.dtype}"
        fix = "pass the bytes as uint8 and give them their type in the host function (cute.recast_tensor)"
    elif address % ALIGNMENT:
        what = f"the array starts {address % ALIGNMENT} bytes after a multiple of {ALIGNMENT}"
        fix = "copy it, or pass from_dlpack(array)"
    if what:
        raise refuse("I103", f"argument {place.name}: {what}", fix=fix)
    owner = DeviceArray(address, place.shape, place.strides, size)
    tensor: Any = from_dlpack(owner, assumed_align=ALIGNMENT)
    tensor.element_type, tensor.ptxlab_owner = element, owner
    return tensor


def example(value: Any, name: str) -> Any:
    """Return what a host function is compiled with in place of an array."""
    found = _place(value, name)
    return value if found is None else _tensor(found, 0)


def passed(values: Mapping[str, Any], device: Device) -> tuple[dict[str, Any], list[tuple[str, Any]], list[Placed]]:
    """What the host function takes, the memory that it lies in or points to, by the names of the arguments, and all arrays."""
    for position, (name, value) in enumerate(values.items()):
        if isinstance(value, Buffer):
            buffer_address(value, device, f"{position} ({name})")
    arrays = [found for name, value in values.items() if (found := _place(value, name)) is not None]
    taken = {**values, **{place.name: _tensor(place, place.address) for place in arrays}}
    memory = host_memory(taken)
    given = [(place.name, HostArray(place.host)) for place in arrays if place.host is not None]
    return taken, [*given, *memory], [*arrays, *placed(memory)]


def host_memory(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The memory that arguments lie in or point to, by the names of the arguments: as an array of the host, or by an address."""
    return [(name, memory) for name, value in values.items() for memory in _memory(value)]


def _memory(value: Any) -> Iterator[HostArray | int]:
    from cutlass.cute import AddressSpace
    from cutlass.cute.runtime import _Pointer, _Tensor

    if type(value) is _Pointer:
        yield int(value._pointer)
    elif type(value) is _Tensor and value.memspace == AddressSpace.gmem:
        yield int(value.data_ptr)
    elif type(value) is _Tensor:
        size = value._dltensor_wrapper.dtype.width // 8
        steps = [int(step) * size for step in value.stride]
        yield HostArray(strided_view(value.data_ptr, tuple(map(int, value.shape)), steps, f"u{size}"))
    elif isinstance(value, Mapping):
        yield from _memory(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            yield from _memory(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _memory([getattr(value, f.name) for f in dataclasses.fields(value)])


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of CuTe DSL, with or without memory."""
    from cutlass.cute.runtime import _FakeTensor, _Tensor

    return type(value) in (_FakeTensor, _Tensor)
