"""Rows of tiles that are copied and that no instruction multiplies, while D is read as if it had them: M or N is too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.isa.native_ops import TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.operations.matrices import MatrixOperand, MatrixProduct
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.layout import fragment

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch

__all__ = ["Rest", "RestRows"]

_FACTORS = (4, 2)
_ALL_LANES = 32
_QUADRANTS = 4
Chunks = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Rows behind those of an operand, which are an image of the same tile: the chunks, and how many rows there are with them."""

    operation: AsyncOperation
    operand: MatrixOperand
    chunks: Chunks
    rows: int
    loaded: str


class RestRows:
    """One for each launch."""

    def __init__(self, launch: Launch) -> None:
        self._lanes, self._columns = launch.facts.of(_largest_load)
        self._warps = launch.warps_per_cta
        self._used: set[int] = set()
        self._seen: set[MatrixOperand] = set()
        self._rests: list[Rest] = []

    def multiplied(
        self,
        operation: AsyncOperation,
        product: MatrixProduct,
        operand: MatrixOperand,
        is_image: Callable[[Chunks], bool],
        cta: Any,
    ) -> None:
        """Note what an operand with an image takes; ``is_image`` says whether one of more rows has an image, too."""
        if operand in self._seen or not product.columns:
            return
        self._seen.add(operand)
        self._used.update(operand.chunks.reshape(-1).tolist())
        if operand.name == "B":
            # Warps that access the same lanes may share the columns.
            most = self._columns * max(self._warps // _QUADRANTS, 1)
            loaded = f"tcgen05.ld loads {self._columns} columns in each of up to {self._warps} warps" if most > product.columns else ""
        else:
            loaded = "tcgen05.ld loads all lanes" if self._lanes == _ALL_LANES and product.lanes < _ALL_LANES else ""
        if not loaded:
            return
        index, limit = operand.placed.index, len(cta.shared) // CHUNK
        for factor in _FACTORS:
            rows = factor * index.rows
            more = operand.first_rows(rows)
            rest = np.setdiff1d(distinct(more), distinct(operand.chunks), assume_unique=True)
            if more.max() < limit and is_image(more) and cta.shared[: limit * CHUNK].reshape(-1, CHUNK)[rest].any():
                self._rests.append(Rest(operation, operand, rest, rows * len(product.ctas), loaded))
                return

    def unused(self) -> list[Rest]:
        """The rows that no instruction has multiplied."""
        return [rest for rest in self._rests if self._used.isdisjoint(rest.chunks.tolist())]


def _largest_load(program: Program) -> tuple[int, int]:
    """The lanes and columns of the largest tcgen05.ld."""
    loads = [(program.ops[i], native) for i, native in program.natives.items() if isinstance(native, TensorAccess) and not native.write]
    placed = [fragment(native.shape, native.repeat, native.pack, _split(op, native)) for op, native in loads]
    return max((int(found.lane.max()) + 1 for found in placed), default=0), max(
        (int(found.column.max()) + 1 for found in placed), default=0
    )


def _split(op: Op, native: TensorAccess) -> int:
    """The columns from the first to the second half of the lanes."""
    operand = op.operands[native.split] if native.split >= 0 else None
    return operand.value if isinstance(operand, Const) else 0
