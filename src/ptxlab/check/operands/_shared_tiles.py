"""What the shared memory of a CTA holds: the tiles that were copied there last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.check.operands._image import SHIFT, RelativePlaces, relative_places
from ptxlab.check.operands.compiled.copies import CompiledCopies
from ptxlab.check.operands.compiled.cta_words import CtaTaken
from ptxlab.check.operands.compiled.tiles import StandingTile
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK, CopiedTile, TileArray
from ptxlab.tables import SWIZZLES

if TYPE_CHECKING:
    from ptxlab.isa.operands import Op

__all__ = ["Entries", "PlacedTile", "SharedTiles", "Standing"]

Entries: TypeAlias = NDArray[np.int64]
"""Of chunks of shared memory where they come from: see `ptxlab.check.operands._image.SHIFT`."""

Standing: TypeAlias = tuple[tuple[int, int, TileArray], ...]
"""Of tiles the first byte, the end, and the array."""


@dataclass(slots=True, eq=False)
class PlacedTile:
    """A tile in shared memory up to byte ``end``: its number, in order of the copies, and the instruction that copied it."""

    number: int
    tile: CopiedTile
    op: Op
    end: int

    @property
    def positions(self) -> NDArray[np.intp]:
        """The chunks of the box that are there."""
        return np.flatnonzero(self.tile.chunks < (self.end - self.tile.offset) // CHUNK)

    @property
    def gaps(self) -> bool:
        """Whether the rows of the box are narrower than those of the swizzling mode, which leaves bytes between them."""
        array = self.tile.array
        return bool(array.swizzle) and array.counts[0] * CHUNK < SWIZZLES[array.swizzle].width


class SharedTiles:
    """The tiles in the shared memory of one CTA.

    Of a tile over which another one is copied, the part before that is known.

    Parameters
    ----------
    copies : numbers of places and arrays, the same in all CTAs, and the copies that compiled code repeats
    taken : by which compiled code knows the tiles
    """

    __slots__ = ("_chunks", "_copies", "_placed", "_relative", "_taken", "cta")

    def __init__(self, cta: Any, taken: CtaTaken, copies: CompiledCopies) -> None:
        self.cta = cta
        self._taken, self._copies = taken, copies
        copies.reach(len(cta.shared))
        self._placed: dict[int, PlacedTile] = {}
        self._chunks = -(-len(cta.shared) // CHUNK)
        self._relative: dict[tuple[int, ...], tuple[list[int], RelativePlaces]] = {}
        """By the offsets of tiles their numbers, and where they lie."""

    @property
    def placed(self) -> dict[int, PlacedTile]:
        """The tiles by the offset of their first byte."""
        if self._taken.was_copied():
            for start, stop, _, source, number, *coordinates in self._taken.placed(self._copies.places):
                held = self._placed.get(start)
                if stop and (held is None or number > held.number):
                    op, tile = self._copies.tile(source, coordinates, self.cta, start)
                    self._placed[start] = PlacedTile(number, tile, op, stop)
        return self._placed

    def copied(self, tile: CopiedTile, op: Op) -> None:
        """A tile has been placed."""
        count = self._taken.count_copy()
        offset, end = tile.offset, tile.offset + tile.size
        if self._taken.end_at(self.place(offset)) != end and self._taken.overlaps(offset, end):
            for other in [o for o, held in self.placed.items() if o < end and offset < held.end]:
                self._place(other, replace(self.placed[other], end=offset) if other < offset else None)
        self._place(offset, PlacedTile(count, tile, op, end))

    def forget(self, offset: int, size: int) -> None:
        """Other bytes have been copied there."""
        for other in [o for o, held in self.placed.items() if o < offset + size and offset < held.end]:
            self._place(other, None)

    def _place(self, offset: int, placed: PlacedTile | None) -> None:
        """There is another tile at an offset, or none."""
        if placed is None:
            del self._placed[offset]
            self._taken.set_tile(self.place(offset), offset, 0, 0)
        else:
            self._placed[offset] = placed
            array = self._copies.number(placed.tile.array)
            self._taken.set_tile(self.place(offset), offset, placed.end, array, placed.number, placed.tile.coordinates)

    def place(self, offset: int) -> int:
        """The number of a place."""
        return self._copies.place(offset)

    def array(self, offset: int) -> int:
        """The number of the array of the tile that begins at an offset."""
        return self._copies.number(self.placed[offset].tile.array)

    def neighbours(self, tiles: Standing, relative: RelativePlaces) -> list[StandingTile] | None:
        """Tiles for compiled code, with where they lie in their arrays, relative to each other; None if others can come between them."""
        # No other tile can come to stand between tiles that are neighbours.
        if any(end != start for (_, end, _), (start, _, _) in pairwise(tiles)):
            return None
        bases: dict[TileArray, int] = {}
        found = []
        for (start, end, array), steps in zip(tiles, relative or ((),), strict=True):
            base = bases.setdefault(array, start)
            found.append(StandingTile(self.place(start), end, self.array(start), self.place(base), steps))
        return found

    def number_at(self, offset: int | None) -> int:
        """What numbers the tile at an offset, in its CTA; 0 if compiled code knows none there."""
        return 0 if offset is None else self._taken.tile(self.place(offset))

    def relative(self, offsets: tuple[int, ...]) -> RelativePlaces:
        """Where the tiles at these offsets lie in their arrays, relative to each other (`relative_places`)."""
        held = [self.placed[offset] for offset in offsets]
        numbers = [each.number for each in held]
        known = self._relative.get(offsets)
        if known is None or known[0] != numbers:
            known = self._relative[offsets] = numbers, relative_places([each.tile for each in held])
        return known[1]

    def under(self, operand: MatrixOperand) -> list[PlacedTile]:
        """The tiles between the first and the last byte of an operand, in the order of their addresses."""
        low, high = operand.placed.bounds
        found = [held for offset, held in self.placed.items() if offset < high and low < held.end]
        return sorted(found, key=lambda held: held.tile.offset)

    def standing(self, operands: Sequence[MatrixOperand]) -> tuple[Standing, ...]:
        """Of each operand the tiles between its first and its last byte, in the order of their addresses."""
        tiles = [(start, held.end, held.tile.array) for start, held in sorted(self.placed.items())]
        bounds = [operand.placed.bounds for operand in operands]
        return tuple([tuple([tile for tile in tiles if tile[0] < high and low < tile[1]]) for low, high in bounds])

    def entries(self) -> Entries:
        """For each chunk of shared memory where it comes from: see `SHIFT`."""
        found = np.zeros(self._chunks, np.int64)
        for held in self.placed.values():
            positions = held.positions
            found[held.tile.offset // CHUNK + held.tile.chunks[positions]] = (held.number << SHIFT) + positions
        return found

    def at(self, offset: int) -> PlacedTile | None:
        """The tile in which a byte lies."""
        return next((held for held in self.placed.values() if held.tile.offset <= offset < held.end), None)

    def entries_of(self, chunks: NDArray[np.intp]) -> Entries:
        """The entries of some chunks."""
        low, count = int(chunks.min()), int(chunks.max()) + 1 - int(chunks.min())
        found = np.zeros(count, np.int64)
        for held in self.placed.values():
            if held.tile.offset < (low + count) * CHUNK and low * CHUNK < held.end:
                at = held.tile.offset // CHUNK + held.tile.chunks - low
                inside = np.flatnonzero((at >= 0) & (at < count) & (at < held.end // CHUNK - low))
                found[at[inside]] = (held.number << SHIFT) + inside
        return found.take(chunks - low)

    def tiles(self) -> dict[int, PlacedTile]:
        """The tiles by their numbers."""
        return {held.number: held for held in self.placed.values()}

    def unchanged(self, entries: Entries) -> bool:
        """Whether these chunks still hold what was copied; threads may have overwritten them since."""
        memory = self.cta.shared[: len(self.cta.shared) // CHUNK * CHUNK].reshape(-1, CHUNK)
        tiles = self.tiles()
        for number in distinct(entries >> SHIFT).tolist():
            if number not in tiles:
                return False
            tile = tiles[number].tile
            positions = distinct(entries[entries >> SHIFT == number] & (1 << SHIFT) - 1)
            contents = np.asarray(tile.contents()).reshape(-1, CHUNK)
            if not np.array_equal(memory[tile.offset // CHUNK + tile.chunks[positions]], contents[positions]):
                return False
        return True
