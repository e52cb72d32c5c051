"""Where values come from is asked often for a long kernel; what that needs of the program is found a few times only."""

from __future__ import annotations

import pytest
from benchmarks.cold import COLD

import ptxlab
from ptxlab.check.race.program import value_flow
from ptxlab.engine.program import Program


def test_definitions_are_not_found_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = [0], [0]
    definitions, origins = value_flow._definitions, value_flow._origins

    def counted(program: Program) -> value_flow._Definitions:
        found[0] += 1
        return definitions(program)

    def question(*arguments: object) -> object:
        asked[0] += 1
        return origins(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(value_flow, "_definitions", counted)
    monkeypatch.setattr(value_flow, "_origins", question)
    cold = COLD["unrolled_20000"]
    kernel = ptxlab.loads(cold.text())[cold.entry]
    kernel.launch(**cold.geometry, args=cold.arguments()).raise_for_errors()
    assert asked[0] > 10
    assert found[0] <= 3
