"""A group of nodes as one compiled function ``i32 region(context)``.

The function enters at the node that the context's PC names and runs until the split must stop; it returns a `Status`,
or `CHAIN` when another region goes on. Nothing but the context's words, constant rows of the frame and what helpers
resolve is ever addressed.
"""

from __future__ import annotations

from typing import Any

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm._native_calls import Caller
from ptxlab.engine.llvm.builder import Code, Unit, Value
from ptxlab.engine.llvm.entry_points import Node, Nodes
from ptxlab.engine.llvm.segment import emit_segment
from ptxlab.engine.llvm.vocabulary import WIDE
from ptxlab.engine.lowering.frame import members
from ptxlab.engine.lowering.register_use import is_inline, operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Addr, Op

__all__ = ["CHAIN", "COMPILE", "Region", "deciding_registers", "emit_region"]

CHAIN = 100
"""Status inside the engine: PC lies in another region."""
COMPILE = 101
"""Status inside the engine: PC lies in a region that is not compiled."""


def emit_region(program: Program, nodes: Nodes, numbers: list[int], width: int) -> tuple[str, tuple[str, ...]]:
    """LLVM IR of a region, and the helpers it calls."""
    region = Region(program, nodes, numbers, width)
    region.emit()
    return region.unit.text(), tuple(region.caller.used)


