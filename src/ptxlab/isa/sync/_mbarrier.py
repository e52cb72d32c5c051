"""mbarrier: the objects that the executing lanes address, initialisation, arrivals, transactions, waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.isa.catalogue import Qualifiers, service
from ptxlab.isa.context import Cta, Mbarrier, Misuse, Wait, WarpContext
from ptxlab.isa.effects import LOCAL, MbarrierArrive, MbarrierInit, MbarrierInval, MbarrierTransactions, MbarrierWait, order_of
from ptxlab.isa.operands import Op, Unused
from ptxlab.isa.sync._mbarrier_syntax import INIT, INVAL, PENDING_COUNT, arrivals, transactions, wait

__all__ = ["mbarrier_at", "missing_mbarrier", "phase_wait", "targets"]

RANK_SHIFT = 24
_OFFSET = (1 << RANK_SHIFT) - 1


def missing_mbarrier(offset: int, size: int, *, overwritten: bool, invalidated: Op | None, rank: int, alone: bool) -> Misuse:
    """The error for an address without a valid mbarrier object, with the reason."""
    where = f"shared offset {offset:#x} of CTA rank {rank}"
    barrier = "a barrier" if alone else "a barrier (barrier.cluster, if another CTA uses it)"
    if offset & 7:
        return Misuse("B501", f"an mbarrier object must be aligned to 8 bytes, {where} is not")
    if offset + 8 > size:
        return Misuse("B502", f"{where} lies outside shared memory ({size} bytes)")
    if overwritten:
        return Misuse(
            "B515",
            f"the mbarrier object at {where} was overwritten by an ordinary store or a copy",
            fix=f"synchronise the threads that use it with {barrier} before the memory is used for something else, and use mbarrier.inval "
            "there",
        )
    if invalidated is not None:
        return Misuse(
            "B514",
            f"the mbarrier object at {where} was invalidated",
            fix=f"synchronise the threads that use it with {barrier} before mbarrier.inval at line {invalidated.line}, or initialise it "
            "again",
        )
    return Misuse(
        "B503",
        f"there is no mbarrier object at {where}: it was never initialised",
        fix=f"execute mbarrier.init, and {barrier}, before the first use",
    )


def locate(warp: WarpContext, address: int) -> tuple[Cta, int]:
    """The CTA and offset of an address, checked against the instruction's state space."""
    cta, offset = warp.machine.shared_at(warp, address)
    if cta is not warp.cta and "shared::cluster" not in warp.op.opcode:
        raise Misuse(
            "B502",
            f"the address {address:#x} is in the shared memory of CTA rank {cta.rank}, but {warp.op.opcode} reaches only that "
            "of its own CTA",
            fix="only arrive, expect_tx and complete_tx with .shared::cluster work on another CTA's mbarrier",
        )
    if offset & 7:
        raise Misuse("B501", f"an mbarrier object must be aligned to 8 bytes, shared offset {offset:#x} is not")
    if offset < SHARED_RESERVED or offset + 8 > len(cta.shared):
        raise Misuse("B502", f"shared offset {offset:#x} lies outside shared memory ({len(cta.shared)} bytes)")
    return cta, offset


def mbarrier_at(warp: WarpContext, address: int) -> Mbarrier:
    """The mbarrier object at an address."""
    cta = warp.cta
    if address >> RANK_SHIFT == cta.rank:
        return cta.mbarrier(warp, address & _OFFSET)
    cta, offset = locate(warp, address)
    return cta.mbarrier(warp, offset)


def targets(warp: WarpContext, position: int) -> Iterable[tuple[int, int]]:
    """The distinct addresses of the executing lanes, in lane order, each with the mask of its lanes."""
    address = warp.common_address(position)
    if address is not None:
        return ((address, warp.mask),)
    found: dict[int, int] = {}
    values = warp.addresses(position)
    for lane in warp.lanes().tolist():
        at = int(values[lane])
        found[at] = found.get(at, 0) | 1 << lane
    return found.items()


_ARRIVE, _ARRIVE_EXPECT = arrivals("arrive")
_DROP, _DROP_EXPECT = arrivals("arrive_drop")
_ALONE = {"multicast": None}
_ANY_PHASE = {"phase": None}
_MOST = (1 << 20) - 1


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


def _arrival(q: Qualifiers, expects: bool = False, drops: bool = False) -> MbarrierArrive:
    return MbarrierArrive(order_of(q.sem or "release", q.scope), expects, drops)


@service(_ARRIVE, only=_ALONE, fidelity="hardware", outputs=1, effects=_arrival)
@service(_DROP, only=_ALONE, fidelity="hardware", outputs=1, effects=partial(_arrival, drops=True))
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


@service(_ARRIVE_EXPECT, only=_ALONE, fidelity="hardware", outputs=1, effects=partial(_arrival, expects=True))
@service(_DROP_EXPECT, only=_ALONE, fidelity="hardware", outputs=1, effects=partial(_arrival, expects=True, drops=True))
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


