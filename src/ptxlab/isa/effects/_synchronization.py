"""Barriers, mbarrier objects and fences."""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.isa.effects._effect import Effect, Supply
from ptxlab.isa.effects._memory_order import Order, Space

__all__ = [
    "ClusterArrive",
    "ClusterWait",
    "CtaBarrier",
    "Fence",
    "MbarrierArrive",
    "MbarrierInit",
    "MbarrierInitFence",
    "MbarrierInval",
    "MbarrierTransactions",
    "MbarrierWait",
    "ProxyFence",
    "TensorFence",
    "TensorMapFence",
    "WgmmaFence",
]


@dataclass(frozen=True, slots=True)
class CtaBarrier(Effect):
    """Arrives at one of the sixteen barriers of the CTA. ``waits``: until it completes. ``reduces``: a predicate of all threads."""

    waits: bool = True
    reduces: bool = False


@dataclass(frozen=True, slots=True)
class ClusterArrive(Effect):
    """Arrives at the barrier of the cluster."""

    order: Order


@dataclass(frozen=True, slots=True)
class ClusterWait(Effect):
    """Waits until all threads of the cluster have arrived at its barrier, and acquires."""


@dataclass(frozen=True, slots=True)
class MbarrierInit(Effect):
    """Makes an mbarrier object."""


@dataclass(frozen=True, slots=True)
class MbarrierInval(Effect):
    """Ends the life of an mbarrier object."""


@dataclass(frozen=True, slots=True)
class MbarrierArrive(Effect):
    """Arrives on an mbarrier.

    ``expects``: and announces transaction bytes before. ``drops``: and lowers the arrivals that the following phases expect.
    """

    order: Order
    expects: bool = False
    drops: bool = False

    @property
    def supplies(self) -> Supply:
        return Supply.ARRIVAL | Supply.EXPECTATION if self.expects else Supply.ARRIVAL

    @property
    def name_words(self) -> int:
        return 3 if self.expects else 2


@dataclass(frozen=True, slots=True)
class MbarrierTransactions(Effect):
    """Announces transaction bytes of an mbarrier, or completes them; always relaxed."""

    order: Order
    completes: bool

    @property
    def supplies(self) -> Supply:
        return Supply.BYTES if self.completes else Supply.EXPECTATION


@dataclass(frozen=True, slots=True)
class MbarrierWait(Effect):
    """Tests a phase of an mbarrier, or waits for it if it ``blocks``, and acquires where it is complete."""

    order: Order
    parity: bool
    blocks: bool


@dataclass(frozen=True, slots=True)
class Fence(Effect):
    """Orders the memory accesses of the thread: fence, membar."""

    order: Order


@dataclass(frozen=True, slots=True)
class ProxyFence(Effect):
    """Makes generic accesses to ``spaces`` visible to the async proxy; no spaces: a proxy that ptxlab has nothing to order for.

    A fence for one direction only ``acquires`` or only ``releases``.
    """

    spaces: Space
    acquires: bool = True
    releases: bool = True


@dataclass(frozen=True, slots=True)
class TensorMapFence(Effect):
    """fence.proxy.tensormap: releases changes of tensor maps by generic accesses, or acquires them for copies that use the maps."""

    acquires: bool


@dataclass(frozen=True, slots=True)
class MbarrierInitFence(Effect):
    """fence.mbarrier_init: releases the initialisation of mbarrier objects to the cluster, and nothing else."""


@dataclass(frozen=True, slots=True)
class TensorFence(Effect):
    """tcgen05.fence::before_thread_sync (``before``) or ::after_thread_sync."""

    before: bool


@dataclass(frozen=True, slots=True)
class WgmmaFence(Effect):
    """wgmma.fence: orders registers before wgmma.mma_async."""
