"""The operations of a queue that have not performed: rows that compiled code shares (`ptxlab.engine.turns.pending`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.pending_products import ProductRow
from ptxlab.engine.turns.pending import PendingRow
from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.tcgen05 import commit_of
from ptxlab.machine.warp.repeated_executions import RepeatedExecution
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine import Executable
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["CompiledOperations", "PendingOperations", "compiled_operations"]

_PENDING, _ROW = int(QueueWord.PENDING), int(PendingRow.END)
_ORDER, _IS_TOLD, _PERFORM = int(PendingRow.ORDER), int(PendingRow.IS_TOLD), int(PendingRow.PERFORM)
_CONTEXT, _LANE, _EXECUTION = int(PendingRow.CONTEXT), int(PendingRow.LANE), int(PendingRow.EXECUTION)
_ARRIVES, _DATA, _SIGNAL = int(PendingRow.ARRIVES), int(PendingRow.DATA), int(ProductRow.SIGNAL)
_SIGNAL_OP, _SIGNAL_ADDRESS, _SIGNAL_CTAS = int(ProductRow.SIGNAL_OP), int(ProductRow.SIGNAL_ADDRESS), int(ProductRow.SIGNAL_CTAS)
_FEWEST = 16


@cache
def _function(address: int) -> Callable[[int], int]:
    """The function that performs the operation of a row."""
    function: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    return function


@dataclass(frozen=True, slots=True, eq=False)
class CompiledOperations:
    """What the machine needs for operations that compiled code issues.

    Attributes
    ----------
    issue : address of the function that issues products
    operation : makes the operation that repeats an execution, by the number of the execution, the address of the context, the lane, and
        what its row says of it (`PendingRow.DATA`)
    thread : the key of the thread that has issued an operation, by the address of the context, and the lane
    signal : lets an operation be followed by a commit of its thread, by the index of the commit, its operands, and the same
    """

    issue: int
    operation: Callable[[int, int, int, Sequence[int]], AsyncOperation]
    thread: Callable[[int, int], Hashable]
    signal: Callable[[AsyncOperation, int, int, int, int, int], None]


class PendingOperations:
    """Operations in the order of issue.

    Parameters
    ----------
    words : those of `QueueWord`
    """

    __slots__ = ("_address", "_compiled", "_known", "_order", "_orders", "_rows", "_words")

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._order, self._rows, self._address = memoryview(b"").cast("q"), memoryview(b"").cast("q"), 0
        self._known: list[AsyncOperation | None] = []
        """By row, the operations that the machine has issued, or waits for."""
        self._orders: dict[Hashable, int] = {}
        self._compiled: CompiledOperations | None = None
        self._grow(_FEWEST)

    def share(self, compiled: CompiledOperations) -> None:
        """Let compiled code issue and perform operations."""
        self._compiled = compiled
        self._words[QueueWord.ISSUE] = compiled.issue

    def _grow(self, size: int) -> None:
        order: NDArray[np.int64] = np.arange(size, dtype=np.int64)
        rows: NDArray[np.int64] = np.zeros(size * _ROW, np.int64)
        before = len(self._known)
        order[:before], rows[: before * _ROW] = self._order, self._rows
        self._order, self._rows = order.data, rows.data
        self._known += [None] * (size - before)
        words, self._address = self._words, address_of(rows)
        words[QueueWord.ORDER], words[QueueWord.ROWS], words[QueueWord.CAPACITY] = address_of(order), self._address, size

    def __len__(self) -> int:
        count: int = self._words[_PENDING]
        return count

    def __iter__(self) -> Iterator[AsyncOperation]:
        return iter([self._operation(row) for row in self._order[: len(self)].tolist()])

    def index(self, operation: AsyncOperation) -> int:
        """The position of an operation."""
        return list(self).index(operation)

    def add(self, operation: AsyncOperation) -> None:
        """An operation that the machine has issued is to be performed."""
        count = self._words[_PENDING]
        if count == len(self._known):
            self._grow(2 * count)
        elif not count:
            self._orders.clear()
        row = self._order[count]
        self._known[row] = operation
        first, order = row * _ROW, operation.queue
        if order is None:
            self._rows[first + _ORDER] = 0
        else:
            self._rows[first + _ORDER] = order if type(order) is int else self._orders.setdefault(order, ~len(self._orders))
        self._rows[first + _IS_TOLD], self._rows[first + _PERFORM] = 1, 0
        self._words[_PENDING] = count + 1

    def oldest(self, at: int) -> int:
        """The position of an operation, or if it is in order with others that of the oldest of these."""
        order, rows = self._order, self._rows
        name = rows[order[at] * _ROW + _ORDER]
        if name:
            at = 0
            while rows[order[at] * _ROW + _ORDER] != name:
                at += 1
        return at

    def performs(self, at: int) -> bool:
        """Let compiled code perform the operation at a position; False if the machine must, and nothing has been done."""
        first = self._order[at] * _ROW
        perform = self._rows[first + _PERFORM]
        return bool(perform) and not _function(perform)(self._address + 8 * first)

    def take(self, at: int) -> AsyncOperation:
        """Remove the operation at a position and return it."""
        found = self._operation(self._order[at])
        self.remove(at)
        return found

    def remove(self, at: int) -> AsyncOperation | None:
        """Remove the operation at a position and return it if the machine knows it."""
        order, last = self._order, self._words[_PENDING] - 1
        row = order[at]
        if at < last:
            order[at:last] = order[at + 1 : last + 1]
            order[last] = row
        self._words[_PENDING] = last
        found, self._known[row] = self._known[row], None
        return found

    def of_thread(self, queue: Hashable, thread: Hashable) -> list[AsyncOperation]:
        """The operations of a thread that perform in a queue, in order; of those that the machine does not know only the last one."""
        found: list[AsyncOperation] = []
        for row in reversed(self._order[: len(self)].tolist()):
            operation, first = self._known[row], row * _ROW
            if operation is not None:
                if operation.queue == queue and operation.thread == thread:
                    found.append(operation)
            elif not found and self._rows[first + _ORDER] == queue:
                assert self._compiled is not None
                if self._compiled.thread(self._rows[first + _CONTEXT], self._rows[first + _LANE]) == thread:
                    found.append(self._operation(row))
        return found[::-1]

    def take_over_signals(self) -> None:
        """Let the machine perform the commits that compiled code has issued; the mbarrier objects on which they arrive may change."""
        for row in self._order[: len(self)].tolist():
            if self._known[row] is None and self._rows[row * _ROW + _ARRIVES]:
                self._operation(row)
                self._rows[row * _ROW + _PERFORM] = 0

    def _operation(self, row: int) -> AsyncOperation:
        """The operation of a row. When it performs, the machine is told from now on."""
        found, first = self._known[row], row * _ROW
        if found is None:
            rows = self._rows
            assert self._compiled is not None
            what = rows[first + _DATA : first + _ROW].tolist()
            found = self._compiled.operation(rows[first + _EXECUTION], rows[first + _CONTEXT], rows[first + _LANE], what)
            self._known[row], rows[first + _IS_TOLD] = found, 1
            if rows[first + _ORDER] and rows[first + _SIGNAL]:
                about = rows[first + _SIGNAL_OP], rows[first + _SIGNAL_ADDRESS], rows[first + _SIGNAL_CTAS]
                rows[first + _SIGNAL] = 0
                self._compiled.signal(found, *about, rows[first + _CONTEXT], rows[first + _LANE])
        return found


def compiled_operations(launch: Launch, warps: Mapping[int, Warp], executable: Executable) -> CompiledOperations | None:
    """What the launch, whose operations perform later than they are issued, needs for those that compiled code issues, if there are any.

    ``warps`` are those that have been able to run, by the addresses of their contexts.
    """
    repetitions = launch.host_memory.repetitions
    if repetitions is None:
        return None

    def operation(number: int, context: int, lane: int, what: Sequence[int]) -> AsyncOperation:
        execution = repetitions.executions[number - 1]
        assert isinstance(execution, RepeatedExecution)
        return execution.operation(warps[context], lane, what)

    def thread(context: int, lane: int) -> Hashable:
        warp = warps[context]
        return warp.cta.ctaid, warp.warp_id, lane

    def signal(after: AsyncOperation, index: int, address: int, ctas: int, context: int, lane: int) -> None:
        warp = warps[context]
        cta, offset = launch.shared_at(warp, address)
        receivers = [each for each in cta.cluster if ctas >> each.rank & 1] if ctas else [cta]
        made = commit_of(launch.program.ops[index], warp, lane, [each.mbarriers[offset] for each in receivers], (after,))
        launch.scheduler.perform_after(made, (after,))

    return CompiledOperations(executable.support_function("issuepending"), operation, thread, signal)