def _transactions(q: Qualifiers, completes: bool) -> MbarrierTransactions:
    return MbarrierTransactions(order_of("relaxed", q.scope), completes)


def _amounts(warp: WarpContext) -> Iterator[tuple[Mbarrier, int]]:
    """The barrier and the transaction count of each executing lane."""
    for address, lanes in targets(warp, 0):
        barrier = mbarrier_at(warp, address)
        for amount in _lane_counts(warp, 1, lanes):
            yield barrier, _checked_count(amount, "the transaction count", 0)


@service(transactions("expect_tx"), only=_ALONE, fidelity="hardware", outputs=0, effects=partial(_transactions, completes=False))
def expect_tx(warp: WarpContext) -> None:
    """Increase the transaction count."""
    for barrier, amount in _amounts(warp):
        barrier.expect_tx(amount)


@service(transactions("complete_tx"), only=_ALONE, fidelity="hardware", outputs=0, effects=partial(_transactions, completes=True))
def complete_tx(warp: WarpContext) -> None:
    """Decrease the transaction count."""
    for barrier, amount in _amounts(warp):
        barrier.complete_tx(amount)


@service(PENDING_COUNT, only={"layout": None}, fidelity="hardware", outputs=1, effects=LOCAL)
def pending_count(warp: WarpContext) -> None:
    """Extract the number of pending arrivals from an opaque state."""
    warp.write(0, (warp.values(1, 64) & np.uint64(_MOST)).astype(np.uint32))


class _Complete(Wait):
    """Wait until the condition of a try_wait holds; then the instruction runs again."""

    __slots__ = ("_parity", "operand")

    def __init__(self, barrier: Any, operand: int, parity: bool) -> None:
        self.on, self.retry, self.expires = barrier, True, True
        self.operand: int = operand
        self._parity = parity
        barrier.awaited()

    def ready(self) -> bool:
        done: bool = self.on.completed(self.operand) if self._parity else self.on.passed(self.operand)
        return done

    def describe(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        phase = f"the phase of parity {self.operand & 1}" if self._parity else f"phase {self.operand >> 20}"
        return f"waits for {phase} to complete", self.on.facts()


def _each_lane(warp: WarpContext, parity: bool) -> bool:
    """Test for each lane separately, because lanes differ in mbarrier or phase; True if the condition holds in all of them."""
    done = np.zeros(32, bool)
    addresses, operands = warp.addresses(1), warp.values(2, 32 if parity else 64)
    lanes = warp.lanes()
    for lane in lanes.tolist():
        barrier = mbarrier_at(warp, int(addresses[lane]))
        operand = int(operands[lane])
        done[lane] = barrier.completed(operand) if parity else barrier.passed(operand)
        if done[lane]:
            barrier.observed()
    warp.write(0, done, 1)
    return bool(done[lanes].all())


def _try_wait(warp: WarpContext, parity: bool) -> Wait | None:
    """Wait until the phase of a parity, or of an arrival, has completed."""
    waited = warp.retried
    if isinstance(waited, _Complete):
        operand = waited.operand
        barrier = warp.cta.mbarrier(warp, waited.on.offset)
    else:
        address, common = warp.common_address(1), warp.common(2, 32 if parity else 64)
        if address is None or common is None:
            if not _each_lane(warp, parity):
                warp.spin()
            return None
        operand, barrier = common, mbarrier_at(warp, address)
    if barrier.completed(operand) if parity else barrier.passed(operand):
        barrier.observed()
        warp.write(0, 1, 1)
        return None
    if warp.expired:
        warp.write(0, 0, 1)
        return None
    return _Complete(barrier, operand, parity)


def _test_wait(warp: WarpContext, parity: bool) -> None:
    """Test whether the phase of a parity, or of an arrival, has completed."""
    address, operand = warp.common_address(1), warp.common(2, 32 if parity else 64)
    if address is None or operand is None:
        done = _each_lane(warp, parity)
    else:
        barrier = mbarrier_at(warp, address)
        done = barrier.completed(operand) if parity else barrier.passed(operand)
        if done:
            barrier.observed()
        warp.write(0, int(done), 1)
    if not done:
        warp.spin()


def phase_wait(barrier: Mbarrier, phase: int, op: Op) -> Wait:
    """What lanes wait for in an instruction that waits for a phase, as it names the phase."""
    effects = op.effects
    assert isinstance(effects, MbarrierWait)
    return _Complete(barrier, phase & (1 << 32 if effects.parity else 1 << 64) - 1, effects.parity)


def _waits(q: Qualifiers, parity: bool, blocks: bool) -> MbarrierWait:
    return MbarrierWait(order_of(q.sem or "acquire", q.scope), parity, blocks)


for _name, _semantics in (("try_wait", _try_wait), ("test_wait", _test_wait)):
    for _parity in (True, False):
        _effects = partial(_waits, parity=_parity, blocks=_semantics is _try_wait)
        _declare = service(wait(_name, _parity), only=_ANY_PHASE, fidelity="hardware", outputs=1, effects=_effects)
        _declare(partial(_semantics, parity=_parity))
