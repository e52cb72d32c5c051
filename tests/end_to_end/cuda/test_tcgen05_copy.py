"""tcgen05.cp in every shape, with multicast and decompression, and tcgen05.shift, from ``tcgen05_copy.cu``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.end_to_end.schedule_helpers import Schedules

ROWS = 128
"""Rows of 128 bytes in shared memory."""
ROW = np.arange(128)
LANES = {
    "128x256b": ROW[:, None],
    "128x128b": ROW[:, None],
    "4x256b": 32 * np.arange(4)[:, None],
    "32x128b.warpx4": np.arange(32)[:, None] + 32 * np.arange(4),
    "64x128b.warpx2::02_13": np.arange(64)[:, None] + 64 * np.arange(2),
    "64x128b.warpx2::01_23": (64 * (np.arange(64) // 32) + np.arange(64) % 32)[:, None] + 32 * np.arange(2),
}
"""Shape -> the lanes to which each row goes."""
FORMATS = ("plain", "b6x16_p32", "b4x16_p64")


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(Path(__file__).with_name("tcgen05_copy.cu"), arch="sm_100a", fmad=False)


def run(
    group: int, numbers: list[int], image: NDArray[np.uint8], before: NDArray[np.uint32], schedule: dict[str, Any]
) -> NDArray[np.uint32]:
    after = np.zeros_like(before)
    kernel = module()["pair" if group == 2 else "one"]
    done = kernel.launch(grid=group, block=128, cluster=group, args=[*numbers, image, before, after], check="all", **schedule)
    assert not done.diagnostics, done.diagnostics[0]
    return after


def decompressed(rows: NDArray[np.uint8], form: str) -> NDArray[np.uint8]:
    """Slots of 16 bytes: the bits of 16 elements in front, then padding, become 16 bytes."""
    if form == "plain":
        return rows
    width = {"b6x16_p32": 6, "b4x16_p64": 4}[form]
    bits = np.unpackbits(rows.reshape(-1, 16)[:, : 2 * width], axis=1, bitorder="little").reshape(-1, 16, width)
    codes = np.packbits(bits, axis=2, bitorder="little")[..., 0]
    return (codes << 2 if width == 4 else codes).reshape(rows.shape)


@pytest.mark.parametrize("swizzled", [0, 1])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shape", LANES)
def test_copy(shape: str, group: int, swizzled: int, schedules: Schedules) -> None:
    rng = np.random.default_rng(3)
    lanes = LANES[shape]
    size = 32 if "256b" in shape else 16
    for i, form in enumerate(FORMATS):
        image = rng.integers(0, 256, (group, ROWS, 128), np.uint8)
        before = rng.integers(0, 1 << 32, (group, 128, 512), np.uint64).astype(np.uint32)
        column, lane = int(rng.integers(0, 500)), 31 if shape == "4x256b" else 0
        if swizzled:
            start = 32 * int(rng.integers(4))
            leading, stride, source = 16, 1024, image[:, : len(lanes), start : start + size]
        else:
            start, leading, stride = 256, 2304, 128
            row = np.arange(len(lanes))[:, None]
            byte = start + row % 8 * 16 + row // 8 * stride + np.arange(size) // 16 * leading + np.arange(size) % 16
            source = image.reshape(group, -1)[:, byte]
        numbers = [list(LANES).index(shape), FORMATS.index(form), lane << 16 | column, leading, stride, swizzled, start]
        expected = before.copy()
        words = np.ascontiguousarray(decompressed(np.ascontiguousarray(source), form)).view(np.uint32)
        for copy in range(lanes.shape[1]):
            expected[:, lanes[:, copy] + lane, column : column + size // 4] = words
        for schedule in schedules(i):
            assert np.array_equal(run(group, numbers, image, before, schedule), expected), form


@pytest.mark.parametrize("group", [1, 2])
def test_shift(group: int, schedules: Schedules) -> None:
    """Rows of 32 bytes go down by one in each 32 lanes, of which the last keeps its own: of all four (deduced, not measured)."""
    rng = np.random.default_rng(4)
    before = rng.integers(0, 1 << 32, (group, 128, 512), np.uint64).astype(np.uint32)
    expected = before.copy()
    rows = expected.reshape(group, 4, 32, 512)
    rows[:, :, :-1, 40:48] = before.reshape(group, 4, 32, 512)[:, :, 1:, 40:48]
    image = np.zeros((group, ROWS, 128), np.uint8)
    for schedule in schedules(0, 3):
        assert np.array_equal(run(group, [6, 0, 40, 16, 128, 0, 0], image, before, schedule), expected)
