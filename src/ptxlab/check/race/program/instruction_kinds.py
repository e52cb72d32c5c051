"""What each instruction of a program means to the sanitizer, determined once for a launch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Kind, Row
from ptxlab.check.race.clocks.scopes import Reach, access_order, strong_kind
from ptxlab.check.race.program.dead_loads import dead_loads
from ptxlab.check.race.shadow.shadow_ir import OP_WORDS, PROXY_FENCES, OpWord
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Fence, GridWait, ProxyFence, Space
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, Native, Nothing, TensorAccess
from ptxlab.isa.operands import Op

__all__ = ["op_table", "waits_for_grid"]

_COPY, _PYTHON, _BOTH = 0x100, 0x10000, 0x20000


def _describe(op: Op, native: Native, fenced: bool, reach: Reach) -> tuple[int, int]:
    """The two words of an op (`OpWord`)."""
    if isinstance(native, LaneAccess | Atomic):
        order = access_order(op)
        kind = strong_kind(order, native.space, reach) if order.strong else Kind.GENERIC
        orders = order.strong and (fenced or order.synchronises)
        how = kind << 1 | (isinstance(native, Atomic) or native.write) | (_PYTHON | _BOTH if orders else 0)
        return how, (native.bits if isinstance(native, LaneAccess) else TYPE_BITS[native.type]) // 8 * native.count
    if isinstance(native, MatrixAccess):
        return Kind.GENERIC << 1 | native.write, native.row
    if isinstance(native, CopyAsync):
        return Kind.COPY << 1 | 1 | _COPY, native.size
    if isinstance(op.effects, ProxyFence):
        spaces = op.effects.spaces
        return PROXY_FENCES[Row.ASYNC_SHARED] * (Space.SHARED in spaces) | PROXY_FENCES[Row.ASYNC_GLOBAL] * (Space.GLOBAL in spaces), 0
    if isinstance(native, TensorAccess) or (isinstance(native, Nothing) and op.effects is not None):
        return _PYTHON, 0
    return 0, 0


def waits_for_grid(program: Program) -> bool:
    """Whether a kernel may start before the grid before it is complete."""
    return any(isinstance(op.effects, GridWait) for op in program.ops)


def op_table(program: Program, reach: Reach, sources: bool) -> NDArray[np.uint64]:
    """`OpWord` for each op, and behind them for the second row that each cp.async has, of what it reads: uint64[2 * ops, 2].

    ``reach``: who can reach the memory of the launch; ``sources``: whether to watch what cp.async reads.
    """
    fenced = any(isinstance(op.effects, Fence) for op in program.ops)
    table: NDArray[np.uint64] = np.zeros((2 * max(len(program.ops), 1), OP_WORDS), np.uint64)
    unwatched = frozenset() if waits_for_grid(program) else dead_loads(program)
    for index, native in program.natives.items():
        if index in unwatched:
            continue
        how, size = _describe(program.ops[index], native, fenced, reach)
        table[index, OpWord.HOW], table[index, OpWord.SIZE] = how, size
        if sources and isinstance(native, CopyAsync):
            table[len(program.ops) + index] = how & ~1, size
    return table
