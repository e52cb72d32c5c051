"""Kinds of operands: what may stand in the place of an operand, and which of it the specification has."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TypeAlias

from ptxlab._records import dataclass
from ptxlab.isa.requirements import Condition, Values

__all__ = [
    "HIDDEN",
    "LONGS",
    "MAP_BYTES",
    "SHORTS",
    "TYPE_BITS",
    "WORDS",
    "Address",
    "Immediate",
    "Kind",
    "Predicate",
    "Register",
    "Sink",
    "TensorAddress",
    "Typed",
    "Vector",
    "type_bits",
    "type_text",
]

SHORTS = ("b16", "u16", "s16")
WORDS = ("b32", "u32", "s32")
LONGS = ("b64", "u64", "s64")

TYPE_BITS: Mapping[str, int] = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "f32": 32,
    "f64": 64,
    "f32x2": 64,
    "u16x2": 32,
    "s16x2": 32,
    "u8x4": 32,
    "s8x4": 32,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "ue8m0x2": 16,
    "e2m1x2": 8,
    "e2m3x2": 16,
    "e3m2x2": 16,
    "e4m3x4": 32,
    "e5m2x4": 32,
    "e2m1x4": 16,
    "e2m3x4": 32,
    "e3m2x4": 32,
    "s2f6x2": 16,
    "b1024": 1024,
    "texref": 64,
    "samplerref": 64,
    "surfref": 64,
}
"""Width in bits of every type that a register, variable or operand may have."""


def type_bits(name: str) -> int:
    """The width of a type in bits; 0 if there is no such type."""
    return TYPE_BITS.get(name, 0)


@dataclass(frozen=True, slots=True)
class Typed:
    """An operand of the compact notation: a type, a vector of it (``v4.b32``), a pair (``b32|pred``), ``addr``, ``label`` or ``any``.

    The name of a pattern group stands for the type that it has matched. The other fields say what the linter checks in addition.
    """

    text: str
    values: Container[int] | None = None
    """Which integer constants may stand here, if not all may."""
    constant: bool = False
    """Whether it is an integer constant, and no register."""
    symbols: bool = False
    """Whether the address of a variable may stand here."""
    special: bool = False
    """Whether a special register may stand here."""
    wide: Condition | None = None
    """Where the register of an address has 64 bits: at generic and global addresses."""
    space: str = ""
    """The state space of an address, where no modifier of the instruction names it."""
    short: bool = False
    """Whether the assembler takes an address in a 16-bit register, which the specification does not have."""
    both: bool = False
    """Whether the second part of a pair must be there, in a register."""
    parts: bool = False
    """Whether a vector may make up the value, as for mov, which also reads the addresses of functions."""
    wider: bool = False
    """Whether a register may be wider than the type: section "Operand Size Exceeding Instruction-Type Size"."""
    name: str = ""
    """The operand's."""
    sink: bool = True
    """Whether a destination may be dropped: ``_``."""

    @property
    def says(self) -> str:
        """What help texts show."""
        return {"addr": "an address in brackets", "label": "a label", "any": "", "pred": "a predicate"}.get(self.text, f".{self.text}")

    def spelt(self, values: Values) -> str:
        """The text with the names of pattern groups replaced by what they have matched.

        >>> Typed("vec.type").spelt({"vec": "v4", "type": "b32"}), Typed("vec.type").spelt({"vec": None, "type": "b32"})
        ('v4.b32', 'b32')
        """
        types = ([values.get(part, part) for part in type.split(".")] for type in self.text.split("|"))
        return "|".join(".".join(filter(None, parts)) for parts in types)


HIDDEN: Mapping[str, tuple[str, str]] = {"carry": ("pred", "the carry flag"), "stack": ("u64", "the stack pointer")}
"""Types of operands that stand in no text: the type and name of a register that each thread has."""


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """``[taddr]``: a 32-bit register and an offset."""

    types: tuple[str, ...] = WORDS
    says: str = "a tensor-memory address in brackets, [%r1]"


@dataclass(frozen=True, slots=True)
class Address:
    """An address in brackets; ``generic`` says under which condition it is a generic one.

    ``spaces`` are the state spaces that a variable may be in, ``types`` those that a register may have. The specification has an address
    in a 32-bit or 64-bit register; other types are there where the assembler takes them.
    """

    generic: Condition | None = None
    says: str = "an address of shared memory in brackets"
    spaces: tuple[str, ...] = ("shared",)
    types: tuple[str, ...] = (*WORDS, *LONGS)
    generic_spaces: tuple[str, ...] = ("shared", "global", "local", "param")
    generic_types: tuple[str, ...] = (*WORDS, *LONGS)
    offset: bool = True
    bare: bool = False
    """Whether the assembler takes it without brackets."""
    plain: tuple[str, ...] = ()
    """More types that the assembler takes without an offset."""
    constant: bool = False
    """Whether the assembler takes a constant."""
    words: Condition | None = None
    """Where the assembler takes no 16-bit register after all."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one of the types; ``immediate`` and ``offset`` say what the assembler takes beside the specification.

    A sum begins with a register of one of the ``addends``: of one of the types, unless these are given. A variable's address is a 32-bit
    one, or any where ``addends`` are given.
    """

    types: tuple[str, ...]
    says: str
    immediate: bool = False
    offset: bool = False
    integers: bool = False
    """Whether an immediate is in the specification's syntax too."""
    values: Callable[[int], bool] | None = None
    sink: bool = False
    """Whether the destination may be dropped: ``_``."""
    addends: tuple[str, ...] = ()
    float_width: int = 0
    """The width of the floating-point constants that the assembler takes."""
    braces: tuple[str, ...] = ()
    """The types that the assembler takes in braces, as a vector of one; constants then too."""
    parts: tuple[str, ...] = ()
    """What may follow the register's name: a part of it, ``.b0``."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A destination that can only be dropped."""

    says: str = "_: the destination can only be dropped here"


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer constant."""

    says: str
    values: Callable[[int], bool] | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate register; ``immediate`` says what the assembler takes beside it.

    A ``written`` one is a destination, which cannot be negated, and can only be dropped if it is a ``sink``.
    """

    says: str = "a predicate register"
    immediate: Callable[[int], bool] | None = None
    written: bool = False
    sink: bool = False


@dataclass(frozen=True, slots=True)
class Vector:
    """Registers in braces: ``length(values)`` of them, ``written`` if a destination."""

    length: Callable[[Values], int | None]
    written: bool
    says: str = "a vector of 32-bit registers in braces"
    distinct: bool = False
    constants: bool = False
    bare: bool = False
    """Whether it may hold constants alone."""
    types: Callable[[Values], tuple[str, ...]] = lambda values: ("b32", "f32", "u32", "s32")
    """Which types the registers may have, if all have one; registers of several types count as .b32."""
    width: int = 32
    mixed: bool = False
    """Whether the assembler takes registers of another width after an integer constant at the beginning."""


Kind: TypeAlias = Typed | TensorAddress | Address | Register | Sink | Immediate | Predicate | Vector

MAP_BYTES = Immediate("128, the size of a tensor map", lambda value: value == 128)


def type_text(kind: Kind) -> str:
    """A kind as a type of the compact notation of the catalogue."""
    match kind:
        case Typed(text):
            return text
        case Address() | TensorAddress():
            return "addr"
        case Register(types):
            return types[0]
        case Vector():
            return f"vector.b{kind.width}"
        case Predicate():
            return "pred"
        case Immediate():
            return "b32"
        case _:
            return "b64"
