"""The undefined bits of the operands of mma."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.mma._fragments import position

__all__ = ["undefined"]


def undefined(warp: context.WarpContext, name: str) -> NDArray[Any]:
    """The undefined bits of an operand, [registers, 32]."""
    return warp.undefined(position(warp.op.row, name))
