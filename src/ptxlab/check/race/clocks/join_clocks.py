"""Joins the clocks of neighbouring warps at a barrier in one call of compiled code."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.native import address_of

__all__ = ["Block", "join_clocks_function"]

_LANES = 16
"""Clocks at a time; the width of the rows is a multiple."""


def _join_ir() -> str:
    """``void join(rows, warps, stride, known, count)``."""
    module, clocks = native.Module(), native.vector("i32", _LANES)
    code = native.Function(module, "join", "void", "ptr rows, i64 warps, i64 stride, ptr known, i64 count")
    with code.loop(code["count"], _LANES, entered=True) as i:
        latest, first = code.variable(clocks, 0), code["rows"].at(i, "i32")
        with code.loop(code["warps"], entered=True) as warp:
            latest.set(latest.get().intrinsic("umax", first.at(warp * code["stride"]).load(clocks)))
        code["known"].store(latest.get(), i)
        with code.loop(code["warps"], entered=True) as warp:
            first.at(warp * code["stride"]).store(latest.get())
    return module.text()


@cache
def join_clocks_function() -> Any:
    """The function, compiled or from the cache."""
    library = native.compile_ir(_join_ir(), ["join"], opt=1)
    return library.function("join", None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class Block:
    """The clocks of neighbouring warps at a barrier: uint32[warps, row, clock], each warp's rows contiguous.

    Examples
    --------
    >>> rows = np.zeros((2, 4, 64), np.uint32)
    >>> rows[0, 1, 5], rows[1, 1, 6] = 7, 8
    >>> Block(rows).join()[1, 4:8].tolist(), rows[0, 1, 4:8].tolist()
    ([0, 7, 8, 0], [0, 7, 8, 0])
    """

    __slots__ = ("_call", "_rows", "_where")

    def __init__(self, rows: NDArray[np.uint32]) -> None:
        self._rows = rows
        self._where = address_of(rows), len(rows), rows.strides[0]
        self._call = join_clocks_function()

    def join(self) -> NDArray[np.uint32]:
        """Raise the clocks of all warps to their componentwise maximum, which is returned."""
        made = np.empty(self._rows.shape[1:], np.uint32)
        self._call(*self._where, address_of(made), made.size)
        return made
