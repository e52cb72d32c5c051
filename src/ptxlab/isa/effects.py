"""The effects of an instruction beyond its registers: memory order, synchronisation, asynchronous operations.

A row of the catalogue gives ``effects=``: an instance of one of the classes below, or a function of what its pattern matched (`Qualifiers`)
that returns one. The race checker, the deadlock report, the trace and provenance read `ptxlab.isa.operands.Op.effects` and dispatch on its
class; none of them looks at the text of an opcode. So an instruction whose effects are among these classes needs nothing outside its own
module.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag, IntEnum, auto
from typing import TYPE_CHECKING, TypeAlias

from ptxlab._records import dataclass

if TYPE_CHECKING:
    from ptxlab.isa.catalogue import Qualifiers

__all__ = [
    "GROUP_INSTRUCTIONS",
    "LOCAL",
    "SCOPES",
    "WEAK",
    "Access",
    "Alloc",
    "AllocPermitRelease",
    "Asynchronous",
    "ClusterArrive",
    "ClusterWait",
    "CommitGroup",
    "Completion",
    "CompletionArrival",
    "CtaBarrier",
    "Dealloc",
    "Effect",
    "Effects",
    "Fence",
    "GridLaunch",
    "GridWait",
    "Local",
    "MbarrierArrive",
    "MbarrierInit",
    "MbarrierInitFence",
    "MbarrierInval",
    "MbarrierTransactions",
    "MbarrierWait",
    "Order",
    "Pipe",
    "Proxy",
    "ProxyFence",
    "RegisterPool",
    "Scope",
    "Space",
    "Supply",
    "TensorFence",
    "TensorMapFence",
    "TensorTransfer",
    "TensorWait",
    "Unit",
    "WaitGroup",
    "WgmmaFence",
    "order_of",
    "resolve",
    "unit_of",
]


class Scope(IntEnum):
    """The threads that an order includes; on one device gpu and sys are the same."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.GPU, "gl": Scope.GPU}
"""By the modifier."""


class Space(Flag):
    """State spaces that threads share."""

    NONE = 0
    SHARED = auto()
    GLOBAL = auto()
    TENSOR = auto()


class Proxy(Enum):
    """Section "Memory Consistency Model: Proxies"."""

    GENERIC = "generic"
    ASYNC = "async"


class Unit(Enum):
    """What performs an asynchronous operation. The value is its name in traces."""

    TENSOR_CORE = "tcgen05"
    WARPGROUP = "wgmma"
    TMA = "TMA"
    COPY = "cp.async"
    STORE = "stores"
    LAUNCH_CONTROL = "clusterlaunchcontrol"


class Pipe(Enum):
    """The pipes of the tensor core that section "Pipelined tcgen05 Instructions" distinguishes."""

    MMA = "mma"
    COPY = "cp"
    COPY_4X256B = "cp.4x256b"
    """the only shape of tcgen05.cp that forms a pipeline after tcgen05.shift"""
    SHIFT = "shift"
    __hash__ = object.__hash__  # Enum's own is Python code, and the race check looks up pipes and completions at each operation


class Completion(Enum):
    """What reports that an asynchronous operation is complete."""

    BYTES = "complete_tx on an mbarrier"
    COMMIT = "tcgen05.commit on an mbarrier"
    COPY_GROUP = "cp.async group, or arrival on an mbarrier"
    BULK_GROUP = "bulk async-group"
    WGMMA_GROUP = "wgmma async-group"
    NONE = "nothing: a release makes it visible"
    __hash__ = object.__hash__


class Supply(Flag):
    """What a blocked thread can be waiting for that another instruction supplies."""

    NOTHING = 0
    ARRIVAL = auto()
    """a thread's own arrival on an mbarrier"""
    COMPLETION_ARRIVAL = auto()
    """an arrival on an mbarrier when earlier operations of the thread are complete"""
    EXPECTATION = auto()
    """the announcement of transaction bytes"""
    BYTES = auto()
    """transaction bytes"""
    COLUMNS = auto()
    """free columns of tensor memory"""
    PAIR_ALLOCATION = auto()
    """the peer CTA's half of an allocation for a CTA pair"""
    WGMMA_SHARE = auto()
    """a warp's share of an operation of its warpgroup"""
    REGISTERS = auto()
    """registers in the pool of the CTA"""


