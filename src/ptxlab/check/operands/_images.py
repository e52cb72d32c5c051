"""What a matrix instruction takes from the shared memory of a CTA: the images of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab._arrays import distinct
from ptxlab._records import dataclass
from ptxlab.check.operands._candidates import agree
from ptxlab.check.operands._image import SHIFT, Image, image_of, relative_places
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles, Standing
from ptxlab.check.operands.compiled.cta_words import MOST_TILES
from ptxlab.check.operands.compiled.tiles import RepeatedTiles, StandingTile
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK, TileArray

__all__ = ["PAIR", "Images", "Located", "TilesUnder", "is_image", "tiles_under"]

PAIR = 2
"""Operands of an instruction that has both A and B in shared memory."""

TilesUnder: TypeAlias = tuple[tuple[tuple[int, TileArray], ...], tuple[tuple[int, ...], ...]]
"""The tiles in which an operand lies: of each its offset and its array; and where they lie in their arrays, relative to each other."""


def tiles_under(under: Sequence[PlacedTile]) -> TilesUnder:
    """What the image of an operand depends on."""
    if len(under) == 1:
        return ((under[0].tile.offset, under[0].tile.array),), ()
    return tuple((held.tile.offset, held.tile.array) for held in under), relative_places([held.tile for held in under])


@dataclass(frozen=True, slots=True)
class Located:
    """An operand with its image, and the tile in which it begins."""

    operand: MatrixOperand
    placed: PlacedTile
    image: Image


class Images:
    """What a matrix instruction takes from the shared memory of a CTA in which tiles of certain arrays stand at certain places.

    It is the same in all CTAs with such tiles (`SharedTiles.standing`).

    Attributes
    ----------
    operands : of the instruction
    images, offsets : of each operand its image, and the offset of the tile in which it begins; None if it has no image or it is not known
    agree : whether A and B have the same k, as far as both are known
    compiled : the same for compiled code
    """

    __slots__ = ("_places", "_relative", "_standing", "agree", "compiled", "images", "offsets", "operands")

    def __init__(
        self,
        operands: tuple[MatrixOperand, ...],
        arrays: tuple[TilesUnder, ...],
        images: tuple[Image | None, ...],
        offsets: tuple[int | None, ...],
        standing: tuple[Standing, ...],
    ) -> None:
        self.operands, self.images, self.offsets = operands, images, offsets
        self._standing = [(tiles, relative) for tiles, (_, relative) in zip(standing, arrays, strict=True)]
        self._places = [[(start, end) for start, end, _ in tiles] for tiles in standing]
        self.compiled = RepeatedTiles(sum(map(len, standing)))
        self._relative = [(tuple([offset for offset, _ in tiles]), relative) for tiles, relative in arrays if len(tiles) > 1]
        self.agree = len(images) < PAIR or None in images or agree(*(image for image in images if image is not None))

    def stand(self, shared: SharedTiles) -> bool:
        """Tell compiled code in which tiles A and B are; the result is False if it may not repeat the instruction."""
        first, last = self.offsets[0], self.offsets[-1]
        if first is None or last is None or not self.agree:
            return False
        found: list[StandingTile] = []
        for index in range(len(self.operands)):
            tiles = self.standing_tiles(index, shared)
            if tiles is None:
                return False
            found += tiles
        self.compiled.stand(shared.place(first), shared.place(last), found)
        return True

    def standing_tiles(self, index: int, shared: SharedTiles) -> list[StandingTile] | None:
        """The tiles in which an operand lies, for compiled code; None if it cannot tell whether they stand there."""
        tiles = shared.neighbours(*self._standing[index])
        return None if tiles is None or max(tile.place for tile in tiles) >= MOST_TILES else tiles

    def current(self, shared: SharedTiles) -> bool:
        """Whether the tiles there, which are of the same arrays, stand relative to each other as these did."""
        if not self._relative:
            return True
        return all(relative == shared.relative(offsets) for offsets, relative in self._relative)

    def repeats(self, other: Images) -> bool:
        """Whether another instruction takes the same operands from tiles at the same places."""
        return self is other or (self.operands == other.operands and self._places == other._places)

    def leads_to(self, other: Images) -> bool:
        """Whether another instruction takes the next k of the same rows, from the same tiles."""
        pairs = list(zip(self.images, other.images, strict=True))
        return all(a is not None and b is not None and a.row == b.row and b.k - a.k == a.reach for a, b in pairs)

    def located(self, placed: list[PlacedTile | None]) -> list[Located | None]:
        """The operands with their images, and the tiles in which they begin."""
        return [
            None if image is None or held is None else Located(operand, held, image)
            for operand, image, held in zip(self.operands, self.images, placed, strict=True)
        ]


def is_image(operand: MatrixOperand, shared: SharedTiles, chunks: NDArray[np.intp]) -> bool:
    """Whether an operand that consists of more chunks, of tiles of the same array, has an image."""
    first, last, end = (shared.at(CHUNK * int(chunk)) for chunk in (operand.chunks.item(0), operand.chunks.item(-1), chunks.max()))
    if first is None or last is None or end is None or end.tile.array not in (first.tile.array, last.tile.array):
        return False
    entries, tiles = shared.entries().take(chunks), {number: held.tile for number, held in shared.tiles().items()}
    own = {tiles[number].array for number in (shared.entries().take(operand.chunks) >> SHIFT).reshape(-1).tolist()}
    if not entries.all() or not own.issuperset(tiles[number].array for number in distinct(entries >> SHIFT).tolist()):
        return False
    return isinstance(image_of(operand, entries, tiles), Image)
