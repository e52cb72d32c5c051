"""Code that completes services without the machine.

Where their outcome is certain (`ptxlab.engine.direct_services`), and where the machine has said how to repeat an execution
(`ptxlab.engine.repetitions`).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab._records import dataclass
from ptxlab.engine.arrivals import emit_progress
from ptxlab.engine.box_copies import STORE, load_name
from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN, coordinates_of
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.mbarrier_rows import Cell, row_address
from ptxlab.engine.repetitions import (
    ENTRY_WORDS,
    FACTOR,
    FUNCTION,
    KEY,
    REGISTERS,
    SLOTS,
    STATE_SHIFT,
    WORDS_GIVEN,
    CopyWord,
    emit_calls,
)
from ptxlab.isa.effects import (
    Asynchronous,
    BoxOperands,
    CommitGroup,
    Completion,
    CompletionArrival,
    MbarrierArrive,
    MbarrierWait,
    WaitGroup,
)
from ptxlab.isa.operands import Const, Op, Reg, Resolved, Unused
from ptxlab.native.builder import Function, Module, Value

__all__ = ["emit_arrival", "emit_direct", "emit_repetition"]


def emit_direct(caller: Caller, frame: Value, op: Op, mask: Value, go_on: Callable[[], None]) -> None:
    """Emit code that completes a service for the lanes of ``mask`` if its outcome is certain, and continues with ``go_on``.

    Otherwise execution reaches the code that the caller emits next, which returns to the scheduler.
    """
    code, context = caller.code, caller.context
    service = _Service(caller, frame, op, mask, go_on)
    with code.when(context.pointer(Word.SERVICES).ne(0)):
        if isinstance(op.effects, MbarrierWait):
            service.pass_complete_phase(op.effects)
        else:
            with code.when(context.word(Word.DEFERRED).eq(0)):
                service.complete(code.const("i64", 0))


def emit_arrival(caller: Caller, frame: Value, op: Op, mask: Value, go_on: Callable[[], None]) -> None:
    """The same for an arrival or a group of bulk copies, which the launch must permit."""
    service = _Service(caller, frame, op, mask, go_on)
    with caller.code.when(caller.context.pointer(Word.PERMITTED).word(op.index).gt(0)):
        if isinstance(op.effects, CommitGroup | WaitGroup):
            service.count()
        elif isinstance(op.effects, CompletionArrival):
            service.commit()
        else:
            service.arrive()


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
        service = _Service(caller, frame, op, mask, go_on)
        if isinstance(op.effects, Asynchronous) and op.effects.box is not None:
            service.copy_box(op.effects.box, lane.to("i64"), values)
            return
        about = context, code.const("i64", op.index), lane.to("i64")
        repeated = code.call(_repeat(code.module, len(values)), "i32", *about, *values)
        with code.when(repeated.ne(0)):
            if isinstance(op.effects, Asynchronous) and op.effects.completion is Completion.COMMIT:
                context.set_word(Word.ISSUED, context.word(Word.ISSUED) | mask.to("i64"))
            emit_progress(context, 1)
            service.count()


def _repeat(module: Module, count: int) -> str:
    """The function that repeats the execution of an instruction with so many values of registers; its result is 0 if it does not."""
    name = f"repeat.{count}"
    if name in module.outlined:
        return name
    module.outlined[name] = name, "i32"
    parameters = "ptr context, i64 op, i64 lane" + "".join(f", i64 value{index}" for index in range(count))
    code = Function(module, name, "i32", parameters, internal=True)
    context, op, lane, *values = code.parameters
    where = context.pointer(Word.REPEATED_IN)
    state = where.word(0)
    with code.when(state.eq(0)):
        code.ret(0)
    entry = code.call(_known(module, count), "ptr", context, (state << STATE_SHIFT) | op, *values)
    with code.when(entry.eq(0)):
        code.ret(0)
    emit_calls(code, context, entry, lane, 0)
    code.call(entry.pointer(FUNCTION), "void", where.pointer(1), entry.at(8 * WORDS_GIVEN))
    code.ret(1)
    return name


def _known(module: Module, count: int) -> str:
    """The function that returns the address of an execution with a key and so many values of registers, null if there is none."""
    name = f"known.{count}"
    if name in module.outlined:
        return name
    module.outlined[name] = name, "ptr"
    parameters = "ptr context, i64 key" + "".join(f", i64 value{index}" for index in range(count))
    code = Function(module, name, "ptr", parameters, internal=True)
    context, *same = code.parameters
    table = context.pointer(Word.REPETITIONS)
    with code.when(table.eq(0)):
        code.ret(0)
    mixed, *values = same
    for value in values:
        mixed = (mixed ^ value) * FACTOR
        mixed = mixed ^ (mixed >> 32)
    place, search = mixed.variable(), code.label("search")
    code.jump(search)
    code.begin(search)
    entry = table.at((place.get() & (SLOTS - 1)) * (8 * ENTRY_WORDS))
    with code.when(entry.word(FUNCTION).eq(0)):
        code.ret(0)
    differ = code.const("i1", 0)
    for index, value in zip((KEY, *range(REGISTERS, REGISTERS + count)), same, strict=True):
        differ = differ | entry.word(index).ne(value)
    with code.when(differ):
        place.set(place.get() + 1)
        code.jump(search)
    code.ret(entry)
    return name


@dataclass(slots=True)
class _Service:
    """One instruction, for the lanes of a mask."""

    caller: Caller
    frame: Value
    op: Op
    mask: Value
    go_on: Callable[[], None]

    def complete(self, number: Value) -> None:
        """The instruction is complete; ``number`` is for its event row."""
        self.caller.record(self.op, self.mask, number)
        self.count()

    def count(self) -> None:
        """Count the execution and go on."""
        counts = self.caller.context.pointer(Word.SERVICES)
        counts.set_word(self.op.index, counts.word(self.op.index) + 1)
        self.go_on()

    def pass_complete_phase(self, wait: MbarrierWait) -> None:
        """A wait of all lanes for one phase of one mbarrier of their CTA, which is complete."""
        caller, op = self.caller, self.op
        code, context = caller.code, caller.context
        address, one_address = self._address(op.operands[1])
        phase, one_phase = self._number(op.operands[2], 32 if wait.parity else 64)
        offset = address - context.word(Word.SHARED_RANK)
        shared, size = context.pointer(Word.SHARED), context.word(Word.SHARED_SIZE)
        found = (offset & 7).eq(0) & offset.ult(size)
        for one in (one_address, one_phase):
            found = found if one is None else found & one
        with code.when(found):
            # One more than the completed phases, so the parity of the phase that is not complete.
            after = row_address(shared, size, offset).load("i32", Cell.PHASES).to("i64")
            token = shared.at(offset).load("i64")
            done = ((after ^ phase) & 1).eq(0) if wait.parity else after.ugt((phase >> 20) + 1)
            with code.when(after.ne(0) & token.eq(MBARRIER_TOKEN) & done):
                result = op.operands[0]
                if isinstance(result, Reg) and caller.program.registers[result.index].offset >= 0:
                    place = caller.row(self.frame, result, 1)
                    place.store(place.load("i32") | self.mask)
                self.complete(offset)

    def arrive(self) -> None:
        """Arrivals of all lanes on one mbarrier, with the same count, or expectations of as many bytes."""
        caller, op, effects = self.caller, self.op, self.op.effects
        code = caller.code
        result: Resolved = Unused()
        one, nothing = code.const("i64", 1), code.const("i64", 0)
        arrives, first = isinstance(effects, MbarrierArrive), 0
        expects = not isinstance(effects, MbarrierArrive) or effects.expects
        if arrives:
            result, first = op.operands[0], 1
        address, same = self._address(op.operands[first])
        number, one_number = self._number(op.operands[first + 1], 32)
        count, size = (one if arrives else nothing, number) if expects else (number, nothing)
        lanes = self.mask.intrinsic("ctpop").to("i64")
        steps = lanes * (1 + arrives) if expects else one
        certain = code.const("i1", 1) if expects else number.ne(0)
        for each in (same, one_number):
            certain = certain if each is None else certain & each
        with code.when(certain):
            name = f"arrive_{'cluster' if op.q.space == 'shared::cluster' else 'cta'}"
            state = caller.helper(name, "i64", caller.context, address, lanes, count, size, steps)
            with code.when(state.ge(0)):
                if isinstance(result, Reg) and caller.program.registers[result.index].offset >= 0:
                    row, left = caller.row(self.frame, result, 64), state.variable()
                    with code.each_bit(self.mask) as lane:
                        row.store(left.get(), lane)
                        left.set(left.get() - count)
                self.complete(caller.context.word(Word.ARRIVED))

    def commit(self) -> None:
        """A commit of one lane."""
        caller, (address, *ctas) = self.caller, self.op.operands
        code = caller.code
        where, _ = self._address(address)
        many = bool(self.op.q.multicast)
        which = self._number(ctas[0], 16)[0] if many else code.const("i64", 0)
        name = f"commit_{'pair' if self.op.q.cta_group == 'cta_group::2' else 'cta'}_{'multicast' if many else 'one'}"
        done = caller.helper(name, "i64", caller.context, self.mask, where, which)
        with code.when(done.eq(0)):
            self.complete(caller.context.word(Word.ARRIVED))

    def copy_box(self, box: BoxOperands, lane: Value, values: list[Value]) -> None:
        """A copy of one lane of a box of the tensor map that ``values`` name."""
        caller, op, operands = self.caller, self.op, self.op.operands
        code, context = caller.code, caller.context
        entry = code.call(_known(code.module, len(values)), "ptr", context, code.const("i64", op.index), *values)
        with code.when(entry.ne(0)):
            items = coordinates_of(operands[box.tensor_map])
            copy = code.stack(f"[{CopyWord.COORDINATES + len(items)} x i64]")
            copy.set_word(CopyWord.LANE, lane)
            for index, item in enumerate(items, CopyWord.COORDINATES):
                copy.set_word(index, self._number(item, 32)[0].to("i32").sext("i64"))
            address, _ = self._address(operands[box.shared])
            if box.barrier < 0:
                done = caller.helper(STORE, "i64", context, entry, address, copy)
            else:
                barrier, _ = self._address(operands[box.barrier])
                multicast = not isinstance(operands[box.ctas], Unused)
                ctas = self._number(operands[box.ctas], 16)[0] if multicast else code.const("i64", 0)
                name = load_name(op.q.direction != "shared::cta", op.q.cta_group == "cta_group::2", multicast)
                done = caller.helper(name, "i64", context, entry, address, barrier, ctas, copy)
            with code.when(done.eq(0)):
                self.count()

    def _address(self, operand: Resolved) -> tuple[Value, Value | None]:
        """An address in the lowest lane, and whether all lanes have it; None if that is certain."""
        source, row, added = self.caller.address(self.frame, operand)
        if source == "u":
            return added, None
        value, same = self._common(row, f"i{source}")
        return value + added, same

    def _number(self, operand: Resolved, bits: int) -> tuple[Value, Value | None]:
        """The same for a number; 1 if the operand is absent."""
        code = self.caller.code
        if isinstance(operand, Const | Unused):
            return code.const("i64", operand.value & (1 << bits) - 1 if isinstance(operand, Const) else 1), None
        return self._common(self.caller.row(self.frame, operand, bits), f"i{bits}")

    def _common(self, row: Value, element: str) -> tuple[Value, Value]:
        """The value in the lowest lane, and whether all lanes have it."""
        mask = self.mask
        value = row.load(element, mask.lowest_bit().to("i64"))
        same = row.load(f"<32 x {element}>", align=64).eq(value.splat(32)).cast("i32")
        return value.to("i64"), (same & mask).eq(mask)
