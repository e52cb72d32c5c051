"""What one step takes from memory to memory, in one call of compiled code: operands gathered and prepared, products, cells put back.

A chain is a table of int64 rows that compiled code goes through. Memory is named by a base, whose host address each call gives, and an
offset behind it; base 0 is for host addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.native import address_of

__all__ = ["AccumulatorRef", "MmaProgram", "OperandGather"]

_WORDS = 12
_GATHER, _PREPARE, _MULTIPLY, _SCATTER = range(4)
# The whole chain keeps the interpreter's lock, so that no two calls share the buffers that it works in.
_RUN = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)


class OperandGather(NamedTuple):
    """Where the codes of an operand are: units of ``unit`` bytes, ``order`` counts them from ``offset`` behind ``base``.

    ``over_rows`` and ``over_k`` are the bytes from row to row and from k to k once the units stand behind each other.
    """

    base: int
    offset: int
    order: NDArray[np.int64]
    unit: int
    over_rows: int
    over_k: int


class AccumulatorRef(NamedTuple):
    """Where the accumulator's uint32 cells [n, m] are, ``offset`` behind ``base``.

    Every ``stride`` bytes a line of m cells; or, with an ``order``, in units of 16 cells.
    """

    base: int
    offset: int
    stride: int
    order: NDArray[np.int64] | None = None


class MmaProgram:
    """See the module; `MmaKernel.program` makes it."""

    __slots__ = ("_address", "_call", "_count", "_keep")

    def __init__(self, rows: Iterable[tuple[int, ...]], *keep: object) -> None:
        found = [(*row, *[0] * (_WORDS - len(row))) for row in rows]
        table = np.array(found, np.int64)
        self._address, self._count, self._keep = address_of(table), len(found), (table, *keep)
        self._call = mma_program_function()

    def run(self, bases: int, accumulate: bool, scale_input_d: int) -> None:
        """Carry it out, given the host address of the int64 bases; accumulate and scale_input_d as for `mma`."""
        self._call(self._address, self._count, bases, -1 if accumulate else 0, scale_input_d)


CELL_UNIT = 64
"""Bytes of 16 cells."""


def gather(place: OperandGather | AccumulatorRef, unit: int, scratch: NDArray[np.uint8]) -> tuple[int, ...]:
    """The row that brings units which stand apart together."""
    return _GATHER, native.gatherer(unit), *_moved(place, scratch)


def scatter(place: AccumulatorRef, unit: int, scratch: NDArray[np.uint8]) -> tuple[int, ...]:
    """The row that takes them back."""
    return _SCATTER, native.scatterer(unit), *_moved(place, scratch)


def _moved(place: OperandGather | AccumulatorRef, scratch: NDArray[np.uint8]) -> tuple[int, ...]:
    assert place.order is not None
    return place.base, place.offset, address_of(place.order), place.order.size, address_of(scratch)


def prepare(function: int, role: str, source: OperandGather, scratch: NDArray[np.uint8], ready: Any, flip: int) -> tuple[int, ...]:
    """The row that prepares gathered codes."""
    over_rows, over_k, rows, k = source.over_rows, source.over_k, ready.rows, ready.k
    lines = (over_k, over_rows, k, rows) if role == "a" else (over_rows, over_k, rows, k)
    return _PREPARE, function, 0, address_of(scratch), *lines, ready.padded, ready.address, flip


def multiply(function: int, base: int, offset: int, stride: int, a: Any, b: Any, option: int) -> tuple[int, ...]:
    """The row that multiplies prepared operands into cells."""
    return _MULTIPLY, function, base, offset, stride, a.rows, b.rows, a.k, a.address, b.address, option


@cache
def mma_program_function() -> Any:
    """The compiled function that carries out chains."""
    library = native.compile_ir(_ir(), ["chain"], opt=1)
    _kept.append(library)
    return _RUN(library.address("chain"))


_kept: list[object] = []


def _ir() -> str:
    """``void chain(ptr rows, i64 count, ptr bases, i32 room, i32 scale)``."""
    words = "".join(f"  %p{i} = getelementptr i64, ptr %row, i64 {i}\n  %w{i} = load i64, ptr %p{i}, align 8\n" for i in range(_WORDS))
    pointers = "".join(f"  %a{i} = inttoptr i64 %w{i} to ptr\n" for i in range(1, _WORDS))
    return f"""
define void @chain(ptr %rows, i64 %count, ptr %bases, i32 %room, i32 %scale) nounwind {{
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %done ]
  %first = mul i64 %i, {_WORDS}
  %row = getelementptr i64, ptr %rows, i64 %first
{words}{pointers}  %base.at = getelementptr i64, ptr %bases, i64 %w2
  %base = load i64, ptr %base.at, align 8
  %whole = add i64 %base, %w3
  %memory = inttoptr i64 %whole to ptr
  switch i64 %w0, label %done [ i64 {_GATHER}, label %gather
    i64 {_PREPARE}, label %prepare
    i64 {_MULTIPLY}, label %multiply
    i64 {_SCATTER}, label %scatter ]
gather:
  call void %a1(ptr %memory, ptr %a4, ptr %a6, i64 %w5)
  br label %done
prepare:
  %flip = trunc i64 %w10 to i32
  call void %a1(ptr %memory, i64 %w4, i64 %w5, i64 %w6, i64 %w7, i64 %w8, ptr %a9, i32 %flip)
  br label %done
multiply:
  %option = trunc i64 %w10 to i32
  call void %a1(ptr %memory, i64 %w4, i64 %w5, i64 %w6, i64 %w7, ptr %a8, ptr %a9, i32 %room, i32 %option, i32 %scale)
  br label %done
scatter:
  call void %a1(ptr %a6, ptr %memory, ptr %a4, i64 %w5)
  br label %done
done:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""
