"""Code that completes services where their outcome is certain (`ptxlab.engine.direct_services`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptxlab.engine.context import Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.mbarrier_rows import ROW_BYTES, Cell
from ptxlab.isa.effects import CompletionArrival, MbarrierArrive, MbarrierWait
from ptxlab.isa.operands import Const, Op, Reg, Resolved, Unused
from ptxlab.native.builder import Value

__all__ = ["emit_arrival", "emit_direct"]


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
    """The same for an arrival, which the launch must permit."""
    service = _Service(caller, frame, op, mask, go_on)
    with caller.code.when(caller.context.pointer(Word.PERMITTED).word(op.index).gt(0)):
        if isinstance(op.effects, CompletionArrival):
            service.commit()
        else:
            service.arrive()


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
            after = shared.at(size + offset * (ROW_BYTES // 8)).load("i32", Cell.PHASES).to("i64")
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
                self.count()

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
