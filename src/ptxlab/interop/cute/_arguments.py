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

__all__ = ["example", "host_memory", "passed"]

ALIGNMENT = 16
"""What host functions may assume of the address of an array, in bytes: what TMA needs."""


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
    from cutlass.cute.runtime import from_dlpack

    what = fix = ""
    if any(stride % place.dtype.itemsize for stride in place.strides):
        what = f"the strides {place.strides} are no multiples of the {place.dtype.itemsize} bytes of an element"
    elif address % ALIGNMENT:
        what = f"the array starts {address % ALIGNMENT} bytes after a multiple of {ALIGNMENT}"
        fix = "copy it, or pass from_dlpack(array)"
    else:
        try:
            owner = DeviceArray(address, place.shape, place.strides, place.dtype)
            tensor: Any = from_dlpack(owner, assumed_align=ALIGNMENT)
            tensor.element_type = tensor.element_type  # which CuTe DSL looks up when it is asked for
        except (BufferError, RuntimeError):
            what = f"CuTe DSL has no element type for {place.dtype}"
            fix = "pass the bytes as uint8 and give them their type in the host function (cute.recast_tensor)"
    if what:
        raise refuse("I103", f"argument {place.name}: {what}", fix=fix)
    tensor.ptxlab_owner = owner
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
