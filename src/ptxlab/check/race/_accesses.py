"""The ground of the observer: a warp's clocks, and accesses asked of the shadow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import TENSOR_SPACE, Component, Kind, Rules
from ptxlab.check.race.clocks.clocks import Agent, Clocks, Slot
from ptxlab.check.race.clocks.scopes import reach_of
from ptxlab.check.race.program.consumption import Consumption
from ptxlab.check.race.program.copy_sources import sources_change
from ptxlab.check.race.program.instruction_kinds import op_table
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Shadow
from ptxlab.check.race.shadow.shadow_ir import HOW_SHIFT, READS_TOO, StateWord
from ptxlab.isa.context import MemoryAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.observe.observer import Observer
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Accesses", "Rows"]

_ROWS_WORD, _WIDTH_WORD, _CLUSTER_WORD, _SLOT_WORD, _CLOCK_WORD = map(int, list(StateWord)[:5])
_SUSPECTS_WORD = int(StateWord.SUSPECT_COUNT)
_OF_WARPS = (Kind.LD, Kind.ST)
Rows = NDArray[np.uint32]


class Accesses(Observer):
    """See the module."""

    def __init__(self, launch: Launch, shadow: type[Shadow]) -> None:
        self.launch = launch
        self.rules = Rules(launch.model)
        self.sources = sources_change(launch)
        self.table = op_table(launch.program, reach_of(launch), self.sources)
        self.shadow = shadow(self.table, self.rules.table)
        self.consumption = Consumption(launch.program)
        self.findings = Findings(launch, self.shadow)
        self._loaded = 0
        self._accumulator: tuple[MemoryAccess, int, Kind] | None = None

    def _agent(self, warp: Warp) -> tuple[Clocks, Agent]:
        found: tuple[Clocks, Agent] = warp.state["race"]
        return found

    def _running(self) -> tuple[Warp, Clocks, Agent] | None:
        warp = self.launch.scheduler.current
        return None if warp is None else (warp, *self._agent(warp))

    def _load(self, clocks: Clocks, agent: Agent) -> None:
        """Make a warp the running agent of the compiled functions."""
        words = self.shadow.words
        if self._loaded != agent.address:
            self._loaded = agent.address
            words[_ROWS_WORD] = agent.address
            words[_WIDTH_WORD] = agent.rows.shape[1]
            words[_CLUSTER_WORD] = clocks.serial
            words[_SLOT_WORD] = agent.main.name
        words[_CLOCK_WORD] = agent.main.clock

    def _consume(self, clocks: Clocks, agent: Agent, index: int) -> None:
        """Learn which tcgen05.ld have had all their registers read when op ``index`` executes."""
        loads = agent.loads
        done = 0
        while done < len(loads) and self.consumption.consumed(loads[done][0], index):
            done += 1
        if done:
            clocks.know(agent, agent.slots[Kind.LD], Component.EARLY, loads[done - 1][1])
            del loads[:done]

    def _record_accesses(
        self, clocks: Clocks, agent: Agent, slot: Slot, kind: Kind, op: Op, accesses: Iterable[MemoryAccess], rows: Rows | None = None
    ) -> None:
        """Accesses of one operation, all by one slot; ``rows``: what is known at them, if not what the warp knows."""
        self._load(clocks, agent)
        shadow = self.shadow
        if rows is not None:
            shadow.words[_ROWS_WORD], shadow.words[_WIDTH_WORD] = address_of(rows), rows.shape[1]
            self._loaded = 0
        who, what = slot.name << 32 | slot.clock, op.index | kind << HOW_SHIFT + 1
        tensor = kind in TENSOR_SPACE
        for access in accesses:
            write = access.write
            if tensor and write:
                # An accumulator is written again and again with nothing in between.
                again = access, who, kind
                if again == self._accumulator:
                    continue
                self._accumulator = again
            elif tensor and kind in _OF_WARPS:
                self._accumulator = None
            shadow.access(access, who, what | (write | (READS_TOO if access.reads else 0)) << HOW_SHIFT)
        if shadow.words[_SUSPECTS_WORD]:
            self._judge(clocks, agent)

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """A service instruction's own accesses."""
        clocks, agent = self._agent(warp)
        self._record_accesses(clocks, agent, agent.main, Kind.GENERIC, warp.op, accesses)

    def _judge(self, clocks: Clocks, agent: Agent) -> None:
        if self.shadow.words[_SUSPECTS_WORD]:
            self.findings.judge(clocks, agent, self.shadow.suspects())
