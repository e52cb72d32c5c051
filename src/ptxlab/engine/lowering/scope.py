"""What a function declares, and its names while it is lowered: registers, variables and labels by scope, and addresses of variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from ptxlab._records import dataclass
from ptxlab.engine.lowering.special_registers import special_type
from ptxlab.engine.program import Register
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.operands import Resolved, SymbolAddress
from ptxlab.ptx import ast

__all__ = ["Scope", "Table", "instructions", "names", "near", "variables"]


@dataclass(slots=True)
class Scope:
    """One ``{ }``: what it declares. Registers of a range get an index when they are first named."""

    parent: Scope | None = None
    registers: dict[str, tuple[str, int]] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    digits_in_stems: bool = False
    """Whether the stem of a range ends in a digit, so that a name may belong to several."""
    variables: dict[str, ast.Variable] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    targets: dict[str, ast.Targets | ast.CallPrototype] = field(default_factory=dict)
    bound: dict[str, SymbolAddress] = field(default_factory=dict)
    """Parameters of a function that is called: the caller's variables."""
    found: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    resolved: dict[int, tuple[ast.Operand, Resolved, int]] = field(default_factory=dict)
    """By the identity of an operand of the text, which equal operands share: the operand, what it is here, and the number of its shape."""

    def outwards(self) -> Iterator[Scope]:
        """Yield the scope, and those around it."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.parent


class Table:
    """All registers of a function, and the lookup of a name from a scope outwards."""

    def __init__(self) -> None:
        self.registers: list[Register] = []
        self._specials: dict[str, int] = {}
        self._hidden: dict[str, int] = {}

    def add(self, name: str, type: str, special: str = "") -> int:
        """A new register."""
        self.registers.append(Register(name, type, TYPE_BITS.get(type, 32), special=special))
        return len(self.registers) - 1

    def hidden(self, type: str, name: str) -> int:
        """A register that the text does not name."""
        if name not in self._hidden:
            self._hidden[name] = self.add(name, type)
        return self._hidden[name]

    def lookup(self, scope: Scope, name: str) -> int | tuple[int, ...] | None:
        """The register of a name, its components if it is a vector register, or None."""
        found = scope.found.get(name)
        if found is not None:
            return found
        at: Scope | None = scope
        while at is not None:
            found = at.found.get(name)
            if found is None:
                found = self._declared(at, name)
            if found is not None:
                scope.found[name] = at.found[name] = found
                return found
            at = at.parent
        type = special_type(name)
        if type is None:
            return None
        if name not in self._specials:
            self._specials[name] = self.add(name, type, special=name)
        scope.found[name] = self._specials[name]
        return self._specials[name]

    def _declared(self, scope: Scope, name: str) -> int | tuple[int, ...] | None:
        declared = scope.registers.get(name)
        if declared is not None:
            return self._make(scope, name, *declared)
        ranges = scope.ranges
        stem = name.rstrip("0123456789")
        entry = ranges.get(stem)
        if entry is not None and not scope.digits_in_stems:
            return self.add(name, entry[0]) if _counts(name[len(stem) :], entry[1]) else None
        whole, dot, component = name.rpartition(".")
        if dot and len(component) == 1 and component in "xyzwrgba":
            vector = scope.registers.get(whole)
            position = ("xyzw" if component in "xyzw" else "rgba").index(component)
            if vector is not None and position < vector[1]:
                parts = scope.found.setdefault(whole, self._make(scope, whole, *vector))
                return parts[position] if isinstance(parts, tuple) else None
        cut = len(name)
        while cut > 0 and name[cut - 1].isdigit():
            cut -= 1
            entry = ranges.get(name[:cut])
            if entry is not None and _counts(name[cut:], entry[1]):
                return self.add(name, entry[0])
        return None

    def _make(self, scope: Scope, name: str, type: str, vector: int) -> int | tuple[int, ...]:
        if vector == 1:
            return self.add(name, type)
        return tuple(self.add(f"{name}.{axis}", type) for axis in "xyzw"[:vector])


def _counts(digits: str, count: int) -> bool:
    """Whether what follows the stem of a range is the number of one of its registers."""
    return digits.isdigit() and int(digits) < count and (digits[0] != "0" or len(digits) == 1)


def near(name: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt name."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else ""


def _statements(block: ast.Block) -> list[ast.Statement]:
    """Statements of a body, in inner blocks too, in the order of the text; blocks may be nested deeper than Python recurses."""
    inner = ast.Block
    found: list[ast.Statement] = []
    work: list[Sequence[ast.Statement]] = [block.statements]
    while work:
        statements = work.pop()
        blocks = [at for at, statement in enumerate(statements) if type(statement) is inner]
        if not blocks:
            found += statements
            continue
        pieces: list[Sequence[ast.Statement]] = []
        for at, following in pairwise((*blocks, len(statements))):
            pieces += [statements[at].statements, statements[at + 1 : following]]  # type: ignore[union-attr]
        found += statements[: blocks[0]]
        work += reversed(pieces)
    return found


def instructions(block: ast.Block) -> list[ast.Instruction]:
    """Instructions of a body, in inner blocks too, in the order of the text."""
    instruction = ast.Instruction
    return [statement for statement in _statements(block) if type(statement) is instruction]


def variables(block: ast.Block) -> Iterator[ast.Variable]:
    """Variables that a body declares, in inner blocks too, in the order of the text."""
    return (statement for statement in _statements(block) if isinstance(statement, ast.Variable))


def names(block: ast.Block) -> Iterator[str]:
    """Names of variables that instructions mention."""
    mentioned = {id(operand): operand for statement in instructions(block) for operand in statement.operands}
    for operand in mentioned.values():
        if type(operand) is ast.Name:
            if not operand.text.startswith("%"):
                yield operand.text
        elif type(operand) is not ast.Integer:
            yield from _names_in(operand)


def _names_in(operand: ast.Operand) -> Iterator[str]:
    if isinstance(operand, ast.Name):
        if not operand.text.startswith("%"):
            yield operand.text
    elif isinstance(operand, ast.Offset):
        yield operand.base.text
    elif isinstance(operand, ast.Memory):
        if isinstance(operand.base, ast.Name):
            yield operand.base.text
        for item in operand.extra:
            yield from _names_in(item)
    elif isinstance(operand, ast.Vector | ast.Arguments):
        for item in operand.items:
            yield from _names_in(item)
    elif isinstance(operand, ast.Not | ast.Negative):
        yield from _names_in(operand.operand)
    elif isinstance(operand, ast.Pair):
        yield from _names_in(operand.first)
        yield from _names_in(operand.second)
