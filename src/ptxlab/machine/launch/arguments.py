"""Kernel arguments: they are checked against the parameters and packed; arrays are copied to the device and back, or lent to it."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.diagnostics import diagnose
from ptxlab.formats import ArrayError, array_of
from ptxlab.machine._device import Buffer, Device
from ptxlab.machine.launch.options import LaunchError, refuse
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.memory.global_memory import Allocation
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.descriptors import TensorMap
    from ptxlab.engine.program import Parameter

__all__ = ["Arguments", "array_extent", "as_array", "bind_arguments", "buffer_address", "roots_of"]

_MAP_BYTES = 128
_LENT_ALIGNMENT = 16
"""Arrays at multiples of this number of bytes can be lent: the alignment of what NumPy allocates."""
_INTEGER_BITS = {f"{kind}{bits}": bits for kind in "usb" for bits in (8, 16, 32, 64)}
_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


@dataclass(slots=True, eq=False)
class _Group:
    """Arrays whose memory overlaps: they get one allocation for their host addresses [low, high). ``first`` is an argument's position.

    ``lent`` says that the allocation is the memory of the arrays itself.
    """

    first: int
    low: int
    high: int
    arrays: list[NDArray[Any]]
    names: list[str]
    parameters: list[str]
    allocation: Allocation | None = None
    lent: bool = False

    def can_be_lent(self) -> bool:
        """Whether the elements fill the memory without gaps, so that a kernel can access nothing else there."""
        alike = len({array.flags.writeable for array in self.arrays}) == 1
        return alike and self.high > self.low and self.low % _LENT_ALIGNMENT == 0 and all(map(_is_dense, self.arrays))

    def memory(self) -> NDArray[np.uint8]:
        """The memory of the arrays, which are kept as long as it is used."""
        memory: Any = (ctypes.c_uint8 * (self.high - self.low)).from_address(self.low)
        memory.arrays = self.arrays
        return np.frombuffer(memory, np.uint8)


class Arguments:
    """The bound arguments of a launch: the parameter bytes, and the memory to copy back and to free.

    Attributes
    ----------
    packed : the parameter bytes
    arrays : the arrays by the position of their argument
    groups : the arrays that share an allocation
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        param_bytes: int,
        values: list[Any],
        device: Device,
        lend: Callable[[Sequence[tuple[int, int]]], bool] | None = None,
    ) -> None:
        self.device = device
        given = list(enumerate(zip(parameters, values, strict=True)))
        found = [None if type(value) is bytes else self._array_of(value, _label(i, parameter)) for i, (parameter, value) in given]
        self.arrays = {i: array for i, array in enumerate(found) if array is not None}
        self.groups = _group(self.arrays, parameters) if self.arrays else []
        self._scratch: list[Allocation] = []
        packed = bytearray(param_bytes)
        lendable = [group for group in self.groups if lend is not None and group.can_be_lent()]
        if lend is not None and lend([(group.low, group.high) for group in lendable]):
            for group in lendable:
                group.lent = True
        try:
            for group in self.groups:
                self._allocate(group)
            for i, (parameter, value) in given:
                fits = type(value) is bytes and len(value) == parameter.size
                raw = value if fits else self._pack(_label(i, parameter), parameter, value, found[i])
                packed[parameter.offset : parameter.offset + len(raw)] = raw
        except BaseException:
            self.release()
            raise
        self.packed = bytes(packed)

    def write_back(self) -> None:
        """Copy device memory back into the arrays that may be written to and have not been lent."""
        for group in self.groups:
            for array in () if group.lent else group.arrays:
                if array.flags.writeable and array.size:
                    np.copyto(array, _device_view(group, array))

    @property
    def lent(self) -> list[Allocation]:
        """The allocations that are memory of arrays."""
        return [group.allocation for group in self.groups if group.lent and group.allocation is not None]

    def release(self) -> None:
        """Free the device memory of this launch's arrays."""
        for allocation in [g.allocation for g in self.groups] + self._scratch:
            if allocation is not None:
                self.device.memory.free(allocation)

    def address_of(self, array: NDArray[Any]) -> int:
        """Return the device address of the first element of an array."""
        group = next(g for g in self.groups if any(a is array for a in g.arrays))
        assert group.allocation is not None
        return group.allocation.base + address_of(array) - group.low

    @staticmethod
    def _array_of(value: Any, name: str) -> NDArray[Any] | None:
        if _is_tensor_map(value):
            value = value.base
        if isinstance(value, Buffer):
            return None
        found = as_array(value, name)
        if found is not None and found.dtype.hasobject:
            raise refuse("A306", f"argument {name}: an array of {found.dtype} holds Python objects and cannot be in device memory")
        return found

    def _allocate(self, group: _Group) -> None:
        writable = any(a.flags.writeable for a in group.arrays)
        name = "argument " + ", ".join(dict.fromkeys(group.names))
        if group.lent:
            made = self.device.memory.adopt(group.memory(), name, writable=writable)
        else:
            made = self.device.memory.allocate(group.high - group.low, name, writable=writable, copied_back=True)
        group.allocation = made
        made.arrays = tuple(
            ArrayPlace(parameter, made.base + address_of(a) - group.low, str(a.dtype), a.itemsize, a.shape, a.strides)
            for parameter, a in zip(group.parameters, group.arrays, strict=True)
        )
        for array in () if group.lent else group.arrays:
            if array.size:
                np.copyto(_device_view(group, array), array)

    def _pack(self, label: str, parameter: Parameter, value: Any, array: NDArray[Any] | None) -> bytes:
        if _is_tensor_map(value):
            return self._pack_map(label, parameter, value, array)
        if isinstance(value, Buffer):
            return self._pack_address(label, parameter, buffer_address(value, self.device, label), "a device buffer")
        if array is not None:
            return self._pack_address(label, parameter, self.address_of(array), f"an array of {array.dtype}")
        if value is None:
            return self._pack_address(label, parameter, 0, "None")
        if isinstance(value, (bytes, bytearray, memoryview)):
            raw = bytes(value)
            if len(raw) != parameter.size:
                raise refuse("A305", f"argument {label}: {len(raw)} bytes for a parameter of {parameter.size} bytes")
            return raw
        if parameter.array:
            raise refuse(
                "A303",
                f"argument {label}: {_value_text(value)} for a parameter of {parameter.size} bytes",
                fix="pass bytes, or a TensorMap for a parameter of 128 bytes",
            )
        return _pack_number(label, parameter, value)

    def _pack_address(self, label: str, parameter: Parameter, address: int, what: str) -> bytes:
        if parameter.array or not (parameter.pointer or parameter.type in ("u64", "s64", "b64")):
            fix = "pass a ptxlab.TensorMap of the array, with its box" if parameter.array and parameter.size == _MAP_BYTES else ""
            raise refuse("A303", f"argument {label}: {what} for a parameter of type {_type_text(parameter)}, which is no pointer", fix)
        return address.to_bytes(8, "little")

    def _pack_map(self, label: str, parameter: Parameter, value: TensorMap, array: NDArray[Any] | None) -> bytes:
        base = value.base
        address = buffer_address(base, self.device, label) if isinstance(base, Buffer) else None
        if address is None and array is not None:
            address = self.address_of(array)
        raw: bytes = value.encode(address)
        if parameter.array:
            if parameter.size != _MAP_BYTES:
                raise refuse("A305", f"argument {label}: a TensorMap of {_MAP_BYTES} bytes for a parameter of {parameter.size} bytes")
            return raw
        held = self.device.memory.allocate(_MAP_BYTES, f"tensor map of argument {label}", writable=False)
        self._scratch.append(held)
        held.data[:] = np.frombuffer(raw, np.uint8)
        return self._pack_address(label, parameter, held.base, "a TensorMap")


