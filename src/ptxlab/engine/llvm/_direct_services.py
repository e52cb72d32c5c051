"""Code that completes services without the machine.

Where their outcome is certain (`ptxlab.engine.direct_services`), and where the machine has said how to repeat an execution
(`ptxlab.engine.repetitions`).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab._records import dataclass
from ptxlab.engine.cancellations import cancel_name
from ptxlab.engine.context import BY_PARITY, Word
from ptxlab.engine.copies.boxes import load_name, store_name
from ptxlab.engine.copies.lines import line_load_name, line_store_name
from ptxlab.engine.direct_services import COORDINATE_BITS, MBARRIER_TOKEN, numbers_of
from ptxlab.engine.llvm._known_executions import known_name, repeat_name
from ptxlab.engine.llvm._lane_operands import LaneOperands
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.engine.mbarrier_rows import Cell, is_complete, row_address
from ptxlab.engine.repetitions import STATE_SHIFT, CopyWord, operands_used
from ptxlab.isa.effects import (
    Asynchronous,
    BoxOperands,
    CommitGroup,
    Completion,
    CompletionArrival,
    Extract,
    LineOperands,
    MbarrierArrive,
    MbarrierWait,
    Unit,
    WaitGroup,
)
from ptxlab.isa.operands import Op, Reg, Resolved, Unused
from ptxlab.isa.warpgroup_words import GroupWord
from ptxlab.native.builder import Value

__all__ = ["emit_arrival", "emit_direct", "emit_repetition"]

_ALL_LANES = 0xFFFF_FFFF


def emit_direct(caller: Caller, frame: Value, op: Op, mask: Value, go_on: Callable[[], None]) -> None:
    """Emit code that completes a service for the lanes of ``mask`` if its outcome is certain, and continues with ``go_on``.

    Otherwise execution reaches the code that the caller emits next, which returns to the scheduler.
    """
    code, context = caller.code, caller.context
    service = _Service(caller, frame, op, mask, go_on)
    permitted = context.pointer(Word.PERMITTED).word(op.index)
    with code.when(context.pointer(Word.SERVICES).ne(0) & permitted.gt(0)):
        if isinstance(op.effects, MbarrierWait):
            service.pass_complete_phase(op.effects, permitted)
        elif isinstance(op.effects, Extract):
            service.extract(op.effects)
        else:
            with code.when(context.word(Word.DEFERRED).eq(0)):
                service.complete(code.const("i64", 0))


def emit_arrival(caller: Caller, frame: Value, op: Op, mask: Value, go_on: Callable[[], None]) -> None:
    """The same for an arrival or a group of operations, which the launch must permit."""
    service = _Service(caller, frame, op, mask, go_on)
    permitted = caller.context.pointer(Word.PERMITTED).word(op.index)
    with caller.code.when(permitted.gt(0)):
        if isinstance(op.effects, CommitGroup | WaitGroup):
            if op.effects.of is Completion.WGMMA_GROUP:
                service.warpgroup_group(isinstance(op.effects, CommitGroup), permitted)
            else:
                service.complete(caller.code.const("i64", 0))
        elif isinstance(op.effects, CompletionArrival):
            service.commit()
        else:
            service.arrive()


def emit_repetition(caller: Caller, frame: Value, op: Op, registers: tuple[int, ...], mask: Value, go_on: Callable[[], None]) -> None:
    """Emit code that repeats an execution for the one lane of ``mask`` if the machine has said how, and continues with ``go_on``.

    Otherwise execution reaches the code that the caller emits next, which returns to the scheduler. ``registers`` decide what it does. All
    lanes issue their warp's share of a wgmma.mma_async. Several lanes may store the same box to the same place, or copy contiguous bytes.
    """
    code, context = caller.code, caller.context
    service = _Service(caller, frame, op, mask, go_on)
    if isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.WARPGROUP:
        service.issue_share(registers)
        return
    if isinstance(op.effects, Asynchronous) and op.effects.box is not None and op.effects.box.barrier < 0:
        box = op.effects.box
        used = (register for at in (box.tensor_map, box.shared) for register in operand_registers(op.operands[at]))
        with code.when(service.is_same_in_all(dict.fromkeys(used))):
            service.copy_box(box, service.values(registers))
        return
    if isinstance(op.effects, Asynchronous) and op.effects.line is not None:
        service.copy_lines(op.effects.line, registers)
        return
    with code.when((mask & (mask - 1)).eq(0)):
        lane, values = service.lane, service.values(registers)
        if isinstance(op.effects, Asynchronous) and op.effects.box is not None:
            service.copy_box(op.effects.box, values)
            return
        if isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.LAUNCH_CONTROL:
            service.cancel_cluster()
            return
        about = context, code.const("i64", op.index), lane
        repeated = code.call(repeat_name(code.module, len(values)), "i32", *about, *values)
        with code.when(repeated.ne(0)):
            if isinstance(op.effects, Asynchronous) and op.effects.completion is Completion.COMMIT:
                context.set_word(Word.ISSUED, context.word(Word.ISSUED) | mask.to("i64"))
            service.count()


@dataclass(slots=True)
class _Service(LaneOperands):
    """One instruction, for the lanes of a mask."""

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

    def pass_complete_phase(self, wait: MbarrierWait, permitted: Value) -> None:
        """A wait of all lanes for a complete phase of one mbarrier of their CTA; or say for what they wait, if they may block."""
        caller, op = self.caller, self.op
        code, context = caller.code, caller.context
        bits = 32 if wait.parity else 64
        address, phase = self._address(op.operands[1]), self._number(op.operands[2], bits)
        offset = address - context.word(Word.SHARED_RANK)
        shared, size = context.pointer(Word.SHARED), context.word(Word.SHARED_SIZE)
        found = (offset & 7).eq(0) & offset.ult(size)
        for one in (self._is_one_address(op.operands[1]), self._is_one_number(op.operands[2], bits)):
            found = found if one is None else found & one
        with code.when(found):
            # One more than the completed phases, so the parity of the phase that is not complete.
            after = row_address(shared, size, offset).load("i32", Cell.PHASES).to("i64")
            token = shared.at(offset).load("i64")
            done = is_complete(after, phase, code.const("i1", wait.parity))
            result = op.operands[0]
            place = code.const("ptr", 0)
            if has_result := isinstance(result, Reg) and caller.program.registers[result.index].offset >= 0:
                place = caller.row(self.frame, result, 1)
            with code.when(after.ne(0) & token.eq(MBARRIER_TOKEN)):
                with code.when(done):
                    if has_result:
                        place.store(place.load("i32") | self.mask)
                    self.complete(offset)
                if wait.blocks:
                    with code.when(permitted.gt(1)):
                        context.set_words({Word.AWAITS: offset + wait.parity * BY_PARITY, Word.AWAITED_PHASE: phase})
                        context.store(place, Word.AWAITED_RESULT)

    def extract(self, words: Extract) -> None:
        """Words of a 128-bit register."""
        caller, (targets, source), lanes = self.caller, self.op.operands, "<32 x i1>"
        halves, mask = caller.row(self.frame, source, 128), self.mask
        for target, word in zip(flatten(targets), words.words, strict=True):
            if not isinstance(target, Reg) or caller.program.registers[target.index].offset < 0:
                continue
            found = caller.code.const("<32 x i32>", 0)
            if word >= 0:
                half = halves.at(256 * (word // 2)).load("<32 x i64>", align=64)
                found = (half >> 32 * (word % 2)).to("<32 x i32>")
            bits = caller.program.registers[target.index].bits
            place = caller.row(self.frame, target, bits)
            if bits == 1:
                place.store((place.load("i32") & ~mask) | (found.ne(0).cast("i32") & mask))
            else:
                place.store(mask.cast(lanes).select(found, place.load("<32 x i32>", align=64)), align=64)
        self.count()

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
        place, amount = op.operands[first : first + 2]
        address, number = self._address(place), self._number(amount, 32)
        count, size = (one if arrives else nothing, number) if expects else (number, nothing)
        lanes = self.mask.intrinsic("ctpop").to("i64")
        steps = lanes * (1 + arrives) if expects else one
        certain = code.const("i1", 1) if expects else number.ne(0)
        for each in (self._is_one_address(place), self._is_one_number(amount, 32)):
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
        if op.q.space == "shared::cluster" and isinstance(result, Unused) and arrives:
            self.arrive_apart(place, amount, count, size, one * (1 + expects))

    def arrive_apart(self, place: Resolved, amount: Resolved, count: Value, size: Value, steps: Value) -> None:
        """Arrivals of lanes on an mbarrier of another CTA each, each after the announcement of some bytes."""
        caller, code = self.caller, self.caller.code
        source, row, added = caller.address(self.frame, place)
        if source == "u":
            return
        seen, apart = code.variable("i64", 0), code.variable("i1", 1)
        if (same := self._is_one_number(amount, 32)) is not None:
            apart.set(same)

        def address(lane: Value) -> Value:
            return row.load(f"i{source}", lane).to("i64") + added

        with code.each_bit(self.mask) as lane:
            cta = caller.helper("mayarrive", "i64", caller.context, address(lane), count, size)
            apart.set(apart.get() & cta.gt(0) & (seen.get() & cta).eq(0))
            seen.set(seen.get() | cta)
        with code.when(apart.get()):
            with code.each_bit(self.mask) as lane:
                caller.helper("arrive_apart", "i64", caller.context, address(lane), code.const("i64", 1), count, size, steps)
                caller.record(self.op, code.const("i32", 1) << lane.to("i32"), caller.context.word(Word.ARRIVED))
            self.count()

    def commit(self) -> None:
        """A commit of one lane."""
        caller, (address, *ctas) = self.caller, self.op.operands
        code = caller.code
        many = bool(self.op.q.multicast)
        which = self._number(ctas[0], 16) if many else code.const("i64", 0)
        name = f"commit_{'pair' if self.op.q.cta_group == 'cta_group::2' else 'cta'}_{'multicast' if many else 'one'}"
        done = caller.helper(name, "i64", caller.context, self.mask, self._address(address), which, code.const("i64", self.op.index))
        with code.when(done.eq(0)):
            self.complete(caller.context.word(Word.ARRIVED))

    def issue_share(self, registers: tuple[int, ...]) -> None:
        """The share of a whole warp in an instruction of its warpgroup, if the registers have the same values in all lanes."""
        caller, code, context = self.caller, self.caller.code, self.caller.context
        group = context.pointer(Word.WARPGROUP)
        with code.when(group.ne(0) & self.mask.eq(_ALL_LANES)):
            same = self.is_same_in_all(registers)
            shadows = [caller.program.registers[index].shadow for index in operands_used(caller.program, self.op)]
            if max(shadows) >= 0:
                same = same & self._are_zeros([offset for offset in shadows if offset >= 0])
            state = group.word(GroupWord.STATE)
            with code.when(same & state.ne(0)):
                values = self.values(registers)
                key = (state << STATE_SHIFT) | self.op.index
                entry = code.call(known_name(code.module, len(values)), "ptr", context, key, *values)
                with code.when(entry.ne(0)), code.when(caller.helper("groupissue", "i64", context, entry).eq(0)):
                    self.complete(code.const("i64", 0))

    def warpgroup_group(self, commits: bool, permitted: Value) -> None:
        """A commit of a whole warp, or a wait, for instructions of its warpgroup; the context says for what it waits if it may block."""
        caller, code, context = self.caller, self.caller.code, self.caller.context
        count = self._number(self.op.operands[0], 64) if self.op.operands else code.const("i64", 0)
        with code.when(context.pointer(Word.WARPGROUP).ne(0) & self.mask.eq(_ALL_LANES)):
            done = caller.helper("groupcommit" if commits else "groupwait", "i64", context, count)
            with code.when(done.eq(0)):
                self.complete(code.const("i64", 0))
            with code.when(permitted.le(1)):
                context.set_word(Word.AWAITS, 0)

    def copy_box(self, box: BoxOperands, values: list[Value]) -> None:
        """A copy of a box of the tensor map that ``values`` name, by one lane; by all lanes if they store or reduce it."""
        caller, op, operands = self.caller, self.op, self.op.operands
        code, context = caller.code, caller.context
        entry = code.call(known_name(code.module, len(values)), "ptr", context, code.const("i64", op.index), *values)
        with code.when(entry.ne(0)):
            numbers = numbers_of(op, box)
            copy = code.stack(f"[{CopyWord.COORDINATES + len(numbers)} x i64]")
            copy.set_word(CopyWord.LANE, self.lane if box.barrier >= 0 else self.mask.to("i64"))
            for index, (item, bits) in enumerate(numbers, CopyWord.COORDINATES):
                number = self._number(item, bits)
                copy.set_word(index, number.to("i32").sext("i64") if bits == COORDINATE_BITS else number)
            address = self._address(operands[box.shared])
            if box.barrier < 0:
                name = store_name(op.q.get("redOp") or "", box.form)
                done = caller.helper(name, "i64", context, entry, address, copy)
            else:
                barrier = self._address(operands[box.barrier])
                multicast = not isinstance(operands[box.ctas], Unused)
                ctas = self._number(operands[box.ctas], 16) if multicast else code.const("i64", 0)
                name = load_name(op.q.direction.startswith("shared::cluster."), op.q.cta_group == "cta_group::2", multicast, box.form)
                done = caller.helper(name, "i64", context, entry, address, barrier, ctas, copy)
            with code.when(done.eq(0)):
                self.count()

    def copy_lines(self, line: LineOperands, registers: tuple[int, ...]) -> None:
        """Copies of contiguous bytes by each lane, one after the other; ``registers`` have their sizes, unless that is a constant.

        Where the handler must be called for a lane, it is called for those after it, too.
        """
        code, context = self.caller.code, self.caller.context
        copied, failed = code.variable("i32", 0), code.label("failed")
        copy = code.stack(f"[{CopyWord.COORDINATES} x i64]")
        with code.each_bit(self.mask) as lane:
            self.lane = lane
            values = self.values(registers)
            entry = code.call(known_name(code.module, len(values)), "ptr", context, code.const("i64", self.op.index), *values)
            with code.when(entry.eq(0)):
                code.jump(failed)
            with code.when(self._copy_line(line, entry, copy).ne(0)):
                code.jump(failed)
            copied.set(copied.get() | code.const("i32", 1) << lane.to("i32"))
        self.count()
        code.begin(failed)
        context.set_word(Word.LANES_DONE, copied.get().to("i64"))

    def _copy_line(self, line: LineOperands, entry: Value, copy: Value) -> Value:
        """A copy of contiguous bytes by one lane; the result is 0 if it is done."""
        caller, op, operands = self.caller, self.op, self.op.operands
        code, context = caller.code, caller.context
        memory, shared = map(self._address, (operands[line.memory], operands[line.shared]))
        operation = op.q.get("redOp") or ""
        if line.barrier < 0:
            copy.set_word(CopyWord.LANE, code.const("i64", 1) << self.lane)
            masks = [self._number(operands[line.mask], 16)] if line.mask >= 0 else []
            return caller.helper(line_store_name(operation, line.mask >= 0), "i64", context, entry, shared, memory, copy, *masks)
        copy.set_word(CopyWord.LANE, self.lane)
        multicast = line.ctas >= 0 and not isinstance(operands[line.ctas], Unused)
        ctas = self._number(operands[line.ctas], 16) if multicast else code.const("i64", 0)
        target, source = op.q.direction.split(".")
        name = line_load_name(source == "shared::cta", target == "shared::cluster", multicast, operation)
        return caller.helper(name, "i64", context, entry, shared, memory, self._address(operands[line.barrier]), ctas, copy)

    def cancel_cluster(self) -> None:
        """A request of one lane to cancel the next cluster."""
        caller, code, context = self.caller, self.caller.code, self.caller.context
        entry = code.call(known_name(code.module, 0), "ptr", context, code.const("i64", self.op.index))
        with code.when(entry.ne(0)):
            response, barrier = map(self._address, self.op.operands)
            done = caller.helper(cancel_name(bool(self.op.q.everywhere)), "i64", context, entry, response, barrier, self.lane)
            with code.when(done.eq(0)):
                self.count()
