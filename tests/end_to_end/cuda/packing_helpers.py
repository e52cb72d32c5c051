"""How elements stand in memory for ``tcgen05_mma.cu``: codes, slots of 4 and 6 bits, tiles of scale factors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

NUMBERS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "u8": np.uint8,
    "s8": np.int8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def scale_tiles_of(codes: NDArray[np.uint8], steps: int) -> NDArray[np.uint8]:
    """Scale factors [row, multiplication, factor] as tiles [step, tile, 512]: four factors of 128 rows, factors first, then rows."""
    rows = -(-len(codes) // 128)
    padded = np.zeros((rows * 128, steps, codes.shape[1] // steps * codes.shape[2] // 4, 4), np.uint8)
    padded[: len(codes)] = codes.reshape(len(codes), *padded.shape[1:])
    # in a tile: 32 rows of 16 bytes, four factors of the rows r, r + 32, r + 64, r + 96
    tiles = padded.reshape(rows, 4, 32, *padded.shape[1:]).transpose(3, 4, 0, 2, 1, 5)
    return np.ascontiguousarray(tiles).reshape(steps, -1, 512)


def codes_of(values: NDArray[np.float64], kind: str) -> NDArray[np.uint8]:
    dtype = np.dtype(NUMBERS[kind])
    return np.ascontiguousarray(values.astype(dtype)).view(f"u{dtype.itemsize}")


def in_shared(values: NDArray[np.float64], kind: str, mma: str) -> NDArray[np.uint8]:
    """Rows of bytes, K contiguous; elements of 6 and 4 bits in slots of 16 bytes but for the kinds of 4 bits."""
    codes = codes_of(values, kind)
    if mma in ("mxf4", "mxf4nvf4"):
        return codes[:, ::2] | codes[:, 1::2] << 4
    bits = {"e2m3": 6, "e3m2": 6, "e2m1": 4}.get(kind)
    if bits is None:
        return codes.view(np.uint8)
    slots = codes.reshape(len(codes), -1, 16)
    string = np.unpackbits(slots[..., None], axis=-1, bitorder="little")[..., :bits].reshape(*slots.shape[:2], -1)
    padded = np.zeros((*slots.shape[:2], 16), np.uint8)
    padded[..., : 2 * bits] = np.packbits(string, axis=-1, bitorder="little")
    return padded.reshape(len(codes), -1)


def in_tensor(values: NDArray[np.float64], kind: str, mma: str) -> NDArray[np.uint32]:
    """Rows of cells; elements of 6 and 4 bits in bytes but for the kinds of 4 bits."""
    codes = codes_of(values, kind)
    if mma in ("mxf4", "mxf4nvf4"):
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    elif kind == "e2m1":
        codes = codes << 2
    return np.ascontiguousarray(codes).view(np.uint32)
