"""DLPack: the memory of another library's array as a NumPy array over it, of every element type that NumPy can hold with ml_dtypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DeviceArray", "dlpack_view", "strided_view"]

_CUDA = 2
_HOST = (1, 3)
"""Devices whose memory the computer addresses: its own, and what it has pinned for CUDA."""
_COMPLEX, _BOOL = 5, 6
_NUMPY = {0: "i", 1: "u", 2: "f", _COMPLEX: "c"}
_ML_DTYPES = {
    4: "bfloat16", 7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
    12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip
"""Type codes of DLPack with types of ml_dtypes."""
_READ_ONLY, _COPIED = 1, 2


class _Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``; the older form starts with the tensor."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


class _Managed(ctypes.Structure):
    """``DLManagedTensor``; without a deleter, since the owner outlives the capsule."""

    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_name = ctypes.PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def dlpack_view(value: Any) -> NDArray[Any]:
    """The elements behind ``__dlpack__``, sharing their memory; the array keeps them alive.

    Raises
    ------
    BufferError
        if they are elsewhere, or of a type that no array has

    Examples
    --------
    >>> owner = np.arange(6).reshape(2, 3)
    >>> dlpack_view(owner)[:, 1:]
    array([[1, 2],
           [4, 5]])
    >>> np.shares_memory(owner, dlpack_view(owner))
    True
    """
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] not in _HOST:
        raise BufferError("its memory is not the computer's")
    try:
        capsule = value.__dlpack__(max_version=(1, 1))
    except TypeError:  # from before DLPack had versions
        capsule = value.__dlpack__()
    name = _name(capsule)
    address = _pointer(capsule, name)
    if name == b"dltensor":
        return _view(_Tensor.from_address(address), capsule, 0)
    held = _Versioned.from_address(address)
    if held.major != 1:
        raise BufferError(f"DLPack {held.major}.{held.minor} is unknown")
    return _view(held.tensor, capsule, held.flags)


def _view(tensor: _Tensor, capsule: Any, flags: int) -> NDArray[Any]:
    if flags & _COPIED:
        raise BufferError("DLPack gives a copy of its data")
    if tensor.device_type not in _HOST:
        raise BufferError("its memory is not the computer's")
    dtype = _dtype(tensor)
    shape = tuple(tensor.shape[: tensor.rank])
    steps = tensor.strides[: tensor.rank] if tensor.strides else [prod(shape[axis + 1 :]) for axis in range(tensor.rank)]
    strides = [step * dtype.itemsize for step in steps]
    array = strided_view(tensor.data + tensor.byte_offset, shape, strides, dtype, capsule)  # the capsule gives the memory back when it goes
    array.flags.writeable = not flags & _READ_ONLY
    return array


def strided_view(address: int, shape: Sequence[int], strides: Sequence[int], dtype: Any, owner: object = None) -> NDArray[Any]:
    """Memory of this process as an array, whose first element is at ``address``; strides in bytes, which may be negative.

    Examples
    --------
    >>> numbers = np.arange(6, dtype=np.int32)
    >>> strided_view(numbers.ctypes.data + 20, (2, 3), (-12, -4), np.int32, numbers)
    array([[5, 4, 3],
           [2, 1, 0]], dtype=int32)
    """
    element = np.dtype(dtype)
    if not all(shape):
        return np.empty(shape, element)
    spans = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    low, high = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans) + element.itemsize
    memory: Any = (c_uint8 * (high - low)).from_address(address + low)
    memory.owner = owner
    return np.ndarray(shape, element, memory, -low, strides)


class DeviceArray:
    """An array at a device address, for libraries that take DLPack. It must outlive what is made from it.

    Parameters
    ----------
    address : of the first element
    shape, strides : strides in bytes, which are multiples of the size of an element
    dtype : of NumPy or ml_dtypes

    Raises
    ------
    BufferError
        if DLPack has no such elements
    """

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> None:
        rank, size = len(shape), dtype.itemsize
        self._extents = (c_int64 * rank)(*shape), (c_int64 * rank)(*(step // size for step in strides))
        self._managed = _Managed(_Tensor(address, _CUDA, 0, rank, _code(dtype), 8 * size, 1, *self._extents, 0), None, None)

    def __dlpack__(self, stream: object = None) -> Any:
        return _new(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0


def _code(dtype: np.dtype[Any]) -> int:
    """The code of a type of elements."""
    codes = {name: code for table in (_NUMPY, _ML_DTYPES) for code, name in table.items()} | {"b": _BOOL}
    code = codes.get(dtype.name, codes.get(dtype.kind))
    if code is None:
        raise BufferError(f"DLPack has no elements of type {dtype}")
    return code


def _dtype(tensor: _Tensor) -> np.dtype[Any]:
    """The type of the elements; bytes and words for those that NumPy cannot name."""
    bits = tensor.bits * tensor.lanes
    if bits not in (8, 16, 32, 64) and (tensor.code, bits) != (_COMPLEX, 128):
        raise BufferError(f"its elements have {bits} bits")
    if tensor.lanes == 1 and tensor.code in _ML_DTYPES:
        import ml_dtypes

        known: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[tensor.code]))
        return known
    if tensor.lanes == 1 and tensor.code == _BOOL:
        return np.dtype(bool)
    kind = _NUMPY.get(tensor.code, "u") if tensor.lanes == 1 else "u"
    try:
        return np.dtype(f"{kind}{bits // 8}")
    except TypeError:
        return np.dtype(f"u{bits // 8}")