_SUPPLIES = {Completion.BYTES: Supply.BYTES, Completion.WGMMA_GROUP: Supply.WGMMA_SHARE}


@dataclass(frozen=True, slots=True)
class Order:
    """The memory order of an access, arrival, wait or fence: section "Memory Consistency Model"."""

    scope: Scope = Scope.GPU
    acquires: bool = False
    releases: bool = False
    strong: bool = True

    @property
    def relaxed(self) -> bool:
        """Strong, but neither acquire nor release."""
        return self.strong and not self.acquires and not self.releases

    @property
    def synchronises(self) -> bool:
        """Acquire or release."""
        return self.acquires or self.releases


WEAK = Order(strong=False)


def order_of(semantics: str | None, scope: str | None = None) -> Order:
    """The order that modifiers name; without ``semantics`` it is weak.

    Examples
    --------
    >>> order_of("acquire", "cluster")
    Order(scope=<Scope.CLUSTER: 1>, acquires=True, releases=False, strong=True)
    >>> order_of(None), order_of("volatile").relaxed
    (Order(scope=<Scope.GPU: 2>, acquires=False, releases=False, strong=False), True)
    """
    both = semantics in ("acq_rel", "sc")
    return Order(
        SCOPES.get(scope or "", Scope.GPU),
        acquires=both or semantics == "acquire",
        releases=both or semantics == "release",
        strong=semantics not in (None, "weak"),
    )


class Effect:
    """The base class of all effects."""

    __slots__ = ()

    @property
    def supplies(self) -> Supply:
        """What executing the instruction supplies to threads that wait."""
        return Supply.NOTHING

    @property
    def name_words(self) -> int:
        """How many words of the opcode name the instruction in reports."""
        return 2


@dataclass(frozen=True, slots=True)
class Local(Effect):
    """Registers of the warp only: no memory that others see, no synchronisation."""


LOCAL = Local()


@dataclass(frozen=True, slots=True)
class Access(Effect):
    """Memory accesses of the executing threads, performed when the instruction executes, through the generic proxy.

    The native description of the instruction, or its handler (`WarpContext.access`), says which bytes. ``writes`` are the spaces that a
    service may write; ``tensor_map``: it changes a tensor map.
    """

    order: Order = WEAK
    writes: Space = Space.NONE
    tensor_map: bool = False


@dataclass(frozen=True, slots=True)
class TensorTransfer(Effect):
    """tcgen05.ld and tcgen05.st: between registers and tensor memory, complete at tcgen05.wait."""

    write: bool


@dataclass(frozen=True, slots=True)
class Asynchronous(Effect):
    """An asynchronous operation: issued by the instruction, performed later by ``unit``.

    Attributes
    ----------
    completion : what reports that it is complete
    proxy : through which it accesses memory
    writes : the spaces that it may write
    pipe : of the tensor core
    atomic : it updates memory by atomic operations
    adds_floats : and adds floating-point numbers, or may do so
    order : of an atomic operation, or of one that nothing reports: what its release makes visible
    tensor_map : it reads a tensor map
    pair : both CTAs of a CTA pair take part
    variant : operations of one pipe with different ones form no pipeline
    stored : the position of the operand whose registers it stores as they are; -1 for none
    """

    unit: Unit
    completion: Completion
    proxy: Proxy = Proxy.ASYNC
    writes: Space = Space.NONE
    pipe: Pipe | None = None
    atomic: bool = False
    adds_floats: bool = False
    order: Order = WEAK
    tensor_map: bool = False
    pair: bool = False
    variant: str = ""
    stored: int = -1

    @property
    def supplies(self) -> Supply:
        return _SUPPLIES.get(self.completion, Supply.NOTHING)

    @property
    def name_words(self) -> int:
        return 3 + self.tensor_map + self.atomic if self.unit is Unit.TMA else 2


@dataclass(frozen=True, slots=True)
class CompletionArrival(Effect):
    """An arrival on mbarriers, made when the thread's earlier asynchronous operations of a class are complete."""

    of: Completion

    @property
    def supplies(self) -> Supply:
        return Supply.COMPLETION_ARRIVAL


