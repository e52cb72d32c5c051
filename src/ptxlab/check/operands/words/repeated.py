"""Operands whose images are known up to their bases: one comparison tells whether an execution takes them again, moved in global memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab._records import dataclass
from ptxlab.check.operands.words.images import WORD, TakenWords, WordImage, form_of
from ptxlab.isa.tiles import CHUNK, MatrixOperand
from ptxlab.native import address_of

__all__ = ["KNOWN", "OTHER", "STEP", "Differences", "Known", "LastTaken", "Repeated"]

_NUMBERS = count(1)
"""Of repeated instructions, of all launches."""
_NOTHING = -1
"""The number of no instruction."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """An image without its base: the places of all words, and from where these have come once."""

    line: int
    word: int
    places: NDArray[np.intp]
    sources: NDArray[np.int64]

    def image(self, addresses: NDArray[np.int64]) -> WordImage | None:
        """The same image elsewhere, if that is what stands at the places."""
        found = addresses.take(self.places)
        base = found.item(0)
        found -= self.sources
        if form_of(base) != form_of(self.sources.item(0)) or (found != found[0]).any():
            return None
        return WordImage(base, self.line, self.word)


class _ImagesWord(IntEnum):
    """The words of the table of an instruction's images: addresses of arrays, the number of operands, and the step that is known.

    ``FIRST`` and ``LAST`` are the places of the first words of the first and of the last operand. ``NUMBER`` is that of the instruction
    and ``FROM`` that of the one before it, ``FIRST_STEP`` and ``LAST_STEP`` by how much the bases move from there.
    """

    PLACES = 0
    MORE = 1
    ENDS = 2
    FORMS = 3
    OPERANDS = 4
    FIRST = 5
    LAST = 6
    NUMBER = 7
    FROM = 8
    FIRST_STEP = 9
    LAST_STEP = 10
    END = 11


class _TakenWord(IntEnum):
    """The words of `LastTaken`: the number of the instruction, 0 if it is not repeated, and its bases; then those of the one before."""

    NUMBER = 0
    FIRST = 1
    LAST = 2
    BEFORE = 3
    END = 6


KNOWN, STEP, OTHER = range(3)
"""How an instruction follows the one before: with the step that is known, with another one; or it takes something else (`Repeated`)."""


def _differs(module: native.Module, width: int, dense: bool) -> None:
    """``i64 differs(addresses, images)``: whether some addresses are not those of images; 0 if all are.

    ``images`` is a table (`_ImagesWord`). ``width`` words are compared together. If they are ``dense``, they come from neighbouring words,
    and the table says only from where the first one comes.
    """
    code = native.Function(module, "differs", "i64", "ptr addresses, ptr images")
    addresses, images = code.parameters
    places, more, ends, forms = map(images.pointer, range(_ImagesWord.OPERANDS))
    group = native.vector("i64", width) if width > 1 else "i64"
    first, found, others = code.variable("i64", 0), code.variable("i64", 0), code.variable(group, 0)
    within = code.constants("i64", range(0, width * WORD, WORD)).load(group) if dense else 0
    with code.loop(images.word(_ImagesWord.OPERANDS), entered=True) as operand:
        end, base = ends.load("i64", operand), addresses.load("i64", places.load("i64", first.get()))
        found.set(found.get() | (form_of(base) ^ forms.load("i64", operand)))
        bases = (base.splat(width) if width > 1 else base) + within
        with code.loop(end, start=first.get(), entered=True) as i:
            away = more.load("i64", i).splat(width) if dense else more.load(group, i * width)
            others.set(others.get() | ((addresses.load(group, places.load("i64", i)) - bases) ^ away))
        first.set(end)
    code.ret(found.get() | (others.get().reduce("or") if width > 1 else others.get()))


def _follows(module: native.Module) -> None:
    """``i64 follows(addresses, images, last)``: `KNOWN`, `STEP` or `OTHER`; unless it is `OTHER`, what is taken becomes the last one."""
    code = native.Function(module, "follows", "i64", "ptr addresses, ptr images, ptr last")
    addresses, images, last = code.parameters
    with code.when(code.call("differs", "i64", addresses, images).ne(0)):
        code.ret(OTHER)
    before = [last.word(word) for word in range(_TakenWord.BEFORE)]
    first, end = (addresses.load("i64", images.word(word)) for word in (_ImagesWord.FIRST, _ImagesWord.LAST))
    known = images.word(_ImagesWord.FROM).eq(before[_TakenWord.NUMBER])
    known = known & images.word(_ImagesWord.FIRST_STEP).eq(first - before[_TakenWord.FIRST])
    known = known & images.word(_ImagesWord.LAST_STEP).eq(end - before[_TakenWord.LAST])
    last.set_words({_TakenWord.BEFORE + word: value for word, value in enumerate(before)})
    last.set_words(dict(enumerate((images.word(_ImagesWord.NUMBER), first, end))))
    code.ret(known.select(code.const("i64", KNOWN), code.const("i64", STEP)))


def _ir(width: int, dense: bool) -> str:
    module = native.Module()
    _differs(module, width, dense)
    _follows(module)
    return module.text()


@cache
def _functions(width: int, dense: bool) -> tuple[Any, ...]:
    """``differs`` and ``follows``, compiled or from the cache."""
    parameters = {"differs": 2, "follows": 3}
    library = native.compile_ir(_ir(width, dense), [*parameters], opt=1, light=True)
    return tuple([library.function(name, ctypes.c_int64, *[ctypes.c_void_p] * count) for name, count in parameters.items()])


class Differences:
    """Tells whether words come from elsewhere than before, other than moved as a whole.

    Parameters
    ----------
    parts : of each operand the places of its words, and from where these have come
    width : words that stand one after the other, at each place that is a multiple of it: they are compared together

    Attributes
    ----------
    table, address : what is compared (`_ImagesWord`), and the host address
    starts, end : the place of the first word of each operand; the place behind the last word
    follows : the compiled function of that name
    """

    __slots__ = ("_differs", "_keep", "address", "end", "follows", "starts", "table")

    def __init__(self, parts: Sequence[tuple[NDArray[np.intp], NDArray[np.int64]]], width: int = 1) -> None:
        places = np.concatenate([own[::width] for own, _ in parts]).astype(np.int64)
        more = np.concatenate([found - found[0] for _, found in parts])
        groups = more.reshape(-1, width)
        dense = width > 1 and bool((groups - groups[:, :1] == np.arange(0, width * WORD, WORD)).all())
        if dense:
            more = groups[:, 0].copy()
        ends = np.cumsum([len(own) // width for own, _ in parts])
        forms = np.array([form_of(found[0]) for _, found in parts])
        self.starts = tuple([own.item(0) for own, _ in parts])
        self.end = int(places.max()) + width
        table = np.zeros(_ImagesWord.END, np.int64)
        table[: _ImagesWord.NUMBER] = *map(address_of, (places, more, ends, forms)), len(parts), self.starts[0], self.starts[-1]
        table[_ImagesWord.FROM] = _NOTHING
        self._keep = places, more, ends, forms, table
        self.table, self.address = table.data, address_of(table)
        self._differs, self.follows = _functions(width, dense)

    def found(self, host: int) -> bool:
        """Whether there are some among the sources at a host address."""
        return bool(self._differs(host, self.address))


class LastTaken:
    """What the instruction took that last wrote or added to an accumulator, as far as it is known from where its words come.

    Attributes
    ----------
    found : the operands by name; of a repeated instruction only if it was the first one
    repeated : the instruction, if it is repeated
    address : of the words in which compiled code enters what such an instruction takes
    """

    __slots__ = ("_keep", "_words", "address", "found", "repeated")

    def __init__(self) -> None:
        words = np.zeros(_TakenWord.END, np.int64)
        self._keep, self._words, self.address = words, words.data, address_of(words)
        self.found: dict[str, TakenWords] | None = None
        self.repeated: Repeated | None = None

    def enter(self, found: dict[str, TakenWords]) -> None:
        """An instruction takes these operands."""
        self.found, self.repeated, self._words[_TakenWord.NUMBER] = found, None, 0

    def bases(self, before: bool = False) -> tuple[int, int]:
        """The bases of the first and of the last operand of a repeated instruction, or of the one ``before``."""
        at = _TakenWord.FIRST + _TakenWord.BEFORE * before
        return self._words[at], self._words[at + 1]

    def taken(self, before: bool = False) -> dict[str, TakenWords]:
        """The operands by name; if compiled code has entered another instruction since, those of the one ``before``."""
        return (self.found or {}) if self.repeated is None else self.repeated.taken(self.bases(before))


class Repeated:
    """An instruction all of whose operands have an image that is known up to its base, and no zeros.

    One comparison tells whether an execution takes the same images, moved in global memory.

    Attributes
    ----------
    operands, images : those of the instruction, one or two
    address, end : of the table that compiled code is given; the place behind the last word
    follows : compare what an execution takes, given the host addresses of the sources, of the table, and of a `LastTaken`
    """

    __slots__ = ("_differences", "address", "end", "follows", "images", "number", "operands")

    def __init__(self, operands: tuple[MatrixOperand, ...], images: list[Known]) -> None:
        self.operands, self.images = operands, images
        width = CHUNK // WORD if all(operand.data == CHUNK for operand in operands) else 1
        self._differences = Differences([(image.places, image.sources) for image in images], width)
        self.number = self._differences.table[_ImagesWord.NUMBER] = next(_NUMBERS)
        self.address, self.end, self.follows = self._differences.address, self._differences.end, self._differences.follows

    def expect(self, before: Repeated, steps: tuple[int, int]) -> None:
        """Let the step from another instruction be the one that is known."""
        table = self._differences.table
        table[_ImagesWord.FROM], (table[_ImagesWord.FIRST_STEP], table[_ImagesWord.LAST_STEP]) = before.number, steps

    def taken(self, bases: tuple[int, int]) -> dict[str, TakenWords]:
        """The operands by name, with their images, of which the bases of the first and of the last one are given."""
        found = zip(self.operands, self.images, bases, strict=False)
        return {operand.name: TakenWords(operand, WordImage(base, image.line, image.word)) for operand, image, base in found}
