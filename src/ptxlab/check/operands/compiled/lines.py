"""Bulk copies of contiguous bytes to shared memory that compiled code repeats: for the operand check it records the source of each word."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import CtaWord, has_tile_between, words_of_cta
from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import CopyWord, each_receiver
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.machine.observe.observer import ObservedRepetition

if TYPE_CHECKING:
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["repeated_line"]

_WORD, _SOURCE = 4, 8
"""Bytes of a word of shared memory, and of its source."""


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, copy)``: 0 if the destination overlaps no tile, in each CTA."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, ptr copy")
    context, _, copy = code.parameters
    for each in each_receiver(code, copy):
        cta, start = words_of_cta(context, each.word(CopyWord.RANK)), each.word(CopyWord.OFFSET)
        with code.when(has_tile_between(code, cta, start, start + each.word(CopyWord.SIZE))):
            code.ret(1)
    code.ret(0)


def _note(module: native.Module, name: str, between: bool) -> None:
    """``i64 note(context, words, copy)``: record the sources of the words. ``between``: those of the shared memory that is read."""
    code = native.Function(module, name, "i64", "ptr context, ptr words, ptr copy")
    context, _, copy = code.parameters
    address, size = copy.word(CopyWord.ADDRESS), copy.word(CopyWord.SIZE)
    origin = words_of_cta(context, context.word(Word.SHARED_RANK) >> SHARED_RANK_SHIFT)
    for each in each_receiver(code, copy):
        cta, offset = words_of_cta(context, each.word(CopyWord.RANK)), each.word(CopyWord.OFFSET)
        cta.set_word(CtaWord.OTHERWISE, 1)
        boxed = cta.pointer(CtaWord.BOXED).at(offset.operation("udiv", CHUNK))
        with code.loop(size.operation("udiv", CHUNK)) as i:
            boxed.store(code.const("i8", 0), i)
        sources, prepared = (_at(cta, word, bytes_, offset) for word, bytes_ in ((CtaWord.WORD_SOURCES, _SOURCE), (CtaWord.PREPARED, 1)))
        if not between:
            with code.loop(size.operation("udiv", _WORD)) as i:
                sources.store(address + i * _WORD, i)
                prepared.store(code.const("i8", 1), i)
            continue
        known, arranged = (_at(origin, word, bytes_, address) for word, bytes_ in ((CtaWord.WORD_SOURCES, _SOURCE), (CtaWord.PREPARED, 1)))
        with code.loop(size.operation("udiv", _WORD)) as i:
            sources.store(known.load("i64", i), i)
            prepared.store(arranged.load("i8", i), i)
        with code.when(cta.word(CtaWord.BYTE_SOURCES).ne(0)):
            parts, known = (_at(each, CtaWord.BYTE_SOURCES, _WORD * _SOURCE, place) for each, place in ((cta, offset), (origin, address)))
            with code.loop(size) as i:
                parts.store(known.load("i64", i), i)
    code.ret(0)


def _at(cta: native.Value, word: CtaWord, size: int, offset: native.Value) -> native.Value:
    """The entry for an offset in shared memory, in a table with ``size`` bytes for each word."""
    return cta.pointer(word).at(offset.operation("udiv", _WORD) * size)


@cache
def _library() -> native.Library:
    """``ask``, ``note`` and ``note_between``, compiled or from the cache."""
    note, note_between = partial(_note, name="note", between=False), partial(_note, name="note_between", between=True)
    return library_of(_ask, note, note_between, exports=("ask", "note", "note_between"))


def repeated_line(operation: AsyncOperation) -> ObservedRepetition | None:
    """How compiled code records the sources of such copies; None if an operation writes other words."""
    found = [] if operation.bytes_copied is None else list(operation.bytes_copied())
    if not found or any(each.address is None and each.origin is None for each in found):
        return None
    note = "note" if found[0].origin is None else "note_between"
    return ObservedRepetition(ask=((_library().address("ask"), 0),), note=((_library().address(note), 0),))
