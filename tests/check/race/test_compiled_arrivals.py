"""Arrivals and commits that compiled code completes: their clocks, and what is reported, are those of the handlers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.check.operands._observer import OperandCheck
from ptxlab.check.race import _barriers, _operations
from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.check.race.clocks.mbarrier_clock import MbarrierClock, MbarrierWord, Use
from ptxlab.machine.warp import context_words
from tests.machine import direct_steps_helpers as lists
from tests.sweep_helpers import spread

from . import gemm_kernels
from .small_kernels import launch
from .test_compiled_waits import KERNELS, calls_of

SHARED = f"[mb+{8 * lists.BARRIERS}]"
ACCESSES = {
    "write": f"st.shared.u32 {SHARED}, amount;",
    "read": f"ld.shared.u32 amount, {SHARED};",
    "relaxed": "mbarrier.arrive.relaxed.cta.shared::cta.b64 state, [bar];",
}


def both_ways(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, name: str = "_permit_arrivals") -> Any:
    """What ``run`` returns, which is the same if the handlers of all arrivals are called, and so are all clocks and tiles at the end.

    ``name`` is that of a function of warps without which compiled code does something else not, either.
    """
    found = []
    for way in (getattr(context_words, name), lambda launch: 0):
        made: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr(context_words, name, way)
            for kind in (Clocks, MbarrierClock):
                patch.setattr(kind, "__init__", _noting(kind.__init__, made))
            tiles: list[Any] = []
            patch.setattr(OperandCheck, "ended", _noting_tiles(OperandCheck.ended, tiles))
            outcome = run()
        found.append((outcome, [_state(each) for each in made], tiles))
    assert found[0] == found[1]
    return found[0][0]


def _noting_tiles(original: Callable[..., None], noted: list[Any]) -> Callable[..., None]:
    """Note the tiles that the operand check knows of a CTA when it ends."""

    def ended(self: Any, cta: Any) -> None:
        placed = sorted(self._memory[id(cta)].shared.placed.items())
        noted.append(
            [(at, held.end, held.number, held.op.index, held.tile.coordinates, held.tile.contents().tobytes()) for at, held in placed]
        )
        original(self, cta)

    return ended


def _noting(original: Callable[..., None], made: list[Any]) -> Callable[..., None]:
    def init(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(self)

    return init


def _state(made: Any) -> Any:
    if isinstance(made, Clocks):
        return made.rows.tolist(), [{what: slot.clock for what, slot in agent.slots.items()} for agent in made.agents]
    uses = [[_use(use) for use in uses] for uses in ([made.init], made.arrivals(), made.waits())]
    gathered = made.gathered.tolist() if made.words[MbarrierWord.TAKEN] else None
    return uses, made.done.tolist(), gathered, sorted(made.foreign)


def _use(use: Use) -> tuple[int, int, int, int]:
    return use.agent.index, use.slot, use.clock, use.op.index


def outcome(result: Any, *others: Any) -> Any:
    return [repr(each) for each in result.diagnostics], result.stats.services, result.stats.instructions, *others


# ------------------------------------------------------------------------------------------------------------ random kernels


@cache
def kernel_of(group: int) -> ptxlab.Kernel:
    """A kernel that executes lists of arrivals, or of commits of a .cta_group."""
    if not group:
        return lists.interpreter(lists.ARRIVALS | lists.OTHERS | ACCESSES)
    own = lists.interpreter
    steps = lists.commits(group) | ACCESSES
    before = f"""
    mov.u32 slot, mb; add.u32 slot, slot, {8 * lists.BARRIERS};
    setp.lt.u32 q, tid, 32;
    @q tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 32;
    bar.sync 0;
    ld.shared.u32 ta, [slot];
    """
    return own(steps, before, f"setp.lt.u32 q, tid, 32;\n@q tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 ta, 32;")


def steps_of(group: int) -> Callable[[Random, int, float], list[lists.Step]]:
    first = len(lists.COMMITS if group else lists.STEPS)
    others = lists.commit_steps if group else lists.arrival_steps

    def steps(choice: Random, own: int, bold: float) -> list[lists.Step]:
        found = others(choice, own, bold)
        for at in range(len(found)):
            if choice.random() < 0.15:
                kind = choice.randrange(first, first + len(ACCESSES))
                found[at] = kind, own << 24 | 8 * choice.randrange(lists.BARRIERS), 1, 1, 0
        return found

    return steps


def run_lists(group: int, steps: list[list[lists.Step]], expected: int, meets: bool, **options: Any) -> Any:
    table, length = np.zeros((4, lists.MOST, 5), np.uint32), max(map(len, steps))
    for number, each in enumerate(steps):
        table[number, : len(each)] = np.array(each, np.uint32).reshape(-1, 5)
    out = np.zeros((128, lists.MOST + 1), np.uint64)
    result = kernel_of(group).launch(grid=2, block=64, cluster=2, args=[out, table, length, expected, int(meets)], **options)
    return outcome(result, out.tolist())


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((0, 0, 1, 2)),
    st.integers(0, 1 << 32),
    st.sampled_from((1, 1, 2, 4, 32)),
    st.booleans(),
    st.sampled_from(("eager", "eager", "eager", "lazy", "random")),
    st.sampled_from(("race", "race", "all", "all", ("race", "barrier"))),
    st.sampled_from(("practice", "practice", "practice", "spec")),
)
def test_arrivals_in_any_order(group: int, seed: int, expected: int, meets: bool, policy: str, check: Any, model: str) -> None:
    steps = lists.lists_of(steps_of(group), seed)
    with pytest.MonkeyPatch.context() as patch:
        both_ways(lambda: run_lists(group, steps, expected, meets, policy=policy, check=check, model=model), patch)


# ------------------------------------------------------------------------------------------------------------------- pipelines

REFILLED = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 24576;\n"
FREED = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13];\n"
LAST = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r19];\n"
FIRST = "    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd10, %rd11, %r17, %p6;\n"
COPIED = "    @%p5 bra COPY;\n"
SECOND = "[%r16], [%rd2, {%r17, %r18}], [%r12];\n"
ARRIVE = "    mbarrier.arrive.shared::cta.b64 _, [%r12];\n"
ANNOUNCE = REFILLED.replace("arrive.expect_tx.", "expect_tx.relaxed.cta.").replace("_, ", "")
INVALIDATE = "".join(f"    @%p2 mbarrier.inval.shared::cta.b64 [{name}];\n" for name in ("empty", "full"))
AGAIN = "    mbarrier.inval.shared::cta.b64 [done];\n    mbarrier.init.shared::cta.b64 [done], 1;\n"
STORED = "    @%p1 cp.async.bulk.commit_group;\n"
CHANGES: dict[str, list[tuple[str, str]]] = {
    "correct": [],
    "announced before": [(REFILLED, ANNOUNCE), (SECOND, SECOND + ARRIVE)],
    "relaxed": [(REFILLED, REFILLED.replace("expect_tx", "expect_tx.relaxed.cta"))],
    "initialised again": [(LAST, AGAIN + LAST)],
    "invalidated": [(STORED, STORED + INVALIDATE)],
    "no arrival": [(FREED, "")],
    "no announcement": [(REFILLED, ARRIVE)],
    "another announcement": [(REFILLED, REFILLED.replace("24576", "24000"))],
    "another count": [("[full], 1;", "[full], 2;")],
    "twice": [(FREED, FREED + FREED)],
    "too early": [(FREED, ""), (FIRST, FREED + FIRST)],
    "another thread": [(LAST, ""), (COPIED, COPIED + "    mov.u32 %r19, done;\n" + LAST)],
    "not initialised in order": [("    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n    ld.shared", "    ld.shared")],
    "not awaited": [("    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r13], %r14;\n    @!%p4 bra WAIT_EMPTY;\n", "")],
}
RIGHT = {"correct", "announced before", "relaxed", "initialised again", "invalidated"}
"""Those that compute the product in any schedule; of the others something is reported."""


OPTIONS: list[dict[str, Any]] = [{}, {"check": "race"}, {"model": "spec"}, {"policy": "lazy"}, {"policy": "random", "seed": 3}]


@pytest.mark.parametrize(("name", "options"), spread(2, CHANGES, OPTIONS), ids=str)
def test_a_pipeline(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_kernels, "STEPS", 10)
    text = gemm_kernels.TEXT
    for old, new in CHANGES[name]:
        assert text.count(old) == 1
        text = text.replace(old, new)

    def run() -> Any:
        result, is_right = gemm_kernels.launch(text, **({"max_instructions": 100_000} | options))
        return outcome(result, is_right)

    diagnostics, *_, is_right = both_ways(run, monkeypatch)
    assert is_right or name not in RIGHT
    assert diagnostics or name in RIGHT
    assert name != "correct" or not diagnostics


@pytest.mark.parametrize("check", ["race", "all"])
def test_python_handles_no_arrivals_of_warps_that_use_an_object_after_its_initialisation(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(monkeypatch, _barriers.Barriers, "performed")
    body, options = KERNELS["passed"]
    result = launch(body, check=check, **options)
    assert outcome(result)[0] == []
    assert sum(n for opcode, n in result.stats.services.items() if "mbarrier.arrive" in opcode) == 18
    assert not calls


UNORDERED = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 192;
setp.lt.u32 %p3, %r1, 32;
@!%p3 mbarrier.{first};
mbarrier.arrive.shared::cta.b64 _, [%r7];
mbarrier.arrive.shared::cta.b64 _, [%r7];
"""


