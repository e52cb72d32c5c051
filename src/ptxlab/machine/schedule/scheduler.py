"""The scheduler: fair and deterministic; it detects every launch that can make no progress.

A launch runs depth first: a new cluster starts when the resident ones wait or have used up a slice, so that a kernel of independent CTAs
uses the processor's caches for one CTA at a time. Warps take turns after a slice of instructions; diverged lanes of a warp take turns
after a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ptxlab.engine.context import Context, Status, Word
from ptxlab.engine.direct_services import direct_services
from ptxlab.engine.turns.words import GROUP_SLICE, NO_LIMIT, POLL_TURNS, SLICE, ClusterCell, TurnWord
from ptxlab.isa.context import Misuse
from ptxlab.machine.observe.observer import overridden_hooks
from ptxlab.machine.schedule.shared_turns import SharedTurns
from ptxlab.machine.warp.convergence import choose, converge
from ptxlab.machine.warp.warp import CONVERGE, RUN, WAIT, ConvergedLanes, Warp

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.schedule.deadlock import Watch

__all__ = ["Scheduler"]

SMALLEST_SLICE = 10_000
EXPIRY_COST = 1_000
"""The instructions that an expired time limit of a wait counts as, so that loops over such waits end."""

_PC, _MASK, _LIMIT, _FUEL, _INFO, _ACTIVE = (int(w) for w in (Word.PC, Word.MASK, Word.LIMIT, Word.FUEL, Word.INFO, Word.ACTIVE))
_EXITED, _CLOCK, _EVENTS = int(Word.EXITED), int(Word.CLOCK), int(Word.EVENT_COUNT)
_FUEL_LEFT, _LAST_SLICE, _SEEN_PROGRESS, _GRANTED = (int(w) for w in (Word.FUEL_LEFT, Word.LAST_SLICE, Word.SEEN_PROGRESS, Word.GRANTED))
_QUEUED, _AHEAD, _SLICE_REST = int(Word.QUEUED), int(Word.AHEAD), int(Word.SLICE_REST)
_USED_BEFORE, _OTHER_LANES, _OTHER_PC, _JOINS = (int(w) for w in (Word.USED_BEFORE, Word.OTHER_LANES, Word.OTHER_PC, Word.JOINS))
_NEXT_CLOCK, _ALLOWED, _ENDED, _ARRIVED, _CURRENT = (
    int(w) for w in (TurnWord.CLOCK, TurnWord.ALLOWED, TurnWord.ENDED, TurnWord.ARRIVED, TurnWord.CURRENT)
)
_SERVICE, _DIVERGE, _YIELD, _SPENT, _FAULT, _CONVERGE, _EXIT, _BLOCKED = (
    int(s) for s in (Status.SERVICE, Status.DIVERGE, Status.YIELD, Status.FUEL, Status.FAULT, Status.CONVERGE, Status.EXIT, Status.BLOCKED)
)
_CLUSTER_TURNS = int(ClusterCell.TURNS)
_PARKED = -1


class Scheduler(SharedTurns):
    """Runs the warps of one launch to their end."""

    def __init__(self, launch: Launch, execute: Callable[[Context], int]) -> None:
        super().__init__(launch, execute)
        self.budget = launch.budget
        self.observer = launch.observer
        observer, ops = launch.observer, launch.program.ops
        self._on_running, self._on_stopped, on_exited = overridden_hooks(observer, "running", "stopped", "exited")
        self.rounds = 0
        self.services = launch.host_memory.counts
        """The executions of services by instruction."""
        direct = launch.facts.of(direct_services)
        completes = observer is None or all(map(observer.allows_direct_completion, direct))
        self.counted_at = launch.host_memory.counts_address if completes else 0
        """Where compiled code counts the services that it completes itself (`Word.SERVICES`); 0 if it completes none."""
        self._run_state = (
            launch,
            ops,
            launch.handlers,
            launch.together,
            self.services,
            self._retire_hooks,
            observer,
            self._on_running,
            self._on_stopped,
            on_exited,
        )
        self.last: Warp | None = None
        self.before_turn: Callable[[], None] | None = None
        """Called before each turn, if there is one."""
        self._turns = self._slices = self._needed = 0
        self._spent: set[Warp] = set()
        self._seen = self._barrier_arrivals = -1
        self.outside = launch.options.outside

    @cached_property
    def _watch(self) -> Watch:
        from ptxlab.machine.schedule.deadlock import Watch

        return Watch(self.launch)

    def now(self) -> int:
        """Return the warp-instructions executed so far, with those of the running slice."""
        running = self.running_warp()
        return self.instructions if running is None else self._until - running.words[_FUEL]

    # --------------------------------------------------------------------------------------------------------- main loop

    def run(self) -> None:
        """Run the launch to its end, from where it stands; a fault, a hang or an overrun raises."""
        if self.launch.policy == "random" and not self.launch.resident:
            while self.launch.start_cluster(beside=True):
                pass
        try:
            self._run_turns()
        except Misuse as misuse:
            self.launch.reports.misused(misuse)

    def _run_turns(self) -> None:
        """Let the next warp run, or make some other progress, until the launch ends."""
        queues, outside, before_turn, run_warp = self.queues, self.outside, self.before_turn, self._run_warp
        while True:
            if before_turn is not None:
                before_turn()
            queue = queues.only or queues.choose()
            in_order = queue.in_order
            if not in_order and queue.performs():
                self.perform_one(queue)
            if queue.ready:
                warp = queue.ready.popleft() if in_order else queue.next_warp()
                warp.words[_QUEUED] = 0
                self.current = warp
                used_up = run_warp(warp)
                self.last = warp = self.current  # compiled code may have let others run
                self.current = None
                cluster = warp.cta.group
                cells = cluster.barrier.cells
                cells[_CLUSTER_TURNS] = ended = cells[_CLUSTER_TURNS] + 1
                if not ended % POLL_TURNS:
                    self._poll((cluster,))
                if outside is not None:
                    self._turns += 1
                    if not self._turns % POLL_TURNS:
                        outside.turn()
                if used_up:
                    self._slice_used_up(warp)
                if self.instructions > self.budget and not self._wait_outside(0):
                    self.take_over_all()
                    self.launch.reports.over_budget()
            elif not self.launch.resident and not queue.pending:
                if not (queues.drop(queue) or self.launch.start_cluster()):
                    return
            elif not (self._poll(queue.clusters) or self.perform_one(queue) or queues.drop(queue) or self._start_or_expire()):
                if not self.launch.resident:
                    return
                self.no_progress()

    def _start_or_expire(self) -> bool:
        """Let something go on that waits for more than its own cluster, when nothing else does."""
        return self._poll_all() or self.launch.start_cluster() or self._expire()

    def _slice_used_up(self, warp: Warp) -> None:
        """Look for other progress, or a hang, when each warp that can run has used up a slice since the last progress.

        Threads that meet at barriers may compute, or wait in a loop for other clusters: further clusters start if the launch repeats itself
        or half of its budget is spent.
        """
        self.take_over_all()
        self.rounds += 1
        progress = self.launch.progress
        if progress != self._seen:
            self._seen = progress
            self._spent.clear()
        self._spent.add(warp)
        self._slices += 1
        if self._slices < self._needed:
            return
        self._slices = 0
        ready = self.ready
        self._needed = sum(each not in self._spent for each in ready)
        if self._needed:
            return
        self._needed = len(ready)
        self._spent.clear()
        if self._poll_all() or self._go_on():
            return
        arrivals = self.launch.barrier_arrivals + (0 if self.compiled_turns is None else self.compiled_turns.words[_ARRIVED])
        met, self._barrier_arrivals = arrivals != self._barrier_arrivals, arrivals
        if (not met or self.instructions > self.budget >> 1) and self.launch.start_cluster():
            return
        if self._watch.repeats() and not (self.launch.start_cluster() or self._expire() or self._wait_outside(self._watch.digest())):
            self.no_progress()

    def _go_on(self) -> bool:
        """Let an operation go on beside warps that run; under ``random`` they do that in any case."""
        random = self.launch.policy == "random"
        return any(queue.pending if random else self.perform_one(queue) for queue in self.queues.resident())

    def no_progress(self) -> None:
        """End the launch: no warp can go on."""
        self.take_over_all()
        self.launch.reports.hang()

    def _wait_outside(self, state: int) -> bool:
        """Wait for what runs beside the launch; what the launch executes meanwhile does not count. False if nothing there can help."""
        if self.outside is None or not self.outside.stalled(state):
            return False
        self.budget = self.instructions + self.launch.budget
        return True

    def _expire(self) -> bool:
        """Expire the time limits of waits, once for each state of the launch; return False if there are none, or the state is not new."""
        self.take_over_all()
        waiting = [s for cta in self.launch.resident for w in cta.warps for s in w.converged if s.wait is not None and s.wait.expires]
        if not waiting or not self._watch.is_new():
            return False
        if self.launch.worker is not None:
            self.launch.worker.leave("a wait ends by its time limit")
        for group in waiting:
            wait = group.wait
            assert wait is not None
            waiters = getattr(wait.on, "waiters", None)
            if waiters is not None and group in waiters:
                waiters.remove(group)
            self._resume(group, wait)
            group.expired = group.again = True
            self.instructions += EXPIRY_COST
        if self.instructions > self.budget:
            self.launch.reports.over_budget()
        return True

    # ---------------------------------------------------------------------------------------------------------- one warp

    def _choose(self, warp: Warp, fuel: int) -> tuple[ConvergedLanes, int, int] | None:
        """Choose the lanes of a warp that run, the op before which they stop, and their slice; None if none can run."""
        self._until = self.instructions + warp.words[_FUEL]
        if len(warp.converged) == 1:
            group = warp.converged[0]
            return None if group.state == WAIT or not converge(warp) else (group, NO_LIMIT, fuel)
        found = choose(warp)
        return None if found is None else (*found, min(fuel, GROUP_SLICE))

    def _run_warp(self, warp: Warp) -> bool:
        """Run a warp until it waits, exits or has used up its slice; True for the last."""
        launch, ops, handlers, together, services, retire_hooks, observer, running, stopped, exited = self._run_state
        execute = self._execute
        words = warp.words
        context = warp.context
        fuel = words[_FUEL_LEFT] or SLICE
        words[_CLOCK] = self.rounds * 1000 + self.instructions
        turns, ended = None if self.compiled_turns is None else self.compiled_turns.words, 0
        if words[_AHEAD]:
            warp.catch_up()
        if words[_OTHER_LANES] and warp.live != warp.threads:
            warp.take_over_lanes()
        while True:
            groups = warp.converged
            if words[_OTHER_LANES]:
                group, other_pc, granted = groups[0], words[_OTHER_PC], min(fuel, GROUP_SLICE)
                limit = other_pc if group.pc < other_pc else NO_LIMIT
            elif len(groups) == 1 and not groups[0].state:
                group, limit, granted = groups[0], NO_LIMIT, fuel
            else:
                found = self._choose(warp, fuel)
                if found is None:
                    return False
                group, limit, granted = found
                groups = warp.converged
            words[_PC] = group.pc
            words[_MASK] = group.mask
            words[_LIMIT] = limit
            words[_FUEL] = words[_GRANTED] = granted
            self._until = self.instructions + granted
            if turns is not None:
                words[_SLICE_REST] = fuel - granted
                turns[_NEXT_CLOCK], turns[_ALLOWED] = self.rounds * 1000 + self.instructions, self.budget - self.instructions
                turns[_CURRENT], ended = context.address, turns[_ENDED]
            if running is not None:
                running(warp, group)
            again = group.again
            warp.spun = False
            while True:
                resumed = again
                if again:
                    again = group.again = False
                    index, active = group.op, group.active
                    warp.retried, warp.expired = group.retried, group.expired
                    group.retried = None
                    group.expired = False
                else:
                    if len(groups) == 2 and turns is not None:
                        groups = warp.hand_over_lanes(group)
                    status = execute(context)
                    if turns is not None and turns[_ENDED] != ended:
                        ended = turns[_ENDED]
                        warp = self._take_over_turn(turns)
                        if status == _BLOCKED:
                            return False
                        words, context, groups = warp.words, warp.context, warp.converged
                        group = groups[0]
                        granted = words[_GRANTED]
                        fuel = granted + words[_SLICE_REST]
                    if words[_USED_BEFORE] or words[_OTHER_LANES]:
                        granted, fuel = self._take_over_lanes(warp)
                        groups = warp.converged
                    drained = False
                    if observer is not None and words[_EVENTS]:
                        observer.drain(warp)
                        drained = True
                    if words[_EXITED]:
                        gone = words[_EXITED]
                        words[_EXITED] = 0
                        launch.exited(warp, gone)
                    if status != _SERVICE:
                        break
                    if drained and self.counts_arrival(warp):
                        continue
                    index = words[_INFO]
                    active = words[_ACTIVE]
                op = ops[index]
                warp.op = op
                warp.q = op.q
                warp.mask = active
                mask = warp.converged_mask = words[_MASK]
                if together[index]:
                    if mask != warp.live:
                        group.state = CONVERGE
                        group.op, group.active, group.again = index, active, True
                        status = _PARKED
                        break
                    if active != mask:
                        launch.reports.partial(warp)
                services[index] += 1
                wait = handlers[index](warp)
                if resumed:
                    warp.expired = False
                    warp.retried = None
                if wait is not None:
                    self.block(group, wait, index, active)
                    status = _PARKED
                    break
                retire_hook = retire_hooks[index]
                if retire_hook is not None:
                    retire_hook(warp, op)
                if warp.spun:
                    words[_FUEL] = min(words[_FUEL], granted >> 1) - (granted >> 3)
                    warp.spun = False
                    if words[_FUEL] <= 0:
                        status = _SPENT
                        break
                if words[_PC] >= words[_LIMIT] and words[_JOINS]:
                    status = _YIELD
                    break
            used = granted - words[_FUEL]
            fuel -= used
            self.instructions += used
            group.pc = words[_PC]
            group.mask = words[_MASK]
            if status == _CONVERGE:
                group.state, group.op, group.active = CONVERGE, words[_INFO], words[_ACTIVE]
            if stopped is not None:
                stopped(warp, group)
            if status == _PARKED:
                if words[_SEEN_PROGRESS] != launch.progress:
                    words[_SEEN_PROGRESS] = launch.progress
                    words[_LAST_SLICE] = words[_FUEL_LEFT] = SLICE
                else:
                    words[_FUEL_LEFT] = fuel if fuel > 0 else 1
                if group.state == WAIT and len(groups) == 1:
                    return False
                continue
            if status == _DIVERGE:
                taken = words[_ACTIVE]
                rest = group.mask & ~taken
                group.pc, group.mask = words[int(Word.TAKEN)], taken
                groups.append(ConvergedLanes(warp, words[int(Word.NEXT)], rest, group.turn))
            elif status == _EXIT:
                if exited is not None:
                    exited(warp)
                groups.remove(group)
                if not groups:
                    launch.warp_ended(warp)
                    return False
                for other in groups:
                    if other.state == CONVERGE and not other.again:
                        other.state = RUN
            elif status == _SPENT:
                group.turn += 1
                if len(groups) == 1:
                    fuel = 0
            elif status == _CONVERGE:
                rest = group.mask & ~group.active
                if rest:
                    # Lanes whose guard is false pass over the instruction; they start at it once more, as a group of their own.
                    group.mask = group.active
                    groups.append(ConvergedLanes(warp, group.pc, rest, group.turn))
            elif status == _FAULT:
                launch.reports.engine_fault(warp)
            if fuel <= 0:
                words[_LAST_SLICE] = words[_FUEL_LEFT] = max(SMALLEST_SLICE, (words[_LAST_SLICE] or SLICE) >> 1)
                self.enqueue(warp)
                return True
