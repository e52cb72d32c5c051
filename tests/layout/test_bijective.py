"""Every element of every legal operand and accumulator has a place of its own: exhaustively over the shapes of the table."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab.descriptors import OperandTile, SharedMemoryDescriptor
from ptxlab.layout import (
    a_location,
    accumulator_location,
    copy_destination,
    fragment,
    metadata_fragment,
    metadata_location,
    operand_addresses,
    scale_factor_location,
)
from ptxlab.tables import (
    DATA_PATHS,
    FRAGMENT_REGISTERS,
    LOAD_REGISTERS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTORS,
    SHAPES,
    SWIZZLES,
    TYPE_BITS,
    data_path_of,
)
from tests.sweep_helpers import one_in
from tests.tables.specification_helpers import TYPE_SIZES


@cache
def sizes(kind: str) -> tuple[int, ...]:
    """All rows that an operand of a kind can have in the memory of one CTA: of A, and of B."""
    found = set()
    for (name, _, group, _), shapes in SHAPES.items():
        if name == kind:
            found |= {m // group for m in shapes.m} | {n // group for n in shapes.n}
    return tuple(sorted(found))


def unique(places: NDArray[np.int64], count: int) -> None:
    """There are so many, all different."""
    assert places.size == count
    assert len(np.unique(places)) == count


CASES = sorted(
    {
        (kind.name, bits, size.major, swizzle)
        for kind in MMA_KINDS.values()
        for bits in {TYPE_BITS[t] for t in kind.ab}
        for size in TYPE_SIZES
        if bits in size.bits
        for swizzle in size.swizzles
    }
)
NAMES = {4: "e2m1", 6: "e3m2", 8: "e4m3", 16: "f16", 32: "tf32"}


@pytest.mark.parametrize(("kind", "bits", "major", "swizzle"), CASES)
def test_operands(kind: str, bits: int, major: str, swizzle: str) -> None:
    row = MMA_KINDS[kind]
    for rows in sizes(kind):
        if rows * bits % 128 and major == "mn":
            continue
        tile = OperandTile(rows, row.k, NAMES[bits], major, swizzle, 1024, padded=bits < row.container)  # type: ignore[arg-type]
        found = tile.addresses()
        assert found.shape == (rows, row.k)
        assert len(np.unique(found)) == found.size
        assert int(found.min()) // (8 if bits < 8 else 1) >= 1024


@pytest.mark.parametrize("swizzle", list(SWIZZLES))
@pytest.mark.parametrize("kind", one_in(3, MMA_KINDS))
def test_b_of_sparse_products(kind: str, swizzle: str) -> None:
    """K-major, 2K elements: beyond the width of the swizzle the leading dimension takes over."""
    row = MMA_KINDS[kind]
    columns = {n // group for (name, _, group, sparse), shapes in SHAPES.items() if name == kind and sparse for n in shapes.n}
    for bits, n in product({TYPE_BITS[t] for t in row.ab}, sorted(columns)):
        tile = OperandTile(n, 2 * row.k, NAMES[bits], "k", swizzle, 1024, padded=bits < row.container)
        found = operand_addresses(tile.descriptor(), n, 2 * row.k, bits, "k", bits < row.container)
        unique(found, n * 2 * row.k)
        # 64 bytes of each row, in one width of the swizzle or in several.
        assert int(found.max()) // (8 if bits < 8 else 1) < 1024 + max(64, SWIZZLES[swizzle].width) * n


@pytest.mark.parametrize("swizzle", list(SWIZZLES))
def test_k_of_96(swizzle: str) -> None:
    for n in sizes("mxf4"):
        unique(OperandTile(n, 96, "e2m1", "k", swizzle, 1024).addresses(), n * 96)


def test_k_of_96_with_an_absolute_leading_dimension() -> None:
    """Eight instructions, two elements a byte, take three buffers of 128 bytes a row: each byte once."""
    buffers = [0x8000, 0x18000, 0x10000]
    for n in sizes("mxf4"):
        parts = []
        for i in range(8):
            inside, buffer = 48 * i % 128, 48 * i // 128
            spills = inside + 48 > 128
            d = SharedMemoryDescriptor(buffers[buffer] + inside, buffers[buffer + spills], 1024, "128B", leading_mode="absolute")
            parts.append(operand_addresses(d, n, 96, 4))
        found = np.concatenate(parts, axis=1)
        unique(found, n * 768)
        assert {int(x) for x in np.unique(found // 8 & ~0x7FFF)} == set(buffers)
        assert int((found // 8 & 0x7FFF).max()) == 128 * n - 1


def test_accumulators() -> None:
    seen = {(m, n, group, ws, sparse) for (_, ws, group, sparse), s in SHAPES.items() for m in s.m for n in s.n}
    for m, n, group, ws, sparse in seen:
        path = data_path_of(m, group, ws, sparse)
        for lane in path.alignment:
            found = accumulator_location(m, n, group, ws, sparse, lane)
            cells = (found.cta * 128 + found.lane) * 512 + found.column
            count = np.bincount(cells.reshape(-1))
            assert count.max() == 1
            assert found.column.max() == n // path.banks - 1
            assert found.lane.max() <= 127
            if path.half:
                assert set(np.unique(found.lane // 16 % 2)) == {lane // 16}


@pytest.mark.parametrize(("m", "group", "ws", "sparse"), list(DATA_PATHS))
def test_a_in_tensor_memory(m: int, group: int, ws: bool, sparse: bool) -> None:
    path = data_path_of(m, group, ws, sparse)
    widths = {(kind.k, max(TYPE_BITS[t], kind.container)) for kind in MMA_KINDS.values() for t in kind.ab}
    for (k, bits), lane in product(widths | {(96, 4)}, path.alignment):
        found = a_location(m, k, bits, group, ws, sparse, lane)
        unique(((found.cta * 128 + found.lane) * 16 + found.column) * 32 + found.bit, path.banks * m * k)
        assert found.column.max() == k * bits // 32 - 1
        assert found.lane.max() <= 127


def scale_shapes() -> set[tuple[int, int, bool]]:
    """Rows, scale factors of a row, and whether they are split, of A and B of every shape."""
    found = set()
    for (kind, _, group, _), shapes in SHAPES.items():
        counts = {row.scales for row in SCALE_VECTORS if row.kind == kind}
        found |= {(m // group, scales, False) for m in shapes.m for scales in counts}
        found |= {(n, scales, group == 2 and m == 128) for m in shapes.m for n in shapes.n for scales in counts}
    return found


def test_scale_factors() -> None:
    for rows, scales, split in scale_shapes():
        for first in SCALE_IDS[scales]:
            at = scale_factor_location(rows, scales, first, split)
            copies = 2 if split else 4
            unique((at.lane * 64 + at.column) * 4 + at.byte, copies * rows * scales)
            assert at.lane.max() <= 127
            # Each copy is in lanes of its own, so that a quarter of the lanes reads all that it needs.
            assert len({tuple(np.unique(at.lane[copy] // 32)) for copy in range(copies)}) == copies


@pytest.mark.parametrize(("m", "group", "ws", "sparse"), [key for key in DATA_PATHS if key[3]])
def test_metadata(m: int, group: int, ws: bool, sparse: bool) -> None:
    path = data_path_of(m, group, ws, sparse)
    for kind, lane in product(MMA_KINDS, path.alignment):
        selected = kind in ("f16", "tf32")
        places = []
        for selector in (0, 1) if selected else (0,):
            at = metadata_location(kind, m, group, ws, selector, lane)
            places.append(((at.cta * 128 + at.lane) * 4 + at.column) * 32 + at.bit)
            assert not (at.bit % 4).any()
            assert at.lane.max() <= 127
        unique(np.stack(places), len(places) * path.banks * m * (8 if selected else 16))


@pytest.mark.parametrize(
    ("bits", "chunks", "selectors"), [(32, 4, 4), (32, 8, 2), (16, 4, 4), (16, 8, 2), (8, 8, 2), (8, 16, 1), (4, 16, 1)]
)
def test_metadata_in_registers(bits: int, chunks: int, selectors: int) -> None:
    """16 rows; the selectors share the threads out among themselves."""
    found = [metadata_fragment(bits, chunks, selector) for selector in range(selectors)]
    unique(np.stack([at.lane * 32 + at.bit for at in found]), selectors * 16 * chunks)
    assert sum(len(np.unique(at.lane)) for at in found) == 32
    for at in found:
        assert at.lane.max() <= 31
        assert set(np.unique(at.bit)) <= set(range(0, 32, 4))


@pytest.mark.parametrize("shape", FRAGMENT_REGISTERS)
def test_fragments(shape: str) -> None:
    for (name, num), registers in LOAD_REGISTERS.items():
        if name != shape:
            continue
        for pack in (False, True):
            found = fragment(shape, num, pack, split=2 * num if shape == "16x32bx2" else 0)
            assert found.lane.shape == (32, registers)
            cells = found.lane * 4096 + found.column
            assert len(np.unique(cells)) == cells.size
            assert found.lane.max() == (31 if shape == "32x32b" else 15)


def test_copies() -> None:
    for shape, multicast in (
        *(("128x256b", ""), ("128x128b", ""), ("4x256b", ""), ("32x128b", "warpx4")),
        *(("64x128b", "warpx2::02_13"), ("64x128b", "warpx2::01_23")),
    ):
        lanes = copy_destination(shape, multicast).lanes
        assert len(np.unique(lanes)) == lanes.size == (4 if shape == "4x256b" else 128)
