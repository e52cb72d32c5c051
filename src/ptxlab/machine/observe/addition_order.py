"""Floating-point additions whose result depends on their order: which elements several agents added to, and whether a sum was rounded.

Compiled atomics write the table (`ptxlab.engine.support.event_rows`); bulk reductions are entered here, with an agent for each operation,
for nothing orders them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.compiled import address_of as function_address
from ptxlab.engine.support.event_rows import FIRST_OP, NEXT_AGENT, ROW_BYTES, SLOTS
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.native_ops import Atomic
from ptxlab.isa.operands import Op
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Additions", "additions"]

U8 = NDArray[np.uint8]
_FLOATS = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2"})
_FIRST_OPERATION = 1 << 40
"""Agents below are threads."""


def _adds(program: Program, op: Op) -> bool:
    """Whether an instruction adds floats to memory."""
    native = program.natives.get(op.index)
    if isinstance(native, Atomic):
        return native.operation == "add" and native.type in _FLOATS
    return isinstance(op.effects, Asynchronous) and op.effects.adds_floats


def additions(program: Program) -> tuple[Op, ...]:
    """The instructions that add floats to memory."""
    return tuple(op for op in program.ops if _adds(program, op))


@cache
def _note_additions() -> Any:
    """The compiled function that notes the additions of a reduction."""
    number = ctypes.c_int64
    return ctypes.PYFUNCTYPE(None, number, ctypes.c_int32, *(number,) * 4)(function_address("noteadditions"))


class Additions:
    """The table of a launch, and the findings at its end."""

    def __init__(self, launch: Launch, ops: tuple[Op, ...]) -> None:
        self._launch = launch
        self._ops = ops
        self.table: NDArray[np.uint64] = np.zeros((FIRST_OP + len(launch.program.ops), ROW_BYTES // 8), np.uint64)
        self.table[NEXT_AGENT, 0] = _FIRST_OPERATION

    def forget(self, memory: U8) -> None:
        """Memory begins a new life."""
        keys = self.table[:SLOTS, 0]
        low = memory.ctypes.data
        keys[(keys >= low) & (keys < low + memory.size)] = 0

    def watched(self, op: Op, dtype: np.dtype[Any], widen: Callable[[NDArray[Any]], NDArray[Any]], add: Callable[[U8, U8], None]) -> Any:
        """Return ``combine``, an addition, extended to record what it adds; ``widen`` converts elements to numbers."""
        agent = self.table.item(NEXT_AGENT, 0)
        self.table[NEXT_AGENT, 0] = agent + 1

        def combine(target: U8, source: U8) -> None:
            wide = target.view(dtype)
            with np.errstate(all="ignore"):
                x = widen(wide).astype(np.float64)
                y = widen(source.view(dtype)).astype(np.float64)
                add(target, source)
                s = x + y
                t = s - x
                lost = (x - (s - t)) + (y - t)
                rounded = (s != widen(wide)) & ~np.isnan(s) | (lost != 0) & np.isfinite(lost)
            places: NDArray[Any] = np.zeros(wide.shape, np.uint64)
            for axis, (length, stride) in enumerate(zip(wide.shape, wide.strides, strict=True)):
                steps = (np.arange(length) * stride).astype(np.uint64)
                places += steps.reshape([-1 if i == axis else 1 for i in range(wide.ndim)])
            self._note(op, agent, (places + np.uint64(wide.ctypes.data)).ravel(), rounded.ravel())

        return combine

    def _note(self, op: Op, agent: int, cells: NDArray[np.uint64], rounded: NDArray[np.bool_]) -> None:
        _note_additions()(address_of(self.table), op.index, agent, address_of(cells), address_of(rounded), cells.size)

    def report(self) -> None:
        """Add a note for each instruction whose sums depend on the order."""
        for op in self._ops:
            address, _, number, _ = (int(v) for v in self.table[FIRST_OP + op.index])
            if number:
                self._launch.reports.add(
                    "M410",
                    f"the sums that {op.opcode} makes depend on the order of the additions: several threads or copies add to one element, "
                    "and sums are rounded",
                    op,
                    details=(("most additions to an element", f"{number}, {self._place(address)}"),),
                    fix="expect differences in the last bits from run to run, or give every element a single writer",
                )

    def _place(self, host: int) -> str:
        """The device address of a byte of host memory."""
        for allocation in self._launch.device.memory.live():
            at = host - allocation.data.ctypes.data
            if 0 <= at < allocation.size:
                return f"at byte {at} of {allocation.name}"
        return "in shared memory"
