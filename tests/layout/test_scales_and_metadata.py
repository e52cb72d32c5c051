"""Scale factors, sparsity metadata, zero columns, and what each CTA of a pair keeps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ptxlab.descriptors import SharedMemoryDescriptor, ZeroColumnMask
from ptxlab.layout import (
    SCALE_TILE_BYTES,
    accumulator_location,
    copy_destination,
    metadata_chunks,
    metadata_location,
    metadata_positions,
    operand_addresses,
    pair_ownership,
    scale_factor_location,
    scale_factor_offset,
    wgmma_a_fragment,
    wgmma_fragment,
    zero_column_mask,
)
from ptxlab.tables import SCALE_IDS, SHAPES


@pytest.mark.parametrize("rows", [128, 256])
def test_a_copy_of_tiles_puts_scale_factors_where_the_instruction_reads_them(rows: int) -> None:
    """Tiles in memory -> tcgen05.cp.32x128b.warpx4 -> the columns of the formula, byte for byte."""
    scales = 8
    offsets = scale_factor_offset(rows, scales)
    assert sorted(offsets.reshape(-1)) == list(range(rows * scales))
    memory = np.zeros(rows * scales, np.int64)
    memory[offsets] = np.arange(rows * scales).reshape(rows, scales)
    tensor = np.full((128, 64, 4), -1)
    cp = copy_destination("32x128b", "warpx4")
    for tile in range(rows // 128 * (scales // 4)):
        d = SharedMemoryDescriptor(tile * SCALE_TILE_BYTES, 16, 128)
        source = operand_addresses(d, 32, 4, 32)
        block, group = divmod(tile, scales // 4)
        column = group * 4 * (rows // 128) + block * 4
        for copy in range(4):
            for byte in range(4):
                tensor[cp.lanes[:, copy, None], column + np.arange(4), byte] = memory[source + byte]
    for first in range(0, scales, 4):
        found = scale_factor_location(rows, 4)
        column = found.column + first // 4 * 4 * (rows // 128)
        for copy in range(4):
            assert np.array_equal(
                tensor[found.lane[copy], column, found.byte], np.arange(rows * scales).reshape(rows, scales)[:, first : first + 4]
            )


def test_split_scale_factors_of_b() -> None:
    """M = 128 with a CTA pair: tcgen05.cp.64x128b.warpx2::01_23 puts the halves of N there."""
    n = 256
    found = scale_factor_location(n, 4, split=True)
    assert found.lane.shape == (2, n, 4)
    cp = copy_destination("64x128b", "warpx2::01_23")
    for half, row in itertools.product(range(2), range(n // 2)):
        lanes = sorted(found.lane[:, half * n // 2 + row, 0])
        assert lanes == sorted(cp.lanes[32 * half + row % 32])
        assert (found.column[half * n // 2 + row] == row // 32).all()


@pytest.mark.parametrize(("scales", "rows"), list(itertools.product(SCALE_IDS, [8, 64, 96, 128, 192, 256])))
def test_scale_factors_have_a_byte_of_their_own(scales: int, rows: int) -> None:
    for scale_id in SCALE_IDS[scales]:
        found = scale_factor_location(rows, scales, scale_id)
        cells = (found.lane * 512 + found.column) * 4 + found.byte
        assert len(np.unique(cells)) == cells.size == 4 * rows * scales
        # Scale factors fill a cell from the ID on; what goes beyond it stands in the next group of columns.
        group = 4 * -(-rows // 128)
        assert sorted({int(c) // group for c in found.column.reshape(-1)}) == sorted({(scale_id + j) // 4 for j in range(scales)})


def test_ids_of_scale_factors_select_bytes() -> None:
    for scale_id in range(4):
        assert (scale_factor_location(128, 1, scale_id).byte == scale_id).all()
    assert scale_factor_location(128, 2, 2).byte[0].tolist() == [2, 3]
    # K = 96 with block32: IDs 2 and 3 reach into the next group; block16 always does.
    assert scale_factor_location(128, 3, 3).column[0].tolist() == [0, 4, 4]
    assert scale_factor_location(256, 6, 2).column[0].tolist() == [0, 0, 8, 8, 8, 8]


SPARSE = sorted({(kind, m, group, ws) for (kind, ws, group, sparse), s in SHAPES.items() if sparse for m in s.m})


@pytest.mark.parametrize(("kind", "m", "group", "ws"), SPARSE)
def test_metadata_has_bits_of_its_own(kind: str, m: int, group: int, ws: bool) -> None:
    found = metadata_location(kind, m, group, ws)
    assert found.lane.shape[1:] == (m, metadata_chunks(kind))
    bits = ((found.cta * 128 + found.lane) * 512 + found.column) * 32 + found.bit
    assert len(np.unique(bits)) == bits.size
    assert (found.bit % 4 == 0).all()
    # Rows keep to the CTA, the 32 lanes and the half of them that D's rows have.
    d = accumulator_location(m, 64, group, ws, True)
    assert np.array_equal(found.cta[0, :, 0], d.cta[:, 0])
    rows = found.lane[0] // 16 if (m // group, ws) == (64, False) else found.lane[0] // 32
    assert (rows == (d.lane[:, :1] // (16 if (m // group, ws) == (64, False) else 32))).all()


def test_selectors_choose_a_column() -> None:
    assert (metadata_location("f16", 128, selector=1).column == 1).all()
    assert set(np.unique(metadata_location("i8", 128).column)) == {0, 1}
    # Each cell of kind f16 is full: two rows of four chunks.
    found = metadata_location("tf32", 128)
    assert len(np.unique(found.lane * 512 + found.column)) * 8 == found.lane.size


def test_positions_of_stored_elements() -> None:
    codes = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110]
    assert [c for c in range(16) if metadata_positions("f16", c)] == sorted(codes)
    assert [c for c in range(16) if metadata_positions("tf32", c)] == [0b0100, 0b1110]
    for code in codes:
        assert metadata_positions("i8", code) == (code & 3, code >> 2)
        assert metadata_positions("mxf4", code) == (2 * (code & 3), 2 * (code & 3) + 1, 2 * (code >> 2), 2 * (code >> 2) + 1)


def printed(mask: np.ndarray) -> str:
    return "".join("01"[int(bit)] for bit in mask[::-1])


def test_examples_of_zero_column_masks() -> None:
    """Section "Zero-Column Mask Descriptor": its four examples; masks are printed with column 0 on the right."""
    assert not zero_column_mask(ZeroColumnMask(skip_span=4, use_span=3), 128, 256).any()
    second = ZeroColumnMask(non_zero=True, skip_span=2, use_span=3)
    assert printed(zero_column_mask(second, 128, 64)).endswith("11100001110000")
    third = ZeroColumnMask(non_zero=True, skip_span=2, use_span=3, first_spans=(1, 0, 0, 0))
    mask = zero_column_mask(third, 64, 128)
    assert printed(mask[:64]).endswith("11100001110000111")
    assert printed(mask[64:]).endswith("000011100001110000")
    fourth = ZeroColumnMask((0, 1, 2, 1), (1, 1, 0, 0), True, 2, 3, 2)
    parts = np.split(zero_column_mask(fourth, 32, 128), 4)
    assert printed(parts[0]).endswith("00001110000111")
    assert printed(parts[1]).endswith("0000111000011")
    assert printed(parts[2]).endswith("111000011100")
    assert printed(parts[3]).endswith("1110000111000")
    assert fourth.shift == 2


@pytest.mark.parametrize("m", [32, 64, 128])
def test_masks_against_a_walk_over_columns(m: int) -> None:
    rng = np.random.default_rng(m)
    for _ in range(50):
        zeroed, kept = (int(x) for x in rng.integers(1, 20, 2))
        spans = tuple(int(x) for x in rng.integers(0, 2, 4))
        counts = tuple(int(rng.integers(0, zeroed if s else kept)) for s in spans)
        d = ZeroColumnMask(counts, spans, True, zeroed - 1, kept - 1)  # type: ignore[arg-type]
        expected = []
        for part in range(128 // m):
            zero, left = bool(spans[part]), (zeroed if spans[part] else kept) - counts[part]
            for _ in range(256 * m // 128):
                expected.append(zero)
                left -= 1
                if not left:
                    zero = not zero
                    left = zeroed if zero else kept
        assert zero_column_mask(d, m, 256).tolist() == expected


def test_ownership() -> None:
    for (_, _, group, sparse), shapes in SHAPES.items():
        for m in shapes.m:
            found = pair_ownership(m, shapes.n[-1], group)
            assert np.bincount(found.a).tolist() == [m // group] * group
            assert np.bincount(found.b).tolist() == [shapes.n[-1] // group] * group
            if group == 2:
                assert np.array_equal(found.d, accumulator_location(m, 32, group, False, sparse).cta[:, 0])


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_fragments_of_wgmma(bits: int) -> None:
    a = wgmma_a_fragment(bits)
    assert len(np.unique(a.row * 1024 + a.column)) == a.row.size == 64 * 256 // bits
    assert a.column.max() == 256 // bits - 1
    # The registers of A are those of D for types of 16 bits: what one wgmma accumulates the next can multiply.
    if bits == 16:
        d = wgmma_fragment(16)
        assert np.array_equal(a.row, d.row)
        assert np.array_equal(a.column, d.column)
    for n in range(8, 257, 8):
        d = wgmma_fragment(n)
        assert len(np.unique(d.row * 256 + d.column)) == 64 * n
