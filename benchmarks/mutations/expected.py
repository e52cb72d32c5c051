"""Findings of kernels as they stand, without any mutation: each with the reason why the kernel is mutated all the same.

A kernel with findings that are not listed here is no subject of the benchmark, and neither is one without a finding that is listed. The
lines are those of the PTX that is launched, under ``spec`` with the inserted tcgen05.fence and tcgen05.wait::ld. Those of CuTe kernels
depend on the version of the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["EXPECTED", "NOTHING", "Expected"]


@dataclass(frozen=True)
class Expected:
    """What is found in a kernel as it stands, as (code, line of the instruction), and why this is right."""

    findings: frozenset[tuple[str, int]]
    reason: str


NOTHING = Expected(frozenset(), "")


def _at(codes: Iterable[str], lines: Iterable[int], reason: str) -> Expected:
    listed = tuple(lines)
    return Expected(frozenset((code, line) for code in codes for line in listed), reason)


_COPIED_AGAIN = """A tcgen05.cp overwrites scale factors that the tcgen05.cp of the step before has written (X105) and that a
tcgen05.mma of that step reads (X106). The same thread issues them. Section "Pipelined tcgen05 Instructions" does not list these pairs; in
practice they execute in the order of issue."""

_SAME_BITS = """All warps store one constant to shared memory, for the warps of another partition, and nothing orders these
stores. In practice the result does not depend on the order; the letter makes no difference between the same and different bits."""

EXPECTED: dict[tuple[str, str], Expected] = {
    ("gl_mm_2cta_fp16", "spec"): _at(
        ["X101"],
        [364],
        """All warps wait for the last phase of an mbarrier, and one of them ends it with mbarrier.inval: no barrier stands between that
        and the waits of the others.""",
    ),
    ("mm_persistent_ws_fp16", "spec"): _at(["X101"], [654, 655, 1223], _SAME_BITS),
    ("flash_ws_fp16", "spec"): _at(["X101"], [362, 2727], _SAME_BITS),
    ("cute_scaled_mxf8", "spec"): _at(["X105", "X106"], [771, 783], _COPIED_AGAIN),
    ("cute_scaled_nvf4", "spec"): _at(["X105", "X106"], [482, 491, 500, 509, 521, 530, 539, 548], _COPIED_AGAIN),
}
"""By the name of the kernel and the model of ordering."""
