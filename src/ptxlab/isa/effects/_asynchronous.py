"""Asynchronous operations: what performs them, and what reports that they are complete."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ptxlab._records import dataclass
from ptxlab.isa.effects._effect import Effect, Supply
from ptxlab.isa.effects._memory_order import WEAK, Order, Proxy, Space

__all__ = [
    "GROUP_INSTRUCTIONS",
    "Asynchronous",
    "BoxOperands",
    "CommitGroup",
    "Completion",
    "CompletionArrival",
    "Pipe",
    "TensorTransfer",
    "TensorWait",
    "Unit",
    "WaitGroup",
    "unit_of",
]


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


_SUPPLIES = {Completion.BYTES: Supply.BYTES, Completion.WGMMA_GROUP: Supply.WGMMA_SHARE}


@dataclass(frozen=True, slots=True)
class TensorTransfer(Effect):
    """tcgen05.ld and tcgen05.st: between registers and tensor memory, complete at tcgen05.wait."""

    write: bool


@dataclass(frozen=True, slots=True)
class TensorWait(Effect):
    """tcgen05.wait::st (``write``) or ::ld: the warp's earlier transfers are complete."""

    write: bool


class BoxForm(Enum):
    """What a copy between shared memory and a tensor moves; the values begin names of functions."""

    BOX = "box"
    """the box of a tensor map in tiled mode"""
    ROWS = "rows"
    """four rows, of which each has a coordinate"""
    PIXELS = "pixels"
    """pixels of a tensor map in im2col mode"""


class BoxOperands(NamedTuple):
    """The positions of the operands of a copy between shared memory and a tensor; -1 for none.

    Attributes
    ----------
    tensor_map : with the coordinates
    shared : the box in shared memory
    barrier, ctas : the mbarrier and the CTA mask of a copy to shared memory
    offsets : those that a copy of pixels adds to the coordinates of each one
    halo : whether the first of these is the number of further pixels, and the other one is added to W
    """

    tensor_map: int
    shared: int
    barrier: int = -1
    ctas: int = -1
    offsets: int = -1
    halo: bool = False
    form: BoxForm = BoxForm.BOX


class LineOperands(NamedTuple):
    """The positions of the operands of a copy of contiguous bytes; -1 for none.

    Attributes
    ----------
    memory, shared : where the bytes are in global memory and in shared memory; of a copy between CTAs the source and the destination
    size : how many there are
    barrier, ctas : the mbarrier and the CTA mask of a copy to shared memory
    mask : the byte mask of a copy to global memory
    """

    memory: int
    shared: int
    size: int
    barrier: int = -1
    ctas: int = -1
    mask: int = -1


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
    box : the operands of a copy of one box of a tensor map in tiled mode
    line : those of a copy of contiguous bytes
    pair : both CTAs of a CTA pair take part
    variant : operations of one pipe with different ones form no pipeline
    stored : the position of the operand whose registers it stores as they are; -1 for none
    reuses : it uses a matrix that an operation before has left in a collector buffer
    metadata : the position of the operand whose register holds sparsity metadata, other ones in each lane; -1 for none
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
    box: BoxOperands | None = None
    line: LineOperands | None = None
    pair: bool = False
    variant: str = ""
    stored: int = -1
    reuses: bool = False
    metadata: int = -1

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
