"""Real kernels end to end: the same bits under every policy, equal to what was computed outside the machine.

All kernels of the tests run with all checks, and nothing is found:

| kernels | schedules |
|---|---|
| of this folder and of ``triton_sm90`` | eager, lazy, one random; ten random in the slow run; their other sizes eager |
| of CuTe DSL (``tests/end_to_end/cute``) | eager, lazy, one random; ten random in the slow run |
| of CUTLASS (``tests/end_to_end/cutlass_cpp``) | eager, lazy, one random; ten random in the slow run |
| of CUDA C++ (``tests/end_to_end/cuda``) | each form under one of eager, lazy, random in turn; eager, lazy, ten random in the slow run |
| of ``examples`` | eager; those of Triton eager, lazy, ten random in the slow run, those of CuTe DSL in ``tests/end_to_end/cute`` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from .case_helpers import HERE, Array, Case, Expected, launch_info
from .cases import CASES


def sound(case: Case, result: Any) -> None:
    """Nothing is found, but that the order of additions matters where it does, and that several warps store the same bits (X123)."""
    findings = [d for d in result.diagnostics if d.code != "X123" and not (case.order_dependent and str(d.severity) == "note")]
    assert not findings, "\n".join(map(str, findings))
    assert result.ok


def same_bits(one: dict[str, Array], other: dict[str, Array]) -> None:
    for name, array in one.items():
        np.testing.assert_array_equal(other[name].view(np.uint8), array.view(np.uint8), err_msg=name)


def check_results(case: Case) -> None:
    result, found = case.launch(policy="eager", check="all")
    sound(case, result)
    case.check(found)


def check_policies(case: Case, policies: Sequence[dict[str, Any]], **options: Any) -> None:
    first: dict[str, Array] = {}
    for policy in policies:
        result, found = case.launch(check="all", **policy, **options)
        sound(case, result)
        case.check(found)
        first = first or found
        same_bits(first, found)


@pytest.mark.parametrize(("name", "size"), [(n, s) for n, family in CASES.items() for s in list(family.sizes)[2:]])
def test_results_of_other_sizes(name: str, size: str) -> None:
    check_results(CASES[name](size))


@pytest.mark.parametrize("name", CASES)
def test_every_policy_gives_the_same_bits(name: str, policies: Sequence[dict[str, Any]]) -> None:
    smallest, second, *_ = CASES[name].sizes
    check_policies(CASES[name](smallest), policies)
    check_policies(CASES[name](second), policies[:7])


def test_persistent_programs_of_three_tiles_give_the_same_bits(policies: Sequence[dict[str, Any]]) -> None:
    """300 tiles for 148 programs, of which three execute: each takes every 148th tile. The rest of the result stays as it was."""
    case = CASES["mm_persistent_ws_fp16"].make(m=2560, n=1920, k=128)
    whole, mine = case.expected["c"], np.zeros((2560, 1920), bool)
    for number in [first + 148 * turn for turn in range(3) for first in range(3)]:
        row, column = number % 20 * 128, number // 20 * 128
        mine[row : row + 128, column : column + 128] = True
    assert whole.bits is not None
    case.expected["c"] = Expected(np.where(mine, whole.bits, np.float16(0)))
    check_policies(case, policies, only=[(program, 0, 0) for program in range(3)])


def test_every_kernel_has_cases() -> None:
    assert set(CASES) == set(launch_info()) == {path.stem for path in HERE.glob("*.ptx")}
    assert all(len(family.sizes) >= 2 for family in CASES.values())
