"""The part of the scheduler that takes over what compiled code has done with warps (`ptxlab.engine.turns`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ptxlab.engine.context import BY_CLUSTER, BY_PARITY, OF_GROUPS, Context, Word
from ptxlab.engine.turns.words import BARRIERS, CLUSTER_ARRIVES, CLUSTER_WAITS, BarrierCell, ClusterCell, TurnWord
from ptxlab.machine.schedule.turns import CompiledTurns, take_blocked
from ptxlab.machine.schedule.waits import Waits
from ptxlab.machine.warp.warp import RUN, ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.isa.context import Wait, WarpContext
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.schedule.shared_operations import CompiledOperations

__all__ = ["SharedTurns"]

_INFO, _ACTIVE, _GRANTED, _AHEAD = (int(w) for w in (Word.INFO, Word.ACTIVE, Word.GRANTED, Word.AHEAD))
_USED_BEFORE, _OTHER_LANES, _SLICE_REST = int(Word.USED_BEFORE), int(Word.OTHER_LANES), int(Word.SLICE_REST)
_CLOCK, _ALLOWED, _USED, _CURRENT, _ARRIVES = (
    int(w) for w in (TurnWord.CLOCK, TurnWord.ALLOWED, TurnWord.USED, TurnWord.CURRENT, TurnWord.ARRIVES)
)
_QUEUED, _AWAITS, _AWAITED_PHASE, _NEXT_WAITER = (int(w) for w in (Word.QUEUED, Word.AWAITS, Word.AWAITED_PHASE, Word.NEXT_WAITER))
_LANES_ACTIVE, _PERMITTED, _PERMITTED_BESIDE = int(Word.LANES_ACTIVE), int(Word.PERMITTED), int(Word.PERMITTED_BESIDE)
_ALL_BLOCKED, _COMPLETES = int(BarrierCell.ALL_BLOCKED), int(BarrierCell.COMPLETES)
_CLUSTER_COMPLETES = int(ClusterCell.COMPLETES)
_OF_CLUSTER = CLUSTER_ARRIVES | CLUSTER_WAITS


class SharedTurns(Waits):
    """Knows which warp runs, and what compiled code has executed in turns that it has ended itself.

    Attributes
    ----------
    instructions : warp-instructions executed in turns that have ended
    current : the warp whose turn it is; while compiled code runs, `running_warp` knows better
    compiled_turns : what lets compiled code run several warps, if it may
    """

    def __init__(self, launch: Launch, execute: Callable[[Context], int]) -> None:
        super().__init__(launch)
        self.instructions = 0
        self.current: Warp | None = None
        self.compiled_turns: CompiledTurns | None = None
        self._execute = execute
        self._until = 0

    def share(self, turns: CompiledTurns, execute: Callable[[Context], int], operations: CompiledOperations | None = None) -> None:
        """Let compiled code run several warps, and issue operations: ``execute`` runs one, and maybe others after it."""
        self.compiled_turns, self._execute = turns, execute
        self.queues.share(turns, operations)

    def running_warp(self) -> Warp | None:
        """The warp that runs; compiled code that calls a function of the machine may have come to another one."""
        if self.current is not None and self.compiled_turns is not None:
            self._take_over_turn(self.compiled_turns.words)
        return self.current

    def _take_over_turn(self, turns: memoryview) -> Warp:
        """Count the instructions of turns that compiled code has ended, and return the warp that it has come to."""
        assert self.compiled_turns is not None
        used = turns[_USED]
        turns[_USED] = 0
        self.instructions += used
        turns[_CLOCK] += used
        turns[_ALLOWED] -= used
        self.current = warp = self.compiled_turns.warps[turns[_CURRENT]]
        if warp.words[_AHEAD]:
            warp.catch_up()
        self._until = self.instructions + warp.words[_USED_BEFORE] + warp.words[_GRANTED]
        return warp

    def _take_over_lanes(self, warp: Warp) -> tuple[int, int]:
        """Take over lanes that compiled code has let take turns: the slice of those that run now, and that of the warp."""
        words, turns = warp.words, self.compiled_turns
        assert turns is not None
        earlier = words[_USED_BEFORE]
        self.instructions += earlier
        turns.words[_CLOCK] += earlier
        turns.words[_ALLOWED] -= earlier
        words[_USED_BEFORE] = 0
        if words[_LANES_ACTIVE]:
            self._take_over_waiting(warp)
        elif words[_OTHER_LANES]:
            warp.take_over_lanes()
        granted = words[_GRANTED]
        self._until = self.instructions + granted
        return granted, granted + words[_SLICE_REST]

    def _take_over_waiting(self, warp: Warp) -> None:
        """Take over lanes that wait for a phase, or have waited, where compiled code has let the others of the warp run."""
        words, turns = warp.words, self.compiled_turns
        assert turns is not None
        if words[_QUEUED]:
            active, lanes = self._waiting_lanes(warp)
            lanes.state, lanes.active, lanes.again, words[_AWAITS] = RUN, active, True, 0
            turns.ready_of(warp).keep(warp)
        else:
            warp.cta.mbarriers[words[_AWAITS] & ~BY_PARITY].take_over()

    @staticmethod
    def _waiting_lanes(warp: Warp) -> tuple[int, ConvergedLanes]:
        """Take over lanes that do not run since they wait: those that execute the wait, and all."""
        words = warp.words
        active, words[_LANES_ACTIVE] = words[_LANES_ACTIVE], 0
        words[_PERMITTED], words[_PERMITTED_BESIDE] = words[_PERMITTED_BESIDE], words[_PERMITTED]
        return active, warp.take_over_lanes()

    def counts_arrival(self, warp: Warp) -> bool:
        """Let compiled code count the arrival that the running warp stands at, when it runs next; False if it counts none there.

        It has left the arrival, or the wait at the barrier of the cluster, to the machine because of rows, which have been processed since.
        """
        turns = self.compiled_turns
        arrival = 0 if turns is None else turns.arrivals[warp.words[_INFO]]
        if turns is None or not arrival:
            return False
        if arrival & _OF_CLUSTER:
            counts = warp.cta.group.barrier.cells[_CLUSTER_COMPLETES]
        else:
            counts = warp.cta.memory.barriers[_COMPLETES]
        if not counts:
            return False
        turns.words[_ARRIVES] = 1
        return True

    def take_over_all(self, cta: CtaState | None = None) -> None:
        """Take over all warps that compiled code has blocked at barriers of a CTA, and where the others stand; or all."""
        turns = self.compiled_turns
        if turns is None:
            return
        for each in self.launch.resident if cta is None else (cta,):
            cells = each.memory.barriers
            for number in range(BARRIERS) if cells[_ALL_BLOCKED] else ():
                self.take_over(cells, number)
            for warp in each.warps:
                if warp.words[_AHEAD]:
                    warp.catch_up()
            if cta is None and turns.waits:
                self._take_over_waits(each)

    def _take_over_waits(self, cta: CtaState) -> None:
        """Take over the waits of the warps of a CTA: for mbarrier objects, for groups of wgmma, and at the barrier of the cluster.

        Also those that are over but for the instruction, which is to run again.
        """
        from ptxlab.isa.wgmma import warpgroup_of

        for warp in cta.warps:
            words = warp.words
            awaits = words[_AWAITS]
            if awaits and words[_QUEUED]:
                (group,) = warp.converged
                group.op, group.active, group.again, words[_AWAITS] = words[_INFO], words[_ACTIVE], True, 0
                CompiledTurns.ready_of(warp).keep(warp)
                if words[_OTHER_LANES]:
                    warp.take_over_lanes()
            elif awaits & BY_CLUSTER:
                cta.group.barrier.take_over()
            elif awaits == OF_GROUPS:
                warpgroup_of(cast("WarpContext", warp)).take_over(self.take_over_waiters)
            elif awaits:
                cta.mbarriers[awaits & ~BY_PARITY].take_over()

    def resume_waiters(self, first: memoryview, is_over: Callable[[int, int], bool]) -> None:
        """Let warps run that compiled code has blocked where it links them, if their wait is over; they wait once more.

        ``first`` is where the first one is named. ``is_over`` decides by `Word.AWAITS` and `Word.AWAITED_PHASE`.
        """
        turns, link, at = self.compiled_turns, first, 0
        assert turns is not None
        while address := link[at]:
            warp = turns.warps[address]
            words = warp.words
            if is_over(words[_AWAITS], words[_AWAITED_PHASE]):
                link[at] = words[_NEXT_WAITER]
                self.queues.enter(warp.cta.group.queue)
                words[_QUEUED] = 1
                turns.ready_of(warp).resume(address)
            else:
                link, at = words, _NEXT_WAITER

    def take_over_waiters(self, address: int, wait_of: Callable[[int, Op], Wait]) -> None:
        """Take over warps that compiled code has blocked where it links them (`Word.NEXT_WAITER`); the first one's context has an address.

        ``wait_of`` says for what a warp waits, by `Word.AWAITED_PHASE` and its instruction.
        """
        assert self.compiled_turns is not None
        while address:
            warp = self.compiled_turns.warps[address]
            words, (group,) = warp.words, warp.converged
            if words[_LANES_ACTIVE]:
                active, group = self._waiting_lanes(warp)
                index = group.op
            else:
                warp.catch_up()
                index, active = words[_INFO], words[_ACTIVE]
            self.block(group, wait_of(words[_AWAITED_PHASE], self.launch.program.ops[index]), index, active)
            if words[_OTHER_LANES]:
                warp.take_over_lanes()
            address, words[_AWAITS] = words[_NEXT_WAITER], 0

    def take_over(self, cells: memoryview, number: int) -> None:
        """Take over the warps that compiled code has blocked at a barrier: call the handlers of their arrivals."""
        assert self.compiled_turns is not None
        for address in take_blocked(cells, number):
            warp = self.compiled_turns.warps[address]
            words, (group,) = warp.words, warp.converged
            warp.catch_up()
            index, active = words[_INFO], words[_ACTIVE]
            op = warp.op = self.launch.program.ops[index]
            warp.q, warp.mask, warp.converged_mask = op.q, active, group.mask
            wait = self.launch.handlers[index](warp)
            assert wait is not None, "compiled code has counted the arrivals"
            self.block(group, wait, index, active)
