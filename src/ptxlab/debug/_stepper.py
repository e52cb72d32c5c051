"""The NumPy back end as a debugger runs it: it says before each instruction which lanes arrive there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ptxlab.engine import Context, Executable, Program, Status, Word
from ptxlab.engine.llvm.entry_points import Node
from ptxlab.engine.reference.interpreter import Interpreter, Warp

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.isa.operands import Op

__all__ = ["Stepper"]


class Stepper(Interpreter):
    """Executes op by op.

    Lanes that have arrived at an instruction and could not execute it, because their warp was frozen there or because they wait for
    other lanes, arrive there only once. What each instruction writes is noted, so that registers without a value can be told.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.executable = Executable(program, backend="numpy", interpreter=self)

    def begin(self, execution: Execution) -> None:
        """Run for an execution from now on."""
        self._execution = execution
        self._arrived: dict[tuple[int, int], int] = {}
        """By the address of a context and the index of an op: the lanes that have arrived and not executed it."""
        self._writes: Callable[[], None] | None = None

    def run(self, context: Context) -> Status:
        status = super().run(context)
        if status is Status.CONVERGE:
            self._stays(context.address, int(context.words[Word.INFO]), int(context.words[Word.MASK]))
            self._writes = None
        self._note_writes()
        return status

    def arrive(self, warp: Warp, node: Node, op: Op) -> None:
        self._note_writes()
        address, converged = int(warp.words.ctypes.data), warp.word(Word.MASK)
        order = self._execution.order
        assert order.current is not None
        if order.is_frozen(order.current):
            self._leave(warp, node, op)
        executing = self.executing(warp, op)
        waited = self._arrived.pop((address, op.index), 0)
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
        self._arrived[address, index] = self._arrived.get((address, index), 0) | lanes

    def _leave(self, warp: Warp, node: Node, op: Op) -> NoReturn:
        """End the turn of a warp that has been frozen, before the instruction."""
        order = self._execution.order
        assert order.current is not None
        self.charge(warp, op.index - node.stop)
        if len(order.current.converged) > 1:
            order.leave(warp.word(Word.FUEL))
            warp.words[Word.FUEL] = np.uint64(0)
        raise self._stop(warp, Status.FUEL, pc=op.index)
