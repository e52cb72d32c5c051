"""What each instruction of a program means to the sanitizer, found once for a launch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Kind, Row
from ptxlab.check.race.clocks.releases import is_fence, synchronises
from ptxlab.check.race.clocks.scopes import Reach, strong_kind
from ptxlab.check.race.program.dead_loads import dead_loads
from ptxlab.check.race.shadow.shadow_ir import OP_WORDS, PROXY_FENCES, OpWord
from ptxlab.engine.lowering.register_use import atomic_bits
from ptxlab.engine.program import Program
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, Native, Nothing, TensorAccess
from ptxlab.isa.operands import Op

__all__ = ["async_kind", "follows", "op_table"]

_COPY, _PYTHON, _BOTH = 0x100, 0x10000, 0x20000
_ORDERS = frozenset({"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"})


@lru_cache(maxsize=65536)
def _words(opcode: str) -> frozenset[str]:
    return frozenset(opcode.split("."))


@lru_cache(maxsize=4096)
def async_kind(opcode: str) -> Kind | None:
    """The kind of an asynchronous operation's accesses."""
    if opcode.startswith("tcgen05.cp"):
        return Kind.CP_4X256B if "4x256b" in _words(opcode) else Kind.CP
    if opcode.startswith("tcgen05."):
        return {"mma": Kind.MMA, "shift": Kind.SHIFT}.get(opcode.split(".")[1])
    if opcode.startswith("wgmma.mma_async"):
        return Kind.WGMMA
    if opcode.startswith("cp.reduce.async.bulk"):
        return Kind.REDUCE
    if opcode.startswith(("cp.async.bulk", "clusterlaunchcontrol.try_cancel")):
        return Kind.BULK
    # st.async and red.async stay in the generic proxy.
    return Kind.STORE if opcode.startswith("st.async") else Kind.STRONG if opcode.startswith("red.async") else None


def _describe(op: Op, native: Native, fenced: bool, reach: Reach) -> tuple[int, int]:
    """The two words of an op (`OpWord`)."""
    if isinstance(native, LaneAccess):
        strong = bool(_words(op.opcode) & _ORDERS)
        kind = strong_kind(op.opcode, native.space, reach) if strong else Kind.GENERIC
        orders = strong and (fenced or synchronises(op.opcode))
        return kind << 1 | native.write | (_PYTHON | _BOTH if orders else 0), native.bits // 8 * native.count
    if isinstance(native, Atomic):
        orders = fenced or synchronises(op.opcode)
        kind = strong_kind(op.opcode, native.space, reach)
        return kind << 1 | 1 | (_PYTHON | _BOTH if orders else 0), atomic_bits(native.type) // 8 * native.count
    if isinstance(native, MatrixAccess):
        return Kind.GENERIC << 1 | native.write, native.row
    if isinstance(native, CopyAsync):
        return Kind.COPY << 1 | 1 | _COPY, native.size
    if isinstance(native, Nothing) and op.opcode.startswith("fence.proxy.async"):
        space = op.opcode.rpartition(".")[2]
        shared, of_global = not space.startswith("global"), not space.startswith("shared")
        return PROXY_FENCES[Row.ASYNC_SHARED] * shared | PROXY_FENCES[Row.ASYNC_GLOBAL] * of_global, 0
    if isinstance(native, TensorAccess) or (isinstance(native, Nothing) and native.orders):
        return _PYTHON, 0
    return 0, 0


def follows(program: Program) -> bool:
    """Whether a kernel may start before the grid before it is complete."""
    return any(op.opcode == "griddepcontrol.wait" for op in program.ops)


def op_table(program: Program, reach: Reach, sources: bool) -> NDArray[np.uint64]:
    """`OpWord` for each op, and behind them for the second row that each cp.async has, of what it reads: uint64[2 * ops, 2].

    ``reach``: who can reach the memory of the launch; ``sources``: whether to watch what cp.async reads.
    """
    fenced = any(is_fence(op.opcode) for op in program.ops)
    table: NDArray[np.uint64] = np.zeros((2 * max(len(program.ops), 1), OP_WORDS), np.uint64)
    unwatched = frozenset() if follows(program) else dead_loads(program)
    for index, native in program.natives.items():
        if index in unwatched:
            continue
        how, size = _describe(program.ops[index], native, fenced, reach)
        table[index, OpWord.HOW], table[index, OpWord.SIZE] = how, size
        if sources and isinstance(native, CopyAsync):
            table[len(program.ops) + index] = how & ~1, size
    return table
