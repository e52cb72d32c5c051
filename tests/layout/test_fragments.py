from __future__ import annotations

import numpy as np
import pytest

from ptxlab.layout import fragment, matrix_fragment, wgmma_a_fragment, wgmma_fragment
from ptxlab.tables import FRAGMENT_REGISTERS, LOAD_REGISTERS
from tests.tables.specification_helpers import TENSOR_CELLS

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


@pytest.mark.parametrize(("shape", "num"), LOAD_REGISTERS)
def test_every_register_stands_where_the_figures_show_it(shape: str, num: int) -> None:
    for pack, split in ((False, 0), (True, 0), (False, 37), (True, 37)):
        lane, column = fragment(shape, num, pack, split)
        for t in range(32):
            for r in range(LOAD_REGISTERS[shape, num]):
                row, plain = TENSOR_CELLS[shape](t, r, 0)
                moved = TENSOR_CELLS[shape](t, r, split)[1] - plain
                assert (lane[t, r], column[t, r]) == (row, plain * (1 + pack) + moved)


def test_the_wgmma_fragments_of_the_figures() -> None:
    d = wgmma_fragment(256)
    for t in range(128):
        for v in range(128):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (v // 2 % 2)
            assert (d.row[t, v], d.column[t, v]) == (row, 8 * (v // 4) + 2 * (t % 4) + v % 2)
    for bits in (8, 16, 32):
        a, each = wgmma_a_fragment(bits), 32 // bits
        for t in range(128):
            for v in range(4 * each):
                row = 16 * (t // 32) + t % 32 // 4 + 8 * (v // each % 2)
                assert (a.row[t, v], a.column[t, v]) == (row, each * (t % 4) + v % each + 4 * each * (v // each // 2))


def test_the_fragments_of_ldmatrix_and_stmatrix() -> None:
    """Rows and elements by the figures of the two sections: of 16 bits, and of 8 bits for .m8n16, .m16n16 and .m16n8."""
    for t in range(32):
        group, quarter = t // 4, t % 4
        for r, part in np.ndindex(4, 2):
            row, column = 8 * r + group, 2 * quarter + part
            assert_cell("ldmatrix m8n8", t, 2 * r + part, row, column)
            assert_cell("ldmatrix m8n8.trans", t, 2 * r + part, 8 * r + column, group)
        for r, part in np.ndindex(4, 4):
            assert_cell("ldmatrix m8n16", t, 4 * r + part, 8 * r + group, 4 * quarter + part)
            assert_cell("ldmatrix m16n16.trans", t, 4 * r + part, 16 * (r // 2) + 4 * quarter + part, group + 8 * (r % 2))
            assert_cell("stmatrix m16n8.trans", t, 4 * r + part, 8 * r + 2 * quarter + part % 2, group + 8 * (part // 2))


def assert_cell(name: str, thread: int, value: int, row: int, column: int) -> None:
    at = matrix_fragment(name, n=4)
    assert (at.row[thread, value], at.column[thread, value]) == (row, column), (name, thread, value)


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
