"""tcgen05.st and tcgen05.ld as late as they may be: another adversary's part.

What a warp has stored is hidden from everybody else until its tcgen05.wait::st. A load is performed once more when its warp gets its turn
again, until tcgen05.wait::ld or an instruction that uses one of its registers; only within a basic block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import layout
from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const

__all__ = ["Transfers"]

_LANES, _CELLS = 128, 512 * 128
Cells = NDArray[np.intp]


@dataclass
class _Load:
    op: Any
    lanes: NDArray[np.bool_]
    low: Cells
    packed: bool


@dataclass
class _Warp:
    """``stored``: cells that others see as in ``old``; ``own``: what the warp has there, while others run."""

    stored: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_CELLS, bool))
    old: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(_CELLS, np.uint32))
    own: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    before: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    loads: list[_Load] = field(default_factory=list)


def _cells_of(access: TensorAccess, op: Any, address: int, quadrant: int) -> Cells:
    """Of each thread and register, the cell, of a packed one the first."""
    split = op.operands[access.split] if access.split >= 0 else Const(0)
    found = layout.fragment(access.shape, access.repeat, access.pack, split.value if isinstance(split, Const) else 0)
    return (found.column + (address & 0xFFFF)) * _LANES + found.lane + 32 * quadrant + (address >> 16 & 31)


class Transfers:
    """Of one launch."""

    def __init__(self, launch: Any) -> None:
        self._program = launch.program
        self._accesses = {i: native for i, native in launch.program.natives.items() if isinstance(native, TensorAccess)}
        self._stores = any(access.write for access in self._accesses.values())
        self._waits = {op.index: op.opcode for op in launch.program.ops if op.opcode.startswith("tcgen05.wait::")}

    def begins(self, warp: Any) -> None:
        """A warp has its turn: it sees what it has stored, and its loads are performed once more."""
        if not self._accesses:
            return
        state = warp.state.setdefault("transfers", _Warp())
        words = warp.cta.tensor.words.reshape(-1)
        if self._stores:
            at = np.flatnonzero(state.stored)
            state.old[at] = words[at]
            words[at] = state.own
            state.before = words.copy()
        for load in state.loads:
            values = words[load.low]
            if load.packed:
                values = values & 0xFFFF | words[load.low + _LANES] << 16
            rows = warp.row_numbers(load.op.operands[self._accesses[load.op.index].value])
            warp.rows[rows] = np.where(load.lanes, values.T, warp.rows[rows])

    def ends(self, warp: Any, split: Any) -> None:
        """The turn is over."""
        if not self._accesses:
            return
        state = warp.state["transfers"]
        words = warp.cta.tensor.words.reshape(-1)
        if self._stores:
            at = np.flatnonzero(state.stored)
            state.own = words[at]
            words[at] = state.old[at]
        state.loads = [load for load in state.loads if len(warp.converged) == 1 and self._in_flight(load.op, split.pc)]

    def recorded(self, warp: Any, index: int, lanes: int, address: int) -> None:
        """The warp has executed an instruction."""
        state = warp.state["transfers"]
        if index in self._waits:
            if "::st" in self._waits[index]:
                state.stored[:] = False
            else:
                state.loads.clear()
            return
        access = self._accesses[index]
        cells = _cells_of(access, self._program.ops[index], address, warp.warp_id % 4)
        if access.write:
            whole = np.concatenate([cells, cells + _LANES]) if access.pack else cells
            new = np.unique(whole[~state.stored[whole]])
            state.old[new] = state.before[new]
            state.stored[new] = True
        else:
            active = (lanes >> np.arange(32) & 1).astype(bool)
            state.loads.append(_Load(self._program.ops[index], active, cells, access.pack))

    def hears(self, index: int) -> bool:
        """Whether an instruction is one of those here."""
        return index in self._accesses or index in self._waits

    def _in_flight(self, op: Any, pc: int) -> bool:
        """Whether nothing between a load and ``pc`` uses its registers."""
        program = self._program
        block = next(b for b in program.blocks if b.start <= op.index < b.stop)
        registers = set(operand_registers(op.operands[self._accesses[op.index].value]))
        between = range(op.index + 1, pc)
        return op.index < pc <= block.stop and not any(registers.intersection((*program.reads[i], *program.writes[i])) for i in between)
