"""The clock of an mbarrier object, which compiled code shares: what arrivals release, and what uses of the object are kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.model import Component, Row
from ptxlab.check.race.clocks.slots import BulkSlot, PipeSlot, Slot
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.race.clocks.clocks import Agent
    from ptxlab.check.race.clocks.rows import Rows

__all__ = ["MbarrierClock", "MbarrierWord", "Use", "WarpWord", "late_waits_function"]


class MbarrierWord(IntEnum):
    """The words of an mbarrier object before those of the warps that use it."""

    DONE = 0
    """the address of the rows that the last complete phase has released; they are 0 before there is one"""
    DONE_WIDTH = 1
    """the clocks of each of these rows"""
    GATHERED = 2
    """the address of the rows that take what arrivals release in the current phase"""
    GATHERED_WIDTH = 3
    TAKEN = 4
    """1 if there has been an arrival in the current phase; else the rows have no meaning"""
    NOTED = 5
    """how many waits have been noted since the last phase was complete"""
    WARPS = 6
    PYTHON = 7
    """1 if Python handles all waits and arrivals"""
    INIT_SLOT = 8
    """the slot of the initialisation"""
    INIT_CLOCK = 9
    ARRIVED = 10
    """how many slots have arrived"""
    END = 11


class WarpWord(IntEnum):
    """The words of one warp, in the order of the warps of the cluster."""

    WAIT_CLOCK = 0
    """that of the warp after its last wait for the last complete phase; 0: it has not waited for it"""
    WAIT_HEAD = 1
    """the instruction | its lanes << 32"""
    WAIT_ORDER = 2
    """`MbarrierWord.NOTED` when it was noted"""
    CHECKED = 3
    """1 if the initialisation is known to be ordered before the uses of the warp"""
    ARRIVAL_CLOCK = 4
    """that of the warp at its last arrival; 0: it has not arrived"""
    ARRIVAL_OP = 5
    ARRIVAL_ORDER = 6
    """`MbarrierWord.ARRIVED` after its first arrival"""
    COMMIT_CLOCK = 7
    """the same for commits of one of its threads"""
    COMMIT_HEAD = 8
    """the instruction | the slot of the thread << 32; 0: no thread has committed"""
    COMMIT_ORDER = 9
    COPY_CLOCK = 10
    """the same for bulk copies that complete transaction bytes"""
    COPY_HEAD = 11
    COPY_ORDER = 12
    COPY_SLOT = 13
    """the address of the words of the slot (`BulkWord`); 0: Python handles the first copy"""
    END = 14


class Use(NamedTuple):
    """An initialisation of an mbarrier object or an arrival on it, as an access of a slot."""

    agent: Agent
    slot: int
    clock: int
    op: Any


make_use: Callable[[tuple[Agent, int, int, Any]], Use] = partial(tuple.__new__, Use)
"""A `Use` of its fields, without the call of a function in Python."""

_DONE, _DONE_WIDTH, _GATHERED, _GATHERED_WIDTH, _TAKEN, _NOTED, _PYTHON, _ARRIVED = (
    int(MbarrierWord[name]) for name in ("DONE", "DONE_WIDTH", "GATHERED", "GATHERED_WIDTH", "TAKEN", "NOTED", "PYTHON", "ARRIVED")
)
_EARLY = int(Component.EARLY)
_WARP_BYTES = 8 * WarpWord.END
_OP = 0xFFFF_FFFF


class MbarrierClock:
    """The clock of one mbarrier object: `MbarrierWord`, then `WarpWord` for each warp of the cluster.

    Attributes
    ----------
    words : one after the other
    address : their host address
    init : the initialisation
    users : a bit for each warp of the cluster that has been checked for a use before the initialisation
    foreign : by other clusters, what arrivals have released of them
    """

    __slots__ = ("_agents", "_late", "_ops", "_others", "_rows", "_table", "address", "foreign", "init", "users", "words")

    def __init__(self, agents: Sequence[Agent], ops: Sequence[Any], init: Use) -> None:
        self._agents, self._ops, self.init = agents, ops, init
        self._table: NDArray[np.uint64] = np.zeros((1 + len(agents), WarpWord.END), np.uint64)
        self.words = self._table.reshape(-1).data
        self.address = address_of(self._table)
        self.words[MbarrierWord.WARPS] = len(agents)
        self.words[MbarrierWord.INIT_SLOT], self.words[MbarrierWord.INIT_CLOCK] = init.slot, init.clock
        self._late = late_waits_function()
        self._rows: dict[int, Rows] = {}
        self.users = 0
        self.foreign: dict[int, Rows] = {}
        self._others: dict[int, tuple[int, Use]] = {}
        """By slot the last arrival of those that have no words, and `MbarrierWord.ARRIVED` after the first one."""
        for at in (_DONE, _GATHERED):
            self._keep(at, np.zeros_like(agents[0].shared))

    def _keep(self, at: int, rows: Rows) -> None:
        """Let a word hold the address of these rows, and the next one their width."""
        self._rows.pop(self.words[at], None)
        address = address_of(rows)
        self._rows[address], self.words[at], self.words[at + 1] = rows, address, rows.shape[1]

    def widen(self, width: int) -> None:
        """Widen the rows to so many clocks."""
        for at, rows in ((_DONE, self.done), (_GATHERED, self.gathered)):
            if rows.shape[1] < width:
                wide = np.zeros((len(rows), width), np.uint32)
                wide[:, : rows.shape[1]] = rows
                self._keep(at, wide)

    # -------------------------------------------------------------------------------------------------------------- phases

    @property
    def done(self) -> Rows:
        """What the last complete phase has released; these rows are used again in the phase after the next."""
        return self._rows[self.words[_DONE]]

    @property
    def gathered(self) -> Rows:
        """What arrivals have released in the current phase, if there has been one."""
        return self._rows[self.words[_GATHERED]]

    def take(self, rows: Rows) -> None:
        """Join the rows of an arriving agent."""
        words, known = self.words, self.gathered
        if not words[_TAKEN]:
            words[_TAKEN] = 1
            if known.shape == rows.shape:
                known[:] = rows
            else:
                self._keep(_GATHERED, rows.copy())
        elif known.shape[1] < rows.shape[1]:
            wide = rows.copy()
            np.maximum(wide[:, : known.shape[1]], known, out=wide[:, : known.shape[1]])
            self._keep(_GATHERED, wide)
        else:
            part = known[:, : rows.shape[1]]
            np.maximum(part, rows, out=part)

    def complete(self) -> None:
        """The phase is over."""
        words = self.words
        if not words[_TAKEN]:
            self.gathered[:] = 0
        words[_DONE], words[_DONE_WIDTH], words[_GATHERED], words[_GATHERED_WIDTH] = (
            words[_GATHERED],
            words[_GATHERED_WIDTH],
            words[_DONE],
            words[_DONE_WIDTH],
        )
        words[_TAKEN] = 0

    def leave_to_python(self) -> None:
        """Let Python handle all waits and arrivals from now on."""
        self.words[_PYTHON] = 1

    # ---------------------------------------------------------------------------------------------------------------- uses

    def check(self, initialised: NDArray[np.bool_]) -> None:
        """For these warps the initialisation is ordered before what they do from now on."""
        self._table[1:, WarpWord.CHECKED] = initialised

    def arrive(self, agent: Agent, slot: Slot, clock: int, op: Any) -> None:
        """Keep the last arrival of a slot."""
        number, words, at = slot.number, self.words, (1 + agent.index) * WarpWord.END
        if slot is agent.main:
            if not words[at + WarpWord.ARRIVAL_CLOCK]:
                words[_ARRIVED] = words[at + WarpWord.ARRIVAL_ORDER] = words[_ARRIVED] + 1
            words[at + WarpWord.ARRIVAL_CLOCK], words[at + WarpWord.ARRIVAL_OP] = clock, op.index
        elif type(slot) is PipeSlot and words[at + WarpWord.COMMIT_HEAD] >> 32 in (0, number):
            if not words[at + WarpWord.COMMIT_HEAD]:
                words[_ARRIVED] = words[at + WarpWord.COMMIT_ORDER] = words[_ARRIVED] + 1
            words[at + WarpWord.COMMIT_CLOCK], words[at + WarpWord.COMMIT_HEAD] = clock, op.index | number << 32
        elif type(slot) is BulkSlot:
            if not words[at + WarpWord.COPY_HEAD]:
                words[_ARRIVED] = words[at + WarpWord.COPY_ORDER] = words[_ARRIVED] + 1
            words[at + WarpWord.COPY_CLOCK], words[at + WarpWord.COPY_HEAD] = clock, op.index | number << 32
            words[at + WarpWord.COPY_SLOT] = slot.address
        else:
            known = self._others.get(number)
            if known is None:
                words[_ARRIVED] += 1
            self._others[number] = words[_ARRIVED] if known is None else known[0], make_use((agent, number, clock, op))
        words[at + WarpWord.CHECKED] = 1

    def expect_copies(self, agent: Agent, slot: BulkSlot) -> None:
        """Let compiled code handle the first bulk copy of a slot, too."""
        self.words[(1 + agent.index) * WarpWord.END + WarpWord.COPY_SLOT] = slot.address

    def arrivals(self) -> list[Use]:
        """The last arrival of each slot, in the order of their first ones."""
        found = dict(self._others.values())
        for agent, row in zip(self._agents, self._table[1:].tolist(), strict=True):
            clock, op = row[WarpWord.ARRIVAL_CLOCK], row[WarpWord.ARRIVAL_OP]
            if clock:
                found[row[WarpWord.ARRIVAL_ORDER]] = Use(agent, agent.main.number, clock, self._ops[op])
            for first in (WarpWord.COMMIT_CLOCK, WarpWord.COPY_CLOCK):
                clock, head, order = row[first : first + 3]
                if head:
                    found[order] = Use(agent, head >> 32, clock, self._ops[head & _OP])
        return [use for _, use in sorted(found.items())]

    def wait(self, agent: Agent, head: int, joins: bool) -> None:
        """Keep a wait until the next phase is complete. Lanes that execute it one after the other wait together if it ``joins``."""
        words, at = self.words, (1 + agent.index) * WarpWord.END
        words[at + WarpWord.CHECKED] = 1
        known = words[at + WarpWord.WAIT_HEAD]
        if not words[at + WarpWord.WAIT_CLOCK]:
            words[_NOTED] = words[at + WarpWord.WAIT_ORDER] = words[_NOTED] + 1
        elif joins and known & _OP == head & _OP and not known & head & ~_OP:
            words[at + WarpWord.WAIT_HEAD] |= head
            return
        words[at + WarpWord.WAIT_CLOCK], words[at + WarpWord.WAIT_HEAD] = agent.main.clock, head

    def discard(self, agent: Agent) -> None:
        """The wait of a warp is ordered before what follows."""
        self.words[(1 + agent.index) * WarpWord.END + WarpWord.WAIT_CLOCK] = 0

    def waits(self) -> list[Use]:
        """The waits for the last complete phase, in their order."""
        found = zip(self._agents, self._table[1:].tolist(), strict=True)
        in_order = sorted((row[WarpWord.WAIT_ORDER], agent.index, row) for agent, row in found if row[WarpWord.WAIT_CLOCK])
        return [
            Use(agent, agent.main.number + _EARLY, row[WarpWord.WAIT_CLOCK], self._ops[row[WarpWord.WAIT_HEAD] & _OP])
            for _, index, row in in_order
            for agent in (self._agents[index],)
        ]

    def take_late(self) -> list[Use]:
        """The next phase is complete: forget all waits, and return those that nothing orders before what it has gathered (`waits`)."""
        late: list[Use] = []
        words = self.words
        if words[_NOTED]:
            if not words[_TAKEN] or self._late(self.address):
                late = self.waits() if words[_TAKEN] else []
                self._table[1:, WarpWord.WAIT_CLOCK] = 0
            words[_NOTED] = 0
        return late


def _late_waits_ir() -> str:
    """``i64 late(about)``: forget the waits that are ordered before what arrivals have gathered; whether any is left."""
    code = native.Function(module := native.Module(), "late", "i64", "ptr about")
    (about,) = code.parameters
    gathered, width = about.pointer(MbarrierWord.GATHERED), about.word(MbarrierWord.GATHERED_WIDTH)
    late = code.variable("i64", 0)
    with code.loop(about.word(MbarrierWord.WARPS)) as warp:
        words = about.at((warp + 1) * _WARP_BYTES)
        clock = words.word(WarpWord.WAIT_CLOCK)
        with code.when(clock.ne(0)):
            column = (warp + 1) * len(Component) + Component.EARLY  # the slots before are those of the grid before and the other warps
            with code.when(column.ult(width)) as otherwise:
                done = gathered.load("i32", column).intrinsic("umax", gathered.load("i32", column + width * Row.TENSOR))
                is_late = done.to("i64").ult(clock)
                late.set(late.get() | is_late.to("i64"))
                words.set_word(WarpWord.WAIT_CLOCK, is_late.select(clock, 0))
                otherwise()
                late.set(1)
    code.ret(late.get())
    return module.finish()


@cache
def late_waits_function() -> Any:
    """The function that finds waits which the next phase does not follow, compiled or from the cache."""
    library = native.compile_ir(_late_waits_ir(), ["late"], opt=1, light=True)
    return library.function("late", ctypes.c_int64, ctypes.c_void_p)
