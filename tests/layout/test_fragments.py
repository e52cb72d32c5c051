from __future__ import annotations

import numpy as np
import pytest

from ptxlab.layout import FRAGMENT_REGISTERS, fragment, wgmma_fragment

LANES = {"32x32b": 32, "16x64b": 16, "16x128b": 16, "16x256b": 16, "16x32bx2": 16}
BITS = {"32x32b": 32, "16x64b": 64, "16x128b": 128, "16x256b": 256, "16x32bx2": 32}


@pytest.mark.parametrize("shape", FRAGMENT_REGISTERS)
@pytest.mark.parametrize("num", [1, 2, 8, 32])
def test_a_fragment_covers_its_lanes_and_columns_once(shape: str, num: int) -> None:
    split = 64 if shape == "16x32bx2" else 0
    lane, column = fragment(shape, num, split=split)
    assert lane.shape == column.shape == (32, num * FRAGMENT_REGISTERS[shape])
    width = BITS[shape] // 32 * num
    starts = (0, 64) if split else (0,)
    expected = {(row, start + c) for row in range(LANES[shape]) for start in starts for c in range(width)}
    assert set(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True)) == expected
    assert lane.size == len(expected)


@pytest.mark.parametrize("shape", FRAGMENT_REGISTERS)
def test_packing_takes_pairs_of_columns(shape: str) -> None:
    plain, packed = fragment(shape, 4, split=5), fragment(shape, 4, pack=True, split=5)
    half = (np.arange(32)[:, None] >> 4) * 5 if shape == "16x32bx2" else 0
    assert np.array_equal(packed.lane, plain.lane)
    assert np.array_equal(packed.column - half, 2 * (plain.column - half))


def test_the_16x256b_fragment_is_that_of_mma_m16n8() -> None:
    """Matrix Fragments for mma.m16n8k16: row groupID or groupID + 8, column threadID_in_group * 2 + (i & 1)."""
    lane, column = fragment("16x256b", 1)
    for t in range(32):
        for i in range(4):
            assert lane[t, i] == t // 4 + (8 if i >= 2 else 0)
            assert column[t, i] == t % 4 * 2 + (i & 1)


@pytest.mark.parametrize("n", [8, 16, 24, 256])
def test_the_wgmma_fragment_repeats_that_fragment_in_every_warp(n: int) -> None:
    row, column = wgmma_fragment(n)
    lane, cell = fragment("16x256b", n // 8)
    for warp in range(4):
        assert np.array_equal(row[32 * warp : 32 * warp + 32], lane + 16 * warp)
        assert np.array_equal(column[32 * warp : 32 * warp + 32], cell)


def test_an_unknown_shape() -> None:
    with pytest.raises(ValueError, match=r"tcgen05.ld has no shape \.8x8b; the shapes are 32x32b, "):
        fragment("8x8b")
