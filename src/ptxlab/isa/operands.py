"""Operands and instructions after lowering: names are resolved, opcodes are matched with their catalogue row."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from ptxlab._records import dataclass
from ptxlab.isa.effects import Effect, resolve

if TYPE_CHECKING:
    from ptxlab.isa.catalogue import Qualifiers, Row

__all__ = ["Addr", "Const", "Group", "Op", "PairOf", "Reg", "Resolved", "SymbolAddress", "Unused"]


@dataclass(frozen=True, slots=True)
class Reg:
    """A register (special registers too): ``index`` into ``Program.registers``; ``negated`` for ``!%p`` and ``-%r``."""

    index: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: an integer (any sign; masked to the width at use) or, if ``float_width`` is set, the bits of a float of this width."""

    value: int
    float_width: int = 0


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """The address of a variable in its own state space: ``space`` is shared, global, const, local, param or func.

    For ``shared`` the value is the offset in the shared window; the CTA's rank bits are added when it is read. For ``global`` and
    ``const`` the value is a slot of ``Program.symbols`` whose address the device supplies.
    """

    space: str
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Addr:
    """``[base + offset]``; base None for a plain constant address. ``extra`` holds coordinates and the like (``[map, {x, y}]``)."""

    base: Reg | SymbolAddress | None
    offset: int = 0
    extra: tuple[Resolved, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A brace-enclosed vector, or the parenthesised list of a call."""

    items: tuple[Resolved, ...]


@dataclass(frozen=True, slots=True)
class PairOf:
    """``d|p``."""

    first: Resolved
    second: Resolved


@dataclass(frozen=True, slots=True)
class Unused:
    """The bit bucket ``_``, or an optional operand that is absent."""


Resolved: TypeAlias = Reg | Const | SymbolAddress | Addr | Group | PairOf | Unused


@dataclass(slots=True, eq=False)
class Op:
    """One instruction of a lowered program.

    ``operands`` are in the order of ``row.operands``; absent optional operands are `Unused`. ``targets`` holds the op indices that a branch
    may jump to. ``line`` and ``column`` are the position in the PTX text. ``calls`` are the functions in whose bodies it stands, with
    the line of the call, outermost first; empty in the body of the kernel.
    """

    index: int
    opcode: str
    row: Row
    q: Qualifiers
    operands: tuple[Resolved, ...]
    guard: Reg | None
    line: int
    column: int
    targets: tuple[int, ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    effects: Effect | None = field(init=False)
    """Its effects on memory and other threads; None if it only computes."""

    def __post_init__(self) -> None:
        self.effects = resolve(self.row.effects, self.q)

    @property
    def short(self) -> str:
        """The first parts of the opcode, as reports print the instruction."""
        return ".".join(self.opcode.split(".")[: 2 if self.effects is None else self.effects.name_words])

    @property
    def aligned(self) -> bool:
        """Whether all threads of the warp have to execute it together: section "bar, barrier" for those without ``.aligned``."""
        return self.row.base == "bar" or "aligned" in self.opcode.split(".")
