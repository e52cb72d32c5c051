"""Boxes of tensor maps against a plain loop over elements, and the machine's copies against both."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ptxlab.descriptors import TensorMapFields
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.bulk._tiled import Box
from ptxlab.tables import ELEMENT_TYPES
from tests.layout.tma_helpers import WIDTHS, tma_box

MEMORY = 1 << 14


def random_map(rng: np.random.Generator) -> TensorMapFields:
    data_type = int(rng.choice([0, 6, 7, 8]))
    size = ELEMENT_TYPES[data_type].bits // 8
    swizzle = int(rng.integers(0, 7))
    rank = int(rng.integers(1, 6))
    inner = int(rng.integers(1, (WIDTHS[swizzle] or 128) // 16 + 1)) * 16 // size
    box = (inner, *(int(n) for n in rng.integers(1, 5, rank - 1)))
    dims = (int(rng.integers(1, 2 * inner)), *(int(n) for n in rng.integers(1, 7, rank - 1)))
    strides, span = [], -(-dims[0] * size // 16) * 16
    for n in dims[1:]:
        strides.append(span + 16 * int(rng.integers(0, 2)))
        span = strides[-1] * n
    steps = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 4, rank - 1)))
    return TensorMapFields(data_type, rank, 0, dims, tuple(strides), box, steps, swizzle=swizzle)


def swizzled(address: int, swizzle: int) -> int:
    """The chunk pictures of the specification, one byte at a time."""
    row, place = divmod(address, 128)
    if swizzle == 1:
        place ^= (row & 1) * 16
    elif swizzle == 2:
        place ^= (row & 3) * 16
    elif swizzle == 3:
        place ^= (row & 7) * 16
    elif swizzle in (4, 5):
        place ^= (row & 3) * 32
    elif swizzle == 6:
        place ^= (row & 1) * 64
    if swizzle == 5:
        place ^= (row & 1) * 8
    return row * 128 + place


def elements(fields: TensorMapFields, coordinates: list[int], shared: int) -> list[tuple[int | None, int]]:
    """Global offset (None outside) and absolute shared address of each element, innermost fastest."""
    size = fields.element.bits // 8
    width = WIDTHS[fields.swizzle]
    steps = [1, *fields.element_strides[1:]]
    counts = [len(range(0, n, s)) for n, s in zip(fields.box, steps, strict=True)]
    found: list[tuple[int | None, int]] = []
    pitch = max(width, counts[0] * size)
    for row, outer in enumerate(itertools.product(*(range(n) for n in reversed(counts[1:])))):
        index = list(reversed(outer))
        for i in range(counts[0]):
            place = [c + s * j for c, s, j in zip(coordinates, steps, [i, *index], strict=True)]
            inside = all(0 <= p < n for p, n in zip(place, fields.dims, strict=True))
            offset = place[0] * size + sum(p * s for p, s in zip(place[1:], fields.strides, strict=True))
            found.append((offset if inside else None, swizzled(shared + row * pitch + i * size, fields.swizzle)))
    return found


@pytest.mark.parametrize("seed", range(150))
def test_against_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields = random_map(rng)
    size = fields.element.bits // 8
    coordinates = [int(rng.integers(-4, n + 2)) if rng.random() < 0.7 else 0 for n in fields.dims]
    shared_address = 128 * int(rng.integers(0, 16))
    expected = elements(fields, coordinates, shared_address)

    box = tma_box(fields, coordinates, shared_address)
    assert box.inside.ravel().tolist() == [offset is not None for offset, _ in expected]
    assert box.offset[box.inside].tolist() == [offset for offset, _ in expected if offset is not None]
    assert (box.shared.ravel() + shared_address).tolist() == [address for _, address in expected]

    memory = rng.integers(0, 256, MEMORY, np.uint8)
    want, got = np.zeros(MEMORY, np.uint8), np.zeros(MEMORY, np.uint8)
    for offset, address in expected:
        want[address : address + size] = 0xAB if offset is None else memory[offset : offset + size]
    copied = machine_box(fields, b"\xab" * size)
    region = copied.region(tuple(coordinates))
    source = memory[region.address : region.address + region.size] if region.size else NOTHING
    copied.scatter(copied.load(source, region), got, shared_address)
    assert np.array_equal(got, want)

    shared = rng.integers(0, 256, MEMORY, np.uint8)
    stored, wanted = memory.copy(), memory.copy()
    for offset, address in expected:
        if offset is not None:
            wanted[offset : offset + size] = shared[address : address + size]
    target = stored[region.address : region.address + region.size] if region.size else NOTHING
    copied.store(region, target, copied.gather(shared, shared_address), None)
    assert np.array_equal(stored, wanted)


def machine_box(fields: TensorMapFields, fill: bytes) -> Box:
    """The machine's fast copy of the same box."""
    steps = (1, *fields.element_strides[1:])
    counts = tuple(-(-n // s) for n, s in zip(fields.box, steps, strict=True))
    return Box(
        address=0,
        bits=fields.element.bits,
        dims=fields.dims,
        pitches=fields.strides,
        counts=counts,
        steps=steps,
        swizzle=fields.swizzle,
        fill=fill,
    )
