"""Executions of tcgen05.mma that compiled code repeats: the same bits, statistics and findings as by the handler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.engine import repetitions
from ptxlab.engine.llvm import _known_executions
from ptxlab.isa.tcgen05 import _alloc
from ptxlab.machine.warp import context_words
from tests.isa.tcgen05.repeated_execution_helpers import (
    HANDLED,
    LAST,
    ROW,
    ROWS,
    STATE,
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
from tests.isa.tcgen05.tcgen05_helpers import BASE, launch


@pytest.mark.parametrize(("group", "issuer"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("a", ["ad", "[at]"])
def test_the_handler_is_called_once(group: int, issuer: int, a: str) -> None:
    text, given = mma(group, a=a), {**WIDE, "idesc": idesc(m=128 * group)}
    image, before = state(group)
    after, result, handled = both(
        loop(f"mov.u32 at, ta; add.u32 at, at, 128; @p {text}", 9), image, before, group=group, issuer=issuer, **given
    )
    assert result.ok
    assert len(handled) == 1
    assert result.stats.services[text.split()[0]] == 9
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("group", [1, 2])
def test_a_mask_that_disables_no_lanes(group: int) -> None:
    """An instruction with the mask of a CTA pair has 13 registers."""
    mask = ", ".join(f"m{i}" for i in range(4 * group))
    text, given = mma(group, rest=f"{{{mask}}}, "), {**WIDE, "idesc": idesc(m=128 * group), "mask": (0,) * 8}
    image, before = state(group)
    _, result, handled = both(loop(f"@p {text}", 9), image, before, group=group, **given)
    assert result.ok
    assert len(handled) == 1


def test_the_handler_is_always_called() -> None:
    """Where observers must see the operations."""
    _, result, handled = both(loop(f"@p {mma()}", 5), *state(1), **WIDE, model="spec", check="race")
    assert result.completed
    assert len(handled) == 5


NEVER = {
    "lanes that are not written": {"text": mma(rest="{m0, m1, m2, m3}, "), "mask": (5, 0, 9, 0) * 2},
    "A that is shifted": {"text": mma(more=".ashift", a="[at]"), "a": 128},
    "several lanes": {"text": mma().replace("tcgen05", "@e tcgen05").replace("@p ", "")},
}


@pytest.mark.parametrize("case", NEVER)
def test_what_compiled_code_does_not_repeat(case: str) -> None:
    given = {**WIDE, **NEVER[case]}
    text = given.pop("text")
    guard = "" if text.startswith("@") else "@p "
    image, before = state(1)
    _, result, handled = both(loop(f"mov.u32 at, ta; add.u32 at, at, 128; {guard}{text}", 3), image, before, **given)
    assert result.completed
    assert len(handled) == 3 * (1 if guard else 128)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROW, min_size=20, max_size=20),
    group=st.sampled_from([1, 2]),
    most=st.sampled_from([2, 2048]),
    seed=st.integers(0, 99),
    check=st.sampled_from(["tmem", "race", "operands", "all"]),
)
def test_any_sequence(rows: list[tuple[int, ...]], group: int, most: int, seed: int, check: str) -> None:
    """Also if the table is full again and again."""
    image, before = state_of_sequence(rows, group, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repetitions, "_MOST", most)
        _, result, handled = both(sequence(20, group, "ad"), image, before, group=group, a=descriptor(BASE), check=check)
    assert result.completed
    if most > 2 and check == "tmem":
        assert 1 <= len(handled) <= len(set(rows))


def test_executions_with_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXLAB_CACHE", "off")
    for each in (repetitions, _known_executions):
        monkeypatch.setattr(each, "FACTOR", 0)
    image, before = state(1)
    table = image[:, ROWS:].view(np.uint32).reshape(1, -1, 8)
    for number in range(24):
        low = [descriptor(BASE + 32 * (number % part)) & 0xFFFFFFFF for part in (2, 3)]
        table[:, number, :5] = 0, *low, idesc(), number % 4 > 0
    _, result, handled = both(sequence(24, 1, "ad"), image, before, a=descriptor(BASE))
    assert result.ok
    assert len(handled) == 9


def test_operands_that_are_not_legal_after_others() -> None:
    image, before = state(1)
    table = image[:, ROWS:].view(np.uint32).reshape(1, -1, 8)
    low = [WIDE[name] & 0xFFFFFFFF for name in "ab"]
    table[:, :6, :5] = 0, *low, idesc(), 1
    for field, value, code in (
        (3, idesc() | 1 << 6, "D701"),
        (0, 480, "T607"),
        (0, 5 << 16, "T611"),
        (1, descriptor(0x3FF00) & 0xFFFFFFFF, "D704"),
    ):
        table[:, 5] = table[:, 4]
        table[:, 5, field] = value
        _, result, handled = both(sequence(6, 1, "ad"), image, before, a=WIDE["a"])
        assert [d.code for d in result.diagnostics] == [code]
        assert len(handled) == 1


DEALLOC = "setp.lt.u32 q, tid, 32; @q tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 ta, 512;"
ALLOC = "@q tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {columns};"


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("columns", "codes"), [(0, ["T607"]), (32, ["T607"]), (512, [])])
def test_columns_that_are_freed(group: int, columns: int, codes: list[str], known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the third execution; then so many are allocated again, and all are freed at the end.

    ``known``: compiled code learns the state of the CTA when columns are allocated.
    """
    if known:
        monkeypatch.setattr(_alloc, "repeated_state", STATE)
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    again = (DEALLOC + ALLOC * bool(columns)).format(group=group, columns=columns)
    body = f"@p {mma(group)}\n{meet}\nsetp.ne.u32 q, i, 2; @q bra ON;\n{again}\nON:\n{meet}"
    _, result, handled = both(loop(body, 6), *state(group), group=group, **{**WIDE, "idesc": idesc(m=128 * group)})
    assert [d.code for d in result.diagnostics] == codes
    if known:
        assert len(handled) <= 1
    else:
        assert len(handled) == (1 if codes else 2)


