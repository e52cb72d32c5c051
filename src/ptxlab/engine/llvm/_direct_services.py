"""Code that completes services without the machine.

Where their outcome is certain (`ptxlab.engine.direct_services`), and where the machine has said how to repeat an execution
(`ptxlab.engine.repetitions`).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.repetitions import ENTRY_WORDS, FACTOR, FUNCTION, KEY, REGISTERS, SLOTS, STATE_SHIFT, WORDS_GIVEN
from ptxlab.isa.effects import Asynchronous, Completion, MbarrierWait
from ptxlab.isa.operands import Const, Op, Reg
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_direct", "emit_repetition"]


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
    found = (offset & 7).eq(0) & offset.ult(context.word(Word.SHARED_SIZE) & -8)
    for one in (one_address, one_phase):
        found = found if one is None else found & one
    with code.when(found):
        # One more than the completed phases, so the parity of the phase that is not complete.
        after = context.pointer(Word.PHASES).load("i32", offset >> 3).to("i64")
        token = context.pointer(Word.SHARED).at(offset).load("i64")
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


def emit_repetition(caller: Caller, frame: Value, op: Op, registers: tuple[int, ...], mask: Value, go_on: Callable[[], None]) -> None:
    """Emit code that repeats an execution for the one lane of ``mask`` if the machine has said how, and continues with ``go_on``.

    Otherwise execution reaches the code that the caller emits next, which returns to the scheduler. ``registers`` decide what it does.
    """
    code, context = caller.code, caller.context
    with code.when((mask & (mask - 1)).eq(0)):
        lane = mask.lowest_bit()
        values = []
        for index in registers:
            register = caller.program.registers[index]
            row = frame.at(register.offset)
            values.append((row.load("i32") >> lane & 1 if register.bits == 1 else row.load(f"i{register.bits}", lane.to("i64"))).to("i64"))
        repeated = code.call(_repeat(code.module, len(values)), "i32", context, code.const("i64", op.index), *values)
        with code.when(repeated.ne(0)):
            if isinstance(op.effects, Asynchronous) and op.effects.completion is Completion.COMMIT:
                context.set_word(Word.ISSUED, context.word(Word.ISSUED) | mask.to("i64"))
            counts, progress = context.pointer(Word.SERVICES), context.pointer(Word.PROGRESS)
            counts.set_word(op.index, counts.word(op.index) + 1)
            progress.set_word(0, progress.word(0) + 1)
            go_on()


def _repeat(module: Module, count: int) -> str:
    """The function that repeats the execution of an instruction with so many values of registers; 0 if it does not know it."""
    name = f"repeat.{count}"
    if name in module.outlined:
        return name
    module.outlined[name] = name, "i32"
    parameters = "ptr context, i64 op" + "".join(f", i64 value{index}" for index in range(count))
    code = Function(module, name, "i32", parameters, internal=True)
    context, op, *values = code.parameters
    table, where = context.pointer(Word.REPETITIONS), context.pointer(Word.REPEATED_IN)
    with code.when(table.eq(0)):
        code.ret(0)
    state = where.word(0)
    with code.when(state.eq(0)):
        code.ret(0)
    same = [(state << STATE_SHIFT) | op, *values]
    mixed = same[0]
    for value in values:
        mixed = (mixed ^ value) * FACTOR
        mixed = mixed ^ (mixed >> 32)
    place, search = mixed.variable(), code.label("search")
    code.jump(search)
    code.begin(search)
    entry = table.at((place.get() & (SLOTS - 1)) * (8 * ENTRY_WORDS))
    function = entry.pointer(FUNCTION)
    with code.when(function.eq(0)):
        code.ret(0)
    differ = code.const("i1", 0)
    for index, value in zip((KEY, *range(REGISTERS, REGISTERS + count)), same, strict=True):
        differ = differ | entry.word(index).ne(value)
    with code.when(differ):
        place.set(place.get() + 1)
        code.jump(search)
    code.call(function, "void", where.pointer(1), entry.at(8 * WORDS_GIVEN))
    code.ret(1)
    return name
