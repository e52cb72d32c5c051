"""Matrices in registers: from which elements of an array theirs come.

A register holds what one load has read last, and what that was is known as a global address. In a matrix of the array's elements rows and k
stand apart: the index of an element in each dimension of the array is a sum of what its row and what its k adds. Rows may be gathered, and
k may be permuted, as long as A and B have the same k.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.words.joined import elements_of_bytes
from ptxlab.engine.word_sources import NO_SOURCE, byte_source
from ptxlab.machine.memory.elements import ArrayPlace

if TYPE_CHECKING:
    from ptxlab.engine.listed_words import ListedWords

__all__ = ["Apart", "RegisterImage", "element_addresses", "image_of_elements", "order_of_registers", "stands_as_loaded"]

_WORD_BITS = 32
_WORD = 4
"""Bytes."""
_BYTE = 8
_SEVERAL = 2
_SPARSE = 2
"""Elements of k for each one that a sparse A stores."""
_STORED = (1, 2)
"""Elements that a sparse A stores of each two or four; of words always one of two."""
_LANES_OF_A_ROW = 4
_ROWS_OF_A_REGISTER = 8

Addresses = NDArray[np.int64]
"""Where each element of a matrix comes from, ``[row, k]``: `NO_SOURCE` for zeros, 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Why a matrix has no image: the row and the k of the first element that is out of place, and those of one to compare it with."""

    what: str
    at: tuple[int, int]
    other: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RegisterImage:
    """The elements of an array that a matrix consists of.

    Attributes
    ----------
    array : the array
    row_dimensions : the dimensions of the array in which rows differ
    k_dimension : the dimension of the array in which k advances; -1 if there are several or none
    step : elements in this dimension from k to the next k in order, 0 if k does not advance in equal steps
    order : for each k its place in this order; empty if it is not known
    columns : units of a row
    per_unit : elements of k that count as one: neighbours in the array, in order
    doubt : where a row goes on in another dimension of the array, in which rows differ too, or rows and k change places: there may be a
        better image
    """

    array: ArrayPlace
    row_dimensions: frozenset[int]
    k_dimension: int
    step: int
    order: tuple[int, ...]
    columns: int
    per_unit: int = 1
    doubt: Apart | None = None

    @property
    def k(self) -> int:
        """Elements of a row."""
        return self.columns * self.per_unit

    @property
    def has_steps(self) -> bool:
        """Whether the way from instruction to instruction says by how many k the matrix moves."""
        return bool(self.order) and self.k_dimension not in self.row_dimensions

    @property
    def in_order(self) -> bool:
        """Whether k advances from element to element."""
        return self.order == tuple(range(self.columns))

    def agrees(self, other: RegisterImage) -> bool:
        """Whether each k of both is the same, as far as it is known; one of them may go backwards through its array.

        A row of a sparse A stores two of four elements of k, or one of two, and metadata say which: the fours, or twos, must be the same.
        """
        if not self.order or not other.order:
            return True
        a, b = sorted((self, other), key=lambda image: image.k)
        times = b.k // a.k
        if a.k * times != b.k or times > _SPARSE:
            return True
        sizes = _STORED if times > 1 and a.array.itemsize < _WORD else _STORED[:1]
        return any(a._agrees_in(b, size, times) for size in sizes)

    def _agrees_in(self, other: RegisterImage, size: int, times: int) -> bool:
        """Whether groups of k of so many elements, in the other one of ``times`` as many, stand in the same order in both.

        One of them may go backwards, unless there is an order in what counts as one.
        """
        size = max(size, self.per_unit, other.per_unit // times)
        own, found = self._groups(size), other._groups(size * times)
        if own is None or found is None:
            return False
        backwards = self.per_unit == other.per_unit == 1 and bool((own == len(own) - 1 - found).all())
        return bool((own == found).all()) or backwards

    def _groups(self, size: int) -> NDArray[np.int64] | None:
        """For each so many k in turn the place of these in the array; None if they are not neighbours there."""
        units = size // self.per_unit
        found = np.array(self.order).reshape(-1, units) // units
        return found[:, 0] if (found == found[:, :1]).all() else None


def element_addresses(parts: Addresses, first: NDArray[np.intp], size: int, bits: int, listed: ListedWords | None = None) -> Addresses:
    """Where elements come from, as `elements_of_bytes` has them.

    ``parts`` is ``[line, part]``: from where the words come of which so many bytes are taken, from the byte ``first`` on.
    """
    at = first[..., None] + np.arange(size)
    if listed is not None and parts.min() < 0:
        every = np.take_along_axis(listed.bytes_of(parts), at, axis=-1)
    else:
        sources = parts[..., None]
        every = np.where(sources > NO_SOURCE, byte_source(sources, at), sources)
    return elements_of_bytes(every.reshape(len(parts), -1), bits)


def stands_as_loaded(elements: Addresses, bits: int) -> bool:
    """Whether the array may have been arranged for the registers.

    Either those of each lane stand one after the other in global memory, or the lanes of each register do.
    """
    registers = _registers(elements, bits)
    if len(registers) == 1:
        return False
    by_lane = np.diff(registers, axis=0) == max(bits // _BYTE, _WORD)
    by_register = np.diff(registers.reshape(*registers.shape[:2], -1)) == max(bits // _BYTE, 1)
    return bool(by_lane.all() or by_register.all())


def image_of_elements(found: Addresses, array: ArrayPlace, per_unit: int = 1) -> RegisterImage | Apart | None:
    """The image that the elements of a matrix have, of which so many count as one; None if it is not known."""
    known = found > NO_SOURCE
    if not known.any() or (found == 0).any():
        return None
    indices, held = array.locate(found.reshape(-1))
    if not held[known.reshape(-1)].all():
        return None
    where = indices.reshape(*found.shape, -1)
    row, column = int(known.sum(axis=1).argmax()), int(known.sum(axis=0).argmax())
    together = known & known[row] & known[:, column : column + 1]
    expected = where[row] + where[:, column : column + 1] - where[row, column]
    apart: NDArray[np.bool_] = (where != expected) & together[..., None]
    if apart.any():
        return _torn(where, known, apart) or _mixed(array, apart, per_unit)
    along_k = _varying(where[row][known[row]])
    along_rows = _varying(where[:, column][known[:, column]])
    if len(along_k) >= _SEVERAL and along_k & along_rows:
        found_apart = _going_on(where[row], known[row], row)
        if along_k == along_rows and len(np.unique(where[known], axis=0)) == known.sum():
            return found_apart
        return RegisterImage(array, along_rows, -1, 0, (), found.shape[1], per_unit, found_apart)
    steps = where[row]
    dimension = next(iter(along_k)) if len(along_k) == 1 else -1
    step, order = _order(steps[:, dimension]) if dimension >= 0 and known[row].all() else (0, ())
    return RegisterImage(array, along_rows, dimension, step, order, found.shape[1], per_unit)


def _varying(where: Addresses) -> frozenset[int]:
    """The dimensions in which elements ``[element, dimension]`` differ."""
    return frozenset(np.flatnonzero((where != where[:1]).any(axis=0)).tolist())


def _torn(where: Addresses, known: NDArray[np.bool_], apart: NDArray[np.bool_]) -> Apart | None:
    """Rows of different k, or k of different rows; None if dimensions of the array do not say what the rows are, or what k is."""
    torn: NDArray[np.bool_] = np.asarray(apart.any(axis=(0, 1)))
    for axis, what in ((0, "its rows do not have the same k"), (1, "its rows change from one k to the next")):
        own = _own_dimensions(where, known, axis, torn)
        if own and _all_different(where[..., own], known, axis):
            line, slot = np.argwhere(apart.any(axis=-1))[0].tolist()
            return Apart(what, (line, slot), (0, slot) if axis == 0 else (line, 0))
    return None


def _mixed(array: ArrayPlace, apart: NDArray[np.bool_], per_unit: int) -> RegisterImage:
    """Rows and k that change places: dimensions of the array do not say what is a row, but perhaps another order of registers does."""
    line, slot = np.argwhere(apart.any(axis=-1))[0].tolist()
    doubt = Apart("its rows and its k change places", (line, slot), (0, slot))
    return RegisterImage(array, frozenset(), -1, 0, (), apart.shape[1], per_unit, doubt)


def _own_dimensions(where: Addresses, known: NDArray[np.bool_], axis: int, torn: NDArray[np.bool_]) -> list[int]:
    """The dimensions of the array whose index depends only on the row, for axis 0, or only on k, for axis 1."""
    lowest = np.where(known[..., None], where, np.iinfo(np.int64).max).min(axis=1 - axis, keepdims=True)
    equal = ((where == lowest) | ~known[..., None]).all(axis=(0, 1))
    return np.flatnonzero(equal & ~torn).tolist()


def _all_different(where: Addresses, known: NDArray[np.bool_], axis: int) -> bool:
    """Whether the indices in some dimensions are different ones for each row, for axis 0, or for each k."""
    lines = np.where(known[..., None], where, -1).max(axis=1 - axis)
    lines = lines[(lines >= 0).all(axis=1)]
    return len(lines) > 1 and len(np.unique(lines, axis=0)) == len(lines)


def _going_on(line: Addresses, known: NDArray[np.bool_], row: int) -> Apart:
    """The first element of a row that does not follow the one before it as the second one follows the first."""
    slots = np.flatnonzero(known)
    steps = np.diff(line[slots], axis=0)
    jumps = np.flatnonzero((steps != steps[:1]).any(axis=1))
    at = int(jumps[0]) + 1 if len(jumps) else len(slots) - 1
    return Apart("its rows go on in other rows of the array", (row, int(slots[at])), (row, int(slots[at - 1])))


def _order(indices: NDArray[np.int64]) -> tuple[int, tuple[int, ...]]:
    """The step from index to index in order, and the place of each index in this order; 0 and nothing if the steps are not equal."""
    places = np.argsort(np.argsort(indices, kind="stable"), kind="stable")
    steps = np.diff(np.sort(indices))
    if not len(steps) or steps[0] == 0 or (steps != steps[0]).any():
        return 0, ()
    return int(steps[0]), tuple(places.tolist())


def order_of_registers(elements: Addresses, bits: int, array: ArrayPlace, other: RegisterImage | None) -> tuple[int, ...] | None:
    """Another order of the registers of a lane in which a matrix has an image, of the same k as ``other``; None if there is none.

    Of several one in which rows advance, and of these one that moves the fewest registers.
    """
    registers = _registers(elements, bits)
    if not _SEVERAL <= len(registers) <= 2 * _SEVERAL:
        return None
    found = []
    for order in list(permutations(range(len(registers))))[1:]:
        moved = _rows(registers[list(order)], elements.shape)
        image = image_of_elements(moved, array)
        if isinstance(image, RegisterImage) and image.order and (image.in_order if other is None else image.agrees(other)):
            backwards = bool((np.diff(moved, axis=0) < 0).any())
            found.append((backwards, sum(i != register for i, register in enumerate(order)), order))
    return min(found)[-1] if found else None


def _registers(elements: Addresses, bits: int) -> Addresses:
    """The elements of a matrix as ``[register, warp, row in the register, element]``.

    A register holds eight rows in the four lanes of a row; if there are 16 rows in a warp, every second one holds the upper eight.
    """
    halves, width = _halves(elements.shape[0]), _LANES_OF_A_ROW * max(_WORD_BITS // max(bits, _BYTE), 1)
    blocks = elements.reshape(-1, halves, _ROWS_OF_A_REGISTER, elements.shape[1] // width, width)
    return blocks.transpose(3, 1, 0, 2, 4).reshape(-1, len(blocks), _ROWS_OF_A_REGISTER, width)


def _rows(registers: Addresses, shape: tuple[int, ...]) -> Addresses:
    """The inverse of `_registers`."""
    blocks = registers.reshape(-1, _halves(shape[0]), *registers.shape[1:])
    return blocks.transpose(2, 1, 3, 0, 4).reshape(shape)


def _halves(rows: int) -> int:
    return min(rows // _ROWS_OF_A_REGISTER, 2)
