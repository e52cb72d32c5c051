"""Execution against a kernel, with no model of what happens before what: only results count.

Warps lose their turn at the end of any basic block: under ``restless`` to any other warp, under ``reluctant`` and ``prompt`` mostly to the
last or the first one that can go on. Asynchronous operations perform in any order: under ``reluctant`` hardly any while a warp can go on,
under ``prompt`` all between two turns, which are of one block. The async proxy sees shared memory as it was: what threads have written
stays hidden from it until a fence.proxy.async in the CTA. tcgen05.st and ld are as late as they may be (`Transfers`). A correct kernel
gives the same bits.

It is kinder than hardware may be: a fence shows what all threads of the CTA have written before, not only what its own thread knows of;
and a warp executes a basic block in one piece.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.native_ops import Atomic, LaneAccess, MatrixAccess
from ptxlab.isa.operations import AsyncOperation
from ptxlab.machine.launch import launch
from ptxlab.machine.schedule import scheduler as scheduling
from ptxlab.machine.schedule.queues import Queue, Queues
from ptxlab.machine.schedule.scheduler import Scheduler
from ptxlab.machine.warp.warp import Warp

from .observers import Recorder, observed_by
from .transfers import Transfers

__all__ = ["ADVERSARIES", "against"]

_TURN = 40
"""Warp-instructions."""
_PATIENCE = 4
"""Turns in which nothing changed, for each one that counts in the search for hangs."""
_LONG = 200
"""Turns."""
_ASYNC_PROXY = ("cp.async.bulk", "cp.reduce.async.bulk", "tcgen05.mma", "tcgen05.cp", "wgmma.mma_async")
_COPIES = ("cp.async.",)
"""Other than bulk copies: in the generic proxy."""


class _View:
    """Shared memory of a CTA as the async proxy sees it: ``seen``, where ``hidden``, else as it is."""

    def __init__(self, shared: NDArray[np.uint8]) -> None:
        self.shared = shared
        self.start = int(shared.ctypes.data)
        self.seen = shared.copy()
        self.hidden = np.zeros(len(shared), bool)

    def write(self, hosts: NDArray[np.uint64], size: int) -> None:
        """Threads have written at host addresses, perhaps here."""
        offsets = hosts.astype(np.int64) - self.start
        inside = offsets[(offsets >= 0) & (offsets < len(self.shared))]
        if len(inside):
            self.hidden[(inside[:, None] + np.arange(size)).ravel()] = True

    def show(self) -> None:
        """Nothing is hidden any more."""
        self.seen[self.hidden] = self.shared[self.hidden]
        self.hidden[:] = False

    @contextmanager
    def concealed(self) -> Iterator[None]:
        """An operation of the generic proxy performs in here: what it writes is hidden."""
        before = self.shared.copy()
        yield
        changed = self.shared != before
        new = changed & ~self.hidden
        self.seen[new] = before[new]
        self.hidden |= changed

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """An operation of the async proxy performs in here; what it writes all see."""
        at = np.flatnonzero(self.hidden)
        newest = self.shared[at]
        self.shared[at] = self.seen[at]
        before = self.shared.copy()
        yield
        changed = self.shared != before
        self.seen[changed] = self.shared[changed]
        self.hidden &= ~changed
        kept = ~changed[at]
        self.shared[at[kept]] = newest[kept]


class _Delays(Recorder):
    """What of shared memory the async proxy has not been told of, and what of tensor memory only one warp has."""

    def __init__(self, launch: Any) -> None:
        super().__init__(launch)
        self._views: dict[int, _View] = {}
        self._transfers = Transfers(launch)
        self._sizes = {index: size for index, native in launch.program.natives.items() if (size := _written(native))}
        self._fences = frozenset(op.index for op in launch.program.ops if op.opcode.startswith("fence.proxy.async"))

    def started(self, ctas: Any) -> None:
        for cta in ctas:
            self._views[id(cta)] = _View(cta.shared)

    def ended(self, cta: Any) -> None:
        del self._views[id(cta)]

    def running(self, warp: Any, split: Any) -> None:
        self._transfers.begins(warp)

    def stopped(self, warp: Any, split: Any) -> None:
        self._transfers.ends(warp, split)

    def recorded(self, warp: Any, rows: Any) -> None:
        views = [self._views[id(cta)] for cta in warp.cta.group.ctas if id(cta) in self._views]
        for index, lanes, row in zip((rows[:, 0] & 0xFFFFFFFF).tolist(), (rows[:, 0] >> 32).tolist(), rows, strict=True):
            if index in self._sizes:
                hosts = row[2:34][(lanes >> np.arange(32) & 1).astype(bool)]
                for view in views:
                    view.write(hosts, self._sizes[index])
            elif index in self._fences:
                self._views[id(warp.cta)].show()
            elif self._transfers.hears(index):
                self._transfers.recorded(warp, index, lanes, int(row[1]))

    @contextmanager
    def performing(self, operation: AsyncOperation) -> Iterator[None]:
        """Let an operation perform on what it sees."""
        opcode = operation.op.opcode
        views = [view for cta in operation.cta.cluster if (view := self._views.get(id(cta))) is not None]
        with ExitStack() as stack:
            for view in views:
                if opcode.startswith(_ASYNC_PROXY) and view.hidden.any():
                    stack.enter_context(view.exchanged())
                elif opcode.startswith(_COPIES) and not opcode.startswith(_ASYNC_PROXY):
                    stack.enter_context(view.concealed())
            yield


def _written(native: Any) -> int:
    """Bytes that a lane writes."""
    if isinstance(native, LaneAccess):
        return native.size if native.write else 0
    if isinstance(native, MatrixAccess):
        return native.row if native.write else 0
    return native.size if isinstance(native, Atomic) else 0


class _Restless(Scheduler):
    """Short turns; time does not count as a reason to give up waiting for an operation."""

    turns = 0

    def _carry_out(self, operation: AsyncOperation) -> None:
        with self.observer.performing(operation):  # type: ignore[union-attr]
            super()._carry_out(operation)

    def _slice_used_up(self, warp: Warp) -> None:
        self._spent.add(warp)
        self.turns += 1
        if self.turns % _PATIENCE == 0:
            super()._slice_used_up(warp)


class _ReluctantQueue(Queue):
    """No operation performs while a warp can go on; of those that can, one of the last goes on under an odd seed, else one of the first."""

    turns_in_a_row = 16
    """After so many, a warp stands behind the others, which it may be waiting for."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        super().__init__(None)
        self.in_order = False
        self._scheduler = scheduler
        self._order = random.Random(seed)
        self._sign = 1 if seed % 2 else -1
        self._used: Counter[Any] = Counter()

    def performs(self) -> bool:
        """Only now and then: warps that go on may do nothing but wait for an operation, or for warps whose wait is over."""
        if self._used.total() % _LONG:
            return False
        self._scheduler._poll_all()
        return bool(self.pending)

    def next_warp(self) -> Any:
        """The warp that goes on."""

        def rank(warp: Any) -> tuple[int, int]:
            return -(self._used[warp] // self.turns_in_a_row), self._sign * warp.warp_id

        chosen = max(self.ready, key=rank)
        self.ready.remove(chosen)
        self._used[chosen] += 1
        return chosen

    def next_operation(self) -> int:
        """Any operation."""
        return self._order.randrange(len(self.pending))


class _PromptQueue(_ReluctantQueue):
    """All operations perform between two turns."""

    turns_in_a_row = 500

    def performs(self) -> bool:
        """No further operation performs: none is left."""
        while self._scheduler.perform_one(self):
            pass
        return False


class _Reluctant(_Restless):
    """Chooses as `_ReluctantQueue` does."""

    queue: type[_ReluctantQueue] = _ReluctantQueue

    def __init__(self, launch: Any, execute: Callable[[Any], int]) -> None:
        super().__init__(launch, execute)
        self.queues = Queues(launch, self.queue(self, launch.options.seed))


class _Prompt(_Reluctant):
    """Chooses as `_PromptQueue` does."""

    queue = _PromptQueue


_SCHEDULERS = {"restless": (_Restless, _TURN), "reluctant": (_Reluctant, _TURN), "prompt": (_Prompt, 1)}
ADVERSARIES = (("restless", 1), ("restless", 2), ("reluctant", 1), ("reluctant", 2), ("prompt", 1), ("prompt", 2))
"""Name and seed."""


@contextmanager
def against(name: str) -> Iterator[None]:
    """Launches in here, of policy ``random`` with the check ``race``, are run by an adversary; nothing looks for races."""
    scheduler, turn = _SCHEDULERS[name]
    with (
        observed_by(_Delays),
        patch.object(launch, "Scheduler", scheduler),
        patch.multiple(scheduling, SLICE=turn, SMALLEST_SLICE=turn, GROUP_SLICE=turn),
    ):
        yield
