"""Floating-point additions whose result depends on their order: which elements several agents added to, and whether a sum was rounded.

Compiled atomics write the table (`ptxlab.engine.support.event_rows`); bulk reductions are entered here, with an agent for each operation,
for nothing orders them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.support.event_rows import HASH, ROUNDED, ROW_BYTES, SEVERAL, SLOT_BITS, SLOTS
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.native_ops import Atomic
from ptxlab.isa.operands import Op

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


class Additions:
    """The table of a launch, and the findings at its end."""

    def __init__(self, launch: Launch, ops: tuple[Op, ...]) -> None:
        self._launch = launch
        self._ops = ops
        self.table: NDArray[np.uint64] = np.zeros((SLOTS + len(launch.program.ops), ROW_BYTES // 8), np.uint64)
        self._next_agent = _FIRST_OPERATION

    def forget(self, memory: U8) -> None:
        """Memory begins a new life."""
        keys = self.table[:SLOTS, 0]
        low = memory.ctypes.data
        keys[(keys >= low) & (keys < low + memory.size)] = 0

    def watched(self, op: Op, dtype: np.dtype[Any], widen: Callable[[NDArray[Any]], NDArray[Any]], add: Callable[[U8, U8], None]) -> Any:
        """Return ``combine``, an addition, extended to record what it adds; ``widen`` converts elements to numbers."""
        agent = self._next_agent
        self._next_agent += 1

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

    def _note(self, op: Op, agent: int, keys: NDArray[np.uint64], rounded: NDArray[np.bool_]) -> None:
        with np.errstate(over="ignore"):
            rows = ((keys >> np.uint64(1)) * np.uint64(HASH) >> np.uint64(64 - SLOT_BITS)).astype(np.intp)
        old = self.table[rows]
        same = old[:, 0] == keys
        new = np.empty_like(old)
        new[:, 0], new[:, 1] = keys, agent
        new[:, 2] = np.where(same, old[:, 2], 0) + np.uint64(1)
        new[:, 3] = np.where(same, old[:, 3], 0) | (same & (old[:, 1] != agent)) * np.uint64(SEVERAL) | rounded * np.uint64(ROUNDED)
        self.table[rows] = new
        found = np.flatnonzero(new[:, 3] == ROUNDED | SEVERAL)
        if found.size:
            most = new[found[np.argmax(new[found, 2])]]
            if most[2] > self.table[SLOTS + op.index, 2]:
                self.table[SLOTS + op.index] = most

    def report(self) -> None:
        """Add a note for each instruction whose sums depend on the order."""
        for op in self._ops:
            address, _, number, _ = (int(v) for v in self.table[SLOTS + op.index])
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
