"""Native operations: descriptions of memory accesses and lane exchanges that the engine compiles without a service handler.

The semantics of a native row is a function ``f(q, op)`` that returns one of these. Operands are positions in ``op.operands``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ptxlab._records import dataclass
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.layout import Layout, matrix_fragment_layout

__all__ = [
    "BOX_ALIGNMENT",
    "BOX_PERIOD",
    "MOST_PIXELS",
    "REDUCED_ELEMENTS",
    "REDUCED_TYPES",
    "SPAN_SHIFT",
    "Atomic",
    "BoxWord",
    "Collective",
    "CopyAsync",
    "LaneAccess",
    "MatrixAccess",
    "Native",
    "Nothing",
    "TensorAccess",
    "WalkWord",
    "matrix_layout",
]


class BoxWord(IntEnum):
    """The int64 words that tell compiled code how to copy boxes of a tensor map in tiled mode that are wholly inside the tensor.

    Elements are copied in chunks that the swizzle moves as a unit. The words of a part are those of the boxes of which
    only certain elements are inside, in pieces that divide a chunk: a load fills the other chunks of the box before. So it does where
    elements are padded.
    """

    MAP = 0
    """the bytes of the tensor map"""
    UNIT = 16
    """coordinate 0 must be a multiple of this, which is a power of two"""
    RANK = 17
    LIMIT = 18
    """for each coordinate, exclusive: below it the box is wholly inside"""
    PITCH = 23
    """for each coordinate, in bits of global memory"""
    DIM = 28
    """for each coordinate, the size of the tensor"""
    WRITTEN = 33
    """the size to which stores and reductions clip coordinate 0"""
    ACROSS = 34
    """for each coordinate, the elements of the box"""
    STEP = 39
    """for each coordinate, the traversal stride"""
    SPAN = 44
    """for each coordinate: the first element inside the tensor, and at `SPAN_SHIFT` the first one behind; 0 if none is inside"""
    NEXT = 49
    """the host address of the words of a part of the box, in them that of another part; 0 if there is none"""
    ADDRESS = 50
    """the global address of the first byte of the box at the coordinates 0; of a part, of its first byte"""
    EXTENT = 51
    """the bytes of global memory from the first one of a box to its last one"""
    ROWS = 52
    ROW_BYTES = 53
    """the bytes of a row in global memory, adjacent ones"""
    FOOTPRINT = 54
    """the bytes of shared memory that the rows of the box occupy"""
    TRANSACTION = 55
    """transaction bytes"""
    CHUNK = 56
    """the bytes of a chunk, or of a piece of it"""
    COUNT = 57
    """how many are copied"""
    MOVE = 58
    """host address of ``void move(from, from_order, to, to_order, count)`` for chunks (`ptxlab.native.mover`), which may round elements"""
    STORE = 59
    """the same for copies to global memory, which rounds none"""
    ELEMENT = 60
    """1 + the place of the element type in `REDUCED_ELEMENTS`; 0 if no reduction takes it, or rows of a box share elements"""
    OUTSIDE = 61
    """host address of int64 for each chunk: its place in global memory, in chunks from the first byte"""
    INSIDE = 62
    """the same in shared memory, for each place of the box modulo `BOX_PERIOD`, in units of `BOX_ALIGNMENT`; 0 where it is not known"""
    IS_SAME = 70
    """1 if all bytes of the box in shared memory are those of the tensor"""
    FILLED = 71
    """how many chunks of the box are filled"""
    FILL = 72
    """host address of a chunk of fill values"""
    FILL_ORDER = 73
    """host address of as many zeros of int64 as there are such chunks"""
    FILL_MOVE = 74
    """`MOVE` for them"""
    FILL_INSIDE = 75
    """`INSIDE` for them"""
    WALK = 83
    """in im2col mode the host address of the `WalkWord` of the tensor map"""
    RANGES = 84
    """of the bytes in global memory, `ptxlab.isa.operations.MemoryAccess.where`, less the address of the first byte"""
    END = 88


class WalkWord(IntEnum):
    """The int64 words that tell compiled code which pixels of a tensor map in im2col mode a copy moves (`ptxlab.layout.im2col_walk`)."""

    DIMENSIONS = 0
    """those of the image"""
    WALKED = 1
    """how many of them are traversed, W first"""
    PIXELS = 2
    """how many a copy moves, at most `MOST_PIXELS`"""
    STEPS = 3
    """how many pixels are traversed, at most as many"""
    POSITIONS = 4
    """host address of int64 for each pixel: its place in the traversal"""
    OFFSETS = 5
    """exclusive limit of the offsets"""
    HALO = 6
    """how many further pixels there are in the mode im2col::w; -1 in others"""
    FIRST = 7
    LAST = 10
    """for each dimension of the image where a copy may begin, and up to where; the traversal ends there"""
    LOW = 13
    STEP = 16
    """for each dimension that is traversed: where the next line begins, and the traversal stride"""
    SIZE = 19
    PITCH = 23
    """for each dimension of the image and the images: the size of the tensor, and the distance in bytes"""
    END = 27


MOST_PIXELS = 1024
"""As many pixels has a tensor map at most (cuTensorMapEncodeIm2col)."""


SPAN_SHIFT = 32
REDUCED_ELEMENTS = ("u32", "s32", "b32", "u64", "s64", "b64", "f16", "bf16", "f32", "f64")
"""The element types that reductions of bulk copies take."""
REDUCED_TYPES: Mapping[str, frozenset[str]] = {
    "add": frozenset({"u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"}),
    **dict.fromkeys(("min", "max"), frozenset({"u32", "s32", "u64", "s64", "f16", "bf16"})),
    **dict.fromkeys(("and", "or", "xor"), frozenset({"b32", "b64", "u32", "s32", "u64"})),
    **dict.fromkeys(("inc", "dec"), frozenset({"u32"})),
}
"""Operation of a reduction -> element types."""
BOX_ALIGNMENT = 128
"""Alignment of a box in shared memory."""
BOX_PERIOD = 1024
"""The swizzle of a box in shared memory depends on its address modulo this."""


def matrix_layout(write: bool, element: str, transposed: bool) -> Layout:
    """Return the layout of ldmatrix or stmatrix: (thread, value) to coefficients of R (row) and C (element in the row)."""
    if element == "b16":
        return matrix_fragment_layout(f"ldmatrix m8n8{'.trans' if transposed else ''}")
    if write:
        return matrix_fragment_layout("stmatrix m16n8.trans")
    return matrix_fragment_layout("ldmatrix m16n16.trans" if transposed else "ldmatrix m8n16")


@dataclass(frozen=True, slots=True)
class LaneAccess:
    """Each active lane reads or writes ``count`` elements of ``bits`` at its own address.

    ``space``: generic, global, shared (``shared::cta``), shared::cluster, local, const, param. ``signed``: sign-extend into a wider
    register on a read. ``value``: position of the register or vector operand; ``address``: of the bracketed operand. The whole
    ``count*bits/8`` bytes must be aligned to their size.
    """

    write: bool
    space: str
    bits: int
    count: int
    signed: bool
    address: int
    value: int

    @property
    def size(self) -> int:
        """Bytes that a lane accesses."""
        return self.bits // 8 * self.count


def store_order(size: int) -> int:
    """XORed with the numbers from 0 to 31, this gives the lanes in the order in which they store ``size`` bytes each.

    Where lanes of one instruction store to the same place, an H200 keeps the value of the lowest lane. It stores 128 bytes at a time: the
    lanes of wider accesses take part in groups of 16 or 8, and a later group overwrites an earlier one.
    """
    return min(32, 128 // size) - 1


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic read-modify-write in lane order. ``destination`` is -1 for ``red``. ``operation``: add min max and or xor exch cas inc dec.

    ``type`` is the PTX type (u32 s32 b32 u64 s64 b64 f32 f64 f16 f16x2 bf16 bf16x2 b16 b128). ``count`` > 1 for vector forms.
    """

    operation: str
    type: str
    space: str
    destination: int
    address: int
    sources: tuple[int, ...]
    count: int = 1
    noftz: bool = False

    @property
    def size(self) -> int:
        """Bytes that a lane accesses."""
        return TYPE_BITS[self.type] // 8 * self.count

    @property
    def replaces(self) -> bool:
        """Whether what it writes does not depend on what is in memory."""
        return self.operation == "exch"

    @property
    def compares(self) -> bool:
        """Whether it writes its second source if memory holds the first one."""
        return self.operation == "cas"

    @property
    def adds_in_global(self) -> bool:
        """Whether it is a float addition in global memory, which flushes f32 subnormals and does not canonicalise f64 NaNs."""
        return self.operation == "add" and self.type in ("f32", "f64") and self.space in ("global", "generic") and not self.noftz


