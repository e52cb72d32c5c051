"""Arrivals, expectations and commits that compiled code completes: the same as by their handlers, in whatever order they come.

Two kernels execute lists of steps that random tests make, so each is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.machine.schedule.barriers import MbarrierState
from ptxlab.machine.warp import context_words
from tests.machine.launch_helpers import kernel, run

BARRIERS, MOST = 3, 24
"""The mbarriers of a CTA, and the steps of a warp."""
MBARRIERS = f".shared .align 8 .b64 mb[{BARRIERS + 1}];"

ARRIVALS = {
    "arrive": "mbarrier.arrive.shared::cta.b64 state, [bar];",
    "arrive without a state": "mbarrier.arrive.shared::cta.b64 _, [bar];",
    "several arrivals": "mbarrier.arrive.shared::cta.b64 state, [bar], amount;",
    "arrive and expect": "mbarrier.arrive.expect_tx.shared::cta.b64 state, [bar], amount;",
    "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], amount;",
    "anywhere": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar];",
    "several anywhere": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar], amount;",
    "arrive and expect anywhere": "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [bar], amount;",
    "expect anywhere": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
}
OTHERS = {
    "complete": "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], amount;",
    "drop": "mbarrier.arrive_drop.shared::cta.b64 state, [bar];",
    "no completion": "mbarrier.arrive.noComplete.shared::cta.b64 state, [bar], 1;",
    "wait": "and.b32 amount, amount, 1; mbarrier.try_wait.parity.shared::cta.b64 done, [bar], amount;",
    "test": "and.b32 amount, amount, 1; mbarrier.test_wait.parity.shared::cta.b64 done, [bar], amount;",
    "again": "mbarrier.inval.shared::cta.b64 [bar]; mbarrier.init.shared::cta.b64 [bar], amount;",
    "overwrite": "st.shared.u32 [bar], amount;",
}
STEPS = [*ARRIVALS, *OTHERS]
META = 1 << 20
LIMITS = (1, 2, 3, 4, 31, 32, 33, META - 1, META)
CHECKS = ("none", "none", ("memory", "barrier", "tmem", "descriptor", "register"), ("operands",))
"""Those beside which compiled code may arrive."""


def interpreter(steps: dict[str, str], before: str = "", after: str = "") -> ptxlab.Kernel:
    """A kernel whose warps execute each its list: kind, address in the window, amount, lanes, and what is added by odd lanes."""
    cases = "".join(f"S{number}:\n{text}\nbra NEXT;\n" for number, text in enumerate(steps.values()))
    labels = ", ".join(f"S{number}" for number in range(len(steps)))
    body = f"""
    .reg .pred done, mine, end;
    .reg .b32 kind, bar, amount, lanes, odd, count, n, ta, slot;
    .reg .b64 list;
    .reg .b16 ctas;
    ld.param.u64 list, [steps];
    ld.param.u32 count, [n_steps];
    shr.u32 r1, r19, 5; mul.wide.u32 rd1, r1, {MOST * 20}; add.u64 list, list, rd1;
    mul.wide.u32 rd1, r19, {8 * MOST + 8}; add.u64 out, out, rd1;
    mov.u32 r2, mb; and.b32 r2, r2, 0xffffff;
    ld.param.u32 r3, [expected];
    setp.eq.u32 p, tid, 0;
    {"".join(f"@p mbarrier.init.shared::cta.b64 [mb+{8 * number}], r3;" for number in range(BARRIERS))}
    {before}
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 n, 0;
LOOP:
    setp.ge.u32 end, n, count;
    @end bra END;
    ld.global.u32 kind, [list]; ld.global.u32 bar, [list+4]; ld.global.u32 amount, [list+8];
    ld.global.u32 lanes, [list+12]; ld.global.u32 odd, [list+16];
    shr.u32 r1, lanes, lane; and.b32 r1, r1, 1; setp.eq.u32 mine, r1, 1;
    and.b32 r1, lane, 1; mad.lo.u32 bar, r1, odd, bar; add.u32 bar, bar, r2;
    cvt.u16.u32 ctas, amount;
    mov.u64 state, 0; setp.ne.u32 done, n, n;
    @!mine bra NEXT;
    ways: .branchtargets {labels};
    brx.idx kind, ways;
    {cases}
