"""Kernels that end with an error: which one a GPU gives is compared where it is known what ptxlab's code means there."""

from __future__ import annotations

import pytest

from ptxlab import silicon
from ptxlab.diagnostics import CODES
from ptxlab.silicon._compare import CUDA_ERRORS

TARGET = "sm_100a"
CASES = {case.name: case for _, _, case in silicon.cases_of(TARGET, ["faults"])}
MISALIGNED, UNKNOWN, FINE = "ld.global.b32, not aligned", "tcgen05.ld, outside the allocation", "ld.global.b32, aligned"
ILLEGAL_ADDRESS = "CUDA_ERROR_ILLEGAL_ADDRESS"


def compared(**states: str) -> silicon.Report:
    """A report of results with these states."""
    named = {"misaligned": MISALIGNED, "unknown": UNKNOWN, "fine": FINE}
    outcomes = {}
    for key, state in states.items():
        case = CASES[named[key]]
        outcomes[case.name] = silicon.Outcome("faults", case, state, ())
    return silicon.compare(silicon.Results(TARGET, {"gpu": "G", "driver": "1"}, outcomes, b""))


@pytest.mark.parametrize("state", [ILLEGAL_ADDRESS, "hang", "the process ended", "refused: no", "ok"])
def test_another_error(state: str) -> None:
    (found,) = compared(misaligned=state).differences
    assert (found.code, found.wrong) == ("M405", 1)
    assert found.difference.startswith(f"the GPU: {state}; ptxlab: <ptx>:23:1: error[M405]: the address")
    assert found.difference.endswith(", for which CUDA_ERROR_MISALIGNED_ADDRESS is expected")


def test_the_expected_error() -> None:
    report = compared(misaligned=CUDA_ERRORS["M405"])
    assert not report.differences
    assert report.as_dict()["errors"] == {"M405": {"expected": CUDA_ERRORS["M405"], "gpu": {CUDA_ERRORS["M405"]: 1}}}


def test_an_error_about_which_nothing_is_known() -> None:
    """Any error agrees, and is noted."""
    report = compared(unknown=ILLEGAL_ADDRESS, misaligned=CUDA_ERRORS["M405"])
    assert not report.differences
    lines = [" ".join(line.split()) for line in report.text().splitlines() if line.startswith(("M405", "T621"))]
    assert lines == [f"M405 {CUDA_ERRORS['M405']} 1", f"T621 {ILLEGAL_ADDRESS} 1 (not known before: any error agrees)"]
    for state in ("ok", "hang", "refused: no"):
        assert [c.code for c in compared(unknown=state).differences] == ["T621"]


def test_an_error_that_ptxlab_does_not_give() -> None:
    (found,) = compared(fine=ILLEGAL_ADDRESS).differences
    assert (found.code, found.difference) == ("", f"the GPU: {ILLEGAL_ADDRESS}; ptxlab: no error")


def test_codes() -> None:
    assert {CODES[code].severity for code in CUDA_ERRORS} == {"error"}
