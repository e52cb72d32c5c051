"""Descriptors from layouts, layouts from descriptors, and advancing along K and MN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptxlab.descriptors import DescriptorError, OperandTile, TensorMap
from ptxlab.layout import LayoutError, matrix_base_offset, operand_addresses
from ptxlab.tables import SWIZZLES, TYPE_BITS
from tests.layout.tma_helpers import tma_box

TYPES = ("e2m1", "e3m2", "e4m3", "f16", "tf32")


@st.composite
def tiles(draw: Any) -> OperandTile:
    kind = draw(st.sampled_from(TYPES))
    major = "k" if TYPE_BITS[kind] < 8 else draw(st.sampled_from(["k", "mn"]))
    swizzle = draw(st.sampled_from(list(SWIZZLES)))
    padded = kind == "e2m1" and draw(st.booleans())
    slot = 16 if padded or kind == "e3m2" else 128 // TYPE_BITS[kind]
    across, along = 8 * draw(st.integers(1, 8)), slot * draw(st.integers(1, 16))
    rows, k = (across, along) if major == "k" else (along, across)
    return OperandTile(rows, k, kind, major, swizzle, 1024 * draw(st.integers(0, 3)), padded)  # type: ignore[arg-type]


@settings(deadline=None)
@given(tiles())
def test_every_element_has_a_place_of_its_own(tile: OperandTile) -> None:
    found = tile.addresses()
    assert len(np.unique(found)) == found.size
    unit = 8 if TYPE_BITS[tile.type] < 8 else 1
    assert found.min() // unit >= tile.start
    assert found.max() // unit < tile.start + tile.size


@settings(deadline=None)
@given(tiles())
def test_layouts_round_trip(tile: OperandTile) -> None:
    try:
        layout = tile.layout()
    except LayoutError:
        width = SWIZZLES[tile.swizzle].width * 8 // tile.container
        assert tile.major == "mn"
        assert tile.rows % width
        return
    rows, k = layout.layout[0].size, layout.layout[1].size
    assume(k == tile.k)
    again = OperandTile.from_layout(str(layout), tile.type, tile.start, tile.padded)
    assert np.array_equal(again.addresses(), tile.addresses())
    same = OperandTile.from_descriptor(tile.descriptor(), rows, k, tile.type, tile.major, tile.padded)
    assert same.descriptor() == tile.descriptor()
    assert np.array_equal(same.addresses(), tile.addresses())


@settings(deadline=None)
@given(tiles(), st.data())
def test_an_advanced_descriptor_reaches_the_part_or_is_refused(tile: OperandTile, data: Any) -> None:
    mn, k = data.draw(st.integers(0, tile.rows - 1)), data.draw(st.integers(0, tile.k - 1))
    rows, width = data.draw(st.integers(1, tile.rows - mn)), data.draw(st.integers(1, tile.k - k))
    try:
        found = tile.advance(k, mn, rows, width)
    except DescriptorError:
        return
    reached = operand_addresses(found, rows, width, TYPE_BITS[tile.type], tile.major, tile.padded)
    assert np.array_equal(reached, tile.addresses()[mn : mn + rows, k : k + width])


@pytest.mark.parametrize(
    ("tile", "steps"),
    [
        # What kernels do: 32 bytes for each step of K inside an atom, then the next width.
        (OperandTile(128, 64, "f16"), [0, 32, 64, 96]),
        (OperandTile(64, 128, "bf16"), [0, 32, 64, 96, 8192, 8224, 8256, 8288]),
        (OperandTile(128, 32, "tf32", swizzle="64B"), [0, 32, 8192, 8224]),
        (OperandTile(128, 64, "f16", swizzle="none"), [0, 4096, 8192, 12288]),
        # MN-major: whole groups of lines.
        (OperandTile(64, 64, "f16", "mn"), [0, 2048, 4096, 6144]),
        (OperandTile(32, 32, "tf32", "mn", "128B_32B"), [0, 1024, 2048, 3072]),
    ],
)
def test_steps_along_k(tile: OperandTile, steps: list[int]) -> None:
    width = 256 // tile.container
    assert [tile.advance(k=i * width).start for i in range(len(steps))] == steps


@pytest.mark.parametrize(
    ("tile", "part", "message", "fix"),
    [
        (
            OperandTile(128, 128, "f16"),
            {"k": 56},
            "a descriptor that starts at 0x70 looks for element (0, 64) of the tile at 0x90; it is at 0x4000",
            "a part stays inside one width of 128 bytes (64 elements) along K; the next begins 0x4000 bytes on",
        ),
        (
            OperandTile(128, 64, "f16"),
            {"k": 4},
            "element (0, 4) is at 0x8; a start address is a multiple of 16 bytes",
            "advance along M or N by multiples of 8 rows, along K by multiples of 8 elements",
        ),
        (
            OperandTile(128, 64, "f16", "mn"),
            {"mn": 32},
            "a descriptor that starts at 0x40 looks for element (64, 0) of the tile at 0x90; it is at 0x2000",
            "a part that is not inside one width of 128 bytes begins at a multiple of 64 elements along M or N",
        ),
        (
            OperandTile(64, 64, "f16", "mn", stride=2048),
            {"k": 4},
            "a descriptor that starts at 0x200 looks for element (0, 8) of the tile at 0x400; it is at 0x800",
            "advance along K by multiples of 8, along M or N by multiples of 64 elements",
        ),
        (OperandTile(64, 64, "f16"), {"k": 60, "width": 16}, "a part of 64 x 16 elements from (0, 60) is outside the tile of 64 x 64", ""),
    ],
)
def test_advances_that_are_illegal(tile: OperandTile, part: dict[str, int], message: str, fix: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        tile.advance(**part)
    assert caught.value.diagnostic.message == message
    assert caught.value.diagnostic.fix == fix


@pytest.mark.parametrize(("swizzle", "columns"), [("128B", 64), ("64B", 32), ("32B", 16)])
def test_a_tensor_map_leaves_the_tile_so(swizzle: str, columns: int) -> None:
    """A box of the swizzle's width lands where the descriptor looks for it."""
    for start in (0, 1024):
        array = np.zeros((256, 256), np.float16)
        box = tma_box(TensorMap(array, box=(columns, 64), swizzle=swizzle).fields, (0, 0), start)
        assert np.array_equal(start + box.shared, OperandTile(64, columns, "f16", "k", swizzle, start).addresses())
        assert np.array_equal((start + box.shared).T, OperandTile(columns, 64, "f16", "mn", swizzle, start).addresses())


