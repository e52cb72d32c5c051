"""The registers of A in another order: all orders but those that exchange whole rows are mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from . import warp_kernels, warpgroup_kernels

REGISTERS = [f"%r{20 + i}" for i in range(4)]
RIGHT = (0, 1, 2, 3)
ROWS = (1, 0, 3, 2)
"""Exchanges the rows of the upper and of the lower half, which may be what is wanted."""


def given(kernels: Any, order: Sequence[int]) -> str:
    """The product with the registers of A in another order."""
    assert kernels.MMA in kernels.TEXT
    wrong = kernels.MMA.replace(f"{{{', '.join(REGISTERS)}}}", f"{{{', '.join(REGISTERS[i] for i in order)}}}")
    return str(kernels.TEXT.replace(kernels.MMA, wrong))


@pytest.mark.parametrize("kernels", [warp_kernels, warpgroup_kernels], ids=["mma.sync", "wgmma"])
@pytest.mark.parametrize("order", [order for order in permutations(RIGHT) if order not in (RIGHT, ROWS)], ids=str)
def test_another_order(kernels: Any, order: tuple[int, ...]) -> None:
    """The fix undoes the exchange, but for rows."""
    result, right = kernels.launch(given(kernels, order), check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} <= {"O101", "O104"}
    fixes = [found.fix.rpartition("give the registers of A in the order ")[2].partition(", counted")[0] for found in result.diagnostics]
    orders = [tuple(order[int(i)] for i in fix.split(", ")) for fix in fixes]
    assert orders
    assert set(orders) <= {RIGHT, ROWS}


@pytest.mark.parametrize("kernels", [warp_kernels, warpgroup_kernels], ids=["mma.sync", "wgmma"])
@pytest.mark.parametrize("order", [RIGHT, ROWS], ids=str)
def test_orders_of_whole_rows(kernels: Any, order: tuple[int, ...]) -> None:
    result, right = kernels.launch(given(kernels, order), check="operands")
    assert right is (order == RIGHT)
    assert result.diagnostics == ()


def test_message() -> None:
    result, _ = warp_kernels.launch(given(warp_kernels, (0, 2, 3, 1)), check="operands")
    assert result.diagnostics[0].message == (
        "matrix A in registers is not a matrix of the elements that were loaded: its rows and its k change places; "
        "A[8, 8] is a[8, 0], but A[0, 8] is a[8, 8]"
    )
