"""How an instruction form is declared: its modifiers, its operands and the rules between them.

A form reads like the specification's syntax. The syntax text is the catalogue's pattern language: ``.word`` is required,
``.(group=a|b)`` one of several, ``{.group=a|b}`` optional; ``group*2`` takes two modifiers, which keep their order. An operand line
names operands in PTX order::

    name            required                       name?               may be missing
    name?group      there if the group is          name?group=a|b      there if the group has one of the values
    [base,more]     a bracketed operand of parts   first|second        a pair of destinations
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ptxlab.isa.requirements import Condition, Needs, Values

__all__ = [
    "LONGS",
    "SHORTS",
    "WORDS",
    "Address",
    "Form",
    "Immediate",
    "Kind",
    "Operands",
    "Predicate",
    "Register",
    "Rule",
    "Sink",
    "Slot",
    "TensorAddress",
    "Vector",
    "form",
]

SHORTS = ("b16", "u16", "s16")
WORDS = ("b32", "u32", "s32")
LONGS = ("b64", "u64", "s64")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a modifier. ``count`` modifiers stand for one value (``f32.bf16.bf16``), joined by dots."""

    name: str
    choices: tuple[str, ...]
    optional: bool = False
    count: int = 1

    def text(self) -> str:
        """The modifier by its name: ``.shape``, ``{.multicast}``."""
        name = f".{self.name}" * self.count
        return f"{{{name}}}" if self.optional else name


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
    """Whether the assembler takes registers of another width behind an integer constant at the beginning."""


Kind: TypeAlias = TensorAddress | Address | Register | Sink | Immediate | Predicate | Vector


@dataclass(frozen=True, slots=True)
class Operands:
    """One operand line, and the condition under which it is there.

    ``gives`` are group values that follow from it; ``note`` says that the specification has no such line.
    """

    line: str
    when: Condition = field(default_factory=dict)
    gives: Condition = field(default_factory=dict)
    note: str = ""

    def variants(self, values: Values) -> list[tuple[str, ...]]:
        """The operand names where the modifiers have these values, with each choice of those that may be missing."""
        found: list[tuple[str, ...]] = [()]
        for word in self.line.split():
            name, condition = _condition(word)
            if _there(condition, values):
                parts = [part for part, there in map(_condition, _parts(name)) if _there(there, values)]
                shown = f"[{','.join(parts)}]" if len(parts) > 1 else name
                found = [(*done, shown) for done in found] + (found if condition == "" else [])
        return found

    def text(self) -> str:
        """The line as the specification writes it: ``d, [a]{, b}``."""
        return _text(self.line.split())


def _parts(name: str) -> list[str]:
    return name.strip("[]").split(",")


def _condition(word: str) -> tuple[str, str | None]:
    """An operand's name and the condition behind its question mark; None without one."""
    if word.endswith("]"):
        return word, None
    name, mark, there = word.partition("?")
    return name, there if mark else None


def _text(words: list[str]) -> str:
    shown = ""
    for name, there in map(_condition, words):
        whole = f"[{_text(_parts(name))}]" if "," in name else name
        shown += f", {whole}" if there is None else f"{{, {whole}}}"
    return shown.removeprefix(", ")


def _there(condition: str | None, values: Values) -> bool:
    if not condition:
        return True
    group, _, allowed = condition.partition("=")
    found = values.get(group)
    return found in allowed.split("|") if allowed else found is not None


@dataclass(frozen=True, slots=True)
class Rule:
    """Where ``when`` holds, the group must have one of the values (None: be absent)."""

    when: Condition
    group: str
    values: tuple[str | None, ...]
    message: str
    section: str
    ignored: bool = False
    """Whether the assembler lets another value pass."""


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction: its fixed name, modifiers, operand lines, kinds of operands and rules."""

    name: str
    slots: tuple[Slot, ...]
    operands: tuple[Operands, ...]
    kinds: Mapping[str, Kind]
    section: str
    rules: tuple[Rule, ...] = ()
    requires: tuple[Needs, ...] = ()
    ignored: frozenset[str] = frozenset()
    repeatable: frozenset[str] = frozenset()

    def opcode(self) -> str:
        """The opcode with its modifiers by name, in the specification's order."""
        return self.name + "".join(slot.text() for slot in self.slots)


_TOKEN = re.compile(r"\{\.([^{}]+)\}|\.\(([^()]+)\)|\.([\w:]+)")


def _slots(pattern: str) -> tuple[Slot, ...]:
    slots = []
    for optional, choice, literal in _TOKEN.findall(pattern):
        name, _, spellings = (optional or choice or literal).partition("=")
        name, _, count = name.partition("*")
        slots.append(Slot(name, tuple((spellings or name).split("|")), bool(optional), int(count or 1)))
    return tuple(slots)


def form(
    name: str,
    modifiers: str,
    *operands: str | tuple[str, Condition] | tuple[str, Condition, Condition, str],
    kinds: Mapping[str, Kind] | None = None,
    section: str,
    rules: tuple[Rule, ...] = (),
    requires: tuple[Needs, ...] = (),
    ignored: frozenset[str] = frozenset(),
    repeatable: frozenset[str] = frozenset(),
) -> Form:
    """Declare a form: the name that cannot change, the modifiers, and the lines of operands (with their conditions)."""
    lines = tuple(Operands(given) if isinstance(given, str) else Operands(*given) for given in operands or ("",))
    return Form(name, _slots(modifiers), lines, kinds or {}, section, rules, requires, ignored, repeatable)
