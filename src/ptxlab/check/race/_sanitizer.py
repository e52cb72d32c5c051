"""The observer: turns what a launch does into accesses and knowledge, and asks the shadow whether they may follow each other.

Its layers stand in modules of their own: accesses, barriers, service instructions, asynchronous operations; here are the life of CTAs and
what compiled code has recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._asynchronous import Asynchronous
from ptxlab.check.race._exits import Exits
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.grids import GridBefore
from ptxlab.check.race.clocks.releases import Releases
from ptxlab.check.race.program.aligned import Aligned
from ptxlab.check.race.program.instruction_kinds import follows
from ptxlab.check.race.shadow.lanes import Lanes
from ptxlab.check.race.shadow.shadow import MEMORY_GRANULE, TENSOR_GRANULE, Object, Shadow
from ptxlab.check.race.shadow.shadow_ir import BEFORE, StateWord
from ptxlab.check.race.shadow.tensor_ranges import tensor_ranges
from ptxlab.engine.context import Word
from ptxlab.engine.support.event_rows import ROW_WORDS
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.native_ops import CopyAsync, Nothing, TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.machine.observe.event_buffer import EventBuffer

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Sanitizer"]

_SHARED_ENTRIES, _GLOBAL_ENTRIES, _TENSOR_ENTRIES = 8, 4, 6
_COPY_SLOT_WORD, _COPY_CLOCK_WORD, _COPIED_WORD = map(int, (StateWord.COPY_SLOT, StateWord.COPY_CLOCK, StateWord.COPIED))
_CLOCK_WORD, _SUSPECTS_WORD = int(StateWord.CLOCK), int(StateWord.SUSPECT_COUNT)


class Sanitizer(Asynchronous):
    """See the module; one for each launch."""

    def __init__(self, launch: Launch, shadow: type[Shadow] = Shadow) -> None:
        super().__init__(launch, shadow)
        self.ops = launch.program.ops
        self.natives = launch.program.natives
        self._buffer = EventBuffer(launch, self.drain)
        self._heads = self._buffer.rows.reshape(-1).data.cast("B").cast("Q")
        self._serial = BEFORE + 1
        self._objects: dict[int, list[Object]] = {}
        self.releases = Releases(self.ops)
        self._copies = any(isinstance(native, CopyAsync) for native in self.natives.values())
        self._fences = {
            index: (self.ops[index].opcode.endswith(".aligned"), self._fence(self.ops[index].opcode))
            for index, native in self.natives.items()
            if isinstance(native, Nothing) and native.orders
        }
        self.exits = Exits(self.findings, self._copies, launch.program)
        self.aligned = Aligned(launch)
        self.lanes = Lanes(launch.program, self.table, self.findings) if launch.model == "spec" else None
        self._global = [
            self.shadow.watch(allocation.data, MEMORY_GRANULE, _GLOBAL_ENTRIES, Row.ASYNC_GLOBAL, allocation)
            for allocation in launch.device.memory.live()
            if allocation.size and allocation.writable
        ]
        self._follow(launch.before)

    # ------------------------------------------------------------------------------------------------------- life of CTAs

    def fill(self, warp: Warp) -> None:
        """Let a warp's recorded rows go into the common buffer."""
        self._buffer.fill(warp)
        warp.words[Word.SOURCES] = self.sources
        clocks: Clocks = warp.cta.state["race"]
        agent = clocks.agents[warp.cta.rank * clocks.warps + warp.warp_id]
        warp.state["race"] = clocks, agent
        if self._copies:
            agent.copies = clocks.own(agent, "cp.async")

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """Watch the shared and tensor memory of a new cluster."""
        clocks = Clocks(self._serial, ctas, self.launch.warps_per_cta, self.launch.model)
        self.findings.clusters.start(clocks)
        self._serial += 1
        for cta in ctas:
            cta.state["race"] = clocks
            self._objects[id(cta)] = [self.shadow.watch(cta.shared, MEMORY_GRANULE, _SHARED_ENTRIES, Row.ASYNC_SHARED, cta, fresh=True)]
            tensor = cta.tensor
            if id(tensor) not in self._tensors:
                memory = tensor.words.reshape(-1).view(np.uint8)
                self._tensors[id(tensor)] = self.shadow.watch(memory, TENSOR_GRANULE, _TENSOR_ENTRIES, Row.EXECUTION, tensor, fresh=True)
            self._granted[id(cta)] = set()

    def _follow(self, before: Any) -> None:
        """Memory has been used by the grid before, if this launch may have started before that one was complete."""
        if isinstance(before, GridBefore) and follows(self.launch.program):
            self.findings.before = before
            for made in self._global:
                before.seed(made)

    def ended(self, cta: CtaState) -> None:
        """Its shared memory is nobody's any more."""
        self.aligned.ended(cta)
        if self.launch.done_ctas == self.launch.total_ctas:
            self.launch.device.left = GridBefore.of(self.launch, self._global)
        for made in self._objects.pop(id(cta), ()):
            self.exits.leave(cta.state["race"], cta, made)
            self.shadow.forget(made)
        self._granted.pop(id(cta), None)
        self._granter.pop(id(cta), None)
        self.releases.forget(cta.shared_address, cta.shared.nbytes)
        if all(other.exited for other in cta.group.ctas):
            self.findings.clusters.leave(cta.state["race"])

    # ------------------------------------------------------------------------------------------------- what warps recorded

    def drain(self, warp: Warp) -> None:
        """Read the rows that compiled code has left."""
        count = self._buffer.take(warp)
        if not count:
            return
        clocks, agent = warp.state["race"]
        shadow, words = self.shadow, self.shadow.words
        copies = agent.copies
        if copies is not None:
            words[_COPY_SLOT_WORD], words[_COPY_CLOCK_WORD] = copies.name, copies.clock + 1
        at = 0
        while True:
            if self._loaded == agent.address:
                words[_CLOCK_WORD] = agent.main.clock
            else:
                self._load(clocks, agent)
            at = shadow.drain(self._buffer.address, at, count)
            agent.main.clock = words[_CLOCK_WORD]
            if words[_SUSPECTS_WORD]:  # before a wait in the next row changes what is known
                self.findings.judge(clocks, agent, shadow.suspects(), self._buffer.rows[:count])
            if at == count:
                break
            self._row(warp, clocks, agent, at)
            at += 1
        if copies is not None and words[_COPIED_WORD]:
            words[_COPIED_WORD] = 0
            copies.newest = copies.clock + 1
        if self.lanes is not None:
            self.lanes.drained(warp, self._buffer.rows[:count])

    def _row(self, warp: Warp, clocks: Clocks, agent: Agent, at: int) -> None:
        """A recorded row that moves clocks, or reaches tensor memory."""
        head = self._heads[at * ROW_WORDS]
        index = head & 0xFFFFFFFF
        native = self.natives[index]
        op = self.ops[index]
        if isinstance(native, TensorAccess):
            self._tensor(warp, clocks, agent, op, native, self._heads[at * ROW_WORDS + 1])
        elif isinstance(native, Nothing):
            aligned, act = self._fences[index]
            if aligned:
                self.aligned.executed(warp, op, head >> 32)
            act(clocks, agent)
        else:
            hosts = self._buffer.rows[at, 2:][(head >> 32 >> np.arange(32) & 1).astype(bool)]
            self.releases.access(clocks, agent, op.opcode, np.unique(hosts).tolist())

    def _tensor(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op, access: TensorAccess, address: int) -> None:
        split = op.operands[access.split] if access.split >= 0 else Const(0)
        half = split.value if isinstance(split, Const) else 0
        offsets, sizes = tensor_ranges(access, half, address & 0xFFFFFFFF, warp.warp_id % 4)
        kind = Kind.ST if access.write else Kind.LD
        slot = clocks.own(agent, kind)
        slot.clock += 1
        if access.write:
            self._consume(clocks, agent, op.index)
        else:
            agent.loads.append((op.index, slot.clock))
        starts = offsets + np.uint64(warp.cta.tensor_address)
        self._record_accesses(clocks, agent, slot, kind, op, (MemoryAccess(starts, sizes, access.write),))
        if access.write:
            clocks.of(agent)[Row.TENSOR, slot.number + Component.EARLY] = slot.clock

    def _fence(self, opcode: str) -> Callable[[Clocks, Agent], None]:
        """What a fence, or a wait without a service, does to the clocks of the warp that executes it."""
        words = opcode.split(".")
        if opcode.startswith("tcgen05.wait"):
            return _wait_for_loads if words[1] == "wait::ld" else partial(_wait_for, kind=Kind.ST)
        if opcode.startswith("tcgen05.fence"):
            return Clocks.before_thread_sync if words[1] == "fence::before_thread_sync" else Clocks.after_thread_sync
        if "proxy" in words:
            proxy, space = words[words.index("proxy") + 1], words[-1]
            if proxy.startswith("async"):
                return partial(Clocks.proxy_fence, shared=not space.startswith("global"), of_global=not space.startswith("shared"))
            if proxy == "tensormap::generic" and "acquire" in words:
                return partial(Clocks.proxy_fence, shared=False, of_global=True)
        elif opcode == "griddepcontrol.wait":
            return Clocks.grid_wait
        elif words[0] in ("fence", "membar"):
            return partial(self.releases.fence, opcode=opcode)
        return _nothing


def _wait_for(clocks: Clocks, agent: Agent, kind: Kind) -> None:
    slot = agent.slots.get(kind)
    if slot is not None:
        for component in Component:
            clocks.know(agent, slot, component, slot.clock)


def _wait_for_loads(clocks: Clocks, agent: Agent) -> None:
    _wait_for(clocks, agent, Kind.LD)
    agent.loads.clear()


def _nothing(clocks: Clocks, agent: Agent) -> None:
    """Other proxies are not watched."""
