"""Access to the operands of mma by their names in the row."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.catalogue import Row
from ptxlab.isa.operands import Const, Group, Resolved

__all__ = ["immediate", "position", "read", "selectors", "write"]


@cache
def position(row: Row, name: str) -> int:
    """The position of an operand."""
    return [operand for operand, _ in row.operands].index(name)


def _items(operand: Resolved) -> tuple[Resolved, ...]:
    return operand.items if isinstance(operand, Group) else (operand,)


def read(warp: context.WarpContext, name: str, bits: int = 32) -> NDArray[Any]:
    """The registers of an operand, [count, 32]."""
    return np.stack([warp.values(item, bits) for item in _items(warp.op.operands[position(warp.op.row, name)])])


def write(warp: context.WarpContext, registers: NDArray[Any], bits: int = 32) -> None:
    """Write D."""
    for item, row in zip(_items(warp.op.operands[0]), registers, strict=True):
        warp.write(item, row, bits)


def immediate(warp: context.WarpContext, name: str, says: str, allowed: tuple[int, ...]) -> int:
    """A constant operand; a fault unless it is one of those allowed."""
    operand = warp.op.operands[position(warp.op.row, name)]
    if not isinstance(operand, Const) or operand.value not in allowed:
        warp.fault("W911", f"{says} must be a constant, {_list(allowed)}")
    return operand.value


def selectors(warp: context.WarpContext, name: str, allowed: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[int, ...]:
    """A group of selectors, each the same in all threads; a fault unless they are allowed."""
    found = []
    for item, (says, values) in zip(_items(warp.op.operands[position(warp.op.row, name)]), allowed, strict=True):
        value = warp.uniform(item, 16)
        if value not in values:
            warp.fault("W911", f"{says} is {value}; it must be {_list(values)}")
        found.append(value)
    return tuple(found)


def _list(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values)) if len(values) < 3 else f"{values[0]} to {values[-1]}"
