"""The bytes that a product accesses in a CTA group, which are placed from those in another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab.isa.operations import MemoryAccess
from ptxlab.isa.tcgen05._mma_plan import Plan
from tests.end_to_end.triton.cases import CASES


@pytest.mark.parametrize("name", ["mm_ptr_fp16", "mm_host_desc_fp16_cta2", "gl_mm_a_in_tmem_fp16"])
def test_accesses_in_each_cta_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are resident together."""
    groups: dict[Plan, set[Any]] = {}
    accesses = Plan.accesses

    def compared(plan: Plan, cta_group: Any, accumulate: bool, disabled: Any) -> Any:
        found = accesses(plan, cta_group, accumulate, disabled)
        for made, own in zip(found, MemoryAccess.together(plan._all_accesses(cta_group.ctas, accumulate, disabled)), strict=True):
            assert np.array_equal(made.starts, own.starts)
            assert np.array_equal(np.broadcast_to(made.sizes, made.starts.shape), np.broadcast_to(own.sizes, own.starts.shape))
            assert (made.write, made.reads) == (own.write, own.reads)
        groups.setdefault(plan, set()).add(cta_group.places)
        return found

    monkeypatch.setattr(Plan, "accesses", compared)
    family = CASES[name]
    size = next(iter(family.sizes.values()))
    result, *_ = family.make(**size | {"m": 2 * size["m"]}).launch(check="race", policy="random")
    assert result.ok
    assert max(map(len, groups.values())) > 1
