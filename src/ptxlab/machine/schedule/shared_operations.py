"""The operations of a queue that have not performed, where compiled code issues some of them (`ptxlab.engine.turns.pending`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.pending_products import ProductRow
from ptxlab.engine.turns.pending import PendingRow
from ptxlab.engine.turns.words import QueueWord
from ptxlab.isa.repeating import place_of
from ptxlab.isa.tcgen05 import commit_of
from ptxlab.machine.warp.repeated_executions import RepeatedExecution
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.engine import Executable
    from ptxlab.isa.context import WarpContext
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.schedule.operations import Operations
    from ptxlab.machine.warp.warp import Warp

__all__ = ["CompiledOperations", "SharedOperations", "operations_of"]

_PENDING, _ROW = int(QueueWord.PENDING), int(PendingRow.END)
_ORDER, _IS_TOLD, _PERFORM = int(PendingRow.ORDER), int(PendingRow.IS_TOLD), int(PendingRow.PERFORM)
_CONTEXT, _LANE, _EXECUTION = int(PendingRow.CONTEXT), int(PendingRow.LANE), int(PendingRow.EXECUTION)
_ARRIVES, _DATA, _SIGNAL = int(PendingRow.ARRIVES), int(PendingRow.DATA), int(ProductRow.SIGNAL)
_SIGNAL_OP, _SIGNAL_PLACE, _SIGNAL_CTAS = int(ProductRow.SIGNAL_OP), int(ProductRow.SIGNAL_PLACE), int(ProductRow.SIGNAL_CTAS)
_FEWEST = 16


@cache
def _function(address: int) -> Callable[[int], int]:
    """The function that performs the operation of a row."""
    function: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    return function


class CompiledOperations:
    """What the machine needs for operations that compiled code issues.

    Parameters
    ----------
    launch : its operations perform later than they are issued
    warps : those that have been able to run, by the addresses of their contexts
    issue : address of the function that issues products
    """

    def __init__(self, launch: Launch, warps: Mapping[int, Warp], issue: int) -> None:
        self._launch, self._warps, self.issue = launch, warps, issue

    def operation(self, number: int, context: int, lane: int, what: Sequence[int]) -> AsyncOperation:
        """Make the operation that repeats an execution with a number; ``what`` its row says of it (`PendingRow.DATA`)."""
        repetitions = self._launch.host_memory.repetitions
        assert repetitions is not None
        execution = repetitions.executions[number - 1]
        assert isinstance(execution, RepeatedExecution)
        return execution.operation(self._warps[context], lane, what)

    def thread(self, context: int, lane: int) -> Hashable:
        """The key of a thread."""
        warp = self._warps[context]
        return warp.cta.ctaid, warp.warp_id, lane

    def cta(self, context: int) -> CtaState:
        """The CTA of a warp."""
        return self._warps[context].cta

    def signal(self, after: AsyncOperation, index: int, place: int, ctas: int, context: int, lane: int) -> None:
        """Let a commit perform after an operation of its thread."""
        launch, warp = self._launch, self._warps[context]
        rank, offset = place_of(place)
        receivers = [cta for cta in warp.cta.cluster if (ctas >> cta.rank & 1 if ctas else cta.rank == rank)]
        barriers = [cta.mbarriers[offset] for cta in receivers]
        made = commit_of(launch.program.ops[index], cast("WarpContext", warp), lane, barriers, (after,))
        launch.scheduler.perform_after(made, (after,))


class SharedOperations:
    """Operations in the order of issue: what `ptxlab.machine.schedule.pending.PendingOperations` is where the machine issues them all.

    Parameters
    ----------
    words : those of `QueueWord`
    compiled : what lets compiled code issue and perform operations
    """

    __slots__ = ("_address", "_compiled", "_known", "_order", "_orders", "_rows", "_words")

    def __init__(self, words: memoryview, compiled: CompiledOperations) -> None:
        self._words, self._compiled = words, compiled
        self._order, self._rows, self._address = memoryview(b"").cast("q"), memoryview(b"").cast("q"), 0
        self._known: list[AsyncOperation | None] = []
        """By row, the operations that the machine has issued, or waits for."""
        self._orders: dict[Hashable, int] = {}
        words[QueueWord.ISSUE] = compiled.issue
        self._grow(_FEWEST)

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

    def perform(self, at: int, operations: Operations) -> None:
        """Perform the operation at a position; or if it is in order with others, the oldest of these."""
        order, rows = self._order, self._rows
        name = rows[order[at] * _ROW + _ORDER]
        if name:
            at = 0
            while rows[order[at] * _ROW + _ORDER] != name:
                at += 1
        first = order[at] * _ROW
        perform = rows[first + _PERFORM]
        if not perform or _function(perform)(self._address + 8 * first):  # compiled code does nothing if the machine must perform it
            known = self._operation(order[at])
            self._remove(at)
            operations.do(known)
        elif (operation := self._remove(at)) is not None:
            operation.done, operation.then = True, None
            operations.signal_after(operation)

    def _remove(self, at: int) -> AsyncOperation | None:
        """Remove the operation at a position and return it if the machine knows it."""
        order, last = self._order, self._words[_PENDING] - 1
        row = order[at]
        if at < last:
            order[at:last] = order[at + 1 : last + 1]
            order[last] = row
        self._words[_PENDING] = last
        found, self._known[row] = self._known[row], None
        return found

    def first_of(self, cta: CtaState) -> int:
        """The position of the first operation of a CTA, -1 if there is none."""
        for at, row in enumerate(self._order[: len(self)].tolist()):
            operation = self._known[row]
            if operation is not None:
                whose = operation.cta
            else:
                whose = self._compiled.cta(self._rows[row * _ROW + _CONTEXT])
            if whose is cta:
                return at
        return -1

    def of_thread(self, queue: Hashable, thread: Hashable) -> list[AsyncOperation]:
        """The operations of a thread that perform in a queue, in order; of those that the machine does not know only the last one."""
        found: list[AsyncOperation] = []
        for row in reversed(self._order[: len(self)].tolist()):
            operation, first = self._known[row], row * _ROW
            if operation is not None:
                if operation.queue == queue and operation.thread == thread:
                    found.append(operation)
            elif not found and self._rows[first + _ORDER] == queue and self._thread(first) == thread:
                found.append(self._operation(row))
        return found[::-1]

    def _thread(self, first: int) -> Hashable:
        """The thread that has issued the operation of a row."""
        return self._compiled.thread(self._rows[first + _CONTEXT], self._rows[first + _LANE])

    def take_over_signals(self) -> None:
        """Let the machine perform the commits that compiled code has issued; the mbarrier objects on which they arrive may change."""
        for row in self._order[: len(self)].tolist():
            first = row * _ROW
            if self._rows[first + _PERFORM] and self._rows[first + _ARRIVES]:
                self._operation(row)
                self._rows[first + _PERFORM] = 0

    def _operation(self, row: int) -> AsyncOperation:
        """The operation of a row. When it performs, the machine is told from now on."""
        found, first = self._known[row], row * _ROW
        if found is None:
            rows = self._rows
            what = rows[first + _DATA : first + _ROW].tolist()
            found = self._compiled.operation(rows[first + _EXECUTION], rows[first + _CONTEXT], rows[first + _LANE], what)
            self._known[row], rows[first + _IS_TOLD] = found, 1
            if rows[first + _ORDER] and rows[first + _SIGNAL]:
                about = rows[first + _SIGNAL_OP], rows[first + _SIGNAL_PLACE], rows[first + _SIGNAL_CTAS]
                rows[first + _SIGNAL] = 0
                self._compiled.signal(found, *about, rows[first + _CONTEXT], rows[first + _LANE])
        return found


def operations_of(launch: Launch, warps: Mapping[int, Warp], executable: Executable) -> CompiledOperations | None:
    """What lets compiled code issue operations of a launch; None if all of them perform at once, or it repeats none."""
    issues = launch.deferred and launch.host_memory.repetitions is not None
    return CompiledOperations(launch, warps, executable.support_function("issuepending")) if issues else None
