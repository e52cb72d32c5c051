"""The state of barriers: mbarrier objects, the sixteen barriers of a CTA, the barrier of a cluster."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from ptxlab._records import dataclass
from ptxlab.engine.context import BY_PARITY, Word
from ptxlab.engine.mbarrier_rows import Cell
from ptxlab.engine.turns.words import BarrierCell, ClusterCell
from ptxlab.isa.context import Misuse, Wait

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import Cluster
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["ClusterBarrier", "MbarrierState", "NamedBarrier"]

_MAX_COUNT = (1 << 20) - 1
_MACHINE, _BLOCKED, _GENERATION = int(BarrierCell.MACHINE), int(BarrierCell.BLOCKED), int(BarrierCell.GENERATION)
_PHASES, _PENDING, _EXPECTED, _TRANSACTIONS, _AWAITED = (
    int(c) for c in (Cell.PHASES, Cell.PENDING, Cell.EXPECTED, Cell.TRANSACTIONS, Cell.AWAITED)
)
_WAITERS = slice(Cell.WAITERS, Cell.WAITERS + 2)
_ARRIVED, _PHASE, _CLUSTER_AWAITED, _FIRST_WAITER, _LIVE = (
    int(c) for c in (ClusterCell.ARRIVED, ClusterCell.PHASE, ClusterCell.AWAITED, ClusterCell.WAITERS, ClusterCell.LIVE)
)
_LANES = int(Word.CLUSTER_LANES)


@dataclass(slots=True, eq=False)
class _Barrier:
    """What threads arrive at and wait for; ``clock`` belongs to an observer."""

    launch: Launch
    waiters: list[Any] = field(default_factory=list, init=False)
    clock: Any = field(default=None, init=False)

    def _arrived(self) -> None:
        """Report an arrival to the observer, before it can complete the phase."""
        if self.launch.observer is not None:
            self.launch.observer.arrived(self)

    def _completed(self) -> None:
        """Report the completion of a phase, and continue those who wait for it."""
        if self.launch.observer is not None:
            self.launch.observer.completed(self)
        if self.waiters:
            self.launch.wake(self.waiters)


class MbarrierState(_Barrier):
    """One mbarrier object; see `ptxlab.isa.Mbarrier`.

    Its state is a row of numbers (`ptxlab.engine.mbarrier_rows`). The opaque state of an arrival holds the phase and the pending count
    before it.
    """

    __slots__ = ("_row", "_waiters", "offset", "rank")

    def __init__(self, launch: Launch, rank: int, offset: int, count: int, row: memoryview) -> None:
        super().__init__(launch)
        self.rank = rank
        self.offset = offset
        self._row = row
        row[_PHASES] = 1
        row[_PENDING] = row[_EXPECTED] = count
        row[_TRANSACTIONS] = row[_AWAITED] = 0
        self._waiters = row[_WAITERS].cast("B").cast("q")
        self._waiters[0] = 0
        if launch.observer is not None:
            launch.observer.initialised(self)

    def detach(self) -> None:
        """The object ends: give up its row, and keep a copy of the state for those that still refer to it."""
        if self._waiters[0]:
            self.take_over()
        row, self._row = self._row, memoryview(bytearray(self._row)).cast("i")
        self._waiters = self._row[_WAITERS].cast("B").cast("q")
        row[_PHASES] = 0

    @property
    def phase(self) -> int:
        """The phases that have completed."""
        phases: int = self._row[_PHASES]
        return phases - 1

    @property
    def pending(self) -> int:
        """The arrivals that are pending in the current phase."""
        count: int = self._row[_PENDING]
        return count

    @property
    def expected(self) -> int:
        """The arrivals that the next phase expects."""
        count: int = self._row[_EXPECTED]
        return count

    @property
    def transactions(self) -> int:
        """The transaction count."""
        count: int = self._row[_TRANSACTIONS]
        return count

    def arrive(self, count: int = 1) -> int:
        """Arrive; returns the opaque state of the phase arrived on."""
        row = self._row
        pending: int = row[_PENDING]
        state: int = row[_PHASES] - 1 << 20 | pending
        if count > pending:
            raise Misuse(
                "B505",
                f"{count} arrivals on the mbarrier at shared offset {self.offset:#x}, but only {pending} of "
                f"{self.expected} are pending in phase {self.phase}",
                fix="initialise the mbarrier with the number of arrivals that one phase gets, or let those who arrive for the next one "
                "wait with mbarrier.try_wait until it is complete",
            )
        row[_PENDING] = pending - count
        self.launch.progress += 1
        self._arrived()
        if pending == count and not row[_TRANSACTIONS]:
            self._complete()
        return state

    def drop(self, count: int = 1) -> int:
        """Arrive and expect ``count`` fewer arrivals in the following phases."""
        if count > self.expected:
            raise Misuse("B505", f"arrive_drop of {count}, but the mbarrier at shared offset {self.offset:#x} expects {self.expected}")
        self._row[_EXPECTED] -= count
        try:
            return self.arrive(count)
        except Misuse:
            self._row[_EXPECTED] += count
            raise

    def add_pending(self, count: int) -> None:
        """Expect further arrivals in this phase (``cp.async.mbarrier.arrive`` without ``.noinc``)."""
        self._row[_PENDING] += count
        if self.pending > _MAX_COUNT:
            raise Misuse("B505", f"the pending count of the mbarrier at shared offset {self.offset:#x} exceeds {_MAX_COUNT}")

    def expect_tx(self, count: int) -> None:
        """Raise the transaction count."""
        if self.launch.observer is not None:
            self.launch.observer.expected(self)
        self._transact(count)

    def complete_tx(self, count: int) -> None:
        """Lower the transaction count."""
        self._arrived()
        self._transact(-count)

    def _transact(self, count: int) -> None:
        row = self._row
        transactions = row[_TRANSACTIONS] = row[_TRANSACTIONS] + count
        self.launch.progress += 1
        if not -_MAX_COUNT <= transactions <= _MAX_COUNT:
            raise Misuse(
                "B506",
                f"the transaction count of the mbarrier at shared offset {self.offset:#x} becomes {transactions}, "
                f"outside -(2^20 - 1) to 2^20 - 1",
                fix="one phase can track at most 1048575 bytes: split the copies over several mbarriers",
            )
        if not transactions and not row[_PENDING]:
            self._complete()

    def _complete(self) -> None:
        row = self._row
        row[_PHASES] += 1
        row[_PENDING] = row[_EXPECTED]
        self._completed()
        row[_AWAITED] = bool(self.waiters)
        if self._waiters[0]:
            self.launch.scheduler.resume_waiters(self._waiters, self._is_over)

    def _is_over(self, awaits: int, phase: int) -> bool:
        """Whether the wait of a warp is over that compiled code has blocked (`Word.AWAITS`, `Word.AWAITED_PHASE`)."""
        return self.completed(phase) if awaits & BY_PARITY else self.passed(phase)

    def awaited(self) -> None:
        """Note that lanes are about to wait for the object: the scheduler continues them when a phase completes."""
        if self._waiters[0]:
            self.take_over()
        self._row[_AWAITED] = 1

    def take_over(self) -> None:
        """Let the scheduler continue those who wait for the object, and not compiled code, which has blocked them."""
        from ptxlab.isa.sync import phase_wait

        first = self._waiters[0]
        self._waiters[0] = 0
        self.launch.scheduler.take_over_waiters(first, partial(phase_wait, self))

    def completed(self, parity: int) -> bool:
        """Return whether the phase of this parity (its lowest bit) has completed."""
        return (self._row[_PHASES] ^ parity) & 1 == 0

    def passed(self, state: int) -> bool:
        """Return whether the phase of an opaque state has completed."""
        return self.phase > state >> 20

    def observed(self) -> None:
        """Report that the running warp has found a phase complete."""
        if self.launch.observer is not None:
            self.launch.observer.acquired(self)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the state for a report."""
        where = f"shared offset {self.offset:#x} of CTA rank {self.rank}"
        return (
            ("mbarrier", where),
            ("current phase", f"{self.phase} (parity {self.phase & 1}), not completed"),
            ("pending arrivals", f"{self.pending} of {self.expected}"),
            (
                "transaction bytes",
                f"{self.transactions:+d} still to come" if self.transactions >= 0 else f"{self.transactions} (completed, not yet expected)",
            ),
        )


