"""The race sanitizer as an observer: each event of a launch goes to the part of the sanitizer that handles it.

Service instructions and fences have handlers by the class of their effect (`ptxlab.isa.effects`); an effect without a handler is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ptxlab.check.model import Kind, Row
from ptxlab.check.race._accessed import accessed_ranges
from ptxlab.check.race._barriers import Barriers
from ptxlab.check.race._exits import Aligned, Exits
from ptxlab.check.race._groups import BulkGroups, WgmmaGroups, group_handlers, ring_size
from ptxlab.check.race._operations import Operations
from ptxlab.check.race._recorder import AccessRecorder, Handlers
from ptxlab.check.race._tensor_memory import TensorMemoryAccesses, wait_for_transfers
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.clusters import GridBefore, waits_for_grid
from ptxlab.check.race.clocks.releases import Releases, access_order, fence, mbarrier_init_fence
from ptxlab.check.race.program.number_types import report_other_types
from ptxlab.check.race.shadow.barriers_ir import barrier_functions, cluster_functions
from ptxlab.check.race.shadow.lanes import Lanes
from ptxlab.check.race.shadow.shadow import MEMORY_GRANULE, Object, Shadow
from ptxlab.check.race.shadow.shadow_words import BEFORE, AgentWord, StateWord
from ptxlab.diagnostics import Diagnostic
from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import direct_arrivals, direct_groups, direct_services
from ptxlab.engine.repetitions import repeatable
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.isa.effects import (
    Access,
    AllocPermitRelease,
    Completion,
    CompletionArrival,
    Effect,
    Extract,
    Fence,
    GridLaunch,
    GridWait,
    Local,
    MbarrierInitFence,
    MbarrierWait,
    ProxyFence,
    RegisterPool,
    TensorFence,
    TensorMapFence,
    TensorTransfer,
    TensorWait,
    WgmmaFence,
)
from ptxlab.isa.native_ops import CopyAsync, LaneAccess, Nothing, TensorAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.observe.event_buffer import EventBuffer
from ptxlab.machine.observe.observer import BarrierFunctions, ClusterFunctions, Observer, Uses

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import Cluster, CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Sanitizer"]

_SHARED_ENTRIES, _GLOBAL_ENTRIES = 8, 4
_REPLAYED_WORD, _STOPPED_WORD = int(StateWord.REPLAYED), int(StateWord.STOPPED)
_SUSPECTS_WORD, _PARTED_WORD = int(StateWord.SUSPECT_COUNT), int(StateWord.PARTED)

_Fence: TypeAlias = Callable[[Any, Clocks, Agent], None]


_FENCES: dict[type[Effect], _Fence] = {
    Fence: fence,
    MbarrierInitFence: lambda effect, clocks, agent: mbarrier_init_fence(agent),
    ProxyFence: lambda effect, clocks, agent: clocks.proxy_fence(agent, effect),
    TensorMapFence: lambda effect, clocks, agent: clocks.acquire_maps(agent) if effect.acquires else clocks.release_maps(agent),
    TensorFence: lambda effect, clocks, agent: clocks.before_thread_sync(agent) if effect.before else clocks.after_thread_sync(agent),
    TensorWait: wait_for_transfers,
    GridWait: lambda effect, clocks, agent: clocks.grid_wait(agent),
    **dict.fromkeys((GridLaunch, WgmmaFence), lambda effect, clocks, agent: None),
}
"""What fences, and waits that are not services, do to the clocks of the warp that executes them."""

_ACCESSES_ONLY = dict.fromkeys((Access, AllocPermitRelease, Extract, Local, RegisterPool, TensorTransfer), lambda effect: None)
"""Services that change no clock when they are complete."""


class Sanitizer(Observer):
    """One for each launch; ``shadow`` is the class of its shadow memory."""

    def __init__(self, launch: Launch, shadow: type[Shadow] = Shadow) -> None:
        self.launch = launch
        self._recorder = recorder = AccessRecorder(launch, shadow)
        self._shadow, self._findings = recorder.shadow, recorder.findings
        self._tensor_memory = TensorMemoryAccesses(recorder)
        self._barriers = barriers = Barriers(recorder, self._tensor_memory)
        for event in ("initialised", "invalidated", "expected", "arrived", "arrived_together", "completed", "acquired"):
            setattr(self, event, getattr(barriers, event))
        wgmma = WgmmaGroups(recorder)
        self._releases = Releases(launch.program)
        self._operations = operations = Operations(recorder, self._tensor_memory, wgmma, self._releases)
        self.issued, self.repetition = operations.issued, operations.repetition  # type: ignore[method-assign]
        self._ops, self._natives = launch.program.ops, launch.program.natives
        self._buffer = EventBuffer(launch, self.drain)
        self._handlers: Handlers = {
            **_ACCESSES_ONLY,
            **barriers.handlers(),
            **self._tensor_memory.handlers(),
            **group_handlers(wgmma, BulkGroups(recorder)),
        }
        self._heads = self._buffer.heads
        self._serial = BEFORE + 1
        self._shared: dict[int, Object] = {}
        self._copies = any(isinstance(native, CopyAsync) for native in self._natives.values())
        direct = (
            *launch.facts.of(direct_services),
            *launch.facts.of(direct_groups),
            *(self._ops[index] for index in launch.facts.of(repeatable)),
        )
        self._direct = {op.index: self.retire_hook(op) for op in direct}
        self._arrivals = frozenset(op.index for op in launch.facts.of(direct_arrivals))
        self._fences = {
            index: (op.aligned, partial(_FENCES[type(op.effects)], op.effects))
            for index, native in self._natives.items()
            if isinstance(native, Nothing) and (op := self._ops[index]).effects is not None
        }
        self._exits = Exits(self._findings, self._copies, launch)
        self._aligned = Aligned(launch)
        self._lanes = Lanes(launch.program, recorder.table, self._shadow, self._findings) if launch.model == "spec" else None
        self._global = [
            self._shadow.watch(allocation.data, MEMORY_GRANULE, _GLOBAL_ENTRIES, Row.ASYNC_GLOBAL, allocation)
            for allocation in launch.device.memory.live()
            if allocation.size and allocation.writable
        ]
        for made in self._global:
            self._findings.conditional.device.watch(made)
        before = launch.before
        if isinstance(before, GridBefore) and launch.facts.of(waits_for_grid):
            # This launch may have started before the last one was complete: memory starts with that one's accesses.
            self._findings.before = before
            for made in self._global:
                before.seed(made)

    def finished(self) -> tuple[Diagnostic, ...]:
        """Compare what loads and stores take elements for with the arrays; tell what runs beside the launch what it has accessed."""
        report_other_types(self.launch)
        outside = self.launch.options.outside
        if outside is not None and outside.wants_accesses():
            outside.accessed(accessed_ranges(self.launch, self._global))
        return ()

    def forget(self) -> None:
        for each in (self._buffer, self._findings, self._operations):
            vars(each).clear()

    def uses(self, replay: Callable[[], Replay], completed: bool = True) -> Uses:
        return self._findings.conditional.uses(replay, self.launch, completed)

    def unsettled(self) -> bool:
        return self._findings.conditional.unsettled(self.launch)

    def open_findings(self) -> Iterable[tuple[str, int]]:
        return self._findings.conditional.open

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        """The handler of a service instruction's effect; most have none."""
        if op.row.kind != "service" or op.effects is None:
            return None
        return self._handlers[type(op.effects)](op.effects)

    def allows_direct_completion(self, op: Op) -> bool:
        """Compiled code records an event row for each service that it completes, from which the clocks are updated; not under ``spec``."""
        return self._lanes is None

    def takes_arrivals_together(self) -> bool:
        """The clocks of blocked warps are joined when the barrier completes; not under ``spec``."""
        return self._lanes is None

    def barrier_functions(self, cta: CtaState) -> BarrierFunctions | None:
        """Compiled code joins the clocks of warps that have arrived, if it has processed what they have recorded."""
        return BarrierFunctions(*barrier_functions()) if self._lanes is None and self._shadow.replay else None

    def cluster_functions(self, cluster: Cluster) -> ClusterFunctions | None:
        """Compiled code joins the clocks of warps that arrive, and of those that pass."""
        if self._lanes is not None or not self._shadow.replay:
            return None
        clocks: Clocks = cluster.ctas[0].state["race"]
        made = cluster.barrier.clock = clocks.cluster_clock()
        return ClusterFunctions(*cluster_functions(), made.address)

    # ------------------------------------------------------------------------------------------------------- life of CTAs

    def fill(self, warp: Warp) -> None:
        """Let a warp's recorded rows go into the common buffer."""
        self._buffer.fill(warp)
        warp.words[Word.SOURCES] = self._recorder.watches_sources
        clocks: Clocks = warp.cta.state["race"]
        agent = clocks.agents[warp.cta.rank * clocks.warps + warp.warp_id]
        warp.state["race"] = clocks, agent
        agent.words[AgentWord.CONTEXT] = warp.context.address
        self._tensor_memory.fill(warp, clocks, agent)
        if self._copies:
            clocks.copies(agent)
        if self._lanes is None and self._shadow.replay:
            self._shadow.serve(agent.words)
            warp.words[Word.EVENT_REPLAY] = agent.words_address

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """Watch the shared and tensor memory of a new cluster."""
        slots = 1 + self._copies + len(self._tensor_memory.slots)
        ends = self.launch.facts.of(ring_size, Completion.BULK_GROUP)
        clocks = Clocks(self._serial, ctas, self.launch.warps_per_cta, self.launch.model, slots, ends)
        self._findings.clusters.start(clocks)
        self._serial += 1
        for cta in ctas:
            cta.state["race"] = clocks
            self._shared[id(cta)] = self._shadow.watch(cta.shared, MEMORY_GRANULE, _SHARED_ENTRIES, Row.ASYNC_SHARED, cta, fresh=True)
            self._tensor_memory.started(cta)

    def ended(self, cta: CtaState) -> None:
        """Check what is in flight at the exit of a CTA, and stop watching its shared memory."""
        self._aligned.ended(cta)
        if self.launch.done_ctas == self.launch.total_ctas:
            self.launch.device.left = GridBefore.of(self.launch, self._global)
        shared = self._shared.pop(id(cta), None)
        if shared is not None:
            self._exits.leave(cta.state["race"], cta, shared)
            self._shadow.forget(shared)
        self._tensor_memory.ended(cta)
        self._releases.forget(cta.shared_address, cta.shared.nbytes)
        if all(other.exited for other in cta.group.ctas):
            self._findings.clusters.leave(cta.state["race"])

    # ------------------------------------------------------------------------------------------------- what warps recorded

    def drain(self, warp: Warp) -> None:
        """Read the rows that compiled code has left."""
        count = self._buffer.take(warp)
        if not count:
            return
        clocks, agent = warp.state["race"]
        load, shadow, address = self._recorder.load, self._shadow, self._buffer.address
        words = shadow.words
        shadow.serve(agent.words)
        load(agent)
        if words[_REPLAYED_WORD]:
            at, words[_REPLAYED_WORD] = words[_STOPPED_WORD], 0
        else:
            at = shadow.drain(address, 0, count)
        while True:
            if at < 0:  # what a transfer accesses is suspect
                at = ~at
                self._findings.judge(clocks, agent, shadow.suspects())
                native = self._natives[self._heads[at * ROW_WORDS] & 0xFFFFFFFF]
                assert isinstance(native, TensorAccess)
                self._tensor_memory.recorded(agent, native.write)
            else:
                if words[_SUSPECTS_WORD]:  # before the next row changes the clocks
                    self._findings.judge(clocks, agent, shadow.suspects(), self._buffer.rows[:count])
                if at < count:
                    self._row(warp, clocks, agent, at)
            at += 1
            if at >= count:
                break
            load(agent)
            at = shadow.drain(address, at, count)
        if self._lanes is not None:
            self._lanes.drained(warp, self._buffer.rows[:count])

    def _row(self, warp: Warp, clocks: Clocks, agent: Agent, at: int) -> None:
        """A recorded row that moves clocks, or accesses tensor memory, or tells which path is executed."""
        head = self._heads[at * ROW_WORDS]
        index = head & 0xFFFFFFFF
        if index >= 2 * len(self._ops):
            self._tensor_memory.block_ended(warp, agent, index - 2 * len(self._ops), head >> 32)
            return
        native = self._natives.get(index)
        op = self._ops[index]
        if native is None:
            self._completed_service(warp, op, head >> 32, self._heads[at * ROW_WORDS + 1])
        elif isinstance(native, TensorAccess):
            self._tensor_memory.transferred(warp, clocks, agent, op, native, self._heads[at * ROW_WORDS + 1])
        elif isinstance(native, Nothing):
            aligned, act = self._fences[index]
            if aligned:
                self._aligned.executed(warp, op, head >> 32)
                self._shadow.words[_PARTED_WORD] = self._aligned.parted
            act(clocks, agent)
        else:
            lanes, addresses = head >> 32, self._heads[at * ROW_WORDS + 2 : (at + 1) * ROW_WORDS].tolist()
            hosts = sorted({address for lane, address in enumerate(addresses) if lanes >> lane & 1})
            only_loads, only_stores = (not native.write, native.write) if isinstance(native, LaneAccess) else (False, False)
            self._releases.access(clocks, agent, access_order(op), hosts, reads=not only_stores, writes=not only_loads)

    def _completed_service(self, warp: Warp, op: Op, lanes: int, number: int) -> None:
        """Compiled code has completed a service; the number says for which mbarriers (`ptxlab.engine.support.event_rows`)."""
        warp.op, warp.mask = op, lanes
        if isinstance(op.effects, MbarrierWait):
            self.acquired(warp.cta.mbarriers[number])
        elif op.index in self._arrivals:
            commits = isinstance(op.effects, CompletionArrival)
            self._barriers.performed(warp, number, self._operations.commit(warp) if commits else None)
        retire_hook = self._direct.get(op.index)
        if retire_hook is not None:
            retire_hook(warp, op)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """A service instruction's own accesses."""
        clocks, agent = warp.state["race"]
        effects = warp.op.effects
        if isinstance(effects, TensorTransfer):
            self._tensor_memory.record(clocks, agent, warp.op, effects.write, accesses)
        else:
            slot = agent.main
            if isinstance(effects, Access) and effects.tensor_map:
                slot = clocks.change_map(agent, effects.order.releases)
            self._recorder.record(clocks, agent, slot, Kind.GENERIC, warp.op, accesses)
