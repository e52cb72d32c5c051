"""Groups of cp.async are rows among the accesses of a warp: each wait completes the copies before it, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.check.race.clocks.clocks import Clocks
from ptxlab.machine.observe.event_buffer import CAPACITY

from .small_kernels import SCHEDULES, WGMMA, found, launch, text

COPY = "cp.async.ca.shared.global [%r3], [%rd2], 16;"
OTHER = "cp.async.ca.shared.global [%r3+4096], [%rd2], 16;"
COMMIT, WAIT, LEAVE_ONE, WAIT_ALL = (
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "cp.async.wait_group 1;",
    "cp.async.wait_all;",
)
READ = "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];"
READ_OTHER = READ.replace("[%r3]", "[%r3+4096]")
PLACES = """
mad.lo.u32 %r3, %r1, 16, %r2;
mad.wide.u32 %rd2, %r1, 16, %rd1;
"""
REPEATED = """
mov.u32 %r20, {count};
AGAIN: {body}
sub.u32 %r20, %r20, 1;
setp.ne.u32 %p2, %r20, 0;
@%p2 bra AGAIN;
"""


@pytest.mark.parametrize(
    ("body", "early"),
    [
        ((COPY, COMMIT, WAIT, READ), None),
        ((COPY, COMMIT, LEAVE_ONE, READ), READ),
        ((COPY, WAIT, READ), READ),
        ((COPY, WAIT_ALL, READ), None),
        ((COPY, COMMIT, OTHER, COMMIT, LEAVE_ONE, READ), None),
        ((COPY, COMMIT, OTHER, COMMIT, LEAVE_ONE, READ_OTHER), READ_OTHER),
        ((COPY, COMMIT, OTHER, COMMIT, LEAVE_ONE, READ, WAIT, READ_OTHER), None),
        ((COPY, COMMIT, OTHER, WAIT, READ_OTHER), READ_OTHER),
        ((COPY, COMMIT, OTHER, WAIT_ALL, READ, READ_OTHER), None),
        ((COPY, COMMIT, WAIT, COPY, COMMIT, READ), READ),
        ((COPY, COMMIT, READ, WAIT, READ_OTHER), READ),
    ],
)
def test_a_wait_completes_the_groups_before_it(body: tuple[str, ...], early: str | None) -> None:
    """``early``: the load that reads what a copy may not have written yet."""
    result = launch(PLACES + "\n".join((*body, WAIT_ALL)), block=32)
    assert found(result) == ([] if early is None else [("X111", early)])


@pytest.mark.parametrize("end", [(COMMIT, OTHER, COMMIT, WAIT), (WAIT_ALL, OTHER, WAIT_ALL), (COMMIT, LEAVE_ONE, OTHER, WAIT_ALL)])
@pytest.mark.parametrize("rows", range(CAPACITY - 2, CAPACITY + 2))
def test_a_full_buffer_before_a_group(end: tuple[str, ...], rows: int) -> None:
    """Copies after the group have the next number, whichever of its rows fills the buffer."""
    body = PLACES + REPEATED.format(count=rows, body=COPY) + "\n".join((*end, READ, READ_OTHER))
    assert found(launch(body, block=32)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
@pytest.mark.parametrize(("wait", "code"), [(WAIT_ALL, "X102"), ("", "X111"), (WAIT_ALL + "fence.proxy.async.shared::cta;", None)])
def test_a_product_follows_the_waits_of_all_four_warps(wait: str, code: str | None, barrier: str, schedule: dict[str, Any]) -> None:
    """Each warp waits for its own copies before its share of the product, so that a barrier adds nothing."""
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + WAIT_ALL
    body = PLACES + "\n".join((COPY, COMMIT, wait, barrier, WGMMA, end))
    result = launch(body, target="sm_90a", block=128, **schedule)
    assert [code for code, _ in found(result)] == ([] if code is None else [code])
    if code == "X102":
        lines = text(body, "sm_90a", "").split("\n")
        copy, product = lines.index(COPY) + 1, result.diagnostics[0].place.line
        where = f"before the barrier that lets line {product} go on" if barrier else f"in the same threads, before line {product}"
        assert result.diagnostics[0].fix == f"insert fence.proxy.async after the wait for line {copy}, {where}"


@pytest.mark.parametrize("more", range(8))
def test_the_slot_of_a_warpgroup_may_make_all_rows_wider(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many slots are free when the first product executes."""
    begin, made = Clocks.__init__, []

    def fill(self: Any, *given: Any) -> None:
        begin(self, *given)
        made.append(self.rows.shape[2])
        while 2 * (len(self.owners) + more) < made[-1]:
            self.slot(None, "more")

    monkeypatch.setattr(Clocks, "__init__", fill)
    end = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + WAIT_ALL
    body = PLACES + "\n".join((COPY, COMMIT, WAIT_ALL, "fence.proxy.async.shared::cta;", WGMMA, end))
    assert found(launch(body, target="sm_90a", block=128)) == []
    assert len(made) == 1
