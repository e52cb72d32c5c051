"""The compiled functions that compare what an execution takes with images that are known up to their bases, and the words they share."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from ptxlab import native
from ptxlab.check.operands.compiled.calls import RepetitionWord, is_unknown, moved_columns, note_column
from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord, words_of_pair
from ptxlab.check.operands.compiled.predecessors import is_known, words_of_predecessors
from ptxlab.check.operands.words.images import WORD, form_of
from ptxlab.engine.context import Word
from ptxlab.isa.operations.tiles import CHUNK

__all__ = ["KNOWN", "OTHER", "STEP", "STEP_WORDS", "Functions", "ImagesWord", "functions_for"]

STEP_WORDS = 3
"""Words of an instruction that may come before (`ImagesWord`)."""


class ImagesWord(IntEnum):
    """The words of the table of an instruction's images: addresses of arrays, the number of operands, and the steps that are known.

    ``FIRST`` and ``LAST`` are the places of the first words of the first and of the last operand, without one that is kept. ``NUMBER`` is
    that of the instruction. From ``BEFORE`` on are those that may come before it (`Predecessors`): of each the number, and by how much the
    bases move from there. From ``AGREEING`` on are the numbers of those with which compiled code may compare it alone.
    """

    PLACES = 0
    MORE = 1
    ENDS = 2
    FORMS = 3
    OPERANDS = 4
    FIRST = 5
    LAST = 6
    NUMBER = 7
    BEFORE = 8
    AGREEING = BEFORE + words_of_predecessors(STEP_WORDS)
    END = AGREEING + words_of_predecessors(1)


KNOWN, STEP, OTHER = range(3)
"""How an instruction follows the one before: with a step that is known, with another one; or it takes something else (`Repeated`)."""


def _differs(module: native.Module, width: int, dense: bool) -> None:
    """``i64 differs(addresses, images)``: whether some addresses are not those of images; 0 if all are.

    ``images`` is a table (`ImagesWord`). ``width`` words are compared together. If they are ``dense``, they come from neighbouring words,
    and the table says only from where the first one comes.
    """
    code = native.Function(module, "differs", "i64", "ptr addresses, ptr images")
    addresses, images = code.parameters
    places, more, ends, forms = map(images.pointer, range(ImagesWord.OPERANDS))
    group = native.vector("i64", width) if width > 1 else "i64"
    first, found, others = code.variable("i64", 0), code.variable("i64", 0), code.variable(group, 0)
    within = code.constants("i64", range(0, width * WORD, WORD)).load(group) if dense else 0
    with code.loop(images.word(ImagesWord.OPERANDS), entered=True) as operand:
        end, base = ends.load("i64", operand), addresses.load("i64", places.load("i64", first.get()))
        found.set(found.get() | (form_of(base) ^ forms.load("i64", operand)))
        bases = (base.splat(width) if width > 1 else base) + within
        with code.loop(end, start=first.get(), entered=True) as i:
            away = more.load("i64", i).splat(width) if dense else more.load(group, i * width)
            others.set(others.get() | ((addresses.load(group, places.load("i64", i)) - bases) ^ away))
        first.set(end)
    code.ret(found.get() | (others.get().reduce("or") if width > 1 else others.get()))


def _bases(addresses: native.Value, images: native.Value) -> list[native.Value]:
    """The bases of the first and of the last operand."""
    return [addresses.load("i64", images.word(word)) for word in (ImagesWord.FIRST, ImagesWord.LAST)]


def _steps(code: native.Function, addresses: native.Value, images: native.Value, last: native.Value) -> native.Value:
    """Whether an instruction follows the last one with a step that is known."""
    first, end = _bases(addresses, images)
    steps = first - last.word(TakenWord.FIRST), end - last.word(TakenWord.LAST)
    return is_known(code, images.at(8 * ImagesWord.BEFORE), (last.word(TakenWord.NUMBER), *steps))


def _enter(addresses: native.Value, images: native.Value, last: native.Value) -> None:
    """Let what an instruction takes become the last one."""
    before = [last.word(word) for word in range(TakenWord.BEFORE)]
    last.set_words({TakenWord.BEFORE + word: value for word, value in enumerate(before)})
    last.set_words(dict(enumerate((images.word(ImagesWord.NUMBER), *_bases(addresses, images)))))


def _follows(module: native.Module) -> None:
    """``i64 follows(addresses, images, last)``: `KNOWN`, `STEP` or `OTHER`; unless it is `OTHER`, what is taken becomes the last one."""
    code = native.Function(module, "follows", "i64", "ptr addresses, ptr images, ptr last")
    addresses, images, last = code.parameters
    with code.when(code.call("differs", "i64", addresses, images).ne(0)):
        code.ret(OTHER)
    known = _steps(code, addresses, images, last)
    _enter(addresses, images, last)
    code.ret(known.select(code.const("i64", KNOWN), code.const("i64", STEP)))


def _memory(context: native.Value, words: native.Value) -> tuple[native.Value, native.Value, native.Value]:
    """The words of the CTA whose shared memory holds the images, those of its accumulator, and from where its words come."""
    cta = words_of_pair(context, words.word(RepetitionWord.CTA))
    return cta, cta.at(words.word(RepetitionWord.ACCUMULATOR)), cta.pointer(CtaWord.WORD_SOURCES)


def _ask(module: native.Module, name: str, among: bool) -> None:
    """``i64 ask(context, words, lane)``: 0 if an execution follows the one before with a step that is known (`RepetitionWord`).

    ``among`` other copies: bulk and tensor copies may have written shared memory, but not where the images are.
    """
    code = native.Function(module, name, "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    images = words.pointer(RepetitionWord.IMAGES)
    with code.when(context.pointer(Word.OPERANDS_TAKEN).eq(0) | images.word(ImagesWord.OPERANDS).eq(0)):
        code.ret(1)
    cta, last, addresses = _memory(context, words)
    otherwise = cta.word(CtaWord.OTHERWISE).ne(0)
    with code.when(is_unknown(words, cta, last) | (_brought(code, cta, images) if among else otherwise)):
        code.ret(1)
    runs = words.pointer(RepetitionWord.RUNS).word(0).ne(0)
    with code.when(runs & words.word(RepetitionWord.KEPT).ne(0)):
        code.ret(1)
    with code.when(words.word(RepetitionWord.ACCUMULATE).ne(0)):
        agrees = is_known(code, images.at(8 * ImagesWord.AGREEING), (last.word(TakenWord.NUMBER),))
        known = _steps(code, addresses, images, last) & agrees
        with code.when(~known | runs):
            code.ret(1)
        with code.when(moved_columns(words, last)[1]):
            code.ret(1)
    code.ret(code.call("differs", "i64", addresses, images))


def _brought(code: native.Function, cta: native.Value, images: native.Value) -> native.Value:
    """Whether bulk or tensor copies have written words of images."""
    places, ends = images.pointer(ImagesWord.PLACES), images.pointer(ImagesWord.ENDS)
    boxed, prepared = cta.pointer(CtaWord.BOXED), cta.pointer(CtaWord.PREPARED)
    found = code.variable("i8", 0)
    with code.loop(ends.load("i64", images.word(ImagesWord.OPERANDS) - 1), entered=True) as i:
        place = places.load("i64", i)
        found.set(found.get() | boxed.load("i8", place.operation("udiv", CHUNK // WORD)) | prepared.load("i8", place))
    return found.get().ne(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such an execution takes becomes the last one."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    _, last, addresses = _memory(context, words)
    _enter(addresses, words.pointer(RepetitionWord.IMAGES), last)
    note_column(code, words, last)
    code.ret(0)


def _ir(width: int, dense: bool) -> str:
    module = native.Module()
    _differs(module, width, dense)
    _follows(module)
    _ask(module, "ask", among=False)
    _ask(module, "ask_among", among=True)
    _note(module)
    return module.finish()


class Functions(NamedTuple):
    """The compiled functions: ``differs`` and ``follows`` to be called, and the addresses of the others."""

    differs: Any
    follows: Any
    ask: int
    ask_among: int
    note: int


@cache
def functions_for(width: int, dense: bool) -> Functions:
    """The functions, compiled or from the cache."""
    library = native.compile_ir(_ir(width, dense), Functions._fields, opt=1, light=True)
    differs, follows = (library.function(name, ctypes.c_int64, *[ctypes.c_void_p] * n) for name, n in (("differs", 2), ("follows", 3)))
    return Functions(differs, follows, *map(library.address, Functions._fields[2:]))
