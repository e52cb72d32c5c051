"""Which data a copy places in shared memory, and which of it a matrix instruction takes as its operands.

An asynchronous operation that copies boxes of arrays to shared memory says so (`AsyncOperation.tiles`), and a matrix instruction says which
16-byte chunks its operands consist of (`AsyncOperation.product`). An observer compares the two.

`Product` is a matrix instruction in numbers: shape, descriptors, and where its operands and its accumulator are, wherever that is. Families
make it for observers, and nothing is read before one asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.isa.context import Cta
from ptxlab.layout import Major, PlacedOperand
from ptxlab.native import BoundedCache

__all__ = [
    "CHUNK",
    "NO_BYTES",
    "CopiedBytes",
    "CopiedTile",
    "HeldLine",
    "MatrixOperand",
    "MatrixProduct",
    "Product",
    "ProductPlace",
    "Rate",
    "RegisterMatrix",
    "ScaleFactors",
    "TensorCopy",
    "TensorMatrix",
    "TileArray",
]

CHUNK = 16
"""Bytes that every swizzle and every canonical layout keeps together."""
_ROW = 128
_WARP = 32


@dataclass(frozen=True, slots=True, eq=False)
class TileArray:
    """An array in global memory as a tensor map describes it; two maps are two arrays.

    Attributes
    ----------
    element : the element type that the map names
    counts : size of the box, innermost first, the innermost dimension in chunks
    regular : whether coordinates say where in the array a box lies (not for im2col and gathered rows)
    swizzle : the swizzling mode, by its name in shared-memory descriptors; empty if descriptors have no such mode
    per_chunk : elements in a chunk of shared memory
    address : of the first element
    whole_rows : whether a row of the box is a row of the array, which may be arranged in blocks of columns
    """

    element: str
    counts: tuple[int, ...]
    regular: bool
    swizzle: str
    per_chunk: int
    address: int
    whole_rows: bool


@dataclass(slots=True, eq=False)
class CopiedTile:
    """A box that is copied to shared memory.

    Attributes
    ----------
    array, coordinates : the box in the array
    cta, offset, size : its first byte in shared memory, and the number of bytes from there to its end
    chunks : for each chunk of the box, in order of the array, its chunk in shared memory, counted from ``offset``
    contents : returns the bytes of the box in order of the array, as the copy writes them
    address, places : of the first chunk of the box in global memory, and of each chunk its distance in bytes from there; None if a part
        of the box is outside the array, or if it is converted
    data : the bytes of a chunk that come from global memory, the first ones; padding follows them
    """

    array: TileArray
    coordinates: tuple[int, ...]
    cta: Cta
    offset: int
    size: int
    chunks: NDArray[np.intp]
    contents: Callable[[], NDArray[np.uint8]]
    address: int = 0
    places: NDArray[np.int64] | None = None
    data: int = CHUNK


class CopiedBytes(NamedTuple):
    """Contiguous bytes that are copied to shared memory as they are.

    Attributes
    ----------
    cta, offset, size : the bytes in shared memory
    address : the global address from which they come, if they come from global memory
    origin : the CTA and the offset of the bytes in its shared memory from which they come, if they do
    words : if they come from registers, from where each word has been loaded (`WarpContext.loaded_from`)
    """

    cta: Cta
    offset: int
    size: int
    address: int | None
    origin: tuple[Cta, int] | None = None
    words: NDArray[np.uint64] | None = None


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


Codes = NDArray[Any]

NO_BYTES: tuple[tuple[Cta, NDArray[np.intp]], ...] = ()
"""The bytes of an operand that is not in shared memory."""


class ProductPlace(NamedTuple):
    """Where an element of D is: tensor memory (CTA, lane, column), or a register (CTA, lane, warp and the number of the register)."""

    cta: Cta
    lane: int
    column: int | None = None
    warp: int | None = None
    register: int | None = None

    def __str__(self) -> str:
        if self.column is not None:
            return f"lane {self.lane}, column {self.column} of tensor memory"
        return f"register {self.register} of D in warp {self.warp}, lane {self.lane}"


class Rate(NamedTuple):
    """What decides how many operations tensor cores do in a cycle.

    Attributes
    ----------
    types : ``f64``, ``tf32``, ``f16``, ``f8`` (also 6 bits), ``f4``, ``int8``, or the types themselves for those that are older
    sparse : whether A is sparse
    """

    types: str
    sparse: bool

    def __str__(self) -> str:
        return f"sparse {self.types}" if self.sparse else self.types


_RATES = {
    **{name: name for name in ("f64", "tf32", "f16")},
    "bf16": "f16",
    **dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), "f8"),
    **dict.fromkeys(("s8", "u8"), "int8"),
}
_NARROW = 64
"""Elements of k of a dense product of 4-bit floats that runs at their own rate; the kinds that also take 8-bit ones have fewer."""


class HeldLine(NamedTuple):
    """Where a row of an operand is that is not in shared memory: in registers of a warp, or in cells of tensor memory.

    Attributes
    ----------
    warp, operand, registers : the warp, what the row of the instruction calls the operand, and of each word the number of its register
        and the lane
    cells : the lanes of tensor memory, and the columns
    """

    cta: Cta
    warp: int = -1
    operand: str = ""
    registers: tuple[tuple[int, int], ...] = ()
    cells: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


class Product(ABC):
    """One executed product D = A B or D = A B + D, with A [m, k] and B [n, k].

    Attributes
    ----------
    m, n, k : shape of the instruction; a sparse A stores fewer elements of a row than k
    a, b, d : element types
    accumulate : whether what D (or C) held is added
    sparse : whether A is stored with metadata
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    accumulate: bool
    sparse: bool = False

    @property
    def rate(self) -> Rate:
        """By what tensor cores are fast."""
        if self.a == self.b == "e2m1" and self.k >= _NARROW * (2 if self.sparse else 1):
            return Rate("f4", self.sparse)
        return Rate(_RATES.get(self.a, self.a), self.sparse)

    @property
    @abstractmethod
    def ctas(self) -> tuple[Cta, ...]:
        """The CTAs whose memory it uses."""

    @property
    @abstractmethod
    def accumulator(self) -> Hashable:
        """Identifies where D is; with ``accumulate``, the product is added to the one before with the same accumulator."""

    @property
    def result(self) -> Hashable:
        """What `accumulator` of a product is that adds to this D."""
        return self.accumulator

    @abstractmethod
    def facts(self) -> tuple[tuple[str, tuple[tuple[str, object], ...]], ...]:
        """Descriptors and addresses: the name of each, and its fields."""

    @abstractmethod
    def place(self, m: int, n: int) -> ProductPlace:
        """Where an element of D is."""

    @abstractmethod
    def codes(self, operand: str) -> Codes:
        """The elements of ``"a"`` [m, stored k] or ``"b"`` [n, k] as the instruction takes them, in unsigned numbers."""

    def scale_factors(self, operand: str) -> tuple[str, Codes] | None:
        """The scale factors of ``"a"`` [m, factors] or ``"b"`` [n, factors], and their type; None without block scaling."""
        return None

    def metadata(self) -> Codes | None:
        """The sparsity metadata [m, chunks of k] of a sparse A, as codes of 4 bits."""
        return None

    @abstractmethod
    def read_d(self) -> Codes:
        """The bits of D [m, n] as they are now."""

    @abstractmethod
    def write_d(self, bits: Codes) -> None:
        """Replace D, after the product."""

    def in_registers(self) -> tuple[RegisterMatrix, ...]:
        """The matrices in registers, A before B."""
        return ()

    def frames(self) -> tuple[NDArray[np.uint32], ...]:
        """The registers of the warps that hold matrices, with which compiled code works: uint32[row, lane]."""
        return ()

    def held(self, operand: str, line: int) -> tuple[HeldLine, ...]:
        """Where row ``line`` of ``"a"`` or ``"b"`` is, unless it is in shared memory; or what belongs to it.

        That are ``"scale_a"`` and ``"scale_b"``, the scale factors of the row, and ``"metadata"``, the sparsity metadata of a row of A.
        """
        found = next((matrix for matrix in self.in_registers() if matrix.name.lower() == operand), None)
        if found is None:
            return ()
        register, lane = np.divmod(found.index[line] % (found.index.size // found.warps), _WARP)
        registers = tuple(zip(register.tolist(), lane.tolist(), strict=True))
        warp = self.first_warp + line * found.warps // len(found.index)
        return (HeldLine(self.ctas[0], warp, found.operand, registers),)

    @property
    def first_warp(self) -> int:
        """The first of the warps that hold matrices in registers."""
        return -1

    def bytes_of(self, operand: str, line: int) -> tuple[tuple[Cta, NDArray[np.intp]], ...]:
        """The bytes of row ``line`` of A, or of row ``line`` of B (a column of the product), in shared memory."""
        return NO_BYTES
