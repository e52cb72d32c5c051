"""A part of the mutation benchmark (``python -m benchmarks.mutations`` runs the whole): nothing that matters goes unreported."""

from __future__ import annotations

import pytest
from benchmarks.mutations.expected import EXPECTED, NOTHING
from benchmarks.mutations.judge import Verdict, judge
from benchmarks.mutations.mutants import Mutant

from tests.end_to_end.triton.case_helpers import kernel
from tests.end_to_end.triton.cases import CASES

SAMPLE = {
    ("gl_mm_fp16", "practice"): 4,
    ("mm_host_desc_fp16_cta2", "practice"): 6,
    ("gl_mm_2cta_fp16", "practice"): 6,
    ("gl_mm_a_in_tmem_fp16", "spec"): 2,
    ("flash_ws_fp16", "spec"): 4,
}
"""Kernels and models, and each how many-th of the mutants; those of cta_group are all there."""


def judged(name: str, model: str) -> list[Verdict]:
    family, step = CASES[name], SAMPLE[name, model]

    def wanted(number: int, mutant: Mutant) -> bool:
        return number % step == 0 or mutant.family == "cta_group"

    expected = EXPECTED.get((name, model), NOTHING)
    return list(judge(name, kernel(name), family(next(iter(family.sizes))), model, wanted, expected))


@pytest.mark.compiler
@pytest.mark.timeout(900)
def test_mutants() -> None:
    verdicts = [verdict for name, model in SAMPLE for verdict in judged(name, model)]
    reported = [v for v in verdicts if v.state == "reported"]
    assert [v for v in verdicts if v.state == "survived"] == []
    assert sum(v.proposed for v in reported) >= 0.85 * len(reported)
    for family, least in (("tcgen05.fence", 4), ("cta_group", 12)):
        assert len([v for v in reported if v.mutant.family == family]) >= least, family
    assert len(reported) >= 28


@pytest.mark.compiler
def test_the_kernel_stays_as_it_was() -> None:
    """A launch with replay makes programs from that of the mutant; none of them may stand in for the kernel's own afterwards."""
    tested = kernel("gl_mm_fp16")
    case = CASES["gl_mm_fp16"]("256x256x128")
    assert {v.state for v in judged("gl_mm_fp16", "practice")} >= {"reported"}
    ((_, out),) = case.outputs.items()
    result = tested.launch(**case.geometry(), args=[*case.args, *case.scratch()], policy="random", seed=3, keep_inputs=True)
    for index in ((0, 0), (0, 128), (255, 255)):
        assert result.provenance(out, index).after == out[index]
