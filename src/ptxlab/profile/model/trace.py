"""The executed trace of some CTAs: which nodes each warp has executed, what they wait for, and the asynchronous operations they started."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.isa.context import Cta
from ptxlab.isa.effects import Asynchronous, CtaBarrier, Unit
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.isa.operations.products import Product, Rate
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier
from ptxlab.machine.warp.warp import Warp
from ptxlab.native import address_of
from ptxlab.profile.model.memory import TENSOR, Extent, extents_of

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Arrival", "CtaTrace", "Operation", "TraceRecorder", "WarpTrace", "Work"]

MOST_CTAS = 4
MOST_NODES = 200_000
"""Of all recorded warps; CTAs that start later are not recorded."""
_CAPACITY = 1 << 17
"""Nodes that a warp executes at most before its trace is read: more than a slice of the scheduler has."""

Place: TypeAlias = tuple[int, int]
"""A warp, and a position in its trace."""
Arrival: TypeAlias = tuple[int | None, Hashable]
"""The CTA whose mbarrier it is, None for other barriers, and the phase."""


class Work(NamedTuple):
    """A product of matrices: m, n and k, and by what tensor cores are fast."""

    shape: tuple[int, int, int]
    rate: Rate

    @classmethod
    def of(cls, product: Product) -> Work:
        """That of a product that an observer sees."""
        return cls((product.m, product.n, product.k), product.rate)

    @property
    def operations(self) -> int:
        """Multiplications and additions, as if a sparse product were dense."""
        return 2 * prod(self.shape)


@dataclass(eq=False)
class Operation:
    """An asynchronous operation.

    ``copied``: bytes that it moves to or from L2; ``work``: its product; ``accesses``: returns what it accesses.
    """

    unit: Unit
    copied: int
    work: Work | None
    cta: Cta
    accesses: Callable[[], Iterable[MemoryAccess]]

    @cached_property
    def extents(self) -> tuple[tuple[int, Extent], ...]:
        """What it accesses in the shared and the tensor memory of the CTAs of its cluster, by rank."""
        accesses = tuple(self.accesses())
        return tuple((cta.rank, extent) for cta in self.cta.cluster for extent in extents_of(accesses, cta))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The CTAs of the cluster whose memory it accesses, or whose tensor cores it uses."""
        return tuple(dict.fromkeys(rank for rank, _ in self.extents))