@dataclass(slots=True, eq=False)
class NamedBarrier(_Barrier):
    """One of the barriers 0-15 of a CTA."""

    id: int
    cells: memoryview
    """Those of the CTA, which compiled code knows (`BarrierCell`)."""
    arrived: int = 0
    expected: int | None = None
    accumulator: list[int] = field(default_factory=list)
    result: dict[int, list[int]] = field(default_factory=dict)
    wait: Wait | None = None
    """What the warps that have arrived wait for, in this generation."""
    together: list[Warp] | None = None
    """The blocked warps that the observer is told of when the barrier completes; None if it is told of each arrival in this generation."""

    def arrive(self, threads: int, needed: int, stated: int | None, blocked: Any = None) -> bool:
        """Count arrivals and return whether they complete the barrier; ``stated`` is the thread count that the instruction names.

        ``blocked`` is the warp if the instruction does no more than to wait until the barrier is complete.
        """
        launch = self.launch
        if self.cells[_BLOCKED + self.id]:
            launch.scheduler.take_over(self.cells, self.id)
        arrived = self.arrived
        if not arrived:
            self.cells[_MACHINE + self.id] = 1
            self.expected = stated
            self.together = [] if launch.arrivals_together else None
        elif self.expected != stated:
            raise Misuse(
                "B509",
                f"barrier {self.id} is awaited by {_threads(self.expected)} and by {_threads(stated)} in the same phase",
                fix="give the same thread count in all bar instructions for one barrier",
            )
        arrived = self.arrived = arrived + threads
        launch.barrier_arrivals += 1
        if arrived > needed:
            raise Misuse("B510", f"{arrived} threads arrive at barrier {self.id}, which expects {needed}")
        if launch.observer is not None:
            together = self.together
            if together is None:
                launch.observer.arrived(self)
            elif blocked is None or len(blocked.converged) != 1:
                self._tell()
                launch.observer.arrived(self)
            else:
                together.append(blocked)
        if arrived < needed:
            return False
        self.release()
        return True

    @property
    def generation(self) -> int:
        """How many phases are complete."""
        count: int = self.cells[_GENERATION + self.id]
        return count

    def release(self) -> None:
        """Complete the barrier and make it ready for its next use."""
        self.arrived = self.cells[_MACHINE + self.id] = 0
        if self.accumulator:
            self.result[self.generation] = self.accumulator
            self.accumulator = []
        self.cells[_GENERATION + self.id] += 1
        self.wait = None
        if self.together is not None:
            self._tell()
        self._completed()

    def _tell(self) -> None:
        """Tell the observer of the blocked warps, and of each arrival from now on."""
        together, self.together = self.together, None
        if together and self.launch.observer is not None:
            self.launch.observer.arrived_together(self, together)

    def state(self) -> tuple[object, ...]:
        """What decides how the barrier goes on, besides the threads that wait at it."""
        return self.id, self.arrived, self.expected, tuple(self.accumulator)


