"""The tensor memory of one SM, and the allocations of its columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import numpy as np
from numpy.typing import NDArray

from ptxlab.machine.memory.global_memory import aligned_bytes

__all__ = ["COLUMNS", "GRANULE", "LANES", "POISON", "TensorMemory", "new_cells"]

COLUMNS = 512
LANES = 128
GRANULE = 32
"""Columns are granted in units of 32 (section "Tensor Memory Allocation")."""
POISON = 0x7FFF7FFF
"""The contents of fresh tensor memory: a NaN as one f32 and as two f16."""


def new_cells() -> NDArray[np.uint32]:
    """The array of the cells of a tensor memory, [column, lane]."""
    return aligned_bytes(COLUMNS * LANES * 4).view(np.uint32).reshape(COLUMNS, LANES)


class TensorMemory:
    """512 columns of 128 lanes of 32 bits, granted to the CTAs that share the SM.

    Parameters
    ----------
    first : the column where the search for a free range starts on an idle SM (launch option ``tmem_offset``)
    fill : called with the columns of a new allocation, which hold a NaN
    cells : makes the array of the cells, or takes that of a tensor memory which is used no more

    Examples
    --------
    >>> tensor = TensorMemory()
    >>> tensor.allocate(128, "a"), tensor.allocate(256, "b"), tensor.allocate(256, "c")
    (0, 128, None)
    >>> tensor.deallocate(0, 64, "a")
    'the allocation at column 0 has 128 columns, not 64'
    >>> tensor.deallocate(0, 128, "a") is None
    True
    """

    __slots__ = ("_allocations", "_cells", "_fill", "_first", "_owned", "_words")

    def __init__(
        self,
        first: int = 0,
        fill: Callable[[NDArray[np.uint32]], None] | None = None,
        cells: Callable[[], NDArray[np.uint32]] | None = None,
    ) -> None:
        self._words: NDArray[np.uint32] | None = None
        self._first = first
        self._fill = fill
        self._cells = cells or new_cells
        self._allocations: dict[int, tuple[int, Hashable]] = {}
        """By the first column: the number of columns, and the owner."""
        self._owned: dict[Hashable, NDArray[np.uint8]] = {}

    @property
    def words(self) -> NDArray[np.uint32]:
        """uint32[512, 128], the cells as [column, lane]; made when they are first asked for."""
        if self._words is None:
            self._words = self._cells()
            self._words[:] = POISON
        return self._words

    def owned(self, owner: Hashable) -> NDArray[np.uint8]:
        """uint8[512]: 1 where the column belongs to ``owner``; one array for the owner's whole life, changed in place."""
        found = self._owned.get(owner)
        if found is None:
            found = self._owned[owner] = np.zeros(COLUMNS, np.uint8)
        return found

    def candidates(self, columns: int) -> Iterator[int]:
        """Yield the columns where a free range of this size starts, in the order of preference."""
        free = np.ones(COLUMNS, bool)
        for start, (taken, _) in self._allocations.items():
            free[start : start + taken] = False
        for step in range(COLUMNS // GRANULE):
            start = (self._first + step * GRANULE) % COLUMNS
            if start + columns <= COLUMNS and free[start : start + columns].all():
                yield start

    def allocate(self, columns: int, owner: Hashable, column: int | None = None) -> int | None:
        """Return the first column of a new allocation, None if none is free now; ``column`` chooses one of the `candidates`."""
        start = next(self.candidates(columns), None) if column is None else column
        if start is None:
            return None
        self._allocations[start] = columns, owner
        self.owned(owner)[start : start + columns] = 1
        self.words[start : start + columns] = POISON
        if self._fill is not None:
            self._fill(self.words[start : start + columns])
        return start

    def deallocate(self, column: int, columns: int, owner: Hashable) -> str | None:
        """Free an allocation; return the reason if that is not allowed, else None."""
        found = self._allocations.get(column)
        if found is None:
            inside = self._holder(column)
            if inside is not None:
                return f"column {column} lies inside the allocation that starts at column {inside}"
            return f"no allocation starts at column {column}"
        if found[1] != owner:
            return f"the allocation at column {column} belongs to another CTA"
        if found[0] != columns:
            return f"the allocation at column {column} has {found[0]} columns, not {columns}"
        self._free(column)
        return None

    def allocations_of(self, owner: Hashable) -> tuple[tuple[int, int], ...]:
        """Return the allocations of ``owner`` as (first column, columns)."""
        return tuple((start, columns) for start, (columns, whose) in sorted(self._allocations.items()) if whose == owner)

    def release(self, owner: Hashable) -> None:
        """Free all allocations of ``owner`` and remove it (its CTA has exited)."""
        for start, _ in self.allocations_of(owner) if self._allocations else ():
            self._free(start)
        self._owned.pop(owner, None)

    def owner_of(self, column: int) -> Hashable | None:
        """Return the owner of a column, None if it is free."""
        start = self._holder(column)
        return None if start is None else self._allocations[start][1]

    def _holder(self, column: int) -> int | None:
        return next((start for start, (columns, _) in self._allocations.items() if start <= column < start + columns), None)

    def _free(self, start: int) -> None:
        columns, owner = self._allocations.pop(start)
        self.owned(owner)[start : start + columns] = 0
