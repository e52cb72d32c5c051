"""The joining of the vector clocks of all warps of a CTA in compiled code."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab._records import dataclass
from ptxlab.check.model import Component

__all__ = ["CtaJoin", "JoinWord", "join_warps_function"]

_LANES = 16
"""Clocks that compiled code joins at a time; the width of the rows is a multiple."""


class JoinWord(IntEnum):
    """The words that describe the clocks of neighbouring warps to compiled code. Distances are in bytes."""

    ROWS = 0
    """the address of the rows of the first warp"""
    WARPS = 1
    STRIDE = 2
    """the distance from one warp's rows to the next"""
    KNOWN = 3
    """where the maximum goes"""
    COUNT = 4
    """the clocks of each warp that are joined"""
    OWN = 5
    """the distance of the first warp's own clock from its rows; those of the following warps are one slot further on each"""
    TENSOR = 6
    """the distance from there to the same clock in the row `Row.TENSOR`"""
    END = 7


def _join_ir() -> str:
    """``void join(about)``: join neighbouring warps (`JoinWord`), and advance each one's clock."""
    module, clocks = native.Module(), native.vector("i32", _LANES)
    code = native.Function(module, "join", "void", "ptr about")
    about = code["about"]
    rows, known = about.pointer(JoinWord.ROWS), about.pointer(JoinWord.KNOWN)
    warps, stride = about.word(JoinWord.WARPS), about.word(JoinWord.STRIDE)
    own, tensor = about.word(JoinWord.OWN), about.word(JoinWord.TENSOR)
    with code.loop(about.word(JoinWord.COUNT), _LANES, entered=True) as i:
        latest, first = code.variable(clocks, 0), rows.at(i, "i32")
        with code.loop(warps, entered=True) as warp:
            latest.set(latest.get().intrinsic("umax", first.at(warp * stride).load(clocks)))
        known.store(latest.get(), i)
        with code.loop(warps, entered=True) as warp:
            first.at(warp * stride).store(latest.get())
    with code.loop(warps, entered=True) as warp:
        done = rows.at(own + warp * (stride + 4 * len(Component)))
        clock = done.load("i32") + 1
        for place in (done, done.at(4), done.at(tensor + 4)):
            place.store(clock)
    return module.finish()


@dataclass(slots=True, eq=False)
class CtaJoin:
    """How compiled code joins the clocks of the warps of a CTA.

    ``about`` are the words of `JoinWord`, ``address`` is theirs, ``known`` takes the maximum.
    """

    about: memoryview
    address: int
    known: NDArray[np.uint32]

    @classmethod
    def new(cls) -> CtaJoin:
        """Words that are to be filled in."""
        about: NDArray[np.int64] = np.zeros(JoinWord.END, np.int64)
        return cls(about.data, native.address_of(about), np.empty(0, np.uint32))


@cache
def join_warps_function() -> Any:
    """The function that joins the clocks of neighbouring warps, compiled or from the cache."""
    return native.compile_ir(_join_ir(), ["join"], opt=1, light=True).function("join", None, ctypes.c_void_p)
