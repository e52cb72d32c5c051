"""Programs that multiply matrices of given types and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.formats import FORMATS, Packing
from ptxlab.native import address_of
from ptxlab.numerics._mma_program import MmaProgram, expand, forget, move, multiply, prepare, prepare_groups, scale_rows, unpack
from ptxlab.numerics._operand import Prepared
from ptxlab.numerics._prepared import check_options
from ptxlab.numerics._steps import find_step, is_wide
from ptxlab.numerics.ir.kernels import group_preparer_address, multiplier_address, preparer_address
from ptxlab.numerics.ir.prepare import SIGN
from ptxlab.numerics.ir.unpack import SLOT, unpacked_bytes

__all__ = ["AccumulatorRef", "MetadataGather", "MmaKernel", "OperandGather", "ScaleGather", "mma_kernel"]

_FUNCTIONS = ("multiply", "a", "b")
QUICK_RUNS = 512
"""Programs of a kernel run so often before its functions are optimised."""
_GROUP = 16
"""Elements of a group."""


class ScaleGather(NamedTuple):
    """The location of scales: ``order`` [rows, scales of a row] are the places of bytes, counted from ``base``."""

    base: int
    order: NDArray[np.int64]


class MetadataGather(NamedTuple):
    """The location of a sparse A's metadata: ``order`` [chunks, rows] are the places of bytes, counted from ``base``.

    ``shifts`` (uint8 [chunks, rows]) say where each code begins in its byte. Both are contiguous.
    """

    base: int
    order: NDArray[np.int64]
    shifts: NDArray[np.uint8]


class OperandGather(NamedTuple):
    """The location of the codes of an operand: ``order`` lists units of ``unit`` bytes, counted from ``base`` plus ``offset``.

    After the units are gathered into consecutive memory, and codes with a ``packing`` have got a byte each, ``over_rows`` is the stride of
    rows and ``over_k`` the stride along K, in bytes. The operand begins at row ``first``. ``scales`` and ``metadata`` are those of its
    rows; with metadata, the codes are those of the stored elements. The rows of ``zeros``, counted from ``first``, count as zeros.
    """

    base: int
    offset: int
    order: NDArray[np.int64]
    unit: int
    over_rows: int
    over_k: int
    first: int = 0
    packing: Packing | None = None
    scales: ScaleGather | None = None
    metadata: MetadataGather | None = None
    zeros: NDArray[np.int64] | None = None


class AccumulatorRef(NamedTuple):
    """The location of the accumulator's uint32 cells [n, m], at ``base`` plus ``offset``.

    ``stride`` is the distance in bytes of lines of m cells. With an ``order``, the cells are in units of 16 that ``order`` lists.
    """

    base: int
    offset: int
    stride: int
    order: NDArray[np.int64] | None = None


_CELL_UNIT = 64
"""Bytes of a unit of 16 consecutive cells in an accumulator with an ``order``."""


class MmaKernel:
    """Makes programs for given types and sizes. They share scratch buffers, because only one runs at a time. `mma_kernel` makes it.

    Its functions are compiled without optimisation at first, and optimised when its programs have run often.

    Attributes
    ----------
    quick_runs : how often programs may still run before the functions are optimised; 0 if they are
    """

    __slots__ = (
        "_formats", "_functions", "_groups", "_negate", "_option", "_orders", "_prepared", "_scale", "_scratch", "_step", "_zeros", "k",
        "m", "n", "quick_runs", "wide",
    )  # fmt: skip

    def __init__(
        self,
        kind: str | None,
        types: tuple[str, str, str],
        m: int,
        n: int,
        k: int,
        negate: tuple[bool, bool],
        saturate: bool,
        sparse: bool,
        scale: tuple[str, int] | None = None,
    ) -> None:
        d, a, b = types
        step = find_step("wgmma" if kind is None else "tcgen05", kind, a, b, d, k // 2 if sparse else k)
        check_options(step, saturate, any(negate), 0)
        self.m, self.n, self.k, self.wide = m, n, k, is_wide(a, b)
        self._formats = {"a": a, "b": b}
        self._step = step
        self._functions = np.zeros(len(_FUNCTIONS), np.int64)
        self.quick_runs = QUICK_RUNS
        self._negate = dict(zip("ab", negate, strict=True))
        self._scale = scale
        self._groups = k // (_GROUP << sparse) if step.group > 1 else 0
        self._option = int(saturate)
        self._prepared: dict[tuple[str, int], Prepared] = {}
        self._orders: dict[tuple[int, int, int], NDArray[np.int64]] = {}
        self._scratch: dict[tuple[str, int], NDArray[np.uint8]] = {}
        self._zeros: dict[tuple[int, int, bytes], NDArray[np.int64]] = {}

    def count_run(self) -> None:
        """Count a run of a program, and optimise the functions of all programs if there were many."""
        self.quick_runs = max(self.quick_runs - 1, 0)
        if not self.quick_runs:
            for index in np.flatnonzero(self._functions):
                self._functions[index] = self._function(_FUNCTIONS[index])

    def _function(self, name: str) -> int:
        """The host address of a function."""
        quick = self.quick_runs > 0
        if name == "multiply":
            return multiplier_address(self._step, self.wide, quick)
        if self._groups and self._scale is not None:
            return group_preparer_address(self._scale[0], name, quick)
        return preparer_address(self._formats[name], self.wide, name, quick)

    def _place(self, name: str) -> int:
        """The address of the word that holds the address of a function."""
        index = _FUNCTIONS.index(name)
        if not self._functions[index]:
            self._functions[index] = self._function(name)
        return address_of(self._functions) + 8 * index

    def _scratch_of(self, use: str, size: int) -> int:
        """The host address of the scratch buffer of ``size`` bytes for a use."""
        found = self._scratch.get((use, size))
        if found is None:
            found = self._scratch[use, size] = np.zeros(size, np.uint8)
        return address_of(found)

    def _order_of(self, count: int, length: int, stride: int) -> NDArray[np.int64]:
        """The first ``length`` units of lines of ``stride`` units."""
        found = self._orders.get((count, length, stride))
        if found is None:
            found = (np.arange(count)[:, None] * stride + np.arange(length)).reshape(-1)
            self._orders[count, length, stride] = found
        return found

    def _zero(self, role: str, codes: int, strides: tuple[int, int], rows: NDArray[np.int64]) -> tuple[int, ...]:
        """The row that writes zeros to rows of gathered codes with these strides."""
        size = FORMATS[self._formats[role]].dtype.itemsize
        key = *strides, rows.tobytes()
        places = self._zeros.get(key)
        if places is None:
            over_rows, over_k = strides
            places = self._zeros[key] = ((rows[:, None] * over_rows + np.arange(self.k) * over_k) // size).reshape(-1)
        one = self._scratch_of("zero", size), self._order_of(places.size, 1, 0)
        return move(size, (0, *one), (0, codes, places))

    def _buffer(self, role: str, number: int) -> Prepared:
        """The scratch buffer of a program's prepared operand."""
        found = self._prepared.get((role, number))
        if found is None:
            rows = self.m if role == "a" else self.n
            found = Prepared(self._formats[role], role, rows, self.k, self.wide, self._scale, self._groups)
            self._prepared[role, number] = found
        return found

    def program(self, units: Iterable[tuple[OperandGather | Prepared, OperandGather | Prepared, AccumulatorRef]]) -> MmaProgram:
        """Make a program: each unit adds the product of an operand A [m, k] and an operand B [n, k] to its cells.

        Operands that are given by where their codes are, in the dtypes of their types, are gathered and prepared whenever the program
        runs, those in several units once. The cells are those of `mma_prepared`.
        """
        units = tuple(units)
        rows: list[tuple[int, ...]] = []
        ready: dict[int, Prepared] = {}
        for role, operands in (("a", [a for a, _, _ in units]), ("b", [b for _, b, _ in units])):
            distinct = {id(operand): operand for operand in operands}
            ready |= {key: operand for key, operand in distinct.items() if isinstance(operand, Prepared)}
            gathers = [(number, operand) for number, operand in enumerate(distinct.values()) if not isinstance(operand, Prepared)]
            for number, operand, gather in self._gathered(role, gathers):
                prepared = ready[id(operand)] = self._buffer(role, number)
                rows += (*gather, *self._prepare(role, operand, prepared))
        for a, b, cells in units:
            left, right = ready[id(a)], ready[id(b)]
            if cells.order is None:
                rows.append(multiply(self._place("multiply"), cells.base, cells.offset, cells.stride, left, right, self._option))
                continue
            scratch = self._scratch_of("cells", 4 * left.padded * self.n)
            apart, together = (cells.base, cells.offset, cells.order), (0, scratch, self._order_of(self.n, self.m // 16, left.padded // 16))
            rows.append(move(_CELL_UNIT, apart, together))
            rows.append(multiply(self._place("multiply"), 0, scratch, 4 * left.padded, left, right, self._option))
            rows.append(move(_CELL_UNIT, together, apart))
        return MmaProgram(self, rows, units)

    def metadata_program(self, operands: Iterable[OperandGather]) -> MmaProgram:
        """Make a program that finds whether the metadata of one of these sparse A have codes that are not legal (`MmaProgram.question`)."""
        operands = tuple(operands)
        gathered = self._gathered("a", enumerate(operands))
        return MmaProgram(None, [row for _, a, gather in gathered for row in (*gather, *self._expand(a))], operands, self)

    def _gathered(
        self, role: str, operands: Iterable[tuple[int, OperandGather]]
    ) -> Iterator[tuple[int, OperandGather, tuple[tuple[int, ...], ...]]]:
        """The operands with their numbers, and the rows that gather their codes if those before are others."""
        gathered: tuple[int, int, int] | None = None
        for number, operand in operands:
            matrix = operand.base, operand.offset, id(operand.order)
            yield number, operand, () if matrix == gathered else tuple(self._gather(role, operand))
            gathered = matrix

    def _gather(self, role: str, operand: OperandGather) -> Iterator[tuple[int, ...]]:
        """Rows that gather codes, and unpack them."""
        order, size = operand.order, operand.order.size * operand.unit
        codes = self._scratch_of("codes", size)
        yield move(operand.unit, (operand.base, operand.offset, order), (0, codes, self._order_of(1, order.size, 0)))
        if operand.packing is not None:
            yield unpack(operand.packing, self._bits(role), codes, self._unpacked(role, operand), size // SLOT)

    def _bits(self, role: str) -> int:
        return FORMATS[self._formats[role]].bits

    def _unpacked(self, role: str, operand: OperandGather) -> int:
        """The host address of gathered codes, after they have been unpacked."""
        size = operand.order.size * operand.unit
        if operand.packing is None:
            return self._scratch_of("codes", size)
        return self._scratch_of("unpacked", size // SLOT * unpacked_bytes(operand.packing, self._bits(role)))

    def _prepare(self, role: str, operand: OperandGather, ready: Prepared) -> Iterator[tuple[int, ...]]:
        """Rows that prepare gathered codes with their scales and metadata."""
        codes, strides = self._codes(role, operand), (operand.over_rows, operand.over_k)
        scales = 0
        if operand.zeros is not None:
            yield self._zero(role, codes, strides, operand.zeros)
        if operand.metadata is not None:
            yield from self._expand(operand)
            codes, strides = self._expanded(), (self._size * self.k, self._size)
        if operand.scales is not None:
            base, order = operand.scales
            scales = self._scratch_of("scales", order.size)
            yield move(1, (base, 0, order), (0, scales, self._order_of(1, order.size, 0)))
            if self._groups:
                yield prepare_groups(self._place(role), codes, scales, order.shape[1], ready, self._negate[role])
                return
        yield prepare(self._place(role), codes, *strides, ready, SIGN if self._negate[role] else 0)
        if scales:
            yield scale_rows(scales, ready)
        if operand.metadata is not None and not FORMATS[ready.fmt].is_integer:
            chunks = len(operand.metadata.order)
            yield forget(self._scratch_of("metadata", ready.rows * chunks), chunks, ready)

    def _expand(self, operand: OperandGather) -> Iterator[tuple[int, ...]]:
        """Rows that gather metadata, and expand gathered codes of a sparse A."""
        assert operand.metadata is not None
        base, order, shifts = operand.metadata
        chunks, rows = order.shape
        metadata = self._scratch_of("metadata", order.size)
        yield move(1, (base, 0, order), (0, metadata, self._order_of(1, order.size, 0)))
        places = metadata, address_of(shifts), self._expanded()
        yield expand(self._formats["a"], self._step.group > 1, self._codes("a", operand), operand[4:6], *places, rows, chunks)

    @property
    def _size(self) -> int:
        """Bytes of an element of A."""
        return FORMATS[self._formats["a"]].dtype.itemsize

    def _expanded(self) -> int:
        """The host address of the whole rows of a sparse A."""
        return self._scratch_of("expanded", self.m * self.k * self._size)

    def _codes(self, role: str, operand: OperandGather) -> int:
        """The host address of the first gathered code of an operand."""
        return self._unpacked(role, operand) + operand.first * operand.over_rows


@lru_cache(maxsize=256)
def mma_kernel(
    kind: str | None,
    types: tuple[str, str, str],
    m: int,
    n: int,
    k: int,
    negate: tuple[bool, bool] = (False, False),
    saturate: bool = False,
    sparse: bool = False,
    scale: tuple[str, int] | None = None,
) -> MmaKernel:
    """A step of tcgen05.mma or of wgmma.mma_async.

    Parameters
    ----------
    kind : the kind of tcgen05.mma; None for wgmma
    saturate : as for `mma`
    types : of D, A and B
    m, n, k : A is [m, k], B is [n, k]; m is a multiple of 16
    negate : whether the signs of A and of B are flipped
    sparse : whether A stores half of its elements; its gathers have metadata
    scale : the type of the scales, and how many elements of K one covers

    Examples
    --------
    >>> import numpy as np
    >>> from ptxlab.native import address_of
    >>> kernel = mma_kernel("f16", ("f32", "f16", "f16"), 64, 8, 16)
    >>> a, b, d = np.full((64, 16), 0x3C00, np.uint16), np.full((8, 16), 0x4000, np.uint16), np.zeros((8, 64), np.uint32)
    >>> left, right = (OperandGather(base, 0, np.arange(2 * len(x)), 16, 32, 2) for base, x in ((1, a), (2, b)))
    >>> bases = np.array([0, *map(address_of, (a, b, d))])
    >>> kernel.program([(left, right, AccumulatorRef(3, 0, 256))]).run(address_of(bases), True, 0)
    >>> float(d.view(np.float32)[0, 0])
    32.0
    """
    return MmaKernel(kind, types, m, n, k, negate, saturate, sparse, scale)