NEXT:
    bar.warp.sync 0xffffffff;
    selp.u64 rd1, 0x4000000000000000, 0, done; or.b64 state, state, rd1;
    st.global.u64 [out], state; add.u64 out, out, 8; add.u64 list, list, 20; add.u32 n, n, 1;
    bra LOOP;
END:
    ld.param.u32 r1, [meets];
    setp.eq.u32 p, r1, 0;
    @p bra DONE;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    {after}
DONE:
    """
    return kernel(body, shared=MBARRIERS, params=", .param .u64 steps, .param .u32 n_steps, .param .u32 expected, .param .u32 meets")


Step = tuple[int, int, int, int, int]


def _nothing(launch: Any) -> None:
    """Permit no arrivals."""


def both_ways(
    loaded: ptxlab.Kernel, lists: list[list[Step]], expected: int, meets: bool, policy: str = "eager", check: Any = "none"
) -> Any:
    """What a launch gives with arrivals by compiled code; the same by the handlers is asserted to be equal."""
    length = max(map(len, lists))
    table = np.zeros((4, MOST, 5), np.uint32)
    for number, steps in enumerate(lists):
        table[number, : len(steps)] = np.array(steps, np.uint32).reshape(-1, 5)
    found = []
    permit = context_words._permit_arrivals
    for way in (permit, _nothing):
        memories = []

        def noted(launch: Any, way: Any = way, memories: list[Any] = memories) -> None:
            memories.append(launch.host_memory)
            way(launch)

        out = np.zeros((128, MOST + 1), np.uint64)
        context_words._permit_arrivals = noted
        try:
            args = [out, table, length, expected, int(meets)]
            result = loaded.launch(grid=2, block=64, cluster=2, args=args, check=check, policy=policy)
        finally:
            context_words._permit_arrivals = permit
        texts = [str(d) for d in result.diagnostics]
        found.append((out.tolist(), texts, result.stats.services, result.stats.instructions, memories[0].progress[0]))
    assert found[0] == found[1]
    return found[0]


@cache
def arrivals_kernel() -> ptxlab.Kernel:
    return interpreter(ARRIVALS | OTHERS)


def place(choice: Random, own: int, bold: float) -> int:
    """An address, mostly that of an mbarrier of the own CTA."""
    if choice.random() < bold / 4:
        return choice.choice((own << 24 | 8 * BARRIERS, own << 24 | 4, 2 << 24, own << 24 | 1 << 20))
    return (own if choice.random() < 0.7 else own ^ 1) << 24 | 8 * choice.randrange(BARRIERS)


def some_lanes(choice: Random, bold: float) -> int:
    return choice.choice((3, 0x80000001, 0xF0, 0xFFFFFFFF)) if choice.random() < max(bold, 0.1) else 1 << choice.choice((0, 0, 0, 5, 31))


def arrival_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp; the bolder, the more mistakes."""
    found: list[Step] = []
    for _ in range(choice.randrange(MOST - 2)):
        there, lanes = place(choice, own, bold), some_lanes(choice, bold)
        if choice.random() < bold:
            step = choice.randrange(len(STEPS)), there, choice.choice(LIMITS), lanes, choice.choice((0, 8))
        else:
            name = choice.choice(
                ("arrive", "arrive without a state", "several arrivals", "wait", "test")
                if there >> 24 == own
                else ("anywhere", "several anywhere")
            )
            step = STEPS.index(name), there, choice.choice((0, 1) if name in ("wait", "test") else (1, 1, 2)), lanes, 0
        if choice.random() < 0.3:
            size, expects = choice.choice((1, 16)), choice.choice(("arrive and expect", "expect"))
            expects += " anywhere" * (there >> 24 != own)
            pair = [(STEPS.index("complete"), there, size, lanes, 0), (STEPS.index(expects), there, size, lanes, 0)]
            first, step = choice.choice((pair, pair[::-1]))
            found.append(first)
        found.append(step)
        if choice.random() < 0.2:
            found += apart(choice)
    return found[:MOST]


def apart(choice: Random) -> list[Step]:
    """Two lanes arrive, each at an object of another CTA."""
    where, size = 8 * choice.randrange(BARRIERS), choice.choice((1, 16))
    names = choice.choice((["anywhere"], ["several anywhere"], ["complete", "arrive and expect anywhere"]))
    return [(STEPS.index(name), where, size if len(names) == 2 else choice.choice((1, 2)), 3, 1 << 24) for name in names]


