"""Operands as CUTLASS wants them in memory, and their values as float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

TYPES: dict[str, Any] = {
    "float": np.float32,
    "cutlass::half_t": np.float16,
    "cutlass::bfloat16_t": ml_dtypes.bfloat16,
    "cutlass::float_e4m3_t": ml_dtypes.float8_e4m3fn,
}
"""CUTLASS's element types."""


def integers(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any, most: int = 4) -> NDArray[Any]:
    """Whole numbers in [-most, most]: their sums of products are exact in any order."""
    return generator.integers(-most, most + 1, shape).astype(dtype)


def pack_nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Two 4-bit codes in a byte, the first in the low half."""
    return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)


def tile_scales(scales: NDArray[Any]) -> NDArray[Any]:
    """Scale factors [rows, blocks] in the order of CUTLASS: tiles of 128 x 4 of 512 bytes, K first.

    In a tile, row r and block b stand at byte 16 (r mod 32) + 4 (r div 32) + b.
    """
    rows, blocks = scales.shape
    tiles = scales.reshape(rows // 128, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(-1)


def block_scaled(
    generator: np.random.Generator, rows: int, k: int, element: Any, scale: Any, block: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float64]]:
    """Elements and scale factors as bytes, and the values that they stand for."""
    if element is ml_dtypes.float4_e2m1fn:
        codes = generator.integers(0, 16, (rows, k)).astype(np.uint8)
        values, raw = codes.view(element), pack_nibbles(codes)
    else:
        values = integers(generator, (rows, k), element)
        raw = values.view(np.uint8)
    scales = generator.choice([0.5, 1, 2, 4], (rows, k // block)).astype(scale)
    wide = values.astype(np.float64) * scales.astype(np.float64).repeat(block, 1)
    return raw, tile_scales(scales).view(np.uint8), wide
