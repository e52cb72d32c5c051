"""The observer: follows what tensor copies place in shared memory, and compares it with what matrix instructions take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._image import SHIFT, Image, Mismatch, image_of
from ptxlab.check.operands._report import Found, Located, Reporter, follows
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.tiles import CHUNK, CopiedTile, MatrixOperand, MatrixProduct
from ptxlab.machine.observe.observer import Observer

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.isa.context import AsyncOperation
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["OperandCheck", "multiplies"]

_UNITS = (Unit.TENSOR_CORE, Unit.WARPGROUP)
_PAIR = 2
_MOST_IMAGES = 16
"""Images that are kept for one operand and one array."""


def multiplies(program: Program) -> bool:
    """Whether a kernel has tensor copies to shared memory and matrix instructions."""
    effects = [op.effects for op in program.ops if isinstance(op.effects, Asynchronous)]
    return any(e.unit in _UNITS for e in effects) and any(e.tensor_map for e in effects)


class SharedTiles:
    """What the shared memory of a CTA holds.

    Attributes
    ----------
    entries : for each chunk where it comes from: see `SHIFT`
    tiles, copies : the tiles that were copied, by their number, and the instructions that copied them; number 0 is not used
    """

    __slots__ = ("copies", "entries", "tiles")

    def __init__(self, size: int) -> None:
        self.entries: NDArray[np.int64] = np.zeros(-(-size // CHUNK), np.int64)
        self.tiles: list[Any] = [None]
        self.copies: list[Any] = [None]

    def copied(self, tile: CopiedTile, op: Op) -> None:
        """A tile has been placed."""
        first, count = tile.offset // CHUNK, len(tile.chunks)
        number = len(self.tiles)
        self.entries[first + tile.chunks] = np.arange(number << SHIFT, (number << SHIFT) + count)
        self.tiles.append(tile)
        self.copies.append(op)


class OperandCheck(Observer):
    """One for each launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._shared: dict[int, SharedTiles] = {}
        self._last: dict[Any, list[Found]] = {}
        self._distinct: dict[MatrixOperand, bool] = {}
        self._reporter = Reporter(launch)

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        for cta in ctas:
            self._shared[id(cta)] = SharedTiles(len(cta.shared))

    def ended(self, cta: CtaState) -> None:
        self._shared.pop(id(cta), None)

    def performing(self, operation: AsyncOperation) -> None:
        if operation.tiles is not None:
            for tile in operation.tiles():
                shared = self._shared.get(id(tile.cta))
                if shared is not None:
                    shared.copied(tile, operation.op)
        elif operation.product is not None:
            self._multiplied(operation, operation.product())

    def _multiplied(self, operation: AsyncOperation, product: MatrixProduct) -> None:
        last = self._last.get(product.accumulator) if product.accumulate else None
        found: list[Found] = []
        for number, cta in enumerate(product.ctas):
            images = self._images(operation, product, cta)
            before = None if last is None else last[number * len(images) : (number + 1) * len(images)]
            if before is not None and follows(before, images):
                self._reporter.step(operation, product, before, images, self._shared[id(cta)], cta)
            elif len(images) == _PAIR:
                self._reporter.pair(operation, product, images, self._shared[id(cta)], cta)
            found += images
        self._last[product.accumulator] = found

    def _images(self, operation: AsyncOperation, product: MatrixProduct, cta: Any) -> list[Found]:
        """The images of the operands in a CTA."""
        shared = self._shared[id(cta)]
        images = [self._image(operation, operand, shared, cta) for operand in product.operands]
        for number, (operand, image) in enumerate(zip(product.operands, images, strict=True)):
            if isinstance(image, Mismatch):
                other = images[1 - number] if len(images) == _PAIR else None
                self._reporter.mismatch(operation, operand, image, other.image if isinstance(other, Located) else None, shared, cta)
        return [image if isinstance(image, Located) else None for image in images]

    def _image(self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any) -> Found | Mismatch:
        """The image of an operand; None if it is not known."""
        if operand not in self._distinct:
            self._distinct[operand] = len(np.unique(operand.chunks)) == operand.chunks.size
        if not self._distinct[operand]:
            self._reporter.overlapping(operation, operand, shared, cta)
            return None
        entries = shared.entries.take(operand.chunks)
        number = int(entries[0, 0]) >> SHIFT
        if not number:
            return None
        tile = shared.tiles[number]
        self._reporter.element_type(operation, operand, tile, shared.copies[number], cta)
        relative = entries - (number << SHIFT)
        images: list[Image] = operand.known.setdefault(tile.array, [])
        for image in images:
            if image.fits(relative, shared.tiles, number):
                return Located(operand, number, image)
        if not entries.all():
            return None
        made = image_of(operand, entries, shared.tiles)
        if isinstance(made, Mismatch):
            return made
        if len(images) < _MOST_IMAGES:
            images.append(made)
        return Located(operand, number, made)

    def retire_hook(self, op: Op) -> None:
        """Instructions of warps are not observed."""
        return