@pytest.mark.parametrize(
    ("layout", "kind", "message"),
    [
        ("(8,8):(8,2)", "f16", "no descriptor describes (8,8):(8,2) for elements of type .f16"),
        ("Swizzle<3,2,3> o (8,64):(64,1)", "f16", "Swizzle<3,2,3> is not a swizzling mode of a descriptor"),
        ("(8,m):(8,1)", "f16", "(8,m):(8,1) is not a layout of (M or N, K) with integers only"),
        ("Swizzle<3,4,3> o 64 o (8,64):(64,1)", "f16", "Swizzle<3,4,3> o 64 o (8,64):(64,1) has an offset inside its swizzle"),
    ],
)
def test_layouts_that_no_descriptor_describes(layout: str, kind: str, message: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        OperandTile.from_layout(layout, kind)
    assert caught.value.diagnostic.message == message


def test_layouts_as_cute_prints_them() -> None:
    found = OperandTile.from_layout("Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),_64):((_64,_512),_1)", "bf16", 0x400)
    assert hex(int(found.descriptor())) == "0x4000404000010040"
    assert OperandTile.from_layout("Swizzle<3,3,3> o (8,64):(64,1)", "bf16").swizzle == "128B"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((12, 64, "f16"), "a tile of 12 x 64 elements of type .f16, K-major: rows must be a multiple of 8, K of 8"),
        ((64, 12, "f16", "mn"), "a tile of 64 x 12 elements of type .f16, MN-major: K must be a multiple of 8, rows of 8"),
        ((64, 64, "f17"), "element type 'f17' is unknown; it can be"),
        ((64, 64, "f16", "k", "256B"), "swizzling mode '256B' is unknown; it can be none, 32B, 64B, 128B, 128B_32B"),
    ],
)
def test_tiles_that_cannot_be(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        OperandTile(*arguments)
    assert caught.value.diagnostic.message.startswith(message)


def test_a_tile_that_is_wider_than_its_swizzle() -> None:
    """Its leading dimension leads from one width of K to the next; parts inside one width do without."""
    tile = OperandTile(64, 128, "bf16")
    assert tile.strides == (8192, 1024)
    assert OperandTile(64, 64, "bf16").strides == (16, 1024)
    # Row 3, and element 5 of the second width: chunk 0 of a line whose number is 3.
    assert int(tile.addresses()[3, 64 + 5]) == 8192 + 3 * 128 + (0 ^ 3) * 16 + 10
    assert (tile.advance(k=64).start, tile.advance(k=64).leading) == (8192, 16)
    assert tile.advance(width=128) == tile.descriptor()
    apart = OperandTile(64, 128, "bf16", leading=10240)
    assert np.array_equal(apart.addresses()[:, 64:], apart.addresses()[:, :64] + 10240)
    # What compilers write where each instruction stays inside a width.
    for leading in (0, 16):
        assert np.array_equal(OperandTile(64, 128, "bf16", leading=leading).addresses(), tile.addresses())
    again = OperandTile.from_descriptor(apart.descriptor(), 64, 128, "bf16")
    assert np.array_equal(again.addresses(), apart.addresses())
    text = "Swizzle<3,4,3> o ((8,8),(64,2)):((64,512),(1,5120))"
    assert OperandTile.from_layout(text, "bf16").strides == (10240, 1024)


def test_findings() -> None:
    assert OperandTile(64, 64, "f16", "mn").findings() == []
    assert OperandTile(64, 64, "f16", "mn").wgmma_descriptor().findings("mn", 16) == []
    found = OperandTile(64, 32, "tf32", "mn").findings()
    assert [f.section for f in found] == ["Valid Combinations of Type-Size, Major-ness and Swizzling"]
    found = OperandTile(64, 32, "tf32", "mn").wgmma_descriptor().findings("mn", 32)
    assert [f.message for f in found] == ["an MN-major operand of 32-bit elements; only 16-bit elements can be transposed"]


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_the_base_offset_moves_the_pattern(swizzle: str) -> None:
    """With the base offset of its start, a tile anywhere looks like one on the boundary of the pattern."""
    aligned = OperandTile(64, 32, "e4m3", swizzle=swizzle, start=2048).addresses()
    for start in range(2048, 4096, 128):
        offset = matrix_base_offset(start, swizzle)
        moved = OperandTile(64, 32, "e4m3", swizzle=swizzle, start=start, base_offset=offset).addresses()
        assert np.array_equal(moved - start, aligned - 2048)
        assert (offset == 0) == (start % SWIZZLES[swizzle].repeat == 0)
