"""Slots: numbered accesses of one agent, each two neighbouring columns of the clocks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.race.shadow.shadow_words import DIGESTS, AgentWord, BulkWord, PipeWord
from ptxlab.native import address_of

__all__ = ["BulkSlot", "CopySlot", "LaneSlot", "MainSlot", "PipeSlot", "Slot"]

_COPY_SLOT, _COPY_CLOCK, _COPY_GROUPS, _COPIED = map(
    int, (AgentWord.COPY_SLOT, AgentWord.COPY_CLOCK, AgentWord.COPY_GROUPS, AgentWord.COPIED)
)
_NAME, _CLOCK = int(PipeWord.NAME), int(PipeWord.CLOCK)
_BULK_NAME, _BULK_CLOCK, _BULK_OP = int(BulkWord.NAME), int(BulkWord.CLOCK), int(BulkWord.OP)
_GROUPS = 64
"""Groups of cp.async of a warp from which on those are forgotten that are complete."""


@dataclass(slots=True)
class Slot:
    """Numbered accesses of one agent: two neighbouring columns of the clocks; ``clock`` is the number of the newest.

    ``name`` is the slot's number among those of all clusters.
    """

    number: int
    name: int
    clock: int = 0
    op: Any = None
    """The instruction of the newest access."""
    groups: list[int] = field(default_factory=list)
    """The clock at each commit_group."""


class MainSlot(Slot):
    """What a warp accesses itself. The number of the newest access is the warp's own clock, which compiled code advances, too.

    Attributes
    ----------
    row : what is ordered before the warp's next instruction, by slot component
    """

    __slots__ = ("row",)
    row: Any

    def __init__(self, number: int, name: int) -> None:
        self.number, self.name = number, name

    @property
    def clock(self) -> int:  # type: ignore[override]
        """The number of the newest access."""
        clock: int = self.row[self.number]
        return clock


class PipeSlot(Slot):
    """A lane's operations on tensor memory. Compiled code knows the number of those that follow (`PipeWord`)."""

    __slots__ = ("_words",)

    def __init__(self, number: int, name: int, words: memoryview) -> None:
        self.number, self.name, self._words = number, name, words
        words[_NAME] = name

    @property
    def clock(self) -> int:
        """The number of the newest operation, and of those that follow."""
        return self._words[_CLOCK]

    @clock.setter
    def clock(self, clock: int) -> None:
        self._words[_CLOCK] = clock


class BulkSlot(Slot):
    """Bulk copies of a warp that mbarriers report. Compiled code numbers them, too (`BulkWord`).

    Attributes
    ----------
    address : host address of the words
    """

    __slots__ = ("_ops", "_words", "address")

    def __init__(self, number: int, name: int, words: NDArray[np.int64], ops: Sequence[Any]) -> None:
        self.number, self.name, self.groups = number, name, []
        self._words, self._ops, self.address = words.data, ops, address_of(words)
        self._words[_BULK_NAME] = name

    @property
    def clock(self) -> int:
        """The number of the newest copy."""
        return self._words[_BULK_CLOCK]

    @clock.setter
    def clock(self, clock: int) -> None:
        self._words[_BULK_CLOCK] = clock

    @property
    def op(self) -> Any:
        """The instruction of the newest copy that has been recorded."""
        return self._ops[self._words[_BULK_OP]]

    @op.setter
    def op(self, op: Any) -> None:
        self._words[_BULK_OP] = op.index


class LaneSlot(BulkSlot):
    """Bulk copies of one lane: those in groups, or the reads of those that complete on mbarriers. Compiled code notes the groups, too."""

    __slots__ = ("_ends", "_stores")

    def __init__(self, number: int, name: int, words: NDArray[np.int64], ops: Sequence[Any], ends: int, stores: bool) -> None:
        super().__init__(number, name, words, ops)
        self._ends: NDArray[np.int64] = np.zeros(ends, np.int64)
        self._stores: NDArray[np.uint64] = np.zeros((DIGESTS if stores else 0, 2), np.uint64)
        words[BulkWord.ENDS], words[BulkWord.ENDS_SIZE] = address_of(self._ends), ends
        words[BulkWord.STORES] = address_of(self._stores) if stores else 0

    def keep(self, digest: int) -> None:
        """Keep the digest of the newest copy."""
        self._stores[self.clock % DIGESTS] = self.clock, digest

    def digest(self, clock: int) -> int | None:
        """The digest of a copy, None if it is not kept."""
        number, digest = self._stores[clock % DIGESTS].tolist() if len(self._stores) else (None, 0)
        return digest if number == clock else None


class CopySlot(Slot):
    """The cp.async of a warp. Compiled code counts them, and their groups, in the words of the warp (`AgentWord`).

    Attributes
    ----------
    row : as that of `MainSlot`
    """

    __slots__ = ("_groups", "_noted", "_words", "row")

    def __init__(self, number: int, name: int, words: memoryview, row: Any) -> None:
        self.number, self.name = number, name
        self.row = row
        self._words, self._groups, self._noted = words, list[int](), 0
        words[_COPY_SLOT], words[_COPY_CLOCK] = name, 1

    @property
    def clock(self) -> int:  # type: ignore[override]
        """The number of the newest group, or of what else counts."""
        return self._words[_COPY_CLOCK] - 1

    @property
    def newest(self) -> int:
        """The number of the newest copy, in a group or not yet."""
        return self._words[_COPIED]

    @property
    def groups(self) -> list[int]:  # type: ignore[override]
        """The clock at each commit_group; of those that are complete, at least the newest."""
        groups, clock = self._groups, self.clock
        if self._noted < clock:
            groups += range(self._noted + 1, clock + 1)
            self._noted = clock
            if len(groups) > _GROUPS:
                del groups[: max(bisect_right(groups, self.row[self.number]) - 1, 0)]
        return groups

    def advance(self) -> None:
        """The copies that follow have the next number."""
        words, clock = self._words, self.clock + 1
        assert self.groups is self._groups, "those up to here are noted"
        words[_COPY_CLOCK], words[_COPY_GROUPS] = clock + 1, 0
        self._noted = clock

    def commit(self) -> None:
        """Commit a group: the copies that follow have the next number."""
        words = self._words
        words[_COPY_CLOCK] += 1
        words[_COPY_GROUPS] += 1
