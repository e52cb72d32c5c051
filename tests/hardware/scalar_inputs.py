"""The operands of the recorded scalar forms: raw words of each type, special values first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CASES = 512
WIDTH = {"u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16}
WIDTH |= {"oob": 16, "oobx2": 32}
WIDTH |= {"b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64}

SPECIAL = {
    "oob": [
        0x7FF7,
        0xFFF7,
        0x7FF6,
        0x7FFF,
        0xFFFF,
        0x7C01,
        0x7FC0,
        0x7F80,
        0x7C00,
        0xFC00,
        0,
        0x8000,
        1,
        0x3C00,
        0xBC00,
        0x3F80,
        0xBF80,
        0x7BFF,
        0x4000,
        0x7F77,
    ],
    "f16": [
        0,
        0x8000,
        1,
        0x8001,
        0x3FF,
        0x400,
        0x3C00,
        0xBC00,
        0x3C01,
        0x3800,
        0x4100,
        0xC100,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7C01,
        0x7E00,
        0xFFFF,
        0x5BF8,
    ],
    "bf16": [
        0,
        0x8000,
        1,
        0x8001,
        0x7F,
        0x80,
        0x3F80,
        0xBF80,
        0x3F81,
        0x3F00,
        0x4020,
        0xC020,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7F81,
        0x7FC0,
        0xFFFF,
        0x4300,
    ],
    "f32": [
        0,
        1 << 31,
        1,
        0x80000001,
        0x7FFFFF,
        0x800000,
        0x3F800000,
        0xBF800000,
        0x3F800001,
        0x3F000000,
        0x40200000,
        0xC0200000,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7F800001,
        0x7FC00000,
        0xFFFFFFFF,
        0x4F000000,
        0x4F7FFFFF,
        0xCF000000,
        0x477FE000,
        0x43E00000,
        0x33000000,
        0x387FC000,
    ],
    "f64": [
        0,
        1 << 63,
        1,
        (1 << 63) + 1,
        0x10000000000000,
        0x3FF0000000000000,
        0xBFF0000000000000,
        0x3FF0000000000001,
        0x3FE0000000000000,
        0x4004000000000000,
        0xC004000000000000,
        0x7FEFFFFFFFFFFFFF,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF0000000000001,
        0x7FF8000000000000,
        0xFFFFFFFFFFFFFFFF,
        0x41E0000000000000,
        0x43E0000000000000,
        0x36A0000000000000,
        0x380FFFFFE0000000,
        0x47EFFFFFF0000000,
    ],
}


def inputs(kind: str, seed: int) -> NDArray[np.uint64]:
    """CASES raw words of a type: special values, values of ordinary size, and random bits."""
    rng = np.random.default_rng([seed, *kind.encode()])
    width = WIDTH[kind]
    if kind.endswith("x2") and width == 32:
        low, high = inputs(kind[:-2], seed), inputs(kind[:-2], seed + 1000)
        return low | high << np.uint64(16)
    mask = (1 << width) - 1
    edges = [0, 1, 2, 3, mask, mask - 1, mask >> 1, (mask >> 1) + 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0x55 & mask]
    special = np.array(SPECIAL.get(kind, edges), np.uint64)
    count = len(special)
    index = np.arange(count * count)
    grid = special[index // count] if seed % 2 else special[index % count]
    words = np.frombuffer(rng.bytes(8 * CASES), np.uint64) & np.uint64(mask)
    if kind in ("f32", "f64", "f16", "bf16"):
        ordinary = rng.standard_normal(CASES) * 2.0 ** rng.integers(-6, 7, CASES)
        bits = {
            "f32": ordinary.astype(np.float32).view(np.uint32),
            "f64": ordinary.view(np.uint64),
            "f16": ordinary.astype(np.float16).view(np.uint16),
            "bf16": ordinary.astype(np.float32).view(np.uint32) >> 16,
        }[kind]
        words = np.where(rng.random(CASES) < 0.6, bits.astype(np.uint64), words)
    elif width >= 32:
        words = np.where(rng.random(CASES) < 0.5, words >> rng.integers(0, width, CASES).astype(np.uint64), words)
    take = min(count * count, CASES // 2 if seed < 2 else CASES // 4)
    chosen = rng.permutation(count * count)[:take] if count * count > take else np.arange(take)
    order = np.sort(np.random.default_rng(take).permutation(count * count)[:take]) if count * count > take else chosen
    words[:take] = grid[order]
    return words
