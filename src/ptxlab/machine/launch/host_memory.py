"""What launches and CTAs have in host memory, which the next ones of the program use again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import WORDS
from ptxlab.engine.mbarrier_rows import ROW_BYTES, ROW_CELLS, Cell
from ptxlab.engine.repetitions import Repetitions
from ptxlab.engine.turns.words import BarrierCell, GridWord
from ptxlab.machine.memory.global_memory import aligned_bytes
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine.program import Program

__all__ = ["ClusterCount", "CtaMemory", "LaunchMemory"]

_SHARED_ALIGNMENT, _PARAMETER_ALIGNMENT = 1024, 64
_PHASES = int(Cell.PHASES)
_NEXT, _CANCELED = int(GridWord.NEXT), int(GridWord.CANCELED)
_POISON = b"\xff"
"""The contents of fresh shared memory: a NaN in every floating-point format."""


def _cells(words: NDArray[np.uint64]) -> memoryview:
    """Words of a context as signed numbers."""
    return words.data.cast("B").cast("q")


class LaunchMemory:
    """The parameters of a launch, and what compiled code is told of it.

    Attributes
    ----------
    parameters : uint8[bytes]
    counts : int64, one for each instruction: the executions of services
    permitted : int64, one for each instruction: 1 if compiled code may complete it, -1 if it may after the handler has, 2 if it may block
        the warp, too (`Word.PERMITTED`)
    permitted_beside : the same for lanes that run while others of their warp wait (`Word.PERMITTED_BESIDE`)
    progress : one int64, `Launch.progress`
    repetitions : executions that compiled code repeats; None if the program has no such instructions
    cells : the context's words that are the same in all warps, as signed numbers
    grid : int64, `GridWord`
    parameters_address, counts_address, permitted_address, permitted_beside_address, progress_address, grid_address : host
        addresses
    """

    __slots__ = (
        "_counts", "_grid", "_parameters", "_permitted", "_progress", "_repetitions", "_words", "cells", "counts", "counts_address", "grid",
        "grid_address", "parameters", "parameters_address", "permitted", "permitted_address", "permitted_beside",
        "permitted_beside_address", "progress", "progress_address", "repetitions",
    )  # fmt: skip

    def __init__(self, program: Program, size: int, repeats: bool) -> None:
        self.parameters = aligned_bytes(max(size, 1), _PARAMETER_ALIGNMENT)[:size]
        self._parameters = self.parameters.data
        self._counts: NDArray[np.int64] = np.zeros(max(len(program.ops), 1), np.int64)
        self.counts = self._counts.data[: len(program.ops)]
        self._permitted: NDArray[np.int64] = np.zeros((2, len(self._counts)), np.int64)
        self.permitted, self.permitted_beside = self._permitted[0].data, self._permitted[1].data
        self._words: NDArray[np.uint64] = np.zeros(WORDS, np.uint64)
        self.cells = _cells(self._words)
        self._progress: NDArray[np.int64] = np.zeros(1, np.int64)
        self.progress = self._progress.data
        self._grid: NDArray[np.int64] = np.zeros(GridWord.END, np.int64)
        self.grid, self.grid_address = self._grid.data, address_of(self._grid)
        self.repetitions: Repetitions | None = None
        self._repetitions: dict[bool, Repetitions] | None = {} if repeats else None
        self.parameters_address, self.counts_address = address_of(self.parameters), address_of(self._counts)
        self.permitted_address, self.progress_address = address_of(self._permitted), address_of(self._progress)
        self.permitted_beside_address = self.permitted_address + self._permitted.strides[0]

    def begin(self, parameters: bytes, deferred: bool) -> None:
        """Let a launch begin: with these parameters, and nothing counted; ``deferred``: operations perform later than they are issued."""
        if self._repetitions is not None:
            if deferred not in self._repetitions:
                self._repetitions[deferred] = Repetitions()
            self.repetitions = self._repetitions[deferred]
        self._parameters[:] = parameters
        self._counts.fill(0)
        self._permitted.fill(0)
        self._grid.fill(0)
        self.progress[0] = 0


class ClusterCount:
    """Counts the clusters of a launch in words that compiled code shares (`GridWord`).

    Parameters
    ----------
    order : the indices of the clusters, in the order in which they start
    grid : how many there are in x, y and z
    size : how many CTAs each has
    """

    __slots__ = ("_order", "_words")

    def __init__(self, words: memoryview, order: Sequence[int], grid: Sequence[int], size: Sequence[int]) -> None:
        self._words = words
        self._order = None if isinstance(order, range) else np.array(order, np.int64)
        across, down, _ = grid
        words[GridWord.COUNT], words[GridWord.ACROSS], words[GridWord.DOWN] = len(order), across, down
        words[GridWord.ORDER] = 0 if self._order is None else address_of(self._order)
        for axis, ctas in enumerate(size, GridWord.SIZE):
            words[axis] = ctas

    def leave_to_handlers(self) -> None:
        """Compiled code cancels no cluster."""
        self._words[GridWord.HANDLED] = 1

    @property
    def next(self) -> int:
        """The position of the cluster that starts next in the order of all."""
        position: int = self._words[_NEXT]
        return position

    @next.setter
    def next(self, position: int) -> None:
        self._words[_NEXT] = position

    @property
    def canceled(self) -> int:
        """How many have been cancelled."""
        count: int = self._words[_CANCELED]
        return count

    @canceled.setter
    def canceled(self, count: int) -> None:
        self._words[_CANCELED] = count


class CtaMemory:
    """The shared memory of a CTA, and what compiled code is told of the CTA.

    Attributes
    ----------
    shared : uint8[bytes], the shared memory
    tokens : the same as 64-bit words
    repeated : the number of the CTA's state, and the bases of executions (`Word.REPEATED_IN`)
    cells : the context's words that are the same in all warps of the CTA, as signed numbers
    barriers : int64, the barriers of the CTA (`BarrierCell`)
    cluster : those that are the cells of a cluster of which it is the first CTA (`ptxlab.engine.turns.words.ClusterCell`)
    shared_address, repeated_address, barriers_address : host addresses
    """

    __slots__ = (
        "_barriers", "_bytes", "_fresh", "_objects", "_repeated", "_rows", "_words", "barriers", "barriers_address", "cells", "cluster",
        "repeated", "repeated_address", "shared", "shared_address", "tokens",
    )  # fmt: skip

    def __init__(self, size: int) -> None:
        whole = aligned_bytes(size + size // 8 * ROW_BYTES, _SHARED_ALIGNMENT)
        self.shared = whole[:size]
        self._bytes, self._fresh = self.shared.data, _fresh(size)
        self.tokens = self._bytes.cast("Q")
        self._rows = whole[size:].data.cast("i")
        self._objects: set[int] = set()
        self._words: NDArray[np.uint64] = np.zeros(WORDS, np.uint64)
        self.cells = _cells(self._words)
        self._barriers: NDArray[np.int64] = np.zeros(BarrierCell.END, np.int64)
        self.barriers = self._barriers.data
        self.cluster = self.barriers[BarrierCell.OF_CLUSTER : BarrierCell.RESET]
        self._repeated: NDArray[np.int64] = np.zeros(2, np.int64)
        self.repeated = self._repeated.data
        self.shared_address, self.barriers_address = address_of(self.shared), address_of(self._barriers)
        self.repeated_address = address_of(self._repeated)

    def begin(self, cells: memoryview) -> None:
        """Let a CTA begin: with fresh shared memory, and the words that it has in common with all CTAs of the launch."""
        self._bytes[:] = self._fresh
        self.repeated[0] = self.repeated[1] = 0
        self.cells[:] = cells
        self._barriers[: BarrierCell.RESET] = 0
        for offset in self._objects:
            self._row(offset)[_PHASES] = 0
        self._objects.clear()

    def mbarrier_row(self, offset: int) -> memoryview:
        """The row of an mbarrier object at a window offset (`ptxlab.engine.mbarrier_rows`), until the next CTA begins."""
        self._objects.add(offset)
        return self._row(offset)

    def _row(self, offset: int) -> memoryview:
        first = (offset >> 3) * ROW_CELLS
        return self._rows[first : first + ROW_CELLS]


@lru_cache(maxsize=8)
def _fresh(size: int) -> bytes:
    return _POISON * size
