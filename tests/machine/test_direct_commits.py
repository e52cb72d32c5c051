"""Commits that compiled code completes: the same as by their handlers, in whatever order they come."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.machine.schedule.barriers import MbarrierState
from tests.machine.direct_steps_helpers import (
    BARRIERS,
    CHECKS,
    MBARRIERS,
    both_ways,
    commit_steps,
    commits,
    committed,
    interpreter,
    lists_of,
)
from tests.machine.launch_helpers import run


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
