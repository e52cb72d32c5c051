"""The clock of a barrier: what arrivals release, and what uses of it are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

from ptxlab._records import dataclass
from ptxlab.check.race.clocks.clocks import Agent, Rows, join, joined
from ptxlab.check.race.clocks.waits import Waits

__all__ = ["BarrierClock", "Use", "make_use"]


class Use(NamedTuple):
    """An initialisation of an mbarrier object or an arrival on it, as an access of a slot."""

    agent: Agent
    slot: int
    clock: int
    op: Any


make_use: Callable[[tuple[Agent, int, int, Any]], Use] = partial(tuple.__new__, Use)
"""A `Use` of its fields, without the call of a function in Python: there is one for each wait."""


@dataclass(slots=True, eq=False)
class BarrierClock:
    """The clock of a barrier: what arrivals have released in the current phase, and in the last complete one."""

    gathered: Rows | None = None
    shared: bool = False
    """Whether ``gathered`` are the rows of an operation, which may arrive at other barriers, too."""
    done: Rows | None = None
    foreign: dict[int, Rows] = field(default_factory=dict)
    """By other clusters: what arrivals have released of them."""
    init: Use | None = None
    """The initialisation of the mbarrier object."""
    users: int = 0
    """A bit for each warp of the cluster that has been checked for a use before the initialisation."""
    uses: dict[int, Use] = field(default_factory=dict)
    """Of an mbarrier object, by slot: the last arrival."""
    waits: Waits | None = None
    """Of an mbarrier object: the last wait of each warp for the last complete phase."""
    arrivals: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """Of a CTA's barrier, by warp: the lanes that have arrived in the current phase without waiting, and the instruction."""
    parked: list[Agent] = field(default_factory=list)
    """Of a CTA's barrier: the warps that have arrived and are blocked until it completes."""
    relaxed: Rows | None = None
    """What is done before relaxed arrivals at the cluster barrier: enough for a CTA to exit."""

    def take(self, rows: Rows, shared: bool = False) -> None:
        """Join the rows of an arriving agent; ``shared`` are rows that nobody changes any more."""
        known = self.gathered
        if known is None:
            self.gathered, self.shared = (rows if shared else rows.copy()), shared
        elif self.shared or known.shape[1] < rows.shape[1]:
            self.gathered, self.shared = joined(known, rows), False
        else:
            join(known, rows)

    def complete(self) -> None:
        """The phase is over."""
        self.done, self.gathered = self.gathered, None
        if self.waits is not None:
            self.waits.complete(None if self.foreign else self.done)
        if self.arrivals:
            self.arrivals.clear()
