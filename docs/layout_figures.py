"""The figures of the pages about layouts, each by the name of its file; `generate.py` writes them."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab import view
from ptxlab.descriptors import OperandTile, SharedMemoryDescriptor, ZeroColumnMask

__all__ = ["FIGURES"]


def _tile(tile: OperandTile, part: tuple[int, int] | None = None, lines: int = 16) -> view.Picture:
    bits = 8 if tile.padded else tile.container
    return view.draw_operand(tile.descriptor(), tile.rows, tile.k, bits, tile.major, part=part, lines=lines, addresses=tile.addresses())


FIGURES: dict[str, Callable[[], view.Picture]] = {
    "k-major-128B": lambda: _tile(OperandTile(64, 64, "f16")),
    "k-major-64B": lambda: _tile(OperandTile(64, 32, "f16", swizzle="64B"), lines=8),
    "k-major-32B": lambda: _tile(OperandTile(64, 16, "f16", swizzle="32B"), lines=8),
    "k-major-none": lambda: _tile(OperandTile(64, 16, "f16", swizzle="none")),
    "mn-major-128B": lambda: _tile(OperandTile(64, 16, "f16", "mn")),
    "mn-major-none": lambda: _tile(OperandTile(64, 16, "f16", "mn", "none")),
    "mn-major-128B-32B": lambda: _tile(OperandTile(32, 8, "tf32", "mn", "128B_32B")),
    "advance-k": lambda: _tile(OperandTile(64, 64, "f16"), (16, 16)),
    "base-offset": lambda: view.draw_operand(SharedMemoryDescriptor(0x480, 16, 1024, "128B", base_offset=1), 8, 64, 16),
    "banks-column": lambda: view.draw_banks(OperandTile(64, 64, "f16").addresses()[:32, 0], what="ld of a column"),
    "layout-A": lambda: view.draw_accumulator(256, 128, cta_group=2),
    "layout-B": lambda: view.draw_accumulator(128, 128, cta_group=2),
    "layout-C": lambda: view.draw_accumulator(128, 128, cta_group=2, sparse=True),
    "layout-D": lambda: view.draw_accumulator(128, 128),
    "layout-E": lambda: view.draw_accumulator(64, 128, ws=True),
    "layout-F": lambda: view.draw_accumulator(64, 128),
    "layout-G": lambda: view.draw_accumulator(32, 128, ws=True),
    "a-in-tensor-memory": lambda: view.draw_matrix_a(64, 16, 16, ws=True),
    "cp-32x128b": lambda: view.draw_copy("32x128b", "warpx4"),
    "cp-02-13": lambda: view.draw_copy("64x128b", "warpx2::02_13"),
    "cp-01-23": lambda: view.draw_copy("64x128b", "warpx2::01_23"),
    "cp-4x256b": lambda: view.draw_copy("4x256b"),
    "ld-32x32b": lambda: view.draw_fragment("32x32b", 4),
    "ld-16x64b": lambda: view.draw_fragment("16x64b", 4),
    "ld-16x128b": lambda: view.draw_fragment("16x128b", 2),
    "ld-16x256b": lambda: view.draw_fragment("16x256b", 2),
    "ld-16x32bx2": lambda: view.draw_fragment("16x32bx2", 4, split=8),
    "ld-pack": lambda: view.draw_fragment("16x64b", 2, pack=True),
    "wgmma-d": lambda: view.draw_wgmma_fragment(n=16),
    "wgmma-a-16": lambda: view.draw_wgmma_fragment(bits=16),
    "scales-1x": lambda: view.draw_scale_factors(128, 1),
    "scales-4x": lambda: view.draw_scale_factors(256, 4),
    "scales-split": lambda: view.draw_scale_factors(128, 2, split=True),
    "scales-k96": lambda: view.draw_scale_factors(128, 3, scale_id=3),
    "metadata-f16": lambda: view.draw_metadata("f16", 128),
    "metadata-i8": lambda: view.draw_metadata("i8", 128),
    "zero-columns": lambda: view.draw_zero_columns(ZeroColumnMask(non_zero=True, skip_span=2, use_span=3), 128, 64),
    "smem-descriptor": lambda: view.draw_descriptor(0x4000404000010040, "smem"),
    "instruction-descriptor": lambda: view.draw_descriptor(0x08400490, "idesc", "f16"),
}