@dataclass(frozen=True, slots=True)
class Collective:
    """An exchange inside the warp: ``name`` is shfl, vote, elect, match, redux, activemask or warpsync.

    ``mode`` is its variant (idx, ballot, add, ``max.abs.NaN`` ...), ``type`` as for `Atomic`. ``member`` is the position of the
    membermask operand, -1 if there is none. The engine runs it when all live lanes of the membermask have converged; otherwise it
    returns CONVERGE. ``anywhere``: threads at different instructions of the program may execute it together.
    """

    name: str
    mode: str
    type: str
    member: int
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """ldmatrix / stmatrix: lanes 8i to 8i+7 hold the addresses of the eight rows of register i.

    ``element``: b16, b8, or the source type that is widened to 8 bits: b6 and b4 (16 in a row of 16 bytes, with padding), s4 (16 in a row
    of 8 bytes, sign-extended). A ``transposed`` matrix of 16 rows of b8 uses the row addresses of two registers.
    """

    write: bool
    registers: int
    transposed: bool
    element: str
    address: int
    value: int
    space: str = "generic"

    @property
    def row(self) -> int:
        """Bytes of a row. The address of a row must be a multiple of this."""
        return 8 if self.element == "s4" else 16


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """tcgen05.ld / st: ``shape`` (32x32b ...), ``repeat`` (x1 ...), packing.

    Positions of the value vector, the address, and the half-split offset (-1: none).
    """

    write: bool
    shape: str
    repeat: int
    pack: bool
    value: int
    address: int
    split: int = -1


@dataclass(frozen=True, slots=True)
class CopyAsync:
    """Non-bulk cp.async of ``size`` bytes from global to shared memory.

    Positions of destination, source, the optional source size and ignore-source predicate (-1: none).
    """

    size: int
    destination: int
    source: int
    source_size: int = -1
    ignore: int = -1


@dataclass(frozen=True, slots=True)
class Nothing:
    """An instruction that changes no value: prefetch, cache hint, fence. Observers receive it if its row declares effects."""


Native = LaneAccess | Atomic | Collective | MatrixAccess | TensorAccess | CopyAsync | Nothing
