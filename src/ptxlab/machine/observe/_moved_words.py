"""From which loads a register may have what it holds, if moves have brought it there."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from ptxlab.engine.program import SOURCE_ROW, LoadedWord, NotedPart, leaves
from ptxlab.isa.native_ops import LaneAccess

if TYPE_CHECKING:
    from ptxlab.engine.program import Program

__all__ = ["MovedWords"]


class MovedWords:
    """Of one program."""

    def __init__(self, program: Program) -> None:
        loaded = program.loaded
        self._natives, self._loaded = program.natives, loaded
        self._sources: defaultdict[int, set[NotedPart | None]] = defaultdict(set)
        """By the row of a part of a register where it is noted from where it comes; None if it is computed."""
        for notes in loaded.moves.values():
            for note in notes:
                self._sources[note.row].update(leaves(note.source))
        self._rows = sorted({row: load for load, row in reversed(loaded.rows.items())}.items())
        self._begins = [row for row, _ in self._rows]

    def loads(self, word: LoadedWord) -> set[tuple[int, int]]:
        """The loads, each the first one of those that share a row, with the element that has been moved; nothing if it may be computed."""
        found: set[tuple[int, int]] = set()
        seen: set[int] = set()
        work = [*self._loaded.noted(word)]
        while work:
            part = work.pop()
            if part.row in self._sources:
                sources = self._sources[part.row] if part.row not in seen else set()
                seen.add(part.row)
                if None in sources:
                    return set()
                work += [source for source in sources if source is not None and source.row >= 0]
            else:
                begin, load = self._rows[bisect_right(self._begins, part.row) - 1]
                native = self._natives[load]
                bits = native.bits if isinstance(native, LaneAccess) else 32
                found.add((load, (part.row - begin) // SOURCE_ROW + part.added * 8 // bits))
        return found
