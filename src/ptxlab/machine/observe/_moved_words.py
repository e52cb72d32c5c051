"""From which loads a register may have what it holds, if moves have brought it there."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from ptxlab.engine.program import SOURCE_ROW, LoadedWord, NotedHalf
from ptxlab.isa.native_ops import LaneAccess

if TYPE_CHECKING:
    from ptxlab.engine.program import Program

__all__ = ["MovedWords"]


class MovedWords:
    """Of one program."""

    def __init__(self, program: Program) -> None:
        loaded = program.loaded
        self._natives, self._loaded = program.natives, loaded
        self._sources: defaultdict[int, set[NotedHalf | None]] = defaultdict(set)
        """By the row of a register where it is noted from where its halves come; None if one is computed."""
        for notes in loaded.moves.values():
            for note in notes:
                self._sources[note.row].update((*note.halves, *note.others))
        self._rows = sorted({row: load for load, row in reversed(loaded.rows.items())}.items())
        self._begins = [row for row, _ in self._rows]

    def loads(self, word: LoadedWord) -> set[tuple[int, int]]:
        """The loads, each the first one of those that share a row, with the element that has been moved; nothing if it may be computed."""
        found: set[tuple[int, int]] = set()
        seen: set[int] = set()
        work = [NotedHalf(*self._loaded.noted(word), False)]
        while work:
            half = work.pop()
            if half.row in self._sources:
                sources = self._sources[half.row] if half.row not in seen else set()
                seen.add(half.row)
                if None in sources:
                    return set()
                work += [source for source in sources if source is not None and source.row >= 0]
            else:
                begin, load = self._rows[bisect_right(self._begins, half.row) - 1]
                native = self._natives[load]
                bits = native.bits if isinstance(native, LaneAccess) else 32
                found.add((load, (half.row - begin) // SOURCE_ROW + half.added * 8 // bits))
        return found
