"""tile::gather4 and tile::scatter4 against indexing in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.isa.bulk.bulk_helpers import DUMP, EXPECT, FILL, INIT, SIZE, WAIT, ZERO, kernel
from tests.isa.bulk.test_copies import SOURCE, run

SHOWS = {
    "test_gather": ("cp.async.bulk.tensor.2d.*gather4.mbarrier::complete_tx::bytes{*cta_group::2}*",),
    "test_scatter": ("cp.async.bulk.tensor.2d.*scatter4.bulk_group*",),
}

MODES = [("none", 16, 0), ("64B", 32, 2), ("128B", 64, 3)]
"""Swizzling, columns of 16-bit elements, bits of the XOR."""


def place(row: int, byte: int, width: int, bits: int) -> int:
    """Offset in shared memory, whose buffer stands at a multiple of 1024."""
    linear = row * width + byte
    return linear ^ (linear >> 7 & ((1 << bits) - 1)) << 4


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("swizzle", "columns", "bits"), MODES)
def test_gather(policy, swizzle, columns, bits):
    tensor = np.random.default_rng(1).integers(1, 1 << 16, (50, 96), np.uint16)
    tensor_map = ptxlab.TensorMap(tensor, box=(columns, 1), swizzle=swizzle)
    rows = (7, 49, 0, -3)
    text = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [dst], [m, {c0, c1, c2, c3, c4}], [bar];"
    body = ZERO + INIT + EXPECT + "@p " + text + WAIT + DUMP
    out = run(body, tensor_map=tensor_map, coordinates=(8, *rows), size=8 * columns, policy=policy)
    expected = np.full(SIZE, 0xEE, np.uint8)
    for i, row in enumerate(rows):
        values = tensor[row, 8 : 8 + columns] if 0 <= row < 50 else np.zeros(columns, np.uint16)
        for byte, value in enumerate(values.view(np.uint8)):
            expected[place(i, byte, 2 * columns, bits)] = value
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(("swizzle", "columns", "bits"), MODES)
def test_scatter(swizzle, columns, bits):
    tensor = np.zeros((50, 96), np.uint16)
    rows = (7, 49, 0, 60)
    text = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m, {c0, c1, c2, c3, c4}], [dst];"
    body = FILL + "fence.proxy.async;\nbar.sync 0;\n@p " + text + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    run(body, tensor_map=ptxlab.TensorMap(tensor, box=(columns, 1), swizzle=swizzle), coordinates=(8, *rows))
    expected = np.zeros_like(tensor)
    for i, row in enumerate(rows[:3]):
        source = np.array([SOURCE[place(i, byte, 2 * columns, bits)] for byte in range(2 * columns)], np.uint8)
        expected[row, 8 : 8 + columns] = source.view(np.uint16)
    assert np.array_equal(tensor, expected)


def test_a_box_of_more_rows_is_refused():
    tensor = np.zeros((50, 96), np.uint16)
    tensor_map = ptxlab.TensorMap(tensor, box=(16, 2))
    text = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [dst], [m, {c0, c1, c2, c3, c4}], [bar];"
    result = kernel(INIT + "@p " + text).launch(grid=1, block=128, args=[tensor_map, SOURCE, np.zeros(SIZE, np.uint8), 0, 0, 0, 0, 0, 0])
    assert [d.code for d in result.diagnostics] == ["D723"]


PADDED = [("b4x16_p64", 8), ("b6x16_p32", 12)]
"""Element types, bytes of data in each slot of 16."""


@pytest.mark.parametrize("mode", ["tile", "tile::gather4"])
@pytest.mark.parametrize(("element", "data"), PADDED)
def test_padding_is_no_part_of_the_transaction(element, data, mode):
    """CUTLASS and Triton announce the bits of the elements: 4 or 6 each, without the padding in shared memory."""
    tensor = np.random.default_rng(2).integers(1, 256, (16, 32 * data), np.uint8)
    gather = mode == "tile::gather4"
    tensor_map = ptxlab.TensorMap(
        tensor, box=(128, 1 if gather else 4), dims=(512, 16), strides=(32 * data,), swizzle="128B", dtype=element
    )
    rows, columns = ((3, 9, 0, 4), "c0, c1, c2, c3, c4") if gather else ((5, 6, 7, 8), "c0, c1")
    text = f"@p cp.async.bulk.tensor.2d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes [dst], [m, {{{columns}}}], [bar];\n"
    at = (128, *rows) if gather else (128, rows[0])
    out = run(ZERO + INIT + EXPECT + text + WAIT + DUMP, tensor_map=tensor_map, coordinates=at, size=4 * 8 * data)
    expected = np.full(SIZE, 0xEE, np.uint8)
    for i, row in enumerate(rows):
        for slot in range(8):
            filled = np.zeros(16, np.uint8)
            filled[:data] = tensor[row, (8 + slot) * data :][:data]
            start = place(i, 16 * slot, 128, 3)
            expected[start : start + 16] = filled
    assert np.array_equal(out, expected)
