"""Products that perform later than they are issued, by compiled code: the same schedule, bits, statistics and findings as by handlers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxlab.isa.tcgen05 import _cp
from tests.isa.tcgen05.repeated_execution_helpers import (
    LAST,
    ROW,
    WIDE,
    _at_once,  # noqa: F401  (a fixture)
    both,
    descriptor,
    idesc,
    loop,
    mma,
    sequence,
    state,
    state_of_sequence,
)
from tests.isa.tcgen05.tcgen05_helpers import BASE, IMAGE
from tests.optimised_helpers import optimise_race_check

SCHEDULES: list[dict[str, Any]] = [{"policy": "lazy"}, *({"policy": "random", "seed": seed} for seed in range(6))]

BARRIER = IMAGE - 64
"""Where shared memory has an mbarrier object for commits."""
COMMIT = "tcgen05.commit.cta_group::{}.mbarrier::arrive::one.shared::cluster{}.b64 [bar]{};"
HANDLED_COMMITS: list[int] = []


@pytest.fixture(autouse=True)
def _count_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the commits that handlers or the machine perform; functions are not exchanged meanwhile."""
    optimise_race_check()
    made = _cp.commit_of
    monkeypatch.setattr(_cp, "commit_of", lambda *args: HANDLED_COMMITS.append(1) or made(*args))  # type: ignore[func-returns-value]
    HANDLED_COMMITS.clear()


def committed(group: int, turns: int, between: str = "") -> str:
    """Products, a commit and a wait for it in each turn."""
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    commit = COMMIT.format(2, ".multicast::cluster", ", h") if group == 2 else COMMIT.format(1, "", "")
    body = f"""
        {f"@p {mma(group)}" * 3}
        @p {commit}
        {between}
        and.b32 v, i, 1;
        LOOP{turns}: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], v; @!q bra LOOP{turns};
        {meet}
    """
    before = f"""
        mov.b16 h, 3; add.u32 bar, w0, {BARRIER}; setp.eq.u32 q, tid, 0; @q mbarrier.init.shared::cta.b64 [bar], 1;
        fence.mbarrier_init.release.cluster; {meet}
    """
    return loop(body, turns, before).removesuffix(LAST) + f"mov.u32 bar, barrier; {LAST}"


@pytest.mark.parametrize("group", [1, 2])
def test_handlers_are_called_as_often_in_a_longer_loop(group: int) -> None:
    """Compiled code issues and performs products as soon as one has performed, and commits after the first one."""
    given = {**WIDE, "idesc": idesc(m=128 * group)}
    for options in SCHEDULES:
        found = []
        for turns in (16, 32):
            HANDLED_COMMITS.clear()
            _, result, handled = both(committed(group, turns), *state(group), group=group, **given, **options)
            assert result.ok
            found.append((len(handled), len(HANDLED_COMMITS) - turns - 1))
        assert found[0] == found[1]
        assert found[0][0] <= 6
        assert found[0][1] <= 2


@pytest.mark.parametrize("group", [1, 2])
def test_handlers_issue_as_many_products_in_a_longer_loop_with_the_race_check(group: int) -> None:
    """Compiled code issues products that it sees, and performs them; commits the machine issues."""
    given = {**WIDE, "idesc": idesc(m=128 * group)}
    for options in SCHEDULES:
        found = []
        for turns in (16, 32):
            _, result, handled = both(committed(group, turns), *state(group), group=group, check=("tmem", "race"), **given, **options)
            assert result.ok
            found.append(len(handled))
        assert found[0] == found[1]
        assert found[0] <= 9


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_the_handler_is_always_called_where_an_observer_has_no_functions(options: dict[str, Any]) -> None:
    """Under the model of the specification the race check judges each issue."""
    _, result, handled = both(committed(1, 16), *state(1), check=("tmem", "race"), model="spec", **WIDE, **options)
    assert result.completed
    assert len(handled) == 16 * 3


BETWEEN = {
    "a commit of the handler": "setp.eq.u32 e, i, 4; @!e bra ON; mov.u32 w, bar; @p "
    + COMMIT.format(1, "", "").replace("[bar]", "[w]")
    + " bar.sync 0; ON: setp.ne.u32 e, en, 0;",
    "an object that ends": "setp.eq.u32 q, i, 3; @!q bra ON; bar.sync 0; setp.eq.u32 q, tid, 0; @q mbarrier.inval.shared::cta.b64 [bar];"
    "@q mbarrier.init.shared::cta.b64 [bar], 1; @q mbarrier.arrive.shared::cta.b64 _, [bar]; bar.sync 0; mov.u32 v, 3; ON:",
}


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
@pytest.mark.parametrize("between", BETWEEN)
def test_commits_that_the_machine_performs(between: str, options: dict[str, Any]) -> None:
    """Another commit follows one of compiled code; or an mbarrier object ends for which a commit is pending, and another begins there."""
    turns = 4 if between == "an object that ends" else 5
    _, result, _ = both(committed(1, turns, BETWEEN[between]), *state(1), **WIDE, **options)
    assert result.completed or result.diagnostics


@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, min_size=20, max_size=20),
    group=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
    options=st.sampled_from(SCHEDULES),
    check=st.sampled_from(["tmem", "race", "operands", "all"]),
)
def test_any_sequence(rows: list[tuple[int, ...]], group: int, seed: int, options: dict[str, Any], check: str) -> None:
    image, before = state_of_sequence(rows, group, seed)
    _, result, _ = both(sequence(20, group, "ad"), image, before, group=group, a=descriptor(BASE), check=check, **options)
    assert result.completed
