"""Products of warpgroups whose matrices bulk copies of contiguous bytes bring, under checks: the same as by handlers."""

from __future__ import annotations

from typing import Any

import pytest

import ptxlab
from ptxlab.isa.wgmma._state import Warpgroup
from ptxlab.machine.warp import context_words
from tests.optimised_helpers import optimise

from .line_product_helpers import FULL, launch, text_of

TURNS = 12
CASES: dict[str, tuple[dict[str, str], str]] = {
    #                       the parts of the loop, and a code that the race check reports
    "right":               ({}, ""),
    "no wait in one turn": ({"wait": f"@%late bra off; {FULL} off:"}, "X103"),
    "a store":             ({"between": "@%late st.shared.b32 [mem+64], %t; bar.sync 0;"}, "X102"),
    "another A":           ({"between": "@%late add.u64 %da, %da, 512;"}, ""),
    "the same matrix":     ({"between": "@%late mov.b64 %db, %da;"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("check", ["none", "race", "operands", "all"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_by_handlers(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimise(monkeypatch)
    parts, race = CASES[name]
    kernel, found = ptxlab.loads(text_of(**parts)).kernel(), []
    issue, issued = Warpgroup.issue, list[Any]()
    monkeypatch.setattr(Warpgroup, "issue", lambda self, *given: (issued.append(given), issue(self, *given))[1])
    for way in (context_words._table_of_repetitions, lambda launch: 0):
        issued.clear()
        monkeypatch.setattr(context_words, "_table_of_repetitions", way)
        out, result = launch(kernel, TURNS, check=check)
        stats = result.stats.instructions, result.stats.services, result.completed
        found.append(((out.tobytes(), stats, [str(each) for each in result.diagnostics]), len(issued), result))
    (first, handled, result), (second, every, _) = found
    assert first == second
    codes = [each.code for each in result.diagnostics]
    if check == "race":
        assert race in [*codes, ""]
        assert bool(codes) == bool(race)
    if name == "right":
        assert codes == []
        assert handled < every // 2
