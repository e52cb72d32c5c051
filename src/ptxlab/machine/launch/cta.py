"""Resident CTAs and the clusters that they form."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.isa.context import WarpContext
from ptxlab.isa.operands import Op
from ptxlab.machine.schedule.barriers import ClusterBarrier, MbarrierState, NamedBarrier
from ptxlab.machine.schedule.queues import Queue
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.host_memory import CtaMemory
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.launch.sms import Sm
    from ptxlab.machine.memory.tensor_memory import TensorMemory
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["Cluster", "CtaState"]


@dataclass(slots=True, eq=False)
class Cluster:
    """The CTAs of one cluster, which start together and may reach each other's shared memory.

    ``table`` holds (address, size) of each CTA's shared memory by rank; size 0 once the CTA has exited. ``queue`` is what the scheduler
    chooses from, and ``polling`` are waits that have no list of waiters.
    """

    index: int
    barrier: ClusterBarrier
    table: NDArray[np.uint64]
    queue: Queue
    ctas: tuple[CtaState, ...] = ()
    polling: list[ConvergedLanes] = field(default_factory=list)


class _NamedBarriers(dict[int, NamedBarrier]):
    """The barriers that a CTA has used, by number."""

    __slots__ = ("_cells", "_launch")

    def __init__(self, launch: Launch, cells: memoryview) -> None:
        self._launch, self._cells = launch, cells

    def __missing__(self, number: int) -> NamedBarrier:
        found = self[number] = NamedBarrier(self._launch, number, self._cells)
        return found


class CtaState:
    """A resident CTA; see `ptxlab.isa.Cta`."""

    __slots__ = (
        "ctaid", "exited", "group", "index", "invalidated", "launch", "live_threads", "mbarriers", "memory", "named", "rank", "shared",
        "shared_address", "sm", "state", "tensor", "threads", "tokens", "warps",
    )  # fmt: skip

    def __init__(
        self,
        launch: Launch,
        group: Cluster,
        rank: int,
        ctaid: tuple[int, int, int],
        index: int,
        sm: Sm,
        memory: CtaMemory,
        tensor: TensorMemory,
    ) -> None:
        self.launch = launch
        self.group = group
        self.rank = rank
        self.ctaid = ctaid
        self.index = index
        self.sm = sm
        self.memory = memory
        self.shared, self.shared_address = memory.shared, memory.shared_address
        self.tokens = memory.tokens
        self.tensor = tensor
        self.threads = launch.threads
        self.live_threads = launch.threads
        self.exited = False
        self.state: dict[Hashable, Any] = {}
        self.mbarriers: dict[int, MbarrierState] = {}
        self.named = _NamedBarriers(launch, memory.barriers)
        self.invalidated: dict[int, Op] = {}
        self.warps: list[Warp] = []

    @property
    def tensor_address(self) -> int:
        """The host address of the tensor memory of its SM."""
        return address_of(self.tensor.words)

    @property
    def cluster(self) -> tuple[CtaState, ...]:
        """All CTAs of the cluster by rank."""
        return self.group.ctas

    @property
    def peer(self) -> CtaState | None:
        """The other CTA of the pair, if the cluster has it."""
        other = self.rank ^ 1
        return self.group.ctas[other] if other < len(self.group.ctas) else None

    def mbarrier(self, warp: WarpContext | None, offset: int) -> MbarrierState:
        """Return the initialised mbarrier at a window offset; a fault if there is none."""
        found = self.mbarriers.get(offset)
        if found is None or self.tokens[offset >> 3] != MBARRIER_TOKEN:
            from ptxlab.isa.sync import missing_mbarrier

            raise missing_mbarrier(
                offset,
                len(self.shared),
                overwritten=offset in self.mbarriers,
                invalidated=self.invalidated.get(offset),
                rank=self.rank,
                alone=len(self.cluster) == 1,
            )
        return found

    def live_mbarrier(self, offset: int) -> MbarrierState | None:
        """Return the valid mbarrier object at a window offset, None if there is none."""
        return self.mbarriers.get(offset) if self.tokens[offset >> 3] == MBARRIER_TOKEN else None

    def new_mbarrier(self, offset: int, count: int) -> MbarrierState:
        """Initialise the mbarrier object at a window offset (8-byte aligned, inside shared memory)."""
        self.tokens[offset >> 3] = MBARRIER_TOKEN
        old = self.mbarriers.get(offset)
        if old is not None:
            self.group.queue.pending.take_over_signals()
            old.detach()
        made = self.mbarriers[offset] = MbarrierState(self.launch, self.rank, offset, count, self.memory.mbarrier_row(offset))
        self.invalidated.pop(offset, None)
        return made

    def changed(self) -> None:
        """Forget the state on which the executions depend that compiled code repeats."""
        self.memory.repeated[0] = 0

    def end(self) -> None:
        """Mark the CTA as exited."""
        self.exited = True
        for cta in self.cluster:
            cta.changed()

    def drop_mbarrier(self, offset: int, op: Op) -> None:
        """Invalidate the mbarrier object, as an instruction asks."""
        self.group.queue.pending.take_over_signals()
        barrier = self.mbarriers.pop(offset)
        if self.launch.observer is not None:
            self.launch.observer.invalidated(barrier)
        barrier.detach()
        self.invalidated[offset] = op
        self.tokens[offset >> 3] = 0

    def describe(self) -> str:
        """Return the CTA's coordinates for reports."""
        return f"({self.ctaid[0]}, {self.ctaid[1]}, {self.ctaid[2]})"
