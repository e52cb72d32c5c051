"""A pair of instructions has one finding: the same conflict found again costs no Python, whatever other pairs do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import Shadow
from tests.end_to_end.test_steady_state import optimise

from .small_kernels import launch

LOOP = """
mov.u32 %r9, 0;
xor.b32 %r3, %r1, 32;
shl.b32 %r3, %r3, 2;
add.u32 %r3, %r3, %r2;
shl.b32 %r4, %r1, 2;
add.u32 %r4, %r4, %r2;
mov.u32 %r5, 0;
AGAIN: st.shared.u32 [%r4], %r5;
ld.shared.u32 %r6, [%r3];
add.u32 %r9, %r9, %r6;
bar.sync 0;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, {count};
@%p2 bra AGAIN;
st.shared.u32 [%r4], %r5;
ld.shared.u32 %r10, [%r3];
add.u32 %r9, %r9, %r10;
shl.b32 %r4, %r1, 2;
cvt.u64.u32 %rd3, %r4;
add.s64 %rd3, %rd1, %rd3;
st.global.u32 [%rd3], %r9;
"""


def judged(count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """How often suspects are judged in so many iterations, and the findings."""
    calls, judge = [], Findings.judge

    def counted(*given: Any, **named: Any) -> None:
        calls.append(1)
        judge(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Findings, "judge", counted)
        result = launch(LOOP.format(count=count), check="race")
    return len(calls), [str(each) for each in result.diagnostics]


def test_a_conflict_in_a_loop_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    optimise(monkeypatch)
    (few, short), (many, long) = (judged(count, monkeypatch) for count in (4, 40))
    assert many == few
    assert [re.sub(r"lt.u32 %p2, %r5, \d+", "", each) for each in long] == short
    monkeypatch.setattr(Shadow, "leave_out", lambda shadow, pair: None)
    often, same = judged(40, monkeypatch)
    assert often > many + 30
    assert same == long
    assert [each.split("error[")[1][:4] for each in long] == ["X101"] * 4  # in the loop, behind it, and between the two