def lists_of(steps: Callable[[Random, int, float], list[Step]], seed: int) -> list[list[Step]]:
    """The lists of all warps."""
    choice = Random(seed)
    bold = choice.choice((0, 0.02, 0.2))
    return [steps(choice, own, bold) for own in (0, 0, 1, 1)]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 1 << 32),
    st.sampled_from((1, 2, 4, 32, 33, 64)),
    st.booleans(),
    st.sampled_from(("eager", "lazy", "random")),
    st.sampled_from(CHECKS),
)
def test_arrivals_in_any_order(seed: int, expected: int, meets: bool, policy: str, check: Any) -> None:
    both_ways(arrivals_kernel(), lists_of(arrival_steps, seed), expected, meets, policy, check)


def step(name: str, bar: int = 0, amount: int = 1, lanes: int = 1, odd: int = 0) -> Step:
    return STEPS.index(name), 8 * bar, amount, lanes, odd


def test_states_of_several_lanes() -> None:
    out, texts, *_ = both_ways(arrivals_kernel(), [[step("several arrivals", 0, 2, 0b1011), step("arrive", 0, 1, 4)]], 8, True)
    assert texts == []
    assert [row[0] for row in out[:4]] == [8, 6, 0, 4]
    assert out[2][1] == 2


@pytest.mark.parametrize(
    ("steps", "code", "text"),
    [
        ([step("arrive"), step("several arrivals", 0, 3)], "B505", "3 arrivals on the mbarrier at shared offset 0x400, but only 1 of 2"),
        (
            [step("arrive and expect", 0, 9), step("arrive", lanes=3)],
            "B505",
            "1 arrivals on the mbarrier at shared offset 0x400, but only 0",
        ),
        ([step("several arrivals", 0, 0)], "B504", "the count of the arrival is 0"),
        ([step("expect", 0, META)], "B504", "the transaction count is 1048576"),
        ([step("expect", 0, META - 1), step("expect", 0, 1)], "B506", "becomes 1048576"),
        ([step("arrive"), step("overwrite"), step("arrive")], "B515", "was overwritten"),
        ([step("arrive", BARRIERS)], "B503", "it was never initialised"),
        ([(0, 4, 1, 1, 0)], "B501", "must be aligned to 8 bytes"),
        ([(0, 1 << 24, 1, 1, 0)], "B502", "reaches only that of its own CTA"),
        ([(STEPS.index("anywhere"), 2 << 24, 1, 1, 0)], "M407", "names CTA rank 2 of a cluster of 2"),
    ],
)
def test_mistakes_after_arrivals(steps: list[Step], code: str, text: str) -> None:
    _, texts, *_ = both_ways(arrivals_kernel(), [steps], 2, True)
    (found,) = texts
    assert code in found
    assert text in found


def test_the_last_arrival_before_the_bytes_completes_nothing() -> None:
    lists = [[step("arrive and expect", 0, 16), step("test", 0, 0), step("complete", 0, 16), step("test", 0, 0), step("arrive")]]
    out, texts, *_ = both_ways(arrivals_kernel(), lists, 1, True)
    assert texts == []
    assert [state >> 62 for state in out[0][:5]] == [0, 0, 0, 1, 0]
    assert out[0][4] == 1 << 20 | 1


def test_an_arrival_at_a_cta_that_has_exited() -> None:
    waits = [step("wait", 0, 0)] * MOST
    lists = [[(STEPS.index("anywhere"), 1 << 24, 1, 1, 0)] * 2, waits, [], []]
    _, texts, *_ = both_ways(arrivals_kernel(), lists, 2, True)
    assert texts == []


