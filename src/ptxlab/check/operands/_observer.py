"""The observer: follows what tensor copies place in shared memory, and compares it with what matrix instructions take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxlab.check.operands._candidates import agree
from ptxlab.check.operands._image import Image, Mismatch, image_of, same_k
from ptxlab.check.operands._report import Found, Located, Reporter
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.diagnostics import Diagnostic
from ptxlab.isa.effects import Asynchronous, TensorTransfer, Unit
from ptxlab.isa.tiles import MatrixOperand, MatrixProduct, TileArray
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


def multiplies(program: Program) -> bool:
    """Whether a kernel has tensor copies to shared memory and matrix instructions."""
    effects = [op.effects for op in program.ops if isinstance(op.effects, Asynchronous)]
    return any(e.unit in _UNITS for e in effects) and any(e.tensor_map for e in effects)


def used_as(program: Program, wanted: str) -> tuple[Op, Op] | None:
    """A tcgen05.ld and an instruction that takes one of its registers as this type, the type of an element that fills a column."""
    loaded = {
        register: op
        for op in program.ops
        if isinstance(op.effects, TensorTransfer) and not op.effects.write
        for register in program.writes[op.index]
    }
    for op in program.ops:
        if op.row.kind == "pure" and any(wanted in (kind, op.q.get(kind)) for _, kind in op.row.operands[op.row.outputs :]):
            for register in program.reads[op.index]:
                if register in loaded:
                    return loaded[register], op
    return None


class Images:
    """What a matrix instruction takes from the shared memory of a CTA.

    It is the same whenever tiles of the same arrays stand at the same places.

    Attributes
    ----------
    operands : of the instruction
    images, offsets : of each operand its image, and the offset of the tile in which it begins; None if it has no image or it is not known
    agree : whether A and B have the same k, as far as both are known
    """

    __slots__ = ("_arrays", "_version", "agree", "images", "offsets", "operands")

    def __init__(
        self,
        operands: tuple[MatrixOperand, ...],
        version: int,
        arrays: tuple[tuple[tuple[int, TileArray], ...], ...],
        images: tuple[Image | None, ...],
        offsets: tuple[int | None, ...],
    ) -> None:
        self.operands, self.images, self.offsets = operands, images, offsets
        self._version, self._arrays = version, arrays
        self.agree = len(images) < _PAIR or None in images or agree(*(image for image in images if image is not None))

    def current(self, shared: SharedTiles) -> bool:
        """Whether the shared memory holds the same tiles, perhaps of other coordinates."""
        if self._version != shared.version:
            return False
        placed = shared.placed
        for arrays, image in zip(self._arrays, self.images, strict=True):
            for offset, array in arrays:
                if placed[offset].tile.array is not array:
                    return False
            if len(arrays) > 1 and image is not None and not same_k(image.k_dimensions, [placed[offset].tile for offset, _ in arrays]):
                return False
        return True

    def located(self, placed: list[PlacedTile | None]) -> list[Found]:
        """The operands with their images, and the tiles in which they begin."""
        return [
            None if image is None or held is None else Located(operand, held, image)
            for operand, image, held in zip(self.operands, self.images, placed, strict=True)
        ]


class OperandCheck(Observer):
    """One for each launch."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._shared: dict[int, SharedTiles] = {}
        self._types: dict[str, AsyncOperation] = {}
        """The element types of D, each with an instruction."""
        self._known: dict[tuple[SharedTiles, tuple[MatrixOperand, ...]], Images] = {}
        self._steps: set[tuple[Images, Images]] = set()
        """Pairs of instructions that have been compared."""
        self._last: dict[Any, list[tuple[Images, list[PlacedTile | None]]]] = {}
        """By accumulator and number of the CTA, the instruction that last wrote or added to it."""
        self._reporter = Reporter(launch)

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        for cta in ctas:
            self._shared[id(cta)] = SharedTiles(cta)

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
        if product.d not in self._types:
            self._types[product.d] = operation
        now = []
        for number, cta in enumerate(product.ctas):
            shared = self._shared[id(cta)]
            images = self._known.get((shared, product.operands))
            if images is None or not images.current(shared):
                images = self._known[shared, product.operands] = self._images(operation, product, shared, cta)
            placed = [None if offset is None else shared.placed[offset] for offset in images.offsets]
            now.append((images, placed))
            before = None if last is None else last[number]
            if before is not None and None not in placed and before[1] == placed:
                if (before[0], images) not in self._steps:
                    self._steps.add((before[0], images))
                    self._reporter.step(operation, before[0].located(before[1]), images.located(placed), shared, cta)
            elif not images.agree:
                self._reporter.pair(operation, images.located(placed), shared, cta)
        self._last[product.accumulator] = now

    def _images(self, operation: AsyncOperation, product: MatrixProduct, shared: SharedTiles, cta: Any) -> Images:
        """The images of the operands in a CTA; reports those that are not images of what was copied."""
        found = [self._image(operation, operand, shared, cta) for operand in product.operands]
        images: list[Image | None] = []
        offsets: list[int | None] = []
        for number, (operand, (image, under)) in enumerate(zip(product.operands, found, strict=True)):
            if isinstance(image, Mismatch):
                other = found[1 - number][0] if len(found) == _PAIR else None
                self._reporter.mismatch(operation, operand, image, other if isinstance(other, Image) else None, shared, cta)
            known = image if isinstance(image, Image) else None
            images.append(known)
            offsets.append(None if known is None else under[known.first].tile.offset)
            if known is not None:
                self._reporter.element_type(operation, operand, under[known.first], cta)
        arrays = tuple(tuple((held.tile.offset, held.tile.array) for held in under) for _, under in found)
        return Images(product.operands, shared.version, arrays, tuple(images), tuple(offsets))

    def _image(
        self, operation: AsyncOperation, operand: MatrixOperand, shared: SharedTiles, cta: Any
    ) -> tuple[Image | Mismatch | None, list[PlacedTile]]:
        """The image of an operand, None if it is not known, and the tiles in which it lies."""
        if "overlaps" not in operand.known:
            operand.known["overlaps"] = len(np.unique(operand.chunks)) < operand.chunks.size
        if operand.known["overlaps"]:
            self._reporter.overlapping(operation, operand, shared, cta)
            return None, []
        under = shared.under(operand)
        key = tuple((held.tile.offset, held.tile.array) for held in under)
        image: Image | Mismatch | None = operand.known.get(key)
        if image is None or (len(under) > 1 and (isinstance(image, Mismatch) or not same_k(image.k_dimensions, [h.tile for h in under]))):
            image = operand.known[key] = self._compared(operand, shared, under)
        return image, under

    @staticmethod
    def _compared(operand: MatrixOperand, shared: SharedTiles, under: list[PlacedTile]) -> Image | Mismatch | None:
        """The image of an operand in these tiles; None if part of it is not known."""
        entries = shared.entries().take(operand.chunks)
        return image_of(operand, entries, {held.number: held.tile for held in under}) if entries.all() else None

    def finished(self) -> tuple[Diagnostic, ...]:
        """Compare the element type of D with the types as which its elements are used."""
        if set(self._types) == {"f16"} and (found := used_as(self._launch.program, "f32")) is not None:
            self._reporter.read_as_f32(self._types["f16"], *found)
        return ()

    def retire_hook(self, op: Op) -> None:
        """Instructions of warps are not observed."""
        return
