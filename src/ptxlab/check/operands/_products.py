"""Products as the memory of each CTA knows them, and what the instruction has taken that last wrote or added to an accumulator."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass
from ptxlab.check.operands._images import Images
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.check.operands.words.repeated import MOST_ACCUMULATORS, CtaTaken, LastTaken
from ptxlab.isa.tiles import MatrixOperand, MatrixProduct
from ptxlab.machine.observe.observer import ObservedRepetition

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from ptxlab.check.operands._repetitions import Repetitions
    from ptxlab.check.operands.elements.parts import SharedPart, TensorPart
    from ptxlab.check.operands.words.check import WordCheck, Words

__all__ = ["Accumulator", "CompiledProducts", "CtaMemory", "CtaProduct", "KnownProduct"]


@dataclass(slots=True, eq=False)
class Accumulator:
    """An accumulator, and what the instruction has taken that last wrote or added to it.

    Attributes
    ----------
    number : its number among all of the launch
    words : the images of operands that threads have copied
    tiles : the images of its operands, and the tiles in which these begin
    """

    number: int
    words: LastTaken
    tiles: tuple[Images, list[PlacedTile | None]] | None = None
    _operands: tuple[MatrixOperand, ...] | None = None

    @property
    def operands(self) -> tuple[MatrixOperand, ...] | None:
        """Its operands; compiled code may have entered another instruction."""
        repeated = self.words.repeated()
        return self._operands if repeated is None else repeated.operands

    def takes(self, operands: tuple[MatrixOperand, ...]) -> None:
        """An instruction takes these operands."""
        self._operands = operands


@dataclass(slots=True, eq=False)
class CtaMemory:
    """What is known of the memory of one CTA.

    Attributes
    ----------
    shared, words : the tiles in shared memory, and where each word comes from, if that is followed
    accumulators : by what identifies them
    products : those of which some operands are there
    parts : the matrices of products whose A is in tensor memory
    """

    cta: Any
    shared: SharedTiles
    words: Words | None
    accumulators: dict[Any, Accumulator] = field(default_factory=dict)
    products: list[MatrixProduct] = field(default_factory=list)
    parts: dict[MatrixProduct, tuple[TensorPart | SharedPart, ...]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class CtaProduct:
    """A product in the memory of one CTA.

    Attributes
    ----------
    alike : operands of an instruction that may precede it: none has fewer rows
    """

    memory: CtaMemory
    accumulator: Accumulator
    alike: tuple[MatrixOperand, ...] | None = None


@dataclass(slots=True, eq=False)
class KnownProduct:
    """A product that has been met: in the memory of each CTA that has not exited, and whether A may be elsewhere or scales are taken."""

    ctas: list[CtaProduct]
    beside: bool


class CompiledProducts:
    """Lets compiled code compare what products take, in a launch: of operands that threads have copied, in the shared memory of one CTA."""

    def __init__(self, words: WordCheck, repetitions: Repetitions) -> None:
        self._words, self._repetitions = words, repetitions
        self._numbers: dict[Hashable, int] = {}
        """Of accumulators, by their places in tensor memory."""

    def accumulator(self, product: MatrixProduct, words: Words | None) -> Accumulator:
        """A new accumulator of a CTA. Those of all CTAs at the same place in tensor memory have one number."""
        number = MOST_ACCUMULATORS
        if product.columns:
            number = self._numbers.setdefault((product.column, product.accumulator[-1]), len(self._numbers))
        taken = CtaTaken() if words is None else words.taken
        return Accumulator(number, LastTaken(taken.of(number), self._words.numbered))

    def repetition(
        self, product: MatrixProduct, known: KnownProduct, alike: Container[tuple[tuple[MatrixOperand, ...], tuple[MatrixOperand, ...]]]
    ) -> ObservedRepetition | None:
        """How compiled code compares a product; ``alike`` are operands of an instruction before and of one after it that may follow it."""
        if len(product.ctas) != 1 or len(known.ctas) != 1:
            return None
        (part,), a = known.ctas, product.tensor_a
        number, words = part.accumulator.number, part.memory.words
        repeated = None if words is None or number >= MOST_ACCUMULATORS else self._words.repeated(product.operands, words)
        if repeated is None:
            return None
        before = self._words.numbered.get(repeated.expected)
        if before is not None and (before.operands, product.operands) in alike:
            repeated.agrees()
        of_a = (-1, 0) if a is None else (a.column, a.columns)
        ask, note = repeated.calls(number, product.columns, product.accumulate, self._repetitions.address, *of_a)
        return ObservedRepetition(ask=(ask,), note=(note,), kept=repeated)
