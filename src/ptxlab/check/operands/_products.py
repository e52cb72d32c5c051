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
from ptxlab.check.operands.compiled.prepared import PreparedOperands
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

__all__ = ["Accumulator", "CompiledProducts", "CtaMemory", "CtaProduct", "KnownProduct", "array_of", "columns_of"]


@dataclass(slots=True, eq=False)
class Accumulator:
    """An accumulator, and what the instruction has taken that last wrote or added to it.

    Attributes
    ----------
    number : its number among all of the launch
    words : the images of operands that threads have copied
    images : images of operands in tiles, by number
    prepared : operands that bulk copies have brought
    """

    number: int
    words: LastTaken
    images: Mapping[int, Images]
    prepared: PreparedOperands
    _tiles: tuple[Images, list[PlacedTile | None]] | None = None
    _operands: tuple[MatrixOperand, ...] | None = None

    @property
    def operands(self) -> tuple[MatrixOperand, ...] | None:
        """Its operands; compiled code may have entered another instruction."""
        repeated, tiled, prepared = self.words.repeated(), self.words.tiled, self.words.prepared
        if tiled:
            return self.images[tiled].operands
        if repeated is not None:
            return repeated.operands
        return self.prepared.of(prepared) if prepared else self._operands

    def takes(self, operands: tuple[MatrixOperand, ...]) -> None:
        """An instruction takes these operands."""
        self._operands, self.words.prepared = operands, self.prepared.number(operands)

    def tiles(self, shared: SharedTiles) -> tuple[Images, list[PlacedTile | None]] | None:
        """The images of its operands, and the tiles in which these begin; None for one that has been replaced since."""
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
    before : the images that the instruction has taken to which it added last, if those are known
    """

    memory: CtaMemory
    accumulator: Accumulator
    alike: tuple[MatrixOperand, ...] | None = None
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
        self._prepared = PreparedOperands()
        self._numbers: dict[Hashable, int] = {}
        """Of accumulators, by their places in tensor memory, or by the warpgroup and the registers."""

    def accumulator(self, product: MatrixProduct, taken: CtaTaken) -> Accumulator:
        """A new accumulator of a CTA. Those of all CTAs at the same place have one number."""
        where = (product.column, product.accumulator[-1]) if product.columns else product.accumulator[1:]
        number = self._numbers.setdefault(where, len(self._numbers))
        return Accumulator(number, LastTaken(taken.of(number), self._words.numbered), self.images, self._prepared)

    def repetition(self, operation: AsyncOperation) -> ObservedRepetition | None:
        """How compiled code compares a product; None if something is to be compared that it does not know."""
        product = None if operation.product is None else operation.product()
        known: KnownProduct | None = None if product is None else product.watched
        if product is None or known is None or len(product.ctas) != len(known.ctas):
            return None
        if (prepared := self._of_prepared(operation, product, known)) is not None:
            return prepared
        kept = self._kept.get(operation.op.index)
        words = self._by_words and not (product.scales and len(known.ctas) > 1)
        found = self._of_words(operation, product, known.ctas) if words else None
        by_threads = found is not None
        if found is None:
            found = (self._of_boxes if self._by_words else self._of_tiles)(product, known.ctas, kept)
        if found is not None and product.scales:
            scales = self._of_scales(operation, product, known.ctas, by_threads)
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

    def _of_prepared(self, operation: AsyncOperation, product: MatrixProduct, known: KnownProduct) -> ObservedRepetition | None:
        """How compiled code repeats a product of operands that bulk copies have brought; None of others, and if more is compared."""
        operands, beside = product.operands, product.scales or product.tensor_a is not None or self._has_others(operation, product, known)
        if not self._by_words or self._joins or beside or any(operand.overlaps for operand in operands):
            return None
        for part in known.ctas:
            words, brought = part.memory.words, (operand.chunks[:1] for operand in operands)
            if words is None or part.memory.shared.placed or part.accumulator.number >= MOST_ACCUMULATORS:
                return None
            if not all(map(words.were_brought, brought)):
                return None
        if not self._words.are_judged(operands):
            return None
        found = self._prepared.add(operands, self._alike)
        about = columns_of(product), product.accumulate, self._repetitions.address
        calls = [found.calls(part.accumulator.number, *about, _number(known.ctas, i)) for i, part in enumerate(known.ctas)]
        return _together([(found, each) for each in calls])

    def _of_scales(
        self, operation: AsyncOperation, product: MatrixProduct, parts: Sequence[CtaProduct], by_threads: bool
    ) -> ObservedRepetition | None:
        """How compiled code compares scale factors and metadata, whose matrices threads have copied, or boxes."""
        if not self._follows_cells:
            return ObservedRepetition()
        memory, number = parts[0].memory, parts[0].accumulator.number
        if memory.tensor is None or number >= MOST_ACCUMULATORS:
            return None
        arrays = []
        for operand in product.operands if by_threads and len(product.operands) == PAIR else ():
            word = operand.chunks.item(0) * (CHUNK // WORD)
            found = None if memory.words is None else self._reporter.only_array_at(address_in(memory.words.addresses.item(word)))
            if found is None:
                return None
            arrays.append(ArrayWord(word, *found))
        compared = self.of_two_arrays(product, memory)
        return self._scales.repetition(operation, product, number, compared, arrays, _number(parts, 0))

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
        """How compiled code compares a product of operands that threads have copied, in each of the CTAs."""
        return _together([self._part_of_words(operation, product, part, _number(parts, i)) for i, part in enumerate(parts)])

    def _part_of_words(
        self, operation: AsyncOperation, product: MatrixProduct, part: CtaProduct, cta: int
    ) -> tuple[Repeated, tuple[Call, Call]] | None:
        """The images in one CTA, and the calls; ``cta`` is its number in its pair, -1 if it is the only one."""
        number, words = part.accumulator.number, part.memory.words
        repeated = None if words is None or number >= MOST_ACCUMULATORS else self._words.repeated(operation, product, words)
        if repeated is None:
            return None
        before = part.accumulator.words.repeated(before=True)
        if before is not None and (before.operands, product.operands) in self._alike:
            repeated.agrees(before)
        kept = _kept_of(product, repeated.kept)
        about = number, columns_of(product), product.accumulate, self._repetitions.address, _columns_of_a(product), cta, kept
        return repeated, repeated.calls.of(*about)

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
        return _together([self._part_of_tiles(product, part, _number(parts, i), which) for i, part in enumerate(parts)])

    def _part_of_tiles(self, product: MatrixProduct, part: CtaProduct, cta: int, kept: int) -> tuple[Images, tuple[Call, Call]] | None:
        """The images in one CTA, and the calls; ``cta`` is its number in its pair, -1 if it is the only one (`RepetitionWord`)."""
        number, shared = part.accumulator.number, part.memory.shared
        tiles = part.accumulator.tiles(shared)
        if number >= MOST_ACCUMULATORS or tiles is None or not tiles[0].stand(shared):
            return None
        images, before = tiles[0], part.before
        self.images[images.compiled.number] = images
        if before is not None and (before.operands, product.operands) in self._alike:
            self.images[before.compiled.number] = before
            in_same_tiles = (before, images) in self._steps and not before.repeats(images)
            images.compiled.expect(before.compiled.number, in_same_tiles)
        about = number, columns_of(product), product.accumulate, self._repetitions.address, _columns_of_a(product), cta, kept
        return images, images.compiled.calls.of(*about)


def _together(found: Sequence[tuple[object, tuple[Call, Call]] | None]) -> ObservedRepetition | None:
    """The calls for all CTAs; None if those for one of them are not known."""
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    asks, notes = zip(*(calls for _, calls in known), strict=True)
    return ObservedRepetition(ask=asks, note=notes, kept=[images for images, _ in known])


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
