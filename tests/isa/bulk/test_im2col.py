"""im2col and interleaved copies in whole kernels, against walks of one step at a time."""

from __future__ import annotations

import numpy as np
import pytest

import ptxlab
from tests.isa.bulk.bulk_helpers import DUMP, EXPECT, FILL, INIT, WAIT, ZERO
from tests.isa.bulk.test_copies import SOURCE, coordinates_text, run

SHOWS = {
    "test_wide_columns": ("cp.async.bulk.tensor.*(mode=im2col::w|im2col::w::128).mbarrier::complete_tx::bytes{*cta_group::2}*",),
}

RNG = np.random.default_rng(12)
SHAPES = {3: (3, 11, 24), 4: (3, 5, 6, 24), 5: (2, 3, 4, 5, 24)}
"""Images, depth, height, width, channels."""
DONE = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"


def walk(shape, lower, upper, steps, at, count):
    """Coordinates (image, depth, height, width) one pixel after the other; W is the innermost dimension of the image."""
    sizes, place, found = shape[-2:0:-1], list(at[1:-1]), []
    image = at[-1]
    for _ in range(count):
        found.append((image, *place[::-1]))
        for d, size in enumerate(sizes):
            place[d] += steps[d]
            if place[d] < size + upper[d]:
                break
            place[d] = lower[d]
        else:
            image += 1
    return found


def column(tensor, pixels, channel, channels):
    """The elements of pixels; zeros outside the tensor."""
    found = np.zeros((len(pixels), channels), tensor.dtype)
    for row, place in enumerate(pixels):
        if all(0 <= x < size for x, size in zip(place, tensor.shape, strict=False)):
            first, last = max(channel, 0), min(channel + channels, tensor.shape[-1])
            found[row, first - channel : last - channel] = tensor[place][first:last]
    return found


def load(mode, rank, info):
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes"
    return f"@p {opcode} [dst], [m, {coordinates_text(rank)}], [bar], {{{', '.join(map(str, info))}}};\n"


def loaded(tensor_map, mode, rank, info, at, size):
    return run(ZERO + INIT + EXPECT + load(mode, rank, info) + WAIT + DUMP, tensor_map=tensor_map, coordinates=at, size=size)[:size]


def corners(rank, *numbers):
    return tuple(numbers[: rank - 2])


@pytest.mark.parametrize("steps", [(1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_columns(rank, steps):
    tensor = RNG.integers(1, 1 << 16, SHAPES[rank], np.uint16)
    lower, upper, step = corners(rank, -1, 0, -1), corners(rank, -1, 1, 0), corners(rank, *steps)
    pixels = 40
    made = ptxlab.TensorMap.im2col(
        tensor, lower=lower, upper=upper, channels=16, pixels=pixels, swizzle="32B", element_strides=(1, *step, 1)
    )
    offsets = corners(rank, 1, 2, 0)
    for channel in (0, -8, 16):
        at = (channel, *corners(rank, 2, 1, 0), 1)
        out = loaded(made, "im2col", rank, offsets, at, pixels * 32)
        places = [
            (image, *(x + y for x, y in zip(place, offsets[::-1], strict=True)))
            for image, *place in walk(tensor.shape, lower, upper, step, at, pixels)
        ]
        want = column(tensor, places, channel, 16).view(np.uint8).reshape(-1, 2, 16)
        # Swizzling by 32 bytes exchanges the halves of every other four rows.
        want[np.arange(pixels) // 4 % 2 == 1] = want[np.arange(pixels) // 4 % 2 == 1][:, ::-1]
        assert np.array_equal(out, want.ravel())


@pytest.mark.parametrize(("halo", "offset"), [(0, 0), (3, 2)])
@pytest.mark.parametrize("mode", ["im2col::w", "im2col::w::128"])
def test_wide_columns(mode, halo, offset):
    """Along W, then to the next image; 128 pixels are followed by those behind each 32 of them, the first of all in front."""
    tensor = RNG.integers(1, 1 << 16, (60, 3, 7, 16), np.uint16)
    made = ptxlab.TensorMap.im2col(tensor, lower=(-1, 0), upper=(-1, 0), channels=16, pixels=20, swizzle="32B")
    at = (0, -2, 1, 3)  # W may begin left of the box
    steps = walk((60, 7, 16), (-1,), (-1,), (1,), (0, -2, 3), 170)
    fixed = mode.endswith("128")
    order = [*range(128), *(32 * (g + 1) + h for h in range(halo) for g in range(4))] if fixed else range(20 + halo)
    places = [(steps[i][0], 1, steps[i][1] + offset) for i in order]
    out = loaded(made, mode, 4, (halo, offset), at, len(places) * 32)
    want = column(tensor, places, 0, 16).view(np.uint8).reshape(-1, 2, 16)
    odd = np.arange(len(places)) // 4 % 2 == 1
    want[odd] = want[odd][:, ::-1]
    assert np.array_equal(out, want.ravel())


@pytest.mark.parametrize("operation", ["", "add"])
def test_columns_are_stored(operation):
    tensor = RNG.integers(0, 1 << 20, (2, 5, 6, 8), np.uint32)
    before = tensor.copy()
    made = ptxlab.TensorMap.im2col(tensor, lower=(1, 0), upper=(-1, -1), channels=8, pixels=30)
    opcode = (
        f"cp.{'reduce.' if operation else ''}async.bulk.tensor.4d.global.shared::cta.{'add.' if operation else ''}im2col_no_offs.bulk_group"
    )
    at = (0, 2, 3, 0)
    body = FILL + "fence.proxy.async.shared::cta;\nbar.sync 0;\n" + f"@p {opcode} [m, {coordinates_text(4)}], [dst];\n" + DONE
    run(body, tensor_map=made, coordinates=at)
    rows = SOURCE.view(np.uint32)[: 30 * 8].reshape(30, 8)
    for row, place in zip(rows, walk(before.shape, (1, 0), (-1, -1), (1, 1), at, 30), strict=True):
        if place[0] < 2:
            before[place] = before[place] + row if operation else row
    assert np.array_equal(tensor, before)


@pytest.mark.parametrize(("interleave", "size"), [("16B", 8), ("32B", 16)])
def test_slices_of_channels(interleave, size):
    """Images, slices of channels, height, width, channels of a slice; an instruction counts pixels along dimension 0."""
    tensor = RNG.integers(1, 1 << 16, (2, 3, 5, 6, size), np.uint16)
    made = ptxlab.TensorMap(tensor, box=(8, 3, 1, 2), element_strides=(2, 1, 1, 1), interleave=interleave)
    opcode = "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
    body = ZERO + INIT + EXPECT + f"@p {opcode} [dst], [m, {coordinates_text(4)}], [bar];\n" + WAIT + DUMP
    count = 4 * 3 * 2 * 2 * size
    out = run(body, tensor_map=made, coordinates=(-1, 3, 2, 0), size=count)[:count]
    want = np.zeros((2, 3, 4, size), np.uint16)
    want[:, :2, 1:] = tensor[:, 2, 3:5, 1:6:2]
    assert np.array_equal(out, want.view(np.uint8).ravel())
