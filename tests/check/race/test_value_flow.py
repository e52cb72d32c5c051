"""Where values come from is asked often for a long kernel; what that needs of the program is found once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from benchmarks.cold import COLD

import ptxlab
from ptxlab.check.race.program import value_flow
from ptxlab.engine.program import Program
from ptxlab.isa.operands import Op


def test_definitions_are_not_found_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = [0], [0]

    class Counted(value_flow._Origins):
        def __init__(self, program: Program) -> None:
            found[0] += 1
            super().__init__(program)

        def of(self, registers: Iterable[int]) -> Iterator[tuple[Op, bool]]:
            asked[0] += 1
            return super().of(registers)

    monkeypatch.setattr(value_flow, "_Origins", Counted)
    cold = COLD["unrolled_20000"]
    kernel = ptxlab.loads(cold.text())[cold.entry]
    kernel.launch(**cold.geometry, args=cold.arguments()).raise_for_errors()
    assert asked[0] > 10
    assert found[0] == 1
