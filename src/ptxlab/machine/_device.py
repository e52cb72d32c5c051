"""The simulated device: its memory, buffers, and module variables that keep their values between launches."""

from __future__ import annotations

import os
import warnings
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ptxlab.diagnostics import Diagnostic
from ptxlab.formats import ArrayError, array_of, bytes_of
from ptxlab.machine.launch.configuration import CTAS_PER_SM, MOST_SMS
from ptxlab.machine.launch.options import refuse, whole_number
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.memory.global_memory import Allocation, DeviceMemory

if TYPE_CHECKING:
    from ptxlab import ptx
    from ptxlab.machine._module import Module

__all__ = ["Buffer", "Device", "UndefinedValueWarning"]

_VARIABLES: WeakKeyDictionary[Module, dict[str, ptx.Variable]] = WeakKeyDictionary()
"""The global and const variables of modules, by name: to find them costs a walk over all statements."""


class UndefinedValueWarning(UserWarning):
    """The host reads undefined bits of device memory; the text is that of the finding."""


@cache
def _physical_memory() -> int:
    """Return the bytes of memory of this computer."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def _contents(value: Any) -> NDArray[Any]:
    """Return the elements of an array, or of nested sequences, as a NumPy array."""
    try:
        array = array_of(value, copies=True)
        found = np.asarray(value) if array is None else array
    except ArrayError as error:
        raise refuse("A306", str(error), fix=error.fix) from None
    except Exception as error:
        raise refuse("A306", f"{type(value).__name__} does not give a NumPy array: {error}") from None
    if found.dtype.hasobject:
        raise refuse("A306", f"an array of {found.dtype} holds Python objects and cannot be in device memory")
    return found


def _array_place(name: str, allocation: Allocation, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ArrayPlace:
    """Where an array lies that fills an allocation, in the order of C."""
    strides = tuple(prod(shape[d + 1 :]) * dtype.itemsize for d in range(len(shape)))
    return ArrayPlace(name, allocation.base, str(dtype), dtype.itemsize, shape, strides)


class Buffer:
    """Device memory that holds an array; made by `Device.array` and `Device.empty`."""

    def __init__(self, device: Device, allocation: Allocation, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.nbytes = allocation.size
        self._allocation = allocation

    @property
    def address(self) -> int:
        """The device address of the first element."""
        return self._allocation.base

    @property
    def freed(self) -> bool:
        """Whether `free` was called."""
        return self._allocation.freed

    def numpy(self) -> NDArray[Any]:
        """Return a copy of what the buffer holds now.

        If some of its bits are undefined, there is a finding (R808 or M412) in `Device.diagnostics`, and an `UndefinedValueWarning`.
        """
        if self.freed:
            raise refuse("A307", f"the buffer at {self.address:#x} was freed")
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        self.device.read_by_host(self.address, size)
        return self._allocation.data[:size].view(self.dtype).reshape(self.shape).copy()

    def write(self, array: Any) -> None:
        """Replace what the buffer holds by an array of the same shape and type."""
        source = _contents(array)
        if self.freed:
            raise refuse("A307", f"the buffer at {self.address:#x} was freed")
        if source.shape != self.shape or source.dtype != self.dtype:
            raise refuse("A306", f"the buffer holds {self.dtype}{list(self.shape)}, not {source.dtype}{list(source.shape)}")
        self._allocation.data[: source.nbytes] = bytes_of(source)
        self.device.memory.define(self.address, source.nbytes)

    def free(self) -> None:
        """Free the memory; a kernel that still uses the address gets a diagnostic."""
        self.device.memory.free(self._allocation)

    def __repr__(self) -> str:
        return f"<Buffer {self.dtype}{list(self.shape)} at {self.address:#x}>"


class Device:
    """A device that keeps its memory and the variables of modules between launches.

    Parameters
    ----------
    target : the architecture, ``"sm_100a"``; None takes what the first launched module is for
    sms : streaming multiprocessors; it limits how many CTAs are resident at a time
    ctas_per_sm : resident CTAs per SM at most; None: as many as threads and shared memory permit
    memory_bytes : bytes of global memory; None: what the computer has

    Attributes
    ----------
    diagnostics : findings about undefined bits that the host has read, one for each origin

    Examples
    --------
    >>> import numpy as np
    >>> device = Device("sm_100a")
    >>> buffer = device.array(np.arange(4, dtype=np.float32))
    >>> buffer.numpy()
    array([0., 1., 2., 3.], dtype=float32)
    """

    def __init__(self, target: str | None = None, sms: int = 148, ctas_per_sm: int | None = None, memory_bytes: int | None = None) -> None:
        self.target = target
        self.sms = whole_number("sms", sms, 1, MOST_SMS)
        self.ctas_per_sm = None if ctas_per_sm is None else whole_number("ctas_per_sm", ctas_per_sm, 1, CTAS_PER_SM)
        self.memory = DeviceMemory(_physical_memory() if memory_bytes is None else whole_number("memory_bytes", memory_bytes, 0, 1 << 50))
        self.launches = 0
        self.diagnostics: list[Diagnostic] = []
        self._read: set[str] = set()
        """The origins of undefined bits that the host has read."""
        self.left: Any = None
        """State that the checks of one launch keep for the checks of the next one."""
        self._modules: WeakKeyDictionary[Module, dict[str, int]] = WeakKeyDictionary()

    def array(self, array: Any, *, name: str | None = None) -> Buffer:
        """Copy an array, of NumPy, torch or DLPack, into new device memory."""
        source = _contents(array)
        allocation = self.memory.allocate(source.nbytes, name or f"buffer {source.dtype}{list(source.shape)}")
        allocation.data[:] = bytes_of(source)
        allocation.arrays = (_array_place(name or "buffer", allocation, source.shape, source.dtype),)
        return Buffer(self, allocation, source.shape, source.dtype)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32, *, name: str | None = None) -> Buffer:
        """Allocate memory for an array and write nothing to it: its bits are undefined.

        Parameters
        ----------
        shape, dtype : of the array
        name : what findings call the memory

        Examples
        --------
        >>> device = Device("sm_100a")
        >>> device.empty((2, 3), np.int8)
        <Buffer int8[2, 3] at 0x801000000000>
        """
        kind, sizes = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
        if kind.hasobject or any(size < 0 for size in sizes):
            raise refuse("A306", f"there is no array of {kind}{list(sizes)} in device memory")
        nbytes = prod(sizes) * kind.itemsize
        allocation = self.memory.allocate(nbytes, name or f"buffer {kind}{list(sizes)}", written=False)
        allocation.arrays = (_array_place(name or "buffer", allocation, sizes, kind),)
        return Buffer(self, allocation, sizes, kind)

    def read_by_host(self, address: int, size: int) -> None:
        """Report undefined bits in a range of one allocation, which the host reads: once for each origin."""
        for origin in self.memory.undefined(address, size):
            if origin.text not in self._read:
                self._read.add(origin.text)
                self.diagnostics.append(origin.found)
                warnings.warn(str(origin.found), UndefinedValueWarning, stacklevel=3)

    def use_memory(self, memory: DeviceMemory) -> None:
        """Continue in other memory: buffers and the variables of modules move there, to other addresses."""
        moved = {allocation.base: allocation for allocation in self.memory.live()}
        for allocation in moved.values():
            memory.take(allocation)
        for addresses in self._modules.values():
            addresses.update({name: moved[address].base for name, address in addresses.items()})
        self.memory, self.left = memory, None

    def module_addresses(self, module: Module) -> dict[str, int]:
        """Return the addresses of a module's global and const variables; they are allocated on first use."""
        found = self._modules.get(module)
        if found is None:
            from ptxlab.machine.memory.variables import find_variables, place_variables

            defined = _VARIABLES.get(module)
            if defined is None:
                defined = _VARIABLES[module] = find_variables(module.ast)
            found = self._modules[module] = place_variables(self.memory, module.ast, defined)
        return found

    def unload(self, module: Module) -> None:
        """Free the variables of a module."""
        for address in self._modules.pop(module, {}).values():
            allocation = self.memory.find(address)
            if allocation is not None and allocation.base == address:
                self.memory.free(allocation)
