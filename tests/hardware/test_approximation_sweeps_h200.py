"""Approximate instructions against an H200: a sum over the results of every block of operands, recorded by `record_approximations`.

All 2**32 operands of each f32 form take about ten minutes: ``python -m pytest tests/hardware/test_approximation_sweeps_h200.py -m slow``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab

from .approximation_sweeps import SWEEPS, THREADS, Sweep

SHOWS = {
    "test_blocks": (
        "cos.approx*", "div.approx*", "div.full*", "ex2.approx*", "lg2.approx*", "rcp.approx*", "rsqrt.approx*", "sin.approx*",
        "sqrt.approx*", "tanh.approx*",
    ),
}  # fmt: skip

BLOCKS = (0, 8, 990, 1012, 1016, 1023, 1031, 1050, 2039, 2040, 2048, 2056, 3060, 3064, 3078, 4088)
"""Of 4,096 blocks of f32: zero and subnormals, the least normal numbers, around 1, the largest, infinity and NaN, with both signs."""


@cache
def record() -> dict[str, NDArray[Any]]:
    with np.load(Path(__file__).with_name("approximations_h200.npz")) as data:
        return dict(data)


def wrong(sweep: Sweep, blocks: Sequence[range]) -> list[int]:
    """The blocks whose sums differ; each range is one launch."""
    kernel = ptxlab.loads(sweep.text).kernel()
    found = []
    for some in blocks:
        sums = np.zeros(len(some), np.uint64)
        assert kernel.launch(grid=len(some), block=THREADS, args=[sums, some.start], check="none").ok
        found += [some[i] for i in np.flatnonzero(sums.astype(np.uint32) != record()[sweep.opcode][some.start : some.stop])]
    return found


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.opcode)
def test_blocks(sweep: Sweep) -> None:
    """A part of the operands of a word; all of the 16-bit forms, and ten million of the forms with several words."""
    some = [range(block, block + 1) for block in BLOCKS]
    if sweep.blocks < 4096:
        some = [range(10 if sweep.size == 1 << 20 else sweep.blocks)]
    assert wrong(sweep, some) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sweep", [sweep for sweep in SWEEPS if sweep.size == 1 << 20], ids=lambda sweep: sweep.opcode)
def test_every_block(sweep: Sweep) -> None:
    assert wrong(sweep, [range(first, first + 64) for first in range(0, sweep.blocks, 64)]) == []


def test_a_wrong_bit_shows() -> None:
    """A block in which every two operands are exchanged has another sum."""
    sweep = SWEEPS[0]
    exchanged = replace(sweep, operands=f"{sweep.operands}\n  xor.b32 %a, %a, 1;")
    assert wrong(exchanged, [range(1016, 1017)]) == [1016]
