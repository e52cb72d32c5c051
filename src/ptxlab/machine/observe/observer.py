"""Observers of a launch: the events that the machine reports to them, and how a launch gets its observer.

Observers are defined above the machine; `ptxlab` registers them (`ptxlab._observers`). With no observer there is no cost.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ptxlab._observers import PROFILER, PROVIDERS, TRACE
from ptxlab.diagnostics import Diagnostic
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.launch.options import refuse

if TYPE_CHECKING:
    from ptxlab._observers import Provider
    from ptxlab.engine.program import Program
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations.matrices import MatrixOperand
    from ptxlab.isa.operations.products import Product
    from ptxlab.machine.launch.cta import Cluster, CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = [
    "NO_BARRIER_FUNCTIONS",
    "NO_CLUSTER_FUNCTIONS",
    "BarrierFunctions",
    "ClusterFunctions",
    "EarlierAccess",
    "ObservedRepetition",
    "Observer",
    "Profiling",
    "Tracing",
    "Uses",
    "concerned",
    "observer_for",
    "overridden_hook",
    "overridden_hooks",
    "profiler_for",
    "together",
    "tracing",
    "warm_observers",
]


Uses: TypeAlias = "Mapping[tuple[str, int], Op | None]"
"""By code and instruction of a finding the op that uses the value it is about; None if nothing does."""


class BarrierFunctions(NamedTuple):
    """Addresses for compiled code (`ptxlab.engine.turns.words.BarrierCell`): 0 where there is no function."""

    may_block: int = 0
    completed: int = 0


NO_BARRIER_FUNCTIONS = BarrierFunctions()


class ClusterFunctions(NamedTuple):
    """The same of the barrier of a cluster (`ptxlab.engine.turns.words.ClusterCell`)."""

    arrives: int = 0
    completed: int = 0
    passes: int = 0
    about: int = 0


NO_CLUSTER_FUNCTIONS = ClusterFunctions()


class ObservedRepetition(NamedTuple):
    """What compiled code calls when it repeats an operation, instead of the events.

    All functions of ``ask`` are called first: they change nothing. The result of those of ``note``, which are called last, is 0. In between
    are those of ``record``, of which there is at most one: if its result is not 0, it has noted for the event `Observer.issued`, which
    follows then, what it has done. ``kept`` must stay alive. If the operation performs later than it is issued, ``record`` is called at the
    issue, and the others when it performs, with the words of the warp that has issued it.
    """

    ask: tuple[Call, ...] = ()
    record: tuple[Call, ...] = ()
    note: tuple[Call, ...] = ()
    kept: object = None


def together(one: ObservedRepetition, other: ObservedRepetition) -> ObservedRepetition:
    """The calls of both."""
    return ObservedRepetition(one.ask + other.ask, one.record + other.record, one.note + other.note, (one.kept, other.kept))


class EarlierAccess(NamedTuple):
    """The first of two accesses that a finding is about: the instruction, the coordinates of the CTA and the warp that executed it."""

    op: Op
    cta: tuple[int, int, int]
    warp: int


class Observer:
    """Called in the order in which things happen. The running agent is `Scheduler.performing`, else `Scheduler.current`."""

    def fill(self, warp: Warp) -> None:
        """A warp has been made; its context words may be set."""

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """A cluster starts."""

    def ended(self, cta: CtaState) -> None:
        """A CTA has exited."""

    def running(self, warp: Warp, split: ConvergedLanes) -> None:
        """Converged lanes of a warp begin to execute."""

    def stopped(self, warp: Warp, split: ConvergedLanes) -> None:
        """They stop: they wait, stand at a collective, have used up their time slice, or have exited."""

    def exited(self, warp: Warp) -> None:
        """Converged lanes of a warp have exited."""

    def resumed(self, split: ConvergedLanes) -> None:
        """The wait of converged lanes has ended."""

    def drain(self, warp: Warp) -> None:
        """Compiled code has returned; the observer reads the rows that it recorded."""

    def allows_direct_completion(self, op: Op) -> bool:
        """Whether compiled code may complete this service instruction itself: its row tells the observer all, if it needs anything."""
        return False

    def serviced(self, warp: Warp, op: Op) -> None:
        """A service instruction of a warp is complete."""

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        """Return the function to call whenever this instruction completes, or None; the default is `serviced`."""
        return self.serviced

    def issued(self, operation: AsyncOperation) -> None:
        """An asynchronous operation begins."""

    def performing(self, operation: AsyncOperation) -> None:
        """An asynchronous operation is about to read and write."""

    def performed(self, operation: AsyncOperation) -> None:
        """An asynchronous operation is complete."""

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code does the same for equal operations that follow in this launch; None if it cannot.

        Equal are those of executions for which `ptxlab.isa.WarpContext.repeat` lets compiled code repeat this one, which is complete. They
        may be of other CTAs. Equal to a copy are those of all boxes of
        the tensor map to any place and mbarrier, which `ptxlab.engine.repetitions.CopyWord` tells (`ptxlab.isa.WarpContext.repeat_box`).
        """
        return None

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """A service instruction reads or writes memory as ordinary accesses of its warp."""

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """An mma of one warp has computed a product; asynchronous ones have `AsyncOperation.details`."""

    def initialised(self, barrier: Any) -> None:
        """An mbarrier object has been initialised."""

    def invalidated(self, barrier: Any) -> None:
        """The running warp has invalidated an mbarrier object."""

    def expected(self, barrier: Any) -> None:
        """The running warp has announced transaction bytes of an mbarrier."""

    def arrived(self, barrier: Any) -> None:
        """The running agent has arrived at a barrier or completed transaction bytes; called before the phase completes."""

    def takes_arrivals_together(self) -> bool:
        """Whether `arrived_together` is called for warps that are blocked at a barrier of their CTA, and not `arrived` for each."""
        return overridden_hook(self, "arrived") is None

    def allows_shared_turns(self) -> bool:
        """Whether compiled code may end turns of warps that are blocked at barriers, and begin others, without these events."""
        return self.allows_compiled_waits()

    def allows_compiled_waits(self) -> bool:
        """The same for warps that are blocked at waits for mbarrier objects; `allows_direct_completion` says whether it completes these."""
        return all(overridden_hook(self, name) is None for name in ("running", "stopped", "resumed"))

    def barrier_functions(self, cta: CtaState) -> BarrierFunctions | None:
        """The compiled functions that handle arrivals at barriers of a CTA, and their completion, in place of the events.

        They are called only in phases of which compiled code knows all arrivals, and those only of whole warps that are blocked. None: the
        observer must have the events. The default suits observers that have none of these events.
        """
        return None if self._needs_barriers() else NO_BARRIER_FUNCTIONS

    def cluster_functions(self, cluster: Cluster) -> ClusterFunctions | None:
        """The same for the barrier of a cluster, and arrivals and waits of whole warps there."""
        return None if self._needs_barriers() else NO_CLUSTER_FUNCTIONS

    def _needs_barriers(self) -> bool:
        """Whether the observer has events of barriers."""
        concerned = any(overridden_hook(self, name) is not None for name in ("arrived", "completed", "serviced"))
        return concerned or type(self).retire_hook is Observer.retire_hook

    def arrived_together(self, barrier: Any, warps: Iterable[Warp]) -> None:
        """Warps have arrived at a barrier of their CTA one after the other, and are blocked; called before `arrived` and `completed`."""

    def completed(self, barrier: Any) -> None:
        """The phase of a barrier has completed."""

    def acquired(self, barrier: Any) -> None:
        """The running warp has observed that a phase of an mbarrier is complete."""

    def reported(self, finding: Diagnostic, op: Op | None, earlier: EarlierAccess | None) -> None:
        """A finding has been made at an instruction, for the first time in the launch; of two accesses, ``earlier`` is the other one."""

    def advice(self, operand: MatrixOperand, cta: CtaState) -> str:
        """Return which descriptor would read a matrix operand that this one cannot read; "" if it is not known."""
        return ""

    def uses(self, replay: Callable[[], Replay], completed: bool = True) -> Uses:
        """Test findings that hold only if a value is used: run the launch again and return what uses it; a finding may have ended it.

        ``replay`` gives the launch as it was started; to ask for it costs a copy of device memory.
        """
        return {}

    def open_findings(self) -> Iterable[tuple[str, int]]:
        """The findings that `uses` tests, by code and instruction."""
        return ()

    def unsettled(self) -> bool:
        """Whether `uses` would run the launch again for what was observed in it."""
        return False

    def finished(self) -> tuple[Diagnostic, ...]:
        """The launch has ended, complete or not; return diagnostics about the observer's own work."""
        return ()

    def forget(self) -> None:
        """Called last: break reference cycles, which only the garbage collector would free."""


