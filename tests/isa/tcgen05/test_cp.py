"""tcgen05.cp in whole kernels: every shape, with and without decompression, element by element."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from ptxlab.descriptors import SharedMemoryDescriptor
from ptxlab.isa.tcgen05._cp import _copy_of
from ptxlab.isa.tcgen05._descriptors import matrix_gather
from ptxlab.layout import copy_destination
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


def source_of(rng, shape):
    """Where the rows that a shape copies are."""
    rows, size, _ = SHAPES[shape]
    swizzle = str(rng.choice(["none", "32B", "64B", "128B"] if size == 32 else ["none", "128B"]))
    if swizzle == "none":
        return Operand("none", False, BASE + 48, rows * 16, 128)
    return Operand(swizzle, False, BASE + (32 if swizzle != "32B" else 0), 16, {"32B": 256, "64B": 512, "128B": 1024}[swizzle])


def copied_rows(operand, shape, form, image, before, column, lane):
    """Tensor memory after a copy by each CTA."""
    rows, size, lanes = SHAPES[shape]
    expected = before.copy()
    for cta in range(len(before)):
        for row in range(rows):
            raw = bytes(image[cta, operand.place(row, i, 1, 0) - BASE] for i in range(size))
            words = np.frombuffer(b"".join(unpacked(raw[i : i + 16], form) for i in range(0, size, 16)), np.uint32)
            for at in lanes(row):
                expected[cta, column : column + size // 4, at + lane] = words
    return expected


@pytest.mark.parametrize("form", ["", "b4x16_p64", "b6x16_p32"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_go_to_their_lanes(shape, group, form):
    rng = np.random.default_rng([len(shape), group, len(form)])
    operand = source_of(rng, shape)
    image, before = random_state(rng, group)
    column = 4 * int(rng.integers(0, 126))
    lane = int(rng.integers(0, 32)) if shape == "4x256b" else 0
    formats = f".b8x16.{form}" if form else ""
    after = execute(
        f"tcgen05.cp.cta_group::{group}.{shape}{formats} [da], ad",
        image,
        before,
        a=operand.descriptor(),
        d=(lane << 16) + column,
        group=group,
    )
    assert np.array_equal(after, copied_rows(operand, shape, form, image, before, column, lane))


def test_lanes_of_a_shape_are_found_once():
    found = copy_destination("32x128b", "warpx4")
    assert copy_destination("32x128b", "warpx4") is found
    with pytest.raises(ValueError, match="read-only"):
        found.lanes[0, 0] = 1


def test_a_repeated_copy_has_the_same_accesses():
    """Observers tell by what is placed, and by its name, that two operations access the same bytes; it is that of all CTA groups."""
    descriptor = int(SharedMemoryDescriptor(start=BASE, leading=16, stride=128))
    warp, cta_group = Mock(), Mock(places=(0, 1 << 20, 2 << 20), ctas=(Mock(shared_address=1 << 20, tensor_address=2 << 20),))
    made = [_copy_of(matrix_gather(warp, descriptor, "the source", 32, 4, 32, 32), "32x128b", "warpx4", "", 0, 8) for _ in range(2)]
    assert made[0] is made[1]
    read, write = made[0].accesses(cta_group)
    assert made[1].accesses(cta_group) == (read, write)
    assert (int(read.starts[0]), int(read.sizes[0]), read.write) == ((1 << 20) + BASE, 32 * 16, False)
    assert write.starts.tolist() == [(2 << 20) + 512 * column for column in range(8, 12)]
    assert (write.sizes.tolist(), write.write) == ([512], True)
    cta_group.places, cta_group.ctas[0].shared_address = (0, 3 << 20, 2 << 20), 3 << 20
    moved, _ = made[0].accesses(cta_group)
    assert int(moved.starts[0]) == (3 << 20) + BASE
    assert moved.placed is not None
    assert (moved.placed, moved.name) == (read.placed, read.name) != (write.placed, write.name)
    assert moved.placed.where == [(1, read.name, moved.where[1], 0, 1)]


def test_an_illegal_descriptor_is_refused_each_time():
    warp = Mock(fault=Mock(side_effect=ValueError("fault")))
    for _ in range(2):
        with pytest.raises(ValueError, match="fault"):
            matrix_gather(warp, 0, "the source", 32, 4, 32, 32)
    assert [call.args[0] for call in warp.fault.call_args_list] == ["D702", "D702"]
