"""The sixteen barriers of a CTA (bar, barrier), and the barrier of a cluster."""

from __future__ import annotations

from typing import Any

from ptxlab.isa.catalogue import service
from ptxlab.isa.context import Cta, Misuse, Wait, WarpContext
from ptxlab.isa.effects import ClusterArrive, ClusterWait, CtaBarrier, order_of
from ptxlab.isa.kinds import Typed
from ptxlab.isa.operands import Const, Unused
from ptxlab.isa.requirements import needs

_SECTION = "Parallel Synchronization and Communication Instructions: bar, barrier"
_CLUSTER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
_CTA_NEEDS = needs("7.8", when={"mode": "cta"})
_NEEDS = (
    needs("7.8", "sm_90", what="barrier.cluster"),
    needs("8.0", when={"sem": "release|relaxed"}),
    needs("8.0", when={"acquire": "acquire"}),
)
_NUMBER = Typed("u32", range(16))
_THREADS = range(0, 1 << 31, 32)


def _arrive_at(
    warp: WarpContext, number: int, count: int, contribution: list[int] | None = None, blocked: WarpContext | None = None
) -> tuple[Any, int, bool]:
    """Arrive at a barrier; ``number`` and ``count`` are operand positions (count -1: all threads).

    ``blocked`` is the warp if the instruction does no more than to wait until the barrier is complete.
    Returns the barrier, its generation before the arrival, and whether the arrival completed it.
    """
    operands = warp.op.operands
    operand = operands[number]
    identifier = operand.value & 0xFFFF_FFFF if type(operand) is Const else warp.uniform(number)
    if identifier > 15:
        raise Misuse("B507", f"barrier {identifier}: a CTA has the barriers 0 to 15")
    cta = warp.cta
    barrier = cta.named[identifier]
    threads = warp.mask.bit_count()
    if count < 0 or type(operands[count]) is Unused:
        stated, needed = None, cta.live_threads
    else:
        stated = needed = warp.uniform(count)
        if stated % 32 or not 0 < stated <= 1024:
            raise Misuse("B508", f"barrier {identifier} is given a count of {stated} threads; it must be a multiple of 32 from 32 to 1024")
        if warp.op.aligned:
            threads = 32
    generation = barrier.generation
    if contribution is not None:
        _accumulate(barrier, contribution)
    return barrier, generation, barrier.arrive(threads, needed, stated, blocked)


def _accumulate(barrier: Any, contribution: list[int]) -> None:
    held = barrier.accumulator
    if held:
        held[0] += contribution[0]
        held[1] &= contribution[1]
        held[2] |= contribution[2]
    else:
        barrier.accumulator = contribution


