"""The operations of a warpgroup, which compiled code shares: which of its warps have executed their shares, and the groups of each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.model import Row
from ptxlab.check.race.clocks.slots import BulkSlot, Slot
from ptxlab.check.race.shadow.shadow_words import AgentWord, BulkWord
from ptxlab.isa.effects import Completion
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.race.clocks.clocks import Agent, Clocks

__all__ = ["WARPS", "WarpgroupClock", "WarpgroupWord"]

WARPS = 4
"""Of a warpgroup."""
_PLACES = 8


class WarpgroupWord(IntEnum):
    """The words of a warpgroup, after those of the slot of its operations (`BulkWord`)."""

    WIDTH = BulkWord.END
    """the clocks of each row in ``JOINED``"""
    JOINED = WIDTH + 1
    """address of uint32[place, row, slot component]: what is ordered before an operation, as far as warps have executed their shares"""
    TAGS = WIDTH + 2
    """address of an int64 for each place: the number of the operation whose rows are there, 0 if there are none"""
    PLACES = WIDTH + 3
    """how many there are, a power of two; an operation has the place that the lowest bits of its number say"""
    NUMBERS = WIDTH + 4
    """address of an int64 for each place: the numbers of operations for which a warp may wait, of which `REACHED` is kept"""
    REACHED = WIDTH + 5
    """address of uint32[place, warp of the cluster]: the early clocks that are ordered before such an operation"""
    FIRST = WIDTH + 6
    LAST = WIDTH + 7
    """the position of the oldest of them, and the position behind the newest; they never decrease"""
    CLUSTER_WARPS = WIDTH + 8
    ENDS = WIDTH + 9
    """address of a ring of int64 for each warp: of each group that it has committed, the number of the last operation"""
    ENDS_SIZE = WIDTH + 10
    """of a ring, a power of two: no wait leaves as many groups pending"""
    EXECUTED = WIDTH + 11
    """for each warp, how many shares it has executed"""
    COMMITTED = EXECUTED + WARPS
    """for each warp, how many groups it has committed"""
    END = COMMITTED + WARPS


_WIDTH, _PLACES_WORD, _FIRST, _LAST = (
    int(word) for word in (WarpgroupWord.WIDTH, WarpgroupWord.PLACES, WarpgroupWord.FIRST, WarpgroupWord.LAST)
)


class WarpgroupClock:
    """The operations of one warpgroup.

    Attributes
    ----------
    slot : what numbers them
    address : host address of the words (`WarpgroupWord`)
    """

    __slots__ = ("_array", "_joined", "_numbers", "_reached", "_tags", "_words", "address", "slot")

    @classmethod
    def of(cls, clocks: Clocks, agent: Agent, ends: int, ops: Sequence[Any]) -> WarpgroupClock:
        """That of a warp's warpgroup, made on first use; ``ends`` as `WarpgroupWord.ENDS_SIZE`."""
        rank, index = agent.index // clocks.warps, agent.warp // WARPS
        found = clocks.warpgroups.get((rank, index))
        if found is None:
            first = rank * clocks.warps + index * WARPS
            slot = clocks.slot(clocks.agents[first], Completion.WGMMA_GROUP)
            found = clocks.warpgroups[rank, index] = cls(slot, len(clocks.agents), ends, ops)
            for each in clocks.agents[first : first + WARPS]:
                each.words[AgentWord.WARPGROUP] = found.address
        return found

    def __init__(self, slot: Slot, warps: int, ends: int, ops: Sequence[Any]) -> None:
        self._array: NDArray[np.int64] = np.zeros(WarpgroupWord.END + WARPS * ends, np.int64)
        self._words, self.address = self._array.data, address_of(self._array)
        self.slot = BulkSlot(slot.number, slot.name, self._array[: BulkWord.END], ops)
        words = self._words
        words[WarpgroupWord.CLUSTER_WARPS], words[WarpgroupWord.ENDS_SIZE] = warps, ends
        words[WarpgroupWord.ENDS] = self.address + 8 * WarpgroupWord.END
        self._joined: NDArray[np.uint32] = np.zeros((_PLACES, len(Row), 0), np.uint32)
        self._tags: NDArray[np.int64] = np.zeros(_PLACES, np.int64)
        self._numbers: NDArray[np.int64] = np.zeros(_PLACES, np.int64)
        self._reached: NDArray[np.uint32] = np.zeros((_PLACES, warps), np.uint32)
        self._share()

    def _share(self) -> None:
        """Tell compiled code where the arrays are."""
        words = self._words
        words[_WIDTH], words[_PLACES_WORD] = self._joined.shape[2], len(self._tags)
        for word, array in (
            (WarpgroupWord.JOINED, self._joined),
            (WarpgroupWord.TAGS, self._tags),
            (WarpgroupWord.NUMBERS, self._numbers),
            (WarpgroupWord.REACHED, self._reached),
        ):
            words[word] = address_of(array)

    def enlarge(self, width: int) -> None:
        """Widen the rows to so many clocks; if they have as many, double the number of places."""
        old_width, old = self._words[_WIDTH], len(self._tags)
        places = old if width != old_width else 2 * old
        joined, tags = np.zeros((places, len(Row), width), np.uint32), np.zeros(places, np.int64)
        used = self._tags != 0
        at = self._tags[used] % places
        joined[at, :, :old_width], tags[at] = self._joined[used], self._tags[used]
        numbers, reached = np.zeros(places, np.int64), np.zeros((places, self._reached.shape[1]), np.uint32)
        kept = np.arange(self._words[_FIRST], self._words[_LAST])
        numbers[kept % places], reached[kept % places] = self._numbers[kept % old], self._reached[kept % old]
        self._joined, self._tags, self._numbers, self._reached = joined, tags, numbers, reached
        self._share()

    def newest(self) -> NDArray[np.uint32]:
        """A copy of what is ordered before the newest operation: uint32[row, slot component]."""
        found: NDArray[np.uint32] = self._joined[self.slot.clock % len(self._tags)].copy()
        return found
