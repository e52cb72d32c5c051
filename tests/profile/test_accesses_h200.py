"""Counters of memory accesses, compared with what ncu counted on an H200 for 800 kernels of one access each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profile.access_helpers import measured
from tests.profile.timing.accesses import ACCESSES, Access

RECORD = json.loads((Path(__file__).parent / "data" / "accesses_h200.json").read_text())
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
OVERHEAD = {"wavefronts": 1, "requests": 1, "sectors": 8}
"""What the load of the addresses adds in each kernel."""
FORMS = sorted({access.form for name, access in ACCESSES.items() if name != "nothing"})


def _of_hardware(name: str) -> dict[str, int]:
    counts = dict(zip(RECORD["metrics"], RECORD["kernels"][name], strict=True))
    found = {what: sum(value for metric, value in counts.items() if f"__t_{what}_" in metric) for what in ("requests", "sectors")}
    found |= {"wavefronts": counts[WAVEFRONTS], "conflicts": counts[CONFLICTS]}
    return {what: value - OVERHEAD.get(what, 0) for what, value in found.items()}


def _cases(form: str) -> Iterator[tuple[str, Access]]:
    return ((name, access) for name, access in ACCESSES.items() if access.form == form)


@pytest.mark.recording
@pytest.mark.parametrize("form", FORMS)
def test_counters_are_those_of_an_h200(form: str) -> None:
    """Of copies, ncu's wavefronts count more than data, so that only requests and sectors are compared."""
    compared = ("requests", "sectors") if form.startswith("cp.async") else ("wavefronts", "conflicts", "requests", "sectors")
    seen = 0
    for name, access in _cases(form):
        counts = measured(access.text, access.places, access.active)
        ours = {
            "wavefronts": counts.shared_wavefronts,
            "conflicts": counts.bank_conflicts,
            "requests": counts.global_requests,
            "sectors": counts.global_sectors,
        }
        theirs = _of_hardware(name)
        assert {what: ours[what] for what in compared} == {what: theirs[what] for what in compared}, name
        seen += 1
    assert seen == 20


def test_hundreds_of_kernels_are_compared() -> None:
    assert len(FORMS) * 20 == len(RECORD["kernels"]) - 1 == 800
