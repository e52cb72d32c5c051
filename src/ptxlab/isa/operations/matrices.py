"""Where the matrices of a product are, and what is copied for it from shared to tensor memory.

A matrix instruction says which 16-byte chunks of shared memory its operands consist of (`AsyncOperation.product`). An observer compares
them with what copies have placed there (`ptxlab.isa.operations.tiles`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.isa.context import Cta
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.layout import Major, PlacedOperand
from ptxlab.native import BoundedCache

__all__ = ["MatrixOperand", "MatrixProduct", "RegisterMatrix", "ScaleFactors", "TensorCopy", "TensorMatrix"]

_ROW = 128


@dataclass(frozen=True, slots=True, eq=False)
class MatrixOperand:
    """Matrix A or B of a product in shared memory.

    Attributes
    ----------
    name : ``"A"`` or ``"B"``; of a copy to tensor memory ``"source"``
    placed : how it is read
    chunks : the chunks of shared memory that it consists of, ``[row, chunk of k]`` if K-major, else ``[k, chunk of rows]``
    major : which dimension is contiguous
    element, container : element type, and bits of an element in shared memory
    stored : elements of k that are stored for each element of k of the product, as a divisor: 2 for a sparse A, else 1
    descriptor : the decoded matrix descriptor
    size : M or N of the instruction, of which its rows may be a part; 0 for the rows themselves
    data : the bytes of a chunk that hold elements, the first ones; padding follows them
    known : what an observer has found out about the operand, by what it depends on
    """

    name: str
    placed: PlacedOperand
    chunks: NDArray[np.intp]
    major: Major
    element: str
    container: int
    stored: int
    descriptor: SharedMemoryDescriptor | WgmmaDescriptor
    size: int = 0
    data: int = CHUNK
    known: BoundedCache[Any, Any] = field(default_factory=lambda: BoundedCache(64))

    @classmethod
    def of(
        cls,
        name: str,
        placed: PlacedOperand,
        major: Major,
        element: str,
        container: int,
        stored: int,
        descriptor: SharedMemoryDescriptor | WgmmaDescriptor,
        size: int = 0,
        data: int = CHUNK,
    ) -> MatrixOperand:
        """The operand that is read through a descriptor."""
        return cls(name, placed, placed.chunks, major, element, container, stored, descriptor, size, data)

    @property
    def title(self) -> str:
        """What findings call it."""
        return f"matrix {self.name}" if self.name in ("A", "B") else f"the {self.name}"

    @property
    def packed(self) -> int:
        """Bits of an element among those of a chunk: fewer than those of its container if padding follows them."""
        return self.container * self.data // CHUNK

    @property
    def overlaps(self) -> bool:
        """Whether two elements lie in the same bytes."""
        if "overlaps" not in self.known:
            self.known["overlaps"] = len(distinct(self.chunks)) < self.chunks.size
        return bool(self.known["overlaps"])

    def in_row_of(self, other: MatrixOperand) -> bool:
        """Whether both are the same matrix, K-major, and begin in the same row of 128 bytes."""
        row = self.descriptor.start // _ROW == other.descriptor.start // _ROW
        return row and self.name == other.name and self.major == other.major == "k"

    @property
    def per_chunk(self) -> int:
        """Elements in a chunk."""
        return CHUNK * 8 // self.container

    def chunks_of(self, descriptor: SharedMemoryDescriptor | WgmmaDescriptor, major: Major) -> NDArray[np.intp]:
        """The chunks that it would consist of with another descriptor, or in the other dimension; in the form that ``major`` says."""
        index = self.placed.index
        return PlacedOperand.of(descriptor, major, index.rows, index.k, max(self.container // 8, 1)).chunks

    def first_rows(self, rows: int) -> NDArray[np.intp]:
        """The chunks that its first rows consist of, or those of more rows."""
        return PlacedOperand.of(self.descriptor, self.major, rows, self.placed.index.k, max(self.container // 8, 1)).chunks


@dataclass(frozen=True, slots=True, eq=False)
class RegisterMatrix:
    """Matrix A or B of a product in registers.

    Attributes
    ----------
    name : ``"A"`` or ``"B"``
    operand : what the row of the instruction calls it
    element, bits : element type, and bits of an element in a register
    stored : as of a `MatrixOperand`
    index : ``[row, register of the row]``, the number of the register among those ``[warp, register, lane]`` that hold the matrix
    warps : how many hold it, each the same number of rows
    """

    name: str
    operand: str
    element: str
    bits: int
    stored: int
    index: NDArray[np.intp]
    warps: int = 1

    @property
    def title(self) -> str:
        """What findings call it."""
        return f"matrix {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class ScaleFactors:
    """The scale factors of matrix A or B of a product in tensor memory, or the metadata of a sparse A.

    Attributes
    ----------
    name : ``"A"`` or ``"B"``: the matrix
    kind : what they are, ``"scale factors"`` or ``"metadata"``
    number : the scale factor ID, the first byte of a row's cell; the sparsity selector
    count : how many a row has
    column, lane, byte : where the first one of the first row is
    columns : from ``column``, those in which there are any
    """

    name: str
    kind: str
    number: int
    count: int
    column: int
    lane: int
    byte: int
    columns: int


@dataclass(frozen=True, slots=True, eq=False)
class TensorMatrix:
    """Matrix A of a product in tensor memory.

    Attributes
    ----------
    column, columns : the first column, and how many there are
    lanes : of each CTA those that hold its rows
    element, stored : as of a `RegisterMatrix`
    bits : of the container of an element; 0 if it is shifted afterwards
    """

    column: int
    columns: int
    lanes: tuple[NDArray[np.intp], ...]
    element: str
    bits: int
    stored: int


@dataclass(frozen=True, slots=True, eq=False)
class TensorCopy:
    """Chunks of shared memory that are copied to tensor memory, in each of ``ctas``.

    Attributes
    ----------
    source : the rows and chunks, read as a K-major operand
    lanes : ``[row, copy]``, the lanes to which a row goes
    column : the first column
    expanded : the format of a chunk whose 16 elements get a byte each (`ptxlab.layout.decompression`); "" if it is copied as it is
    """

    ctas: tuple[Cta, ...]
    source: MatrixOperand
    lanes: NDArray[np.int64]
    column: int
    expanded: str = ""


@dataclass(slots=True, eq=False)
class MatrixProduct:
    """A product of matrices.

    Attributes
    ----------
    operands : those in shared memory, A before B
    ctas : the CTAs, each of which has operands of its own in its shared memory
    accumulator : identifies D; the last item where it is within a CTA, if it is in tensor memory beside the first column
    d : the element type of D
    accumulate : whether the product is added to D
    column, columns, lanes : of D in tensor memory, the first column, how many, and the lanes among those that a warp can access; 0
        columns and lanes for D in registers
    scales : the scale factors of A and of B, and the metadata of a sparse A
    tensor_a : an A in tensor memory
    watched : data that an observer keeps for it, while the launch executes it
    """

    operands: tuple[MatrixOperand, ...]
    ctas: tuple[Cta, ...]
    accumulator: tuple[Hashable, ...]
    d: str
    accumulate: bool
    column: int = -1
    columns: int = 0
    lanes: int = 0
    scales: tuple[ScaleFactors, ...] = ()
    tensor_a: TensorMatrix | None = None
    watched: Any = None