@dataclass(slots=True)
class WarpTrace:
    """``nodes``: the first op of each node, in the order of their execution."""

    nodes: list[NDArray[np.int32]] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class CtaTrace:
    """The traces of the warps of a CTA, by their numbers.

    ``arrivals``, ``completions``: by place and by operation, the phases of barriers that it arrives at; ``waits``: the phases that a place
    waits for; ``expected``: how many of its arrivals complete a phase; ``together``: the phases of the cluster's barrier; ``columns``:
    those that a place allocates (a write) or frees.
    """

    warps: dict[int, WarpTrace] = field(default_factory=dict)
    operations: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    issued: list[Operation] = field(default_factory=list)
    arrivals: dict[Place, list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    completions: dict[int, list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    waits: dict[Place, Hashable] = field(default_factory=dict)
    expected: dict[Hashable, int] = field(default_factory=lambda: defaultdict(int))
    together: set[Hashable] = field(default_factory=set)
    columns: dict[Place, Extent] = field(default_factory=dict)

    def nodes(self) -> list[int]:
        """The first ops of all nodes that its warps have executed."""
        return [first for warp in self.warps.values() for part in warp.nodes for first in part.tolist()]

    @property
    def complete(self) -> bool:
        """Whether each of its warps has executed something."""
        return bool(self.warps) and all(warp.nodes for warp in self.warps.values())


class TraceRecorder:
    """Fills the traces of the first CTAs; the events are those of an observer."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ctas: dict[CtaState, CtaTrace] = {}
        self.products: dict[int, Work] = {}
        """By instruction: its last product."""
        self._buffers: dict[int, NDArray[np.int32]] = {}
        self._nodes = 0
        self._numbers: dict[AsyncOperation, tuple[CtaTrace, int]] = {}

    def clusters(self) -> list[tuple[CtaTrace, ...]]:
        """The CTAs of each recorded cluster by rank, if all of them are complete."""
        groups = dict.fromkeys(cta.group for cta in self.ctas)
        found = [tuple(self.ctas[cta] for cta in group.ctas if cta in self.ctas) for group in groups]
        return [traces for traces in found if len(traces) == self.launch.cluster_size and all(trace.complete for trace in traces)]

    def records(self, cta: CtaState) -> bool:
        """Whether a CTA is one of the first, which are recorded; decided when it starts."""
        if cta not in self.ctas:
            known = any(other in self.ctas for other in cta.cluster)
            if not known and (len(self.ctas) >= MOST_CTAS or self._nodes >= MOST_NODES):
                return False
            self.ctas[cta] = CtaTrace()
        return True

    def fill(self, warp: Warp) -> None:
        """Have a warp of the first CTAs note what it executes."""
        if not self.records(warp.cta):
            return
        trace = self.ctas[warp.cta]
        trace.warps[warp.warp_id] = WarpTrace()
        buffer = self._buffers[id(warp)] = np.zeros(_CAPACITY, np.int32)
        warp.words[Word.TRACE] = address_of(buffer)

    def read(self, warp: Warp) -> None:
        """Take over what a warp has noted."""
        buffer = self._buffers.get(id(warp))
        if buffer is None:
            return
        start = address_of(buffer)
        count = (warp.words[Word.TRACE] - start) // 4
        if count:
            trace = self.ctas[warp.cta].warps[warp.warp_id]
            trace.nodes.append(buffer[:count].copy())
            trace.count += count
            self._nodes += count
            warp.words[Word.TRACE] = start
        if not warp.live:
            del self._buffers[id(warp)]
            warp.words[Word.TRACE] = 0

    def _place(self, warp: Warp | None) -> tuple[CtaTrace, Place] | None:
        """Where a recorded warp stands: at the node that it has noted last."""
        if warp is None or id(warp) not in self._buffers:
            return None
        trace = self.ctas[warp.cta]
        noted = (warp.words[Word.TRACE] - address_of(self._buffers[id(warp)])) // 4
        return trace, (warp.warp_id, trace.warps[warp.warp_id].count + noted - 1)

    def issued(self, operation: AsyncOperation, copied: int, accesses: tuple[MemoryAccess, ...] | None = None) -> None:
        """An asynchronous operation begins, which copies so many bytes; ``accesses``: what it accesses, if that has been asked for."""
        found = self._place(self.launch.scheduler.current)
        effects = operation.op.effects
        work = None
        if operation.details is not None:
            work = self.products[operation.op.index] = Work.of(operation.details())
        if found is None:
            return
        trace, place = found
        unit = effects.unit if isinstance(effects, Asynchronous) else Unit.TENSOR_CORE
        self._numbers[operation] = trace, len(trace.issued)
        trace.operations[place].append(len(trace.issued))
        asked = (operation.accesses or tuple) if accesses is None else partial(tuple, accesses)
        trace.issued.append(Operation(unit, copied, work, operation.cta, asked))

    def has_columns(self, warp: Warp, allocation: tuple[int, int], allocated: bool) -> None:
        """A warp has allocated, or freed, columns of tensor memory: the first one and their number."""
        found = self._place(warp)
        if found is not None:
            trace, place = found
            first, number = allocation
            trace.columns[place] = Extent(TENSOR, first, first + number, allocated)

    def multiplied(self, op: Op, product: Product) -> None:
        """An mma of one warp has computed a product."""
        self.products[op.index] = Work.of(product)

    def arrived(self, barrier: Any) -> None:
        """A warp, or an operation, arrives at the phase of a barrier."""
        scheduler = self.launch.scheduler
        rank = barrier.rank if isinstance(barrier, MbarrierState) else None
        phase = (barrier, barrier.generation if isinstance(barrier, NamedBarrier) else barrier.phase)
        if scheduler.performing is not None:
            known = self._numbers.get(scheduler.performing)
            if known is not None:
                trace, number = known
                trace.completions[number].append((rank, phase))
                trace.expected[phase] += 1
            return
        found = self._place(scheduler.current)
        if found is None:
            return
        trace, place = found
        trace.arrivals[place].append((rank, phase))
        trace.expected[phase] += 1
        warp = scheduler.current
        assert warp is not None
        effects = warp.op.effects
        if isinstance(effects, CtaBarrier) and effects.waits and not isinstance(barrier, ClusterBarrier):
            trace.waits[place] = phase

    def met(self, warp: Warp) -> None:
        """A warp goes on because all threads of its cluster have arrived at the barrier of the cluster."""
        found = self._place(warp)
        if found is not None:
            trace, place = found
            phase = trace.waits[place] = warp.cta.group.barrier, warp.cta.group.barrier.phase - 1
            trace.together.add(phase)

    def acquired(self, barrier: Any) -> None:
        """A warp goes on because the last phase of an mbarrier is complete."""
        found = self._place(self.launch.scheduler.current)
        if found is not None:
            trace, place = found
            trace.waits[place] = barrier, barrier.phase - 1
