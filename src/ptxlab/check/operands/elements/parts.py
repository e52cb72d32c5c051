"""Matrices of an instruction that are not in registers, with what is noted of the memory in which they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.tiles import MatrixOperand, TensorMatrix

if TYPE_CHECKING:
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
    """

    operand: MatrixOperand
    sources: NDArray[np.int64]
    prepared: Callable[[], bool]

    @property
    def key(self) -> Hashable:
        """Equal for the same places."""
        return self.operand

    def codes(self, cta: Cta) -> NDArray[Any]:
        """The elements."""
        return self.operand.placed.read(cta.shared)


@dataclass(frozen=True, slots=True, eq=False)
class TensorPart:
    """The rows of A that the CTA of a number has in its tensor memory; ``sources`` says of each cell from where it comes."""

    matrix: TensorMatrix
    number: int
    sources: NDArray[np.int64]

    @property
    def key(self) -> Hashable:
        """Equal for the same places."""
        return self.matrix.column, self.matrix.columns, self.lanes.tobytes()

    @property
    def lanes(self) -> NDArray[np.intp]:
        """The lanes of the rows."""
        return self.matrix.lanes[self.number]

    def codes(self, cta: Cta) -> NDArray[Any]:
        """The elements."""
        cells = cta.tensor.words[self.matrix.column : self.matrix.column + self.matrix.columns, self.lanes]
        return np.ascontiguousarray(cells.T).view(f"u{max(self.matrix.bits // 8, 1)}")
