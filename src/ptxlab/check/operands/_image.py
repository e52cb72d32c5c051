"""Where the chunks of an operand come from, as rows and k of the boxes that were copied.

An operand is a consistent image if the position of an element in its box depends on its row and on its k separately: some dimensions of
the box are k, others are rows, every row begins at the same k, and neighbouring rows of the operand are neighbours in the box.
Each swizzling mode and each pair of strides gives another image of one tile: a descriptor that does not fit the copy gives no such image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CopiedTile, TileArray

__all__ = ["GROUP", "SHIFT", "Image", "Mismatch", "RelativePlaces", "image_of", "located", "relative_places"]

GROUP = 8
"""Rows of a canonical layout that belong together; the stride is from one group to the next."""
SHIFT = 24
"""An entry of the shadow is the number of a copied tile, above these bits, and the position of a chunk in the tile; 0: not known."""

Entries = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why an operand is not a consistent image; ``line`` and ``slot`` are the indices of the first of its chunks that is out of place."""

    what: str
    line: int = 0
    slot: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A consistent image.

    Attributes
    ----------
    first : the index of the first element's tile among those that were given, in the order of their addresses
    regular : whether coordinates say where in its array the tile lies
    k, row : the first element's k and row in its box
    width : elements of k in a box, in the dimensions that vary
    steps : k of each element of a row, less the first one's, as bytes; empty if it is not known
    reach : k that a row takes
    arrays : the arrays of the tiles, in order of their numbers
    lines_in_row : whether lines begin at different places in a row of the box, as those of a matrix do not that is copied as it is
    """

    first: int
    regular: bool
    k: int
    row: int
    width: int
    steps: bytes
    reach: int
    arrays: tuple[TileArray, ...]
    lines_in_row: bool

    def advances_as(self, other: Image) -> bool:
        """Whether k is the same along a row of both, as far as it is known; a row of a sparse A stores some of its elements only."""
        if self.steps == other.steps or not self.steps or not other.steps:
            return True
        short, long = sorted((np.frombuffer(image.steps, np.int64) for image in (self, other)), key=len)
        return len(long) % len(short) == 0 and np.array_equal(long[:: len(long) // len(short)], short)


RelativePlaces: TypeAlias = tuple[tuple[int, ...], ...]


def relative_places(tiles: Sequence[CopiedTile]) -> RelativePlaces:
    """Where tiles lie in their arrays, less where the first one of the same array lies; empty for arrays that are not regular."""
    first: dict[int, tuple[int, ...]] = {}
    found = []
    for tile in tiles:
        if tile.array.regular:
            base = first.setdefault(id(tile.array), tile.coordinates)
            found.append(tuple(c - b for c, b in zip(tile.coordinates, base, strict=True)))
        else:
            found.append(())
    return tuple(found)


def located(positions: Entries, array: TileArray) -> Entries:
    """The indices of chunks in a box, ``[..., dimension]``, innermost first."""
    return np.stack(np.unravel_index(positions, array.counts, order="F"), axis=-1).astype(np.int64)


def image_of(operand: MatrixOperand, entries: Entries, tiles: Mapping[int, CopiedTile]) -> Image | Mismatch | None:
    """The image of an operand, all of whose chunks come from copied tiles; None if what its rows are is not known.

    ``tiles`` are those tiles by their numbers. ``entries`` is in the form of `MatrixOperand.chunks`: its lines are rows if the operand is
    K-major, and steps of k otherwise.
    """
    numbers, positions = entries >> SHIFT, entries & (1 << SHIFT) - 1
    first = int(numbers[0, 0])
    found = {int(number): tiles[number].array for number in distinct(numbers)}
    if len({len(array.counts) for array in found.values()}) > 1:
        return Mismatch("it consists of boxes of different rank")
    where = np.zeros((*entries.shape, len(tiles[first].array.counts)), np.int64)
    for number, array in found.items():
        of = numbers == number
        where[of] = located(positions[of], array)
    counts = np.array(tiles[first].array.counts)
    line_dims = _varying(where, numbers, 0)
    slot_dims = _varying(where, numbers, 1)
    if line_dims & slot_dims:
        if operand.major == "mn" and _stands_in_blocks(where, numbers, list(found.values())):
            return None
        return _striped(operand, entries, tiles, where, slot_dims) or _mixed(where, numbers, operand, line_dims & slot_dims)
    lines, slots = (_linear(where, counts, dims) for dims in (line_dims, slot_dims))
    k_major = operand.major == "k"
    # Every row has the same k, also where another tile goes on.
    k_of, row_of = (slots, lines) if k_major else (lines, slots)
    across_k = k_of != (k_of[:1] if k_major else k_of[:, :1])
    if across_k.any():
        line, slot = np.argwhere(across_k)[0]
        return Mismatch("its rows do not have the same k", int(line), int(slot))
    wrong = _rows_apart(row_of if k_major else row_of.T, numbers if k_major else numbers.T)
    if wrong is not None:
        return Mismatch("its rows are not neighbours in the tile that was copied", *(wrong if k_major else wrong[::-1]))
    if len({id(array) for array in found.values()}) > 1 and not _whole(
        row_of if k_major else row_of.T, numbers if k_major else numbers.T, counts, line_dims if k_major else slot_dims
    ):
        return Mismatch("it begins inside a tile of one array and goes on in a tile of another", *_first_of_another(numbers))
    k_dims = slot_dims if k_major else line_dims
    if len(found) > 1:
        row_dims = line_dims if k_major else slot_dims
        places = numbers if k_major else numbers.T
        if (apart := _different_k(places, tiles, k_dims)) is not None:
            if operand.major == "mn" and all(array.whole_rows for array in found.values()):
                # The other columns are in other rows of the array: it is arranged in blocks of columns.
                return None
            return Mismatch("its rows come from tiles that begin at different k", *(apart if k_major else apart[::-1]))
        if (again := _same_k_again(places[0], tiles, row_dims)) is not None:
            return Mismatch("its rows go on in a tile of other rows and the same k", *((0, again) if k_major else (again, 0)))
    per_chunk = operand.per_chunk
    each = per_chunk if k_major else 1
    along = k_of[0] if k_major else k_of[:, 0]
    crosses = (numbers != (numbers[:, :1] if k_major else numbers[:1])).any()
    steps = (((along - along[0])[:, None] * each + np.arange(each)).reshape(-1)) * operand.stored
    return Image(
        first=sorted(tiles, key=lambda number: tiles[number].offset).index(first),
        regular=all(array.regular for array in found.values()),
        k=int(k_of[0, 0]) * each * operand.stored,
        row=int(row_of[0, 0]),
        width=int(np.prod([counts[d] for d in k_dims])) * each * operand.stored,
        steps=b"" if crosses else steps.astype(np.int64).tobytes(),
        reach=len(along) * each * operand.stored,
        arrays=tuple(found.values()),
        lines_in_row=0 in line_dims,
    )


def _varying(where: Entries, numbers: Entries, axis: int) -> set[int]:
    """The dimensions of a box in which neighbours along an axis differ, inside one tile."""
    moved = np.diff(where, axis=axis) != 0
    moved &= (np.diff(numbers, axis=axis) == 0)[..., None]
    return set(np.flatnonzero(moved.any(axis=(0, 1))).tolist())


def _linear(where: Entries, counts: NDArray[np.int64], dimensions: set[int]) -> Entries:
    """One number for the indices in some dimensions, the innermost counting most often."""
    found = np.zeros(where.shape[:2], np.int64)
    weight = 1
    for d in sorted(dimensions):
        found += where[..., d] * weight
        weight *= int(counts[d])
    return found


def _striped(operand: MatrixOperand, entries: Entries, tiles: Mapping[int, CopiedTile], where: Entries, k_dims: set[int]) -> Image | None:
    """The image of the first group of rows, if each group takes the next k of the same rows, which are all that the tile has.

    A K-major operand with a stride of the bytes that a row takes is such stripes of k. A larger tile has other rows to take.
    """
    if operand.major != "k" or len(entries) <= GROUP or len(entries) % GROUP:
        return None
    first, groups = where[:GROUP], where.reshape(-1, GROUP, *where.shape[1:])
    array = tiles[int(entries[0, 0]) >> SHIFT].array
    rows = np.prod([count for d, count in enumerate(array.counts) if d not in k_dims])
    if rows != GROUP or len(k_dims) != 1 or len(distinct(entries >> SHIFT)) > 1:
        return None
    (along,) = k_dims
    moved = np.zeros_like(groups)
    moved[..., along] = (np.arange(len(groups)) * entries.shape[1])[:, None, None]
    if not np.array_equal(groups, first + moved):
        return None
    found = image_of(operand, entries[:GROUP], tiles)
    return found if isinstance(found, Image) else None


def _stands_in_blocks(where: Entries, numbers: Entries, arrays: Sequence[TileArray]) -> bool:
    """Whether an MN-major operand consists of blocks of columns that stand in the array one after the other, each as wide as its rows."""
    width = arrays[0].counts[0]
    begins = (where[0, :, 0] == np.arange(where.shape[1]) % width).all()
    apart = where != where[:, :1] + where[:1] - where[:1, :1]
    whole = all(array.whole_rows and array.counts[0] == width for array in arrays)
    return bool(whole and begins) and not apart[(numbers == numbers[:, :1]) & (numbers == numbers[:1])].any()


def _mixed(where: Entries, numbers: Entries, operand: MatrixOperand, shared: set[int]) -> Mismatch:
    """The first chunk whose place is not that of its line and that of its slot together.

    If there is none, it is the first one whose line moves it in a dimension in which its slot does too; ``shared`` are those dimensions.
    """
    expected = where[:, :1] + where[:1] - where[:1, :1]
    wrong = (where != expected).any(axis=-1) & (numbers == numbers[:, :1]) & (numbers == numbers[:1])
    unit = "rows" if operand.major == "k" else "steps of k"
    found = np.argwhere(wrong)
    if not len(found):
        apart = (where != where[:1])[..., sorted(shared)].any(axis=-1)
        line, slot = np.argwhere(apart)[0]
        return Mismatch(f"its {unit} do not begin at the same place in the rows of the tile", int(line), int(slot))
    line, slot = found[0].tolist()
    return Mismatch(f"the chunks of its {unit} change places from one to the next", line, slot)


def _rows_apart(rows: Entries, numbers: Entries) -> tuple[int, int] | None:
    """The first row, and its chunk, that is not the neighbour of the row before, or whose chunks are in different rows of one tile."""
    same = numbers[:, 1:] == numbers[:, :-1]
    torn = (rows[:, 1:] != rows[:, :-1]) & same
    if torn.any():
        row, chunk = np.argwhere(torn)[0]
        return int(row), int(chunk) + 1
    follows = np.diff(rows[:, 0]) == 1
    apart = ~follows & (np.diff(numbers[:, 0]) == 0)
    if apart.any():
        return int(np.flatnonzero(apart)[0]) + 1, 0
    return None


def _whole(rows: Entries, numbers: Entries, counts: NDArray[np.int64], dimensions: set[int]) -> bool:
    """Whether rows that go from tile to tile begin with the first row of one and end with the last row of another."""
    along = numbers[:, 0]
    if (along == along[0]).all():
        return True
    return int(rows[0, 0]) == 0 and int(rows[-1, 0]) == int(np.prod([counts[d] for d in dimensions])) - 1


def _different_k(numbers: Entries, tiles: Mapping[int, CopiedTile], k_dims: set[int]) -> tuple[int, int] | None:
    """The first row, and its chunk, that comes from a tile with another k than that of the same chunk of the first row.

    ``numbers`` are those of the tiles, ``[row, k]``.
    """
    for row, k in np.argwhere(numbers != numbers[:1]).tolist():
        one, other = tiles[int(numbers[0, k])], tiles[int(numbers[row, k])]
        if one.array is other.array and one.array.regular and any(one.coordinates[d] != other.coordinates[d] for d in k_dims):
            return row, k
    return None


def _same_k_again(numbers: Entries, tiles: Mapping[int, CopiedTile], row_dims: set[int]) -> int | None:
    """The first chunk of a row that comes from another tile than the first one, of rows behind or before it and the same k.

    Tiles that have some rows in common are none: a convolution multiplies rows that are moved by less than a tile.
    """
    first = tiles[int(numbers[0])]
    sizes = [count * (first.array.per_chunk if d == 0 else 1) for d, count in enumerate(first.array.counts)]
    for k in np.flatnonzero(numbers != numbers[0]).tolist():
        other = tiles[int(numbers[k])]
        if other.array is first.array and other.array.regular:
            moved = [b - a for a, b in zip(first.coordinates, other.coordinates, strict=True)]
            differ = {d for d, distance in enumerate(moved) if distance}
            if differ and differ <= row_dims and any(abs(moved[d]) >= sizes[d] for d in differ):
                return k
    return None


def _first_of_another(numbers: Entries) -> tuple[int, int]:
    line, slot = np.argwhere(numbers != numbers[0, 0])[0]
    return int(line), int(slot)
