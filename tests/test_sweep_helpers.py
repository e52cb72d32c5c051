"""Which parameters `make quick` runs, and that no parameter is lost."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.sweep_helpers import first_of_each, first_seen, one_in, part, spread


def quick(parameters: list[Any]) -> list[tuple[Any, ...]]:
    return [parameter.values for parameter in parameters if not parameter.marks]


def test_one_in() -> None:
    made = one_in(3, range(8))
    assert [parameter.values for parameter in made] == [(number,) for number in range(8)]
    assert quick(made) == [(0,), (3,), (6,)]
    assert {mark.name for parameter in made for mark in parameter.marks} == {"sweep"}
    assert quick(one_in(2, [("a", 1), ("b", 2), ("c", 3)])) == [("a", 1), ("c", 3)]


def test_first_of_each() -> None:
    made = first_of_each(["bf16", "f16", "b8", "e4m3", "f32"], lambda name: name[0])
    assert [parameter.values for parameter in made] == [("bf16",), ("f16",), ("b8",), ("e4m3",), ("f32",)]
    assert quick(made) == [("bf16",), ("f16",), ("e4m3",)]
    assert quick(first_of_each([1, 1, 2], lambda number: number)) == [(1,), (2,)]


def test_part() -> None:
    made = part(one_in(4, ["a1", "a2", "b1", "b2", "c1", "c2"]), lambda name: name.startswith("b"))
    assert [parameter.values for parameter in made] == [("a1",), ("a2",), ("b1",), ("b2",), ("c1",), ("c2",)]
    assert quick(made) == [("a1",), ("c1",)]
    assert [parameter.values[0] for parameter in made if "slow" not in {mark.name for mark in parameter.marks}] == ["a1", "b1", "b2", "c1"]
    assert all("sweep" in {mark.name for mark in parameter.marks} for parameter in made if parameter.marks)


def test_spread() -> None:
    made = spread(3, "abc", range(4), (False, True))
    assert [parameter.values for parameter in made] == list(product("abc", range(4), (False, True)))
    assert quick(made)[:3] == [("a", 0, False), ("a", 2, True), ("a", 3, False)]
    assert len(quick(made)) == 8
    assert [set(values) for values in zip(*quick(made), strict=True)] == [set("abc"), set(range(4)), {False, True}]
    assert {values[::2] for values in quick(made)} == set(product("abc", (False, True)))
    with pytest.raises(AssertionError, match="would not be run"):
        spread(3, "abc", (False, True))


def test_first_seen() -> None:
    first = first_seen(lambda name, _: name[0])
    assert [first(*values) for values in (("a1", 0), ("a2", 1), ("b1", 2), ("a3", 3))] == [True, False, True, False]
    made = part(["a1", "a2", "b1"], first_seen(lambda name: name[0]))
    assert [len(parameter.marks) for parameter in made] == [1, 2, 1]
