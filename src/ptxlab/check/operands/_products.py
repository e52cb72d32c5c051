"""Products as the memory of each CTA knows them, and what the instruction has taken that last wrote or added to an accumulator."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from ptxlab._records import dataclass
from ptxlab.check.operands._images import PAIR, Images
from ptxlab.check.operands._report import Reporter, kept_matrices
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.check.operands.compiled.boxed import BoxedCalls
from ptxlab.check.operands.compiled.calls import KEPT_FIRST, KEPT_LAST
from ptxlab.check.operands.compiled.cta_words import MOST_ACCUMULATORS, CtaTaken
from ptxlab.check.operands.compiled.mixed import Kind, KindOfOperand, MixedProducts
from ptxlab.check.operands.compiled.scales import ArrayWord
from ptxlab.check.operands.words.images import WORD
from ptxlab.check.operands.words.repeated import LastTaken, Repeated
from ptxlab.engine.word_sources import address_in
from ptxlab.isa.operations.matrices import MatrixOperand, MatrixProduct
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.machine.launch.program_facts import copies_cells, copies_words
from ptxlab.machine.observe.observer import ObservedRepetition, together

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Mapping, Sequence

    from ptxlab.check.operands._repetitions import Repetitions
    from ptxlab.check.operands.elements.check import ElementCheck
    from ptxlab.check.operands.elements.parts import SharedPart, TensorPart
    from ptxlab.check.operands.scales.check import ScaleCheck
    from ptxlab.check.operands.scales.sources import TensorSources
    from ptxlab.check.operands.words.check import WordCheck, Words
    from ptxlab.engine.repetitions import Call
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch

_Operands: TypeAlias = "tuple[tuple[MatrixOperand, ...], tuple[MatrixOperand, ...]]"
"""Those of an instruction and of one after it."""
_PartCalls: TypeAlias = "tuple[object, tuple[Call, Call]]"
"""What must stay alive, and the calls for one CTA."""

__all__ = ["Accumulator", "CompiledProducts", "CtaMemory", "CtaProduct", "KnownProduct", "array_of", "columns_of"]


@dataclass(slots=True, eq=False)
class Accumulator:
    """An accumulator, and what the instruction has taken that last wrote or added to it.

    Attributes
    ----------
    number : its number among all of the launch
    words : the images of operands that threads have copied
    images : images of operands in tiles, by number
    mixed : products of operands of different kinds
    """

    number: int
    words: LastTaken
    images: Mapping[int, Images]
    mixed: MixedProducts
    _tiles: tuple[Images, list[PlacedTile | None]] | None = None
    _operands: tuple[MatrixOperand, ...] | None = None

    @property
    def operands(self) -> tuple[MatrixOperand, ...] | None:
        """Its operands; compiled code may have entered another instruction."""
        repeated, tiled, numbered = self.words.repeated(), self.words.tiled, self.words.numbered
        if tiled:
            return self.images[tiled].operands
        if repeated is not None:
            return repeated.operands
        return self.mixed.of(numbered) if numbered else self._operands

    def takes(self, operands: tuple[MatrixOperand, ...]) -> None:
        """An instruction takes these operands."""
        self._operands, self.words.numbered = operands, self.mixed.number(operands)

    def tiles(self, shared: SharedTiles) -> tuple[Images, list[PlacedTile | None]] | None:
        """The images of its operands, and the tiles in which these begin; None for one that has been replaced since.

        The result is None if not all operands have an image.
        """
        if not self.words.images:
            return None
        tiled = self.words.tiled
        if not tiled:
            return self._tiles
        images = self.images[tiled]
        same = zip(images.offsets, self.words.tile_numbers, strict=False)
        return images, [shared.placed[offset] if offset is not None and n == shared.number_at(offset) > 0 else None for offset, n in same]

    def takes_tiles(self, images: Images, placed: list[PlacedTile | None], shared: SharedTiles) -> None:
        """An instruction takes these images; None is placed where one is not known, or is taken from a collector buffer."""
        self._tiles = images, placed
        numbers = [0 if held is None else shared.number_at(offset) for held, offset in zip(placed, images.offsets, strict=True)]
        self.words.enter_tiles(0 if None in images.offsets else images.compiled.number, numbers)

    def takes_no_tiles(self) -> None:
        """An instruction takes operands that are not in tiles."""
        self.words.enter_tiles(0, (0,))


@dataclass(slots=True, eq=False)
class CtaMemory:
    """What is known of the memory of one CTA.

    Attributes
    ----------
    shared, words : the tiles in shared memory, and where each word comes from, if that is followed
    tensor : where the cells of tensor memory come from, if something has been copied there
    taken : by which compiled code knows what products take
    accumulators : by what identifies them
    products : those of which some operands are there
    parts : the matrices of products whose A is in tensor memory
    """

    cta: Any
    shared: SharedTiles
    words: Words | None
    taken: CtaTaken
    tensor: TensorSources | None = None
    accumulators: dict[Any, Accumulator] = field(default_factory=dict)
    products: list[MatrixProduct] = field(default_factory=list)
    parts: dict[MatrixProduct, tuple[TensorPart | SharedPart, ...]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class CtaProduct:
    """A product in the memory of one CTA.

    Attributes
    ----------
    alike : operands of an instruction that may precede it: none has fewer rows
    images : what it has taken last, if something was in tiles
    before : the images that the instruction has taken to which it added last, if those are known
    """

    memory: CtaMemory
    accumulator: Accumulator
    alike: tuple[MatrixOperand, ...] | None = None
    images: Images | None = None
    before: Images | None = None


@dataclass(slots=True, eq=False)
class KnownProduct:
    """A product that has been met: in the memory of each CTA that has not exited, and whether A may be elsewhere or scales are taken."""

    ctas: list[CtaProduct]
    beside: bool


def columns_of(product: MatrixProduct) -> int:
    """The columns of D, 1 if it is in registers: so compiled code knows accumulators that have been met in a CTA (`LastTaken.has`)."""
    return max(product.columns, 1)


class CompiledProducts:
    """Lets compiled code compare what products take from the shared memory of their CTAs, in a launch.

    Attributes
    ----------
    images : images of operands in tiles, by number
    """

    def __init__(
        self,
        launch: Launch,
        reporter: Reporter,
        elements: ElementCheck,
        words: WordCheck,
        scales: ScaleCheck,
        repetitions: Repetitions,
        alike: Container[_Operands],
        steps: Container[tuple[Images, Images]],
    ) -> None:
        self._loaded, self._by_words, self._kept = launch.program.loaded, launch.facts.of(copies_words), launch.facts.of(kept_matrices)
        self._elements, self._words, self._scales, self._repetitions = elements, words, scales, repetitions
        self._reporter = reporter
        self._follows_cells = bool(self._loaded.cells) or launch.facts.of(copies_cells)
        self._alike, self._steps = alike, steps
        self._joins, self._boxed = launch.program.joins_parts_of_words, BoxedCalls(repetitions.address)
        self.images: dict[int, Images] = {}
        self._mixed = MixedProducts()
        self._numbers: dict[Hashable, int] = {}
        """Of accumulators, by their places in tensor memory, or by the warpgroup and the registers."""

    def accumulator(self, product: MatrixProduct, taken: CtaTaken) -> Accumulator:
        """A new accumulator of a CTA. Those of all CTAs at the same place have one number."""
        where = (product.column, product.accumulator[-1]) if product.columns else product.accumulator[1:]
        number = self._numbers.setdefault(where, len(self._numbers))
        return Accumulator(number, LastTaken(taken.of(number), self._words.numbered), self.images, self._mixed)

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code compares a product; None if something is to be compared that it does not know."""
        product = None if operation.product is None else operation.product()
        known: KnownProduct | None = None if product is None else product.watched
        if product is None or known is None or len(product.ctas) != len(known.ctas):
            return None
        kept = self._kept.get(operation.op.index)
        found = self._of_words(operation, product, known.ctas) if self._by_words else None
        if found is None:
            found = (self._of_boxes if self._by_words else self._of_tiles)(product, known.ctas, kept)
        if found is None and kept is None:
            found = self._of_kinds(operation, product, known.ctas)
        if found is not None and product.scales:
            scales = self._of_scales(operation, product, known.ctas)
            found = None if scales is None else together(found, scales)
        if found is None or not self._has_others(operation, product, known):
            return found
        for number, each in enumerate(known.ctas):
            # The first CTA of a pair may have all rows of A.
            if product.tensor_a is None or number < len(product.tensor_a.lanes):
                parts = each.memory.parts.get(product)
                others = None if parts is None else self._elements.repetition(operation, parts, _number(known.ctas, number))
                if others is None:
                    return None
                found = together(found, others)
        return found

    def _of_scales(self, operation: AsyncOperation, product: MatrixProduct, parts: Sequence[CtaProduct]) -> ObservedRepetition | None:
        """How compiled code compares scale factors and metadata, whose matrices have been copied."""
        if not self._follows_cells:
            return ObservedRepetition()
        memory, number = parts[0].memory, parts[0].accumulator.number
        if memory.tensor is None or number >= MOST_ACCUMULATORS:
            return None
        arrays = self._array_words(product, memory)
        if arrays is None:
            return None
        compared = self.of_two_arrays(product, memory)
        return self._scales.repetition(operation, product, number, compared, arrays, _number(parts, 0))

    def _array_words(self, product: MatrixProduct, memory: CtaMemory) -> list[ArrayWord] | None:
        """From which arrays A and B come where that is known of their words; None if a word may come from several."""
        if memory.words is None or len(product.operands) < PAIR:
            return []
        arrays = []
        for first in [operand.chunks.item(0) for operand in product.operands]:
            word = first * (CHUNK // WORD)
            source = memory.words.addresses.item(word)
            if source and memory.shared.at(first * CHUNK) is None:
                found = self._reporter.only_array_at(address_in(source))
                if found is None:
                    return None
                arrays.append(ArrayWord(word, *found))
        return arrays

    def of_two_arrays(self, product: MatrixProduct, memory: CtaMemory) -> bool:
        """Whether A and B are known to come from different arrays."""
        found = [array_of(operand, memory, self._reporter) for operand in product.operands]
        return len(found) == PAIR and None not in found and found[0] != found[1]

    def _has_others(self, operation: AsyncOperation, product: MatrixProduct, known: KnownProduct) -> bool:
        """Whether a matrix is compared that is in registers or in tensor memory."""
        if product.tensor_a is not None:
            return bool(self._loaded.cells and product.tensor_a.bits) and operation.op.index not in self._kept
        return known.beside and self._elements.takes(operation.op)

    def _of_words(self, operation: AsyncOperation, product: MatrixProduct, parts: Sequence[CtaProduct]) -> ObservedRepetition | None:
        """How compiled code compares a product of operands that threads have copied, in each of the CTAs, where nothing else has copied."""
        found: list[_PartCalls] = []
        for number, part in enumerate(parts):
            repeated = None if part.memory.taken.otherwise else self._part_of_words(operation, product, part)
            if repeated is None or repeated.others:
                return None
            about = self._about(product, part, _number(parts, number))
            found.append((repeated, repeated.calls.of(*about, _kept_of(product, repeated.kept))))
        return _together(found)

    def _part_of_words(self, operation: AsyncOperation, product: MatrixProduct, part: CtaProduct) -> Repeated | None:
        """The images of words in one CTA."""
        words = part.memory.words
        if words is None or part.accumulator.number >= MOST_ACCUMULATORS:
            return None
        repeated = self._words.repeated(operation, product, words)
        before = part.accumulator.words.repeated(before=True)
        if repeated is not None and before is not None and (before.operands, product.operands) in self._alike:
            repeated.agrees(before)
        return repeated

    def _about(self, product: MatrixProduct, part: CtaProduct, cta: int) -> tuple[int, int, bool, int, tuple[int, int], int]:
        """What calls are given (`RepetitionCalls.of`); ``cta`` is the number of the CTA in its pair, -1 if it is the only one."""
        return part.accumulator.number, columns_of(product), product.accumulate, self._repetitions.address, _columns_of_a(product), cta

    def _of_kinds(self, operation: AsyncOperation, product: MatrixProduct, parts: Sequence[CtaProduct]) -> ObservedRepetition | None:
        """How compiled code compares a product of operands of different kinds, in each of the CTAs."""
        if any(operand.overlaps or (self._joins and operand.data < CHUNK) for operand in product.operands):
            return None
        found: list[_PartCalls] = []
        for number, part in enumerate(parts):
            repeated = self._part_of_words(operation, product, part) if self._by_words else None
            kinds = [self._kind(product, i, part, repeated) for i in range(len(product.operands))]
            known = [each for each in kinds if each is not None]
            if part.accumulator.number >= MOST_ACCUMULATORS or len(known) < len(kinds) or all(each.kind is Kind.IN_TILES for each in known):
                return None
            about, followed = self._about(product, part, _number(parts, number)), self._by_words and part.memory.words is not None
            calls = self._mixed.calls(product.operands, known, self._alike, followed=followed, joined=followed and self._joins)
            found.append((part.images, calls.of(*about)))
            if any(each.kind is Kind.OF_WORDS for each in known):
                assert repeated is not None
                found.append((repeated, repeated.calls_among.of(*about)))
        return _together(found)

    def _kind(self, product: MatrixProduct, index: int, part: CtaProduct, repeated: Repeated | None) -> KindOfOperand | None:
        """The kind of an operand in one CTA, None if compiled code cannot tell whether that changes. ``repeated`` has images of words."""
        operand, shared, words = product.operands[index], part.memory.shared, part.memory.words if self._by_words else None
        if words is not None and words.are_joined(operand):
            return None
        kind = None if words is None else self._words.kind(operand, words)
        if part.images is not None and part.images.offsets[index] is not None:
            tiles = part.images.standing_tiles(index, shared)
            return KindOfOperand(Kind.IN_TILES, tuple(tiles)) if tiles is not None and (words is None or kind is Kind.IN_TILES) else None
        if any(shared.standing((operand,))) or kind is Kind.IN_TILES:
            return None
        if words is None:
            return KindOfOperand(Kind.UNKNOWN)
        if repeated is not None and operand in repeated.images:
            return KindOfOperand(Kind.OF_WORDS)
        return None if kind is None else KindOfOperand(kind)

    def _of_boxes(self, product: MatrixProduct, parts: Sequence[CtaProduct], kept: str | None) -> ObservedRepetition | None:
        """The same as `_of_tiles`, in a launch whose threads copy others."""
        found = None if self._joins else self._of_tiles(product, parts, kept)
        if found is None or any(operand.overlaps for operand in product.operands):
            return None
        chunks = [operand.chunks.item(0) for operand in product.operands]
        asks = [self._boxed.of(part.accumulator.number, _number(parts, i), chunks) for i, part in enumerate(parts)]
        return ObservedRepetition((*asks, *found.ask), (), found.note, found)

    def _of_tiles(self, product: MatrixProduct, parts: Sequence[CtaProduct], kept: str | None) -> ObservedRepetition | None:
        """How compiled code compares a product of tiles that tensor copies have placed, in each of the CTAs.

        ``kept`` is the name of the matrix that it takes from a collector buffer.
        """
        which = _kept_of(product, kept)
        found = [self._part_of_tiles(product, part, _number(parts, i), which) for i, part in enumerate(parts)]
        known = [each for each in found if each is not None]
        return _together(known) if len(known) == len(found) else None

    def _part_of_tiles(self, product: MatrixProduct, part: CtaProduct, cta: int, kept: int) -> tuple[Images, tuple[Call, Call]] | None:
        """The images in one CTA, and the calls; ``cta`` is its number in its pair, -1 if it is the only one (`RepetitionWord`)."""
        images, before = part.images, part.before
        if part.accumulator.number >= MOST_ACCUMULATORS or images is None or not images.stand(part.memory.shared):
            return None
        self.images[images.compiled.number] = images
        if before is not None and (before.operands, product.operands) in self._alike:
            self.images[before.compiled.number] = before
            in_same_tiles = (before, images) in self._steps and not before.repeats(images)
            images.compiled.expect(before.compiled.number, in_same_tiles)
        return images, images.compiled.calls.of(*self._about(product, part, cta), kept)


def _together(found: Sequence[_PartCalls]) -> ObservedRepetition:
    """The calls for all CTAs."""
    asks, notes = zip(*(calls for _, calls in found), strict=True)
    return ObservedRepetition(ask=asks, note=notes, kept=[images for images, _ in found])


def array_of(operand: MatrixOperand, memory: CtaMemory, reporter: Reporter) -> int | None:
    """The address of the array from which the first bytes of an operand have been copied, if known."""
    start = operand.chunks.item(0) * CHUNK
    held = memory.shared.at(start)
    if held is not None:
        return held.tile.array.address
    array = None if memory.words is None else reporter.array_at(address_in(memory.words.addresses.item(start // WORD)))
    return None if array is None else array.address


def _number(ctas: Sequence[CtaProduct], number: int) -> int:
    """The number of a CTA in its pair, -1 if it is the only one."""
    return -1 if len(ctas) == 1 else number


def _kept_of(product: MatrixProduct, kept: str | None) -> int:
    """`RepetitionWord.KEPT` of a product that takes the matrix with this name from a collector buffer."""
    places = (product.operands[0], KEPT_FIRST), (product.operands[-1], KEPT_LAST)
    return sum(bit for operand, bit in places if operand.name == kept)


def _columns_of_a(product: MatrixProduct) -> tuple[int, int]:
    """The first column of an A in tensor memory, and how many there are; -1 and 0 if it is elsewhere."""
    a = product.tensor_a
    return (-1, 0) if a is None else (a.column, a.columns)
