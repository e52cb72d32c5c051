"""What a CTA and a CTA pair remember about tensor memory, and the checks that every tcgen05 instruction shares."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa import context
from ptxlab.isa.bulk import thread_of
from ptxlab.isa.operands import Op
from ptxlab.isa.tcgen05._collector import Collector
from ptxlab.native import BoundedCache, address_of
from ptxlab.tables import TENSOR_MEMORY_TARGETS

__all__ = [
    "CtaGroup",
    "Freed",
    "PairRequest",
    "State",
    "cta_group_of",
    "enter",
    "freed",
    "launch",
    "no_peer",
    "state_of",
    "teams",
    "whole_warp",
]


_MOST_FLYING = 256
_ALL_LANES = 0xFFFFFFFF


@dataclass(slots=True, eq=False)
class PairRequest:
    """A ``tcgen05.alloc.cta_group::2`` on its way: what each CTA asks for, and the column once it is granted."""

    columns: dict[int, int] = field(default_factory=dict)
    column: int | None = None
    taken: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Freed:
    """Columns that a CTA has had: how many, which instruction has freed them, and in which warp."""

    columns: int
    op: Op
    warp: int


@dataclass(slots=True, eq=False)
class CtaGroup:
    """The CTAs that operations work on: one, or a pair with the even one first.

    ``queue`` is that in which their operations perform in order; ``places`` are the addresses of their memories, 0 and then for each CTA
    those of shared and of tensor memory, and ``bases`` is where these stand, for compiled code.
    """

    ctas: tuple[context.Cta, ...]
    queue: Hashable = field(init=False)
    places: tuple[int, ...] = field(init=False)
    bases: int = field(init=False)
    _table: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.queue = "tcgen05", id(self.ctas[0])
        self.places = 0, *(address for cta in self.ctas for address in (cta.shared_address, cta.tensor_address))
        self._table = np.array(self.places, np.int64)
        self.bases = address_of(self._table)


@dataclass(slots=True)
class State:
    """Of one CTA.

    ``checked`` holds the operands that were found allocated, ``ready`` the plans whose tensor memory was, by instruction and operands: a
    change of allocation clears both. ``in_flight`` holds operations on tensor memory that may not be complete, ``issuers`` the threads
    that have issued any; ``collectors`` are the collector buffers by name (a pair's are those of its even CTA).
    """

    permit: bool = True
    group: int = 0
    smallest: int = 512
    pairs: list[PairRequest] = field(default_factory=list)
    checked: set[Hashable] = field(default_factory=set)
    ready: BoundedCache[Hashable, Any] = field(default_factory=lambda: BoundedCache(8192))
    in_flight: list[context.AsyncOperation] = field(default_factory=list)
    issuers: set[Hashable] = field(default_factory=set)
    collectors: dict[str, Collector] = field(default_factory=dict)
    grants: dict[int, Op] = field(default_factory=dict)
    """By first column: the instruction that the allocation comes from."""
    freed: dict[int, Freed] = field(default_factory=dict)
    """By first column, the last ones at the end."""
    team: CtaGroup | None = None

    def reallocated(self) -> None:
        """What was found allocated may be so no longer."""
        self.checked.clear()
        self.ready.clear()


def state_of(cta: context.Cta) -> State:
    """The CTA's state, made on first use."""
    found: State | None = cta.state.get("tcgen05")
    if found is None:
        found = cta.state["tcgen05"] = State()
    return found


def _needs_tensor_memory(warp: context.WarpContext) -> None:
    if warp.machine.target not in TENSOR_MEMORY_TARGETS:
        warp.fault("T625", f"{warp.machine.target} has no tensor memory", fix="compile for sm_100a, sm_103a or sm_110a")


def enter(warp: context.WarpContext, active: bool = True) -> tuple[State, int]:
    """The CTA's state and the instruction's cta_group, checked: one group in the whole kernel, for group 2 a peer that is ``active``."""
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
    """The cta_group of most tcgen05 instructions of the kernel, the ``first`` one if there are as many of both."""
    words = [op.opcode.split(".") for op in warp.machine.program.ops]
    counts = {group: sum(f"cta_group::{group}" in each for each in words) for group in (1, 2)}
    return max(counts, key=lambda group: (counts[group], group == first))


def freed(cta: context.Cta, column: int, cta_of_user: context.Cta, warp: int) -> tuple[Op, str] | None:
    """What has freed a column that a CTA has had, and the repair, for the warp that uses it still; None if the CTA never had it."""
    found = next((f for start, f in reversed(state_of(cta).freed.items()) if start <= column < start + f.columns), None)
    if found is None:
        return None
    line = found.op.line
    if cta is cta_of_user and warp == found.warp:
        return found.op, f"execute tcgen05.dealloc, line {line}, behind the last use of the columns"
    barrier = "bar.sync, or barrier.cluster if both CTAs of the pair use them" if "cta_group::2" in found.op.opcode else "bar.sync"
    return found.op, f"synchronise the warps that use the columns ({barrier}) before tcgen05.dealloc at line {line}"


def whole_warp(warp: context.WarpContext) -> None:
    """A fault unless all 32 threads of the warp are there."""
    if warp.live != _ALL_LANES:
        warp.fault(
            "T626",
            f"{warp.op.opcode}: the warp is not whole: some of its 32 threads have exited, or were never there",
            fix="execute it in a warp of 32 threads, none of which has exited",
        )


def no_peer(warp: context.WarpContext) -> NoReturn:
    """The fault of a .cta_group::2 instruction whose peer CTA is not there."""
    warp.fault(
        "T609",
        f"{warp.op.opcode} needs the peer CTA of CTA {warp.cta.ctaid}, which is not in the cluster or has exited",
        fix="launch with an even cluster size, and let no CTA of a pair exit before the tcgen05 instructions of both are complete",
    )


def teams(cta: context.Cta, group: int) -> tuple[context.Cta, ...]:
    """The CTAs that an operation works on: the CTA itself, or both of its pair, the even one first."""
    if group == 1:
        return (cta,)
    peer = cta.peer
    assert peer is not None
    return (cta, peer) if cta.rank % 2 == 0 else (peer, cta)


def cta_group_of(cta: context.Cta, group: int) -> CtaGroup:
    """The CTAs of a CTA's operations; a kernel uses one group."""
    state = state_of(cta)
    if state.team is None:
        state.team = CtaGroup(teams(cta, group))
    return state.team


def launch(
    warp: context.WarpContext,
    lane: int,
    team: CtaGroup,
    perform: Callable[[], None],
    accesses: Callable[[], Iterable[context.MemoryAccess]],
) -> None:
    """Issue an asynchronous operation on tensor memory."""
    thread = thread_of(warp, lane)
    operation = context.AsyncOperation(warp.op.opcode, warp.op, warp.cta, perform, team.queue, thread)
    if warp.machine.observed:
        operation.accesses = accesses
    state_of(warp.cta).issuers.add(thread)
    warp.machine.enqueue(operation)
    if not operation.done:
        for cta in team.ctas:
            in_flight = state_of(cta).in_flight
            in_flight.append(operation)
            if len(in_flight) > _MOST_FLYING:
                in_flight[:] = [o for o in in_flight if not o.done]
