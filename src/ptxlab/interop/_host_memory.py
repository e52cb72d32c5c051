"""Host memory as device memory, at the host's own addresses: nothing is copied, and tensors may hold pointers."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.cuda import Driver, install
from ptxlab.cuda.calls import host_call
from ptxlab.formats import ArrayError, array_of, is_host_memory
from ptxlab.interop.session import current
from ptxlab.machine.launch.arguments import as_array
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.memory.elements import ArrayPlace
from ptxlab.machine.replay.replay import Placed

__all__ = [
    "HostArray",
    "HostMemory",
    "arrays_among",
    "call_in_session",
    "call_of_program",
    "host_argument",
    "memory_of",
    "placed",
    "registered",
    "registered_arguments",
]

_FIRST_ADDRESS, _HOST_END = 0xFFFF, 1 << 47
"""Addresses of host memory lie between these."""


class HostArray:
    """A NumPy array with the methods that a pointer argument has."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.dtype = array.dtype
        self.shape = array.shape

    @classmethod
    def zeros(cls, size: int) -> HostArray:
        """Zeroed bytes."""
        return cls(np.zeros(size, np.int8))

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]


def host_argument(value: Any) -> Any:
    """Convert an argument: an array gets the methods of a pointer argument, NumPy numbers become Python numbers, also in tuples."""
    if isinstance(value, tuple):
        parts = map(host_argument, value)
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


@dataclass(frozen=True, slots=True)
class HostMemory:
    """A range of host memory that holds an argument.

    Attributes
    ----------
    low, high : host addresses
    name : what findings call it
    words : the 64-bit words that may be pointers to further memory, or None
    arrays : the argument, as an array
    """

    low: int
    high: int
    name: str
    writable: bool = True
    words: NDArray[Any] | None = None
    arrays: tuple[ArrayPlace, ...] = ()