_ANSWERS = frozenset(
    (
        *("advice", "allows_compiled_waits", "allows_direct_completion", "allows_shared_turns", "barrier_functions", "cluster_functions"),
        *("finished", "open_findings", "repetition", "retire_hook", "takes_arrivals_together", "unsettled", "uses"),
    )
)
"""What an observer is asked, which is no event."""


class _Together(Observer):
    """An observer that forwards each event to several observers."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers
        for name in vars(Observer):
            if not name.startswith("_") and name not in _ANSWERS:
                calls = [call for observer in observers if (call := overridden_hook(observer, name)) is not None]
                if calls:
                    setattr(self, name, calls[0] if len(calls) == 1 else _each(calls))

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        hooks = [hook for observer in self._observers if (hook := observer.retire_hook(op)) is not None]
        return hooks[0] if len(hooks) == 1 else _each(hooks) if hooks else None

    def allows_direct_completion(self, op: Op) -> bool:
        return all(observer.allows_direct_completion(op) for observer in self._observers)

    def allows_shared_turns(self) -> bool:
        return all(observer.allows_shared_turns() for observer in self._observers)

    def allows_compiled_waits(self) -> bool:
        return all(observer.allows_compiled_waits() for observer in self._observers)

    def barrier_functions(self, cta: CtaState) -> BarrierFunctions | None:
        found = [observer.barrier_functions(cta) for observer in self._observers]
        needed = [functions for functions in found if functions != NO_BARRIER_FUNCTIONS]
        return NO_BARRIER_FUNCTIONS if not needed else needed[0] if len(needed) == 1 else None

    def cluster_functions(self, cluster: Cluster) -> ClusterFunctions | None:
        found = [observer.cluster_functions(cluster) for observer in self._observers]
        needed = [functions for functions in found if functions != NO_CLUSTER_FUNCTIONS]
        return NO_CLUSTER_FUNCTIONS if not needed else needed[0] if len(needed) == 1 else None

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        found = ObservedRepetition()
        for observer in self._observers:
            one = observer.repetition(operation)
            if one is None:
                return None
            found = together(found, one)
        return found

    def takes_arrivals_together(self) -> bool:
        return all(observer.takes_arrivals_together() for observer in self._observers)

    def advice(self, operand: MatrixOperand, cta: CtaState) -> str:
        return next((text for observer in self._observers if (text := observer.advice(operand, cta))), "")

    def uses(self, replay: Callable[[], Replay], completed: bool = True) -> Uses:
        return {key: op for observer in self._observers for key, op in observer.uses(replay, completed).items()}

    def open_findings(self) -> Iterable[tuple[str, int]]:
        return [key for observer in self._observers for key in observer.open_findings()]

    def unsettled(self) -> bool:
        return any(observer.unsettled() for observer in self._observers)

    def finished(self) -> tuple[Diagnostic, ...]:
        return tuple(found for observer in self._observers for found in observer.finished())


def overridden_hook(observer: Observer | None, name: str) -> Callable[..., None] | None:
    """The method of an observer for a frequent event; None if the observer does not override it."""
    if observer is None or (getattr(type(observer), name) is getattr(Observer, name) and name not in vars(observer)):
        return None
    found: Callable[..., None] = getattr(observer, name)
    return found


def overridden_hooks(observer: Observer | None, *names: str) -> tuple[Callable[..., None] | None, ...]:
    """`overridden_hook` of each name."""
    return (None,) * len(names) if observer is None else tuple(overridden_hook(observer, name) for name in names)


def _each(calls: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        for each in calls:
            each(*args)

    return call


class Tracing(ABC):
    """The base class of `ptxlab.Trace`."""

    @abstractmethod
    def observe(self, launch: Launch) -> Observer:
        """Return the observer that writes the trace of a launch."""


def tracing(trace: Any) -> Tracing | None:
    """The trace that the argument ``trace`` of a launch names."""
    if trace is None or isinstance(trace, Tracing):
        return trace
    if isinstance(trace, str | os.PathLike):
        opened: Tracing = TRACE[0](trace)
        return opened
    raise refuse("A310", f"trace must be a path or a ptxlab.Trace, not {trace!r}")


class Profiling(Observer, ABC):
    """The base class of the observer that makes the profile of a launch."""

    @abstractmethod
    def profile(self) -> Any:
        """What it has counted, when the launch has ended: a `ptxlab.Profile`."""


def profiler_for(launch: Launch) -> Profiling:
    """The observer that counts what a launch executes, whose program is counted."""
    made: Profiling = PROFILER[0](launch)
    return made


def warm_observers() -> None:
    """Compile what observers need into the cache."""
    for provider in PROVIDERS.values():
        provider().warm()


def concerned(program: Program, checks: frozenset[str]) -> tuple[Provider, ...]:
    """What observes launches of a program with these checks."""
    asked = (provider() for name, provider in PROVIDERS.items() if name in checks)
    return tuple(provider for provider in asked if provider.concerns(program))


def observer_for(launch: Launch, providers: Iterable[Provider], trace: Tracing | None, profiler: Profiling | None) -> Observer | None:
    """The observer that the checks of a launch, its trace and its profile need, if any."""
    found: list[Observer] = [provider.observe(launch) for provider in providers]
    if trace is not None:
        found.append(trace.observe(launch))
    if profiler is not None:
        found.append(profiler)
    return _Together(found) if len(found) > 1 else found[0] if found else None
