"""The tcgen05 state of a CTA and a CTA pair, and the checks that all tcgen05 instructions have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa import context, operations
from ptxlab.isa.bulk import thread_of
from ptxlab.isa.operands import Op
from ptxlab.isa.operations.matrices import MatrixProduct, TensorCopy
from ptxlab.isa.operations.products import Product
from ptxlab.isa.repeating import ORDER_BASE, shared_base
from ptxlab.isa.tcgen05._collectors import COLLECTORS_BASE, Collectors
from ptxlab.native import BoundedCache, address_of
from ptxlab.tables import TENSOR_MEMORY_TARGETS

__all__ = [
    "CtaGroup",
    "Freed",
    "PairRequest",
    "State",
    "cta_group_of",
    "ctas_of_group",
    "enter",
    "freed",
    "launch",
    "no_peer",
    "operation_of",
    "reallocated",
    "state_of",
    "tensor_base",
    "whole_warp",
]

_ALL_LANES = 0xFFFFFFFF


@dataclass(slots=True, eq=False)
class PairRequest:
    """A pending ``tcgen05.alloc.cta_group::2``: the number of columns for each CTA rank, and the first column once allocated."""

    columns: dict[int, int] = field(default_factory=dict)
    column: int | None = None
    taken: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Freed:
    """Columns that a CTA has freed: their number, and the instruction and the warp that freed them."""

    columns: int
    op: Op
    warp: int


@dataclass(slots=True, eq=False)
class CtaGroup:
    """The CTAs of a .cta_group: one CTA, or a CTA pair with the even rank first.

    ``queue`` identifies the queue in which their operations perform in order: the address of the first one's shared memory, which CTAs have
    one after the other. ``name`` identifies the CTAs themselves. ``places`` are the base addresses for compiled code: 0, then for each CTA
    those of shared and tensor memory. ``bases`` is the address of an array that holds them, and behind those of a pair that of the
    collector buffers. ``products`` are those that observers have asked for, by plan, and whether they are added.
    """

    ctas: tuple[context.Cta, ...]
    queue: int = field(init=False)
    name: Hashable = field(init=False)
    places: tuple[int, ...] = field(init=False)
    bases: int = field(init=False)
    products: BoundedCache[Hashable, MatrixProduct] = field(init=False, default_factory=lambda: BoundedCache(1024))
    _table: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.places = 0, *(address for cta in self.ctas for address in (cta.shared_address, cta.tensor_address))
        self.queue = self.places[ORDER_BASE]
        self.name = "tcgen05", id(self.ctas[0])
        self._table = np.zeros(COLLECTORS_BASE + 1, np.int64)
        self._table[: len(self.places)] = self.places
        self._table[COLLECTORS_BASE] = state_of(self.ctas[0]).collectors.address
        self.bases = address_of(self._table)


def tensor_base(cta: int) -> int:
    """The index of the base of a CTA's tensor memory."""
    return shared_base(cta) + 1


@dataclass(slots=True)
class State:
    """The tcgen05 state of one CTA.

    ``checked`` holds column ranges that were checked to be allocated; ``ready`` holds plans that were checked so, by instruction and
    operands. A change of allocation clears both. ``collectors`` are the collector buffers (a pair's are those of its even CTA).
    """

    permit: bool = True
    group: int = 0
    smallest: int = 512
    pairs: list[PairRequest] = field(default_factory=list)
    checked: set[Hashable] = field(default_factory=set)
    ready: BoundedCache[Hashable, Any] = field(default_factory=lambda: BoundedCache(8192))
    collectors: Collectors = field(default_factory=Collectors)
    grants: dict[int, Op] = field(default_factory=dict)
    """First column of an allocation -> the instruction that made it."""
    freed: dict[int, Freed] = field(default_factory=dict)
    """First column -> columns that were freed, the most recent last."""
    cta_group: CtaGroup | None = None


def state_of(cta: context.Cta) -> State:
    """The CTA's tcgen05 state; created on first use."""
    found: State | None = cta.state.get("tcgen05")
    if found is None:
        found = cta.state["tcgen05"] = State()
    return found


def reallocated(cta: context.Cta) -> None:
    """Forget the successful checks of a CTA, after an allocation or deallocation."""
    state = state_of(cta)
    state.checked.clear()
    state.ready.clear()
    cta.changed()


def _needs_tensor_memory(warp: context.WarpContext) -> None:
    if warp.machine.target not in TENSOR_MEMORY_TARGETS:
        warp.fault("T625", f"{warp.machine.target} has no tensor memory", fix="compile for sm_100a, sm_103a or sm_110a")


