"""Profiles of kernels that Triton has compiled: what they write is their outputs, and estimate and report can be made of each."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from ptxlab.view import report_page
from tests.end_to_end.triton.case_helpers import info_of
from tests.end_to_end.triton.cases import CASES

SECTOR = 32


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_a_profile_of_the_smallest_case(name: str) -> None:
    family = CASES[name]
    case = family(next(iter(family.sizes)))
    result, _ = case.launch(profile=True, check="none")
    found = result.profile
    assert all(a.read <= a.read_by_ctas and a.written <= a.written_by_ctas for a in found.arrays)
    assert all(max(a.read, a.written) <= a.either <= min(a.read + a.written, a.size + 2 * SECTOR) for a in found.arrays)
    outputs = sum(array.nbytes for array in case.outputs.values())
    scratch = info_of(name)["global_scratch_bytes_per_program"] * found.ctas
    assert outputs <= found.footprint.written <= outputs + scratch + SECTOR * (len(case.outputs) + 1)
    path = found.estimate.path
    assert all(one.end == pytest.approx(two.begin) for one, two in pairwise(path))
    assert path[-1].end == pytest.approx(found.estimate.cycles - found.estimate.parameters.launch, rel=1e-6)
    assert all(held.begin <= held.written <= held.until for held in found.estimate.memory)
    assert bool(found.totals.products) == bool(found.estimate.position.tensor)
    assert json.loads(json.dumps(found.as_dict()))["footprint"]["written"] == found.footprint.written
    assert found.kernel in report_page([(found, ())])
