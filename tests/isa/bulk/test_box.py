"""Boxes of tensor maps against a reference that moves one element at a time."""

from __future__ import annotations

import itertools
import unittest.mock
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxlab.isa.bulk._map_cache import TileMap
from ptxlab.isa.bulk._prepared_copy import PreparedTmaCopy
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.bulk._tiled import Box


def swizzled(address: int, mode: int) -> int:
    """Section "Swizzling Modes", from the pictures: which chunk of its row a chunk goes to."""
    row = address >> 7
    if mode == 1:
        return address ^ (row & 1) << 4
    if mode == 2:
        return address ^ (row & 3) << 4
    if mode == 3:
        return address ^ (row & 7) << 4
    if mode in (4, 5):
        found = address ^ (row & 3) << 5
        return found ^ (row & 1) << 3 if mode == 5 else found
    if mode == 6:
        return address ^ (row & 1) << 6
    return address


def reference_load(tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, shared, offset):
    """One element at a time."""
    counts = [box[0], *(-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True))]
    width = {0: 0, 1: 32, 2: 64}.get(swizzle, 128)
    pitch = max(counts[0] * element, width)
    for index in itertools.product(*(range(c) for c in reversed(counts))):
        index = index[::-1]
        at = [c + i * s for c, i, s in zip(coordinates, index, steps, strict=True)]
        row = 0
        for i, c in reversed(list(zip(index[1:], counts[1:], strict=True))):
            row = row * c + i
        inside = all(0 <= p < d for p, d in zip(at, dims, strict=True))
        source = at[0] * element + sum(p * s for p, s in zip(at[1:], pitches, strict=True)) if inside else None
        for byte in range(element):
            target = swizzled(offset + row * pitch + index[0] * element + byte, swizzle)
            shared[target] = tensor[source + byte] if source is not None else fill[byte]


boxes = st.fixed_dictionaries(
    {
        "element": st.sampled_from([1, 2, 4, 8]),
        "rank": st.integers(1, 5),
        "swizzle": st.integers(0, 6),
        "seed": st.integers(0, 2**32 - 1),
    }
)


