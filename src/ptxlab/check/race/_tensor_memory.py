"""Tensor memory: what tcgen05.ld and tcgen05.st access, and columns that are allocated and freed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Component, Kind, Row
from ptxlab.check.race._recorder import AccessRecorder, Handlers
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.slots import Slot
from ptxlab.check.race.shadow.shadow import TENSOR_GRANULE, Object
from ptxlab.check.race.shadow.shadow_words import AgentWord
from ptxlab.check.race.shadow.transfers import LoadState, TransferWord, first_lane, transferred_ranges
from ptxlab.engine.context import Word
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Alloc, Dealloc, TensorTransfer, TensorWait
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.warp.consumption import Consumption
from ptxlab.native import BoundedCache, address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.warp.warp import Warp

__all__ = ["HELD", "LOADS", "TensorMemoryAccesses", "wait_for_transfers"]

_ENTRIES = 6
"""Of a cell of the shadow."""
_LOAD_SLOT, _STORE_SLOT, HELD, LOADS = map(int, (TransferWord.LOAD_SLOT, TransferWord.STORE_SLOT, TransferWord.HELD, TransferWord.LOADS))
_STATES = {None: LoadState.UNKNOWN, True: LoadState.READ, False: LoadState.UNREAD}
_GRANULES = 4
"""Of a column."""
_MOST_WARPS = 64
"""In larger clusters, warps that access tensor memory get their slots when they do so first, since all clocks have a column for each."""


class TensorMemoryAccesses:
    """Transfers between registers and tensor memory, and the allocations of CTAs; one for each launch.

    Attributes
    ----------
    slots : for which transfers each warp has a slot from its start: loads (False) and stores (True)
    """

    def __init__(self, recorder: AccessRecorder) -> None:
        self._recorder = recorder
        launch = recorder.launch
        self._consumption = launch.facts.of(Consumption)
        self._transfers_occur, found = launch.facts.of(_transfers)
        self.slots = found if launch.cluster_size * launch.warps_per_cta <= _MOST_WARPS else ()
        ops, loads = len(launch.program.ops), self._consumption.loads if self._transfers_occur else {}
        self._read_before = {load: np.zeros(ops, np.uint8) for load in loads}
        """For each load by op: `LoadState`."""
        self._rows_of_loads: NDArray[np.uint64] = np.zeros(ops, np.uint64)
        for load, row in self._read_before.items():
            self._rows_of_loads[load] = address_of(row)
        self._watched: dict[int, Object] = {}
        """By the tensor memory of an SM."""
        self._transfers = BoundedCache[tuple[int, int, int, int], MemoryAccess](4096)
        """By instruction, address, warp, and where the tensor memory is."""
        self._granted: dict[int, set[tuple[int, int]]] = {}
        """By CTA: the first column and the size of each allocation that has been seen."""
        self._granter: dict[int, tuple[Slot, int]] = {}
        """By CTA: the slot and clock of the last allocation."""

    def handlers(self) -> Handlers:
        """Allocation and deallocation are accesses to whole columns."""
        return {Alloc: lambda effect: self._alloc, Dealloc: lambda effect: self._dealloc}

    def started(self, cta: CtaState) -> None:
        """Watch the tensor memory of the CTA's SM, if the kernel uses it."""
        tensor = cta.tensor
        if id(tensor) not in self._watched and cta.launch.uses_tensor_memory:
            memory = tensor.words.reshape(-1).view(np.uint8)
            self._watched[id(tensor)] = self._recorder.shadow.watch(memory, TENSOR_GRANULE, _ENTRIES, Row.EXECUTION, tensor, fresh=True)
        self._granted[id(cta)] = set()

    def fill(self, warp: Warp, clocks: Clocks, agent: Agent) -> None:
        """Make the words and the slots of a warp's transfers, if the kernel has any: compiled code records the first ones, too."""
        if self._transfers_occur:
            made = np.zeros(TransferWord.END, np.int64)
            made[TransferWord.BASE] = warp.cta.tensor_address + first_lane(warp.warp_id)
            made[TransferWord.READ_BEFORE] = address_of(self._rows_of_loads)
            agent.transfers, agent.words[AgentWord.TRANSFERS] = made.data, address_of(made)
            for write in self.slots:
                self._slot(clocks, agent, write)

    def ended(self, cta: CtaState) -> None:
        """The CTA has exited."""
        self._granted.pop(id(cta), None)
        self._granter.pop(id(cta), None)

    # ------------------------------------------------------------------------------------------------------------ transfers

    def transferred(self, warp: Warp, clocks: Clocks, agent: Agent, op: Op, native: TensorAccess, address: int) -> None:
        """A warp has executed tcgen05.ld or tcgen05.st."""
        key = op.index, address, warp.warp_id, warp.cta.tensor_address
        access = self._transfers.get(key)
        if access is None:
            offsets, sizes = transferred_ranges(op, native, address, warp.warp_id)
            access = self._transfers[key] = MemoryAccess(offsets + np.uint64(warp.cta.tensor_address), sizes, native.write)
        self.record(clocks, agent, op, native.write, (access,))

    def record(self, clocks: Clocks, agent: Agent, op: Op, write: bool, accesses: Iterable[MemoryAccess]) -> None:
        """The accesses of a transfer."""
        words, at = agent.transfers, _STORE_SLOT if write else _LOAD_SLOT
        slot = self._slot(clocks, agent, write)
        slot.clock = words[at + 1] = words[at + 1] + 1
        if write:
            if words[HELD] or words[LOADS]:
                self.consume(clocks, agent, op.index)
        else:
            self._hold(agent).append((op.index, slot.clock))
            agent.read &= ~self._consumption.loads[op.index]
            words[HELD] = len(agent.loads)
        self._recorder.record(clocks, agent, slot, _kind(write), op, accesses)
        self.recorded(agent, write)

    def _slot(self, clocks: Clocks, agent: Agent, write: bool) -> Slot:
        """The slot of a warp's loads or stores, which compiled code knows from now on."""
        slot = clocks.own(agent, _kind(write))
        agent.transfers[_STORE_SLOT if write else _LOAD_SLOT] = slot.name
        return slot

    def recorded(self, agent: Agent, write: bool) -> None:
        """The accesses of a transfer have been recorded."""
        if write:
            slot, clock = agent.slots[Kind.ST], agent.transfers[_STORE_SLOT + 1]
            agent.rows[Row.TENSOR, slot.number + Component.EARLY] = clock

    def consume(self, clocks: Clocks, agent: Agent, index: int) -> None:
        """Complete the early component of the loads of which op ``index`` and those before it have read all registers.

        There are none if the words `HELD` and `LOADS` of ``agent.transfers`` are 0.
        """
        loads = self._hold(agent)
        done = 0
        while done < len(loads) and self._consumption.consumed(loads[done][0], index, agent.read):
            done += 1
        for load, _ in loads[: done + 1]:
            self._read_before[load][index] = _STATES[self._consumption.certain(load, index)]
        if done:
            clocks.advance(agent, agent.slots[Kind.LD], Component.EARLY, loads[done - 1][1])
            del loads[:done]
            agent.transfers[HELD] = len(loads)

    def block_ended(self, warp: Warp, agent: Agent, end: int, lanes: int) -> None:
        """Lanes have reached the end of a block; ``end`` is its last op. Its reads count if these are all live lanes of the warp."""
        words = agent.transfers
        if (words[HELD] or words[LOADS]) and not warp.live & ~warp.words[int(Word.EXITED)] & ~lanes:
            self._hold(agent)
            agent.read |= self._consumption.read_at_ends[end]

    def _hold(self, agent: Agent) -> list[tuple[int, int]]:
        """The loads whose registers may not have been read, with those that compiled code held."""
        words, loads = agent.transfers, agent.loads
        for at in range(LOADS + 1, LOADS + 1 + 2 * words[LOADS], 2):
            loads.append((words[at], words[at + 1]))
            agent.read &= ~self._consumption.loads[words[at]]
        words[LOADS], words[HELD] = 0, len(loads)
        return loads

    # ---------------------------------------------------------------------------------------------------------- allocations

    def _alloc(self, warp: Warp, op: Op) -> None:
        """Fresh columns have no earlier accesses: section "Tensor Memory Allocation and Management Instructions".

        A pair of CTAs allocates together: the first warp that continues records the columns of both CTAs, before the other one.
        """
        assert isinstance(op.effects, Alloc)
        clocks, agent = warp.state["race"]
        cta = warp.cta
        slot = clocks.own(agent, Kind.ALLOC)
        for owner in (cta, cta.peer) if op.effects.pair and cta.peer is not None else (cta,):
            if id(owner) not in self._granted:
                continue  # the peer has allocated, freed and ended before this warp continues
            now = set(owner.tensor.allocations_of(owner))
            watched = self._watched[id(owner.tensor)]
            for column, columns in now - self._granted[id(owner)]:
                granules = slice(_GRANULES * column, _GRANULES * (column + columns))
                self._recorder.shadow.clear(watched, granules)
                self._whole_columns(owner, clocks, agent, op, column, columns)
                if watched.written is not None:
                    watched.written[granules] = 0
                self._granter[id(owner)] = slot, slot.clock
            self._granted[id(owner)] = now
        granter, at = self._granter[id(cta)]
        clocks.advance(agent, granter, Component.DONE, at)
        target, offset = self._recorder.launch.shared_at(warp, warp.uniform_address(0))
        written = MemoryAccess.of(target.shared[offset : offset + 4], True)
        self._recorder.record(clocks, agent, slot, Kind.ALLOC, op, (written,))

    def _dealloc(self, warp: Warp, op: Op) -> None:
        clocks, agent = warp.state["race"]
        cta = warp.cta
        now = set(cta.tensor.allocations_of(cta))
        if agent.transfers is not None and (agent.transfers[HELD] or agent.transfers[LOADS]):
            self.consume(clocks, agent, op.index)
        for column, columns in self._granted[id(cta)] - now:
            self._whole_columns(cta, clocks, agent, op, column, columns)
        self._granted[id(cta)] = now

    def _whole_columns(self, cta: CtaState, clocks: Clocks, agent: Agent, op: Op, column: int, columns: int) -> None:
        slot = clocks.own(agent, Kind.ALLOC)
        slot.clock += 1
        clocks.advance(agent, slot, Component.DONE, slot.clock)
        access = MemoryAccess.of(cta.tensor.words[column : column + columns], True)
        self._recorder.record(clocks, agent, slot, Kind.ALLOC, op, (access,))


def _transfers(program: Program) -> tuple[bool, tuple[bool, ...]]:
    """Whether there are transfers or waits for them; and whether these transfers are loads (False), stores (True), or both."""
    found = {op.effects for op in program.ops if isinstance(op.effects, TensorTransfer | TensorWait)}
    return bool(found), tuple(sorted({effect.write for effect in found if isinstance(effect, TensorTransfer)}))


def _kind(write: bool) -> Kind:
    return Kind.ST if write else Kind.LD


def wait_for_transfers(effect: TensorWait, clocks: Clocks, agent: Agent) -> None:
    """tcgen05.wait: the warp's transfers are complete."""
    slot, words = agent.slots.get(_kind(effect.write)), agent.transfers
    if slot is not None:
        for component in Component:
            clocks.advance(agent, slot, component, words[_STORE_SLOT + 1 if effect.write else _LOAD_SLOT + 1])
    if not effect.write:
        agent.loads.clear()
        words[LOADS] = words[HELD] = 0
