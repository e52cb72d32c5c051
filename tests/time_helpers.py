"""Limits of time in tests, on a computer that other programs use too: a measurement is repeated until it is short enough, up to a count."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST = 25
"""The most measurements for one limit."""


def processor_seconds(call: Callable[[], object]) -> float:
    """The processor time of this process that a call takes."""
    started = time.process_time()
    call()
    return time.process_time() - started


def quickest(measure: Callable[[], float], limit: float) -> float:
    """The shortest of some measurements: they end with the first one below the limit."""
    found = measure()
    for _ in range(MOST - 1):
        if found < limit:
            break
        found = min(found, measure())
    return found


def quickest_ratio(long: Callable[[], float], short: Callable[[], float], limit: float) -> float:
    """The ratio of two shortest times, both measured in turn: at least three times, and until the ratio is within the limit.

    Other programs can only lengthen a measurement, so the shortest ones come closest to the times on an idle computer.
    """
    pairs = [(long(), short()) for _ in range(3)]
    while (ratio := min(a for a, _ in pairs) / min(b for _, b in pairs)) > limit and len(pairs) < MOST:
        pairs.append((long(), short()))
    return ratio