class _BarrierWait(Wait):
    """Wait until a barrier leaves this generation."""

    __slots__ = ("_cta", "_generation")
    retry = expires = False

    def __init__(self, barrier: Any, generation: int, cta: Cta) -> None:
        self.on = barrier
        self._generation = generation
        self._cta = cta

    def ready(self) -> bool:
        return bool(self.on.generation != self._generation)

    def describe(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        barrier = self.on
        needed = self._cta.live_threads if barrier.expected is None else barrier.expected
        return f"waits at barrier {barrier.id}", (("arrived", f"{barrier.arrived} of {needed} threads"),)


class _ReductionWait(_BarrierWait):
    """Wait for the result of a reduction, which the instruction reads when it runs again."""

    __slots__ = ()
    retry = True


@service(
    "bar{.mode=cta}.sync",
    "barrier{.mode=cta}.sync{.aligned}",
    requires=_CTA_NEEDS,
    ordered=False,
    section=_SECTION,
    fidelity="hardware",
    outputs=0,
    effects=CtaBarrier(),
    a=_NUMBER,
    b=Typed("?u32", _THREADS),
)
def sync(warp: WarpContext) -> Wait | None:
    """Arrive and wait for the other threads."""
    barrier, generation, done = _arrive_at(warp, 0, 1, blocked=warp)
    if done:
        return None
    wait: Wait | None = barrier.wait
    if wait is None:
        wait = barrier.wait = _BarrierWait(barrier, generation, warp.cta)
    return wait


@service(
    "bar{.mode=cta}.arrive",
    "barrier{.mode=cta}.arrive{.aligned}",
    requires=_CTA_NEEDS,
    ordered=False,
    section=_SECTION,
    fidelity="hardware",
    outputs=0,
    effects=CtaBarrier(waits=False),
    a=_NUMBER,
    b=Typed("u32", _THREADS),
)
def arrive(warp: WarpContext) -> None:
    """Arrive and continue without waiting."""
    _arrive_at(warp, 0, 1)


_POPC = ("bar{.mode=cta}.red.(op=popc).u32", "barrier{.mode=cta}.red.(op=popc){.aligned}.u32")
_LOGIC = ("bar{.mode=cta}.red.(op=and|or).pred", "barrier{.mode=cta}.red.(op=and|or){.aligned}.pred")
_REDUCTION: dict[str, Any] = {
    "requires": _CTA_NEEDS,
    "ordered": False,
    "section": _SECTION,
    "fidelity": "hardware",
    "outputs": 1,
    "effects": CtaBarrier(reduces=True),
}


@service(*_POPC, **_REDUCTION, d="u32", a=_NUMBER, c="pred")
@service(*_LOGIC, **_REDUCTION, d="pred", a=_NUMBER, c="pred")
@service(*_POPC, **_REDUCTION, d="u32", a=_NUMBER, b=Typed("u32", _THREADS), c="pred")
@service(*_LOGIC, **_REDUCTION, d="pred", a=_NUMBER, b=Typed("u32", _THREADS), c="pred")
def reduce(warp: WarpContext) -> Wait | None:
    """Arrive, wait, and reduce a predicate over all threads of the CTA, or over ``b`` threads."""
    key = ("bar.red", warp.op.index, warp.mask)
    if warp.retried is not None:
        barrier, generation = warp.state.pop(key)
        done = True
    else:
        predicate = len(warp.op.operands) - 1
        values = warp.values(predicate, 1)[warp.lanes()]
        contribution = [int(values.sum()), int(values.all()), int(values.any())]
        barrier, generation, done = _arrive_at(warp, 1, 2 if predicate == 3 else -1, contribution)
    if done:
        popc, every, some = barrier.result[generation]
        if warp.q.op == "popc":
            warp.write(0, popc)
        else:
            warp.write(0, every if warp.q.op == "and" else some, 1)
        return None
    warp.state[key] = barrier, generation
    return _ReductionWait(barrier, generation, warp.cta)


@service(
    "barrier.cluster.arrive{.sem=release|relaxed}{.aligned}",
    section=_CLUSTER,
    requires=_NEEDS,
    fidelity="hardware",
    outputs=0,
    effects=lambda q: ClusterArrive(order_of(q.sem or "release", "cluster")),
)
def cluster_arrive(warp: WarpContext) -> None:
    """Arrive at the cluster barrier."""
    barrier = warp.cta.group.barrier
    even, odd = barrier.lanes_of(warp)
    if warp.mask & (even | odd):
        raise Misuse(
            "B511",
            "barrier.cluster.arrive, but these threads have not yet waited for their last arrival",
            fix="execute barrier.cluster.wait in between",
        )
    barrier.arrive(warp)


@service(
    "barrier.cluster.wait{.acquire}{.aligned}", section=_CLUSTER, requires=_NEEDS, fidelity="hardware", outputs=0, effects=ClusterWait()
)
def cluster_wait(warp: WarpContext) -> Wait | None:
    """Wait until all threads of the cluster have arrived."""
    barrier = warp.cta.group.barrier
    arrived = barrier.lanes_of(warp)
    if warp.mask & ~(arrived[0] | arrived[1]):
        raise Misuse("B512", "barrier.cluster.wait, but these threads have not arrived", fix="execute barrier.cluster.arrive before")
    if warp.mask & arrived[barrier.phase & 1]:
        barrier.awaited()
        return cluster_wait_of(barrier)
    barrier.leave(warp)
    return None


def cluster_wait_of(barrier: Any) -> Wait:
    """Wait for the current phase of the barrier of a cluster; then the instruction runs again."""
    phase = barrier.phase

    def describe() -> tuple[str, tuple[tuple[str, str], ...]]:
        return "waits at the cluster barrier", (("arrived", f"{barrier.arrived} of {barrier.expected} threads"),)

    return Wait(lambda: barrier.phase != phase, describe, retry=True, on=barrier)
