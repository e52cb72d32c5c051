"""The base class of effects, and what declares an effect."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import TYPE_CHECKING, TypeAlias

from ptxlab._records import dataclass

if TYPE_CHECKING:
    from ptxlab.isa.catalogue import Qualifiers

__all__ = [
    "LOCAL",
    "Effect",
    "Effects",
    "Extract",
    "Local",
    "Supply",
    "resolve",
]


class Supply(Flag):
    """What a blocked thread can be waiting for that another instruction supplies."""

    NOTHING = 0
    ARRIVAL = auto()
    """a thread's own arrival on an mbarrier"""
    COMPLETION_ARRIVAL = auto()
    """an arrival on an mbarrier when earlier operations of the thread are complete"""
    EXPECTATION = auto()
    """the announcement of transaction bytes"""
    BYTES = auto()
    """transaction bytes"""
    COLUMNS = auto()
    """free columns of tensor memory"""
    PAIR_ALLOCATION = auto()
    """the peer CTA's half of an allocation for a CTA pair"""
    WGMMA_SHARE = auto()
    """a warp's share of an operation of its warpgroup"""
    REGISTERS = auto()
    """registers in the pool of the CTA"""


class Effect:
    """The base class of all effects."""

    __slots__ = ()

    @property
    def supplies(self) -> Supply:
        """What executing the instruction supplies to threads that wait."""
        return Supply.NOTHING

    @property
    def name_words(self) -> int:
        """How many words of the opcode name the instruction in reports."""
        return 2


@dataclass(frozen=True, slots=True)
class Local(Effect):
    """Registers of the warp only: no memory that others see, no synchronisation."""


LOCAL = Local()


@dataclass(frozen=True, slots=True)
class Extract(Local):
    """The destinations are words of a 128-bit operand, which is the one behind them.

    Attributes
    ----------
    words : for each destination the number of its word, -1 for one that becomes 0; a predicate says whether its word is not 0
    """

    words: tuple[int, ...]


Effects: TypeAlias = "Effect | Callable[[Qualifiers], Effect] | None"
"""What a row declares."""


def resolve(declared: Effects, q: Qualifiers) -> Effect | None:
    """The effect of an instruction whose pattern matched ``q``."""
    return declared(q) if callable(declared) else declared
