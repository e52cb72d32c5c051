"""Products that add to nothing: what their destination held before is not read, if a constant says so."""

from __future__ import annotations

import numpy as np

from ptxlab.engine.lowering.matching import operand_specs
from ptxlab.engine.lowering.register_use import constant_bits, operand_registers
from ptxlab.engine.program import Program
from ptxlab.engine.reference import NumpyVocabulary
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["forget_unread"]

_DEEPEST = 8
_VOCABULARY = NumpyVocabulary()


def forget_unread(program: Program) -> None:
    """Take the destinations that are not read out of ``reads``, so that nothing counts as undefined because of them."""
    constants: _Constants | None = None
    for op in program.ops:
        if op.row.accumulates:
            constants = constants or _Constants(program.ops)
            names = [name for name, _ in op.row.operands]
            if constants.of(op.operands[names.index(op.row.accumulates)], 32) == 0:
                updated = sum(len(operand_registers(operand)) for operand in op.operands[: op.row.updates])
                program.reads[op.index] = program.reads[op.index][:-updated]


class _Constants:
    """The values of registers that hold one constant: one instruction writes each, without a guard, a pure function of constants."""

    def __init__(self, ops: list[Op]) -> None:
        self._writers: dict[int, Op | None] = {}
        for op in ops:
            for operand in op.operands[: op.row.outputs]:
                for register in operand_registers(operand):
                    self._writers[register] = None if register in self._writers else op

    def of(self, operand: Resolved, bits: int, depth: int = 0) -> int | None:
        """The bits of an operand, if they are known."""
        if isinstance(operand, Const):
            return constant_bits(operand, bits)
        writer = self._writers.get(operand.index) if isinstance(operand, Reg) and not operand.negated else None
        if writer is None or writer.guard is not None or writer.row.kind != "pure" or writer.row.outputs != 1 or depth == _DEEPEST:
            return None
        given = []
        for source, spec in zip(writer.operands[1:], operand_specs(writer)[1:], strict=True):
            width = type_bits(spec.type) if spec.kind == "scalar" and spec.type[0] != "f" else 0
            value = self.of(source, width, depth + 1) if 0 < width <= 64 else None
            if value is None:
                return None
            given.append(_VOCABULARY.const(value, f"i{width}"))
        result = np.asarray(writer.row.semantics(_VOCABULARY, writer.q, *given)).reshape(-1)
        return int(result[0]) if result.dtype.kind in "bu" else None
