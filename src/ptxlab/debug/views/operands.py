"""Operands as matrices: of a matrix instruction, of a copy of a tile, and of a descriptor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._points import refuse
from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.formats import FORMATS
from ptxlab.layout import LayoutError, operand_addresses
from ptxlab.machine.launch.mma_records import values_of

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op
    from ptxlab.isa.operations.products import Product
    from ptxlab.isa.operations.tiles import CopiedTile
    from ptxlab.layout import Major
    from ptxlab.machine.launch.cta import CtaState

__all__ = ["OperandView", "TileView", "described_matrix", "matrix_text", "view_of", "views_of_tiles"]

_ROWS, _COLUMNS = 8, 8
"""Elements of a matrix that its text shows."""
_CHUNK_BITS = 128


@dataclass(frozen=True, slots=True, eq=False)
class OperandView:
    """The operands of a matrix instruction, as it takes them.

    Attributes
    ----------
    opcode, line : the instruction
    m, n, k : its shape
    types : of A, B and D
    codes : by the name of a matrix its element codes: ``a`` [m, k] (of a sparse A the stored elements), ``b`` [n, k], ``d`` [m, n] as it is
        now, ``scale_a``, ``scale_b`` [rows, factors] and ``metadata`` [m, chunks] where there are such
    values : the same as numbers
    facts : descriptors and addresses, each with its fields
    accumulate : whether D is added
    """

    opcode: str
    line: int
    m: int
    n: int
    k: int
    types: dict[str, str]
    codes: dict[str, NDArray[Any]]
    facts: tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
    accumulate: bool

    @property
    def values(self) -> dict[str, NDArray[Any]]:
        """The matrices as numbers."""
        return {name: np.asarray(values_of(codes, self.types[name])) for name, codes in self.codes.items()}

    def as_text(self) -> str:
        """The corner of each matrix, and the descriptors."""
        adds = " + D" if self.accumulate else ""
        lines = [f"{self.opcode}, line {self.line}: D[{self.m}, {self.n}] = A[{self.m}, {self.k}] * B[{self.n}, {self.k}]^T{adds}"]
        lines += [f"{name}: {', '.join(f'{key} {value}' for key, value in fields)}" for name, fields in self.facts]
        for name, values in self.values.items():
            lines += [f"{name} .{self.types[name]} {list(values.shape)}", matrix_text(values)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        facts = {
            name: {key: value if isinstance(value, bool | int) else str(value) for key, value in fields} for name, fields in self.facts
        }
        matrices = {name: {"type": self.types[name], "values": values.tolist()} for name, values in self.values.items()}
        return (
            {"opcode": self.opcode, "line": self.line, "shape": [self.m, self.n, self.k], "accumulate": self.accumulate} | matrices | facts
        )


@dataclass(frozen=True, slots=True, eq=False)
class TileView:
    """A box of an array in global memory that a copy places in shared memory, with what it puts where the box leaves the array.

    Attributes
    ----------
    element : the element type that the tensor map names
    coordinates : of the box in the array, innermost first
    cta, offset : its first byte in shared memory
    values : the elements, outermost dimension first
    """

    element: str
    coordinates: tuple[int, ...]
    cta: tuple[int, int, int]
    offset: int
    values: NDArray[Any]

    def as_text(self) -> str:
        """Where the box is, and its corner."""
        flat = self.values.reshape(-1, self.values.shape[-1])
        where = f"shared offset {self.offset:#x} of CTA {self.cta}"
        return f"box at {list(self.coordinates)} .{self.element} {list(self.values.shape)}, to {where}\n{matrix_text(flat)}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = self.values.tolist()
        return {"element": self.element, "coordinates": list(self.coordinates), "cta": self.cta, "offset": self.offset, "values": values}


def matrix_text(values: NDArray[Any]) -> str:
    """The corner of a matrix in columns."""
    shown = [[f"{value:g}" if value.dtype.kind == "f" else str(value) for value in row[:_COLUMNS]] for row in values[:_ROWS]]
    width = max((len(cell) for row in shown for cell in row), default=0)
    more = " ..." if values.shape[1] > _COLUMNS else ""
    lines = ["  " + " ".join(f"{cell:>{width}}" for cell in row) + more for row in shown]
    return "\n".join([*lines, *(["  ..."] if len(values) > _ROWS else [])])


def view_of(op: Op, product: Product) -> OperandView:
    """What a product takes now."""
    types = {"a": product.a, "b": product.b, "d": product.d}
    codes = {"a": product.codes("a").copy(), "b": product.codes("b").copy(), "d": product.read_d().copy()}
    for name in ("a", "b"):
        found = product.scale_factors(name)
        if found is not None:
            types[f"scale_{name}"], codes[f"scale_{name}"] = found
    metadata = product.metadata()
    if metadata is not None:
        types["metadata"], codes["metadata"] = "b4", metadata
    return OperandView(op.opcode, op.line, product.m, product.n, product.k, types, codes, product.facts(), product.accumulate)


def views_of_tiles(tiles: Iterable[CopiedTile]) -> list[TileView]:
    """The boxes that a copy places in shared memory."""
    found = []
    for tile in tiles:
        array = tile.array
        codes = _codes(tile.contents(), _CHUNK_BITS // array.per_chunk)
        shape = (*array.counts[:0:-1], array.counts[0] * array.per_chunk)
        values = np.asarray(values_of(codes, array.element)).reshape(shape)
        found.append(TileView(array.element, tile.coordinates, tile.cta.ctaid, tile.offset, values))
    return found


def _codes(held: NDArray[np.uint8], bits: int) -> NDArray[Any]:
    """Bytes as element codes, of 4 bits and more."""
    if bits == 4:
        return np.stack([held & 15, held >> 4], axis=-1).reshape(-1)
    return held.view(f"u{bits // 8}")


def described_matrix(cta: CtaState, raw: int, rows: int, k: int, element: str, major: Major, wgmma: bool, padded: bool) -> NDArray[Any]:
    """The matrix that an instruction would read through a descriptor from the shared memory of a CTA, as numbers."""
    if element not in FORMATS:
        raise refuse("G103", f"there is no element type {element}", fix=f"element types are {', '.join(sorted(FORMATS))}")
    bits = FORMATS[element].bits
    try:
        descriptor = (WgmmaDescriptor if wgmma else SharedMemoryDescriptor).decode(raw)
        if padded and bits != 4:
            raise LayoutError("only elements of 4 bits can be padded")
        places = operand_addresses(descriptor, rows, k, bits, major, padded)
    except (LayoutError, ValueError) as error:
        raise refuse("G103", f"{raw:#x} describes no matrix of {rows} x {k} {element}: {error}") from None
    packed = bits in (4, 6)
    if not len(places) or places.min() < 0 or places.max() // (8 if packed else 1) >= len(cta.shared):
        raise refuse("G103", f"the matrix that {raw:#x} describes is not inside the {len(cta.shared)} bytes of shared memory")
    if packed:
        wide = (
            cta.shared[places >> 3].astype(np.uint16)
            | cta.shared[np.minimum((places >> 3) + 1, len(cta.shared) - 1)].astype(np.uint16) << 8
        )
        codes = (wide >> (places & 7) & (1 << bits) - 1).astype(np.uint8)
    else:
        size = bits // 8
        codes = np.ascontiguousarray(cta.shared[places[..., None] + np.arange(size)]).view(f"u{size}")[..., 0]
    return np.asarray(values_of(codes, element))
