"""Copies to tensor memory: what they read is compared with what was copied to shared memory, and the cells are followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ptxlab.check.operands._candidates import best
from ptxlab.check.operands._image import SHIFT, Image, Mismatch, image_of
from ptxlab.check.operands._images import tiles_under
from ptxlab.check.operands._tile_report import TileReporter
from ptxlab.check.operands.compiled.cells import WORDS_OF_CHUNK, CellCalls, CopiedCells
from ptxlab.check.operands.compiled.cta_words import MOST_TILES
from ptxlab.check.operands.elements.parts import LANES
from ptxlab.check.operands.scales.sources import TensorSources
from ptxlab.isa.operations.matrices import TensorCopy
from ptxlab.machine.observe.observer import ObservedRepetition, together

if TYPE_CHECKING:
    from ptxlab.check.operands._products import CtaMemory
    from ptxlab.check.operands._shared_tiles import Entries, PlacedTile, SharedTiles
    from ptxlab.check.operands.compiled.tiles import StandingTile
    from ptxlab.check.operands.words.check import WordCheck
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["TensorCopies"]

_FEWEST_ROWS = 8
"""Rows of a core matrix. In fewer, as tcgen05.cp.4x256b copies, another descriptor too easily finds equal steps."""
_ATTEMPTS = 4
"""How often another descriptor is looked for if what a copy to tensor memory reads has no image."""


class TensorCopies:
    """One for each launch.

    Parameters
    ----------
    memory : that of the CTAs that have not exited, by their identities
    stored : whether threads store to tensor memory what they have loaded
    """

    def __init__(self, memory: Mapping[int, CtaMemory], tile_reporter: TileReporter, word_check: WordCheck, stored: bool) -> None:
        self._memory, self._tile_reporter, self._word_check, self._stored = memory, tile_reporter, word_check, stored
        self._tried: Counter[int] = Counter()
        """By instruction how often another descriptor has been looked for."""
        self._calls = CellCalls()

    def copied(self, operation: AsyncOperation, copy: TensorCopy) -> None:
        """Compare what tcgen05.cp copies with what is in shared memory, and follow it."""
        for cta in copy.ctas:
            memory = self._memory.get(id(cta))
            if memory is not None:
                if not self._stored:
                    memory.taken.copied_to_cells()
                if memory.tensor is None:
                    memory.tensor = TensorSources.of(memory.taken)
                entries = memory.shared.entries_of(copy.source.chunks)
                memory.tensor.copied(copy, cta, entries, memory.words)
                if len(copy.source.chunks) >= _FEWEST_ROWS:
                    self._check_source(operation, copy, entries, memory)

    def _check_source(self, operation: AsyncOperation, copy: TensorCopy, entries: Entries, memory: CtaMemory) -> None:
        """Report rows that are no image of what was copied, if another descriptor or tensor map has one, and elements of another size."""
        source, shared, cta = copy.source, memory.shared, memory.cta
        if not entries.any():
            if memory.words is not None:
                self._word_check.copied(operation, source, memory.words, cta)
            return
        under = shared.under(source)
        key = tiles_under(under)
        found: Image | Mismatch | None = source.known.get(key)
        if found is None and entries.all():
            found = source.known[key] = image_of(source, entries, {held.number: held.tile for held in under})
        if entries.all():
            self._tile_reporter.expanded(operation, copy, under[0], cta)
        if not isinstance(found, Mismatch) or self._tried[operation.op.index] == _ATTEMPTS:
            return
        self._tried[operation.op.index] += 1
        tile = under[0].tile
        if self._tile_reporter.unreadable(source, tile.array) or best(source, shared, tile, None) is not None:
            if source.overlaps:
                self._tile_reporter.overlapping(operation, source, shared, cta)
            else:
                self._tile_reporter.mismatch(operation, source, found, None, shared, cta)

    def repetition(self, operation: AsyncOperation, copy: TensorCopy) -> ObservedRepetition | None:
        """How compiled code follows a copy; None if it cannot."""
        every: list[ObservedRepetition] = []
        for number, cta in enumerate(copy.ctas):
            memory = self._memory.get(id(cta))
            copied = None if memory is None or copy.expanded else self._cells(operation, copy, memory)
            found = None if copied is None else self._calls.of(copied, number if len(copy.ctas) > 1 else -1)
            if found is None:
                return None
            every.append(found)
        return reduce(together, every)

    def _cells(self, operation: AsyncOperation, copy: TensorCopy, memory: CtaMemory) -> CopiedCells | None:
        """What a copy does in a CTA; None if compiled code cannot check other executions of it."""
        source, shared = copy.source, memory.shared
        chunks, under = source.chunks, shared.under(source)
        entries = shared.entries_of(chunks)
        tiles = self._tiles(operation, copy, under, entries, shared) if under else []
        stands = bool(under) or memory.words is None or len(chunks) < _FEWEST_ROWS or self._word_check.stands(source, memory.words)
        if tiles is None or not stands:
            return None
        place_of = {held.number: tile.place for held, tile in zip(under, tiles, strict=True)}
        places = np.array([place_of.get(number, 0) for number in (entries >> SHIFT).reshape(-1).tolist()]).reshape(entries.shape)
        order = np.arange(WORDS_OF_CHUNK)
        of_words = (chunks, entries & (1 << SHIFT) - 1)
        words, added = ((each[..., None] * WORDS_OF_CHUNK + order).reshape(len(chunks), 1, -1) for each in of_words)
        cells = copy.lanes[..., None] + (copy.column + np.arange(words.shape[-1])) * LANES
        written = cells, words, np.repeat(places, WORDS_OF_CHUNK, axis=1)[:, None], added
        numbers, from_words, at, beside = (np.broadcast_to(each, cells.shape).astype(np.int64).reshape(-1) for each in written)
        followed = words.reshape(-1).astype(np.int64) if memory.words is not None else np.zeros(0, np.int64)
        sources = followed if memory.words is None else memory.words.addresses.take(followed)
        first, end = source.placed.bounds
        return CopiedCells(first, end, numbers, from_words, tiles, at, beside, followed, sources)

    def _tiles(
        self, operation: AsyncOperation, copy: TensorCopy, under: list[PlacedTile], entries: Entries, shared: SharedTiles
    ) -> list[StandingTile] | None:
        """The tiles in which all of a source is; None if compiled code does not know them, or if another descriptor is looked for."""
        key = tiles_under(under)
        wrong = isinstance(copy.source.known.get(key), Mismatch) and self._tried[operation.op.index] < _ATTEMPTS
        if wrong or not entries.all():
            return None
        found = shared.neighbours(tuple((held.tile.offset, held.end, held.tile.array) for held in under), key[1])
        return None if found is None or max(tile.place for tile in found) >= MOST_TILES else found
