from __future__ import annotations

import numpy as np
import pytest

from ptxlab.layout import a_location, accumulator_location, copy_destination, data_path_lanes, decompression
from ptxlab.tables import DATA_PATHS, SHAPES

COMBINATIONS = sorted(
    {
        (m, n, group, ws, sparse)
        for (_, ws, group, sparse), shapes in SHAPES.items()
        for m in shapes.m
        for n in (shapes.n[0], shapes.n[-1], 128)
    }
)


@pytest.mark.parametrize(("m", "n", "group", "ws", "sparse"), COMBINATIONS)
def test_every_element_has_a_cell_of_its_own(m: int, n: int, group: int, ws: bool, sparse: bool) -> None:
    cta, lane, column = accumulator_location(m, n, group, ws, sparse)
    assert cta.shape == lane.shape == column.shape == (m, n)
    assert cta.max() == group - 1
    assert 0 <= lane.min() <= lane.max() < 128
    cells = (cta * 128 + lane) * 512 + column
    assert len(np.unique(cells)) == m * n
    banks = DATA_PATHS[m, group, ws, sparse].banks
    assert column.max() == n // banks - 1


@pytest.mark.parametrize(
    ("arguments", "m", "n", "expected"),
    [
        # Data Path Layout Organization: one element of each layout, from its formula.
        ((256, 64, 2), 200, 5, (1, 72, 5)),
        ((128, 64, 2), 70, 40, (1, 70, 8)),
        ((128, 64, 2, False, True), 100, 40, (1, 68, 40)),
        ((128, 64, 1), 77, 9, (0, 77, 9)),
        ((64, 128, 1, True), 10, 100, (0, 74, 36)),
        ((64, 128, 1), 40, 100, (0, 72, 100)),
        ((32, 128, 1, True), 10, 100, (0, 106, 4)),
    ],
)
def test_one_element_of_each_layout(arguments: tuple[int, ...], m: int, n: int, expected: tuple[int, int, int]) -> None:
    assert tuple(int(part[m, n]) for part in accumulator_location(*arguments)) == expected


def test_the_upper_half_of_layout_f() -> None:
    low, high = accumulator_location(64, 64), accumulator_location(64, 64, lane=16)
    assert np.array_equal(high.lane, low.lane + 16)
    assert set(np.unique(np.concatenate([low.lane, high.lane]))) == set(range(128))


def test_a_stands_at_the_lanes_of_its_rows_once_per_bank() -> None:
    for m, group, ws, sparse in DATA_PATHS:
        d, a = accumulator_location(m, 128, group, ws, sparse), a_location(m, 64, 8, group, ws, sparse)
        path = DATA_PATHS[m, group, ws, sparse]
        assert a.lane.shape == (path.banks, m, 64)
        for bank in range(path.banks):
            assert np.array_equal(a.lane[bank, :, 0], d.lane[:, bank * 128 // path.banks])
            assert np.array_equal(a.cta[bank, :, 0], d.cta[:, 0])


@pytest.mark.parametrize("bits", [4, 8, 16, 32])
def test_a_is_packed_along_the_columns(bits: int) -> None:
    a = a_location(128, 256 // bits, bits)
    assert (a.column[0, 3] * 32 + a.bit[0, 3]).tolist() == list(range(0, 256, bits))


def test_lanes_of_the_data_paths_are_not_to_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        data_path_lanes(128)[0, 0] = 1


@pytest.mark.parametrize(
    ("shape", "multicast", "copies", "columns"),
    [
        ("128x256b", "", 1, 8),
        ("128x128b", "", 1, 4),
        ("4x256b", "", 1, 8),
        ("32x128b", "warpx4", 4, 4),
        ("64x128b", "warpx2::02_13", 2, 4),
        ("64x128b", "warpx2::01_23", 2, 4),
    ],
)
def test_destinations_of_copies(shape: str, multicast: str, copies: int, columns: int) -> None:
    found = copy_destination(shape, multicast)
    rows = int(shape.split("x")[0])
    assert found.lanes.shape == (rows, copies)
    assert found.columns == columns
    assert len(np.unique(found.lanes)) == rows * copies
    if multicast.startswith("warpx2"):
        # The name says which warps get the first and the second 32 rows.
        for part, warps in enumerate(multicast[-5:].split("_")):
            assert {int(lane) // 32 for lane in found.lanes[32 * part : 32 * part + 32].ravel()} == {int(warp) for warp in warps}


def test_shapes_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"tcgen05.cp has no shape \.64x128b"):
        copy_destination("64x128b")
    with pytest.raises(ValueError, match="no data path layout for M = 64, cta_group::2"):
        accumulator_location(64, 64, 2)


def test_decompression_against_whole_integers() -> None:
    """A slot as one little-endian number: its elements, in their containers."""
    rng = np.random.default_rng(5)
    for name, bits, low in (("b4x16_p64", 4, 2), ("b6x16_p32", 6, 0)):
        found = decompression(name)
        codes = [int(x) for x in rng.integers(0, 1 << bits, 16)]
        slot = sum(code << bits * i for i, code in enumerate(codes))
        assert [slot >> int(s) & ((1 << bits) - 1) for s in found.source] == codes
        made = sum(code << int(d) for code, d in zip(codes, found.destination, strict=True))
        assert list(made.to_bytes(16, "little")) == [code << low for code in codes]
        assert found.bits == bits
