"""Launches of a loop of which the second one, with other data, calls no handler; and the products of its plan, share by share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from ptxlab.isa.tcgen05 import _cp, _mma
from ptxlab.isa.tcgen05._mma_plan import Plan
from ptxlab.numerics import MmaProgram
from tests.isa.tcgen05.tcgen05_helpers import BASE, Cells, launch
from tests.isa.tcgen05.test_repetitions import loop
from tests.repetition_helpers import note_handled

__all__ = ["HANDLED", "PLANS", "STORE", "TURNS", "Share", "_at_once", "compare", "factors", "repeated", "shares"]

HANDLED: list[int] = []
"""The lines of the instructions whose handler was called."""
PLANS: list[Plan] = []
"""The plans of the products that were executed."""
TURNS = 3


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Repeat executions although the functions of the product are not optimised yet, and note what handlers complete."""
    monkeypatch.setattr(MmaProgram, "optimised", True)
    for module in (_cp, _mma):
        note_handled(monkeypatch, module, "launch", HANDLED)
    perform = Plan.perform

    def performed(plan: Plan, *rest: Any) -> None:
        PLANS.append(plan)
        perform(plan, *rest)

    monkeypatch.setattr(Plan, "perform", performed)
    HANDLED.clear()
    PLANS.clear()
    yield
    HANDLED.clear()
    PLANS.clear()


def repeated(text: str, states: list[tuple[np.ndarray, Cells]], **given: Any) -> list[Cells]:
    """What launches give; the handler is called at most for the first execution of each of them, and only in the first one."""
    found = []
    for number, (image, before) in enumerate(states):
        HANDLED.clear()
        after, result = launch(loop(f"@p {text};", TURNS), image, before, **{"check": "none", **given})
        result.raise_for_errors()
        assert len(HANDLED) <= (number == 0)
        found.append(after)
    return found


def factors(rng: np.random.Generator, shape: tuple[int, int], scale: str, wild: bool) -> np.ndarray:
    """Codes of scale factors, a few of which are NaN; ``wild``: any."""
    around = 127 if scale == "ue8m0" else 56
    codes = rng.integers(0, 256, shape) if wild else rng.integers(around - 9, around + 9, shape)
    codes[rng.random(shape) < 0.01] = 0xFF if scale == "ue8m0" else 0x7F
    return codes.astype(np.uint8) if scale == "ue8m0" else (codes & 0x7F).astype(np.uint8)


class Share(NamedTuple):
    """What one unit of a plan multiplies.

    Attributes
    ----------
    cta : the CTA to whose tensor memory it writes
    bank : the number of its metadata
    columns : the columns of the product that it computes
    place : where these are in tensor memory
    a, b : the codes of A and of these columns of B
    """

    cta: int
    bank: int
    columns: slice
    place: tuple[slice, Any]
    a: np.ndarray
    b: np.ndarray


def shares(plan: Plan, group: int, image: np.ndarray, before: Cells) -> Iterator[Share]:
    """The shares of a product, whose operands NumPy gathers and unpacks."""
    shared = [np.concatenate([np.zeros(BASE, np.uint8), image[cta]]) for cta in range(group)]
    for unit in plan.units:
        yield Share(
            unit.cta,
            unit.bank,
            slice(unit.part * unit.columns, (unit.part + 1) * unit.columns),
            (slice(plan.column + unit.column, plan.column + unit.column + unit.columns), unit.lanes),
            plan.codes_of_a(shared[unit.cta], before[unit.cta], unit.lanes),
            plan.share_of_b(shared[unit.holder])[unit.first : unit.first + unit.columns],
        )


Product = Callable[[Plan, int, np.ndarray, Cells, bool], Cells]
"""Tensor memory after a product of a plan."""


def compare(product: Product, states: list[tuple[np.ndarray, Cells]], found: list[Cells], group: int, accumulate: bool) -> None:
    """All turns, by the plan of the first launch."""
    for (image, before), after in zip(states, found, strict=True):
        expected = before
        for _ in range(TURNS):
            expected = product(PLANS[0], group, image, expected, accumulate)
        assert np.array_equal(after, expected)
        assert not np.array_equal(after, before)


STORE = "@!q bra ON; tcgen05.st.sync.aligned.32x32b.x1.b32 [at], {n}; tcgen05.wait::st.sync.aligned; ON:"