def _threads(count: int | None) -> str:
    return "all threads of the CTA" if count is None else f"{count} threads"


@dataclass(slots=True, eq=False)
class ClusterBarrier(_Barrier):
    """The barrier of all threads of a cluster (``barrier.cluster``).

    Its state, and that of its warps, is in memory that compiled code shares (`ClusterCell`, `Word.CLUSTER_LANES`).
    """

    cells: memoryview
    """`ClusterCell`"""

    @property
    def arrived(self) -> int:
        """The threads that have arrived in the current phase."""
        count: int = self.cells[_ARRIVED]
        return count

    @property
    def phase(self) -> int:
        """The phases that have completed."""
        count: int = self.cells[_PHASE]
        return count

    @property
    def expected(self) -> int:
        """The threads of the cluster that have not exited."""
        count: int = self.cells[_LIVE]
        return count

    @staticmethod
    def lanes_of(warp: Warp) -> tuple[int, int]:
        """The lanes of a warp that have arrived but not waited, in even and in odd phases."""
        return warp.words[_LANES], warp.words[_LANES + 1]

    def arrive(self, warp: Warp) -> None:
        """The executing lanes of a warp arrive."""
        warp.words[_LANES + (self.phase & 1)] |= warp.mask
        self.cells[_ARRIVED] += warp.mask.bit_count()
        self.launch.barrier_arrivals += 1
        self._arrived()
        self.check()

    def leave(self, warp: Warp) -> None:
        """The executing lanes of a warp have waited for the last phase."""
        warp.words[_LANES + (self.phase & 1 ^ 1)] &= ~warp.mask

    def exited(self, warp: Warp, lanes: int) -> None:
        """Lanes of a warp have exited: the phase needs only all threads that have not, whether these have arrived before or not."""
        arrived = warp.words[_LANES + (self.phase & 1)] & lanes
        self.cells[_ARRIVED] -= arrived.bit_count()
        self.cells[_LIVE] -= lanes.bit_count()
        self.check()

    def check(self) -> None:
        """Complete the phase if every thread that has not exited has arrived."""
        cells = self.cells
        if cells[_ARRIVED] and cells[_ARRIVED] >= cells[_LIVE]:
            if cells[_FIRST_WAITER]:
                self.take_over()
            cells[_ARRIVED] = cells[_CLUSTER_AWAITED] = 0
            cells[_PHASE] += 1
            self._completed()

    def awaited(self) -> None:
        """Note that lanes are about to wait: the scheduler continues them when the phase completes."""
        if self.cells[_FIRST_WAITER]:
            self.take_over()
        self.cells[_CLUSTER_AWAITED] = 1

    def take_over(self) -> None:
        """Let the scheduler continue those who wait, and not compiled code, which has blocked them."""
        from ptxlab.isa.sync import cluster_wait_of

        first = self.cells[_FIRST_WAITER]
        self.cells[_FIRST_WAITER] = 0
        self.cells[_CLUSTER_AWAITED] = 1
        self.launch.scheduler.take_over_waiters(first, lambda _, __: cluster_wait_of(self))

    def state(self, cluster: Cluster) -> tuple[object, ...]:
        """What decides how the barrier goes on, besides the threads that wait at it."""
        lanes = ((warp.cta.rank, warp.warp_id, *self.lanes_of(warp)) for cta in cluster.ctas for warp in cta.warps)
        return self.arrived, self.phase & 1, tuple(lanes)