def test_a_peer_that_exits() -> None:
    """The CTA that issues waits at a barrier which the exit of its peer completes."""
    body = f"""
        @p {mma(2)}
        setp.ne.u32 q, i, 2; @q bra ON;
        @!lead exit;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        ON:
    """
    _, result, handled = both(loop(body, 5), *state(2), group=2, **{**WIDE, "idesc": idesc(m=256)})
    assert [d.code for d in result.diagnostics] == ["T605", "T609"]
    assert len(handled) == 1


@pytest.mark.parametrize("same", [True, False])
def test_a_thread_that_only_repeats_has_something_to_commit(same: bool) -> None:
    """Warp 1 executes what warp 0 has executed; warp 2 commits, too."""
    turns = f"""
        setp.eq.u32 q, lane, 0;
        setp.eq.and.u32 p, warp, i, q;
        @p {mma()}
        bar.sync 0;
    """
    commit = f"""
        setp.eq.u32 q, lane, 0;
        setp.eq.and.u32 p, warp, {1 if same else 2}, q;
        @p tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar];
        setp.ne.u32 p, tid, tid;
    """
    text = loop(turns, 2).removesuffix(LAST) + commit + LAST
    _, result, handled = both(text, *state(1), **WIDE)
    assert [d.code for d in result.diagnostics] == [] if same else ["T633"]
    assert len(handled) == 1


USES: dict[str, tuple[list[str], list[str], int]] = {
    # what is used in each of 4 turns, the findings, and how many executions the handler completes
    "discard": (["::discard", ""], [], 2),
    "fill": (["::fill", ""], [], 2),
    "fill and use": (["::fill", "::use", "::use"], [], 3),
    "fill and last use": (["::fill", "::use", "::lastuse"], [], 3),
    "last use before fill": (["::lastuse", "::fill"], ["T631"], 2),
    "use of the last turn": (["::use", "::fill"], ["T631"], 2),
    "discarded before the use": (["::fill", "", "::use"], ["T631"], 2 + 4),
    "used after the last use": (["::fill", "::lastuse", "::use"], ["T631"], 2 + 4),
}


@pytest.mark.parametrize("check", [("tmem", "descriptor"), ("tmem", "race"), "all"], ids=str)
@pytest.mark.parametrize("name", USES)
def test_collector_buffers(name: str, check: Any) -> None:
    """Compiled code asks for what they hold, and the handler is called if it is another matrix."""
    usages, codes, times = USES[name]
    body = "\n".join(f"@p {mma(more=usage and f'.collector::a{usage}')}" for usage in usages)
    _, result, handled = both(loop(body, 4), *state(1), **WIDE, check=check)
    assert [d.code for d in result.diagnostics if d.code.startswith("T")] == codes
    if check == ("tmem", "descriptor"):
        assert len(handled) == times


