"""Wavefronts of copies and of matrix operands, counted by the banks of each byte."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.isa.operations import MemoryAccess
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.layout import PlacedOperand
from ptxlab.profile.counters.wavefronts import copy_wavefronts, operand_wavefronts
from tests.machine.product_kernels import WARPGROUP
from tests.profile.test_kernels import MULTICAST, profile

BASE = 1 << 20


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 400)), min_size=1, max_size=20))
def test_lines_of_copies(ranges: list[tuple[int, int]]) -> None:
    """Ranges may overlap, and may be empty; one lies elsewhere."""
    given = [*((BASE + start, size) for start, size in ranges), (BASE + 4096, 128)]
    access = MemoryAccess(np.array([s for s, _ in given], np.uint64), np.array([n for _, n in given], np.uint32), write=True)
    lines = {byte // 128 for start, size in ranges for byte in range(start, start + size)}
    assert copy_wavefronts(access, BASE, 4096) == len(lines)


def _operand(chunks: Any, major: str = "k") -> MatrixOperand:
    placed: Any = None
    return MatrixOperand("A", placed, chunks, major, "f16", 16, 1, SharedMemoryDescriptor())  # type: ignore[arg-type]


def _by_banks(chunks: Any) -> int:
    total = 0
    for first in range(0, len(chunks), 8):
        for column in chunks[first : first + 8].T:
            wanted = defaultdict(set)
            for chunk in column.tolist():
                wanted[chunk * 16 % 128].add(chunk)
            total += max(map(len, wanted.values()))
    return total


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 64), st.integers(0, 1000))
def test_core_matrices_of_any_chunks(rows: int, columns: int, most: int, seed: int) -> None:
    chunks = np.random.default_rng(seed).integers(0, most, (rows, columns))
    assert operand_wavefronts(_operand(chunks)) == _by_banks(chunks)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_canonical_layouts_have_no_conflicts(swizzle: str, major: str) -> None:
    """64 rows of 16 elements of 2 bytes are 16 times 128 bytes."""
    descriptor = SharedMemoryDescriptor(start=1024, leading=2048, stride=1024, swizzle=swizzle)
    placed = PlacedOperand.of(descriptor, major, 64, 16, 2)  # type: ignore[arg-type]
    assert operand_wavefronts(_operand(placed.chunks, major)) == _by_banks(placed.chunks) == 16


def test_wavefronts_of_a_warpgroup() -> None:
    """A has 2048 bytes and B 256; the copies bring them, and the product reads them once."""
    args = [np.ones((64, 16), np.float16), np.ones((8, 16), np.float16), np.zeros((128, 4), np.float32)]
    totals = profile(WARPGROUP, block=128, args=args).totals
    assert (totals.copy_wavefronts, totals.operand_wavefronts) == (16 + 2, 16 + 2)


def test_a_multicast_copy_writes_in_each_cta() -> None:
    """512 bytes in eight CTAs, of which each copies 256 bytes back."""
    assert profile(MULTICAST, grid=8, block=32, cluster=4, args=[np.zeros(512, np.uint8)]).totals.copy_wavefronts == 8 * (4 + 2)
