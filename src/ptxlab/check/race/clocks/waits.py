"""The waits for the last complete phase of an mbarrier object, which compiled code notes and compares with the arrivals that follow."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.model import Component, Row
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.race.clocks.clocks import Agent, Rows

__all__ = ["MbarrierWord", "Noted", "WaitWord", "Waits", "late_waits_function"]


class MbarrierWord(IntEnum):
    """The words of an mbarrier object before those of the warps that wait for it."""

    DONE = 0
    """the address of the rows that the last complete phase has released; 0: Python handles waits"""
    WIDTH = 1
    """the clocks of each of these rows"""
    NOTED = 2
    """how many waits have been noted since the last phase was complete"""
    WARPS = 3
    END = 4


class WaitWord(IntEnum):
    """The words of one warp, in the order of the warps of the cluster."""

    CLOCK = 0
    """that of the warp after its wait; 0: it has not waited for the last complete phase"""
    HEAD = 1
    """the instruction | its lanes << 32"""
    CHECKED = 2
    """1 if the initialisation is known to be ordered before the waits of the warp"""
    ORDER = 3
    """`MbarrierWord.NOTED` when it was noted"""
    END = 4


_DONE, _WIDTH, _NOTED = map(int, (MbarrierWord.DONE, MbarrierWord.WIDTH, MbarrierWord.NOTED))
Noted: TypeAlias = "tuple[Agent, int, int]"
"""A wait: the warp, its clock, and the index of the instruction."""
_WARP_BYTES = 8 * WaitWord.END
_OP = 0xFFFF_FFFF


class Waits:
    """The waits of the warps of a cluster at one mbarrier object: `MbarrierWord`, then `WaitWord` for each warp.

    Attributes
    ----------
    words : one after the other
    address : their host address
    """

    __slots__ = ("_agents", "_late", "_table", "address", "words")

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._agents = agents
        self._table: NDArray[np.uint64] = np.zeros((1 + len(agents), WaitWord.END), np.uint64)
        self.words = self._table.reshape(-1).data
        self.address = address_of(self._table)
        self.words[MbarrierWord.WARPS] = len(agents)
        self._late = late_waits_function()

    def complete(self, done: Rows | None) -> None:
        """A phase is complete, which has released these rows; without rows, Python handles the waits for it."""
        words = self.words
        words[_DONE], words[_WIDTH] = (0, 0) if done is None else (address_of(done), done.shape[1])

    def check(self, initialised: NDArray[np.bool_]) -> None:
        """For these warps the initialisation is ordered before what they do from now on."""
        self._table[1:, WaitWord.CHECKED] = initialised

    def note(self, agent: Agent, head: int, joins: bool) -> None:
        """Keep a wait until the next phase is complete. Lanes that execute it one after the other wait together if it ``joins``."""
        words, at = self.words, (1 + agent.index) * WaitWord.END
        words[at + WaitWord.CHECKED] = 1
        known = words[at + WaitWord.HEAD]
        if not words[at + WaitWord.CLOCK]:
            words[_NOTED] = words[at + WaitWord.ORDER] = words[_NOTED] + 1
        elif joins and known & _OP == head & _OP and not known & head & ~_OP:
            words[at + WaitWord.HEAD] |= head
            return
        words[at + WaitWord.CLOCK], words[at + WaitWord.HEAD] = agent.main.clock, head

    def discard(self, agent: Agent) -> None:
        """The wait of a warp is ordered before what follows."""
        self.words[(1 + agent.index) * WaitWord.END] = 0

    def noted(self) -> list[Noted]:
        """The waits, in the order in which they were noted."""
        waits = zip(self._agents, self._table[1:].tolist(), strict=True)
        in_order = sorted((row[WaitWord.ORDER], agent.index, row) for agent, row in waits if row[WaitWord.CLOCK])
        return [(self._agents[index], row[WaitWord.CLOCK], row[WaitWord.HEAD] & _OP) for _, index, row in in_order]

    def take_late(self, gathered: Rows | None) -> list[Noted]:
        """The next phase is complete: forget all waits, and return those that nothing orders before what it has gathered (`noted`)."""
        late: list[Noted] = []
        if self.words[_NOTED]:
            if gathered is not None and self._late(self.address, address_of(gathered), gathered.shape[1]):
                late = self.noted()
            if late or gathered is None:
                self._table[1:, WaitWord.CLOCK] = 0
            self.words[_NOTED] = 0
        return late


def _late_waits_ir() -> str:
    """``i64 late(about, gathered, width)``: forget the waits that are ordered before what arrivals have gathered; whether any is left."""
    code = native.Function(module := native.Module(), "late", "i64", "ptr about, ptr gathered, i64 width")
    about, gathered, width = code.parameters
    late = code.variable("i64", 0)
    with code.loop(about.word(MbarrierWord.WARPS)) as warp:
        words = about.at((warp + 1) * _WARP_BYTES)
        clock = words.word(WaitWord.CLOCK)
        with code.when(clock.ne(0)):
            column = (warp + 1) * len(Component) + Component.EARLY  # the slots before are those of the grid before and the other warps
            with code.when(column.ult(width)) as otherwise:
                done = gathered.load("i32", column).intrinsic("umax", gathered.load("i32", column + width * Row.TENSOR))
                is_late = done.to("i64").ult(clock)
                late.set(late.get() | is_late.to("i64"))
                words.set_word(WaitWord.CLOCK, is_late.select(clock, 0))
                otherwise()
                late.set(1)
    code.ret(late.get())
    return module.text()


@cache
def late_waits_function() -> Any:
    """The function that finds waits which the next phase does not follow, compiled or from the cache."""
    library = native.compile_ir(_late_waits_ir(), ["late"], opt=1, light=True)
    return library.function("late", ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