@pytest.mark.parametrize(
    ("first", "handled"), [("arrive.shared::cta.b64 _, [%r7]", 1), ("expect_tx.relaxed.cta.shared::cta.b64 [%r7], 0", 2)]
)
def test_python_handles_the_first_uses_of_a_warp_that_the_initialisation_is_not_ordered_before(
    first: str, handled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An announcement alone, too, and the arrival after it."""
    body = UNORDERED.format(first=first)
    (found,), *_ = both_ways(lambda: outcome(launch(body, block=64, check="race")), monkeypatch)
    assert "X120" in found
    calls = calls_of(monkeypatch, _barriers.Barriers, "performed")
    launch(body, block=64, check="race")
    assert len(calls) == handled


INVALIDATED = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 96;
bar.sync 0;
mov.u32 %r3, %warpid;
setp.eq.u32 %p2, %r3, 0;
setp.eq.u32 %p3, %r3, {other};
or.pred %p2, %p2, %p3;
@%p2 mbarrier.arrive.shared::cta.b64 _, [%r7];
setp.eq.u32 %p4, %r1, 64;
@%p4 mbarrier.inval.shared::cta.b64 [%r7];
"""
"""Two warps arrive, and then a third one invalidates the object. The last warp continues first after the barrier."""


@pytest.mark.parametrize(("other", "first"), [(1, 0), (3, 3)])
def test_of_arrivals_that_an_invalidation_does_not_follow_the_first_one_is_reported(
    other: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,), *_ = both_ways(lambda: outcome(launch(INVALIDATED.format(other=other), block=128, check="race")), monkeypatch)
    assert "X101" in found
    assert f"('earlier', 'warp {first} of CTA (0, 0, 0)')" in found


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("name", ["commit", "many"])
def test_python_handles_the_first_commit_of_each_thread(group: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, _operations.Operations, "_committed")
    made = [lists.committed("issue", lanes=2), *[lists.committed(name, amount=3, lanes=2)] * 10, lists.committed("wait", amount=0, lanes=2)]
    texts, services, *_ = run_lists(group, [made, [], [], []], 10, meets=True, check="race")
    assert texts == []
    assert sum(n for opcode, n in services.items() if "commit" in opcode) == 10
    assert len(calls) == 1


ANOTHER_CLUSTER = """
mov.u32 %r10, %ctaid.x;
setp.eq.u32 %p5, %r10, 1;
setp.eq.u32 %p3, %r1, 32;
mov.u32 %r5, 7;
@%p5 bra RECEIVE;
@%p1 st.global.u32 [%rd1], %r5;
@%p1 st.release.gpu.global.u32 [%rd1+256], %r5;
bra DONE;
RECEIVE:
@%p1 mbarrier.init.shared::cta.b64 [%r7], 2;
setp.eq.u32 %p7, %r1, 64;
or.pred %p7, %p7, %p1;
mov.u32 %r3, 0;
AGAIN:
bar.sync 0;
setp.ne.u32 %p4, %r3, 6;
setp.lt.u32 %p6, %r1, 64;
or.pred %p6, %p4, %p6;
@%p6 bra ARRIVE;
FLAG:
{acquire}.global.u32 %r6, [%rd1+256];
setp.ne.u32 %p2, %r6, 7;
@%p2 bra FLAG;
ARRIVE:
@%p7 mbarrier.arrive.shared::cta.b64 _, [%r7];
and.b32 %r4, %r3, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r4;
@!%p2 bra FULL;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 7;
@%p4 bra AGAIN;
@%p3 ld.global.u32 %r6, [%rd1];
@%p3 st.global.u32 [%rd1+512], %r6;
DONE:
"""
"""The third warp of the second CTA acquires what the first CTA has released, and arrives. The first one arrives last, the second reads."""


@pytest.mark.parametrize(("acquire", "count"), [("ld.acquire.gpu", 0), ("ld.relaxed.gpu", 1)])
def test_what_another_cluster_has_released(acquire: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnostics, *_ = both_ways(
        lambda: outcome(launch(ANOTHER_CLUSTER.format(acquire=acquire), grid=2, block=96, check="race")), monkeypatch
    )
    assert len(diagnostics) == count


UNANNOUNCED = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
fence.proxy.async.shared::cta;
@!%p1 bra DONE;
mbarrier.arrive.shared::cta.b64 _, [%r7];
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 64, [%r7];
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
ld.shared.u32 %r3, [%r2];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 48;
DONE:
"""


def test_bytes_that_are_announced_after_an_access(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report about the access says how many were missing then."""
    diagnostics, *_ = both_ways(lambda: outcome(launch(UNANNOUNCED, block=32, check="race")), monkeypatch)
    (found,) = (text for text in diagnostics if "X103" in text)
    assert "64 bytes" in found


LOADED = """
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
ld.shared.u32 %r8, [slot];
@%p1 mbarrier.init.shared::cta.b64 [%r7], 32;
bar.sync 0;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r1};
tcgen05.wait::st.sync.aligned;
mov.u32 %r3, 0;
AGAIN:
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r8];
add.u32 %r5, %r4, %r4;
mbarrier.arrive.shared::cta.b64 _, [%r7];
add.u32 %r3, %r3, 1;
setp.lt.u32 %p4, %r3, 4;
@%p4 bra AGAIN;
tcgen05.wait::ld.sync.aligned;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;
"""


def test_an_arrival_after_the_registers_of_a_load_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is known to be complete in the tensor core, which the arrival releases, too."""
    both_ways(lambda: outcome(launch(LOADED, block=32, check="race")), monkeypatch)
