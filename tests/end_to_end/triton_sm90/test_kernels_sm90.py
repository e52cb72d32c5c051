"""Real kernels for sm_90a end to end: the same bits under every policy, equal to what was computed outside the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.end_to_end.triton.case_helpers import SM90, launch_info
from tests.end_to_end.triton.test_kernels import check_policies, check_results

from .cases import CASES


@pytest.mark.parametrize(("name", "size"), [(n, s) for n, family in CASES.items() for s in list(family.sizes)[1:]])
def test_results_of_other_sizes(name: str, size: str) -> None:
    check_results(CASES[name](size))


@pytest.mark.parametrize("name", CASES)
def test_every_policy_gives_the_same_bits(name: str, policies: Sequence[dict[str, Any]]) -> None:
    check_policies(CASES[name](next(iter(CASES[name].sizes))), policies)


def test_every_kernel_has_cases() -> None:
    assert set(CASES) == set(launch_info(SM90)) == {path.stem for path in SM90.glob("*.ptx")}
    assert all(len(family.sizes) >= 2 for family in CASES.values())
