"""tcgen05.cp in whole kernels: every shape, with and without decompression, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from tests.isa.tcgen05.tcgen05_helpers import BASE, execute, random_state
from tests.isa.tcgen05.test_mma import Operand

# shape -> rows, bytes of a row, and the lanes of row r
SHAPES = {
    "128x256b": (128, 32, lambda r: [r]),
    "128x128b": (128, 16, lambda r: [r]),
    "4x256b": (4, 32, lambda r: [32 * r]),
    "32x128b.warpx4": (32, 16, lambda r: [r, r + 32, r + 64, r + 96]),
    "64x128b.warpx2::02_13": (64, 16, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 16, lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]),
}


def unpacked(slot: bytes, form: str) -> bytes:
    """16 bytes of shared memory as 16 bytes of tensor memory."""
    if form == "b4x16_p64":
        return bytes((slot[i // 2] >> 4 * (i % 2) & 15) << 2 for i in range(16))
    if form == "b6x16_p32":
        word = int.from_bytes(slot[:12], "little")
        return bytes(word >> 6 * i & 63 for i in range(16))
    return slot


@pytest.mark.parametrize("form", ["", "b4x16_p64", "b6x16_p32"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_go_to_their_lanes(shape, group, form):
    rng = np.random.default_rng([len(shape), group, len(form)])
    rows, size, lanes = SHAPES[shape]
    swizzle = str(rng.choice(["none", "32B", "64B", "128B"] if size == 32 else ["none", "128B"]))
    operand = (
        Operand("none", False, BASE + 48, rows * 16, 128)
        if swizzle == "none"
        else Operand(swizzle, False, BASE + (32 if swizzle != "32B" else 0), 16, {"32B": 256, "64B": 512, "128B": 1024}[swizzle])
    )
    image, before = random_state(rng, group)
    column = 4 * int(rng.integers(0, 126))
    lane = int(rng.integers(0, 32)) if shape == "4x256b" else 0
    expected = before.copy()
    for cta in range(group):
        for row in range(rows):
            raw = bytes(image[cta, operand.place(row, i, 1, 0) - BASE] for i in range(size))
            words = np.frombuffer(b"".join(unpacked(raw[i : i + 16], form) for i in range(0, size, 16)), np.uint32)
            for at in lanes(row):
                expected[cta, column : column + size // 4, at + lane] = words
    formats = f".b8x16.{form}" if form else ""
    after = execute(
        f"tcgen05.cp.cta_group::{group}.{shape}{formats} [da], ad",
        image,
        before,
        a=operand.descriptor(),
        d=(lane << 16) + column,
        group=group,
    )
    assert np.array_equal(after, expected)