@dataclass(frozen=True, slots=True)
class CommitGroup(Effect):
    """Commits the uncommitted asynchronous operations to a new group."""

    of: Completion


@dataclass(frozen=True, slots=True)
class WaitGroup(Effect):
    """Waits until at most N of the newest groups are pending; N is an operand of the instruction.

    ``sources``: only until their sources have been read. ``everything``: also waits for uncommitted operations.
    """

    of: Completion
    sources: bool = False
    everything: bool = False


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
    """Arrives on an mbarrier. ``expects``: and announces transaction bytes before."""

    order: Order
    expects: bool = False

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
    """Tests a phase of an mbarrier, or waits for it, and acquires where it is complete."""

    order: Order
    parity: bool


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
class TensorWait(Effect):
    """tcgen05.wait::st (``write``) or ::ld: the warp's earlier transfers are complete."""

    write: bool


@dataclass(frozen=True, slots=True)
class WgmmaFence(Effect):
    """wgmma.fence: orders registers before wgmma.mma_async."""


@dataclass(frozen=True, slots=True)
class Alloc(Effect):
    """Allocates columns of tensor memory, waits until they are free, and writes their address to shared memory."""

    pair: bool

    @property
    def supplies(self) -> Supply:
        return Supply.PAIR_ALLOCATION


@dataclass(frozen=True, slots=True)
class Dealloc(Effect):
    """Frees columns of tensor memory."""

    pair: bool

    @property
    def supplies(self) -> Supply:
        return Supply.COLUMNS


@dataclass(frozen=True, slots=True)
class AllocPermitRelease(Effect):
    """Gives up the right of the CTA to allocate columns."""


@dataclass(frozen=True, slots=True)
class GridWait(Effect):
    """griddepcontrol.wait: the grid before is complete, and visible."""


@dataclass(frozen=True, slots=True)
class GridLaunch(Effect):
    """griddepcontrol.launch_dependents: the dependent grid may start."""


@dataclass(frozen=True, slots=True)
class RegisterPool(Effect):
    """setmaxnreg: takes registers from the CTA's pool, or gives them back (``gives``)."""

    gives: bool

    def fault(self, wanted: int, held: int) -> tuple[str, str] | None:
        """What is wrong with a count of registers in a warp that has so many, and how it is fixed.

        >>> RegisterPool(gives=True).fault(40, 128)
        >>> RegisterPool(gives=False).fault(40, 128)
        ('setmaxnreg.inc to 40 registers, but the warp has 128', 'use setmaxnreg.dec')
        """
        if self.gives and wanted > held:
            return f"setmaxnreg.dec to {wanted} registers, but the warp has {held}", "use setmaxnreg.inc, or launch with more registers"
        if not self.gives and wanted < held:
            return f"setmaxnreg.inc to {wanted} registers, but the warp has {held}", "use setmaxnreg.dec"
        return None

    @property
    def supplies(self) -> Supply:
        return Supply.REGISTERS if self.gives else Supply.NOTHING


_UNITS = {
    Completion.COMMIT: Unit.TENSOR_CORE,
    Completion.COPY_GROUP: Unit.COPY,
    Completion.BULK_GROUP: Unit.TMA,
    Completion.WGMMA_GROUP: Unit.WARPGROUP,
}


GROUP_INSTRUCTIONS = {
    Completion.COPY_GROUP: ("cp.async.commit_group", "cp.async.wait_group 0"),
    Completion.BULK_GROUP: ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0"),
    Completion.WGMMA_GROUP: ("wgmma.commit_group", "wgmma.wait_group 0"),
}
"""For messages: what commits operations to a group, and what waits for all groups."""


def unit_of(effect: Effect | None) -> Unit:
    """The unit that performs an asynchronous operation, or those operations whose completion it follows."""
    if isinstance(effect, Asynchronous):
        return effect.unit
    if isinstance(effect, CompletionArrival | CommitGroup | WaitGroup):
        return _UNITS[effect.of]
    raise TypeError(f"{effect} is performed by no unit")


Effects: TypeAlias = "Effect | Callable[[Qualifiers], Effect] | None"
"""What a row declares."""


def resolve(declared: Effects, q: Qualifiers) -> Effect | None:
    """The effect of an instruction whose pattern matched ``q``."""
    return declared(q) if callable(declared) else declared
