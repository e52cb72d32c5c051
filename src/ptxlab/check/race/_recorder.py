"""Accesses on their way to the shadow: what all parts of the sanitizer share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from ptxlab.check.model import TENSOR_SPACE, Kind, Rules
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Rows, Slot
from ptxlab.check.race.clocks.scopes import reach_of
from ptxlab.check.race.program.copy_sources import sources_change
from ptxlab.check.race.program.instruction_kinds import op_table
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_ir import HOW_SHIFT, READS_TOO, StateWord
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.operands import Op
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["AccessRecorder", "Handler", "Handlers"]

_ROWS_WORD, _WIDTH_WORD, _CLUSTER_WORD, _SLOT_WORD, _CLOCK_WORD = map(int, list(StateWord)[:5])
_SUSPECTS_WORD = int(StateWord.SUSPECT_COUNT)
_TRANSFERS = (Kind.LD, Kind.ST)

Handler: TypeAlias = "Callable[[Warp, Clocks, Agent, Op], None]"
"""What a complete instruction does to the clocks of the warp that has executed it."""
Handlers: TypeAlias = "dict[type[Any], Callable[[Any], Handler | None]]"
"""By the class of an effect: the handler of one such effect, None where it changes no clock."""


class AccessRecorder:
    """Asks the shadow about accesses and reports the conflicts that it finds; one for each launch."""

    def __init__(self, launch: Launch, shadow: type[Shadow]) -> None:
        self.launch = launch
        self.watches_sources = sources_change(launch)
        self.table = op_table(launch.program, reach_of(launch), self.watches_sources)
        self.shadow = shadow(self.table, Rules(launch.model).table)
        self.findings = Findings(launch, self.shadow)
        self._words = self.shadow.words
        self._loaded = 0
        self._accumulator: tuple[MemoryAccess, int, Kind] | None = None

    def running(self) -> tuple[Warp, Clocks, Agent] | None:
        """The warp that executes, if one does."""
        warp = self.launch.scheduler.current
        return None if warp is None else (warp, *warp.state["race"])

    def load(self, clocks: Clocks, agent: Agent) -> None:
        """Make a warp the running agent of the compiled functions."""
        words = self._words
        if self._loaded != agent.address:
            self._loaded = agent.address
            words[_ROWS_WORD] = agent.address
            words[_WIDTH_WORD] = agent.rows.shape[1]
            words[_CLUSTER_WORD] = clocks.serial
            words[_SLOT_WORD] = agent.main.name
        words[_CLOCK_WORD] = agent.main.clock

    def record(
        self, clocks: Clocks, agent: Agent, slot: Slot, kind: Kind, op: Op, accesses: Iterable[MemoryAccess], rows: Rows | None = None
    ) -> None:
        """Record the accesses of one operation in one slot; ``rows``: what is ordered before them, if not the rows of the warp."""
        self.load(clocks, agent)
        shadow = self.shadow
        if rows is not None:
            self._words[_ROWS_WORD], self._words[_WIDTH_WORD] = address_of(rows), rows.shape[1]
            self._loaded = 0
        who, what = slot.name << 32 | slot.clock, op.index | kind << HOW_SHIFT + 1
        tensor = kind in TENSOR_SPACE
        for access in accesses:
            write = access.write
            if tensor and write:
                # The same accumulator, written again with nothing in between.
                again = access, who, kind
                if again == self._accumulator:
                    continue
                self._accumulator = again
            elif tensor and kind in _TRANSFERS:
                self._accumulator = None
            shadow.access(access, who, what | (write | (READS_TOO if access.reads else 0)) << HOW_SHIFT)
        self.judge(clocks, agent)

    def judge(self, clocks: Clocks, agent: Agent) -> None:
        """Report the conflicts that the shadow has found."""
        if self._words[_SUSPECTS_WORD]:
            self.findings.judge(clocks, agent, self.shadow.suspects())
