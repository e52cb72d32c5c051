"""What watches a launch: what the machine tells its observers, and where they come from.

The observers stand above the machine in the house; the machine knows them by the name of their module, which is imported when a launch
asks for one. With no observer there is no cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ptxlab.diagnostics import Diagnostic
from ptxlab.isa.context import AsyncOperation, MemoryAccess
from ptxlab.machine.launch.options import refuse

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["Observer", "Tracing", "observer_for", "overridden_hook", "tracing", "warm_observers"]

_PROVIDERS = {"race": "ptxlab.check.race"}
"""The module that has ``observe(launch)``, by the name of the check."""
_TRACE = "ptxlab.view.trace"


class Observer:
    """Called in the order in which things happen. The running agent is `Scheduler.performing`, else `Scheduler.current`."""

    def fill(self, warp: Warp) -> None:
        """A warp has been made; its context words may be set."""

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """A cluster starts."""

    def ended(self, cta: CtaState) -> None:
        """A CTA has exited."""

    def running(self, warp: Warp, split: ConvergedLanes) -> None:
        """A split of a warp begins to execute."""

    def stopped(self, warp: Warp, split: ConvergedLanes) -> None:
        """The split executes no longer: it waits, stands at a collective, has had its turn, or has exited."""

    def resumed(self, split: ConvergedLanes) -> None:
        """The wait that a split has is over."""

    def drain(self, warp: Warp) -> None:
        """Compiled code came back and has recorded rows, which are to be read."""

    def serviced(self, warp: Warp, op: Op) -> None:
        """A service instruction of a warp is complete."""

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        """What is called each time that an instruction is complete: `serviced`, or what that does for this one, None for nothing."""
        return self.serviced

    def issued(self, operation: AsyncOperation) -> None:
        """An asynchronous operation begins."""

    def performed(self, operation: AsyncOperation) -> None:
        """An asynchronous operation is complete."""

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """A service instruction reads or writes memory as ordinary accesses of its warp."""

    def initialised(self, barrier: Any) -> None:
        """An mbarrier object has been made."""

    def invalidated(self, barrier: Any) -> None:
        """The running warp has invalidated an mbarrier object."""

    def expected(self, barrier: Any) -> None:
        """The running warp has announced transaction bytes of an mbarrier."""

    def arrived(self, barrier: Any) -> None:
        """The running agent has arrived at a barrier, or completed bytes of it; before the phase completes."""

    def completed(self, barrier: Any) -> None:
        """The phase of a barrier has completed."""

    def acquired(self, barrier: Any) -> None:
        """The running warp has seen that a phase of an mbarrier is complete."""

    def finished(self) -> tuple[Diagnostic, ...]:
        """The launch is over, wherever it has come to; what there is to say about the observer's own work."""
        return ()


class _Together(Observer):
    """Several observers as one."""

    def __init__(self, observers: list[Observer]) -> None:
        self._observers = observers
        for name in vars(Observer):
            if not name.startswith("_") and name not in ("finished", "retire_hook"):
                setattr(self, name, _each([getattr(observer, name) for observer in observers]))

    def retire_hook(self, op: Op) -> Callable[[Warp, Op], None] | None:
        hearers = [retire_hook for observer in self._observers if (retire_hook := observer.retire_hook(op)) is not None]
        return _each(hearers) if hearers else None

    def finished(self) -> tuple[Diagnostic, ...]:
        return tuple(found for observer in self._observers for found in observer.finished())


def overridden_hook(observer: Observer | None, name: str) -> Callable[..., None] | None:
    """The method of an observer that is called for what happens all the time; None where it would do nothing."""
    if observer is None or (getattr(type(observer), name) is getattr(Observer, name) and name not in vars(observer)):
        return None
    found: Callable[..., None] = getattr(observer, name)
    return found


def _each(calls: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        for each in calls:
            each(*args)

    return call


class Tracing(Protocol):
    """A `ptxlab.Trace`."""

    def observe(self, launch: Launch) -> Observer:
        """The observer that writes a launch down."""


def tracing(trace: Any) -> Tracing | None:
    """The trace that the argument ``trace`` of a launch means."""
    if trace is None:
        return None
    kind = import_module(_TRACE).Trace
    if isinstance(trace, str | os.PathLike):
        trace = kind(trace)
    elif not isinstance(trace, kind):
        raise refuse("A310", f"trace must be a path or a ptxlab.Trace, not {trace!r}")
    found: Tracing = trace
    return found


def warm_observers() -> None:
    """Compile what observers need into the cache."""
    for module in _PROVIDERS.values():
        import_module(module).warm()


def observer_for(launch: Launch, trace: Tracing | None) -> Observer | None:
    """The observer that the checks of a launch and its trace need, if any."""
    found: list[Observer] = [import_module(module).observe(launch) for name, module in _PROVIDERS.items() if name in launch.options.checks]
    if trace is not None:
        found.append(trace.observe(launch))
    return _Together(found) if len(found) > 1 else found[0] if found else None
