"""The clock of the barrier of a cluster: what arrivals release. Compiled code changes it, too."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.race.clocks.rows import Rows, join, joined
from ptxlab.native import address_of

__all__ = ["ClusterClock", "ClusterWord"]


class ClusterWord(IntEnum):
    """The words of it that compiled code shares."""

    GATHERED = 0
    DONE = 1
    """addresses of what arrivals have released in the current phase, and in the last complete one"""
    SEEN = 2
    """address of a row of clocks: what is done before relaxed arrivals; and of one for each CTA: what its warps have seen of the first"""
    SIZE = 3
    """the bytes of what arrivals have released"""
    END = 4


class ClusterClock:
    """What arrivals have released in the current phase, and in the last complete one.

    Parameters
    ----------
    rows : how many rows synchronisation objects carry
    ctas : how many CTAs the cluster has
    width : the width of the rows

    Attributes
    ----------
    foreign : by other clusters what arrivals have released of them
    address : of the words that compiled code shares (`ClusterWord`)

    Examples
    --------
    >>> clock = ClusterClock(1, 2, 16)
    >>> clock.take(np.full((1, 16), 3, np.uint32))
    >>> clock.complete()
    >>> clock.done[0, :2].tolist(), clock.gathered[0, :2].tolist()
    ([3, 3], [0, 0])
    """

    def __init__(self, rows: int, ctas: int, width: int) -> None:
        self.foreign: dict[int, Rows] = {}
        self._words: NDArray[np.int64] = np.zeros(ClusterWord.END, np.int64)
        self.address = address_of(self._words)
        self._place(np.zeros((2, rows, width), np.uint32), np.zeros((1 + ctas, width), np.uint32))

    def _place(self, rows: Rows, seen: Rows) -> None:
        self._rows, self._seen = rows, seen
        self._words[:] = address_of(rows[0]), address_of(rows[1]), address_of(seen), rows[0].nbytes

    def widen(self, width: int) -> None:
        """Make all rows wider."""
        rows, seen = (np.zeros((*old.shape[:-1], width), np.uint32) for old in (self._rows, self._seen))
        join(rows[0], self.gathered)
        join(rows[1], self.done)
        join(seen, self._seen)
        self._place(rows, seen)

    @property
    def gathered(self) -> Rows:
        """What arrivals have released in the current phase."""
        return self._rows_at(ClusterWord.GATHERED)

    @property
    def done(self) -> Rows:
        """What arrivals have released in the last complete phase."""
        return self._rows_at(ClusterWord.DONE)

    def _rows_at(self, word: ClusterWord) -> Rows:
        first: Rows
        first, second = self._rows
        return first if self._words[word] == address_of(first) else second

    def take(self, rows: Rows) -> None:
        """Join the rows of an arriving warp."""
        join(self.gathered, rows)

    def take_relaxed(self, execution: Rows) -> None:
        """Join what is done before a relaxed arrival: enough for a CTA to exit."""
        join(self._seen[0], execution)

    def complete(self) -> None:
        """The phase is over."""
        words = self._words
        words[ClusterWord.GATHERED], words[ClusterWord.DONE] = words[ClusterWord.DONE], words[ClusterWord.GATHERED]
        self.gathered[:] = 0

    def see_relaxed(self, rank: int) -> None:
        """A warp of a CTA passes: it has seen the relaxed arrivals."""
        join(self._seen[1 + rank], self._seen[0])

    def seen(self, rank: int, ordered: Rows) -> Rows:
        """A row, with what the warps of a CTA have seen of relaxed arrivals."""
        return joined(ordered, self._seen[1 + rank])

    def has_seen(self, slot: int, clock: int) -> bool:
        """Whether some CTA has seen relaxed arrivals that follow an access."""
        return bool((self._seen[1:, slot] >= clock).any())
