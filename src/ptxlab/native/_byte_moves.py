"""Addresses of arrays, and compiled gathers and scatters of bytes in units of a fixed size."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.native._compile import Library, compile_or_load
from ptxlab.native.builder import Function, Module

__all__ = ["address_of", "callback_address", "move_address", "mover"]

_UNITS = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>", 64: "<8 x i64>"}
"""Size of a unit in bytes -> the LLVM type that moves it."""


def _move_ir(size: int) -> str:
    """``void move(from, from_order, to, to_order, count)``."""
    module, unit = Module(), _UNITS[size]
    code = Function(module, "move", "void", "ptr from, ptr from_order, ptr to, ptr to_order, i64 count")
    with code.loop(code["count"]) as i:
        source, target = (code[side].at(code[f"{side}_order"].load("i64", i), unit) for side in ("from", "to"))
        target.store(source.load(unit, align=1), align=1)
    return module.finish()


@cache
def _library(size: int) -> Library:
    return compile_or_load(("move", size), ("move",), lambda: _move_ir(size), opt=1, light=True)


def move_address(unit: int) -> int:
    """The host address of the function that `mover` returns."""
    return _library(unit).address("move")


@cache
def mover(unit: int) -> Any:
    """``move(from, from_order, to, to_order, count)`` on host addresses: unit ``to_order[i]`` becomes unit ``from_order[i]``.

    Orders are int64, units of 1, 2, 4, 8, 16 or 64 bytes, and neither need be aligned.

    Examples
    --------
    >>> import numpy as np
    >>> from ptxlab.native import address_of
    >>> numbers, moved = np.arange(4, dtype=np.uint32), np.zeros(4, np.uint32)
    >>> sources, targets = np.array([3, 1]), np.array([0, 2])
    >>> mover(4)(*map(address_of, (numbers, sources, moved, targets)), 2)
    >>> moved.tolist()
    [3, 0, 1, 0]
    """
    return _library(unit).function("move", None, *[ctypes.c_void_p] * 4, ctypes.c_int64)


_word = ctypes.c_size_t.from_address
_DATA = object.__basicsize__
_PROBE = np.empty(4, np.uint8)[1::2]
_IS_FIRST = _word(id(_PROBE) + _DATA).value == _PROBE.ctypes.data
"""Whether the pointer to the first element is the first field after what every object begins with, as in all versions of NumPy so far."""


def callback_address(callback: Any) -> int:
    """The address that compiled code calls for a callback of ctypes, which must be kept alive.

    What ``ctypes.cast(callback, ctypes.c_void_p).value`` says, in a sixth of the time; launches make callbacks of their own.

    Examples
    --------
    >>> import ctypes
    >>> twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda number: 2 * number)
    >>> ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(callback_address(twice))(21)
    42
    """
    return _word(ctypes.addressof(callback)).value


def address_of(array: NDArray[Any]) -> int:
    """The host address of an array's first element, bytes.

    What ``array.ctypes.data`` says, which makes several objects to say it; compiled code is called with addresses all the time.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.arange(6).reshape(2, 3)
    >>> address_of(numbers[1]) - address_of(numbers)
    24
    """
    return _word(id(array) + _DATA).value if _IS_FIRST else int(array.ctypes.data)
