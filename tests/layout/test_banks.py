from __future__ import annotations

import numpy as np
import pytest

from ptxlab.descriptors import OperandTile
from ptxlab.layout import bank_conflicts, matrix_rows


@pytest.mark.parametrize(
    ("stride", "size", "ways"),
    [
        (4, 4, (1,)),
        (8, 4, (2,)),
        (128, 4, (32,)),
        (0, 4, (1,)),
        (8, 8, (1, 1)),
        (16, 16, (1,) * 4),
        (32, 16, (2,) * 4),
        (1, 1, (1,)),
        (132, 4, (1,)),
    ],
)
def test_strided_accesses(stride: int, size: int, ways: tuple[int, ...]) -> None:
    found = bank_conflicts(np.arange(32) * stride, size)
    assert found.ways == ways
    assert found.wavefronts == sum(ways)
    assert found.free == (max(ways) == 1)


@pytest.mark.parametrize(("swizzle", "ways"), [("none", 1), ("32B", 1), ("64B", 1), ("128B", 1)])
def test_ldmatrix_of_swizzled_tiles_is_free(swizzle: str, ways: int) -> None:
    tile = OperandTile(64, 64, "f16", swizzle=swizzle)
    for column in range(0, 64, 8):
        assert bank_conflicts(matrix_rows(tile.addresses(), 0, column), 16).ways == (ways,) * 4


def test_ldmatrix_of_rows_without_swizzle_conflicts() -> None:
    rows = np.arange(64)[:, None] * 128 + np.arange(64)[None, :] * 2
    assert bank_conflicts(matrix_rows(rows, 0, 0), 16).ways == (8,) * 4
    padded = np.arange(64)[:, None] * 144 + np.arange(64)[None, :] * 2
    assert bank_conflicts(matrix_rows(padded, 0, 0), 16).free


def test_sizes() -> None:
    with pytest.raises(ValueError, match="an access of 12 bytes"):
        bank_conflicts(np.arange(32), 12)