def buffer_address(buffer: Buffer, device: Device, label: str) -> int:
    """Return the address of a buffer of a device, which must not have been freed."""
    if buffer.device is not device:
        raise refuse(
            "A307", f"argument {label}: the buffer belongs to another device", fix="launch with device= the Device that made the buffer"
        )
    if buffer.freed:
        raise refuse("A307", f"argument {label}: the buffer at {buffer.address:#x} was freed")
    return buffer.address


def array_extent(array: NDArray[Any]) -> tuple[int, int]:
    """Return the host addresses [low, high) of the elements of an array."""
    low = high = address_of(array)
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _is_dense(array: NDArray[Any]) -> bool:
    """Whether the elements of an array fill its memory, each byte once.

    Examples
    --------
    >>> a = np.zeros((4, 6))
    >>> [_is_dense(each) for each in (a, a.T, a[::-1], a[:, 1:], a[2:])]
    [True, True, True, False, True]
    """
    size = array.itemsize
    for step, count in sorted((abs(step), count) for step, count in zip(array.strides, array.shape, strict=True) if count > 1):
        if step != size:
            return False
        size *= count
    return True


def _device_view(group: _Group, array: NDArray[Any]) -> NDArray[Any]:
    """The array as it lies in device memory."""
    assert group.allocation is not None
    return np.ndarray(array.shape, array.dtype, group.allocation.data.data, address_of(array) - group.low, array.strides)


def as_array(value: Any, name: str) -> NDArray[Any] | None:
    """The ndarray behind an array-like argument, sharing its memory; None if it is not an array."""
    try:
        return array_of(value)
    except ArrayError as error:
        raise refuse("A306", f"argument {name}: {error}", fix=error.fix) from None