class Region:
    """Emission of one region."""

    def __init__(self, program: Program, nodes: Nodes, numbers: list[int], width: int) -> None:
        self.program = program
        self.nodes = nodes
        self.numbers = numbers
        self.width = width
        self.unit = Unit()
        self.code = Code(self.unit, "region", "i32", [("ptr", "context")], attributes=f"nounwind {WIDE}")
        self.context = self.code.params[0]
        hosts = self.code.variable("[32 x i64]", align=64)
        self.caller = Caller(self.code, program, self.context, hosts)
        self.inside = {nodes.nodes[n].start for n in numbers}
        self.arrivals: dict[int, None] = {}
        self.frame = Value(self.code, "ptr", "null")

    def emit(self) -> None:
        """The whole function."""
        code = self.code
        pc = code.word(self.context, Word.PC)
        cases = " ".join(f"i64 {self.nodes.nodes[n].start}, label %n{self.nodes.nodes[n].start}" for n in self.numbers)
        code.do(f"switch i64 {pc.ref}, label %elsewhere [ {cases} ]")
        for number in self.numbers:
            self.node(self.nodes.nodes[number])
        for start in list(self.arrivals):
            self.arrive(start)
        code.place("elsewhere")
        code.ret(CHAIN)
        code.place("failed")
        code.ret(int(Status.FAULT))
        code.finish()

    # ------------------------------------------------------------------------------------------------ between the nodes

    def go(self, start: int) -> str:
        """The label through which a block is reached."""
        self.arrivals[start] = None
        return f"to{start}"

    def arrive(self, start: int) -> None:
        """Stop before a block at or behind LIMIT, or without fuel; else enter it, here or in another region."""
        code = self.code
        code.place(f"to{start}")
        stop = code.label("stop")
        go_on = f"n{start}" if start in self.inside else code.label("chain")
        limited = code.word(self.context, Word.LIMIT).compare("ule", start)
        spent = code.word(self.context, Word.FUEL).compare("sle", 0)
        code.branch(limited | spent, stop, go_on)
        code.place(stop)
        code.set_word(self.context, Word.PC, start)
        code.ret(code.select(limited, code.const("i32", int(Status.YIELD)), int(Status.FUEL)))
        if start not in self.inside:
            code.place(go_on)
            code.set_word(self.context, Word.PC, start)
            code.ret(CHAIN)

    def continue_at(self, node: Node) -> str:
        """The label of what follows a node without a branch."""
        block = self.program.blocks[node.block]
        if node.stop < block.stop:
            return f"n{node.stop}" if node.stop in self.inside else self.go(node.stop)
        return self.fall(node)

    def fall(self, node: Node) -> str:
        """The label of the block behind a node's block."""
        return self.go(self.program.blocks[self.program.blocks[node.block].fall].start)

    def pc_behind(self, node: Node, index: int) -> int:
        """The op index that follows an op of a node."""
        block = self.program.blocks[node.block]
        return index + 1 if index + 1 < block.stop else self.program.blocks[block.fall].start

    # ------------------------------------------------------------------------------------------------------------ nodes

    def node(self, node: Node) -> None:
        """The code of one node."""
        code, program = self.code, self.program
        code.place(f"n{node.start}")
        self.frame = code.pointer(self.context, Word.FRAME)
        fuel = code.word(self.context, Word.FUEL)
        code.set_word(self.context, Word.FUEL, fuel - (node.stop - node.start))
        live = self.live_behind(node)
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
            ended = self.boundary(node, op)
        if run:
            emit_segment(code, program, self.width, self.context, self.frame, run, live[run[-1].index])
        if not ended:
            code.jump(self.continue_at(node))

    def live_behind(self, node: Node) -> dict[int, set[int]]:
        """For the last op of each run of inline ops, the registers needed behind it."""
        program = self.program
        block = program.blocks[node.block]
        live = set(members(program.live_out[node.block], program.crossing))
        found: dict[int, set[int]] = {}
        inline_before = False
        for index in range(block.stop - 1, node.start - 1, -1):
            op = program.ops[index]
            inline = is_inline(program, op)
            if inline and not inline_before:
                found[index] = set(live)
            inline_before = inline
            if op.guard is None:
                live.difference_update(program.writes[index])
            else:
                live.add(op.guard.index)
                live.update(program.writes[index])
            live.update(program.reads[index])
        return found

    def executing(self, op: Op) -> Value:
        """The lanes of the split whose guard holds."""
        code = self.code
        mask = code.load("i32", code.at(self.context, 8 * Word.MASK), 8)
        if op.guard is None:
            return mask
        guard = code.load("i32", code.at(self.frame, self.program.registers[op.guard.index].offset), 4)
        return mask & (~guard if op.guard.negated else guard)

    def check(self, status: Value) -> None:
        """Leave with the status of a helper that did not succeed."""
        code = self.code
        bad, good = code.label("bad"), code.label("good")
        code.branch(status.eq(0), good, bad)
        code.place(bad)
        code.ret(status)
        code.place(good)

    def boundary(self, node: Node, op: Op) -> bool:
        """An op between runs; whether it ends the node with a branch."""
        code = self.code
        kind = op.row.kind
        self.check_defined(op)
        if kind == "control":
            self.control(node, op)
            return True
        mask = self.executing(op)
        if kind == "native":
            self.caller.emit(op, self.program.natives[op.index], self.frame, mask, self.check)
            self.note_defined(op, mask)
            return False
        if op.guard is not None:
            do, skip = code.label("do"), code.label("skip")
            code.branch(mask.eq(0), skip, do)
            code.place(skip)
            code.jump(self.continue_at(node))
            code.place(do)
        self.note_defined(op, mask)
        code.set_word(self.context, Word.ACTIVE, mask)
        code.set_word(self.context, Word.INFO, op.index)
        code.set_word(self.context, Word.PC, self.pc_behind(node, op.index))
        code.ret(int(Status.SERVICE))
        return True

    # ---------------------------------------------------------------------------------------------------------- control

    def control(self, node: Node, op: Op) -> None:
        """A branch, exit or trap."""
        name = op.row.semantics
        if name == "bra":
            self.bra(node, op)
        elif name == "brx":
            self.brx(node, op)
        elif name in ("exit", "ret"):
            self.exit(node, op)
        else:
            self.trap(node, op)

    def bra(self, node: Node, op: Op) -> None:
        """Lanes go one way, or the split parts."""
        code = self.code
        target = op.targets[0]
        if op.guard is None or target == self.pc_behind(node, op.index):
            code.jump(self.go(target))
            return
        mask = code.load("i32", code.at(self.context, 8 * Word.MASK), 8)
        taken = self.executing(op)
        some, parted = code.label("some"), code.label("parted")
        code.branch(taken.eq(0), self.fall(node), some)
        code.place(some)
        code.branch(taken.eq(mask), self.go(target), parted)
        code.place(parted)
        self.diverge(op, taken, target, self.pc_behind(node, op.index))

    def diverge(self, op: Op, active: Value, taken: int | Value, otherwise: int) -> None:
        """Return with the two ways."""
        code = self.code
        code.set_word(self.context, Word.ACTIVE, active)
        code.set_word(self.context, Word.TAKEN, taken)
        code.set_word(self.context, Word.NEXT, otherwise)
        code.set_word(self.context, Word.INFO, op.index)
        code.ret(int(Status.DIVERGE))

    def brx(self, node: Node, op: Op) -> None:
        """Lanes with the same index branch together; the others come back to this op."""
        code = self.code
        mask = code.load("i32", code.at(self.context, 8 * Word.MASK), 8)
        active = self.executing(op)
        if op.guard is not None:
            some, whole, parted = code.label("some"), code.label("whole"), code.label("parted")
            code.branch(active.eq(0), self.fall(node), some)
            code.place(some)
            code.branch(active.eq(mask), whole, parted)
            code.place(parted)
            self.diverge(op, active, op.index, self.pc_behind(node, op.index))
            code.place(whole)
        row = self.caller.row(self.frame, op.operands[0], 32)
        indices = code.load("<32 x i32>", row, 64)
        lane = code.lowest(active).to("i64")
        index = code.load("i32", code.at(row, lane << 2), 4)
        same = indices.eq(code.splat(index, 32)).cast("i32") & active
        with code.if_(index.compare("uge", len(op.targets)), returns=True):
            self.fault(op, Fault.BRANCH_RANGE, lane, index)
        together, parted = code.label("together"), code.label("parted")
        code.branch(same.eq(active), together, parted)
        code.place(parted)
        table = self.unit.constant("i64", list(op.targets))
        place = code.raw(f"getelementptr i64, ptr {table}, i32 {index.ref}", "ptr")
        self.diverge(op, same, code.load("i64", place, 8), op.index)
        code.place(together)
        cases = " ".join(f"i32 {i}, label %{self.go(t)}" for i, t in enumerate(op.targets))
        code.do(f"switch i32 {index.ref}, label %failed [ {cases} ]")

    def exit(self, node: Node, op: Op) -> None:
        """Lanes end."""
        code = self.code
        mask = code.load("i32", code.at(self.context, 8 * Word.MASK), 8)
        leaving = self.executing(op)
        wide = leaving.to("i64")
        rest = mask & ~leaving
        code.set_word(self.context, Word.EXITED, code.word(self.context, Word.EXITED) | wide)
        code.set_word(self.context, Word.LIVE, code.word(self.context, Word.LIVE) & ~wide)
        code.set_word(self.context, Word.MASK, rest)
        if op.guard is not None:
            none = code.label("none")
            code.branch(rest.eq(0), none, self.fall(node))
            code.place(none)
        code.set_word(self.context, Word.INFO, op.index)
        code.ret(int(Status.EXIT))

    def trap(self, node: Node, op: Op) -> None:
        """End the launch."""
        code = self.code
        active = self.executing(op)
        if op.guard is not None:
            some = code.label("some")
            code.branch(active.eq(0), self.fall(node), some)
            code.place(some)
        self.fault(op, Fault.TRAP, code.lowest(active), 0)

    def fault(self, op: Op, fault: Fault, lane: Any, address: Any) -> None:
        """Note a fault and return."""
        code = self.code
        code.set_word(self.context, Word.FAULT, int(fault))
        code.set_word(self.context, Word.FAULT_LANE, lane)
        code.set_word(self.context, Word.FAULT_ADDRESS, address)
        code.set_word(self.context, Word.INFO, op.index)
        code.ret(int(Status.FAULT))

    # ------------------------------------------------------------------------------------------------ undefined values

    def check_defined(self, op: Op) -> None:
        """Fault if a register that decides something is undefined in an executing lane; only for those that may be."""
        registers = self.program.registers
        deciding = [r for r in deciding_registers(op) if registers[r].shadow >= 0]
        if not deciding:
            return
        code = self.code
        for register in deciding:
            guarding = op.guard is not None and op.guard.index == register
            active = code.load("i32", code.at(self.context, 8 * Word.MASK), 8) if guarding else self.executing(op)
            defined = code.load("i32", code.at(self.frame, registers[register].shadow), 4)
            missing = active & ~defined
            with code.if_(missing.ne(0), returns=True):
                self.fault(op, Fault.UNDEFINED, code.lowest(missing), register)

    def note_defined(self, op: Op, mask: Value) -> None:
        """Registers that a native or service op writes are defined from here on."""
        code = self.code
        for register in self.program.writes[op.index]:
            shadow = self.program.registers[register].shadow
            if shadow >= 0:
                place = code.at(self.frame, shadow)
                code.store(code.load("i32", place, 4) | mask, place, 4)


def deciding_registers(op: Op) -> list[int]:
    """Registers that decide an address, a branch or a descriptor."""
    found: list[int] = [] if op.guard is None else [op.guard.index]
    everything = op.row.kind == "control" or (op.row.kind == "service" and op.row.base not in ("st", "red"))
    for operand in op.operands[op.row.outputs :]:
        if everything or isinstance(operand, Addr):
            found.extend(operand_registers(operand))
    return found
