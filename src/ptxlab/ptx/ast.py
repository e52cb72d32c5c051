"""The typed syntax tree of a PTX module.

Nodes compare by content: positions (``line``, ``column``; 1-based) are not compared. Operands have no position, so that
equal operands can share one object; `ptxlab.ptx.operand_span` finds an operand's place in the text
when an error needs it. Names of spaces, types, linkage and directives are without their dot (``param``, ``b32``, ``visible``).
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from ptxlab._records import dataclass

# ----------------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier: register, special register (``%tid.x``), variable, parameter, label or function."""

    text: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant (a constant expression is folded); ``value`` fits 64 bits, signed or unsigned as written."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating constant: raw bits, 32 wide (``0f...``) or 64 wide (``0d...`` and decimal)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A symbol or register plus a byte offset outside brackets (``sym+4``)."""

    base: Name
    offset: int


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate operand (``!%p1``)."""

    operand: Name


@dataclass(frozen=True, slots=True)
class Negative:
    """A negated register operand (``-%r1``)."""

    operand: Name


@dataclass(frozen=True, slots=True)
class Sink:
    """The bit bucket ``_``."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations joined by a bar (``%r1|%p1``)."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Vector:
    """A brace-enclosed vector (``{%r1, %r2}``)."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """A bracketed operand: ``[base]``, ``[base+offset]``, ``[12]``, or with coordinates ``[base, {x, y}]``.

    ``extra`` holds what follows the base; ``unified`` is the suffix ``.unified`` of an address in unified memory.
    """

    base: Name | Integer
    offset: int = 0
    extra: tuple[Operand, ...] = ()
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """A parenthesised list of a call: ``(retval)`` or ``(a, b)``."""

    items: tuple[Operand, ...]


Operand: TypeAlias = Name | Integer | Float | Offset | Not | Negative | Sink | Pair | Vector | Memory | Arguments

# --------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p`` or ``@!%p``."""

    predicate: str
    negated: bool


@dataclass(slots=True, kw_only=True)
class Placed:
    """A node with its position in the text, 1-based; 0 for a node that does not come from a text."""

    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(slots=True)
class Instruction:
    """One instruction. ``opcode`` is the whole dotted name (``ld.global.v4.b32``).

    A module has many instructions and locations, and positional arguments are faster than the keywords of `Placed`.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(slots=True)
class Label(Placed):
    """``name:``."""

    name: str


@dataclass(slots=True)
class RegisterDeclaration(Placed):
    """``.reg .b32 %r<10>, x;``: names with their count, None for a single register. ``vector`` is 1, 2 or 4."""

    type: str
    names: tuple[tuple[str, int | None], ...]
    vector: int = 1


@dataclass(frozen=True, slots=True)
class SymbolValue:
    """An initialiser that names a symbol: ``sym``, ``generic(sym)+8``, or a byte of it (``0xFF00(sym)``: mask)."""

    symbol: str
    offset: int = 0
    generic: bool = False
    mask: int | None = None


Initialiser: TypeAlias = "Integer | Float | SymbolValue | tuple[Initialiser, ...]"


@dataclass(slots=True)
class Variable(Placed):
    """A variable in a state space, or a parameter (space ``param``).

    ``dims`` are the array dimensions, outermost first (-1: unsized); ``ptr`` holds the ``.ptr`` attribute as
    ``(space or "", alignment or 0)``.
    """

    space: str
    type: str
    name: str
    align: int | None = None
    vector: int = 1
    dims: tuple[int, ...] = ()
    initialiser: Initialiser | None = None
    linkage: str = ""
    ptr: tuple[str, int] | None = None
    attributes: tuple[str, ...] = ()


@dataclass(slots=True)
class Location:
    """``.loc``: source position of the instructions that follow.

    ``inlined_at`` and ``intermediate`` (a ``.loc_intermediate`` that follows at once) are (file, line, column).
    """

    file: int
    line_number: int
    column_number: int
    function_name: str = ""
    function_offset: int = 0
    inlined_at: tuple[int, int, int] | None = None
    intermediate: tuple[int, int, int] | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(slots=True)
class Pragma(Placed):
    """``.pragma "text";``."""

    texts: tuple[str, ...]


@dataclass(slots=True)
class Targets(Placed):
    """``label: .branchtargets a, b;`` or ``.calltargets``; ``kind`` names the directive."""

    kind: str
    label: str
    names: tuple[str, ...]


@dataclass(slots=True)
class CallPrototype(Placed):
    """``label: .callprototype (ret) _ (params);``."""

    label: str
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    attributes: tuple[str, ...] = ()


@dataclass(slots=True)
class Block(Placed):
    """A scoped ``{ ... }`` with its own registers, variables and labels."""

    statements: list[Statement]


Statement: TypeAlias = Instruction | Label | RegisterDeclaration | Variable | Location | Pragma | Targets | CallPrototype | Block

# ------------------------------------------------------------------------------------------- module


@dataclass(slots=True)
class Function(Placed):
    """An ``.entry`` or ``.func``; ``kind`` is that word.

    ``directives`` holds the performance, cluster and other directives in order: numbers as int, strings as str.
    """

    kind: str
    name: str
    params: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    linkage: str = ""
    directives: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    body: Block | None = None

    def directive(self, name: str) -> tuple[int | str, ...] | None:
        """The arguments of a directive (``"reqntid"``), or None."""
        return next((arguments for key, arguments in self.directives if key == name), None)


@dataclass(slots=True)
class File(Placed):
    """``.file index "name"``."""

    index: int
    name: str
    timestamp: int | None = None
    size: int | None = None


@dataclass(slots=True)
class Alias(Placed):
    """``.alias name, target;``."""

    name: str
    target: str


@dataclass(slots=True)
class Section(Placed):
    """A debug section: its name and its lines as written, labels included."""

    name: str
    lines: tuple[str, ...]


TopLevel: TypeAlias = Function | Variable | File | Alias | Section | Pragma


@dataclass(slots=True)
class Module:
    """A whole PTX text: header, top-level items in order, and the text itself with the name it came under."""

    version: tuple[int, int]
    targets: tuple[str, ...]
    address_size: int
    items: list[TopLevel]
    text: str = field(default="", compare=False, repr=False)
    file: str = field(default="<ptx>", compare=False)

    @property
    def target(self) -> str:
        """The architecture of ``.target`` (``sm_100a``), without the platform options."""
        return next((name for name in self.targets if name.startswith(("sm_", "compute_"))), self.targets[0])

    @property
    def functions(self) -> dict[str, Function]:
        """Functions with a body, or declared only, by name; a definition wins over its declaration."""
        found: dict[str, Function] = {}
        for item in self.items:
            if isinstance(item, Function) and (item.body is not None or item.name not in found):
                found[item.name] = item
        return found

    @property
    def files(self) -> dict[int, str]:
        """Source file names by the index that ``.loc`` uses."""
        return {item.index: item.name for item in self.items if isinstance(item, File)}