def bind_arguments(
    parameters: Sequence[Parameter],
    param_bytes: int,
    args: Iterable[Any],
    device: Device,
    kernel: str,
    lend: Callable[[Sequence[tuple[int, int]]], bool] | None = None,
) -> Arguments:
    """Check and pack arguments; allocate and fill device memory for arrays.

    ``lend`` is asked whether memory of arrays at some host addresses may be device memory itself, without a copy. Then the caller keeps
    what is overwritten until it is known that the kernel runs to its end.
    """
    values = list(args)
    if len(values) != len(parameters):
        raise _count_error(parameters, values, kernel)
    return Arguments(parameters, param_bytes, values, device, lend)


def _count_error(parameters: Sequence[Parameter], values: list[Any], kernel: str) -> LaunchError:
    names = ", ".join(f"{_label(i, p)} {_type_text(p)}" for i, p in enumerate(parameters)) or "none"
    plural = "parameter" if len(parameters) == 1 else "parameters"
    given = "1 argument was given" if len(values) == 1 else f"{len(values)} arguments were given"
    if len(values) < len(parameters):
        missing = parameters[len(values)]
        first = _label(len(values), missing)
        fix = f"the first one without an argument is {first}; Triton kernels take None for each trailing scratch pointer"
    else:
        fix = "leave out the arguments after the last parameter; Triton's constexpr values are no parameters"
    return LaunchError(
        diagnose("A302", f"kernel {kernel} has {len(parameters)} {plural}, but {given}", fix=fix, details=[("parameters", names)])
    )


def _label(index: int, parameter: Parameter) -> str:
    return f"{index} ({parameter.name})"


def _type_text(parameter: Parameter) -> str:
    if parameter.array:
        return f"{parameter.size} bytes"
    return f".{parameter.type}" + (" pointer" if parameter.pointer and parameter.type != "u64" else "")


def _is_tensor_map(value: Any) -> bool:
    module = sys.modules.get("ptxlab.descriptors")
    return module is not None and isinstance(value, module.TensorMap)


def _group(arrays: dict[int, NDArray[Any]], parameters: Sequence[Parameter]) -> list[_Group]:
    """Put arrays that share memory into one group; groups are ordered by their first arguments.

    So that device addresses do not depend on where the host keeps the arrays.
    """
    groups: list[_Group] = []
    for i, array in sorted(arrays.items(), key=lambda item: array_extent(item[1])[0]):
        low, high = array_extent(array)
        name = _label(i, parameters[i])
        last = groups[-1] if groups else None
        if last is not None and low < last.high and (low < high or low == last.low):
            last.high = max(last.high, high)
            last.first = min(last.first, i)
            last.arrays.append(array)
            last.names.append(name)
            last.parameters.append(parameters[i].name)
        else:
            groups.append(_Group(i, low, high, [array], [name], [parameters[i].name]))
    return sorted(groups, key=lambda group: group.first)


def roots_of(parameters: bytes, globals_: dict[str, int]) -> bytes:
    """The bytes that hold the addresses with which a kernel begins."""
    return parameters + b"".join(address.to_bytes(8, "little") for address in globals_.values())


def _value_text(value: Any) -> str:
    return f"{value!r}" if isinstance(value, (int, float, str)) and len(repr(value)) < 60 else f"a {type(value).__name__}"


def _pack_number(label: str, parameter: Parameter, value: Any) -> bytes:
    """An int or float for a scalar parameter."""
    kind = parameter.type
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if kind in _FLOATS:
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise refuse("A303", f"argument {label}: {_value_text(value)} for a parameter of type .{kind}")
        try:
            return struct.pack(_FLOATS[kind], float(value))
        except OverflowError:
            raise refuse("A304", f"argument {label}: {value!r} is beyond the range of .{kind}") from None
    if kind not in _INTEGER_BITS:
        raise refuse(
            "A303", f"argument {label}: {_value_text(value)} for a parameter of type .{kind}", fix=f"pass the {parameter.size} bytes"
        )
    if not isinstance(value, (int, np.integer)):
        reason = "pass a whole number" if isinstance(value, (float, np.floating)) else ""
        raise refuse("A303", f"argument {label}: {_value_text(value)} for a parameter of type .{kind}", fix=reason)
    bits = _INTEGER_BITS[kind]
    number = int(value)
    # ``.u32`` says nothing about the sign in the source language: Triton passes i32 in .u32 parameters.
    low, high = -(1 << bits - 1), (1 << bits) - 1
    if not low <= number <= high:
        raise refuse("A304", f"argument {label}: {number} does not fit into .{kind} ({low} to {high})")
    return (number & (1 << bits) - 1).to_bytes(bits // 8, "little")
