"""Support functions that arrive on mbarrier objects where that is certain to be legal, and continues nobody whom the scheduler has blocked.

They change the rows of the objects (`ptxlab.engine.mbarrier_rows`) as `ptxlab.machine.schedule.barriers.MbarrierState` does.
"""

from __future__ import annotations

from ptxlab._records import dataclass
from ptxlab.engine.context import BY_PARITY, Word
from ptxlab.engine.direct_services import MBARRIER_TOKEN
from ptxlab.engine.mbarrier_rows import Cell, is_complete, row_address
from ptxlab.engine.support.event_rows import emit_replay
from ptxlab.engine.turns.emission import resume_waiters
from ptxlab.isa.address_space import SHARED_RANK_SHIFT, SHARED_WINDOW
from ptxlab.native.builder import Function, Module, Value

__all__ = [
    "COMPLETE_SHIFT",
    "CTAS_SHIFT",
    "MOST_BYTES",
    "OFFSET_MASK",
    "ObjectRow",
    "emit_arrive",
    "emit_may_arrive",
    "emit_progress",
    "emit_wake",
    "find_arrival",
    "find_object",
    "place_in",
    "shared_of",
    "unless",
    "unless_awaited",
    "window_place",
]

CTAS_SHIFT, COMPLETE_SHIFT = SHARED_RANK_SHIFT, 40
OFFSET_MASK = (1 << CTAS_SHIFT) - 1
"""How `Word.ARRIVED` says which objects an instruction has named: their offset in shared memory; at CTAS_SHIFT a bit for each CTA of the
cluster that has one of them; at COMPLETE_SHIFT the same for those whose phase it has completed."""
_WINDOW = 1 << 32
"""Above all addresses in the shared window; generic ones are larger."""
MOST_BYTES = (1 << 20) - 1
"""Limit of counts and of transaction counts."""


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """The numbers of an object, as i64; ``transactions`` with those that are added."""

    rank: Value
    place: Value
    phases: Value
    pending: Value
    transactions: Value

    @classmethod
    def read(cls, rank: Value, shared: Value, size: Value, offset: Value, added: Value) -> ObjectRow:
        """The numbers of the object at an offset of the shared memory of a CTA, after ``added`` transaction bytes."""
        place = row_address(shared, size, offset)
        phases, pending = (place.load("i32", cell).to("i64") for cell in (Cell.PHASES, Cell.PENDING))
        return cls(rank, place, phases, pending, place.load("i32", Cell.TRANSACTIONS).sext("i64") + added)

    def perform(self, count: Value) -> Value:
        """Arrive, and complete the phase if it is the last arrival; returns the bits of the CTA for `Word.ARRIVED`."""
        left = self.pending - count
        last = left.eq(0) & self.transactions.eq(0)
        expected = self.place.load("i32", Cell.EXPECTED).to("i64")
        self.place.store((self.phases + last.to("i64")).to("i32"), Cell.PHASES)
        self.place.store(last.select(expected, left).to("i32"), Cell.PENDING)
        self.place.store(self.transactions.to("i32"), Cell.TRANSACTIONS)
        code = self.place.function
        with code.when(last & self.place.load("i64", Cell.WAITERS // 2).ne(0)):
            code.call("wake", "void", self.place)
        return ((last.to("i64") << COMPLETE_SHIFT) | (1 << CTAS_SHIFT)) << self.rank


def unless(c: Function, condition: Value) -> None:
    """Return -1 unless the condition holds: the handler is to be called."""
    with c.when(~condition):
        c.ret(-1)


def window_place(address: Value) -> tuple[Value, Value]:
    """The CTA rank and the offset of an address in the shared window, or of a generic one."""
    address = address - address.uge(_WINDOW).select(address.constant(SHARED_WINDOW), 0)
    return address >> SHARED_RANK_SHIFT, address & (1 << SHARED_RANK_SHIFT) - 1


def place_in(rank: Value, offset: Value) -> Value:
    """Both in one number (`ptxlab.isa.repeating.place_of`)."""
    return (rank << SHARED_RANK_SHIFT) | offset


def shared_of(c: Function, context: Value, rank: Value) -> tuple[Value, Value]:
    """The shared memory of a CTA of the cluster, and its size; 0 if the CTA has exited."""
    unless(c, rank.ult(context.word(Word.CLUSTER_SIZE)))
    entry = context.pointer(Word.CLUSTER).at(rank << 4)
    return entry.pointer(0), entry.word(1)


def find_object(c: Function, context: Value, rank: Value, offset: Value, added: Value) -> ObjectRow:
    """The object at an offset of a CTA, with ``added`` transaction bytes, if it is valid and may have so many."""
    shared, size = shared_of(c, context, rank)
    unless(c, (offset & 7).eq(0) & offset.ult(size))
    row = ObjectRow.read(rank, shared, size, offset, added)
    unless(c, shared.at(offset).word(0).eq(MBARRIER_TOKEN) & row.phases.ne(0))
    unless(c, row.transactions.le(MOST_BYTES) & row.transactions.ge(-MOST_BYTES))
    return row


def unless_awaited(c: Function, row: ObjectRow, left: Value) -> None:
    """Return -1 if the phase completes, and the scheduler has blocked who waits for it; ``left``: transaction bytes are left."""
    unless(c, row.pending.ne(0) | left | row.place.load("i32", Cell.AWAITED).eq(0))


def find_arrival(c: Function, context: Value, rank: Value, offset: Value, count: Value, added: Value) -> ObjectRow:
    """The object at an offset of a CTA, if ``count`` arrivals after ``added`` transaction bytes are legal and continue nobody so."""
    row = find_object(c, context, rank, offset, added)
    unless(c, row.pending.ne(0) & count.ule(row.pending))
    awaited = row.place.load("i32", Cell.AWAITED)
    unless(c, row.pending.ne(count) | row.transactions.ne(0) | awaited.eq(0))
    return row


def emit_wake(module: Module) -> None:
    """``void wake(place)``: a phase of the object with this row is complete, and the warps that wait for it can run.

    They are those that compiled code has blocked (`ptxlab.engine.turns`).
    """
    c, (place,) = module.define("void wake(ptr place)", internal=True)
    after = place.load("i32", Cell.PHASES).to("i64")

    def is_over(waiter: Value) -> Value:
        return is_complete(after, waiter.word(Word.AWAITED_PHASE), (waiter.word(Word.AWAITS) & BY_PARITY).ne(0))

    resume_waiters(c, place.at(4 * Cell.WAITERS), is_over)
    c.ret()


def emit_progress(context: Value, steps: Value | int) -> None:
    """Count progress of the launch."""
    counter = context.pointer(Word.PROGRESS)
    counter.set_word(0, counter.word(0) + steps)


def emit_arrive(module: Module, where: str) -> None:
    """``i64 arrive_*(context, address, lanes, count, bytes, steps)``: for each lane expect ``bytes``, then arrive ``count`` times.

    ``steps`` is the progress that this is. Returns the opaque state before the arrivals; -1, and nothing is done, where the handler must be
    called. ``where``: the object belongs to the ``cta``, or to any of the ``cluster``; ``apart`` if ``mayarrive`` has looked at it.
    """
    emit_wake(module)
    name = f"arrive_{where}"
    c, (context, address, lanes, count, size, steps) = module.define(
        f"i64 {name}(ptr context, i64 address, i64 lanes, i64 count, i64 bytes, i64 steps)"
    )
    rank, offset = window_place(address)
    if where == "cta":
        unless(c, (rank << SHARED_RANK_SHIFT).eq(context.word(Word.SHARED_RANK)))
    if where != "apart":
        _may_announce(c, context, count, size)
    count = count * lanes
    row = find_arrival(c, context, rank, offset, count, size * lanes)
    state = (row.phases - 1 << 20) | row.pending
    context.set_word(Word.ARRIVED, offset | row.perform(count))
    emit_progress(context, steps)
    c.ret(state)


def _may_announce(c: Function, context: Value, count: Value, size: Value) -> None:
    """Return -1 unless there may be so many arrivals, and so many bytes may be announced now."""
    unless(c, count.ule(MOST_BYTES) & size.ule(MOST_BYTES))
    with c.when(size.ne(0)):
        # Reports about accesses before the announcement state the bytes that were announced then.
        emit_replay(c, context)
        unless(c, context.word(Word.EVENT_COUNT).eq(0))


def emit_may_arrive(module: Module) -> None:
    """``i64 mayarrive(context, address, count, bytes)``: the bit of the CTA with this object if it is certain that an arrival is legal.

    That is to expect the bytes, and to arrive so often. -1 where the handler must be called.
    """
    c, (context, address, count, size) = module.define("i64 mayarrive(ptr context, i64 address, i64 count, i64 bytes)")
    rank, offset = window_place(address)
    unless(c, count.ne(0))
    _may_announce(c, context, count, size)
    find_arrival(c, context, rank, offset, count, size)
    c.ret(c.const("i64", 1) << rank)
