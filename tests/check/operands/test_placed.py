"""Right products in all layouts have no finding, and those of different k, of torn rows or of a repeated step have one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from .placed_kernels import COLUMNS, PAIRS, ROWS, STEPS, launch, places

HOW = st.sampled_from(["plain", "shared", "two loads", "moved", "computed"])
FORMS = st.sampled_from(["rows", "registers", "lanes", "flat"])
PADDING = st.integers(0, 9)
WITHIN = st.permutations(range(PAIRS)).map(lambda one: np.concatenate([np.array(one) + PAIRS * step for step in range(STEPS)]))
"""The pairs of k are permuted in each step alike."""
ANY = st.permutations(range(PAIRS * STEPS)).map(np.array)
SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SOME
@given(
    how=HOW, forms=st.tuples(FORMS, FORMS), paddings=st.tuples(PADDING, PADDING), order=st.one_of(st.just(np.arange(16)), WITHIN, ANY),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_right_products(how: str, forms: tuple[str, str], paddings: tuple[int, int], order: np.ndarray, seed: int) -> None:
    (rows_of_a, a), (rows_of_b, b) = places("a"), places("b")
    result, right = launch(how, forms, paddings, [order[a], order[b]], [rows_of_a, rows_of_b], seed)
    assert right
    assert result.diagnostics == ()


JUDGED = st.sampled_from(["plain", "shared", "two loads", "moved"])


@SOME
@given(how=JUDGED, paddings=st.tuples(PADDING, PADDING), order=WITHIN, other=WITHIN, seed=st.integers(0, 99))
@example(how="plain", paddings=(0, 0), order=np.arange(16), other=np.array([1, 0, *range(2, 8), 9, 8, *range(10, 16)]), seed=0)
def test_different_k(how: str, paddings: tuple[int, int], order: np.ndarray, other: np.ndarray, seed: int) -> None:
    assume((order != other).any())
    (rows_of_a, a), (rows_of_b, b) = places("a"), places("b")
    result, right = launch(how, ("rows", "rows"), paddings, [other[a], order[b]], [rows_of_a, rows_of_b], seed)
    assume(not _for_lanes(order))
    assert not right
    assert {found.code for found in result.diagnostics} == {"O104"}


@SOME
@given(how=JUDGED, paddings=st.tuples(PADDING, PADDING), order=WITHIN, row=st.integers(0, ROWS - 1), flip=st.integers(1, PAIRS - 1))
def test_a_row_of_other_k(how: str, paddings: tuple[int, int], order: np.ndarray, row: int, flip: int) -> None:
    (rows_of_a, a), (rows_of_b, b) = places("a"), places("b")
    torn = np.where(rows_of_a == row, order[a] ^ flip, order[a])
    result, right = launch(how, ("rows", "rows"), paddings, [torn, order[b]], [rows_of_a, rows_of_b], 1)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O101"}


@SOME
@given(how=JUDGED, paddings=st.tuples(PADDING, PADDING), order=WITHIN, name=st.sampled_from("ab"))
@example(how="plain", paddings=(0, 0), order=np.array([1, 0, *range(2, 8), 9, 8, *range(10, 16)]), name="a")
def test_a_step_that_is_repeated(how: str, paddings: tuple[int, int], order: np.ndarray, name: str) -> None:
    assume(not _for_lanes(order))
    (rows_of_a, a), (rows_of_b, b) = places("a"), places("b")
    pairs = [order[each] % (PAIRS if name == own else PAIRS * STEPS) for own, each in (("a", a), ("b", b))]
    result, right = launch(how, ("rows", "rows"), paddings, pairs, [rows_of_a, rows_of_b], 1)
    assert not right
    assert {found.code for found in result.diagnostics} == {"O105"}


def _for_lanes(order: np.ndarray) -> bool:
    """Whether the two registers of B of each lane stand next to each other: the array may have been arranged for them."""
    return bool((order[4:8] == order[:4] + 1).all())


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_places_are_all_of_the_matrix(name: str) -> None:
    row, pair = places(name)
    taken = set(zip(row.reshape(-1).tolist(), pair.reshape(-1).tolist(), strict=True))
    assert len(taken) == row.size == (ROWS if name == "a" else COLUMNS) * PAIRS * STEPS
