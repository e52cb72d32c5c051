"""Products of operands of different kinds, which compiled code repeats: tensor copies have placed one, threads have written another.

Of an operand that threads have computed, nothing is known. One that `cp.async.bulk` has copied may have been arranged for the descriptor by
the host, so its layout is not compared. Compiled code asks whether each operand is still of its kind, and notes the operands of the last
product of an accumulator, whose numbers of rows must agree. Words that threads have copied are compared by the calls of
`ptxlab.check.operands.words.repeated.Repeated`, in addition.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import RepetitionCalls, RepetitionWord, is_unknown, library_of, moved_columns, note_column
from ptxlab.check.operands.compiled.cta_words import CtaWord, TakenWord, has_tile_between, words_of_pair
from ptxlab.check.operands.compiled.predecessors import Predecessors, is_known, words_of_predecessors
from ptxlab.check.operands.compiled.tiles import StandingTile, others_stand, words_of_tiles
from ptxlab.engine.word_sources import BYTES_APART, HALVES_SHIFT
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.native import address_of

__all__ = ["Kind", "KindOfOperand", "MixedProducts"]

_WORDS_OF_CHUNK = 4
_Operands = tuple[MatrixOperand, ...]


class Kind(IntEnum):
    """What is known of an operand in shared memory.

    Tensor copies have placed it (`IN_TILES`), threads have copied its words (`OF_WORDS`), bulk copies have brought it (`BROUGHT`), or it is
    not known from where its first word comes (`UNKNOWN`).
    """

    IN_TILES = 0
    OF_WORDS = 1
    BROUGHT = 2
    UNKNOWN = 3


class KindOfOperand(NamedTuple):
    """The kind of an operand, and the tiles in which it lies."""

    kind: Kind
    tiles: tuple[StandingTile, ...] = ()


class _ProductWord(IntEnum):
    """The words of a product, whose address is `RepetitionWord.IMAGES`.

    They are the number of its operands; the address of the table of those that may come before (`Predecessors`); 1 if it is known in this
    launch from where words come; 1 if threads may put words together of parts, so that elements are compared one by one; 1 if an operand is
    `Kind.OF_WORDS`; and how many operands there are (`_OperandWord`).
    """

    NUMBER = 0
    BEFORE = 1
    FOLLOWED = 2
    JOINED = 3
    OF_WORDS = 4
    COUNT = 5
    OPERANDS = 6


class _OperandWord(IntEnum):
    """The words of an operand: its `Kind`, its first chunk, its first byte and its end, and how many tiles it has, with their address."""

    KIND = 0
    CHUNK = 1
    START = 2
    STOP = 3
    TILES = 4
    TILE_WORDS = 5
    END = 6


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if the operands are of their kinds, and those of the last product agree (`RepetitionWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, product = words_of_pair(context, words.word(RepetitionWord.CTA)), words.pointer(RepetitionWord.IMAGES)
    last = cta.at(words.word(RepetitionWord.ACCUMULATOR))
    with code.when(is_unknown(words, cta, last) | words.pointer(RepetitionWord.RUNS).word(0).ne(0)):
        code.ret(1)
    with code.loop(product.word(_ProductWord.COUNT), entered=True) as i:
        operand = product.at((i * _OperandWord.END) << 3).at(8 * _ProductWord.OPERANDS)
        with code.when(_is_other(code, cta, operand, product.word(_ProductWord.FOLLOWED).ne(0))):
            code.ret(1)
        others = product.word(_ProductWord.JOINED).ne(0) & operand.word(_OperandWord.KIND).ne(Kind.OF_WORDS)
        with code.when(others), code.when(_has_joined_words(code, cta, operand)):
            code.ret(1)
    with code.when(words.word(RepetitionWord.ACCUMULATE).ne(0)):
        with code.when(product.word(_ProductWord.OF_WORDS).eq(0)):
            imaged = last.word(TakenWord.TILED) | last.word(TakenWord.NUMBER)
            known = is_known(code, product.pointer(_ProductWord.BEFORE), (last.word(TakenWord.OPERANDS),))
            with code.when(imaged.ne(0) | ~known):
                code.ret(1)
        with code.when(moved_columns(words, last)[1]):
            code.ret(1)
    code.ret(0)


def _is_other(code: native.Function, cta: native.Value, operand: native.Value, followed: native.Value) -> native.Value:
    """Whether an operand is not of its kind any more."""
    kind, chunk = operand.word(_OperandWord.KIND), operand.word(_OperandWord.CHUNK)
    in_tiles = kind.eq(Kind.IN_TILES)
    other = code.variable("i1", 0)
    with code.when(in_tiles) as otherwise:
        other.set(others_stand(code, cta, operand.pointer(_OperandWord.TILE_WORDS), operand.word(_OperandWord.TILES)))
        otherwise()
        other.set(has_tile_between(code, cta, operand.word(_OperandWord.START), operand.word(_OperandWord.STOP)))
    with code.when(followed):
        boxed = cta.pointer(CtaWord.BOXED).load("i8", chunk).ne(0)
        brought = cta.pointer(CtaWord.PREPARED).load("i8", chunk * _WORDS_OF_CHUNK).ne(0)
        source = cta.pointer(CtaWord.WORD_SOURCES).load("i64", chunk * _WORDS_OF_CHUNK)
        differs = kind.eq(Kind.BROUGHT).select(boxed | ~brought, kind.eq(Kind.UNKNOWN) & source.ne(0))
        other.set(other.get() | in_tiles.select(~boxed, differs))
    return other.get()


def _has_joined_words(code: native.Function, cta: native.Value, operand: native.Value) -> native.Value:
    """Whether parts of a word between the first byte of an operand and its end come from places that are no neighbours."""
    chunk = native.vector("i64", _WORDS_OF_CHUNK)
    sources, found = cta.pointer(CtaWord.WORD_SOURCES), code.variable(chunk, 0)
    start, end = (operand.word(word).operation("udiv", CHUNK) for word in (_OperandWord.START, _OperandWord.STOP))
    with code.loop(end, start=start, entered=True) as i:
        found.set(found.get() | sources.load(chunk, i * _WORDS_OF_CHUNK))
    every = found.get().reduce("or")
    return ((every & BYTES_APART) | (every >> HALVES_SHIFT)).ne(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: these operands become the last ones of the accumulator."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    cta, product = words_of_pair(context, words.word(RepetitionWord.CTA)), words.pointer(RepetitionWord.IMAGES)
    last = cta.at(words.word(RepetitionWord.ACCUMULATOR))
    last.set_words({TakenWord.IMAGES: 0, TakenWord.TILED: 0, TakenWord.OPERANDS: product.word(_ProductWord.NUMBER)})
    with code.when(product.word(_ProductWord.OF_WORDS).eq(0)):
        last.set_words({TakenWord.NUMBER: 0, TakenWord.FOUND: 0})
    note_column(code, words, last)
    code.ret(0)


@cache
def _library() -> native.Library:
    """``ask`` and ``note``, compiled or from the cache."""
    return library_of(_ask, _note)


class _NumberedOperands:
    """Operands of products, with a number."""

    __slots__ = ("_table", "before", "number", "operands")

    def __init__(self, operands: _Operands, number: int) -> None:
        self.operands, self.number = operands, number
        self._table: NDArray[np.int64] = np.zeros(words_of_predecessors(1), np.int64)
        self.before = Predecessors(self._table, 1)

    @property
    def address(self) -> int:
        """The address of the table of those that may come before."""
        return address_of(self._table)


class MixedProducts:
    """Those of a launch."""

    def __init__(self) -> None:
        self._numbers: dict[_Operands, int] = {}
        self._all: list[_NumberedOperands] = []
        self._calls: dict[Hashable, tuple[list[NDArray[np.int64]], RepetitionCalls]] = {}

    def number(self, operands: _Operands) -> int:
        """The number of operands, 0 if they have none."""
        return self._numbers.get(operands, 0)

    def of(self, number: int) -> _Operands:
        """The operands with a number."""
        return self._all[number - 1].operands

    def calls(
        self,
        operands: _Operands,
        kinds: Sequence[KindOfOperand],
        alike: Container[tuple[_Operands, _Operands]],
        *,
        followed: bool,
        joined: bool,
    ) -> RepetitionCalls:
        """The calls for a product of operands of these kinds.

        Operands that agree with them may come before: ``alike`` has pairs of which none has fewer rows.

        ``followed``: it is known from where words come; ``joined``: threads may put words together of parts.
        """
        numbered = self._numbered(operands, alike)
        about = numbered.number, followed, joined, *kinds
        found = self._calls.get(about)
        if found is None:
            tiles = [words_of_tiles(each.tiles).reshape(-1) for each in kinds]
            rows = []
            for operand, each, own in zip(operands, kinds, tiles, strict=True):
                rows += [each.kind, operand.chunks.item(0), *operand.placed.bounds, len(each.tiles), address_of(own)]
            of_words = any(each.kind is Kind.OF_WORDS for each in kinds)
            words = np.array([numbered.number, numbered.address, followed, joined, of_words, len(kinds), *rows], np.int64)
            calls = RepetitionCalls(address_of(words), _library().address("ask"), _library().address("note"))
            found = self._calls[about] = [words, *tiles], calls
        return found[1]

    def _numbered(self, operands: _Operands, alike: Container[tuple[_Operands, _Operands]]) -> _NumberedOperands:
        number = self._numbers.setdefault(operands, len(self._all) + 1)
        if number > len(self._all):
            self._all.append(_NumberedOperands(operands, number))
        found = self._all[number - 1]
        for each in self._all:
            if (each.operands, operands) in alike:
                found.before.add(each.number)
        return found
