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
_JOIN = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_VECTOR = f"<{_LANES} x i32>"
_IR = f"""
declare {_VECTOR} @llvm.umax.v{_LANES}i32({_VECTOR}, {_VECTOR})

define void @join_clocks(ptr %rows, i64 %warps, i64 %stride, ptr %all, i64 %count) nounwind {{
  br label %column
column:
  %i = phi i64 [ 0, %0 ], [ %i.next, %stored ]
  %first = getelementptr i32, ptr %rows, i64 %i
  br label %gather
gather:
  %w = phi i64 [ 0, %column ], [ %w.next, %gather ]
  %most = phi {_VECTOR} [ zeroinitializer, %column ], [ %more, %gather ]
  %skip = mul i64 %w, %stride
  %at = getelementptr i8, ptr %first, i64 %skip
  %here = load {_VECTOR}, ptr %at, align 4
  %more = call {_VECTOR} @llvm.umax.v{_LANES}i32({_VECTOR} %most, {_VECTOR} %here)
  %w.next = add i64 %w, 1
  %w.again = icmp slt i64 %w.next, %warps
  br i1 %w.again, label %gather, label %joined
joined:
  %to = getelementptr i32, ptr %all, i64 %i
  store {_VECTOR} %more, ptr %to, align 4
  br label %spread
spread:
  %v = phi i64 [ 0, %joined ], [ %v.next, %spread ]
  %past = mul i64 %v, %stride
  %place = getelementptr i8, ptr %first, i64 %past
  store {_VECTOR} %more, ptr %place, align 4
  %v.next = add i64 %v, 1
  %v.again = icmp slt i64 %v.next, %warps
  br i1 %v.again, label %spread, label %stored
stored:
  %i.next = add i64 %i, {_LANES}
  %i.again = icmp slt i64 %i.next, %count
  br i1 %i.again, label %column, label %end
end:
  ret void
}}
"""


@cache
def join_clocks_function() -> tuple[Any, native.Library]:
    """The function, compiled or from the cache, and the library that keeps it."""
    library = native.compile_ir(_IR, ["join_clocks"], opt=1)
    return _JOIN(library.address("join_clocks")), library


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
        self._call, _ = join_clocks_function()

    def join(self) -> NDArray[np.uint32]:
        """Raise the clocks of all warps to their componentwise maximum, which is returned."""
        made = np.empty(self._rows.shape[1:], np.uint32)
        self._call(*self._where, address_of(made), made.size)
        return made
