"""Constant values of registers, and what operands mean: by the rows of the instruction catalogue."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from ptxlab.editor._structure import Definition, Statement, Structure
from ptxlab.engine.lowering.matching import Candidate, candidates
from ptxlab.engine.reference import NumpyVocabulary
from ptxlab.isa.catalogue import Control
from ptxlab.isa.kinds import type_bits

__all__ = ["Values", "candidate_of"]

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)U?", re.ASCII)
_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", re.ASCII)
_DEEPEST = 64
_VOCABULARY = NumpyVocabulary()


@lru_cache(maxsize=4096)
def _by_count(opcode: str, count: int) -> tuple[Candidate, tuple[int, ...]] | None:
    """The first row of an opcode with so many operands, and which of its operands they are."""
    for candidate in candidates(opcode):
        if count in candidate.lines:
            return candidate, candidate.lines[count][0]
    return None


def candidate_of(structure: Structure, statement: Statement) -> tuple[Candidate, tuple[int, ...]] | None:
    """The row of an instruction, by its opcode and the shape of its operands, and the row's number of each operand."""
    opcode = structure.tokens[statement.head].text
    operands = structure.operands(statement)
    count = len(operands)
    brackets = [structure.tokens[first].text == "[" for first, _ in operands]
    for candidate in candidates(opcode):
        for line in candidate.lines.get(count, ()):
            specs = [candidate.specs[position] for position in line]
            if all((spec.kind == "addr" or spec.name.startswith("[")) == bracket for spec, bracket in zip(specs, brackets, strict=True)):
                return candidate, line
    return _by_count(opcode, count)


def literal(text: str) -> int | None:
    """The value of an integer constant, or the bits of a floating one."""
    integer = _INTEGER.fullmatch(text)
    if integer:
        digits = integer[1]
        octal = digits[0] == "0" and digits.isdecimal()
        try:
            return int(digits, 8 if octal else 0)
        except ValueError:
            return None
    bits = _FLOAT.fullmatch(text)
    return int(bits[1] or bits[2], 16) if bits else None


class Values:
    """The constant values of the registers of a text.

    A register has a constant value if one instruction writes it, without a guard, and that one is a pure function of constants.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._known: dict[int, int | None] = {}

    def writes(self, definition: Definition) -> list[Statement]:
        """The instructions that write a register, and those that no row takes, which may write it."""
        found: list[Statement] = []
        for token in definition.uses:
            statement = self.structure.statement_at(token)
            if statement is None or token == statement.guard or (found and found[-1] is statement):
                continue
            outputs = self._outputs(statement)
            if outputs is None or any(first <= token <= last for first, last in outputs):
                found.append(statement)
        return found

    def _outputs(self, statement: Statement) -> list[tuple[int, int]] | None:
        """The operands that an instruction writes; None if no row takes it."""
        row = candidate_of(self.structure, statement)
        if row is None:
            return None
        operands = self.structure.operands(statement)
        if row[0].row.semantics is Control.CALL:
            return [span for span in operands[:1] if self.structure.tokens[span[0]].text == "("]
        return [span for span, place in zip(operands, row[1], strict=True) if place < row[0].row.outputs]

    def of(self, definition: Definition, depth: int = 0) -> int | None:
        """The bits of a register, if it is a constant."""
        if definition.kind != "register" or depth > _DEEPEST:
            return None
        key = id(definition)
        if key not in self._known:
            self._known[key] = None
            writes = self.writes(definition)
            if len(writes) == 1 and writes[0].guard < 0:
                self._known[key] = self._result(writes[0], depth)
        return self._known[key]

    def operand(self, span: tuple[int, int], depth: int = 0) -> int | None:
        """The bits of an operand, if it is a constant or a register that is one."""
        first, last = span
        tokens = self.structure.tokens
        if first == last:
            if tokens[first].kind == "number":
                return literal(tokens[first].text)
            definition = self.structure.used.get(first)
            return None if definition is None else self.of(definition, depth + 1)
        if first + 1 == last and tokens[first].text == "-":
            value = literal(tokens[last].text) if tokens[last].kind == "number" else None
            return None if value is None else -value & (1 << 64) - 1
        return None

    def _result(self, statement: Statement, depth: int) -> int | None:
        row = candidate_of(self.structure, statement)
        if row is None or row[0].row.kind != "pure" or row[0].row.outputs != 1 or row[0].hidden:
            return None
        candidate, line = row
        specs = candidate.specs
        given: list[object] = [None] * len(specs)
        for place, span in list(zip(line, self.structure.operands(statement), strict=True))[1:]:
            bits = type_bits(specs[place].type)
            value = self.operand(span, depth)
            if specs[place].kind != "scalar" or value is None or not 0 < bits <= 64:
                return None
            data = _VOCABULARY.const(value & (1 << bits) - 1, f"i{bits}")
            given[place] = _VOCABULARY.bitcast(data, specs[place].type) if specs[place].type in ("f32", "f64") else data
        if specs[0].kind != "scalar" or not 0 < type_bits(specs[0].type) <= 64:
            return None
        with np.errstate(all="ignore"):
            try:
                result = candidate.row.semantics(_VOCABULARY, candidate.q, *given[1:])
            except (TypeError, AttributeError):  # an operand whose type belongs to another row of the opcode
                return None
        array = np.ascontiguousarray(result)
        if array.dtype.kind != "b":
            array = array.view(f"u{array.itemsize}")
        return int(array.reshape(-1)[0])
