"""Matrices of an instruction that are not in registers, with what is noted of the memory in which they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.operations.matrices import MatrixOperand, TensorMatrix
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.check.operands.words.check import Words
    from ptxlab.isa.context import Cta

__all__ = ["LANES", "SharedPart", "TensorPart"]

LANES = 128


@dataclass(frozen=True, slots=True, eq=False)
class SharedPart:
    """A matrix in shared memory.

    Attributes
    ----------
    sources : of each word of the shared memory from where it comes
    prepared : asks whether the array may have been arranged for the descriptor
    list_words : lists the words at some places, in a copy of their sources, of which the sources of bytes are noted
    key, address : equal for the same places, and where the sources are
    """

    operand: MatrixOperand
    sources: NDArray[np.int64]
    prepared: Callable[[], bool]
    list_words: Callable[[NDArray[np.intp], NDArray[np.int64]], None]
    key: Hashable = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.operand)
        object.__setattr__(self, "address", address_of(self.sources))

    @classmethod
    def of(cls, operand: MatrixOperand, words: Words) -> SharedPart:
        """An operand, with what is noted of the shared memory of its CTA."""
        return cls(operand, words.addresses, partial(words.are_prepared, operand), words.list_words)

    def codes(self, cta: Cta) -> NDArray[Any]:
        """The elements."""
        return self.operand.placed.read(cta.shared)


@dataclass(frozen=True, slots=True, eq=False)
class TensorPart:
    """The rows of A that the CTA of a number has in its tensor memory; ``sources`` says of each cell from where it comes.

    Attributes
    ----------
    key, address : equal for the same places, and where the sources are
    """

    matrix: TensorMatrix
    number: int
    sources: NDArray[np.int64]
    key: Hashable = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.matrix.column, self.matrix.columns, self.lanes.tobytes()))
        object.__setattr__(self, "address", address_of(self.sources))

    @property
    def lanes(self) -> NDArray[np.intp]:
        """The lanes of the rows."""
        return self.matrix.lanes[self.number]

    def codes(self, cta: Cta) -> NDArray[Any]:
        """The elements."""
        cells = cta.tensor.words[self.matrix.column : self.matrix.column + self.matrix.columns, self.lanes]
        return np.ascontiguousarray(cells.T).view(f"u{max(self.matrix.bits // 8, 1)}")
