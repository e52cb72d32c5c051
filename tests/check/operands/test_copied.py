"""What tcgen05.cp copies: only descriptors and tensor maps are named that bring the rows to tensor memory."""

from __future__ import annotations

import pytest

from .copied_kernels import MODES, K, descriptor, launch, ptx

NONE_FITS = (
    "no descriptor reads this tile: its rows lie 128 bytes apart in shared memory, and those of an unswizzled core matrix 16 bytes; encode "
    "the tensor map with swizzling mode 128B, which the descriptor needs too, with a stride dimension byte offset of 1024, or with a box "
    "of 8 elements in the innermost dimension"
)
UNSWIZZLED = {
    # leading and stride dimension byte offset: the code
    (16, 1024): "O102",
    (128, 256): "O101",
    (2048, 128): "O101",
    (128, 1024): "O101",
    (16, 256): "O102",
    (128, 128): "O102",
    (1024, 128): "O102",
}


def test_what_is_named_is_right() -> None:
    """Both tensor maps that the findings name, with the descriptors that fit."""
    for text, mode, boxes in (
        (ptx(descriptor("128B", 16, 1024)), "128B", 1),
        (ptx(descriptor("none", 2048, 128), boxes=8, step=256), "none", 8),
        (ptx(descriptor("64B", 16, 512), boxes=2, step=2).replace("add.u64 %rd15, %rd10, 4;", "add.u64 %rd15, %rd10, 512;")
         .replace("add.u64 %rd15, %rd10, 6;", "add.u64 %rd15, %rd10, 514;"), "64B", 2),
    ):  # fmt: skip
        result, right = launch(text, mode, boxes)
        assert right
        assert result.diagnostics == ()


@pytest.mark.parametrize("offsets", UNSWIZZLED)
def test_rows_that_no_unswizzled_descriptor_reads(offsets: tuple[int, int]) -> None:
    result, right = launch(ptx(descriptor("none", *offsets)), "none", width=2 * K, check="operands")
    assert not right
    sources = [found for found in result.diagnostics if "source" in found.message]
    assert {found.code for found in sources} == {UNSWIZZLED[offsets]}
    assert {found.fix for found in sources} == {NONE_FITS}


@pytest.mark.parametrize("offsets", UNSWIZZLED)
def test_an_array_whose_rows_are_those_of_the_box(offsets: tuple[int, int]) -> None:
    """It may have been arranged for the descriptor, unless elements are in the same bytes."""
    result, _ = launch(ptx(descriptor("none", *offsets)), "none", check="operands")
    assert {found.code for found in result.diagnostics if "source" in found.message} == {UNSWIZZLED[offsets]} - {"O101"}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "none"])
def test_an_unswizzled_tile_that_is_read_with_swizzling(mode: str) -> None:
    result, right = launch(ptx(descriptor(mode, 16, 1024)), "none", check="operands")
    assert not right
    assert result.diagnostics[0].code == "O101"
    assert result.diagnostics[0].fix == NONE_FITS


def test_a_swizzled_tile_that_is_read_without() -> None:
    """An unswizzled tensor map does not help: its rows would lie 128 bytes apart."""
    result, right = launch(ptx(descriptor("none", 16, 1024)), "128B", check="operands")
    assert not right
    assert {found.code for found in result.diagnostics} == {"O102"}
    assert {found.fix for found in result.diagnostics} == {"set the swizzling mode to 128B: then the source is the tile that was copied"}


def test_a_chunk_that_another_array_has_brought() -> None:
    """The tile of B follows: no descriptor is named that takes every second chunk from there."""
    result, _ = launch(ptx(descriptor("none", 16384, 128), boxes=8, step=256), "none", 8)
    (found,) = result.diagnostics
    assert (found.code, found.fix) == ("D704", "set the leading dimension byte offset to 2048: then the source is the tile that was copied")


def test_a_source_out_of_bounds_has_no_n() -> None:
    result, _ = launch(ptx(descriptor("none", 128, 2048)), "none")
    (found,) = result.diagnostics
    assert found.code == "D704"
    assert "set N" not in found.fix
