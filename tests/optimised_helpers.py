"""Optimised functions from the start: what is compiled quickly at first repeats nothing."""

from __future__ import annotations

import pytest

from ptxlab.check.race.shadow import shadow
from ptxlab.numerics import MmaProgram

__all__ = ["optimise", "optimise_race_check"]


def optimise_race_check() -> None:
    """Use the optimised functions of the race check in this process from now on."""
    functions = shadow._functions()
    if functions.are_quick:
        functions.optimise()


def optimise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the optimised functions of the race check, and repeat products at once."""
    optimise_race_check()
    monkeypatch.setattr(MmaProgram, "optimised", True)
