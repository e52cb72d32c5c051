"""A DLPack capsule over any address: how CuTe DSL gets to know a tensor in simulated device memory."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any

from ptxlab.formats.dlpack import Tensor

__all__ = ["DeviceArray"]

_CUDA, _UNSIGNED = 2, 1


class _Managed(ctypes.Structure):
    """``DLManagedTensor``; without a deleter, since the owner outlives the capsule."""

    _fields_ = (("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p))


class DeviceArray:
    """Elements of ``itemsize`` bytes at a device address; strides in elements. It must outlive what is made from it."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        rank = len(shape)
        self._extents = (c_int64 * rank)(*shape), (c_int64 * rank)(*strides)
        self._managed = _Managed(Tensor(address, _CUDA, 0, rank, _UNSIGNED, 8 * itemsize, 1, *self._extents, 0), None, None)

    def __dlpack__(self, stream: object = None) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (c_void_p, ctypes.c_char_p, c_void_p)
        return new(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, 0
