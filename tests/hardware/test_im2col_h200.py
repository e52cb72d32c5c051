"""im2col and interleaved tensor copies as ``record_im2col`` recorded them on an H200."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ptxlab
from ptxlab.descriptors import TensorMapError, encode_tensor_map
from ptxlab.isa.bulk._map_cache import TileMap, _interpret
from ptxlab.isa.bulk._reduce import combiner
from ptxlab.isa.bulk._staging import NOTHING

from .im2col_cases import BUFFER, OFFSET, module
from .tma_cases import shared_pattern, tensor_bytes

SHOWS = {
    "test_loads": ("cp.async.bulk.tensor.*.im2col.mbarrier::complete_tx::bytes{*cta_group::2}*",),
    "test_stores_and_reductions": (
        "cp.async.bulk.tensor.*im2col_no_offs.bulk_group*",
        "cp.reduce.async.bulk.tensor.*im2col_no_offs.bulk_group*",
    ),
}

RECORD = Path(__file__).with_name("im2col_h200.npz")
BASE = 1024
ADDRESS = 1 << 32


def encoded(case, address=ADDRESS):
    rank = int(case["rank"])
    return encode_tensor_map(
        data_type=int(case["type"]),
        rank=rank,
        address=address,
        dims=case["dims"][:rank].tolist(),
        strides=case["strides"][: rank - 1].tolist(),
        box=case["box"][:rank].tolist(),
        element_strides=case["steps"][:rank].tolist(),
        interleave=int(case["interleave"]),
        swizzle=int(case["swizzle"]),
        oob_fill=int(case["fill"]),
        im2col=bool(case["im2col"]),
        lower=case["lower"].tolist(),
        upper=case["upper"].tolist(),
        channels=int(case["channels"]),
        pixels=int(case["pixels"]),
    )


@cache
def recorded():
    with np.load(RECORD) as file:
        cases, images = file["cases"], file["images"]
    found, at = [], 0
    for case in cases:
        size = BUFFER if case["operation"] == b"load" else int(case["size"])
        found.append((case, images[at : at + size]))
        at += size
    assert at == len(images)
    return found


def chosen(load, im2col):
    return [(case, image) for case, image in recorded() if (case["operation"] == b"load") is load and bool(case["im2col"]) is im2col]


def prepared(case):
    made = _interpret(encoded(case))
    assert isinstance(made, TileMap), made
    rank = int(case["rank"])
    coordinates = tuple(case["coordinates"][:rank].tolist())
    store = case["operation"] != b"load"
    assert made.takes(coordinates, store)
    region = made.region(coordinates, tuple(case["offsets"][: rank - 2].tolist()) if case["im2col"] else (), store)
    tensor = tensor_bytes(int(case["seed"]), int(case["size"]))
    start = region.address - ADDRESS
    raw = np.zeros(1 << 15, np.uint8)
    shared = raw[-raw.ctypes.data % 64 :][: 1 << 14]
    return made, tensor, region, tensor[start : start + region.size] if region.size else NOTHING, shared


@pytest.mark.parametrize("im2col", [True, False], ids=["im2col", "interleaved"])
def test_loads(im2col):
    wrong = []
    for i, (case, image) in enumerate(chosen(True, im2col)):
        made, _, region, source, shared = prepared(case)
        shared[:] = 0xEE
        made.box.scatter(made.box.load(source, region), shared, BASE + OFFSET)
        if not np.array_equal(shared[BASE : BASE + BUFFER], image) or bool(case["done"]) != (made.box.bytes == case["expect"]):
            wrong.append((i, case))
    assert not wrong


@pytest.mark.parametrize("im2col", [True, False], ids=["im2col", "interleaved"])
def test_stores_and_reductions(im2col):
    wrong = []
    for i, (case, image) in enumerate(chosen(False, im2col)):
        made, tensor, region, target, shared = prepared(case)
        shared[BASE : BASE + BUFFER] = shared_pattern()[:BUFFER]
        operation = case["operation"].decode()
        combine = None if operation == "store" else combiner(operation.removeprefix("red_"), made.element)
        made.box.store(region, target, made.box.gather(shared, BASE + OFFSET), combine)
        if not np.array_equal(tensor, image):
            wrong.append((i, case))
    assert not wrong


@pytest.mark.parametrize("number", range(0, 440, 40))
def test_whole_kernels(number):
    """The very kernels that were recorded."""
    case, image = recorded()[number]
    device = ptxlab.Device("sm_90a")
    buffer = device.array(tensor_bytes(int(case["seed"]), int(case["size"])))
    raw = device.array(np.frombuffer(encoded(case, buffer.address), np.uint8).copy())
    out, done = np.zeros(BUFFER, np.uint8), np.zeros(2, np.uint32)
    name = f"{case['operation'].decode()}_{'im2col' if case['im2col'] else 'tile'}_{int(case['rank'])}"
    args = [raw, out, done, int(case["expect"]), *case["coordinates"].tolist(), *case["offsets"].tolist()]
    result = ptxlab.loads(module())[name].launch(grid=1, block=128, args=args, device=device)
    assert result.ok, result.diagnostics
    if case["operation"] == b"load":
        assert np.array_equal(out, image)
    else:
        assert np.array_equal(buffer.numpy(), image)


def test_maps_of_the_wide_modes():
    """The driver's encoder for ``im2col::w`` and ``im2col::w::128`` makes im2col maps whose box has corners along W alone."""
    with np.load(RECORD) as file:
        calls = file["wide"]
    for call in calls:
        rank, spatial = int(call["rank"]), int(call["rank"]) - 2
        made = None
        try:
            made = encode_tensor_map(
                data_type=6,
                rank=rank,
                address=ADDRESS,
                dims=(16, 400, 400, 400, 400),
                strides=[32 * 400**d for d in range(4)],
                element_strides=(1,) * 5,
                swizzle=int(call["swizzle"]),
                im2col=True,
                lower=(int(call["lower"]), *(0,) * (spatial - 1)),
                upper=(int(call["upper"]), *(0,) * (spatial - 1)),
                channels=16,
                pixels=int(call["pixels"]),
            )
        except TensorMapError:
            assert call["error"]
        assert made is None or (made == call["bytes"].tobytes() and not call["error"])


def test_a_filter_outside_its_bounding_box_is_refused():
    with np.load(RECORD) as file:
        refused = file["refused"]
    assert len(refused) == 5
    for case in refused:
        made = _interpret(encoded(case))
        assert isinstance(made, TileMap)
        assert not made.takes(tuple(case["coordinates"][: int(case["rank"])].tolist()), False)
