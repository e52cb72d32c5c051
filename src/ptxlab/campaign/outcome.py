"""Schedules, and what is wrong with the arrays that a launch leaves: unexpected values, or bits that depend on the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.campaign.launchable import Launchable
from ptxlab.diagnostics import Diagnostic, diagnose
from ptxlab.formats import bytes_of
from ptxlab.machine.replay.replay import Expectation

__all__ = ["ORDER_DEPENDENT", "compare", "differences", "schedule_name", "schedules", "unexpected"]

ORDER_DEPENDENT = "M410"
"""The note about additions, which says more than the differing results that follow from it."""


def unexpected(spec: Launchable) -> list[Diagnostic]:
    """The outputs of a launch that differ from their expectations."""
    return [found for expectation in spec.expectations if (found := compare(expectation, spec.arrays[expectation.name])) is not None]


def compare(expectation: Expectation, got: NDArray[Any]) -> Diagnostic | None:
    """Compare an output with its expectation; the first difference makes the diagnostic."""
    if expectation.exact:
        wrong = got != expectation.value.astype(got.dtype)
        wrong &= ~(np.isnan(got.astype(np.float64)) & np.isnan(expectation.value.astype(np.float64)))
        limit = "bit for bit"
    else:
        wide = got.astype(np.float64)
        wrong = ~np.isclose(wide, expectation.value, rtol=expectation.rtol, atol=expectation.atol, equal_nan=True)
        limit = f"within rtol={expectation.rtol:g}, atol={expectation.atol:g}"
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return diagnose(
        "F105",
        f"{expectation.name}{list(index)} is {got[index]}, expected {expectation.value[index]} ({limit}); "
        f"{int(wrong.sum())} of {wrong.size} elements differ",
    )


def schedules(count: int) -> list[tuple[str, int]]:
    """So many policies with their seeds: eager, lazy, and random ones."""
    return [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(1, count - 1))][:count]


def schedule_name(policy: str, seed: int) -> str:
    """``random 3``."""
    return policy if policy != "random" else f"random {seed}"


def differences(name: str, before: dict[str, Any], other: str, after: dict[str, Any]) -> Iterator[Diagnostic]:
    """Outputs that are not the same bits under two schedules."""
    for array, old in before.items():
        wrong = np.flatnonzero(bytes_of(old) != bytes_of(after[array]))
        if len(wrong):
            element = np.unravel_index(int(wrong[0]) // old.itemsize, old.shape)
            index = ", ".join(str(int(i)) for i in element)
            yield diagnose(
                "F106",
                f"{array}[{index}] is {old[element]} under the schedule {name} and {after[array][element]} under {other}",
                fix="look at the other findings first; without any, the kernel depends on an order that nothing guarantees",
            )
