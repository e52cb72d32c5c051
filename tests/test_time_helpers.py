"""Limits of time: when measurements end, and what they give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .time_helpers import MOST, processor_seconds, quickest, quickest_ratio


def series(*values: float) -> tuple[Callable[[], float], list[float]]:
    """A measurement that gives some values and then the last one again, and the list of those given."""
    given: list[float] = []

    def measure() -> float:
        given.append(values[min(len(given), len(values) - 1)])
        return given[-1]

    return measure, given


def test_measurements_end_with_the_first_below_the_limit() -> None:
    measure, given = series(3, 2, 0.5, 0.1)
    assert quickest(measure, 1) == 0.5
    assert given == [3, 2, 0.5]


def test_what_never_gets_below_the_limit_is_measured_a_number_of_times() -> None:
    measure, given = series(3, 2, 4)
    assert quickest(measure, 1) == 2
    assert len(given) == MOST


@pytest.mark.parametrize(("long", "ratio", "count"), [((4, 9, 9), 2, 3), ((9, 9, 9, 9, 6), 3, 5), ((9,), 4.5, MOST)])
def test_a_ratio_is_that_of_the_shortest_times(long: tuple[float, ...], ratio: float, count: int) -> None:
    slow, given = series(*long)
    quick, _ = series(2, 3)
    assert quickest_ratio(slow, quick, 3) == ratio
    assert len(given) == count


def test_processor_time_is_that_of_the_call() -> None:
    assert 0 < processor_seconds(lambda: sum(range(100_000))) < 10
