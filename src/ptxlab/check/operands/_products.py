"""Products as the memory of each CTA knows them, and what the instruction has taken that last wrote or added to an accumulator."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass
from ptxlab.check.operands._images import Images
from ptxlab.check.operands._shared_tiles import PlacedTile, SharedTiles
from ptxlab.check.operands.words.repeated import LastTaken
from ptxlab.isa.tiles import MatrixOperand, MatrixProduct

if TYPE_CHECKING:
    from ptxlab.check.operands.elements.parts import SharedPart, TensorPart
    from ptxlab.check.operands.words.check import Words

__all__ = ["Accumulator", "CtaMemory", "CtaProduct", "KnownProduct"]


@dataclass(slots=True, eq=False)
class Accumulator:
    """An accumulator, and what the instruction has taken that last wrote or added to it.

    Attributes
    ----------
    operands, column : its operands, and the first column of its A in tensor memory
    tiles : the images of its operands, and the tiles in which these begin
    words : the images of operands that threads have copied
    """

    operands: tuple[MatrixOperand, ...] | None = None
    column: int | None = None
    tiles: tuple[Images, list[PlacedTile | None]] | None = None
    words: LastTaken = field(default_factory=LastTaken)


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
