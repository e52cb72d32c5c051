"""Executions that compiled code may repeat when their operation has performed (`ptxlab.engine.repetitions`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ptxlab._records import dataclass

if TYPE_CHECKING:
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["RepeatedExecution"]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedExecution:
    """An execution: its name, which are the instruction, the number of the state and the values of registers, and what repeats it.

    The other attributes are those of `ptxlab.isa.repeating.RepeatedByCompiledCode.repeat`.
    """

    op: int
    state: int
    values: Sequence[int]
    function: int
    given: Sequence[int]
    kept: object
    ask: int = 0
    again: Callable[[Warp, int, Sequence[int]], AsyncOperation] | None = None

    def enter(self, launch: Launch, operation: AsyncOperation) -> bool:
        """Let compiled code repeat the execution, whose operation has performed; False if an observer cannot."""
        observer, found, kept = launch.observer, launch.host_memory.repetitions, self.kept
        assert found is not None
        ask: tuple[Call, ...] = ()
        record, note = ask, ask
        if observer is not None:
            observed = observer.repetition(operation)
            if observed is None:
                return False
            ask, record, note, others = observed
            kept = kept, others
        name = self.op, self.state, self.values, self.function, self.given, kept
        if launch.deferred:
            found.add(*name, (*ask, *note), self.ask, record, self)
        else:
            found.add(*name, (*ask, *record, *note), self.ask)
        return True

    def operation(self, warp: Warp, lane: int, what: Sequence[int]) -> AsyncOperation:
        """The operation of a repetition by a lane of a warp, for the machine to perform; ``what`` compiled code has noted of it."""
        assert self.again is not None
        made = self.again(warp, lane, what)
        made.then = partial(self.enter, warp.launch, made)
        return made
