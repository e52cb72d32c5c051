"""Compiled kernels under checks: compiled code processes all rows that their warps record, and completes the barriers of whole CTAs."""

from __future__ import annotations

from typing import Any

import pytest

from ptxlab.check.race._sanitizer import Sanitizer
from ptxlab.machine.schedule.barriers import NamedBarrier
from tests.check.race.test_replayed_rows import calls_of

from .replay_cases import KERNELS
from .test_workers import outcome


@pytest.mark.parametrize("name", ["mm_ptr_fp16", "mm_host_desc_fp16_cta2", "flash_fp16"])
@pytest.mark.parametrize("check", [("race",), "all"])
def test_python_handles_no_row_and_no_barrier(name: str, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """GEMMs with pointers and with tensor maps, and attention."""
    rows, arrivals = calls_of(monkeypatch, Sanitizer, "_row"), calls_of(monkeypatch, NamedBarrier, "arrive")
    result, _ = outcome(KERNELS[name](), check=check)
    assert any("bar.sync" in opcode for opcode in result.stats.services)
    assert (len(rows), len(arrivals)) == (0, 0)
