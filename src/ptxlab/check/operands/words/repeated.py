"""Operands whose images are known up to their bases: one comparison tells whether an execution takes them again, moved in global memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.compiled.calls import RepetitionCalls
from ptxlab.check.operands.compiled.cta_words import TakenWord
from ptxlab.check.operands.compiled.predecessors import Predecessors
from ptxlab.check.operands.words.images import WORD, TakenWords, WordImage, form_of
from ptxlab.check.operands.words.repeated_ir import STEP_WORDS, ImagesWord, functions_for
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.native import address_of

__all__ = ["Differences", "Known", "LastTaken", "Repeated"]

_NUMBERS = count(1)
"""Of repeated instructions, of all launches."""


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


class Differences:
    """Tells whether words come from elsewhere than before, other than moved as a whole.

    Parameters
    ----------
    parts : of each operand the places of its words, and from where these have come
    width : words that stand one after the other, at each place that is a multiple of it: they are compared together

    Attributes
    ----------
    table, address : what is compared (`ImagesWord`), and the host address
    before, agreeing : the instructions that may come before, and those with which it may be compared alone
    starts, end : the place of the first word of each operand; the place behind the last word
    functions : the compiled functions
    """

    __slots__ = ("_keep", "address", "agreeing", "before", "end", "functions", "starts", "table")

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
        table = np.zeros(ImagesWord.END, np.int64)
        table[: ImagesWord.NUMBER] = *map(address_of, (places, more, ends, forms)), len(parts), self.starts[0], self.starts[-1]
        self.before = Predecessors(table[ImagesWord.BEFORE : ImagesWord.AGREEING], STEP_WORDS)
        self.agreeing = Predecessors(table[ImagesWord.AGREEING :], 1)
        self._keep = places, more, ends, forms, table
        self.table, self.address = table.data, address_of(table)
        self.functions = functions_for(width, dense)

    def found(self, host: int) -> bool:
        """Whether there are some among the sources at a host address."""
        return bool(self.functions.differs(host, self.address))


class LastTaken:
    """What the instruction took that last wrote or added to an accumulator, as far as it is known from where its words come.

    Parameters
    ----------
    words : those of the accumulator, which compiled code has, too
    known : repeated instructions by their numbers

    Attributes
    ----------
    address : of the words in which compiled code enters what such an instruction takes
    """

    __slots__ = ("_found", "_keep", "_known", "_words", "address")

    def __init__(self, words: NDArray[np.int64], known: Mapping[int, Repeated]) -> None:
        self._keep, self._words, self.address, self._known = words, words.data, address_of(words), known
        self._found: dict[str, TakenWords] = {}

    def enter(self, found: dict[str, TakenWords]) -> None:
        """An instruction takes these operands."""
        self._found, self._words[TakenWord.NUMBER], self._words[TakenWord.FOUND] = found, 0, bool(found)

    @property
    def found(self) -> dict[str, TakenWords]:
        """The operands by name; of a repeated instruction only if it was the first one."""
        return self._found if self._words[TakenWord.FOUND] else {}

    def repeated(self, before: bool = False) -> Repeated | None:
        """The instruction, or the one ``before``, if it is repeated."""
        number = self._words[TakenWord.BEFORE * before]
        return self._known[number] if number else None

    def bases(self, before: bool = False) -> tuple[int, int]:
        """The bases of the first and of the last operand of a repeated instruction, or of the one ``before``."""
        at = TakenWord.FIRST + TakenWord.BEFORE * before
        return self._words[at], self._words[at + 1]

    def taken(self, before: bool = False) -> dict[str, TakenWords]:
        """The operands by name; if compiled code has entered another instruction since, those of the one ``before``."""
        repeated = self.repeated(before)
        return self.found if repeated is None else repeated.taken(self.bases(before))

    @property
    def numbered(self) -> int:
        """The number of the operands of the last instruction, if they have one (`ptxlab.check.operands.compiled.mixed`)."""
        return self._words[TakenWord.OPERANDS]

    @numbered.setter
    def numbered(self, number: int) -> None:
        self._words[TakenWord.OPERANDS] = number

    @property
    def column(self) -> int | None:
        """The first column of the last A in tensor memory."""
        column = self._words[TakenWord.COLUMN]
        return column - 1 if column else None

    @column.setter
    def column(self, column: int) -> None:
        self._words[TakenWord.COLUMN] = column + 1

    @property
    def tiled(self) -> int:
        """The number of the images that the instruction has taken from tiles, if compiled code has entered it; else 0."""
        return self._words[TakenWord.IMAGES] if self._words[TakenWord.TILED] else 0

    @property
    def images(self) -> int:
        """The number of the images that the instruction has taken from tiles, 0 if there were none."""
        return self._words[TakenWord.IMAGES]

    @property
    def tile_numbers(self) -> tuple[int, int]:
        """What numbers the tiles of A and B."""
        return self._words[TakenWord.FIRST_TILE], self._words[TakenWord.LAST_TILE]

    def enter_tiles(self, images: int, tiles: Sequence[int]) -> None:
        """The instruction takes images with a number from tiles; 0 if they are not known."""
        words = self._words
        words[TakenWord.IMAGES], words[TakenWord.TILED] = images, 0
        words[TakenWord.FIRST_TILE], words[TakenWord.LAST_TILE] = tiles[0], tiles[-1]

    def has(self, columns: int) -> None:
        """D has so many columns."""
        self._words[TakenWord.COLUMNS] = max(columns, self._words[TakenWord.COLUMNS])


class Repeated:
    """An instruction whose operands have an image that is known up to its base, and no zeros. Of one operand nothing may be known.

    One comparison tells whether an execution takes the same images, moved in global memory.

    Parameters
    ----------
    operands : those of the instruction, one or two
    images : of each operand its image; None if nothing is known of it
    kept : the name of the one that it takes from a collector buffer, which is not compared with those of the instruction before

    Attributes
    ----------
    images : by operand, those that are known
    others : operands without an image
    address, end : of the table that compiled code is given; the place behind the last word
    follows : compare what an execution takes, given the host addresses of the sources, of the table, and of a `LastTaken`
    calls, calls_among : for each accumulator; in memory that no bulk or tensor copies have written, and in any
    """

    __slots__ = ("_differences", "address", "calls", "calls_among", "end", "follows", "images", "kept", "number", "operands", "others")

    def __init__(self, operands: tuple[MatrixOperand, ...], images: Sequence[Known | None], kept: str | None = None) -> None:
        self.operands, self.kept = operands, kept
        self.images = {operand: image for operand, image in zip(operands, images, strict=True) if image is not None}
        self.others = [operand for operand in operands if operand not in self.images]
        width = CHUNK // WORD if all(operand.data == CHUNK for operand in self.images) else 1
        self._differences = Differences([(image.places, image.sources) for image in self.images.values()], width)
        self.number = self._differences.table[ImagesWord.NUMBER] = next(_NUMBERS)
        if kept is not None:
            (start,) = (at for operand, at in zip(self.images, self._differences.starts, strict=True) if operand.name != kept)
            self._differences.table[ImagesWord.FIRST] = self._differences.table[ImagesWord.LAST] = start
        self.address, self.end, functions = self._differences.address, self._differences.end, self._differences.functions
        self.follows = functions.follows
        self.calls, self.calls_among = (RepetitionCalls(self.address, ask, functions.note) for ask in (functions.ask, functions.ask_among))

    def expect(self, before: Repeated, steps: tuple[int, int]) -> None:
        """Let these steps from another instruction be known."""
        self._differences.before.add(before.number, *steps)

    def agrees(self, before: Repeated) -> None:
        """Let compiled code compare it alone with another instruction."""
        self._differences.agreeing.add(before.number)

    def replace(self) -> None:
        """Another one takes its place: compiled code does not repeat it any more."""
        self._differences.table[ImagesWord.OPERANDS] = 0

    def taken(self, bases: tuple[int, int]) -> dict[str, TakenWords]:
        """The operands by name, with their images, of which the bases of the first and of the last one are given.

        If one is kept, both are those of the other one.
        """
        found = zip(self.images.items(), bases, strict=False)
        taken = {operand.name: TakenWords(operand, WordImage(base, image.line, image.word)) for (operand, image), base in found}
        if self.kept is not None:
            del taken[self.kept]
        return taken
