"""The names of a block, and the shapes of operands: of instructions with the same shapes only the first one is checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from ptxlab import ptx
from ptxlab.check.static._legality import check_instruction, check_row, compares_names, takes_any_value
from ptxlab.check.static._operands import Finding

__all__ = ["Names", "Verdicts", "check_block", "verdicts_of"]

_MOST_SHAPES = 1 << 16


class Verdicts:
    """The instructions of a target and a version about which there is nothing to say, by their opcodes and shapes of operands."""

    def __init__(self) -> None:
        self.fine: set[tuple[str, tuple[int, ...]]] = set()
        self._numbers: dict[Hashable, int] = {}

    def number(self, shape: Hashable) -> int:
        """The number of a shape: tuples of numbers are compared faster than those of shapes."""
        return self._numbers.setdefault(shape, len(self._numbers))

    @property
    def full(self) -> bool:
        """Whether it has grown so much that a new one should begin."""
        return len(self._numbers) + len(self.fine) > _MOST_SHAPES


_VERDICTS: dict[tuple[str, tuple[int, int]], Verdicts] = {}


def verdicts_of(target: str, version: tuple[int, int]) -> Verdicts:
    """What is known so far for a target and a version."""
    found = _VERDICTS.get((target, version))
    if found is None or found.full:
        if len(_VERDICTS) >= _MOST_TARGETS:
            _VERDICTS.clear()
        found = _VERDICTS[target, version] = Verdicts()
    return found


_MOST_TARGETS = 64


class Names:
    """What the names of a block stand for; a family ``%r<10>`` is kept as its stem and count."""

    def __init__(self, verdicts: Verdicts, names: Mapping[str, str], families: Mapping[str, tuple[str, int]]) -> None:
        self.verdicts = verdicts
        self._names, self._families = dict(names), dict(families)
        self._shapes: dict[int, tuple[ptx.Operand, int, int]] = {}

    def __call__(self, name: str) -> str | None:
        """A register's type (``b32``), a variable's state space with a dot before it (``.shared``), or None."""
        found = self._names.get(name)
        if found is None:
            stem = name.rstrip("0123456789")
            digits = name[len(stem) :]
            known = self._families.get(stem)
            if known and digits and (digits == "0" or digits[0] != "0") and int(digits) < known[1]:
                found = self._names[name] = known[0]
        return found

    def declare(self, statement: ptx.RegisterDeclaration | ptx.Variable) -> None:
        """Enter what a statement declares."""
        self._shapes.clear()
        if isinstance(statement, ptx.Variable):
            self._names[statement.name] = "." + statement.space
            return
        self._names.update((name, statement.type) for name, count in statement.names if count is None)
        self._families.update((name, (statement.type, count)) for name, count in statement.names if count is not None)

    def inner(self) -> Names:
        """The names at the start of a block that stands here."""
        return Names(self.verdicts, self._names, self._families)

    def shapes(self, instruction: ptx.Instruction) -> tuple[int, ...]:
        """The numbers of the shapes of an instruction's operands; integers have one shape where none is wrong."""
        operands = instruction.operands
        known = self._shapes
        found = [known.get(id(operand)) or self._find(operand) for operand in operands]
        if takes_any_value(instruction.opcode, len(operands)):
            return tuple([without_value for _, _, without_value in found])
        return tuple([number for _, number, _ in found])

    def _find(self, operand: ptx.Operand) -> tuple[ptx.Operand, int, int]:
        number = without_value = self.verdicts.number(_shape(operand, self))
        if type(operand) is _Integer:
            without_value = self.verdicts.number(_Integer)
        found = self._shapes[id(operand)] = operand, number, without_value
        return found


_Name, _Integer, _Memory, _Instruction = ptx.Name, ptx.Integer, ptx.Memory, ptx.Instruction


def _shape(operand: ptx.Operand, names: Names) -> Hashable:
    """All of an operand that a finding may depend on: of a name what it stands for."""
    kind = type(operand)
    if kind is _Name:
        return names(operand.text) or operand.text  # type: ignore[union-attr]
    if kind is _Integer:
        return operand
    if kind is _Memory:
        assert isinstance(operand, ptx.Memory)
        shapes = [_shape(item, names) for item in operand.extra] if operand.extra else ()
        return kind, _shape(operand.base, names), operand.offset != 0, operand.unified, *shapes
    if isinstance(operand, ptx.Vector | ptx.Arguments):
        items = operand.items
        return kind, len(set(items)) == len(items), *[_shape(item, names) for item in items]
    if isinstance(operand, ptx.Float):
        return kind, operand.width
    if isinstance(operand, ptx.Pair):
        return kind, _shape(operand.first, names), _shape(operand.second, names)
    if isinstance(operand, ptx.Offset):
        return kind, _shape(operand.base, names)
    if isinstance(operand, ptx.Not | ptx.Negative):
        return kind, _shape(operand.operand, names)
    return operand


def check_block(block: ptx.Block, names: Names, target: str, version: tuple[int, int]) -> Iterator[tuple[ptx.Instruction, Finding]]:
    """What is wrong with the instructions of a block and of those inside."""
    fine = names.verdicts.fine
    for statement in block.statements:
        if type(statement) is _Instruction:
            key = statement.opcode, names.shapes(statement)
            if key in fine:
                continue
            found = check_instruction(statement, target, version, names)
            if found is None:
                found = check_row(statement, target, version, names)
            if not found and not compares_names(statement.opcode):
                fine.add(key)
            for finding in found:
                yield statement, finding
        elif isinstance(statement, ptx.RegisterDeclaration | ptx.Variable):
            names.declare(statement)
        elif isinstance(statement, ptx.Block):
            yield from check_block(statement, names.inner(), target, version)
