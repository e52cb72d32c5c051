"""Arrays of every library as NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayError", "array_of", "bytes_of", "is_host_memory", "set_host_view"]


class ArrayError(TypeError):
    """An array-like object whose memory cannot be had; ``fix`` says what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


def array_of(value: Any, *, copies: bool = False) -> NDArray[Any] | None:
    """The array behind a NumPy array, a torch tensor, or an object with ``__array__`` or ``__dlpack__``; None for anything else.

    It shares the object's memory, and has its element type if NumPy or ml_dtypes knows it, else unsigned words of its size. ``copies``
    permits an object that gives no more than copies.

    Raises
    ------
    ArrayError
        if the memory cannot be shared

    Examples
    --------
    >>> array_of(np.zeros(3, np.float32))
    array([0., 0., 0.], dtype=float32)
    >>> array_of(3.5) is None
    True
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, type)):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_array(torch, value)
    ways: list[Any] = [np.asarray] if hasattr(value, "__array__") or hasattr(value, "__array_interface__") else []
    if hasattr(value, "__dlpack__"):
        from ptxlab.formats.dlpack import dlpack_view

        ways.append(dlpack_view)
    return _shared(value, ways, copies) if ways else None


def _shared(value: Any, ways: list[Any], copies: bool) -> NDArray[Any]:
    """What the first way gives that does not copy."""
    first: NDArray[Any]
    failure: Exception | None = None
    for way in ways:
        try:
            first, second = way(value), way(value)
        except Exception as error:
            failure = error
            continue
        if copies or not first.size or first.ctypes.data == second.ctypes.data:
            return first
    kind = type(value).__name__
    if failure is not None:
        raise ArrayError(f"{kind} does not give a NumPy array: {failure}")
    raise ArrayError(f"{kind} gives copies of its data, so that results could not be written back", "pass a NumPy array")


_host_views: dict[str, Callable[[Any], Any]] = {}
"""For types of torch devices whose memory is the computer's: what gives a CPU tensor over the memory of a tensor."""


def set_host_view(device_type: str, view: Callable[[Any], Any]) -> None:
    """Say that tensors of a torch device are in the computer's memory; ``view`` gives a CPU tensor over the memory of one."""
    _host_views[device_type] = view


def is_host_memory(tensor: Any) -> bool:
    """Whether the memory of a torch tensor is the computer's."""
    return tensor.device.type == "cpu" or tensor.device.type in _host_views


_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def _torch_array(torch: Any, value: Any) -> NDArray[Any]:
    if not is_host_memory(value):
        raise ArrayError(f"a torch tensor on {value.device}; only CPU tensors can be used", "call .cpu() first")
    if value.device.type != "cpu":
        value = _host_views[value.device.type](value.detach())
    for state, method in ((value.is_conj(), "resolve_conj"), (value.is_neg(), "resolve_neg")):
        if state:
            raise ArrayError("a torch tensor whose memory holds other values than it shows", f"call .{method}() first")
    tensor, name = value.detach(), str(value.dtype).removeprefix("torch.")
    try:
        if hasattr(np, name):
            found: NDArray[Any] = tensor.numpy()
            return found
        words: NDArray[Any] = tensor.view(getattr(torch, _WORDS[tensor.element_size()])).numpy()
    except (TypeError, RuntimeError, KeyError):
        layout = "" if value.layout == torch.strided else f" and layout {value.layout}"
        raise ArrayError(f"a torch tensor of {value.dtype}{layout} cannot be used") from None
    if not name.startswith(("bfloat", "float8")):
        return words
    import ml_dtypes

    return words.view(getattr(ml_dtypes, name))


def bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array's elements, row by row; a view where the array is contiguous.

    Examples
    --------
    >>> bytes_of(np.array([[1, 2], [3, 4]], "<u2").T).tolist()
    [1, 0, 3, 0, 2, 0, 4, 0]
    """
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
