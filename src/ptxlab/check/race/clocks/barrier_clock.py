"""The clock of a barrier of a CTA: what arrivals release."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ptxlab._records import dataclass
from ptxlab.check.race.clocks.clocks import Agent
from ptxlab.check.race.clocks.rows import Rows, join, joined
from ptxlab.engine.program import Program
from ptxlab.isa.effects import CtaBarrier

__all__ = ["BarrierClock", "parking"]


def parking(program: Program) -> frozenset[int]:
    """The instructions at which warps that arrive at a barrier of their CTA are blocked until it completes, and do nothing else."""
    barriers = ((op.index, op.effects) for op in program.ops if isinstance(op.effects, CtaBarrier))
    return frozenset(index for index, effects in barriers if effects.waits and not effects.reduces)


@dataclass(slots=True, eq=False)
class BarrierClock:
    """What arrivals have released in the current phase, and in the last complete one."""

    gathered: Rows | None = None
    done: Rows | None = None
    foreign: dict[int, Rows] = field(default_factory=dict)
    """By other clusters: what arrivals have released of them."""
    arrivals: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """By warp: the lanes that have arrived in the current phase without waiting, and the instruction."""
    parked: list[Agent] = field(default_factory=list)
    """The warps that have arrived and are blocked until it completes."""

    def take(self, rows: Rows) -> None:
        """Join the rows of an arriving agent."""
        known = self.gathered
        if known is None or known.shape[1] < rows.shape[1]:
            self.gathered = joined(known, rows)
        else:
            join(known, rows)

    def complete(self) -> None:
        """The phase is over."""
        self.done, self.gathered = self.gathered, None
        if self.arrivals:
            self.arrivals.clear()
