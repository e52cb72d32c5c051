"""What is still under way when a CTA exits: asynchronous operations on its shared memory, and what other CTAs do there.

Everything is judged by what the CTA's warps know when the last of them exits, not by whether the operation happens to be complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race.clocks.clocks import Agent, BarrierClock, Clocks, joined
from ptxlab.check.race.program.instruction_kinds import async_kind
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Object
from ptxlab.check.race.shadow.shadow_ir import CLUSTER_SHIFT, HOW_SHIFT
from ptxlab.engine.program import Program
from ptxlab.isa.native_ops import Native
from ptxlab.isa.operands import Op

__all__ = ["Exits"]

_REMOTE = Kind.GENERIC, Kind.STRONG, Kind.NARROW, Kind.SILENT
_COPY = (Kind.COPY,)
_BARRIERS = ("mbarrier.", "tcgen05.commit")
"""What reaches only mbarrier objects."""


class Exits:
    """Judges the exit of CTAs; ``copies``: the program has cp.async."""

    def __init__(self, findings: Findings, copies: bool, program: Program) -> None:
        self._findings = findings
        self._copies = copies
        self._reaches = any(_reaches_others(op, program.natives.get(op.index)) for op in program.ops)

    def leave(self, clocks: Clocks, cta: Any, shared: Object) -> None:
        """All threads of a CTA have exited."""
        own = clocks.agents[cta.rank * clocks.warps : (cta.rank + 1) * clocks.warps]
        known = np.maximum.reduce([agent.rows[Row.EXECUTION] for agent in own])
        self._bulk(clocks, cta, known)
        self._wgmma(clocks, cta, known)
        if self._copies and any(_is_copying(agent, known) for agent in own):
            for op, agent in self._entries(clocks, shared, _COPY, known):
                self._findings.unjoined(agent, op, reads=False, grouped=_is_grouped(agent))
        if len(clocks.agents) > len(own):
            self._remote(clocks, cta, shared, joined(clocks.met.get(cta.rank), known))

    def _bulk(self, clocks: Clocks, cta: Any, known: NDArray[np.uint32]) -> None:
        for agent in clocks.agents:
            for what, slot in agent.slots.items():
                if not isinstance(what, tuple) or not slot.clock:
                    continue
                read = agent.rows[Row.EXECUTION, slot.number + Component.EARLY] >= slot.clock
                if what[0] == "bulk group" and agent.cta is cta and not read:
                    self._findings.unjoined(agent, slot.op, reads=True)
                if what[0] == "bulk" and what[1] == cta.rank and known[slot.number] < slot.clock:
                    self._findings.unjoined(agent, slot.op, reads=False)

    def _wgmma(self, clocks: Clocks, cta: Any, known: NDArray[np.uint32]) -> None:
        for what, slot in clocks.shared.items():
            if isinstance(what, tuple) and what[:2] == ("wgmma", cta.rank) and known[slot.number] < slot.clock:
                owner = clocks.owners[slot.number // 2][0]
                assert owner is not None
                self._findings.unjoined(owner, slot.op, reads=True)

    def _remote(self, clocks: Clocks, cta: Any, shared: Object, known: NDArray[np.uint32]) -> None:
        for op, agent in self._entries(clocks, shared, _REMOTE, known) if self._reaches else ():
            if agent.cta is not cta:
                self._findings.outlived(cta, agent, op)
        for barrier in cta.mbarriers.values():
            barrier_clock: BarrierClock | None = barrier.clock
            for slot, use in barrier_clock.remote.items() if barrier_clock is not None else ():
                if known[slot] < use.clock:
                    self._findings.outlived(cta, use.agent, use.op)

    def _entries(self, clocks: Clocks, shared: Object, kinds: tuple[Kind, ...], known: NDArray[np.uint32]) -> Iterator[tuple[Any, Agent]]:
        """The instruction and warp of each access of these kinds in the shadow of shared memory that the CTA does not know to be done."""
        cells = np.concatenate([_of_kinds(each.reshape(-1, 2), kinds) for each in (shared.cells, shared.further)])
        slots = (cells[:, 0] >> np.uint64(32)).astype(np.int64)
        columns = slots & (1 << CLUSTER_SHIFT) - 1
        late = (slots >> CLUSTER_SHIFT == clocks.serial) & (
            known[np.where(columns < len(known), columns, 0)] < (cells[:, 0] & np.uint64(0xFFFFFFFF))
        )
        for column, index in sorted(set(zip(columns[late].tolist(), (cells[late, 1] & np.uint64(0xFFFFFF)).tolist(), strict=True))):
            agent = clocks.owners[column // 2][0]
            if agent is not None:
                yield self._findings.op(index), agent


def _reaches_others(op: Op, native: Native | None) -> bool:
    """Whether an instruction can access the shared memory of another CTA as its own thread does."""
    if op.row.kind == "service":
        own = async_kind(op.opcode) in (Kind.BULK, Kind.REDUCE) or op.opcode.startswith(_BARRIERS)
        return "shared::cluster" in op.opcode and not own
    return getattr(native, "space", "") in ("shared::cluster", "generic")


def _of_kinds(cells: NDArray[np.uint64], kinds: tuple[Kind, ...]) -> NDArray[np.uint64]:
    """The entries of accesses of these kinds."""
    wanted = np.zeros(256, bool)
    for kind in kinds:
        wanted[[kind << 1, kind << 1 | 1]] = True
    found = cells[wanted[_hows(cells)]]
    used: NDArray[np.uint64] = found[found[:, 1] != 0]
    return used


def _hows(cells: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Kind << 1 | write of each entry, the highest byte of its second word."""
    how: NDArray[np.uint8] = cells.view(np.uint8).reshape(len(cells), 16)[:, 8 + HOW_SHIFT // 8]
    return how


def _is_grouped(agent: Agent) -> bool:
    """Whether the last cp.async of a warp is in a group."""
    slot = agent.slots["cp.async"]
    return bool(slot.groups) and slot.groups[-1] >= slot.newest


def _is_copying(agent: Agent, known: NDArray[np.uint32]) -> bool:
    """Whether a warp has a cp.async that its CTA does not know to be done."""
    slot = agent.slots.get("cp.async")
    return slot is not None and bool(known[slot.number] < slot.newest)