def enter(warp: context.WarpContext, active: bool = True) -> tuple[State, int]:
    """Return the CTA's state and the instruction's .cta_group, after checks.

    The whole kernel must use the same .cta_group. Group 2 needs a peer CTA, which must not have exited if ``active``.
    """
    state = state_of(warp.cta)
    group = 2 if warp.q.cta_group == "cta_group::2" else 1
    if group != state.group:
        if state.group:
            warp.fault(
                "T606",
                f"{warp.op.opcode} follows tcgen05 instructions with .cta_group::{state.group} in the same kernel",
                fix=f"use .cta_group::{_most(warp, state.group)} in all tcgen05 instructions of the kernel",
            )
        _needs_tensor_memory(warp)
        state.group = group
    if group == 2 and ((peer := warp.cta.peer) is None or (active and peer.exited)):
        no_peer(warp)
    return state, group


def _most(warp: context.WarpContext, first: int) -> int:
    """The cta_group of most tcgen05 instructions of the kernel; ``first`` if both are equally frequent."""
    words = [op.opcode.split(".") for op in warp.machine.program.ops]
    counts = {group: sum(f"cta_group::{group}" in each for each in words) for group in (1, 2)}
    return max(counts, key=lambda group: (counts[group], group == first))


def freed(cta: context.Cta, column: int, cta_of_user: context.Cta, warp: int) -> tuple[Op, str] | None:
    """The instruction that freed a column, and the fix for the warp that still uses it; None if the CTA did not free it."""
    found = next((f for start, f in reversed(state_of(cta).freed.items()) if start <= column < start + f.columns), None)
    if found is None:
        return None
    line = found.op.line
    if cta is cta_of_user and warp == found.warp:
        return found.op, f"execute tcgen05.dealloc, line {line}, after the last use of the columns"
    barrier = "bar.sync, or barrier.cluster if both CTAs of the pair use them" if "cta_group::2" in found.op.opcode else "bar.sync"
    return found.op, f"synchronise the warps that use the columns ({barrier}) before tcgen05.dealloc at line {line}"


def whole_warp(warp: context.WarpContext) -> None:
    """A fault unless all 32 threads of the warp exist and none has exited."""
    if warp.live != _ALL_LANES:
        warp.fault(
            "T626",
            f"{warp.op.opcode}: some of the warp's 32 threads have exited or do not exist",
            fix="execute it in a warp of 32 threads, none of which has exited",
        )


def no_peer(warp: context.WarpContext) -> NoReturn:
    """Report the fault of a .cta_group::2 instruction whose peer CTA does not exist or has exited."""
    warp.fault(
        "T609",
        f"{warp.op.opcode} needs the peer CTA of CTA {warp.cta.ctaid}, which is not in the cluster or has exited",
        fix="launch with an even cluster size, and let no CTA of a pair exit before the tcgen05 instructions of both are complete",
    )


def ctas_of_group(cta: context.Cta, group: int) -> tuple[context.Cta, ...]:
    """The CTAs of a .cta_group: the CTA itself, or both of its pair, the even rank first."""
    if group == 1:
        return (cta,)
    peer = cta.peer
    assert peer is not None
    return (cta, peer) if cta.rank % 2 == 0 else (peer, cta)


def cta_group_of(cta: context.Cta, group: int) -> CtaGroup:
    """The `CtaGroup` of a CTA; created once, since a kernel uses only one .cta_group."""
    state = state_of(cta)
    if state.cta_group is None:
        state.cta_group = CtaGroup(ctas_of_group(cta, group))
    return state.cta_group


def repeated_state(warp: context.WarpContext, cta_group: CtaGroup) -> Hashable:
    """What executions depend on that compiled code repeats (`WarpContext.repeat`): the CTAs, and the columns that they have allocated."""
    allocated = tuple([(cta.shared.size, cta.tensor.owned(cta).tobytes()) for cta in cta_group.ctas])
    return len(cta_group.ctas), warp.machine.target, allocated


def launch(warp: context.WarpContext, lane: int, operation: operations.AsyncOperation) -> None:
    """Issue an asynchronous operation on tensor memory (`operation_of`)."""
    warp.issued |= 1 << lane
    warp.machine.enqueue(operation)


def operation_of(
    op: Op,
    warp: context.WarpContext,
    lane: int,
    cta_group: CtaGroup,
    perform: Callable[[], None],
    accesses: Callable[[], Iterable[operations.MemoryAccess]] | None = None,
    undefined: Callable[[operations.UndefinedBits], None] | None = None,
    product: Callable[[], MatrixProduct] | None = None,
    details: Callable[[], Product] | None = None,
    tensor_copy: Callable[[], TensorCopy] | None = None,
) -> operations.AsyncOperation:
    """The operation of an instruction that a lane has executed; see `ptxlab.isa.operations.AsyncOperation`."""
    operation = operations.AsyncOperation(op.opcode, op, warp.cta, perform, cta_group.queue, thread_of(warp, lane))
    if warp.machine.observed:
        operation.accesses, operation.undefined, operation.product, operation.details = accesses, undefined, product, details
        operation.tensor_copy = tensor_copy
    return operation