def make(case, whole=False):
    rng = np.random.default_rng(case["seed"])
    rank, element, swizzle = case["rank"], case["element"], case["swizzle"]
    limit = {0: 128, 1: 32, 2: 64}.get(swizzle, 128)
    inner = 16 * int(rng.integers(1, limit // 16 + 1)) // element
    box = [inner, *(int(b) for b in rng.integers(1, 6, rank - 1))]
    dims = [int(d) for d in rng.integers(1, 80, 1)] + [int(d) for d in rng.integers(1, 8, rank - 1)]
    if whole:
        dims = [b + int(r) for b, r in zip(box, rng.integers(0, 5, rank), strict=True)]
    steps = [1, *(int(s) for s in rng.integers(1, 3, rank - 1))]
    pitches, span = [], -(-dims[0] * element // 16) * 16
    for d in dims[1:]:
        pitches.append(span + 16 * int(rng.integers(0, 2)))
        span = pitches[-1] * d
    tensor = rng.integers(0, 256, span + 64, np.uint8)
    coordinates = tuple(int(c) for c in [rng.integers(-8, dims[0] + 4), *(rng.integers(-3, d + 2) for d in dims[1:])])
    if whole:
        coordinates = tuple(int(rng.integers(0, d - b + 1)) for d, b in zip(dims, box, strict=True))
    counts = (box[0], *(-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True)))
    fill = bytes(rng.integers(0, 256, element, np.uint8))
    made = Box(
        address=0,
        bits=element * 8,
        dims=tuple(dims),
        pitches=tuple(pitches),
        counts=counts,
        steps=tuple(steps),
        swizzle=swizzle,
        fill=fill,
    )
    return made, tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, 128 * int(rng.integers(8, 16))


def shared_memory() -> np.ndarray:
    raw = np.zeros(262144 + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + 262144]


@given(boxes)
@settings(max_examples=60, deadline=None)
def test_load_equals_element_by_element(case):
    made, tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, offset = make(case)
    region = made.region(coordinates)
    source = tensor[region.address : region.address + region.size] if region.size else NOTHING
    mine, expected = shared_memory(), shared_memory()
    mine[:] = expected[:] = 0xEE
    made.scatter(made.load(source, region), mine, offset)
    reference_load(tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, expected, offset)
    assert np.array_equal(mine, expected)


@given(boxes)
@settings(max_examples=60, deadline=None)
def test_whole_boxes_go_directly(case):
    """Compiled code that moves chunks from memory to memory does what is done element by element, both ways."""
    made, tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, offset = make(case, whole=True)
    tile = TileMap(made, "u8", 1, len(made.dims))
    copy = tile.region(coordinates, ())
    assert copy.whole
    arrived = []
    mine, expected = SimpleNamespace(shared_address=0, shared=shared_memory()), shared_memory()
    mine.shared_address = mine.shared.ctypes.data
    cut = PreparedTmaCopy(b"", tile, coordinates, copy, copy, tensor[copy.address : copy.address + copy.size])
    with unittest.mock.patch.object(Box, "load", side_effect=AssertionError("staged")):
        cut.deliver([(mine, offset, SimpleNamespace(complete_tx=arrived.append))])
    reference_load(tensor, dims, pitches, element, box, steps, swizzle, coordinates, fill, expected, offset)
    assert np.array_equal(mine.shared, expected)
    assert arrived == [made.bytes]

    emptied = np.zeros_like(tensor)
    again = PreparedTmaCopy(b"", tile, coordinates, copy, copy, emptied[copy.address : copy.address + copy.size])
    again.store(mine, offset, None)
    expected[:] = 0
    reference_load(emptied, dims, pitches, element, box, steps, swizzle, coordinates, fill, expected, offset)
    assert np.array_equal(mine.shared, expected)
    inside = np.zeros_like(tensor)
    made.store(made.region(coordinates), inside[copy.address : copy.address + copy.size], np.ones(made.bytes, np.uint8), None)
    assert np.array_equal(emptied, np.where(inside, tensor, 0))


@given(boxes)
@settings(max_examples=40, deadline=None)
def test_store_writes_what_a_load_would_read_and_nothing_else(case):
    made, tensor, dims, pitches, element, box, steps, swizzle, coordinates, _, offset = make(case)
    shared = shared_memory()
    rng = np.random.default_rng(1)
    shared[:] = rng.integers(0, 256, shared.size, np.uint8)
    before = shared.copy()
    region = made.region(coordinates)
    written = tensor.copy()
    target = written[region.address : region.address + region.size] if region.size else NOTHING
    made.store(region, target, made.gather(shared, offset), None)
    assert np.array_equal(shared, before)
    # Load it back over a marker: inside the tensor it must be what was stored, outside the fill.
    mark, again = bytes(element), shared_memory()
    reference_load(written, dims, pitches, element, box, steps, swizzle, coordinates, mark, again, offset)
    inside = shared_memory()
    ones = np.full(tensor.size, 1, np.uint8)
    reference_load(ones, dims, pitches, element, box, steps, swizzle, coordinates, mark, inside, offset)
    assert np.array_equal(again[inside == 1], before[inside == 1])
    touched = np.zeros(tensor.size, np.uint8)
    made.store(
        region,
        touched[region.address : region.address + region.size] if region.size else NOTHING,
        np.ones(made.bytes, np.uint8),
        None,
    )
    assert np.array_equal(written[touched == 0], tensor[touched == 0])


@pytest.mark.parametrize(("padded", "bits"), [(8, 4), (12, 6)])
def test_padded_types_fill_the_first_bytes_of_each_slot(padded, bits):
    rng = np.random.default_rng(2)
    tensor = rng.integers(0, 256, 4 * 128 * bits // 8, np.uint8)
    box = Box(
        address=0,
        bits=bits,
        dims=(128, 4),
        pitches=(128 * bits // 8,),
        counts=(128, 4),
        steps=(1, 1),
        swizzle=3,
        fill=b"\0",
        padded=padded,
    )
    shared = shared_memory()
    region = box.region((0, 0))
    assert region.whole
    assert box.bytes == 512
    box.scatter(box.load(tensor, region), shared, 1024)
    for row, slot in itertools.product(range(4), range(8)):
        at = 1024 + row * 128 + (slot ^ row) * 16
        assert np.array_equal(shared[at : at + padded], tensor[(row * 8 + slot) * padded :][:padded])
        assert not shared[at + padded : at + 16].any()
