"""Which descriptor would read what was copied: other values of its fields, tried against the tiles in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.check.operands._image import GROUP, Image, image_of
from ptxlab.check.operands._shared_tiles import SharedTiles
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK, CopiedTile
from ptxlab.tables import ELEMENT_TYPE_NAMES, SWIZZLES

__all__ = ["Candidate", "Fitting", "agree", "best", "following", "most_rows", "rows_of_tiles", "search", "step_of", "turned"]

_ROW = 128
_ARRANGED = frozenset(name for name, element in ELEMENT_TYPE_NAMES.items() if element.integer)
"""Element types of tensor maps of arrays that may be anything."""
_TOGETHER = (
    ("swizzle",),
    ("stride",),
    ("leading",),
    ("start",),
    ("major",),
    ("base_offset",),
    ("swizzle", "stride"),
    ("swizzle", "leading"),
    ("stride", "leading"),
    ("swizzle", "stride", "leading"),
    ("major", "stride"),
    ("major", "stride", "leading"),
)
"""The fields that are changed at a time, in the order in which they are tried."""
_STEPS = range(16, 4096 + 16, 16)


_Found = TypeVar("_Found")
Fitting: TypeAlias = Callable[[MatrixOperand, "NDArray[np.intp]"], _Found | None]
"""The image that an operand of these chunks would have; None if it would have none, or another one than is wanted."""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[_Found]):
    """A descriptor that gives a consistent image: the fields that change, and the image."""

    changes: tuple[tuple[str, Any], ...]
    image: _Found

    @property
    def text(self) -> str:
        """What to change, as a sentence without its end."""
        return " and ".join(_change(name, value) for name, value in self.changes)


_NAMES = {
    "swizzle": "the swizzling mode",
    "stride": "the stride dimension byte offset",
    "leading": "the leading dimension byte offset",
    "base_offset": "the base offset",
    "start": "the start address",
}


def _change(name: str, value: Any) -> str:
    if name == "major":
        bit = "clear" if value == "k" else "set"
        return f"{bit} the transpose bit of the operand: it is {'K' if value == 'k' else 'MN'}-major in shared memory"
    shown = f"{value:#x}" if name == "start" else value
    return f"set {_NAMES[name]} to {shown}"


def best(operand: MatrixOperand, shared: SharedTiles, tile: CopiedTile, other: Image | None) -> Candidate[Image] | None:
    """The descriptor with the fewest changes that gives a consistent image, of the same k as ``other``'s.

    Its lines do not begin inside rows of the box, unless these are integers, which may be anything that has been arranged for a descriptor
    (scale factors). It reads no other array if the one of ``tile`` has brought enough.
    """
    fields: dict[str, Sequence[Any]] = {
        "swizzle": [tile.array.swizzle, *SWIZZLES] if tile.array.swizzle else list(SWIZZLES),
        "stride": _strides(tile),
        "leading": _leadings(tile),
        "major": ["k", "mn"],
        "base_offset": range(8),
        "start": _starts(operand, tile, other),
    }
    memory = _Memory(shared)
    brought = sum(len(held.positions) for held in shared.placed.values() if held.tile.array is tile.array)
    alone = brought >= operand.chunks.size

    def fitting(tried: MatrixOperand, chunks: NDArray[np.intp]) -> Image | None:
        image = memory.image(tried, chunks)
        if image is None or (alone and any(array is not tile.array for array in image.arrays)):
            return None
        if image.lines_in_row and tile.array.element not in _ARRANGED:
            return None
        return image if other is None or agree(image, other) else None

    return search(operand, fields, fitting)


def search(operand: MatrixOperand, fields: Mapping[str, Sequence[Any]], fitting: Fitting[_Found]) -> Candidate[_Found] | None:
    """The descriptor with the fewest changes for which there is an image; ``fields`` are the values that are tried."""
    # A K-major operand with swizzling advances inside a row of 128 bytes, an MN-major one by whole rows.
    inside = _begins_inside(operand) and operand.descriptor.start % (operand.placed.index.k * operand.container // 8) == 0
    for names in (("major",), *_TOGETHER) if inside else _TOGETHER:
        for values in product(*(fields[name] for name in names)):
            found = _tried(operand, dict(zip(names, values, strict=True)), fitting)
            if found is not None:
                return found
    return None


def most_rows(operand: MatrixOperand, fitting: Fitting[Any]) -> int:
    """How many of its first rows have an image, if not all; 0 for none."""
    step = operand.per_chunk if operand.major == "mn" else GROUP
    for rows in range(operand.placed.index.rows - step, 0, -step):
        if fitting(operand, operand.first_rows(rows)) is not None:
            return rows
    return 0


def rows_of_tiles(operand: MatrixOperand, shared: SharedTiles) -> int:
    """How many of the first rows of an operand are an image of what was copied; 0 for none."""
    return most_rows(operand, _Memory(shared).image)


def turned(operand: MatrixOperand, shared: SharedTiles) -> Candidate[Image] | None:
    """The operand that is read in the other dimension, if it has an image."""
    return _tried(operand, {"major": "mn" if operand.major == "k" else "k"}, _Memory(shared).image)


def _begins_inside(operand: MatrixOperand) -> bool:
    """Whether an MN-major operand begins inside a row of 128 bytes."""
    return operand.major == "mn" and operand.descriptor.start % _ROW != 0


class _Memory:
    """The tiles of a CTA, as `image_of` takes them."""

    def __init__(self, shared: SharedTiles) -> None:
        self._entries = shared.entries()
        self._tiles = {number: held.tile for number, held in shared.tiles().items()}

    def image(self, operand: MatrixOperand, chunks: NDArray[np.intp]) -> Image | None:
        """The image that an operand of these chunks would have; None if it would have none, or it is not known."""
        if chunks.min() < 0 or chunks.max() >= len(self._entries) or len(distinct(chunks)) < chunks.size:
            return None
        found = self._entries.take(chunks)
        if not found.all():
            return None
        image = image_of(operand, found, self._tiles)
        return image if isinstance(image, Image) else None


def _tried(operand: MatrixOperand, fields: dict[str, Any], fitting: Fitting[_Found]) -> Candidate[_Found] | None:
    changed = {
        name: value for name, value in fields.items() if value != (operand.major if name == "major" else getattr(operand.descriptor, name))
    }
    if len(changed) != len(fields):
        return None
    major = changed.get("major", operand.major)
    descriptor = replace(operand.descriptor, **{name: value for name, value in changed.items() if name != "major"})
    if descriptor.findings(major=major, bits=operand.container):
        return None
    image = fitting(replace(operand, major=major), operand.chunks_of(descriptor, major))
    return None if image is None else Candidate(tuple(changed.items()), image)


def agree(one: Image, other: Image) -> bool:
    """Whether two operands have the same k for every product, as far as both are known."""
    if not one.advances_as(other):
        return False
    small, large = sorted((one.width, other.width))
    return large % small != 0 or (one.k - other.k) % small == 0


def _starts(operand: MatrixOperand, tile: CopiedTile, other: Image | None) -> list[int]:
    """Start addresses in the tile. Which k is wanted says the other operand; without it, the bytes in a row stay as they are."""
    if other is None:
        first = operand.descriptor.start
        return [tile.offset + (first & _ROW - 1), *([first & -_ROW] if _begins_inside(operand) else [])]
    lines = operand.descriptor.stride
    return [tile.offset + step for step in dict.fromkeys((*range(0, _ROW, CHUNK), *range(0, 16 * lines, lines or 1)))]


def _strides(tile: CopiedTile) -> list[int]:
    pitch = _pitch(tile)
    rows = int(np.prod(tile.array.counts[1:]))
    return list(dict.fromkeys((8 * pitch, 1024, 512, 256, 128, rows * pitch, 16 * pitch)))


def _leadings(tile: CopiedTile) -> list[int]:
    pitch = _pitch(tile)
    rows = int(np.prod(tile.array.counts[1:]))
    return list(dict.fromkeys((16, rows * pitch, rows * 16, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)))


def _pitch(tile: CopiedTile) -> int:
    """Bytes from row to row of the box in shared memory."""
    chunks = tile.array.counts[0]
    return 16 * max(chunks, SWIZZLES[tile.array.swizzle].width // 16 if tile.array.swizzle else 1)


def step_of(operand: MatrixOperand, start: int, shared: SharedTiles, last: Image) -> int | None:
    """By how many bytes the start address must advance from ``start`` so that the next elements of k follow, in the same rows."""
    memory = _Memory(shared)
    for step in _STEPS:
        image = memory.image(operand, operand.chunks_of(replace(operand.descriptor, start=start + step), operand.major))
        if image is not None and image.row == last.row and image.k == last.k + last.reach:
            return step
    return None


def following(operand: MatrixOperand, shared: SharedTiles, image: Image) -> list[int]:
    """The start addresses at which the next elements of k of the same rows stand, one after the other, as far as the tile goes."""
    found: list[int] = []
    start, last = operand.descriptor.start, image
    while (step := step_of(operand, start, shared, last)) is not None:
        start, last = start + step, replace(last, k=last.k + last.reach)
        found.append(start)
    return found
