"""What compiled code asks before it repeats a product of operands of different kinds, and what it notes."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.check.operands.compiled.calls import RepetitionCalls
from ptxlab.check.operands.compiled.cta_words import CtaTaken, TakenWord
from ptxlab.check.operands.compiled.mixed import Kind, KindOfOperand, MixedProducts
from ptxlab.check.operands.compiled.tiles import StandingTile
from ptxlab.check.operands.words.check import Words
from ptxlab.engine.context import Word
from ptxlab.engine.word_sources import BYTES_APART, GLOBAL_BIT, HALVES_SHIFT, IN_BYTES, LISTED, NO_SOURCE
from ptxlab.native import address_of

START_A, START_B, SIZE = 1024, 4096, 512
ADDRESS, COLUMNS, ARRAY = 0x10000, 64, 3
TILE = StandingTile(0, START_A + SIZE, ARRAY, 0, (0, 0))


class Operand:
    """An operand of a few chunks."""

    def __init__(self, start: int) -> None:
        self.chunks = np.arange(start // 16, (start + SIZE) // 16)
        self.placed = SimpleNamespace(bounds=(start, start + SIZE))


class Memory:
    """The shared memory of a CTA, with a product of an A and a B of two kinds."""

    def __init__(self, a: Kind, b: Kind, *, followed: bool = True, joined: bool = False) -> None:
        (self.taken,) = CtaTaken.of_cluster(1)
        (self.words,) = Words.of_cluster([self.taken], 8192)
        self.context: NDArray[np.int64] = np.zeros(len(Word), np.int64)
        self.context[Word.OPERANDS_TAKEN] = self.taken.address
        self.runs = np.zeros(1, np.int64)
        self.last = self.taken.of(0)
        self.last[TakenWord.COLUMNS] = COLUMNS
        self.operands: Any = (Operand(START_A), Operand(START_B))
        self.products, self.kinds, self.flags = MixedProducts(), (a, b), {"followed": followed, "joined": joined}
        for start, kind in ((START_A, a), (START_B, b)):
            self.bring(start, kind)

    def bring(self, start: int, kind: Kind) -> None:
        """An operand comes in one of the ways, when nothing has come there before."""
        if kind is Kind.IN_TILES:
            self.taken.set_tile(0, start, start + SIZE, ARRAY, 1, (0, 0))
            self.words.boxed[start // 16 : (start + SIZE) // 16] = True
        elif kind is not Kind.UNKNOWN:
            self.words.addresses[start // 4 : (start + SIZE) // 4] = ADDRESS
            self.words.prepared[start // 4 : (start + SIZE) // 4] = kind is Kind.BROUGHT

    def calls(self, *, alike: bool = True, accumulate: bool = False, a: tuple[int, int] = (-1, 0)) -> tuple[Any, Any]:
        kinds = [KindOfOperand(kind, (TILE,) if kind is Kind.IN_TILES else ()) for kind in self.kinds]
        pairs = {(self.operands, self.operands)} if alike else set()
        calls: RepetitionCalls = self.products.calls(self.operands, kinds, pairs, **self.flags)
        return calls.of(0, COLUMNS, accumulate, address_of(self.runs), a)

    def asked(self, **about: Any) -> bool:
        """Whether compiled code may repeat the product."""
        return self._call(self.calls(**about)[0]) == 0

    def note(self, **about: Any) -> None:
        assert self._call(self.calls(**about)[1]) == 0

    def _call(self, call: tuple[int, int]) -> int:
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, ctypes.c_int64)(call[0])
        found: int = function(address_of(self.context), call[1], 0)
        return found


PAIRS = [(a, b) for a in Kind for b in Kind if b is not Kind.IN_TILES]
every_pair = pytest.mark.parametrize(("a", "b"), PAIRS)


@every_pair
def test_operands_of_their_kinds(a: Kind, b: Kind) -> None:
    memory = Memory(a, b)
    assert memory.asked()
    memory.note()
    assert memory.asked(accumulate=Kind.OF_WORDS not in (a, b))


def change(memory: Memory, what: str) -> None:
    """Something is different in the memory, or in what the accumulator has taken."""
    first = {"A": START_A, "B": START_B}.get(what[-1], 0)
    match what[:-2] if first else what:
        case "box over":
            memory.words.boxed[first // 16] = True
        case "words over":
            memory.words.addresses[first // 4] = ADDRESS + 4
            memory.words.boxed[first // 16] = memory.words.prepared[first // 4] = False
        case "tile over":
            memory.taken.set_tile(1, first + SIZE - 16, first + SIZE + 16, ARRAY, 2)
        case "tile beside":
            memory.taken.set_tile(1, first + SIZE, first + 2 * SIZE, ARRAY, 2)
        case "other array":
            memory.taken.set_tile(0, first, first + SIZE, ARRAY + 1, 2, (0, 0))
        case "shorter":
            memory.taken.set_tile(0, first, first + SIZE - 16, ARRAY, 2, (0, 0))
        case "no tile":
            memory.taken.set_tile(0, first, 0, 0)
        case "tile beyond":
            memory.taken.set_tile(1000, 0, 16, ARRAY)
        case "runs":
            memory.runs[0] = 1
        case "more columns":
            memory.last[TakenWord.COLUMNS] = COLUMNS - 8
        case _:
            raise AssertionError(what)


REFUSED = [
    *((pair, what) for pair in PAIRS for what in ("tile beyond", "runs", "more columns")),
    *((pair, what) for pair in PAIRS if pair[0] is Kind.IN_TILES for what in ("other array A", "shorter A", "no tile A", "words over A")),
    *((pair, "tile over A") for pair in PAIRS if pair[0] is not Kind.IN_TILES),
    *((pair, "tile over B") for pair in PAIRS),
    *(
        (pair, f"words over {name}")
        for pair in PAIRS
        for name, kind in zip("AB", pair, strict=True)
        if kind in (Kind.BROUGHT, Kind.UNKNOWN)
    ),
    *((pair, f"box over {name}") for pair in PAIRS for name, kind in zip("AB", pair, strict=True) if kind is Kind.BROUGHT),
]


@pytest.mark.parametrize(("pair", "what"), REFUSED)
def test_refused(pair: tuple[Kind, Kind], what: str) -> None:
    memory = Memory(*pair)
    assert memory.asked()
    change(memory, what)
    assert not memory.asked()


@every_pair
def test_a_tile_beside(a: Kind, b: Kind) -> None:
    memory = Memory(a, b)
    change(memory, "tile beside B")
    assert memory.asked()


@pytest.mark.parametrize("word", [TakenWord.TILED, TakenWord.NUMBER])
def test_after_a_product_of_images(word: TakenWord) -> None:
    memory = Memory(Kind.BROUGHT, Kind.UNKNOWN)
    memory.note()
    assert memory.asked(accumulate=True)
    memory.last[word] = 1
    assert memory.asked()
    assert not memory.asked(accumulate=True)
    memory.note()
    assert memory.asked(accumulate=True), "it is not the last one any more"


def test_after_operands_that_do_not_agree() -> None:
    memory = Memory(Kind.BROUGHT, Kind.UNKNOWN)
    memory.note(alike=False)
    assert memory.asked(alike=False)
    assert not memory.asked(alike=False, accumulate=True)
    memory.last[TakenWord.OPERANDS] = 5
    assert not memory.asked(accumulate=True)


def test_what_is_noted() -> None:
    for kind, number in ((Kind.BROUGHT, 0), (Kind.OF_WORDS, 7)):
        memory = Memory(kind, Kind.UNKNOWN)
        memory.last[[TakenWord.NUMBER, TakenWord.FOUND, TakenWord.IMAGES, TakenWord.TILED]] = 7, 1, 8, 1
        memory.note()
        assert memory.last[[TakenWord.NUMBER, TakenWord.IMAGES, TakenWord.TILED, TakenWord.OPERANDS]].tolist() == [number, 0, 0, 1]
        assert memory.last[TakenWord.FOUND] == (kind is Kind.OF_WORDS)


def test_an_a_in_tensor_memory() -> None:
    memory = Memory(Kind.UNKNOWN, Kind.BROUGHT)
    memory.note(a=(16, 8))
    assert memory.last[TakenWord.COLUMN] == 17
    for column, repeated in ((16, True), (20, False), (9, False), (8, True), (24, True)):
        assert memory.asked(a=(column, 8), accumulate=True) == repeated
    memory.taken.copied_to_cells()
    assert not memory.asked(a=(24, 8))


SOURCES = {
    "parts of a list": (LISTED | 5, True),
    "parts that are noted apart": (IN_BYTES, True),
    "halves apart": (ADDRESS | 3 << HALVES_SHIFT, True),
    "bytes apart": (GLOBAL_BIT | BYTES_APART | ADDRESS, True),
    "neighbours": (GLOBAL_BIT | ADDRESS, False),
    "zeros": (NO_SOURCE, False),
}
"""What may be noted of a word, and whether its parts are compared one by one."""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("place", [1, SIZE // 4 - 1])
@every_pair
def test_words_of_parts(a: Kind, b: Kind, place: int, source: str) -> None:
    noted, apart = SOURCES[source]
    for start, kind in ((START_A, a), (START_B, b)):
        memory = Memory(a, b, joined=True)
        assert memory.asked()
        memory.words.sources[start // 4 + place] = noted
        assert memory.asked() == (kind is Kind.OF_WORDS or not apart)
        memory = Memory(a, b)
        memory.words.sources[start // 4 + place] = noted
        assert memory.asked()


def test_words_that_are_not_followed() -> None:
    """What is noted of words says nothing; tiles do."""
    memory = Memory(Kind.IN_TILES, Kind.UNKNOWN, followed=False)
    for change_ in ("words over A", "words over B"):
        change(memory, change_)
        assert memory.asked()
    change(memory, "tile over B")
    assert not memory.asked()
