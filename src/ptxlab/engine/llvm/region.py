"""A group of nodes as one compiled function ``i32 region(context)``.

The function enters at the node that the context's PC names and runs until its converged lanes must stop; it returns a
`Status`, or `CHAIN` when execution continues in another region. It accesses only the context's words, constant rows of the
frame, and addresses that helpers have resolved.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ptxlab.engine.context import Status, Word
from ptxlab.engine.direct_services import is_direct, is_direct_arrival
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm._direct_services import emit_arrival, emit_direct, emit_repetition
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.llvm._undefined_bits import UndefinedBits
from ptxlab.engine.llvm.entry_points import Node, Nodes, exchanges_lanes
from ptxlab.engine.llvm.runs import emit_moved_notes, emit_segment
from ptxlab.engine.llvm.vocabulary import WIDE
from ptxlab.engine.lowering.register_use import deciding_registers, go_back, is_inline, observed_registers
from ptxlab.engine.program import Observed, Program
from ptxlab.engine.repetitions import repeated_registers
from ptxlab.engine.support.accesses import fail
from ptxlab.engine.support.counters import count_executions
from ptxlab.isa.catalogue import Control
from ptxlab.isa.operands import Op
from ptxlab.native.builder import Function, Module, Value

__all__ = ["CHAIN", "COMPILE", "Region", "emit_region"]

CHAIN = 100
"""Status inside the engine: PC lies in another region."""
COMPILE = 101
"""Status inside the engine: PC lies in a region that is not compiled."""


def emit_region(program: Program, nodes: Nodes, numbers: list[int], width: int) -> tuple[str, tuple[str, ...]]:
    """LLVM IR of a region, and the helpers it calls."""
    region = Region(program, nodes, numbers, width)
    region.emit()
    return region.module.finish(), tuple(region.caller.used)


class Region:
    """Emission of one region."""

    def __init__(self, program: Program, nodes: Nodes, numbers: list[int], width: int) -> None:
        self.program = program
        self.nodes = nodes
        self.numbers = numbers
        self.width = width
        self.module = Module()
        self.code = Function(self.module, "region", "i32", "ptr context", attributes=WIDE)
        self.context = self.code.parameters[0]
        hosts = self.code.stack("[32 x i64]", align=64)
        self.caller = Caller(self.code, program, self.context, hosts)
        self.module.helpers = self.caller.used
        self.inside = set() if program.stepped else {nodes.nodes[n].start for n in numbers}
        """Nodes that are entered without a look at the table of regions."""
        self.arrivals: dict[int, None] = {}
        self.leaving: dict[int, None] = {}
        self.frame = Value(self.code, "ptr", "null")

    def emit(self) -> None:
        """The whole function."""
        code = self.code
        pc = self.context.word(Word.PC)
        starts = [self.nodes.nodes[n].start for n in self.numbers]
        code.switch(pc, {start: f"n{start}" for start in starts}, "elsewhere")
        for number in self.numbers:
            self.node(self.nodes.nodes[number])
        for start in list(self.arrivals):
            self.arrive(start)
        for start in self.leaving:
            code.begin(f"leave{start}")
            self.leave(start)
        code.begin("elsewhere")
        code.ret(CHAIN)
        code.begin("failed")
        code.ret(int(Status.FAULT))

    # ------------------------------------------------------------------------------------------------ between the nodes

    def go(self, start: int) -> str:
        """The label through which a block is reached."""
        self.arrivals[start] = None
        return f"to{start}"

    def arrive(self, start: int) -> None:
        """Stop before a block at or after LIMIT, or without fuel; else enter it, here or in another region."""
        code = self.code
        code.begin(f"to{start}")
        stop = code.label("stop")
        go_on = f"n{start}" if start in self.inside else code.label("chain")
        limited = self.context.word(Word.LIMIT).ule(start)
        spent = self.context.word(Word.FUEL).le(0)
        code.branch(limited | spent, stop, go_on)
        code.begin(stop)
        self.context.set_word(Word.PC, start)
        code.ret(limited.select(code.const("i32", int(Status.YIELD)), int(Status.FUEL)))
        if start not in self.inside:
            code.begin(go_on)
            self.leave(start)

    def leave(self, start: int) -> None:
        """Go on in another region."""
        self.context.set_word(Word.PC, start)
        self.code.ret(CHAIN)

    def continue_at(self, node: Node) -> str:
        """The label of what follows a node without a branch."""
        block = self.program.blocks[node.block]
        if node.stop < block.stop:
            if node.stop in self.inside:
                return f"n{node.stop}"
            if node.stop in self.program.cuts:
                self.leaving[node.stop] = None
                return f"leave{node.stop}"
            return self.go(node.stop)
        return self.fall(node)

    def fall(self, node: Node) -> str:
        """The label of the block after a node's block."""
        return self.go(self.program.blocks[self.program.blocks[node.block].fall].start)

    def fall_if(self, condition: Value, node: Node) -> None:
        """Go to the block after a node's block if a condition holds."""
        behind, here = self.fall(node), self.code.label()
        self.code.branch(condition, behind, here)
        self.code.begin(here)

    # ------------------------------------------------------------------------------------------------------------ nodes

    def node(self, node: Node) -> None:
        """The code of one node."""
        code, program = self.code, self.program
        code.begin(f"n{node.start}")
        self.frame = self.context.pointer(Word.FRAME)
        charge = self.nodes.charge(node)
        if charge:
            self.context.set_word(Word.FUEL, self.context.word(Word.FUEL) - charge)
        live = self.live_behind(node)
        begins = program.ops[node.start]
        meets = exchanges_lanes(program, begins)
        if program.counted and not meets:
            count_executions(self.context, node.start)
        run: list[Op] = []
        ended = False
        for index in range(node.start, node.stop):
            op = program.ops[index]
            if is_inline(program, op):
                run.append(op)
                continue
            if run:
                emit_segment(code, program, self.width, self.context, self.frame, run, live[run[-1].index])
                run = []
            if op.row.kind != "native":
                self.caller.note_end(op)
            ended = self.boundary(node, op)
            if program.counted and meets and op is begins:
                count_executions(self.context, node.start)  # the lanes that have not converged come here again
        if run:
            emit_segment(code, program, self.width, self.context, self.frame, run, live[run[-1].index])
        if not ended:
            self.caller.note_end(program.ops[node.stop - 1])
            code.jump(self.continue_at(node))

    def live_behind(self, node: Node) -> dict[int, set[int]]:
        """For the last op of each run of inline ops, the registers needed after it."""
        program = self.program
        if program.stepped:
            everything = set(range(len(program.registers)))
            return dict.fromkeys(range(node.start, node.stop), everything)
        live = self.nodes.live_behind(node)
        found: dict[int, set[int]] = {}
        stop = node.stop
        inline = [is_inline(program, op) for op in program.ops[node.start : node.stop]] + [False]
        ends = [node.start + place for place, pair in enumerate(pairwise(inline)) if pair == (True, False)]
        for end in reversed(ends):
            go_back(program, end + 1, stop, live)
            found[end] = set(live)
            stop = end + 1
        return found

    def executing(self, op: Op) -> Value:
        """The running lanes whose guard holds."""
        mask = self.context.load("i32", 2 * Word.MASK)
        if op.guard is None:
            return mask
        guard = self.frame.at(self.program.registers[op.guard.index].offset).load("i32")
        return mask & (~guard if op.guard.negated else guard)

    def check(self, status: Value) -> None:
        """Leave with the status of a helper that did not succeed."""
        with self.code.when(status.ne(0)):
            self.code.ret(status)

    def boundary(self, node: Node, op: Op) -> bool:
        """An op between runs; whether it ends the node with a branch."""
        code = self.code
        kind = op.row.kind
        self.check_defined(op)
        if kind == "control":
            self.control(node, op)
            return True
        mask = self.executing(op)
        bits = UndefinedBits(self.caller, self.frame)
        if kind == "native":
            native = self.program.natives[op.index]
            bits.perform(op, native, mask, self.check)
            self.caller.emit(op, native, self.frame, mask, self.check)
            emit_moved_notes(code, self.program, self.width, self.context, self.frame, op)
            self.note_writes(op, mask)
            if self.program.mirrored:
                bits.mirror(op, native, mask, self.check)
            return False
        if op.guard is not None:
            with code.when(mask.eq(0)):
                code.jump(self.continue_at(node))
        if op.row.flow is None:
            bits.define(op, mask)
        bits.keep(op, None, mask)
        self.note_writes(op, mask)
        if is_direct(self.program, op):
            emit_direct(self.caller, self.frame, op, mask, lambda: self.continue_after(node, op))
        elif is_direct_arrival(self.program, op):
            emit_arrival(self.caller, self.frame, op, mask, lambda: self.continue_after(node, op))
        repeated = repeated_registers(self.program, op)
        if repeated is not None:
            emit_repetition(self.caller, self.frame, op, repeated, mask, lambda: self.continue_after(node, op))
        self.context.set_words({Word.ACTIVE: mask, Word.INFO: op.index, Word.PC: self.nodes.behind(node, op.index)})
        code.ret(int(Status.SERVICE))
        return True

    def continue_after(self, node: Node, op: Op) -> None:
        """Go on behind a service that is complete, or stop at or after LIMIT, as the machine does: without a look at FUEL."""
        start = self.nodes.behind(node, op.index)
        with self.code.when(self.context.word(Word.LIMIT).ule(start) & self.context.word(Word.JOINS).ne(0)):
            self.context.set_word(Word.PC, start)
            self.code.ret(int(Status.YIELD))
        if start in self.inside:
            self.code.jump(f"n{start}")
            return
        self.leave(start)

    def note_writes(self, op: Op, mask: Value) -> None:
        """Note for a debugger in which lanes an op writes its registers."""
        if self.program.stepped:
            for register in self.program.writes[op.index]:
                place = self.context.pointer(Word.WRITTEN).at(4 * register)
                place.store(place.load("i32") | mask)

    # ---------------------------------------------------------------------------------------------------------- control

    def control(self, node: Node, op: Op) -> None:
        """A branch, exit or trap."""
        emit = {
            Control.BRANCH: self.branch,
            Control.INDEXED_BRANCH: self.indexed_branch,
            Control.EXIT: self.exit,
            Control.RETURN: self.exit,
            Control.TRAP: self.trap,
        }
        emit[op.row.semantics](node, op)

    def branch(self, node: Node, op: Op) -> None:
        """All lanes go one way, or they diverge."""
        code = self.code
        target = op.targets[0]
        if op.guard is None or target == self.nodes.behind(node, op.index):
            code.jump(self.go(target))
            return
        mask = self.context.load("i32", 2 * Word.MASK)
        taken = self.executing(op)
        self.fall_if(taken.eq(0), node)
        with code.when(taken.eq(mask)):
            code.jump(self.go(target))
        self.diverge(op, taken, target, self.nodes.behind(node, op.index))

    def diverge(self, op: Op, active: Value, taken: int | Value, otherwise: int) -> None:
        """Return with the two ways."""
        self.context.set_words({Word.ACTIVE: active, Word.TAKEN: taken, Word.NEXT: otherwise, Word.INFO: op.index})
        self.code.ret(int(Status.DIVERGE))

    def indexed_branch(self, node: Node, op: Op) -> None:
        """Lanes with the same index branch together; the others come back to this op."""
        code = self.code
        mask = self.context.load("i32", 2 * Word.MASK)
        active = self.executing(op)
        if op.guard is not None:
            self.fall_if(active.eq(0), node)
            with code.when(active.ne(mask)):
                self.diverge(op, active, op.index, self.nodes.behind(node, op.index))
        row = self.caller.row(self.frame, op.operands[0], 32)
        indices = row.load("<32 x i32>", align=64)
        lane = active.lowest_bit().to("i64")
        index = row.load("i32", lane)
        same = indices.eq(index.splat(32)).cast("i32") & active
        with code.when(index.uge(len(op.targets))):
            self.fault(op, Fault.BRANCH_RANGE, lane, index)
        with code.when(same.ne(active)):
            self.diverge(op, same, code.constants("i64", op.targets).load("i64", index), op.index)
        code.switch(index, {number: self.go(start) for number, start in enumerate(op.targets)}, "failed")

    def exit(self, node: Node, op: Op) -> None:
        """Lanes end."""
        code = self.code
        mask = self.context.load("i32", 2 * Word.MASK)
        leaving = self.executing(op)
        wide = leaving.to("i64")
        rest = mask & ~leaving
        self.context.set_word(Word.EXITED, self.context.word(Word.EXITED) | wide)
        self.context.set_word(Word.LIVE, self.context.word(Word.LIVE) & ~wide)
        self.context.set_word(Word.MASK, rest)
        if op.guard is not None:
            self.fall_if(rest.ne(0), node)
        self.context.set_word(Word.INFO, op.index)
        code.ret(int(Status.EXIT))

    def trap(self, node: Node, op: Op) -> None:
        """End the launch."""
        active = self.executing(op)
        if op.guard is not None:
            self.fall_if(active.eq(0), node)
        self.fault(op, Fault.TRAP, active.lowest_bit(), 0)

    def fault(self, op: Op, fault: Fault, lane: Any, address: Any) -> None:
        """Note a fault and return."""
        fail(self.context, fault, lane, address, op.index)

    # ------------------------------------------------------------------------------------------------- undefined bits

    def check_defined(self, op: Op) -> None:
        """Fault if a register that decides something has undefined bits in an executing lane; only for those that may.

        Mirrored programs report it and continue.
        """
        code, bits = self.code, UndefinedBits(self.caller, self.frame)
        observed = bits.of(observed_registers(self.program, op))
        if observed:
            bits.observe(op, observed, self.executing(op), Observed.LEAVE)
        for register in bits.of(deciding_registers(op)):
            guarding = op.guard is not None and op.guard.index == register
            active = self.context.load("i32", 2 * Word.MASK) if guarding else self.executing(op)
            if self.program.mirrored:
                bits.observe(op, [register], active, Observed.DECIDED)
                continue
            missing = bits.lanes(register) & active
            with code.when(missing.ne(0)):
                self.fault(op, Fault.UNDEFINED, missing.lowest_bit(), register)
