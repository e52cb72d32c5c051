"""Notes of from where the words come that ops move to registers with rows of their own (`ptxlab.engine.program.MovedNote`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxlab.engine.context import NO_SOURCE
from ptxlab.engine.program import MovedNote, NotedHalf, NotedHalves
from ptxlab.engine.support.halves import lower_half, of_halves, upper_half
from ptxlab.isa.operands import Reg
from ptxlab.native.builder import Value

__all__ = ["Row", "emit_notes"]

Row = Callable[[int], Value]
"""Where some lanes of a row are."""


def emit_notes(notes: Sequence[MovedNote], row: Row, mask: Value, kind: str, predicate: Callable[[Reg], Value]) -> None:
    """Note in the lanes of ``mask`` what an op has moved; ``kind`` is the type of the sources of these lanes."""
    made = []
    for note in notes:
        source = _word(note.halves, row, mask, kind)
        if note.predicate is not None:
            source = predicate(note.predicate).select(source, _word(note.others, row, mask, kind))
        made.append(source)
    for note, source in zip(notes, made, strict=True):
        place = row(note.row)
        place.store(mask.select(source, place.load(kind, align=64)), align=64)


def _word(halves: NotedHalves, row: Row, mask: Value, kind: str) -> Value:
    """From where a word comes."""
    first = halves[0]
    if len(halves) == 1:
        return _half(first, row, mask, kind)
    if first is not None and (first.row < 0 or not first.upper) and halves[1] == first._replace(upper=first.row >= 0):
        return _noted(first, row, mask, kind)
    if None in halves:
        return mask.function.const(kind, 0)
    return of_halves(*(_half(half, row, mask, kind) for half in halves))


def _half(half: NotedHalf | None, row: Row, mask: Value, kind: str) -> Value:
    """From where a half comes."""
    if half is None:
        return mask.function.const(kind, 0)
    source = _noted(half, row, mask, kind)
    return source if half.row < 0 else upper_half(source) if half.upper else lower_half(source)


def _noted(half: NotedHalf, row: Row, mask: Value, kind: str) -> Value:
    """From where the word of a half comes."""
    if half.row < 0:
        return mask.function.const(kind, NO_SOURCE)
    source = row(half.row).load(kind, align=64)
    return source.ugt(NO_SOURCE).select(source + half.added, source) if half.added else source
