"""Rows of D and A in tensor memory (section "Data Path Layout Organization"), and fragments as layouts in CuTe notation.

The layout of a fragment maps (thread, register) to a place. Its strides are multiples of the symbols named in the docstring of each table;
a size that depends on the instruction is a symbol as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxlab._records import dataclass

__all__ = [
    "COPY_LAYOUTS",
    "DATA_PATHS",
    "FRAGMENT_LANES",
    "FRAGMENT_REGISTERS",
    "LOAD_REGISTERS",
    "MATRIX_FRAGMENTS",
    "TENSOR_FRAGMENTS",
    "TENSOR_MEMORY_COLUMNS",
    "TENSOR_MEMORY_LANES",
    "DataPath",
    "data_path_of",
]

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


TENSOR_FRAGMENTS: Mapping[str, str] = {
    "32x32b":   "(32,n):(L,C)",
    "16x64b":   "((2,2,8),n):((8L,C,L),2C)",
    "16x128b":  "((4,8),(2,n)):((C,L),(8L,4C))",
    "16x256b":  "((4,8),(2,2,n)):((2C,L),(C,8L,8C))",
    "16x32bx2": "((16,2),n):((L,H),C)",
}  # fmt: skip
"""Shape of tcgen05.ld and tcgen05.st -> layout: figures "Matrix Fragment" of section "Data Movement Shape".

L: lanes, C: columns, H: the columns that the immediate of ``.16x32bx2`` gives, n: repetitions. With ``.pack::16b`` C is two columns.
"""

FRAGMENT_REGISTERS: Mapping[str, int] = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Shape -> registers of a thread at ``.x1``."""

LOAD_REGISTERS: Mapping[tuple[str, int], int] = {
    (shape, 1 << power): registers << power
    for shape, registers in FRAGMENT_REGISTERS.items()
    for power in range(8)
    if registers << power <= 128
}
"""(shape, .num) -> registers; a missing key does not exist.

Tables "Various-combinations of .num and .shape" of tcgen05.ld and tcgen05.st, which are the same.
"""

FRAGMENT_LANES: Mapping[str, tuple[int, ...]] = {"32x32b": (0,), **dict.fromkeys(("16x64b", "16x128b", "16x256b", "16x32bx2"), (0, 16))}
"""Shape -> lanes of a warp's 32 at which an address may begin. Sources for 16-lane shapes begin nowhere else."""

MATRIX_FRAGMENTS: Mapping[str, str] = {
    "mma ab":      "((4,8),(h,n)):((C,R),(8R,4C))",
    "mma cd":      "((4,8),(2,h)):((2C,R),(C,8R))",
    "m8n8k4 row":  "((4,4,2),4):((R,P,4R),C)",
    "m8n8k4 col":  "((4,4,2),4):((C,P,4R),R)",
    "m8n8k4 f16":  "((4,4,2),8):((R,P,4R),C)",
    "m8n8k4 f32":  "((2,2,4,2),(2,2,2)):((R,2C,P,4R),(C,2R,4C))",
    "wgmma a":     "((4,8,4),(2,2)):((C,R,16R),(8R,4C))",
    "wgmma d":     "((4,8,4),(2,2,n)):((2C,R,16R),(C,8R,8C))",
    "ldmatrix m8n8":         "((4,8),(2,n)):((2C,R),(C,8R))",
    "ldmatrix m8n8.trans":   "((4,8),(2,n)):((2R,C),(R,8R))",
    "ldmatrix m8n16":        "((4,8),(4,n)):((4C,R),(C,8R))",
    "ldmatrix m16n16.trans": "((4,8),(4,2,n)):((4R,C),(R,8C,16R))",
    "stmatrix m16n8.trans":  "((4,8),(2,2,n)):((2R,C),(R,8C,8R))",
}  # fmt: skip
"""Instruction and operand -> layout of the values of a warp, or of a warpgroup of wgmma.

R: rows, C: columns (for A and B of mma, and A of wgmma: as many elements along K as fill a register, whatever their size), P: the product
of the four that mma.m8n8k4 computes, h: halves of 8 rows, n: repetitions. Sections "Matrix Fragments for mma...", "Register Fragments and
Shared Memory Matrix Layouts", "ldmatrix" and "stmatrix" (which takes the layouts of ldmatrix for m8n8). Rows of these two are rows of
memory.
"""

COPY_LAYOUTS: Mapping[tuple[str, str], str] = {
    ("128x256b", ""):              "(128,1):(1,0)",
    ("128x128b", ""):              "(128,1):(1,0)",
    ("4x256b", ""):                "(4,1):(32,0)",
    ("32x128b", "warpx4"):         "(32,4):(1,32)",
    ("64x128b", "warpx2::02_13"):  "(64,2):(1,64)",
    ("64x128b", "warpx2::01_23"):  "((32,2),2):((1,64),32)",
}  # fmt: skip
"""(shape, multicast) of tcgen05.cp -> layout from (row of the source, copy) to lanes."""
