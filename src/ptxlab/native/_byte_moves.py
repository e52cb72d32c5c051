"""Compiled moves of bytes that stand in units apart."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ptxlab.native._compile import Library, compile_ir

__all__ = ["gatherer", "mover", "scatterer"]

_UNITS = {4: "i32", 8: "i64", 16: "<2 x i64>", 64: "<8 x i64>"}
"""Bytes that stay together, and what moves them."""
# The calls are short, so they keep the interpreter's lock.
_MOVE = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)


def _function(name: str, parameters: str, unit: str, source: str, target: str) -> str:
    """A loop over ``%i``; ``source`` and ``target`` name the registers that hold the index on either side."""

    def index(register: str) -> str:
        return "" if register == "i" else f"  %{register} = load i64, ptr %{register}.at, align 8\n"

    def place(register: str) -> str:
        return "" if register == "i" else f"  %{register}.at = getelementptr i64, ptr %{register}.order, i64 %i\n"

    return f"""
define void @{name}({parameters}, i64 %count) nounwind {{
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
{place(source)}{place(target)}{index(source)}{index(target)}  %from.at = getelementptr {unit}, ptr %from, i64 %{source}
  %to.at = getelementptr {unit}, ptr %to, i64 %{target}
  %value = load {unit}, ptr %from.at, align 1
  store {unit} %value, ptr %to.at, align 1
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


@cache
def _library(size: int) -> Library:
    functions = (
        ("gather", "ptr %from, ptr %s.order, ptr %to", "s", "i"),
        ("scatter", "ptr %from, ptr %to, ptr %t.order", "i", "t"),
        ("move", "ptr %from, ptr %s.order, ptr %to, ptr %t.order", "s", "t"),
    )
    text = (_function(name, parameters, _UNITS[size], source, target) for name, parameters, source, target in functions)
    return compile_ir("".join(text), [name for name, *_ in functions], opt=1)


def gatherer(unit: int) -> int:
    """Address of ``gather(from, order, to, count)``: the i-th unit of ``unit`` bytes of ``to`` becomes unit ``order[i]`` of ``from``."""
    return _library(unit).address("gather")


def scatterer(unit: int) -> int:
    """Address of ``scatter(from, to, order, count)``: unit ``order[i]`` of ``to`` becomes the i-th of ``from``."""
    return _library(unit).address("scatter")


@cache
def mover(unit: int) -> Any:
    """``move(from, from_order, to, to_order, count)`` on host addresses: unit ``to_order[i]`` becomes unit ``from_order[i]``.

    Orders are int64, units of 4, 8, 16 or 64 bytes, and neither need be aligned.

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
    return _MOVE(_library(unit).address("move"))
