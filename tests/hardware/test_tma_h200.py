"""Tensor copies against an H200: loads, stores and reductions recorded by ``record_tma.py``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ptxlab.descriptors import encode_tensor_map
from ptxlab.isa.bulk._map_cache import TileMap, _interpret
from ptxlab.isa.bulk._reduce import combiner
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.tables import ELEMENT_TYPES

from .tma_cases import BUFFER, shared_pattern, tensor_bytes

RECORD = Path(__file__).with_name("tma_h200.npz")
BASE = 1024
"""Where the recorded window of shared memory stands."""


@cache
def recorded():
    with np.load(RECORD) as file:
        cases, images = file["cases"], file["images"]
    found, at = {}, 0
    for case in cases:
        size = BUFFER if case["operation"] == b"load" else int(case["size"])
        found.setdefault(case["operation"].decode(), []).append((case, images[at : at + size]))
        at += size
    assert at == len(images)
    return found


def tile(case) -> TileMap:
    rank = int(case["rank"])
    raw = encode_tensor_map(
        data_type=int(case["type"]),
        rank=rank,
        address=1 << 32,
        dims=case["dims"][:rank].tolist(),
        strides=case["strides"][: rank - 1].tolist(),
        box=case["box"][:rank].tolist(),
        element_strides=case["steps"][:rank].tolist(),
        interleave=int(case["interleave"]),
        swizzle=int(case["swizzle"]),
        l2_promotion=0,
        oob_fill=int(case["fill"]),
    )
    found = _interpret(bytes(raw))
    assert isinstance(found, TileMap), found
    return found


def prepared(case):
    made = tile(case)
    tensor = tensor_bytes(int(case["seed"]), int(case["size"]))
    coordinates = tuple(case["coordinates"][: int(case["rank"])].tolist())
    assert made.takes(coordinates, case["operation"] != b"load")
    region = made.region(coordinates, (), case["operation"] != b"load")
    start = region.address - (1 << 32)
    raw = np.zeros(1 << 16, np.uint8)
    skip = -raw.ctypes.data % 64
    return made, tensor, region, tensor[start : start + region.size] if region.size else NOTHING, raw[skip : skip + (1 << 15)]


def test_loads_put_the_same_bytes_into_shared_memory():
    wrong = []
    for i, (case, image) in enumerate(recorded()["load"]):
        made, _, region, source, shared = prepared(case)
        shared[:] = 0xEE
        made.box.scatter(made.box.load(source, region), shared, BASE + int(case["offset"]))
        if not np.array_equal(shared[BASE : BASE + BUFFER], image):
            wrong.append((i, case))
        assert made.box.bytes == case["expect"]
        assert case["done"], "the whole box counts as transferred, whatever of it is outside the tensor"
    assert not wrong


OPERATIONS = sorted(set(recorded()) - {"load"})


@pytest.mark.parametrize("operation", OPERATIONS)
def test_stores_and_reductions_leave_the_same_bytes_in_global_memory(operation):
    """Also what is behind the last element of a row: the silicon writes whole 16-byte pieces."""
    wrong = []
    for i, (case, image) in enumerate(recorded()[operation]):
        made, tensor, region, target, shared = prepared(case)
        shared[BASE : BASE + BUFFER] = shared_pattern()
        combine = None if operation == "store" else combiner(operation.removeprefix("red_"), made.element)
        made.box.store(region, target, made.box.gather(shared, BASE + int(case["offset"])), combine)
        if not np.array_equal(tensor, image):
            bad = np.flatnonzero(tensor != image)
            wrong.append((i, ELEMENT_TYPES[int(case["type"])].name, len(bad), bad[:8].tolist()))
    assert not wrong