@pytest.mark.parametrize("name", ["anywhere", "several anywhere", "arrive and expect anywhere"])
@pytest.mark.parametrize("check", ["none", "race", "all"])
def test_lanes_that_arrive_at_different_ctas(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code arrives for them."""
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    bytes_of, expects = 2, "expect" in name
    steps = [(STEPS.index(each), 0, bytes_of, 3, 1 << 24) for each in [name, *["complete"] * expects]] * 6
    _, texts, *_ = both_ways(arrivals_kernel(), [steps, [], [], []], 100, True, check=check)
    assert texts == []
    assert len(calls) == 6 * 2


def test_few_arrivals_reach_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last one of warp 0 does, because warp 1 waits."""
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 32;
    @p mbarrier.init.shared.b64 [mb+8], 1;
    bar.sync 0;
    setp.ge.u32 p, tid, 32;
    @p bra WAITS;
    mov.u32 r1, 0;
LOOP:
    mbarrier.arrive.shared.b64 state, [mb];
    add.u32 r1, r1, 1; setp.lt.u32 p, r1, 100; @p bra LOOP;
    setp.eq.u32 p, tid, 0;
    AWAITED:
    @p mbarrier.test_wait.parity.shared.b64 q, [mb], 1;
    bar.sync 1, 64;
    @p mbarrier.arrive.shared.b64 _, [mb+8];
    bra END;
    WAITS:
    bar.sync 1, 64;
    SPIN:
    mbarrier.try_wait.parity.shared.b64 q, [mb+8], 0;
    @!q bra SPIN;
    END:
    """
    for check in ("none", "operands", "race", "all"):
        calls.clear()
        _, result = run(body, 64, shared=MBARRIERS, check=(check,) if check == "operands" else check)
        assert result.ok
        assert result.stats.services["mbarrier.arrive.shared.b64"] == 101
        assert len(calls) <= 1


def test_waiting_warps_continue_when_compiled_code_arrives_first() -> None:
    """The waits stand in the scheduler; the arrivals before the last one are compiled code's."""
    wait = [step("wait", 0, 0), step("wait", 1, 0), step("arrive", 2)]
    arrive = [step("wait", 2, 0), *[step("arrive", 0)] * 3, *[step("arrive", 1)] * 3]
    out, texts, services, *_ = both_ways(arrivals_kernel(), [arrive, [step("arrive", 2), step("arrive", 2), *wait]], 3, True)
    assert texts == []
    assert [row[2] >> 62 for row in out[32:33]] == [1]
    assert services["mbarrier.arrive.shared::cta.b64"] == 9


# ------------------------------------------------------------------------------------------------------------------ commits


def commits(group: int) -> dict[str, str]:
    form = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one"
    return {
        "issue": f"tcgen05.shift.cta_group::{group}.down [ta];",
        "commit": f"{form}.shared::cluster.b64 [bar];",
        "another commit": f"{form}.shared::cluster.b64 [bar];",
        "generic": f"cvt.u64.u32 rd2, bar; cvta.shared.u64 rd2, rd2; {form}.b64 [rd2];",
        "many": f"{form}.shared::cluster.multicast::cluster.b64 [bar], ctas;",
        "wait": OTHERS["wait"],
        "test": OTHERS["test"],
        "arrive": ARRIVALS["arrive"],
        "overwrite": OTHERS["overwrite"],
    }


@cache
def commits_kernel(group: int) -> ptxlab.Kernel:
    own = f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32"
    before = f"""
    mov.u32 slot, mb; add.u32 slot, slot, {8 * BARRIERS};
    setp.lt.u32 q, tid, 32;
    @q {own} [slot], 32;
    bar.sync 0;
    ld.shared.u32 ta, [slot];
    """
    after = f"setp.lt.u32 q, tid, 32;\n@q tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 ta, 32;"
    return interpreter(commits(group), before, after)


COMMITS = list(commits(1))


def committed(name: str, bar: int = 0, amount: int = 1, lanes: int = 1) -> Step:
    return COMMITS.index(name), 8 * bar, amount, lanes, 0


def commit_steps(choice: Random, own: int, bold: float) -> list[Step]:
    """Steps of a warp; the bolder, the more mistakes."""
    found = [committed("issue", lanes=1)] * (choice.random() < 0.7)
    for _ in range(choice.randrange(MOST - 1)):
        lanes = some_lanes(choice, bold) if choice.random() < max(0.1, bold) else 1
        amount = choice.choice((1, 2, 3, 3, 0, 4) if choice.random() < bold else (1, 2, 3, 3))
        kinds = range(len(COMMITS)) if choice.random() < bold else range(1, COMMITS.index("overwrite"))
        there = place(choice, own, bold)
        if choice.random() >= bold and there >> 24 != own:
            kinds = range(1, COMMITS.index("wait"))
        found.append((choice.choice(kinds), there, amount, lanes, 0))
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((1, 2)),
    st.integers(0, 1 << 32),
    st.sampled_from((1, 2, 4, 64)),
    st.booleans(),
    st.sampled_from(("eager", "eager", "lazy", "random")),
    st.sampled_from(CHECKS),
)
def test_commits_in_any_order(group: int, seed: int, expected: int, meets: bool, policy: str, check: Any) -> None:
    both_ways(commits_kernel(group), lists_of(commit_steps, seed), expected, meets, policy, check)


