"""The rules of the data flow: on the kernels with one mistake, on their right twins, and on all compiled kernels of the repository."""

from __future__ import annotations

import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import ptxlab
from ptxlab.check import lint_module
from ptxlab.diagnostics import Diagnostic
from tests.check.static.dataflow_kernels.kernels import MISTAKES
from tests.check.static.dataflow_kernels.launches import LAUNCHES, base_text
from tests.check.static.dataflow_kernels.mistake import Mistake
from tests.hardware.test_whole_kernels_h200 import IN_FLIGHT

REPOSITORY = Path(__file__).parents[3]
UNREPORTED = (Path(__file__).parent / "dataflow_kernels" / "unreported.txt").read_text().splitlines()
"""The names of the mistakes that the text does not show to the rules."""
TEMPLATE = "tests/check/race/gemm.ptx"
"""It has placeholders."""


@cache
def found_in(base: str) -> Counter[tuple[str, str]]:
    return Counter((d.code, d.message) for d in lint_module(base_text(base), base, None, None))


def reported(mistake: Mistake) -> list[Diagnostic]:
    """What lint says about a mistake at one of its lines, and not about its twin."""
    found = lint_module(mistake.text, mistake.name, None, None)
    known = found_in(mistake.base)
    return [d for d in found if d.place is not None and d.place.line in mistake.lines and (d.code, d.message) not in known]


@pytest.mark.parametrize("base", LAUNCHES)
def test_right_kernels_have_no_findings(base: str) -> None:
    assert not found_in(base)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "_"))
def test_mistakes(mistake: Mistake) -> None:
    found = reported(mistake)
    assert bool(found) == (mistake.name not in UNREPORTED)
    assert all(d.fix for d in found if d.severity != "note")
    if mistake.severity == "note":
        assert {d.severity for d in found} <= {"note"}
    elif mistake.severity == "warning":
        assert "error" not in {d.severity for d in found}


def compiled() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.ptx"], cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.split()
    return [name for name in listed if name != TEMPLATE]


@pytest.mark.parametrize("name", compiled())
def test_kernels_of_the_repository_have_no_findings(name: str) -> None:
    """Only wgmma kernels whose accumulators are read in flight, which a run reports as well."""
    allowed = {"R805"} if any(known.endswith(Path(name).stem) for known in IN_FLIGHT) else set()
    found = lint_module((REPOSITORY / name).read_text(), name, None, None)
    assert {(d.code, d.message) for d in found if d.severity != "note" and d.code not in allowed} == set()


ARRIVALS = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b32 %r<4>;
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, bar;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
  bar.sync 0;
FIRST
  mov.u32 %r2, 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
  END
MORE:
  @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 3;
  @%p2 bra MORE;
  ret;
}
"""
ARRIVE = "  @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];"


def waiting(first: str, end: str, block: int = 32) -> tuple[list[tuple[str, str, int]], list[str]]:
    """What lint finds, and the codes of errors of a run."""
    text = ARRIVALS.replace("FIRST", first).replace("END", end)
    lint = [
        (d.code, d.severity, d.place.line) for d in lint_module(text, "k.ptx", None, None) if d.place is not None and d.severity != "note"
    ]
    result = ptxlab.loads(text).kernel().launch(block=block, args=[0], max_instructions=10_000)
    return lint, [d.code for d in result.diagnostics if d.severity == "error"]


@pytest.mark.parametrize("end", ["@!%p1 bra WAIT;", "@%p1 bra MORE;\n  bra WAIT;"])
def test_arrivals_that_stand_behind_the_wait_for_them(end: str) -> None:
    """All that arrives on the mbarrier is executed by threads that have passed the wait for its first phase."""
    assert waiting("", end) == ([("H601", "error", 18)], ["H601"])
    assert waiting(ARRIVE, end) == ([], [])


def test_a_wait_that_is_not_repeated_lets_threads_pass() -> None:
    assert waiting("", "@!%p1 bra MORE;") == ([], [])


def test_an_arrival_before_the_wait_in_other_threads() -> None:
    """Only the second warp arrives, and does not wait before."""
    first = "  setp.lt.u32 %p3, %r0, 32;\n  mov.u32 %r2, 0;\n  setp.eq.u32 %p0, %r0, 32;\n  @!%p3 bra MORE;"
    assert waiting(first, "@!%p1 bra WAIT;", block=64) == ([], [])


def test_the_data_flow_can_be_left_out() -> None:
    text = next(mistake.text for mistake in MISTAKES if mistake.name == "never released")
    assert "T605" in {d.code for d in ptxlab.lint(text)}
    assert ptxlab.lint(text, dataflow=False) == []
