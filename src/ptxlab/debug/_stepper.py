"""How a debugger executes a program: compiled code where nobody looks, and the NumPy back end where someone may stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ptxlab.debug._findings import ends_threads
from ptxlab.engine import Context, Executable, Program, Status, Word
from ptxlab.engine.llvm.entry_points import Node
from ptxlab.engine.lowering.frame import row_bytes
from ptxlab.engine.lowering.register_use import observed_registers
from ptxlab.engine.reference.interpreter import Interpreter
from ptxlab.engine.reference.warp import Warp
from ptxlab.engine.turns.words import TurnWord
from ptxlab.machine.schedule.turns import CompiledTurns, turns_of

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.isa.operands import Op
    from ptxlab.machine.warp.warp import Warp as MachineWarp

__all__ = ["Stepper"]

_PC, _FUEL, _MASK, _INFO, _ACTIVE, _GRANTED = (int(word) for word in (Word.PC, Word.FUEL, Word.MASK, Word.INFO, Word.ACTIVE, Word.GRANTED))
_SERVICES = int(Word.SERVICES)
_ENDED, _USED = int(TurnWord.ENDED), int(TurnWord.USED)
_FAR = 1 << 61
"""So many instructions no launch executes."""


class Stepper(Interpreter):
    """Executes node by node: whole nodes in compiled code, or op by op, when it says before each op which lanes arrive there.

    Lanes that have arrived at an instruction and could not execute it, because their warp was frozen there or because they wait for
    other lanes, arrive there only once. What each instruction writes is noted, so that registers without a value can be told.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.executable = Executable(program, backend="numpy", interpreter=self)
        self._compiled = Executable(program)
        self._nodes_at = {node.start: node for node in self.nodes.nodes}
        self.longest = max(node.stop - node.start for node in self.nodes.nodes)
        self._always = frozenset(op.index for op in program.ops if self._ends_lanes(op) or self._reports(op))
        self._ops: frozenset[int] | None = None
        self._turns: CompiledTurns | None = None
        self.look_at(frozenset())

    @staticmethod
    def _ends_lanes(op: Op) -> bool:
        """Whether some lanes may exit at an op while others go on."""
        return op.guard is not None and ends_threads(op)

    def _reports(self, op: Op) -> bool:
        """Whether compiled code may report undefined bits at an op, and go on."""
        return any(self.program.registers[register].shadow >= 0 for register in observed_registers(self.program, op))

    def begin(self, execution: Execution) -> None:
        """Run for an execution from now on."""
        self._execution = execution
        self.arrived: dict[tuple[int, int], int] = {}
        """By the address of a context and the index of an op: the lanes that have arrived and not executed it."""
        self._writes: Callable[[], None] | None = None

    def share(self) -> None:
        """Let compiled code run several warps of the launch, where that is not looked at."""
        launch = self._execution.launch
        self._turns = turns_of(launch, self._compiled.dispatch_address)
        if self._turns is not None:
            launch.scheduler.share(self._turns, self.run)
            self._leave_out()

    def end(self) -> None:
        """Keep nothing of the execution."""
        del self._execution
        self._writes = self._turns = None
        self.look_at(frozenset())

    @cached_property
    def register_rows(self) -> tuple[slice, ...]:
        """Where a frame holds registers and their undefined bits; rows that lie side by side are one slice."""
        found: list[slice] = []
        starts = ((start, row_bytes(info.bits)) for info in self.program.registers for start in (info.offset, info.shadow) if start >= 0)
        for start, size in sorted(starts):
            if found and start <= found[-1].stop:
                found[-1] = slice(found[-1].start, max(found[-1].stop, start + size))
            else:
                found.append(slice(start, start + size))
        return tuple(found)

    def look_at(self, ops: frozenset[int]) -> None:
        """Execute the nodes of these ops op by op."""
        if ops == self._ops:
            return
        self._ops, nodes = ops, self.nodes
        self._looked_at = frozenset(nodes.starts[nodes.at(index)] for index in ops | self._always)
        self._leave_out()

    def _leave_out(self) -> None:
        """Let compiled code stop before the nodes that are executed op by op."""
        self._run_compiled = self._compiled.run_up_to(self._looked_at)
        if self._turns is not None:
            self._run_turns = self._compiled.run_up_to(self._looked_at, self._turns.words, self._turns.address)

    # ------------------------------------------------------------------------------------------------------------ both ways

    def run(self, context: Context) -> Status:
        while True:
            warp = self._execution.order.running_warp()
            assert warp is not None
            pc = warp.words[_PC]
            node = self._nodes_at.get(pc)
            skipped = self._execution.skippable(warp) if node is not None and self._may_skip(warp, pc) else 0
            if node is None or skipped < node.stop - node.start:
                status = self._step(warp.context)
            elif self._turns is not None and skipped > _FAR and not self.arrived and self._execution.only_awaits_ops:
                status = self._skip_turns(warp, self._turns.words)
            else:
                status = self._skip(warp, skipped)
            if status is not None:
                return status

    def _may_skip(self, warp: MachineWarp, pc: int) -> bool:
        if pc in self._looked_at or self._execution.order.is_frozen(warp):
            return False
        return not self.arrived or (warp.context.address, pc) not in self.arrived

    def _skip(self, warp: MachineWarp, most: int) -> Status | None:
        """Execute whole nodes in compiled code, not more than ``most`` instructions; None if the run goes on at PC."""
        words = warp.words
        fuel, mask = words[_FUEL], words[_MASK]
        granted = max(min(fuel, most - self.longest + 1, self._execution.longest_run), 1)
        words[_FUEL] = granted
        counted, words[_SERVICES] = words[_SERVICES], 0  # behind a service that it completes compiled code would not look at FUEL
        status = self._run_compiled(warp.context)
        words[_SERVICES] = counted
        used = granted - words[_FUEL]
        words[_FUEL] = fuel - used
        return self._skipped(warp, used, mask, status, fuel <= used)

    def _skipped(self, warp: MachineWarp, used: int, mask: int, status: Status | None, spent: bool) -> Status | None:
        """Compiled code has executed instructions, ``warp`` the last ones; ``spent``: its turn is over."""
        words = warp.words
        if status is None or status is Status.FUEL or status is Status.YIELD:
            self._execution.skip(warp, used, mask, None, 0)
            pc = words[_PC]
            head = status is not None and self._nodes_at[pc].head
            if status is Status.YIELD and not head and self.program.ops[pc - 1].row.kind == "service":
                return status  # behind a service the lanes join others in a block, too
            return status if head and (status is Status.YIELD or spent) else None
        index = words[_INFO]
        if status is Status.CONVERGE or status is Status.FAULT:
            used -= self.behind(index)
        if status is Status.CONVERGE:
            self._stays(warp.context.address, index, words[_MASK])
        self._execution.skip(warp, used, mask, self.program.ops[index], words[_ACTIVE])
        return status

    def _skip_turns(self, warp: MachineWarp, turns: memoryview) -> Status | None:
        """Execute whole nodes of the warp, and of others when it waits at a barrier."""
        words = warp.words
        left, ended, used = words[_GRANTED] - words[_FUEL], turns[_ENDED], turns[_USED]
        status = self._run_turns(warp.context)
        executed = turns[_USED] - used - left
        if turns[_ENDED] != ended:
            found = self._execution.order.running_warp()
            assert found is not None
            warp, words = found, found.words
        if status is not Status.BLOCKED:
            executed += words[_GRANTED] - words[_FUEL]
        return self._skipped(warp, executed, words[_MASK], status, words[_FUEL] <= 0)

    def behind(self, index: int) -> int:
        """How many instructions of a node stand behind one, and have been counted before they execute."""
        return self.nodes.nodes[self.nodes.at(index)].stop - index - 1

    def _step(self, context: Context) -> Status | None:
        """Execute up to the end of a node op by op; None if the run goes on at PC."""
        status = self.run_node(context)
        if status is Status.CONVERGE:
            self._stays(context.address, int(context.words[Word.INFO]), int(context.words[Word.MASK]))
            self._writes = None
        self._note_writes()
        return status

    # --------------------------------------------------------------------------------------------------------------- op by op

    def arrive(self, warp: Warp, node: Node, op: Op) -> None:
        self._note_writes()
        address, converged = int(warp.words.ctypes.data), warp.word(Word.MASK)
        order = self._execution.order
        assert order.current is not None
        if order.is_frozen(order.current):
            self._leave(warp, node, op)
        executing = self.executing(warp, op)
        waited = self.arrived.pop((address, op.index), 0)
        if waited & ~converged:
            self.arrived[address, op.index] = waited & ~converged
        self._execution.arrive(op, executing, converged, again=not converged & ~waited)
        if order.is_frozen(order.current):
            self._stays(address, op.index, converged)
            self._leave(warp, node, op)
        if self.program.writes[op.index]:
            written = self._execution.written[address]
            registers = list(self.program.writes[op.index])

            def write() -> None:
                written[registers] |= np.uint32(executing)

            self._writes = write

    def _note_writes(self) -> None:
        if self._writes is not None:
            self._writes()
            self._writes = None

    def _stays(self, address: int, index: int, lanes: int) -> None:
        self.arrived[address, index] = self.arrived.get((address, index), 0) | lanes

    def _leave(self, warp: Warp, node: Node, op: Op) -> NoReturn:
        """End the turn of a warp that has been frozen, before the instruction."""
        order = self._execution.order
        assert order.current is not None
        self.charge(warp, op.index - node.stop)
        if len(order.current.converged) > 1:
            order.leave(warp.word(Word.FUEL))
            warp.words[Word.FUEL] = np.uint64(0)
        raise self._stop(warp, Status.FUEL, pc=op.index)
