"""An instruction that is executed again: one comparison says whether its operands have the same images, and where these begin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.check.operands.words.check import Words
from ptxlab.check.operands.words.repeated import Known, Repeated
from ptxlab.engine.word_sources import NO_SOURCE

PITCH, A, B = 256, 0x1000, 0x9000
"""Two chunks of each of four rows: those of A stand in words 0 to 31 of shared memory, those of B in words 40 to 71."""
RELATIVE = np.array([row * PITCH + 4 * word for row in range(4) for word in range(8)], np.int64)
A_PLACES, B_PLACES = np.arange(32), np.arange(40, 72)


def addresses(a: int = A, b: int = B) -> NDArray[np.int64]:
    """Where the words of shared memory come from."""
    found = np.zeros(80, np.int64)
    for places, base in ((A_PLACES, a), (B_PLACES, b)):
        found[places] = base + RELATIVE
    return found


def repeated(*places: NDArray[np.intp]) -> Repeated:
    return Repeated((), [Known(PITCH, 4, each, A + RELATIVE) for each in places])


def bases(instruction: Repeated, found: NDArray[np.int64]) -> tuple[int, ...] | None:
    (words,) = Words.of_cluster(1, 4 * len(found))
    words.addresses[:] = found
    return instruction.bases(words)


@pytest.mark.parametrize(("a", "b"), [(A, B), (A + 64, B + 64), (B, A), (A, A), (A + 64, B)])
def test_images_may_move(a: int, b: int) -> None:
    assert bases(repeated(A_PLACES, B_PLACES), addresses(a, b)) == (a, b)


def test_one_operand() -> None:
    assert bases(repeated(B_PLACES), addresses(b=B + 32)) == (B + 32,)


@pytest.mark.parametrize("value", [0, NO_SOURCE, A + 16, A + 7 * PITCH])
@pytest.mark.parametrize("place", [*A_PLACES.tolist(), *B_PLACES.tolist()])
def test_each_word_is_compared(place: int, value: int) -> None:
    """0: not known; `NO_SOURCE`: a zero; the others are elements of the same array."""
    found, instruction = addresses(), repeated(A_PLACES, B_PLACES)
    if found[place] == value:
        value += 16
    found[place] = value
    assert bases(instruction, found) is None
    assert bases(instruction, addresses()) == (A, B)
