"""What each instruction costs in the model: its pipe, and of memory accesses what the counters of the launch say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.effects import (
    Access,
    Asynchronous,
    ClusterArrive,
    CommitGroup,
    Completion,
    CompletionArrival,
    CtaBarrier,
    Fence,
    MbarrierArrive,
    MbarrierWait,
    ProxyFence,
    Scope,
    Space,
    TensorTransfer,
    TensorWait,
    Unit,
    WaitGroup,
)
from ptxlab.isa.operands import Const
from ptxlab.isa.operations.products import Rate
from ptxlab.isa.pipes import Pipe, pipe_of
from ptxlab.profile.counters.columns import COLUMNS
from ptxlab.profile.model.parameters import Parameters
from ptxlab.profile.model.trace import Work

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op

__all__ = ["Cost", "Kind", "costs_of"]

_NAMES = [column.name for column in COLUMNS]
_EXECUTIONS, _WAVEFRONTS, _SECTORS, _LEAST, _OPERATIONS = map(
    _NAMES.index, ("executions", "shared_wavefronts", "global_sectors", "global_least", "tensor_operations")
)
_SECTORS_IN_A_CYCLE = 4.0
"""That the L1 cache gives to an SM."""
_SECTOR = 32
_ROW = 32
_MMA_OPERATIONS = 4096
"""Of m16n8k16 of 16-bit floats, whose cycles are those of the pipe; other products by their peaks."""
_WIDE = ("cluster", "gpu", "sys")
_FROM_REGISTERS = 4.0
"""Cycles more of a wgmma whose A is in registers."""


class Kind(IntEnum):
    """What the replay does at an instruction."""

    NOTHING = 0
    """its results are there when its operands are"""
    COMPUTE = 1
    SHARED = 2
    GLOBAL = 3
    COPY = 4
    """cp.async"""
    PRODUCT = 5
    """wgmma: of the quarter that belongs to the warp"""
    OPERATION = 6
    """what the recorder has seen as an operation of its own"""
    COMMIT = 7
    WAIT_GROUP = 8
    BARRIER = 9
    MBARRIER = 10
    FENCE = 11
    ROUND_TRIP = 12
    """a fence that L2 answers, behind what it gives before"""


@dataclass(frozen=True, slots=True)
class Cost:
    """``pipe``: occupied for ``cycles``; ``amount``: wavefronts of shared memory or bytes of global memory of an execution, groups that may
    be pending, or cycles of a product; ``shared``: cycles for which a product reads shared memory.
    """

    kind: Kind
    pipe: Pipe
    cycles: float
    latency: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    amount: float = 0.0
    completion: Completion | None = None
    shared: float = 0.0


def costs_of(program: Program, table: NDArray[np.int64], products: dict[int, Work], known: Parameters) -> list[Cost]:
    """The cost of each instruction, with ``table[op, column]`` of the counters."""
    found = []
    for op in program.ops:
        reads = program.reads[op.index] + (() if op.guard is None else (op.guard.index,))
        found.append(_cost(program, op, reads, table[op.index], products.get(op.index), known))
    return found


def _cost(program: Program, op: Op, reads: tuple[int, ...], row: NDArray[np.int64], work: Work | None, known: Parameters) -> Cost:
    pipe = pipe_of(op)
    writes = program.writes[op.index]
    cycles, latency = known.costs[pipe], known.latencies[pipe]
    executions = max(int(row[_EXECUTIONS]), 1)
    wavefronts, sectors, moved = (float(row[column]) / executions for column in (_WAVEFRONTS, _SECTORS, _LEAST))
    effects = op.effects
    if isinstance(effects, Asynchronous):
        if effects.unit is Unit.COPY:
            return Cost(
                Kind.COPY, Pipe.MEMORY, max(wavefronts * known.copy_wavefronts, 1.0), 0.0, reads, (), moved * _SECTOR, effects.completion
            )
        if effects.unit is Unit.WARPGROUP and work is not None:
            product, operands = _product(op, work, known)
            return Cost(Kind.PRODUCT, pipe, cycles, 0.0, (), (), product, effects.completion, shared=operands)
        return Cost(Kind.OPERATION, pipe, cycles, 0.0, reads, (), completion=effects.completion)
    if isinstance(effects, CompletionArrival):
        return Cost(Kind.OPERATION, pipe, cycles, 0.0, reads, (), completion=effects.of)
    if isinstance(effects, CommitGroup):
        return Cost(Kind.COMMIT, pipe, cycles, 0.0, (), (), completion=effects.of)
    if isinstance(effects, WaitGroup):
        numbers = [operand.value for operand in op.operands if isinstance(operand, Const)]
        pending = 0.0 if effects.everything or not numbers else float(numbers[0])
        return Cost(Kind.WAIT_GROUP, pipe, cycles, 0.0, (), writes, pending, effects.of)
    if _waits_for_l2(op):
        return Cost(Kind.ROUND_TRIP, pipe, cycles, known.fence, reads, writes)
    if isinstance(effects, CtaBarrier):
        return Cost(Kind.BARRIER, pipe, cycles, 0.0, (), ())
    if isinstance(effects, MbarrierWait):
        return Cost(Kind.MBARRIER, pipe, cycles, latency, reads, writes)
    if isinstance(effects, ProxyFence):
        both = Space.SHARED | Space.GLOBAL
        return Cost(Kind.FENCE, pipe, cycles, known.proxy_fence if both in effects.spaces else known.cta_fence, (), ())
    if isinstance(effects, Fence | TensorWait):
        return Cost(Kind.FENCE, pipe, cycles, known.cta_fence, (), ())
    if isinstance(effects, TensorTransfer):
        return Cost(Kind.SHARED, pipe, cycles, known.shared_latency, reads, writes, 4.0)
    if sectors:
        return Cost(
            Kind.GLOBAL, pipe, max(wavefronts, sectors / _SECTORS_IN_A_CYCLE, cycles), known.l2_latency, reads, writes, moved * _SECTOR
        )
    if wavefronts:
        remote = getattr(program.natives.get(op.index), "space", "") == "shared::cluster"
        return Cost(Kind.SHARED, pipe, wavefronts, known.shared_latency + 2 * known.remote_latency * remote, reads, writes, wavefronts)
    if pipe is Pipe.MATRIX:
        share = max(float(row[_OPERATIONS]) / executions, 1.0)
        if work is not None:
            share *= known.peak(Rate("f16", False)) / known.peak(work.rate)
        return Cost(Kind.COMPUTE, pipe, cycles * share / _MMA_OPERATIONS, latency, reads, writes)
    return Cost(Kind.NOTHING if pipe is Pipe.NONE else Kind.COMPUTE, pipe, cycles, latency, reads, writes)


def _waits_for_l2(op: Op) -> bool:
    """Whether the assembler makes a fence at the scope of the GPU of an instruction, or puts one before it.

    It does so for a fence or a release at a scope wider than the CTA. An arrival at an mbarrier has one only if it names that scope.
    """
    effects = op.effects
    if isinstance(effects, MbarrierArrive):
        return effects.order.releases and op.q.get("scope") in _WIDE
    order = effects.order if isinstance(effects, Access | ClusterArrive | Fence) else None
    return order is not None and order.strong and order.releases and order.scope is not Scope.CTA


def _product(op: Op, work: Work, known: Parameters) -> tuple[float, float]:
    """Cycles of the tensor core, and those for which it reads its operands from shared memory. A row of A and B has 32 bytes."""
    m, n, _ = work.shape
    from_registers = len(operand_registers(op.operands[1])) > 1
    operands = _ROW * (n + (0 if from_registers else m)) / known.operand_bytes
    return max(work.operations / known.peak(work.rate), operands) + _FROM_REGISTERS * from_registers, operands
