"""A pair of instructions has one finding: the same conflict found again costs no Python, whatever other pairs do."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from ptxlab.check.model import Component, Row, rule_table
from ptxlab.check.race.report.findings import Findings
from ptxlab.check.race.shadow.shadow import MEMORY_GRANULE, Shadow
from ptxlab.check.race.shadow.shadow_words import CONCURRENT, FORMAL, HOW_SHIFT, PAIR, StateWord
from ptxlab.isa.operations import MemoryAccess
from tests.optimised_helpers import optimise

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
    assert [each.split("error[")[1][:4] for each in long] == ["X101"] * 4  # within the loop, after it, and between the two


def formal_pair() -> tuple[int, int, Row]:
    """The kinds of two accesses that may be ordered although the first one is not performed, and the row that says so."""
    table = rule_table("practice")
    for earlier, later in itertools.product(range(32), repeat=2):
        word = int(table[earlier << 5 | later])
        if word & 128 and word & 8:
            return earlier, later, Row(word >> 1 & 3)
    raise AssertionError


def test_accesses_that_are_left_out_are_not_repeated() -> None:
    """What an agent learns between two accesses to cells with equal entries gives the second one another outcome."""
    earlier, later, row = formal_pair()
    data = np.zeros(96, np.uint8)
    made = Shadow(np.zeros((1, 2), np.uint64), rule_table("practice"))
    made.watch(data, MEMORY_GRANULE, 64, Row.ASYNC_SHARED, "memory")
    rows = np.zeros((len(Row), 4), np.uint32)
    made.words[StateWord.ROWS], made.words[StateWord.WIDTH] = rows.ctypes.data, rows.shape[1]

    def access(slot: int, kind: int, first: int, size: int) -> list[tuple[int, int, int]]:
        where = np.array([data.ctypes.data + first], np.uint64), np.array([size], np.uint32)
        made.access(MemoryAccess(*where, bool(kind & 1)), slot << 32 | 1, kind << HOW_SHIFT)
        return [(held & PAIR, what & PAIR, wrong) for _, held, _, what, _, wrong in made.suspects().tolist()]

    assert access(2, earlier, 0, 96) == []
    (found,) = access(0, later, 0, 32)
    assert found[2] == CONCURRENT
    made.leave_out(found)
    assert access(0, later, 32, 32) == []
    rows[row, 2 + Component.EARLY] = 1
    assert access(0, later, 64, 32) == [(*found[:2], FORMAL)]