def _parts(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Named arguments, with its parts in place of each tuple."""
    for name, value in values:
        if isinstance(value, tuple):
            yield from _parts((f"{name}[{index}]", part) for index, part in enumerate(value))
        else:
            yield name, value


def _described_tensor(value: Any) -> Any:
    """The tensor or array that a host descriptor is made of; anything else as it is."""
    while not hasattr(value, "untyped_storage") and not isinstance(value, (HostArray, int)) and hasattr(value, "base"):
        value = value.base
    return value


def arrays_among(values: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The arrays and tensors among named arguments: numbers are left out, and are no addresses then."""
    return [each for each in _parts(values) if isinstance(each[1], HostArray) or hasattr(_described_tensor(each[1]), "untyped_storage")]


def placed(values: Iterable[tuple[str, Any]]) -> Iterator[Placed]:
    """The arrays among named arguments, where they lie."""
    for name, value in _parts(values):
        found = _described_tensor(value)
        array = found.array if isinstance(found, HostArray) else as_array(found, name)
        if array is not None:
            yield Placed.of(name, array)


def memory_of(value: Any, name: str) -> HostMemory | None:
    """The memory behind a pointer argument: the whole storage of a tensor, the whole array of a view; None for numbers."""
    value = _described_tensor(value)
    if hasattr(value, "untyped_storage"):
        return _of_tensor(value, f"argument {name}")
    if isinstance(value, HostArray):
        return _of_array(value.array, f"argument {name}")
    if not hasattr(value, "data_ptr"):
        return None
    raise refuse(
        "I302",
        f"argument {name}: a {type(value).__name__} has an address, but the size of its memory is not known",
        fix="pass a torch tensor or a NumPy array",
    )


def _of_tensor(tensor: Any, name: str, reads_words: bool = True) -> HostMemory:
    if not is_host_memory(tensor):
        raise refuse("I302", f"{name}: a torch tensor on {tensor.device}; ptxlab runs on CPU tensors", fix="call .cpu() first")
    storage = tensor.untyped_storage()
    low, size = storage.data_ptr(), storage.nbytes()
    pointers = reads_words and str(tensor.dtype) in ("torch.int64", "torch.uint64")
    array = as_array(tensor.detach(), name) if pointers else None
    words = None if array is None else np.ravel(array)
    dtype, itemsize = str(tensor.dtype).removeprefix("torch."), tensor.element_size()
    strides = tuple(step * itemsize for step in tensor.stride())
    place = ArrayPlace(name.removeprefix("argument "), tensor.data_ptr(), dtype, itemsize, tuple(tensor.shape), strides)
    return HostMemory(low, low + size, _title(name, dtype, tensor.shape), words=words, arrays=(place,))


def _of_array(array: NDArray[Any], name: str) -> HostMemory:
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = np.lib.array_utils.byte_bounds(root)
    words = np.ravel(array) if array.dtype in (np.int64, np.uint64) else None
    place = ArrayPlace(name.removeprefix("argument "), int(array.ctypes.data), str(array.dtype), array.itemsize, array.shape, array.strides)
    return HostMemory(low, high, _title(name, str(array.dtype), array.shape), array.flags.writeable, words, (place,))


def _title(name: str, dtype: str, shape: Iterable[int]) -> str:
    return f"{name} ({dtype}[{', '.join(map(str, shape))}])"


def _reached(pieces: list[HostMemory], numbers: list[int]) -> list[HostMemory]:
    """The tensors that addresses in memory or in numbers point into, as in a table of pointers."""
    words = [np.array([n for n in numbers if 0 <= n < 1 << 64], np.uint64)]
    words += [piece.words.view(np.uint64) for piece in pieces if piece.words is not None]
    found = np.concatenate(words)
    addresses = np.unique(found[(found > _FIRST_ADDRESS) & (found < _HOST_END)])
    if not addresses.size:
        return []
    return [m for m in _live() if np.searchsorted(addresses, m.low) < np.searchsorted(addresses, m.high)]


def _live() -> Iterator[HostMemory]:
    """The memory of every tensor that the program holds."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    plain = (torch.Tensor, torch.nn.Parameter)
    for thing in gc.get_objects():
        if type(thing) in plain and thing.layout == torch.strided and is_host_memory(thing):
            yield _of_tensor(thing, "tensor behind a pointer")


def _merged(pieces: list[HostMemory]) -> list[HostMemory]:
    """Merge overlapping ranges."""
    merged: list[HostMemory] = []
    for piece in sorted((p for p in pieces if p.high > p.low), key=lambda p: p.low):
        last = merged[-1] if merged else None
        if last is not None and piece.low < last.high:
            name = last.name if piece.name in last.name else f"{last.name}, {piece.name}"
            arrays = tuple(dict.fromkeys((*last.arrays, *piece.arrays)))
            merged[-1] = HostMemory(last.low, max(last.high, piece.high), name, last.writable or piece.writable, arrays=arrays)
        else:
            merged.append(piece)
    return merged


def _reached_memory(values: Iterable[tuple[str, Any]]) -> list[HostMemory]:
    """The memory of arguments, with the tensors that pointers in them point to.

    Parameters
    ----------
    values : names and arguments; numbers may be addresses too
    """
    pairs = list(values)
    pieces = [memory for name, value in pairs if (memory := memory_of(value, name)) is not None]
    return _merged(pieces + _reached(pieces, [value for _, value in pairs if isinstance(value, int)]))


@contextmanager
def registered(driver: Driver, pieces: list[HostMemory]) -> Iterator[None]:
    """Register host memory with the driver, at its addresses, until all launches have ended."""
    if not pieces:
        yield
        return
    library, known = driver.library, driver.bridge.memory
    for piece in pieces:
        library.ptxlab_heap_register(piece.low, piece.high - piece.low)
    known.update()
    for piece in pieces:
        known.describe(piece.low, piece.name, piece.arrays, piece.writable)
    try:
        yield
    finally:
        driver.synchronize()
        for piece in pieces:
            library.ptxlab_heap_unregister(piece.low)


def registered_arguments(driver: Driver, values: Iterable[tuple[str, Any]]) -> AbstractContextManager[None]:
    """Register the host memory of arguments, with the tensors that pointers in them point to; what the driver has allocated is known."""
    driver.bridge.memory.update()
    return registered(driver, _reached_memory(argument for argument in _parts(values) if not _is_known(driver, *argument)))


def _is_known(driver: Driver, name: str, value: Any) -> bool:
    """Whether the driver has allocated what a tensor or an address stands for; a tensor that has all of it gives it the argument's name."""
    value = _described_tensor(value)
    is_tensor = hasattr(value, "untyped_storage") and value.device.type == "cuda"
    address = value.untyped_storage().data_ptr() if is_tensor else value
    allocation = driver.bridge.memory.containing(address) if isinstance(address, int) else None
    if is_tensor and allocation is not None and allocation.base == address:
        found = _of_tensor(value, f"argument {name}", reads_words=False)
        allocation.name, allocation.arrays = found.name, found.arrays
    return allocation is not None


@contextmanager
def call_in_session(values: list[tuple[str, Any]]) -> Iterator[Driver]:
    """Call host code whose launches are those of the current session; the memory of its arguments is the device's meanwhile."""
    session, driver = current(), install()
    with (
        session.with_arrays(placed(values)),
        host_call(driver, session.device, session.launch),
        registered_arguments(driver, values),
    ):
        yield driver


@contextmanager
def call_of_program(values: list[tuple[str, Any]]) -> Iterator[None]:
    """Call host code of a program; memory of the host that its arguments are in is the device's until its launches have ended."""
    session, driver = current(), install()
    with session.with_arrays(placed(values)), registered_arguments(driver, values):
        yield
        if session.arrays:
            driver.synchronize()
