"""wgmma in every type, A from shared memory and registers, transposed and negated operands: ``wgmma_gemm.cu``, compiled here."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import ptxlab
from ptxlab.interop import nvcc
from tests.end_to_end.cuda.wgmma_cases import SOURCE, TILES, Gemm, gemms
from tests.end_to_end.schedule_helpers import Schedules
from tests.sweep_helpers import part


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(SOURCE, arch="sm_90a", fmad=False)


def of_part(number: int, gemm: Gemm) -> bool:
    """Each pair of types: with A in shared memory or in registers, in turn."""
    return number % 2 == number // 2 % 2 or "MNMajor" in (gemm.a_source, gemm.b_source)


@pytest.mark.parametrize(("number", "gemm"), part(enumerate(gemms()), of_part), ids=lambda g: getattr(g, "name", ""))
def test_gemm(number: int, gemm: Gemm, schedules: Schedules) -> None:
    """In turn, under another schedule than the records of `tests/hardware`."""
    for schedule in schedules(number + 1):
        args = gemm.arguments()
        done = module()[gemm.name].launch(grid=TILES, block=256, args=args, check="all", **schedule)
        assert not done.diagnostics
        assert np.array_equal(args[2], gemm.expected())


@pytest.mark.parametrize("gemm", gemms()[:2], ids=lambda gemm: gemm.name)
def test_without_aligned(gemm: Gemm) -> None:
    """As the assembler takes it."""
    text = re.sub(r"(wgmma\.\w+(?:\.sp)?\.sync)\.aligned", r"\1", nvcc.ptx(SOURCE, arch="sm_90a", fmad=False))
    assert "wgmma.wait_group.sync 0;" in text
    args = gemm.arguments()
    done = ptxlab.loads(text)[gemm.name].launch(grid=TILES, block=256, args=args, check="all")
    assert not done.diagnostics
    assert np.array_equal(args[2], gemm.expected())
