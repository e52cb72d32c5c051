"""tcgen05.ld, st and ld.red in every shape, from ``tcgen05_transfer.cu``; where each register stands is written out here once more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab.interop import nvcc
from tests.end_to_end.schedule_helpers import Schedules

FOLDER = Path(__file__).parent
SPLIT = 256
"""Columns between the halves of .16x32bx2."""
MOST = 128
FORM = re.compile(r'(LOAD|STORE|REDUCE)\("(\w+)\.x(\d+)([^"]*)", (\d+)')
FORMS = [
    (number, *match.groups())
    for number, line in enumerate((FOLDER / "tcgen05_transfers.inc").read_text().splitlines(), 1)
    if (match := FORM.match(line))
]
SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")


@cache
def module() -> ptxlab.Module:
    return nvcc.compile(FOLDER / "tcgen05_transfer.cu", arch="sm_103a", fmad=False)


def register_places(shape: str, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Lane and column of each register of each thread [32, count], and the columns to add for the second half."""
    t, r = np.meshgrid(np.arange(32), np.arange(count), indexing="ij")
    zero = 0 * t
    return {
        "32x32b": (t, r, zero),
        "16x64b": (t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2, zero),
        "16x128b": (t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4, zero),
        "16x256b": (t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2, zero),
        "16x32bx2": (t % 16, r, SPLIT * (t // 16)),
    }[shape]


def columns_of(shape: str, count: int, packed: bool) -> int:
    _, column, half = register_places(shape, count)
    return int(((column * 2 + 1 if packed else column) + half).max()) + 1


def run(
    form: int, place: int, before: NDArray[np.uint32], given: NDArray[np.uint32], schedules: Sequence[dict[str, Any]]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Registers and tensor memory afterwards, the same under all schedules."""
    results = []
    for schedule in schedules:
        found, after = np.zeros((128, MOST + 1), np.uint32), np.zeros_like(before)
        done = module()["transfer"].launch(grid=1, block=128, args=[form, place, before, given, found, after], check="all", **schedule)
        assert not done.diagnostics, done.diagnostics[0]
        results.append((found, after))
    assert all(np.array_equal(*pair) for other in results[1:] for pair in zip(results[0], other, strict=True))
    return results[0]


def cells(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    return rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["LOAD", "STORE"])
def test_moves(way: str, shape: str, schedules: Schedules) -> None:
    rng = np.random.default_rng(1)
    for i, (form, kind, name, _, tail, text) in enumerate(FORMS):
        count, packed = int(text), "pack" in tail
        if kind != way or name != shape or columns_of(shape, count, packed) > 512:
            continue
        lane, column, half = register_places(shape, count)
        start = int(rng.integers(0, 513 - columns_of(shape, count, packed)))
        inner = 0 if shape == "32x32b" else 16 * int(rng.integers(2))
        before, given = cells(rng, (128, 512)), cells(rng, (128, MOST))
        found, after = run(form, inner << 16 | start, before, given, schedules(i))
        at = (np.arange(0, 128, 32)[:, None, None] + inner + lane).reshape(128, count)
        low = np.tile(start + column * (2 if packed else 1) + half, (4, 1))
        values = found[:, :count] if way == "LOAD" else given[:, :count]
        expected = before.copy()
        if way == "LOAD":
            wanted = before[at, low] if not packed else before[at, low] & 0xFFFF | before[at, low + 1] << 16
            assert np.array_equal(values, wanted), tail
        elif packed:
            expected[at, low] = before[at, low] & 0xFFFF0000 | values & 0xFFFF
            expected[at, low + 1] = before[at, low + 1] & 0xFFFF0000 | values >> 16
        else:
            expected[at, low] = values
        assert np.array_equal(after, expected), tail


def reduced(words: NDArray[np.uint32], operation: str) -> NDArray[np.uint32]:
    """min or max of the rows. NaN: only where .NaN and one is, or where all are."""
    name, *flags, kind = operation.strip(".").split(".")
    if kind != "f32":
        typed = words.view(np.int32 if kind == "s32" else np.uint32)
        return (typed.max(axis=1) if name == "max" else typed.min(axis=1)).view(np.uint32)
    values = words.view(np.float32)
    if "abs" in flags:
        values = np.abs(values)
    best = (np.fmax if name == "max" else np.fmin).reduce(values, axis=1)
    lost = np.isnan(values).any(axis=1) if "NaN" in flags else np.isnan(best)
    return np.where(lost, np.uint32(0x7FFFFFFF), best.view(np.uint32))


@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
def test_loads_that_reduce(shape: str, schedules: Schedules) -> None:
    rng = np.random.default_rng(2)
    for i, (form, kind, name, _, tail, text) in enumerate(FORMS):
        if kind != "REDUCE" or name != shape:
            continue
        count = int(text)
        before = cells(rng, (128, 512))
        if tail.endswith("f32"):
            before = rng.standard_normal((128, 512)).astype(np.float32).view(np.uint32)
            before[rng.random(before.shape) < 0.1] = 0x7FC00001
            before[64:70] = 0x7FC00001
        start = 100 if shape == "32x32b" else 0
        found, after = run(form, start, before, np.zeros((128, MOST), np.uint32), schedules(i))
        lane, column, half = register_places(shape, count)
        at = (np.arange(0, 128, 32)[:, None, None] + lane).reshape(128, count)
        words = before[at, np.tile(start + column + half, (4, 1))]
        assert np.array_equal(found[:, :count], words), tail
        assert np.array_equal(found[:, MOST], reduced(words, tail)), tail
        assert np.array_equal(after, before), tail
