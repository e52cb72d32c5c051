"""An instruction that is executed again: one comparison says whether its operands have the same images, and where these begin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.check.operands.compiled.cta_words import CtaTaken
from ptxlab.check.operands.words.check import Words
from ptxlab.check.operands.words.repeated import Known, LastTaken, Repeated
from ptxlab.check.operands.words.repeated_ir import KNOWN, OTHER, STEP
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operations.tiles import CHUNK

PITCH, A, B = 256, 0x1000, 0x9000
"""Two chunks of each of four rows: those of A stand in words 0 to 31 of shared memory, those of B in words 40 to 71."""
NEIGHBOURS = np.array([row * PITCH + 4 * word for row in range(4) for word in range(8)], np.int64)
COLUMNS = np.array([row * 4 + word * PITCH for row in range(4) for word in range(8)], np.int64)
"""Words of a chunk come from words that are neighbours, and from different rows."""
A_PLACES, B_PLACES = np.arange(32), np.arange(40, 72)
BOTH = pytest.mark.parametrize("relative", [NEIGHBOURS, COLUMNS], ids=["neighbours", "columns"])


class _Operand(NamedTuple):
    name: str
    data: int = CHUNK


def addresses(a: int = A, b: int = B, relative: NDArray[np.int64] = NEIGHBOURS) -> NDArray[np.int64]:
    """Where the words of shared memory come from."""
    found = np.zeros(80, np.int64)
    for places, base in ((A_PLACES, a), (B_PLACES, b)):
        found[places] = base + relative
    return found


def repeated(*places: NDArray[np.intp], relative: NDArray[np.int64] = NEIGHBOURS) -> Repeated:
    operands: Any = [_Operand(name) for name in "AB"[: len(places)]]
    return Repeated(operands, [Known(PITCH, 4, each, A + relative) for each in places])


def nothing_taken() -> LastTaken:
    """Of an accumulator that no instruction has written."""
    return LastTaken(CtaTaken.of_cluster(1)[0].of(0), {})


def relation(instruction: Repeated, found: NDArray[np.int64], last: LastTaken) -> int:
    (words,) = Words.of_cluster(CtaTaken.of_cluster(1), 4 * len(found))
    words.addresses[:] = found
    result: int = instruction.follows(words.host, instruction.address, last.address)
    return result


def bases(instruction: Repeated, found: NDArray[np.int64]) -> tuple[int, int] | None:
    last = nothing_taken()
    return None if relation(instruction, found, last) == OTHER else last.bases()


@BOTH
@pytest.mark.parametrize(("a", "b"), [(A, B), (A + 64, B + 64), (B, A), (A, A), (A + 64, B)])
def test_images_may_move(a: int, b: int, relative: NDArray[np.int64]) -> None:
    assert bases(repeated(A_PLACES, B_PLACES, relative=relative), addresses(a, b, relative)) == (a, b)


def test_one_operand() -> None:
    assert bases(repeated(B_PLACES), addresses(b=B + 32)) == (B + 32, B + 32)


@BOTH
@pytest.mark.parametrize("value", [0, NO_SOURCE, A + 16, A + 7 * PITCH])
@pytest.mark.parametrize("place", [*A_PLACES.tolist(), *B_PLACES.tolist()])
def test_each_word_is_compared(place: int, value: int, relative: NDArray[np.int64]) -> None:
    """0: not known; `NO_SOURCE`: a zero; the others are elements of the same array."""
    found, instruction = addresses(relative=relative), repeated(A_PLACES, B_PLACES, relative=relative)
    if found[place] == value:
        value += 16
    found[place] = value
    assert bases(instruction, found) is None
    assert bases(instruction, addresses(relative=relative)) == (A, B)


def test_only_the_step_that_is_known_is_known() -> None:
    """A loop of two instructions, each of which moves by 64 bytes from the other one."""
    one, other, last = repeated(A_PLACES, B_PLACES), repeated(A_PLACES, B_PLACES), nothing_taken()
    other.expect(one, (64, 64))
    assert relation(one, addresses(), last) == STEP
    assert relation(other, addresses(A + 64, B + 64), last) == KNOWN
    assert (last.bases(before=True), last.bases()) == ((A, B), (A + 64, B + 64))
    for a, b in ((64, 128), (128, 64), (0, 0)):
        assert relation(one, addresses(), last) == STEP
        assert relation(other, addresses(A + a, B + b), last) == STEP
    assert relation(other, addresses(A + 64, B + 64), last) == STEP, "from itself"


def test_what_is_no_image_is_not_entered() -> None:
    instruction, last = repeated(A_PLACES, B_PLACES), nothing_taken()
    relation(instruction, addresses(), last)
    assert relation(instruction, addresses(b=B + 64) * 0, last) == OTHER
    assert last.bases() == (A, B)


def test_an_instruction_that_is_not_repeated_comes_between() -> None:
    instruction, other, last = repeated(A_PLACES, B_PLACES), repeated(A_PLACES, B_PLACES), nothing_taken()
    other.expect(instruction, (64, 64))
    relation(instruction, addresses(), last)
    last.enter({})
    assert relation(other, addresses(A + 64, B + 64), last) == STEP


def test_without_a_step_that_is_known_none_is() -> None:
    """Not even to the same place, after an instruction that is not repeated."""
    instruction, last = repeated(A_PLACES, B_PLACES), nothing_taken()
    assert relation(instruction, addresses(), last) == STEP
    last.enter({})
    assert relation(instruction, addresses(), last) == STEP
