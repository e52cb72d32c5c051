"""Asynchronous operations: what they reach when they are issued, and what their completion will tell."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from ptxlab.check.model import TENSOR_PIPES, Component, Kind, Row
from ptxlab.check.race._barriers import PendingCompletion
from ptxlab.check.race._services import Services
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Slot, joined
from ptxlab.check.race.program.instruction_kinds import async_kind
from ptxlab.check.race.shadow.accumulators import Accumulators
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.isa.operands import Op

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Asynchronous"]


class Asynchronous(Services):
    """See the module."""

    def __init__(self, launch: Launch, shadow: type[Shadow]) -> None:
        super().__init__(launch, shadow)
        self.accumulators = Accumulators(self.shadow) if launch.model == "spec" else None

    def issued(self, operation: AsyncOperation) -> None:
        """An asynchronous operation's accesses follow what its issuer knows."""
        warp = self.launch.scheduler.current
        if warp is None:
            return
        clocks, agent = self._agent(warp)
        opcode = operation.op.opcode
        kind = async_kind(opcode)
        lane = operation.thread[-1] if isinstance(operation.thread, tuple) else 0
        if agent.loads:
            self._consume(clocks, agent, operation.op.index)
        accesses = tuple(operation.accesses()) if operation.accesses is not None else ()
        if kind in TENSOR_PIPES:
            slot = self._pipe(clocks, agent, lane)
            self._record_accesses(clocks, agent, slot, kind, operation.op, accesses)
            if kind is Kind.MMA and self.accumulators is not None:
                self._accumulate(warp, clocks, agent, slot, operation.op, lane, accesses)
        elif opcode.startswith("tcgen05.commit"):
            # What one thread issues between two commits is one number: only commits tell of it.
            slot = self._pipe(clocks, agent, lane)
            operation.agent = completion = self._pending_completion(clocks, agent)
            completion.slots[0] = slot, slot.clock
            completion.covers(slot, slot.clock)
            slot.clock += 1
            agent.rows[Row.TENSOR, slot.number + Component.EARLY] = slot.clock
        elif kind is Kind.WGMMA:
            slot = self._wgmma_slot(clocks, warp)
            slot.clock += 1
            slot.op = operation.op
            rows = joined(self._shares.pop((id(warp.cta), warp.warp_id // 4, slot.clock), None), clocks.of(agent))
            self._record_accesses(clocks, agent, slot, kind, operation.op, accesses, rows)
            self._perform_wgmma(warp, clocks, slot.clock, rows)
        elif kind in (Kind.STRONG, Kind.STORE) and not any(t.signal is not None for t in accesses):
            self._record_accesses(clocks, agent, agent.main, Kind.STRONG, operation.op, accesses)
        elif kind is not None:
            self._bulk(clocks, agent, operation, kind, lane, accesses)
        elif opcode.startswith("cp.async.mbarrier.arrive"):
            slot = clocks.own(agent, "cp.async")
            slot.clock += 1
            operation.agent = completion = self._pending_completion(clocks, agent)
            completion.slots[0] = slot, slot.clock
            completion.covers(slot, slot.clock)
        else:
            operation.agent = self._pending_completion(clocks, agent)

    def _accumulate(
        self, warp: Warp, clocks: Clocks, agent: Agent, slot: Slot, op: Op, lane: int, accesses: Iterable[MemoryAccess]
    ) -> None:
        """The letter: another accumulator or shape forms no pipeline."""
        assert self.accumulators is not None
        name, who = self.accumulators.name(warp, op, lane), slot.name << 32 | slot.clock
        for access in accesses:
            suspect = self.accumulators.write(access, name, who, op, agent.rows) if access.write else None
            if suspect is not None:
                self.findings.judge(clocks, agent, suspect)

    def _pipe(self, clocks: Clocks, agent: Agent, lane: int) -> Slot:
        """The slot of a thread's asynchronous operations on tensor memory."""
        slot = clocks.own(agent, ("tcgen05", lane))
        if not slot.clock:
            slot.clock = 1
            agent.rows[Row.TENSOR, slot.number + Component.EARLY] = 1
        return slot

    def _pending_completion(self, clocks: Clocks, agent: Agent) -> PendingCompletion:
        """What the completion of an operation tells: what its issuer knew, the issuer's own accesses not included."""
        rows = clocks.carried(agent).copy()
        rows[:, agent.main.number] = 0
        return PendingCompletion(agent, rows)

    def _bulk(
        self, clocks: Clocks, agent: Agent, operation: AsyncOperation, kind: Kind, lane: int, accesses: tuple[MemoryAccess, ...]
    ) -> None:
        slots: dict[int, Slot] = {}
        for access in accesses:
            barrier: Any = access.signal
            if barrier is not None and id(barrier) not in slots:
                slots[id(barrier)] = clocks.own(agent, ("bulk", barrier.rank, barrier.offset))
        first = clocks.own(agent, ("bulk reads" if slots else "bulk group", lane))
        first.clock += 1
        operation.agent = completion = self._pending_completion(clocks, agent)
        for key, slot in slots.items():
            slot.clock += 1
            completion.slots[key] = slot, slot.clock
            if len(slots) == 1:
                completion.covers(slot, slot.clock)
        if slots:
            completion.covers(first, first.clock)
        else:
            self.findings.clusters.stored(first.name, first.clock, _contents(accesses))
        for access in accesses:
            slot = first if access.signal is None else slots[id(access.signal)]
            slot.op = operation.op
            self._record_accesses(clocks, agent, slot, kind, operation.op, (access,))


def _contents(accesses: Iterable[MemoryAccess]) -> int:
    """A digest of what a copy reads and where it writes it, to know copies that do the same twice."""
    digest = 0
    for access in accesses:
        if access.write:
            digest = crc32(access.starts.tobytes(), digest)
        else:
            for start, size in zip(access.starts.tolist(), np.broadcast_to(access.sizes, access.starts.shape).tolist(), strict=True):
                digest = crc32(ctypes.string_at(start, size), digest)
    return digest
