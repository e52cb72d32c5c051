"""mbarrier: initialisation, arrivals, transactions, waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.context import Mbarrier, Misuse, Wait, WarpContext
from ptxlab.isa.effects import LOCAL, MbarrierArrive, MbarrierInit, MbarrierInval, MbarrierTransactions, MbarrierWait, order_of
from ptxlab.isa.operands import Unused
from ptxlab.isa.sync._mbarrier_address import RANK_SHIFT, locate, mbarrier_at, targets
from ptxlab.isa.sync._mbarrier_syntax import INIT, INVAL, PENDING_COUNT, arrivals, transactions, wait

_ARRIVE, _ARRIVE_EXPECT = arrivals("arrive")
_DROP, _DROP_EXPECT = arrivals("arrive_drop")
_ALONE = {"multicast": None}
_ANY_PHASE = {"phase": None}
_MOST = (1 << 20) - 1
_OFFSET = (1 << RANK_SHIFT) - 1


def _checked_count(value: int, what: str, least: int = 1) -> int:
    if not least <= value <= _MOST:
        raise Misuse("B504", f"{what} is {value}; it must be from {least} to {_MOST}")
    return value


def _lane_counts(warp: WarpContext, position: int, lanes: int) -> list[int]:
    """The count operand in each of the lanes; 1 where the operand is absent."""
    if position >= len(warp.op.operands) or isinstance(warp.op.operands[position], Unused):
        return [1] * lanes.bit_count()
    value = warp.common(position)
    if value is not None:
        return [value] * lanes.bit_count()
    return [warp.lane_value(position, 32, lane) for lane in range(32) if lanes >> lane & 1]


@service(INIT, only={"layout": None}, fidelity="hardware", outputs=0, effects=MbarrierInit())
def init(warp: WarpContext) -> None:
    """Make mbarrier objects: one phase expects ``count`` arrivals."""
    for address, lanes in targets(warp, 0):
        cta, offset = locate(warp, address)
        count = _checked_count(_lane_counts(warp, 1, lanes)[0], "the expected arrival count of mbarrier.init")
        old = cta.live_mbarrier(offset)
        if old is not None:
            warp.report(
                "B516",
                f"mbarrier.init at shared offset {offset:#x}, where an mbarrier object is in use",
                fix="execute mbarrier.inval first",
            )
        cta.new_mbarrier(offset, count)


@service(INVAL, fidelity="hardware", outputs=0, effects=MbarrierInval())
def inval(warp: WarpContext) -> None:
    """Make the memory of mbarrier objects ordinary memory again."""
    for address, _ in targets(warp, 0):
        mbarrier_at(warp, address)
        warp.cta.drop_mbarrier(address & _OFFSET, warp.op)


def _arrive(barrier: Any, counts: list[int], drop: bool) -> list[int]:
    """Arrive on one mbarrier for several lanes, in lane order; returns their opaque states."""
    one = barrier.drop if drop else barrier.arrive
    total = sum(counts)
    if not drop and total <= barrier.pending and len(counts) > 1:
        state = barrier.phase << 20 | barrier.pending
        barrier.arrive(total)
        before = np.cumsum([0, *counts[:-1]]).tolist()
        return [state - b for b in before]
    return [one(count) for count in counts]


def _write_states(warp: WarpContext, lanes: int, states: list[int]) -> None:
    if isinstance(warp.op.operands[0], Unused):
        return
    if len(states) == 1 and lanes == warp.mask:
        warp.write(0, states[0], 64)
        return
    whole, mask = np.zeros(32, np.uint64), warp.mask
    whole[[lane for lane in range(32) if lanes >> lane & 1]] = states
    warp.mask = lanes
    warp.write(0, whole, 64)
    warp.mask = mask


def _arrive_once(warp: WarpContext) -> None:
    """The usual case: one arrival for each executing lane, and the state is not used."""
    for address, lanes in targets(warp, 1):
        barrier = mbarrier_at(warp, address)
        count = lanes.bit_count()
        if count <= barrier.pending:
            barrier.arrive(count)
        else:
            for _ in range(count):
                barrier.arrive()


@service(
    _ARRIVE,
    _DROP,
    only=_ALONE,
    fidelity="hardware",
    outputs=1,
    effects=lambda q: MbarrierArrive(order_of(q.sem or "release", q.scope)),
)
def arrive(warp: WarpContext) -> None:
    """Arrive, once for each executing lane, or ``count`` times."""
    drop = warp.op.opcode.startswith("mbarrier.arrive_drop")
    no_complete = "noComplete" in warp.op.opcode
    operands = warp.op.operands
    if isinstance(operands[0], Unused) and isinstance(operands[2], Unused) and not drop and not no_complete:
        _arrive_once(warp)
        return
    for address, lanes in targets(warp, 1):
        barrier = mbarrier_at(warp, address)
        counts = [_checked_count(c, "the count of the arrival") for c in _lane_counts(warp, 2, lanes)]
        if no_complete and sum(counts) >= barrier.pending:
            raise Misuse(
                "B505", f"an arrival with .noComplete of {sum(counts)} would complete the phase: {barrier.pending} arrivals are pending"
            )
        _write_states(warp, lanes, _arrive(barrier, counts, drop))


@service(
    _ARRIVE_EXPECT,
    _DROP_EXPECT,
    only=_ALONE,
    fidelity="hardware",
    outputs=1,
    effects=lambda q: MbarrierArrive(order_of(q.sem or "release", q.scope), expects=True),
)
def arrive_expect_tx(warp: WarpContext) -> None:
    """Expect transactions, then arrive."""
    drop = warp.op.opcode.startswith("mbarrier.arrive_drop")
    for address, lanes in targets(warp, 1):
        barrier = mbarrier_at(warp, address)
        states = []
        for amount in _lane_counts(warp, 2, lanes):
            barrier.expect_tx(_checked_count(amount, "the transaction count", 0))
            states += _arrive(barrier, [1], drop)
        _write_states(warp, lanes, states)


def _announces(q: Qualifiers) -> MbarrierTransactions:
    return MbarrierTransactions(order_of("relaxed", q.scope), completes=False)


def _completes(q: Qualifiers) -> MbarrierTransactions:
    return MbarrierTransactions(order_of("relaxed", q.scope), completes=True)


def _amounts(warp: WarpContext) -> Iterator[tuple[Mbarrier, int]]:
    """The barrier and the transaction count of each executing lane."""
    for address, lanes in targets(warp, 0):
        barrier = mbarrier_at(warp, address)
        for amount in _lane_counts(warp, 1, lanes):
            yield barrier, _checked_count(amount, "the transaction count", 0)


@service(transactions("expect_tx"), only=_ALONE, fidelity="hardware", outputs=0, effects=_announces)
def expect_tx(warp: WarpContext) -> None:
    """Increase the transaction count."""
    for barrier, amount in _amounts(warp):
        barrier.expect_tx(amount)


@service(transactions("complete_tx"), only=_ALONE, fidelity="hardware", outputs=0, effects=_completes)
def complete_tx(warp: WarpContext) -> None:
    """Decrease the transaction count."""
    for barrier, amount in _amounts(warp):
        barrier.complete_tx(amount)


@service(PENDING_COUNT, only={"layout": None}, fidelity="hardware", outputs=1, effects=LOCAL)
def pending_count(warp: WarpContext) -> None:
    """Extract the number of pending arrivals from an opaque state."""
    warp.write(0, (warp.values(1, 64) & np.uint64(_MOST)).astype(np.uint32))


class _ByParity:
    """The condition of a wait by phase parity, and its description."""

    @staticmethod
    def done(barrier: Any, operand: int) -> bool:
        done: bool = barrier.completed(operand & 1)
        return done

    @staticmethod
    def text(barrier: Any, operand: int) -> str:
        return f"waits for the phase of parity {operand & 1} to complete"


class _ByState:
    """The condition of a wait by opaque state, and its description."""

    @staticmethod
    def done(barrier: Any, operand: int) -> bool:
        done: bool = barrier.passed(operand)
        return done

    @staticmethod
    def text(barrier: Any, operand: int) -> str:
        return f"waits for phase {operand >> 20} to complete"


class _Complete(Wait):
    """Wait until the condition of a try_wait holds; then the instruction runs again."""

    __slots__ = ("_how", "_operand")

    def __init__(self, barrier: Any, operand: int, how: Any) -> None:
        self.on, self.retry, self.expires = barrier, True, True
        self._operand, self._how = operand, how

    def ready(self) -> bool:
        return bool(self._how.done(self.on, self._operand))

    def describe(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self._how.text(self.on, self._operand), self.on.facts()


def _each_lane(warp: WarpContext, how: Any, bits: int) -> bool:
    """Test for each lane separately, because lanes differ in mbarrier or phase; True if the condition holds in all of them."""
    done = np.zeros(32, bool)
    addresses, operands = warp.addresses(1), warp.values(2, bits)
    lanes = warp.lanes()
    for lane in lanes.tolist():
        barrier: Mbarrier = mbarrier_at(warp, int(addresses[lane]))
        done[lane] = how.done(barrier, int(operands[lane]))
        if done[lane]:
            barrier.observed()
    warp.write(0, done, 1)
    return bool(done[lanes].all())


def _try_wait(warp: WarpContext, how: Any, bits: int) -> Wait | None:
    address, operand = warp.common_address(1), warp.common(2, bits)
    if address is None or operand is None:
        if not _each_lane(warp, how, bits):
            warp.spin()
        return None
    barrier: Mbarrier = mbarrier_at(warp, address)
    if how.done(barrier, operand):
        barrier.observed()
        warp.write(0, 1, 1)
        return None
    if warp.expired:
        warp.write(0, 0, 1)
        return None
    return _Complete(barrier, operand, how)


def _test_wait(warp: WarpContext, how: Any, bits: int) -> None:
    address, operand = warp.common_address(1), warp.common(2, bits)
    if address is None or operand is None:
        done = _each_lane(warp, how, bits)
    else:
        barrier: Mbarrier = mbarrier_at(warp, address)
        done = how.done(barrier, operand)
        if done:
            barrier.observed()
        warp.write(0, int(done), 1)
    if not done:
        warp.spin()


def _by_parity(q: Qualifiers) -> MbarrierWait:
    return MbarrierWait(order_of(q.sem or "acquire", q.scope), parity=True)


def _by_state(q: Qualifiers) -> MbarrierWait:
    return MbarrierWait(order_of(q.sem or "acquire", q.scope), parity=False)


@service(wait("try_wait", parity=True), only=_ANY_PHASE, fidelity="hardware", outputs=1, effects=_by_parity)
def try_wait_parity(warp: WarpContext) -> Wait | None:
    """Wait until the phase of a parity has completed."""
    return _try_wait(warp, _ByParity, 32)


@service(wait("try_wait", parity=False), only=_ANY_PHASE, fidelity="hardware", outputs=1, effects=_by_state)
def try_wait(warp: WarpContext) -> Wait | None:
    """Wait until the phase of an arrival has completed."""
    return _try_wait(warp, _ByState, 64)


@service(wait("test_wait", parity=True), only=_ANY_PHASE, fidelity="hardware", outputs=1, effects=_by_parity)
def test_wait_parity(warp: WarpContext) -> None:
    """Test whether the phase of a parity has completed."""
    _test_wait(warp, _ByParity, 32)


@service(wait("test_wait", parity=False), only=_ANY_PHASE, fidelity="hardware", outputs=1, effects=_by_state)
def test_wait(warp: WarpContext) -> None:
    """Test whether the phase of an arrival has completed."""
    _test_wait(warp, _ByState, 64)
