"""Matrices in registers or in tensor memory, beside a B in shared memory: compiled code repeats products of those that are known.

It compares from where their words come, and how these move from the product before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from enum import IntEnum
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab.check.operands.compiled.calls import library_of
from ptxlab.check.operands.compiled.cta_words import CtaWord, MatricesWord, matrices_at, words_of_pair
from ptxlab.check.operands.compiled.predecessors import Predecessors, is_known, words_of_predecessors
from ptxlab.check.operands.words.images import form_of
from ptxlab.engine.context import Word
from ptxlab.engine.repetitions import Call
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.warpgroup_words import WARPS, Base, GroupWord
from ptxlab.native import address_of

__all__ = ["IN_FRAMES", "IN_SHARED_MEMORY", "IN_TENSOR_MEMORY", "MOST_ADDED", "KnownPart", "RepeatedMatrices"]

IN_SHARED_MEMORY, IN_TENSOR_MEMORY, IN_FRAMES = range(3)
"""Of what the sources are noted: of the words of shared memory, of the cells of tensor memory, of registers of the first warp of a group.

The numbers of its other warps follow.
"""
MOST_ADDED = 256
"""No array lies at such low addresses; the words of a load are no more bytes apart."""
_MOST_PARTS = WARPS + 2
_MOST_BASES = 2
_NUMBERS = count(1)
"""Of repeated matrices, of all launches."""
_WIDTH = 3
"""Words of a predecessor (`_ImagesWord`)."""


class _ImagesWord(IntEnum):
    """The words of the matrices of a product: their number; and those of their parts (`_PartWord`), of which there are ``COUNT``.

    ``BOTH`` is 1 if the images of A and of B are known. From ``BEFORE`` on are the matrices of products that may come before
    (`Predecessors`): of each the number, and by how much the bases of A and B move from there.
    """

    NUMBER = 0
    BOTH = 1
    COUNT = 2
    BEFORE = 3
    PARTS = BEFORE + words_of_predecessors(_WIDTH)


class _PartWord(IntEnum):
    """The words of a part of a matrix: where its sources are, the addresses of their places and of their distances from the base.

    ``COUNT`` is how many there are, ``BEGINS`` 1 if it is the first part of a matrix. That has ``FORM``, the form of the base, and
    ``ADDED``, what is added to it. ``UNKNOWN`` is 1 if no source of the matrix is known.
    """

    WHERE = 0
    PLACES = 1
    AWAY = 2
    COUNT = 3
    BEGINS = 4
    FORM = 5
    ADDED = 6
    UNKNOWN = 7
    END = 8


class _CallWord(IntEnum):
    """The words of a call: the address of those of the matrices, the number of the accumulator, and 1 if the product is added to D.

    ``CTA`` is -1 if the matrices are in the CTA that executes the instruction, else the number of the CTA in its pair.
    """

    IMAGES = 0
    ACCUMULATOR = 1
    ACCUMULATE = 2
    CTA = 3


class KnownPart(NamedTuple):
    """A part of a matrix: where its sources are, their places, and what they were; ``added`` is added to the base if it ``begins`` one."""

    where: int
    places: NDArray[np.intp]
    sources: NDArray[np.int64]
    begins: bool
    added: int


def _each_part(code: native.Function, images: native.Value) -> Any:
    """A loop over the parts; yields their numbers."""
    return code.loop(images.word(_ImagesWord.COUNT), entered=True)


def _part(images: native.Value, number: native.Value) -> native.Value:
    return images.at((number * _PartWord.END + _ImagesWord.PARTS) << 3)


def _differs(module: native.Module) -> None:
    """``i64 differs(sources, images, bases)``: whether the words come from elsewhere, other than moved with the base of their matrix.

    ``sources`` are the addresses of those of each part. The bases of the matrices are written.
    """
    code = native.Function(module, "differs", "i64", "ptr sources, ptr images, ptr bases")
    sources, images, bases = code.parameters
    found, base, number = code.variable("i64", 0), code.variable("i64", 0), code.variable("i64", 0)
    with _each_part(code, images) as i:
        part, noted = _part(images, i), sources.load("ptr", i)
        places, away = part.pointer(_PartWord.PLACES), part.pointer(_PartWord.AWAY)
        with code.when(part.word(_PartWord.BEGINS).ne(0)):
            first = noted.load("i64", places.load("i64"))
            base.set(first)
            known, is_unknown = first.gt(NO_SOURCE + MOST_ADDED), first.eq(0)
            other = part.word(_PartWord.UNKNOWN).ne(0).select(is_unknown, known).eq(0).to("i64")
            found.set(found.get() | (form_of(first) ^ part.word(_PartWord.FORM)) | other)
            bases.store(first + part.word(_PartWord.ADDED), number.get())
            number.set(number.get() + 1)
        with code.loop(part.word(_PartWord.COUNT), entered=True) as word:
            source = noted.load("i64", places.load("i64", word))
            found.set(found.get() | ((source - base.get()) ^ away.load("i64", word)))
    code.ret(found.get())


def _read(module: native.Module) -> None:
    """``i64 read(context, words, bases)``: the same for the matrices of a call (`_CallWord`)."""
    code = native.Function(module, "read", "i64", "ptr context, ptr words, ptr bases", internal=True)
    context, words, bases = code.parameters
    images, cta = words.pointer(_CallWord.IMAGES), words_of_pair(context, words.word(_CallWord.CTA))
    sources, place = code.stack(f"[{_MOST_PARTS} x ptr]"), code.variable("ptr")
    with _each_part(code, images) as i:
        where = _part(images, i).word(_PartWord.WHERE)
        with code.when(where.ult(IN_FRAMES)) as otherwise:
            in_cells = where.eq(IN_TENSOR_MEMORY)
            place.set(in_cells.select(cta.pointer(CtaWord.CELL_SOURCES), cta.pointer(CtaWord.WORD_SOURCES)))
            otherwise()
            frames = context.pointer(Word.WARPGROUP).at(8 * (GroupWord.BASES + Base.FRAMES))
            place.set(frames.load("ptr", where - IN_FRAMES))
        sources.store(place.get(), i)
    code.ret(code.call("differs", "i64", sources, images, bases))


def _last(context: native.Value, words: native.Value) -> native.Value:
    """The words of the last product of an accumulator."""
    return matrices_at(words_of_pair(context, words.word(_CallWord.CTA)), words.word(_CallWord.ACCUMULATOR))


def _ask(module: native.Module) -> None:
    """``i64 ask(context, words, lane)``: 0 if there is nothing to say of an execution (`_CallWord`)."""
    code = native.Function(module, "ask", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    images, last, bases = words.pointer(_CallWord.IMAGES), _last(context, words), code.stack(f"[{_MOST_BASES} x i64]")
    with code.when(code.call("read", "i64", context, words, bases).ne(0)):
        code.ret(1)
    with code.when(words.word(_CallWord.ACCUMULATE).ne(0) & images.word(_ImagesWord.BOTH).ne(0)):
        before = last.word(MatricesWord.NUMBER)
        steps = bases.word(0) - last.word(MatricesWord.FIRST), bases.word(1) - last.word(MatricesWord.LAST)
        with code.when(before.ne(0) & ~is_known(code, images.at(8 * _ImagesWord.BEFORE), (before, *steps))):
            code.ret(1)
    code.ret(0)


def _note(module: native.Module) -> None:
    """``i64 note(context, words, lane)``: what such an execution takes becomes the last one."""
    code = native.Function(module, "note", "i64", "ptr context, ptr words, i64 lane")
    context, words, _ = code.parameters
    images, last, bases = words.pointer(_CallWord.IMAGES), _last(context, words), code.stack(f"[{_MOST_BASES} x i64]")
    with code.when(images.word(_ImagesWord.BOTH).ne(0)) as otherwise:
        code.call("read", "i64", context, words, bases)
        entered = images.word(_ImagesWord.NUMBER), bases.word(0), bases.word(1)
        last.set_words(dict(zip((MatricesWord.NUMBER, MatricesWord.FIRST, MatricesWord.LAST), entered, strict=True)))
        otherwise()
        with code.when(words.word(_CallWord.ACCUMULATE).ne(0)):
            last.set_word(MatricesWord.NUMBER, 0)
    code.ret(0)


@cache
def _functions() -> tuple[Any, int, int]:
    """``differs``, compiled or from the cache, and the addresses of ``ask`` and ``note``."""
    library = library_of(_differs, _read, _ask, _note, exports=("differs", "ask", "note"))
    return library.function("differs", ctypes.c_int64, *[ctypes.c_void_p] * 3), library.address("ask"), library.address("note")


class RepeatedMatrices:
    """The matrices of a product: whether another execution takes them, moved in global memory. Of each all sources are known, or none.

    Parameters
    ----------
    parts : of A before those of B, of each matrix one or one for each warp
    both : whether the images of A and of B are known

    Attributes
    ----------
    number : their number
    """

    __slots__ = ("_address", "_before", "_calls", "_keep", "_matrices", "number")

    def __init__(self, parts: Sequence[KnownPart], both: bool) -> None:
        words = np.zeros(_ImagesWord.PARTS + len(parts) * _PartWord.END, np.int64)
        self._keep = [words]
        self._address, self.number = address_of(words), next(_NUMBERS)
        self._before = Predecessors(words[_ImagesWord.BEFORE : _ImagesWord.PARTS], _WIDTH)
        self._matrices = sum(part.begins for part in parts)
        words[_ImagesWord.NUMBER], words[_ImagesWord.BOTH], words[_ImagesWord.COUNT] = self.number, both, len(parts)
        base = 0
        for own, part in zip(words[_ImagesWord.PARTS :].reshape(-1, _PartWord.END), parts, strict=True):
            base = part.sources.item(0) if part.begins else base
            places, away = part.places.astype(np.int64), part.sources - base
            self._keep += places, away
            first = part.begins, form_of(base), part.added, base == 0
            own[:] = part.where, address_of(places), address_of(away), len(places), *first
        self._calls: dict[Hashable, tuple[NDArray[np.int64], Call, Call]] = {}

    def bases(self, sources: Sequence[int]) -> tuple[int, ...] | None:
        """Where the matrices begin, if another execution takes them; ``sources`` are the host addresses of those of each part."""
        given, bases = np.array(sources, np.int64), np.zeros(_MOST_BASES, np.int64)
        if _functions()[0](address_of(given), self._address, address_of(bases)):
            return None
        return tuple(bases[: self._matrices].tolist())

    def expect(self, before: int, steps: tuple[int, int]) -> None:
        """The product may follow that of matrices with a number, with such steps of the bases."""
        self._before.add(before, *steps)

    def calls(self, accumulator: int, accumulate: bool, cta: int = -1) -> tuple[Call, Call]:
        """The calls of ``ask`` and ``note`` for an accumulator (`_CallWord`)."""
        found = self._calls.get((accumulator, accumulate, cta))
        if found is None:
            words = np.array([self._address, accumulator, accumulate, cta], np.int64)
            _, ask, note = _functions()
            found = self._calls[accumulator, accumulate, cta] = words, (ask, address_of(words)), (note, address_of(words))
        return found[1:]
