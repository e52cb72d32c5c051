"""What compiled code shares with the machine to complete barriers and to let the next warp run where one waits.

Warps wait at barriers of their CTA, at the barrier of their cluster, for a phase of an mbarrier, or for groups of wgmma
(`ptxlab.engine.turns.loop`). The machine shares the warps that can run (`QueueWord`), what begins their turns (`TurnWord`), and the state
of the barriers (`BarrierCell`, `ClusterCell`). A phase of a barrier of a CTA is counted either by compiled code or by the machine: at the
first arrival that the machine must handle it takes over the warps that compiled code has blocked (`ptxlab.machine.schedule.turns`).
Arrivals at the barrier of a cluster are counted by both, and those who wait there are taken over when one must wait whom the machine
handles; so are those who wait for an mbarrier object (`Cell.WAITERS`), or for groups of wgmma (`GroupWord.WAITERS`).
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.lowering.constants import Constants
from ptxlab.engine.program import Program
from ptxlab.isa.effects import ClusterArrive, ClusterWait, Completion, CtaBarrier, MbarrierWait, WaitGroup
from ptxlab.isa.operands import Op, Unused

__all__ = [
    "BARRIERS",
    "CLUSTER_ARRIVES",
    "CLUSTER_WAITS",
    "GROUP_SLICE",
    "MACHINE_ONLY",
    "MOST_WARPS",
    "NO_LIMIT",
    "NUMBERS",
    "PERFORMS",
    "POLL_TURNS",
    "RELAXED",
    "SLICE",
    "STATED_SHIFT",
    "WHOLE_SHIFT",
    "BarrierCell",
    "ClusterCell",
    "GridWord",
    "QueueWord",
    "TurnWord",
    "arrivals",
    "has_cluster_barriers",
    "has_waits",
]

BARRIERS = 16
"""The barriers of a CTA."""
MOST_WARPS = 32
"""The warps of a CTA."""
NUMBERS = 1024
"""The random numbers that a queue has at a time."""
PERFORMS = math.ceil(0.3 * 2**53)
"""An operation performs before a warp runs, under ``random``, if a random number of 53 bits is less than this."""
SLICE = 100_000
"""Warp-instructions before another warp gets its turn."""
GROUP_SLICE = 2_000
"""Warp-instructions before other lanes of a diverged warp get their turn."""
POLL_TURNS = 32
"""The scheduler tests the waits of a cluster that have no list of waiters each time that so many turns of its warps have ended."""
NO_LIMIT = (1 << 62) - 1
"""The limit of converged lanes when no other lanes of the warp stand at a later instruction."""
MACHINE_ONLY = 1
"""In an entry of `QueueWord.RING`: only the machine can continue the warp."""
STATED_SHIFT, WHOLE_SHIFT = 8, 32
"""In an entry of `arrivals`, of a barrier of a CTA: the number of threads that the instruction names, and whether whole warps arrive."""
CLUSTER_ARRIVES, CLUSTER_WAITS, RELAXED = 1 << 34, 1 << 35, 1 << 36
"""In such an entry: the warp arrives at the barrier of its cluster, or waits there; and it arrives without a release."""
_MOST_THREADS = 1024
_WAITS = 1 << 33


class TurnWord(IntEnum):
    """The words that the scheduler and compiled code share."""

    CURRENT = 0
    """out: address of the context that has stopped"""
    DISPATCH = 1
    """in: address of ``i32 dispatch(context, table)``, which runs one warp"""
    ARRIVALS = 2
    """in: address of an int64 for each op (`arrivals`)"""
    COUNTS = 3
    """in: address of an int64 for each op, the executions of services"""
    CHOICES = 4
    """in: address of the `QueueWord` whose random numbers choose a queue; 0 if there is one queue, from which warps run in order"""
    QUEUES = 5
    """in: address of the addresses of the `QueueWord` of the queues from which one is chosen"""
    QUEUE_COUNT = 6
    """in: how many these are"""
    CLOCK = 8
    """in: `Word.CLOCK` of a warp whose turn would begin now, without `USED`"""
    ALLOWED = 9
    """in: how many warp-instructions may be executed in turns that end before the scheduler looks at its budget"""
    USED = 10
    """in/out: warp-instructions that have been executed in turns that compiled code has ended"""
    ENDED = 11
    """in/out: how many turns compiled code has ended; it never decreases"""
    ARRIVED = 12
    """in/out: how many arrivals have been part of phases of barriers of CTAs that compiled code has completed, and how many at barriers of
    clusters it has counted; it never decreases"""
    ARRIVES = 13
    """in: 1 if the warp has stopped at an arrival because of rows, which have been processed since: it begins with the arrival"""
    CHOSEN = 14
    """out: address of the words of the queue that compiled code has chosen, whose operation has performed; 0 if it has left nothing so"""
    END = 16


class QueueWord(IntEnum):
    """The words of a queue of warps that can run (`Word.QUEUE`)."""

    RING = 0
    """in: address of the contexts of these warps, in their order (and `MACHINE_ONLY`)"""
    RING_MASK = 1
    HEAD = 2
    TAIL = 3
    """in/out: the position of the first one, and the position behind the last one; they never decrease"""
    PENDING = 4
    """in/out: how many operations have not performed"""
    NUMBERS = 5
    """in: address of `NUMBERS` random numbers of 32 bits"""
    DRAWN = 6
    """in/out: how many of them have been used"""
    ORDER = 7
    """in: address of the numbers of the rows of these operations, in the order of issue, and of free ones behind them; 0 if the machine
    performs all operations, and the following three words are 0, too"""
    ROWS = 8
    """in: address of the rows of operations (`ptxlab.engine.turns.pending.PendingRow`)"""
    CAPACITY = 9
    """in: how many there are"""
    ISSUE = 10
    """in: address of the function that issues products (`ptxlab.engine.pending_products`)"""
    POLLED = 11
    """in: how many groups of lanes wait that only the scheduler can continue, which it tests when no warp can run"""
    END = 12


class ClusterCell(IntEnum):
    """The int64 of the barrier of a cluster (`BarrierCell.CLUSTER`)."""

    TURNS = 0
    """the turns that warps of the cluster have had"""
    ARRIVED = 1
    """the threads that have arrived in the current phase"""
    PHASE = 2
    """how many phases are complete"""
    AWAITED = 3
    """1 if lanes wait that the machine has blocked, and which it must continue when the phase completes"""
    WAITERS = 4
    LAST_WAITER = 5
    """the contexts of the first and of the last warp that compiled code has blocked, in the order in which it has (`Word.NEXT_WAITER`);
    0 if there is none. Lanes that the machine has blocked have come before these."""
    LIVE = 6
    """the threads of the cluster that have not exited"""
    COMPLETES = 7
    """1 if compiled code counts arrivals, and completes phases"""
    ARRIVES = 8
    """address of ``i32 arrives(context, about, relaxed)``, which is called before an arrival is counted, or no function; its result is 0,
    and it has done nothing, if the machine must handle the arrival"""
    COMPLETED = 9
    """address of ``void completed(about)``, which is called when a phase is complete, or no function"""
    PASSES = 10
    """address of ``void passes(context, about)``, which is called when a warp does not wait any more, or no function"""
    ABOUT = 11
    END = 12


class BarrierCell(IntEnum):
    """The int64 of the barriers of a CTA (`Word.BARRIERS`)."""

    ARRIVED = 0
    """for each barrier the threads whose arrivals compiled code has counted in the current phase"""
    MACHINE = BARRIERS
    """for each barrier 1 if the machine counts the current phase"""
    BLOCKED = 2 * BARRIERS
    """for each barrier how many warps compiled code has blocked"""
    ALL_BLOCKED = 3 * BARRIERS
    """the sum of these"""
    GENERATION = ALL_BLOCKED + 1
    """for each barrier how many phases are complete"""
    OF_CLUSTER = GENERATION + BARRIERS
    """of the CTA with rank 0: the cells of its cluster (`ClusterCell`)"""
    RESET = OF_CLUSTER + ClusterCell.END
    """the cells up to here are 0 when a CTA starts"""
    STATED = RESET
    """for each barrier the number of threads that the first arrival names, 0 for all threads of the CTA"""
    LIVE = STATED + BARRIERS
    """the threads of the CTA that have not exited"""
    CLUSTER = LIVE + 1
    """address of the cells of the cluster"""
    COMPLETES = CLUSTER + 1
    """1 if compiled code completes barriers"""
    MAY_BLOCK = COMPLETES + 1
    """address of ``i32 may_block(context)``: 0 if the machine must handle the arrival of a warp; or no function"""
    COMPLETED = MAY_BLOCK + 1
    """address of ``void completed(waiting, blocked, last)``, which is called when a phase is complete, or no function: the contexts of the
    blocked warps, and that of the one that has arrived last"""
    WAITING = COMPLETED + 1
    """for each barrier the contexts of the blocked warps, `MOST_WARPS` each, in the order of their arrivals"""
    END = WAITING + BARRIERS * MOST_WARPS


def arrivals(program: Program) -> NDArray[np.int64]:
    """For each op 0, or how its warp waits at a barrier of its CTA, or arrives or waits at that of its cluster, and does nothing else."""
    found = np.zeros(max(len(program.ops), 1), np.int64)
    constants = Constants(program)
    for op in program.ops:
        found[op.index] = _arrival(constants, op)
    return found


def _arrival(constants: Constants, op: Op) -> int:
    effects = op.effects
    if isinstance(effects, ClusterArrive):
        return CLUSTER_ARRIVES | RELAXED * effects.order.relaxed
    if isinstance(effects, ClusterWait):
        return CLUSTER_WAITS
    if not isinstance(effects, CtaBarrier) or not effects.waits or effects.reduces:
        return 0
    number, count = (constants.at(op, operand) for operand in op.operands[:2])
    if number is None or not 0 <= number < BARRIERS:
        return 0
    if isinstance(op.operands[1], Unused):
        return _WAITS | number
    if count is None or count % 32 or not 0 < count <= _MOST_THREADS:
        return 0
    return _WAITS | op.aligned << WHOLE_SHIFT | count << STATED_SHIFT | number


def has_waits(program: Program) -> bool:
    """Whether warps wait for phases of mbarrier objects, or for groups of wgmma."""
    return any(
        (isinstance(effects, MbarrierWait) and effects.blocks) or (isinstance(effects, WaitGroup) and effects.of is Completion.WGMMA_GROUP)
        for effects in (op.effects for op in program.ops)
    )


def has_cluster_barriers(program: Program) -> bool:
    """Whether warps arrive at barriers of clusters."""
    return any(isinstance(op.effects, ClusterArrive) for op in program.ops)


class GridWord(IntEnum):
    """The words of the clusters of a launch."""

    NEXT = 0
    """the position of the cluster that starts next in the order of all"""
    COUNT = 1
    """how many there are"""
    ORDER = 2
    """address of an int64 for each position: the index of the cluster; 0 if that is the position"""
    ACROSS = 3
    DOWN = 4
    """how many the grid has in x and in y"""
    SIZE = 5
    """in x, y and z, how many CTAs each has"""
    CANCELED = 8
    """how many have been cancelled"""
    HANDLED = 9
    """1 if the handler must be called"""
    END = 10