OTHERS = ("ad", "ae")
"""The same A and another one."""


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(("fill", "use", "lastuse", "discard", "")), st.sampled_from(OTHERS)), min_size=1, max_size=6),
    st.sampled_from((1, 2)),
    st.sampled_from((("tmem", "descriptor"), "all")),
)
def test_any_uses_of_a_collector_buffer(uses: list[tuple[str, str]], group: int, check: Any) -> None:
    body = "\n".join(f"@p {mma(group, more=use and f'.collector::a::{use}', a=a)}" for use, a in uses)
    other = ".reg .b64 ae; mov.b64 {n, v}, ad; add.u32 n, n, 64; mov.b64 ae, {n, v};"
    both(loop(body, 5, other), *state(group), group=group, **WIDE | {"idesc": idesc(m=128 * group)}, check=check)


@pytest.mark.parametrize("buffer", range(4))
def test_collector_buffers_of_b(buffer: int) -> None:
    """Each has its own state: that of a product without a qualifier is the first one, and the last product fills its buffer."""
    usages = [f".collector::b{buffer}::fill", "", f".collector::b{buffer}::use", f".collector::b{buffer ^ 1}::use"]
    body = "\n".join(f"@p tcgen05.mma.ws.cta_group::1.kind::f16{usage} [da], ad, bd, id, e;" for usage in usages)
    _, result, handled = both(loop(body, 4), *state(1), **WIDE)
    assert [d.code for d in result.diagnostics] == ["T631"] * (1 + (buffer == 0))
    assert len(handled) == (2 + 4 + 1 if buffer < 2 else 2 + 1 + 1)


def test_ctas_with_other_allocations() -> None:
    """Two CTAs of one SM, each with half of the columns: what one of them has executed is not legal in the other one."""
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_a, .param .u32 p_id, .param .u32 p_second, .param .u64 p_flag)
{{
.shared .align 1024 .b8 data[65536];
.shared .align 4 .b32 slot;
.reg .pred p, e, q;
.reg .b32 id, tid, da, i, cta, second;
.reg .b64 ad, flag;
ld.param.u64 ad, [p_a]; ld.param.u32 id, [p_id]; ld.param.u32 second, [p_second];
mov.u32 tid, %tid.x; mov.u32 cta, %ctaid.x;
setp.eq.u32 p, tid, 0; setp.ne.u32 e, tid, tid;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
ld.param.u64 flag, [p_flag];
@p red.global.add.u32 [flag], 1;
MEET:
ld.volatile.global.u32 i, [flag];
setp.lt.u32 q, i, 2;
@q bra MEET;
bar.sync 0;
ld.shared.u32 da, [slot];
mov.u32 i, 0;
TURN:
setp.eq.u32 q, i, second;
@q mov.u32 da, 0;
@p {mma().replace("bd", "ad")}
add.u32 i, i, 1;
setp.lt.u32 q, i, 4;
@q bra TURN;
bar.sync 0;
ld.shared.u32 da, [slot];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 da, 256;
ret;
}}
"""
    loaded = ptxlab.loads(text).kernel()
    for second, codes in ((9, []), (2, ["T607"])):
        for repeats in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if not repeats:
                    patch.setattr(context_words, "_table_of_repetitions", lambda launch: 0)
                args = [descriptor(BASE), idesc(), second, np.zeros(1, np.uint32)]
                result = loaded.launch(grid=2, block=32, args=args, check="none", device=ptxlab.Device(sms=1))
            assert [d.code for d in result.diagnostics] == codes


@pytest.mark.parametrize("known", [False, True])
def test_launches_of_one_kernel(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later launch finds the executions of an earlier one; launches in other threads have tables of their own, but the same buffers.

    ``known``: its CTAs have the state of earlier ones as soon as they have allocated columns.
    """
    if known:
        monkeypatch.setattr(_alloc, "repeated_state", STATE)
    text = loop(f"@p {mma()}", 40 + known)
    inputs = [state(1, seed) for seed in range(4)]
    expected = []
    for number, (image, before) in enumerate(inputs):
        HANDLED.clear()
        after, result = launch(text, image, before, check="none", **WIDE)
        assert result.ok
        assert len(HANDLED) == (0 if known and number else 1)
        expected.append(after)
        assert number == 0 or not np.array_equal(after, expected[0])

    def run(number: int) -> bool:
        image, before = inputs[number % len(inputs)]
        after, result = launch(text, image, before, check="none", **WIDE)
        return result.ok and np.array_equal(after, expected[number % len(inputs)])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(16)))
