"""Where it is noted from where the matrices of an instruction come: those in registers, and the other one, which is in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands.registers._images import Addresses, element_addresses
from ptxlab.engine.context import NO_SOURCE
from ptxlab.isa.tiles import CHUNK, MatrixOperand, RegisterMatrix
from ptxlab.native import BoundedCache

if TYPE_CHECKING:
    from ptxlab.engine.program import LoadedValues, LoadedWord
    from ptxlab.isa.operands import Op

__all__ = ["Matrix", "Noted", "Sources"]

_WORD = 4
"""Bytes."""
_WORD_BITS = 32
Frame = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A matrix whose sources are noted.

    Attributes
    ----------
    name, element, bits, stored : as of a `RegisterMatrix` or a `MatrixOperand`
    places : ``[line, word]``, of each word the place of its source; lines are rows, or k if ``turned``
    added : what is added to the addresses there
    loads : the load that has brought each word, ``[line, word]``; None for a matrix in shared memory
    """

    name: str
    element: str
    bits: int
    stored: int
    places: NDArray[np.intp]
    added: NDArray[np.int64]
    turned: bool = False
    loads: NDArray[np.intp] | None = None

    @property
    def title(self) -> str:
        """What findings call it."""
        return f"matrix {self.name}"

    @classmethod
    def in_registers(cls, matrix: RegisterMatrix, noted: Sequence[LoadedWord], loaded: LoadedValues) -> Matrix:
        """A matrix in registers; the places are those in the frame of the warp that holds the row."""
        # A register of 64 bits has two words.
        each = max(matrix.bits // _WORD_BITS, 1)
        rows = np.array([(*loaded.noted(word), word.load) for word in noted]).reshape(-1, each, 3)
        _, register, lane = np.unravel_index(matrix.index, (matrix.warps, len(rows), 32))
        found = rows[register].reshape(len(matrix.index), -1, 3)
        places = found[..., 0] // 8 + np.repeat(lane, each, axis=1)
        return cls(matrix.name, matrix.element, matrix.bits, matrix.stored, places, found[..., 1], loads=found[..., 2])

    @classmethod
    def in_shared_memory(cls, operand: MatrixOperand) -> Matrix:
        """A matrix in shared memory."""
        words = CHUNK // _WORD
        places = (operand.chunks[..., None] * words + np.arange(words)).reshape(len(operand.chunks), -1)
        turned = operand.major == "mn"
        return cls(operand.name, operand.element, operand.container, operand.stored, places, np.zeros_like(places), turned)

    def words(self, found: NDArray[np.int64]) -> Addresses:
        """Where the words come from, ``[line, word]``; ``found`` is what stands at the places."""
        return np.where(found > NO_SOURCE, found + self.added.reshape(-1), found).reshape(self.places.shape)

    def elements(self, words: Addresses) -> Addresses:
        """Where the elements come from, ``[row, k]``."""
        found = element_addresses(words, self.bits)
        return found.T if self.turned else found


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """What is noted at an execution.

    Attributes
    ----------
    found : of all matrices, one after the other
    bases : of each matrix where its first word comes from
    key : equal for executions whose matrices differ only in where they begin
    """

    found: NDArray[np.int64]
    bases: tuple[int, ...]
    key: tuple[Any, ...]


class Sources:
    """The matrices of an instruction.

    Attributes
    ----------
    matrices : those of which all sources are noted
    judged : what has been found out, by `Noted.key`
    attempts : how often that has been tried
    """

    __slots__ = ("_first", "_frames", "_shared", "_starts", "attempts", "judged", "matrices")

    def __init__(self, op: Op, matrices: Sequence[RegisterMatrix], other: MatrixOperand | None, loaded: LoadedValues) -> None:
        noted = loaded.matrices[op.index]
        held = [m for m in matrices if all(noted.get(m.operand, (None,)))]
        found = [Matrix.in_registers(m, [word for word in noted[m.operand] if word is not None], loaded) for m in held]
        # Of several warps each has an equal part of the rows of the only matrix in registers.
        warps = max((m.warps for m in held), default=1)
        of_warp = [np.concatenate([np.array_split(m.places, warps)[w].reshape(-1) for m in found]) for w in range(warps)] if found else []
        self._frames: list[NDArray[np.intp]] = of_warp
        self._shared: NDArray[np.intp] | None = None
        if other is not None and found:
            found.append(Matrix.in_shared_memory(other))
            self._shared = found[-1].places.reshape(-1)
        self.matrices = found
        ends = np.cumsum([m.places.size for m in found]).tolist()
        self._starts = [0, *ends[:-1]]
        self._first = [int(m.added.item(0)) for m in found]
        self.judged: BoundedCache[Any, Any] = BoundedCache(64)
        self.attempts = 0

    def noted(self, frames: Sequence[Frame], shared: NDArray[np.int64] | None) -> Noted:
        """Read what is noted in the frames of the warps, and for the words of shared memory."""
        parts = [frame.reshape(-1).view(np.int64).take(places) for frame, places in zip(frames, self._frames, strict=True)]
        if self._shared is not None and shared is not None:
            parts.append(shared.take(self._shared))
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        bases = tuple([found.item(start) for start in self._starts])
        steps = found[1:] - found[:-1]
        for start in self._starts[1:]:
            steps[start - 1] = 0
        known = tuple([base > NO_SOURCE for base in bases])
        return Noted(found, tuple([base + first for base, first in zip(bases, self._first, strict=True)]), (steps.tobytes(), known))

    def words(self, number: int, found: NDArray[np.int64]) -> Addresses:
        """Where the words of a matrix come from."""
        start = self._starts[number]
        return self.matrices[number].words(found[start : start + self.matrices[number].places.size])
