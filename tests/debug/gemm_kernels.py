"""Launches of compiled kernels, of one cluster of CTAs each, for tests of the debugger."""

from __future__ import annotations

from typing import Any

from ptxlab.machine import Replay
from tests.end_to_end.triton.case_helpers import kernel
from tests.end_to_end.triton.cases import CASES
from tests.end_to_end.triton_sm90.cases import CASES as CASES_SM90

__all__ = ["NAMES", "compiled"]

ALL = {**CASES, **CASES_SM90}
NAMES = tuple(name for name in ALL if "elementary" not in name and "convert" not in name)
"""Kernels that take less than a second in the NumPy back end."""


def compiled(name: str, **options: Any) -> Replay:
    """The launch of the smallest case of a kernel, but only its first cluster."""
    family = ALL[name]
    case = family(next(iter(family.sizes)))
    replay: Replay = kernel(name).prepare(**case.geometry(), args=[*case.args, *case.scratch()], only=[(0, 0, 0)], **options)
    return replay