def test_commits_of_another_cta_group() -> None:
    """The first cluster uses .cta_group::2 throughout, so compiled code may complete its commits; the second one must not."""
    commit = "tcgen05.commit.cta_group::{}.mbarrier::arrive::one.shared::cluster.b64 [mb];"
    body = f"""
    .reg .b32 ta;
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 64;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.ge.u32 q, cta, 2;
    @q bra ONE;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [mb+8], 32;
    ld.shared.u32 ta, [mb+8];
    @p tcgen05.shift.cta_group::2.down [ta];
    bra COMMITS;
    ONE:
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+8], 32;
    ld.shared.u32 ta, [mb+8];
    @p tcgen05.shift.cta_group::1.down [ta];
    @p {commit.format(1)}
    COMMITS:
    mov.u32 r1, 0;
    LOOP:
    @p {commit.format(2)}
    add.u32 r1, r1, 1; setp.lt.u32 t, r1, 3; @t bra LOOP;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 ta, 32;
    """
    _, result = run(body, 32, 4, shared=MBARRIERS, check="none", cluster=2)
    (found,) = result.diagnostics
    assert found.code == "T606"
    assert result.stats.services[commit.format(2).partition(" ")[0]] == 2 * 3 + 1


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("name", ["commit", "generic", "many"])
@pytest.mark.parametrize("policy", ["eager", "lazy"])
def test_only_the_first_commit_of_a_thread_needs_the_handler(group: int, name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    arrive = MbarrierState.arrive
    monkeypatch.setattr(MbarrierState, "arrive", lambda barrier, count=1: (calls.append(count), arrive(barrier, count))[1])
    lists = [[committed("issue", lanes=2), *[committed(name, amount=3, lanes=2)] * 10, committed("wait", amount=0, lanes=2)]]
    _, texts, services, *_ = both_ways(commits_kernel(group), lists, 10, True, policy)
    assert texts == []
    count = 20 if name == "many" else 10
    by_handlers = count if policy == "lazy" else count // 10
    assert len(calls) == by_handlers + count
    assert sum(n for opcode, n in services.items() if "commit" in opcode) == 10


def test_a_commit_of_a_thread_that_has_issued_nothing() -> None:
    """A finding, unless another thread executes the same instruction after operations of its own: compiled code must not hide that."""
    issue, commit, idle = committed("issue"), committed("commit"), committed("commit", lanes=2)
    another = committed("another commit")
    for steps, count in (
        ([idle, commit], 1),
        ([issue, commit, commit, idle], 0),
        ([idle, issue, another, another, commit, commit], 0),
        ([issue, another, another, idle, idle], 1),
    ):
        _, texts, *_ = both_ways(commits_kernel(1), [steps], 64, True, check=("tmem",))
        assert len(texts) == count
        assert all("T633" in text for text in texts)


@pytest.mark.parametrize("check", ["none", "race"])
def test_an_arrival_that_is_not_the_compiled_one_reaches_its_handler(check: str) -> None:
    """A program may have other services than the one of which its code was compiled."""
    body = """
    setp.eq.u32 p, tid, 0;
    @p mbarrier.init.shared.b64 [mb], 32;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [mb];
    """
    own, calls = kernel(body, shared=MBARRIERS), []
    program, executable = own.variant(True, check == "race")

    def handler(warp: Any) -> Any:
        calls.append(warp.op.opcode)
        return arrival.row.semantics(warp)

    arrival = next(op for op in program.ops if op.opcode.startswith("mbarrier.arrive"))
    changed = replace(arrival, row=replace(arrival.row, semantics=handler))
    ops = [changed if op is arrival else op for op in program.ops]
    checks = "none" if check == "none" else (check,)
    for ran, expected in ((program, 0), (replace(program, ops=ops), 1)):
        with own.replaced(ran, executable):
            own.launch(grid=1, block=32, args=[np.zeros(32, np.uint32)], check=checks).raise_for_errors()
        assert len(calls) == expected
