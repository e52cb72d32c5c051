"""Runs of one approximate instruction: functions that all programs share, with the loop over the registers of a run.

In a loop of its own a function keeps its constants and tables in registers of the processor, and nothing is saved around a call for each
instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ptxlab.engine.context import Word
from ptxlab.engine.llvm.vocabulary import WIDE, LlvmVocabulary
from ptxlab.engine.lowering.matching import candidates, element_type, operand_specs
from ptxlab.engine.program import Program
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Op, Reg
from ptxlab.isa.scalar.shared_functions import NAMES, TWO_VECTORS
from ptxlab.native.builder import Function, Module, Value

__all__ = ["call_for_run", "emit_for_run"]

T = TypeVar("T")


def call_for_run(code: Function, program: Program, context: Value, frame: Value, ops: Sequence[Op], lanes: int) -> bool:
    """Call the function for a run of ops that differ in their registers alone, if there is one for them."""
    first, helpers = ops[0], code.module.helpers
    if helpers is None or first.row.semantics not in TWO_VECTORS or not _in_whole_registers(program, first):
        return False
    rows = [program.registers[item.index].offset for op in ops for item in op.operands if isinstance(item, Reg)]
    name = f"run_{first.opcode}_{lanes}"
    helpers[name] = None
    code.module.declare(f"@{name}", f"declare void @{name}(ptr, i32, ptr, i64)")
    mask = context.at(8 * Word.MASK).load("i32")
    code.call(name, "void", frame, mask, code.constants("i64", rows), code.const("i64", len(ops)))
    return True


def _in_whole_registers(program: Program, op: Op) -> bool:
    """Whether the operands of an op are registers of their types."""
    if op.guard is not None:
        return False
    return all(
        isinstance(operand, Reg) and not operand.negated and program.registers[operand.index].bits == type_bits(spec.type)
        for operand, spec in zip(op.operands, operand_specs(op), strict=True)
    )


def emit_for_run(module: Module, name: str, opcode: str, lanes: int) -> None:
    """The function for runs of an instruction, on vectors of so many lanes; ``rows`` has those of the registers of one op after another."""
    (form,) = candidates(opcode)
    types = [spec.type for spec in form.specs]
    code = Function(module, name, "void", "ptr frame, i32 mask, ptr rows, i64 count", attributes=WIDE)
    with code.loop(32 // lanes, entered=True) as index:
        running = code["mask"].operation("lshr", (index * lanes).to("i32")).to(f"i{lanes}").cast(f"<{lanes} x i1>")
        with code.loop(code["count"], entered=True) as number:
            x = _InPlace(code, lanes)

            def row(place: int, number: Value = number, index: Value = index) -> Value:
                bits = type_bits(types[place])
                at = code["rows"].at(number * len(types), "i64").load("i64", place)
                return code["frame"].at(at).at(index * (lanes * bits // 8))

            def vector(place: int, x: LlvmVocabulary = x) -> str:
                return x.vectors[element_type(types[place])]

            sources = [row(place).load(vector(place), align=64) for place in range(1, len(types))]
            result = form.row.semantics(x, form.q, *sources)
            target = row(0)
            with code.when(code["mask"].eq(-1)) as otherwise:
                target.store(result, align=64)
                otherwise()
                # By bits: of a selection LLVM makes a store with a mask, which is slow on Zen 3.
                bits = x.vectors[f"i{type_bits(types[0])}"]
                old = target.load(bits, align=64)
                target.store(old ^ ((old ^ result.cast(bits)) & running.sext(bits)), align=64)


class _InPlace(LlvmVocabulary):
    """The shared functions that an instruction consists of are no calls."""

    def call(self, function: Callable[..., T], *args: Value) -> T:
        if function in NAMES:
            return function(self, *args)
        return super().call(function, *args)
