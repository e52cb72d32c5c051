"""Matrices in registers that come there in many ways: right ones give no finding, and each mistake gives one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .fragment_kernels import SLOTS, Order, Way, launch


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Orders of k for both operands."""
    return Order(draw(st.sampled_from([1, 2, 4])), tuple(draw(st.permutations(range(SLOTS)))))


@st.composite
def ways(draw: st.DrawFn, order: Order, judged: bool = False) -> Way:
    """Ways to bring an operand to registers in an order."""
    paths = ["global", "shared", *([] if judged else ["upcast", "packed"]), *(["ldmatrix", "transposed"] if order.together == 1 else [])]
    path = draw(st.sampled_from(paths))
    widths = [1, 2, 4] if path in ("ldmatrix", "transposed") else [each for each in (1, 2, 4) if each <= order.together]
    return Way(path, draw(st.sampled_from(widths)), draw(st.sampled_from([0, 8, 16, 40])), order)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_right_products_of_a_warp(data: Any) -> None:
    order = data.draw(orders())
    result, right = launch(data.draw(ways(order)), data.draw(ways(order)))
    assert right
    assert result.diagnostics == ()


@pytest.mark.parametrize("slots", [(0, 1, 2, 3, 5, 4, 6, 7), (0, 1, 3, 6, 4, 5, 2, 7)], ids=["the last ones first", "not together"])
def test_an_instruction_whose_first_element_is_near_that_of_the_next_one(slots: tuple[int, ...]) -> None:
    """The next one begins eight elements further on, and takes 16 others."""
    way = Way("global", order=Order(slots=slots))
    result, right = launch(way, way)
    assert right
    assert result.diagnostics == ()


def exchanged(order: Order, first: int, second: int) -> Order:
    """With two slots exchanged."""
    slots = list(order.slots)
    slots[first], slots[second] = slots[second], slots[first]
    return replace(order, slots=tuple(slots))


@st.composite
def known_orders(draw: st.DrawFn, together: int = 1, ascending: bool = False) -> Order:
    """Orders in which each instruction takes 16 elements of k that stand together: only then their order is judged."""
    steps = range(SLOTS // 2) if ascending else draw(st.permutations(range(SLOTS // 2)))
    turned = together == 1 and draw(st.booleans())
    return Order(together, tuple(2 * step + (half ^ turned) for step in steps for half in range(2)))


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_k_of_one_operand_in_another_order(data: Any) -> None:
    order = data.draw(known_orders())
    a, b = data.draw(ways(order, judged=True)), data.draw(ways(order, judged=True))
    step = data.draw(st.integers(0, SLOTS // 2 - 1))
    wrong = exchanged(order, 2 * step, 2 * step + 1)
    pair = (replace(a, order=wrong), b) if data.draw(st.booleans()) else (a, replace(b, order=wrong))
    result, right = launch(*pair)
    assert not right
    assert "O104" in {found.code for found in result.diagnostics}


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_vectors_of_b_in_another_order(data: Any) -> None:
    """Only mistakes in B are seen: words of a lane that stand as they were loaded may have been arranged for the registers."""
    order = data.draw(known_orders(2))
    a, b = data.draw(ways(order, judged=True)), data.draw(ways(order, judged=True))
    step = data.draw(st.integers(0, SLOTS // 2 - 1))
    result, right = launch(a, replace(b, order=exchanged(order, 2 * step, 2 * step + 1)))
    assert not right
    assert "O104" in {found.code for found in result.diagnostics}


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_steps_of_one_operand_in_another_order(data: Any) -> None:
    """The other operand advances by what an instruction takes: then this one must, too."""
    order = data.draw(known_orders(ascending=True))
    a, b = data.draw(ways(order, judged=True)), data.draw(ways(order, judged=True))
    first, second = data.draw(st.permutations(range(SLOTS // 2)))[:2]
    wrong = exchanged(exchanged(order, 2 * first, 2 * second), 2 * first + 1, 2 * second + 1)
    pair = (replace(a, order=wrong), b) if data.draw(st.booleans()) else (a, replace(b, order=wrong))
    result, right = launch(*pair)
    assert not right
    assert "O105" in {found.code for found in result.diagnostics}


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_k_of_odd_rows_in_another_order(data: Any) -> None:
    order = data.draw(orders())
    a, b = (data.draw(ways(order, judged=True).filter(lambda way: way.path != "transposed")) for _ in range(2))
    first, second = data.draw(st.permutations(range(SLOTS)))[:2]
    odd = exchanged(order, first, second)
    # A vector holds slots that are together; they cannot be exchanged inside it for some lanes only.
    pair = (replace(a, odd=odd, width=1), b) if data.draw(st.booleans()) else (a, replace(b, odd=odd, width=1))
    result, right = launch(*pair)
    assert not right
    assert {found.code for found in result.diagnostics} & {"O101", "O104"}


@pytest.mark.parametrize("path", ["ldmatrix", "transposed"])
@pytest.mark.parametrize("of_b", [False, True])
def test_trans_that_does_not_fit(path: str, of_b: bool) -> None:
    wrong, other = Way(path, 2, trans=path == "ldmatrix"), Way("ldmatrix")
    result, right = launch(other, wrong) if of_b else launch(wrong, other)
    assert not right
    assert "O101" in {found.code for found in result.diagnostics}


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_another_element_type(data: Any) -> None:
    order = data.draw(orders())
    a, b = data.draw(ways(order, judged=True)), data.draw(ways(order, judged=True))
    result, right = launch(a, b, lambda text: text.replace("f16.f16", "bf16.bf16"))
    assert not right
    assert "O103" in {found.code for found in result.diagnostics}
