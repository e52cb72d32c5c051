"""Where tcgen05.mma keeps the rows of D (and A) in tensor memory: section "Data Path Layout Organization"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DATA_PATHS", "TENSOR_MEMORY_COLUMNS", "TENSOR_MEMORY_LANES", "DataPath", "data_path_of"]

TENSOR_MEMORY_LANES, TENSOR_MEMORY_COLUMNS = 128, 512
"""Size of the tensor memory of an SM in cells of 32 bits: section "Tensor Memory Addressing"."""


@dataclass(frozen=True, slots=True)
class DataPath:
    """One layout.

    The lane of row r (of the CTA's own rows) is ``r`` or, where half of the data path is used, ``32*(r/16) + r%16``. The columns
    of D fall into ``banks`` equal parts; part b begins ``b * (128/banks)`` lanes further down.

    Attributes
    ----------
    letter : the layout's ID
    rows : rows of D that one CTA keeps
    banks : parts of N
    half : only 16 lanes of each 32 are used
    organization : as the specification names it
    """

    letter: str
    rows: int
    banks: int
    half: bool
    organization: str

    @property
    def bank_lanes(self) -> int:
        """Lanes from one part of N to the next."""
        return TENSOR_MEMORY_LANES // self.banks

    @property
    def alignment(self) -> tuple[int, ...]:
        """Lanes of the 32 at which D may begin."""
        return (0, 16) if self.half else (0,)


_ROWS = {
    path.letter: path
    for path in (
        DataPath("A", 128, 1, False, "4x1"),
        DataPath("B", 64, 2, False, "2x2"),
        DataPath("C", 64, 1, True, "4x1 (1/2 datapath utilized)"),
        DataPath("D", 128, 1, False, "4x1"),
        DataPath("E", 64, 2, False, "2x2"),
        DataPath("F", 64, 1, True, "4x1 (1/2 datapath utilized)"),
        DataPath("G", 32, 4, False, "1x4"),
    )
}

DATA_PATHS: Mapping[tuple[int, int, bool, bool], DataPath] = {
    (m, group, ws, sparse): _ROWS[letter]
    for m, group, modes, sparsities, letter in (
        (256, 2, (False,), (False, True), "A"),
        (128, 2, (False,), (False,), "B"),
        (128, 2, (False,), (True,), "C"),
        (128, 1, (False, True), (False, True), "D"),
        (64, 1, (True,), (False, True), "E"),
        (64, 1, (False,), (False, True), "F"),
        (32, 1, (True,), (False, True), "G"),
    )
    for ws in modes
    for sparse in sparsities
}
"""(M, cta_group, .ws, sparse) -> layout."""


def data_path_of(m: int, cta_group: int = 1, ws: bool = False, sparse: bool = False) -> DataPath:
    """The layout of a combination.

    >>> data_path_of(64).letter
    'F'
    """
    path = DATA_PATHS.get((m, cta_group, ws, sparse))
    if path is None:
        raise ValueError(f"no data path layout for M = {m}, cta_group::{cta_group}{', .ws' if ws else ''}{', sparse' if sparse else ''}")
    return path
