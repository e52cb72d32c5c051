"""Code that completes services where their outcome is certain (`ptxlab.engine.direct_services`)."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.mbarrier_rows import ROW_BYTES, Cell
from ptxlab.isa.effects import MbarrierWait
from ptxlab.isa.operands import Const, Op, Reg
from ptxlab.native.builder import Value

__all__ = ["emit_direct"]


def emit_direct(caller: Caller, frame: Value, op: Op, mask: Value, go_on: Callable[[], None]) -> None:
    """Emit code that completes a service for the lanes of ``mask`` if its outcome is certain, and continues with ``go_on``.

    Otherwise execution reaches the code that the caller emits next, which returns to the scheduler.
    """
    code, context = caller.code, caller.context
    counts = context.pointer(Word.SERVICES)

    def complete(number: Value) -> None:
        caller.record(op, mask, number)
        counts.set_word(op.index, counts.word(op.index) + 1)
        go_on()

    with code.when(counts.ne(0)):
        if isinstance(op.effects, MbarrierWait):
            _pass_complete_phase(caller, frame, op, op.effects, mask, complete)
        else:
            with code.when(context.word(Word.DEFERRED).eq(0)):
                complete(code.const("i64", 0))


def _pass_complete_phase(caller: Caller, frame: Value, op: Op, wait: MbarrierWait, mask: Value, complete: Callable[[Value], None]) -> None:
    """A wait of all lanes for one phase of one mbarrier of their CTA, which is complete."""
    code, context = caller.code, caller.context
    source, row, added = caller.address(frame, op.operands[1])
    base, one_address = (code.const("i64", 0), None) if source == "u" else _common(row, f"i{source}", mask)
    operand = op.operands[2]
    if isinstance(operand, Const):
        phase, one_phase = code.const("i64", operand.value), None
    else:
        phase, one_phase = _common(caller.row(frame, operand, 32 if wait.parity else 64), "i32" if wait.parity else "i64", mask)
    offset = base + added - context.word(Word.SHARED_RANK)
    shared, size = context.pointer(Word.SHARED), context.word(Word.SHARED_SIZE)
    found = (offset & 7).eq(0) & offset.ult(size)
    for one in (one_address, one_phase):
        found = found if one is None else found & one
    with code.when(found):
        # One more than the completed phases, so the parity of the phase that is not complete.
        after = shared.at(size + offset * (ROW_BYTES // 8)).load("i32", Cell.PHASES).to("i64")
        token = shared.at(offset).load("i64")
        done = ((after ^ phase) & 1).eq(0) if wait.parity else after.ugt((phase >> 20) + 1)
        with code.when(after.ne(0) & token.eq(MBARRIER_TOKEN) & done):
            result = op.operands[0]
            if isinstance(result, Reg) and caller.program.registers[result.index].offset >= 0:
                place = caller.row(frame, result, 1)
                place.store(place.load("i32") | mask)
            complete(offset)


def _common(row: Value, element: str, mask: Value) -> tuple[Value, Value]:
    """The value in the lowest lane of a mask, and whether all lanes have it."""
    value = row.load(element, mask.lowest_bit().to("i64"))
    same = row.load(f"<32 x {element}>", align=64).eq(value.splat(32)).cast("i32")
    return value.to("i64"), (same & mask).eq(mask)
