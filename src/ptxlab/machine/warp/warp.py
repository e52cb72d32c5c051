"""A warp: its context and registers, its groups of converged lanes, and what a service handler reads and changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.context import OTHERS_FIRST, OTHERS_TURN_SHIFT, Word
from ptxlab.engine.repetitions import NO_STATE, repeatable
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.context import Wait
from ptxlab.isa.operands import Op, Reg
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.warp._register_rows import ALL_LANES, lanes_of
from ptxlab.machine.warp._registers import Registers
from ptxlab.machine.warp.context_words import AT
from ptxlab.machine.warp.repeated_executions import RepeatedExecution
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.frame import Frame

__all__ = ["ALL_LANES", "CONVERGE", "RUN", "WAIT", "ConvergedLanes", "Warp", "lanes_of"]

RUN, WAIT, CONVERGE = 0, 1, 2
"""The state of a group of converged lanes: it can run; it waits for a `Wait`; it stands at an instruction until other lanes arrive."""

_PENDING_COUNT = int(Word.PENDING_COUNT)
_NO_ROWS = np.zeros((0, 3), np.uint64)
_NO_BYTES = np.zeros(0, np.uint8)


@dataclass(slots=True, eq=False)
class ConvergedLanes:
    """A group of lanes of one warp that execute together, at one program counter.

    ``op`` is the instruction that the group stands at (``CONVERGE``) or waits in (``WAIT``), and ``active`` the lanes that execute it.
    ``again`` says that the handler must be called (again) before the group continues. ``turn`` grows with every slice used up, so that
    the other groups of the warp run while one spins.
    """

    warp: Warp
    pc: int
    mask: int
    turn: int = 0
    state: int = RUN
    wait: Wait | None = None
    op: int = -1
    active: int = 0
    again: bool = False
    expired: bool = False
    retried: Wait | None = None

    @property
    def instruction(self) -> Op:
        """The instruction that the lanes stand at, wait in, or execute next."""
        ops = self.warp.launch.program.ops
        return ops[self.op if self.state or self.again else min(self.pc, len(ops) - 1)]


class Warp(Registers):
    """One warp of a resident CTA; it is also the `ptxlab.isa.WarpContext` of the service that it executes."""

    __slots__ = (
        "context",
        "converged",
        "converged_mask",
        "cta",
        "expired",
        "live",
        "local",
        "machine",
        "other_lanes",
        "q",
        "retried",
        "spun",
        "state",
        "threads",
        "warp_id",
        "words",
    )  # fmt: skip

    q: Qualifiers

    def __init__(self, launch: Launch, cta: CtaState, index: int, mask: int, frame: Frame) -> None:
        super().__init__(launch, cta.rank << SHARED_RANK_SHIFT, frame)
        self.machine = launch
        self.cta = cta
        self.warp_id = index
        self.threads = mask
        self.live = mask
        self.converged_mask = 0
        self.converged = [ConvergedLanes(self, 0, mask)]
        self.other_lanes: ConvergedLanes | None = None
        self.spun = False
        self.expired = False
        self.retried: Wait | None = None
        self.local: NDArray[np.uint8] | None = None
        self.state: dict[Hashable, Any] = {}
        self.context, self.words = frame.context, frame.words
        self._fill_context()

    def _fill_context(self) -> None:
        words, launch = self.words, self.launch
        words[AT.QUADRANT] = self.warp_id % 4
        words[AT.LIVE] = self.live
        words[AT.SEEN_PROGRESS] = -1
        if launch.additions is not None:
            launch.warps_started += 1
            words[AT.ADDITIONS] = address_of(launch.additions.table)
            words[AT.AGENT] = 32 * launch.warps_started
        if launch.program.local_bytes:
            self.local = local = np.zeros(launch.program.local_bytes * 32, np.uint8)
            words[AT.LOCAL] = address_of(local)
            words[AT.LOCAL_SIZE] = launch.program.local_bytes
        if launch.deferred:
            pending = np.zeros((launch.pending_capacity, 3), np.uint64)
            self.state["cp.async rows"] = pending
            words[AT.DEFERRED] = 1
            words[AT.PENDING] = address_of(pending)
            words[AT.PENDING_CAPACITY] = len(pending)
        if launch.observer is not None:
            launch.observer.fill(self)

    def catch_up(self) -> None:
        """Take over where the warp stands, whose last turn compiled code has ended."""
        words, (lanes,) = self.words, self.converged
        lanes.pc, lanes.mask, words[AT.AHEAD] = words[AT.PC], words[AT.MASK], 0

    def take_over_lanes(self) -> ConvergedLanes:
        """Take over the lanes that do not run, where compiled code lets lanes take turns, and return them."""
        words, (lanes,) = self.words, self.converged
        others_word, words[AT.OTHER_LANES] = words[AT.OTHER_LANES], 0
        others, self.other_lanes = self.other_lanes or ConvergedLanes(self, 0, 0), None
        mask, op = others_word & ALL_LANES, words[AT.OTHER_OP]
        others.pc, others.mask, others.turn = words[AT.OTHER_PC], mask, lanes.turn + (others_word >> OTHERS_TURN_SHIFT)
        if op:
            others.state, others.op, others.active, others.again = CONVERGE, op - 1, mask, self.launch.together[op - 1]
        else:
            others.state, others.again = RUN, False
        self.converged = [others, lanes] if others_word & OTHERS_FIRST else [lanes, others]
        return others

    def hand_over_lanes(self, lanes: ConvergedLanes) -> list[ConvergedLanes]:
        """Let compiled code know the lanes that only wait for those that run next; the groups of which it need not know.

        Lanes that have exited may be some whom the others wait for.
        """
        first, second = self.converged
        others = second if lanes is first else first
        if others.state == CONVERGE and others.active == others.mask and self.live == self.threads:
            words = self.words
            words[AT.OTHER_LANES] = others.mask | OTHERS_FIRST * (others is first) | (others.turn - lanes.turn) << OTHERS_TURN_SHIFT
            words[AT.OTHER_PC], words[AT.OTHER_OP] = others.pc, others.op + 1
            self.converged, self.other_lanes = [lanes], others
        return self.converged

    @property
    def known(self) -> dict[Any, Any]:
        """Data that the handler of the instruction keeps for this launch."""
        return self.launch.known[self.op.index]

    @property
    def issued(self) -> int:
        """Lanes that have issued operations that a tcgen05.commit tracks."""
        lanes: int = self.words[AT.ISSUED]
        return lanes

    @issued.setter
    def issued(self, lanes: int) -> None:
        self.words[AT.ISSUED] = lanes

    @property
    def repeats(self) -> bool:
        """Whether compiled code would repeat this execution of the instruction; see `ptxlab.isa.WarpContext`."""
        return not self.mask & (self.mask - 1) and self._is_repeatable()

    @property
    def repeats_in_any_state(self) -> bool:
        """The same for executions that depend on no state, by any number of lanes; see `ptxlab.isa.WarpContext`."""
        return (self.launch.observer is None or not self.launch.deferred) and self._is_repeatable()

    def _is_repeatable(self) -> bool:
        """Whether compiled code repeats executions of the instruction."""
        index, facts = self.op.index, self.launch.facts
        return bool(self.words[AT.REPETITIONS]) and index in facts.of(repeatable) and index not in facts.changed

    def repeat(
        self,
        operation: AsyncOperation,
        state: Hashable,
        bases: int,
        function: int,
        given: Sequence[int],
        kept: object,
        ask: int = 0,
        again: Callable[[Warp, int, Sequence[int]], AsyncOperation] | None = None,
    ) -> None:
        """Let compiled code repeat this execution of the instruction; see `ptxlab.isa.WarpContext`."""
        found = self.launch.host_memory.repetitions
        assert found is not None
        if self._enter(operation, found.number(state), self.one_lane(), function, given, kept, ask, again):
            self.know_state(state, bases)

    def know_state(self, state: Hashable, bases: int) -> None:
        """Tell the state of the CTA; see `ptxlab.isa.WarpContext`."""
        found = self.launch.host_memory.repetitions
        if found is not None:
            self.cta.memory.repeated[0], self.cta.memory.repeated[1] = found.known(state), bases

    def repeat_box(
        self,
        lane: int,
        operation: AsyncOperation,
        tensor_map: int,
        words: int,
        kept: object,
        again: Callable[[Warp, int, Sequence[int]], AsyncOperation] | None = None,
    ) -> None:
        """Let compiled code copy the boxes of a tensor map; see `ptxlab.isa.WarpContext`."""
        self._enter(operation, NO_STATE, lane, words, (tensor_map,), kept, again=again)

    def take_lanes_left(self) -> int:
        """The executing lanes for which compiled code has not executed the instruction; see `ptxlab.isa.WarpContext`."""
        done: int = self.words[AT.LANES_DONE]
        if done:
            self.words[AT.LANES_DONE] = 0
        return self.mask & ~done

    def repeat_cancellation(self, operation: AsyncOperation) -> None:
        """Let compiled code cancel clusters; see `ptxlab.isa.WarpContext`."""
        if self.repeats_in_any_state:
            self._enter(operation, NO_STATE, self.one_lane(), self.words[AT.GRID], (), None)

    def _enter(
        self,
        operation: AsyncOperation,
        state: int,
        lane: int,
        function: int,
        given: Sequence[int],
        kept: object,
        ask: int = 0,
        again: Callable[[Warp, int, Sequence[int]], AsyncOperation] | None = None,
    ) -> bool:
        """Enter an execution with the values of registers in a lane, when its operation has performed; False if it cannot be repeated."""
        if again is None and not operation.done:
            return False
        values = [self.lane_value(Reg(index), 64, lane) for index in self.launch.facts.of(repeatable)[self.op.index]]
        execution = RepeatedExecution(self.op.index, state, values, function, given, kept, ask, again)
        if operation.done:
            return execution.enter(self.launch, operation)
        operation.then = partial(execution.enter, self.launch, operation)
        return True

    def join_warpgroup(self, words: int) -> None:
        """Tell compiled code the words of the warp's warpgroup; see `ptxlab.isa.WarpContext`."""
        self.words[AT.WARPGROUP] = words

    def state_of_shares(self, state: Hashable, observed: Hashable) -> int:
        """The number of a state for `repeat_share`; see `ptxlab.isa.WarpContext`."""
        launch, words = self.launch, self.words
        found = launch.host_memory.repetitions
        if found is None or not words[AT.REPETITIONS] or not words[AT.SERVICES] or launch.early_results or launch.deferred:
            return NO_STATE
        return found.number(state if launch.observer is None else (state, observed))

    def repeat_share(self, operation: AsyncOperation, state: int, function: int, given: Sequence[int], kept: object) -> None:
        """Let compiled code repeat this share of the warpgroup's instruction; see `ptxlab.isa.WarpContext`."""
        index, facts = self.op.index, self.launch.facts
        if index in facts.of(repeatable) and index not in facts.changed:
            self._enter(operation, state, 0, function, given, kept)

    def local_memory(self, lane: int) -> NDArray[np.uint8]:
        """The local memory of a thread."""
        size = self.launch.program.local_bytes
        return _NO_BYTES if self.local is None else self.local[lane * size : (lane + 1) * size]

    def take_copies(self) -> NDArray[np.uint64]:
        """Remove the deferred copies of the executing lanes from the warp's buffer and return them."""
        count = self.words[_PENDING_COUNT]
        if not count:
            return _NO_ROWS
        rows: NDArray[np.uint64] = self.state["cp.async rows"]
        if self.mask == ALL_LANES:
            self.words[_PENDING_COUNT] = 0
            return rows[:count].copy()
        lanes = rows[:count, 2] >> np.uint64(16) & np.uint64(31)
        mine = (np.uint64(self.mask) >> lanes & np.uint64(1)).astype(bool)
        taken: NDArray[np.uint64] = rows[:count][mine]
        kept = rows[:count][~mine]
        rows[: len(kept)] = kept
        self.words[_PENDING_COUNT] = len(kept)
        return taken

    # --------------------------------------------------------------------------------------------------------- findings

    def spin(self) -> None:
        """Shorten the slice: the warp polls."""
        self.spun = True

    def access(self, *accesses: MemoryAccess) -> None:
        """Report to the observer the bytes that the instruction itself reads or writes, and mark them in a worker process."""
        if self.launch.observer is not None:
            self.launch.observer.accessed(self, accesses)
        if self.launch.marks is not None:
            self.launch.marks.mark(accesses)

    def multiplied(self, details: Callable[[], Product]) -> None:
        """Report to the observer the product that the instruction has computed."""
        if self.launch.observer is not None:
            self.launch.observer.multiplied(self, details)

    def report(self, code: str, message: str, **fields: Any) -> None:
        """Add a finding at this instruction; the launch continues."""
        self.launch.reports.add(code, message, op=self.op, warp=self, mask=self.mask, **fields)

    def retract(self, code: str) -> None:
        """Leave out the finding with a code at this instruction."""
        self.launch.reports.retracted.add((code, self.op.index, 0))

    def permit_commits(self, lane: int, group: int) -> None:
        """Let compiled code complete the instruction, a commit, from now on, and in a lane all those of the same .cta_group."""
        permitted, index, words = self.launch.host_memory.permitted, self.op.index, self.words
        if permitted[index]:
            permitted[index] = 1
            words[AT.COMMITTERS] = group << 32 | words[AT.COMMITTERS] & ALL_LANES | 1 << lane

    def memory(self) -> bytes:
        """A copy of the registers and the local memory."""
        local = self.local
        registers = self.frame.data.tobytes()
        return registers if local is None else registers + local.tobytes()
