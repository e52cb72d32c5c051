"""Groups of asynchronous copies and of wgmma operations: commit_group, and the waits that complete the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ptxlab.check.model import Component, Kind
from ptxlab.check.race._recorder import AccessRecorder, Handler, Handlers
from ptxlab.check.race.clocks.clocks import Agent, Clocks
from ptxlab.check.race.clocks.slots import CopySlot, Slot
from ptxlab.check.race.clocks.warpgroup_clock import WarpgroupClock
from ptxlab.check.race.shadow.shadow_words import StateWord
from ptxlab.isa.effects import Asynchronous, CommitGroup, Completion, WaitGroup
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess

if TYPE_CHECKING:
    from ptxlab.machine.warp.warp import Warp

__all__ = ["BulkGroups", "WgmmaGroups", "group_handlers", "ring_size"]

_DONE = (Component.DONE,)
_ISSUED_WORD = int(StateWord.ISSUED)
_MOST_GROUPS = 1 << 16
"""No program waits for all groups of wgmma or of bulk copies but more than so many."""


def _count(warp: Warp, op: Op) -> int:
    """The number of groups that a wait leaves pending, without a sign."""
    operand = op.operands[0]
    return operand.value & 0xFFFFFFFF if isinstance(operand, Const) else warp.uniform(0)


def _complete_groups(clocks: Clocks, agent: Agent, slot: Slot, pending: int, components: Iterable[Component]) -> None:
    """All groups of a slot are complete, except the ``pending`` newest ones."""
    complete = len(slot.groups) - pending
    if complete > 0:
        for component in components:
            clocks.advance(agent, slot, component, slot.groups[complete - 1])
        if Component.DONE in components:
            del slot.groups[: complete - 1]


class BulkGroups:
    """Groups of bulk copies: one sequence of them for each lane. Compiled code moves the clocks.

    The groups also complete the reads of copies that complete on mbarriers: kernels wait with wait_group.read until copies have read
    their tensor map before they change it, whatever completes the copies.
    """

    def __init__(self, recorder: AccessRecorder) -> None:
        self._recorder = recorder

    def step(self, warp: Warp, op: Op) -> None:
        """Lanes of a warp have executed cp.async.bulk.commit_group or cp.async.bulk.wait_group."""
        _, agent = warp.state["race"]
        self._recorder.load(agent)
        self._recorder.shadow.step_of_lanes(op.index, warp.mask)


def _copies(warp: Warp) -> tuple[Clocks, Agent, CopySlot]:
    """The slot of a warp's cp.async, which has one sequence of groups."""
    clocks, agent = warp.state["race"]
    return clocks, agent, clocks.copies(agent)


def _commit_copies(warp: Warp, op: Op) -> None:
    """cp.async.commit_group."""
    _copies(warp)[2].commit()


def _wait_copies(warp: Warp, op: Op) -> None:
    """cp.async.wait_group."""
    _complete_groups(*_copies(warp), _count(warp, op), _DONE)


def _wait_all_copies(warp: Warp, op: Op) -> None:
    """cp.async.wait_all."""
    _commit_copies(warp, op)
    _complete_groups(*_copies(warp), 0, _DONE)


class WgmmaGroups:
    """Operations of warpgroups: each of the four warps executes its share, the operation follows all of them.

    Compiled code moves the clocks, whether it has executed an instruction or a handler has.
    """

    def __init__(self, recorder: AccessRecorder) -> None:
        self._recorder = recorder
        self._ends = recorder.launch.facts.of(ring_size, Completion.WGMMA_GROUP)

    def _clock(self, clocks: Clocks, agent: Agent) -> WarpgroupClock:
        return WarpgroupClock.of(clocks, agent, self._ends, self._recorder.launch.program.ops)

    def _until_done(self, clocks: Clocks, agent: Agent, act: Callable[[int], bool], op: Op) -> None:
        """Let compiled code do something for a warp: make what it needs."""
        group = self._clock(clocks, agent)
        self._recorder.load(agent)  # its rows may have become wider
        while not act(op.index):
            group.enlarge(agent.rows.shape[1])

    def step(self, warp: Warp, op: Op) -> None:
        """A warp has executed its share of an operation, wgmma.commit_group or wgmma.wait_group."""
        clocks, agent = warp.state["race"]
        self._until_done(clocks, agent, self._recorder.shadow.step_of_group, op)

    def issue(self, warp: Warp, clocks: Clocks, agent: Agent, operation: AsyncOperation, accesses: tuple[MemoryAccess, ...]) -> None:
        """The last share issues the operation."""
        recorder, op = self._recorder, operation.op
        words = recorder.shadow.words
        is_recorded, words[_ISSUED_WORD] = words[_ISSUED_WORD], 0  # compiled code has numbered it, and recorded its accesses
        if not is_recorded:
            self._until_done(clocks, agent, recorder.shadow.issue_of_group, op)
        group = self._clock(clocks, agent)
        if is_recorded:
            recorder.judge(clocks, agent, group.newest())
        else:
            recorder.record(clocks, agent, group.slot, Kind.WGMMA, op, accesses, group.newest())


def ring_size(program: Any, of: Completion) -> int:
    """A power of two: no wait of a program leaves as many groups of a kind pending."""
    counts = [op.operands[0] for op in program.ops if isinstance(op.effects, WaitGroup) and op.effects.of is of]
    most = max([min(count.value, _MOST_GROUPS) for count in counts if isinstance(count, Const)], default=0)
    return 1 << (most + 1).bit_length()


def group_handlers(wgmma: WgmmaGroups, bulk: BulkGroups) -> Handlers:
    """The handlers of commits and waits, by what completes the operations."""
    steps: dict[Completion, Handler] = {Completion.BULK_GROUP: bulk.step, Completion.WGMMA_GROUP: wgmma.step}
    commits, waits = ({**steps, Completion.COPY_GROUP: of_copies} for of_copies in (_commit_copies, _wait_copies))
    return {
        Asynchronous: lambda effect: wgmma.step if effect.completion is Completion.WGMMA_GROUP else None,
        CommitGroup: lambda effect: commits[effect.of],
        WaitGroup: lambda effect: _wait_all_copies if effect.everything else waits[effect.of],
    }
