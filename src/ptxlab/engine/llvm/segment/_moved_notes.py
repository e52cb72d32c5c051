"""Notes of from where the parts come that ops move to registers with rows of their own (`ptxlab.engine.program.MovedNote`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxlab.engine.program import Chosen, Joined, MovedNote, NotedTree
from ptxlab.engine.support.word_parts import joined, part_at
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operands import Reg
from ptxlab.native.builder import Value

__all__ = ["Row", "emit_notes"]

Row = Callable[[int], Value]
"""Where some lanes of a row are."""


def emit_notes(notes: Sequence[MovedNote], row: Row, mask: Value, kind: str, predicate: Callable[[Reg], Value]) -> None:
    """Note in the lanes of ``mask`` what an op has moved; ``kind`` is the type of the sources of these lanes."""

    def emit(source: NotedTree, unit: int) -> Value:
        match source:
            case None:
                return mask.function.const(kind, 0)
            case Chosen(condition, a, b):
                return predicate(condition).select(emit(a, unit), emit(b, unit))
            case Joined(a, b):
                return joined(emit(a, unit), emit(b, unit))
        if source.row < 0:
            return mask.function.const(kind, NO_SOURCE)
        noted = row(source.row).load(kind, align=64)
        if source.added:
            noted = noted.ugt(NO_SOURCE).select(noted + source.added, noted)
        return part_at(noted, source.byte, unit)

    made = [emit(note.source, note.unit) for note in notes]
    for note, source in zip(notes, made, strict=True):
        place = row(note.row)
        place.store(mask.select(source, place.load(kind, align=64)), align=64)
