"""The part ``tma``: every copy completes, and tiles have the bytes that `tests.layout.tma_helpers` puts there element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxlab import silicon
from ptxlab.descriptors import TensorMapFields, decode_tensor_map
from ptxlab.silicon._compare import replay
from tests.layout.tma_helpers import tma_box

CASES = {f"{target}, {name}": case for target in ("sm_90a", "sm_100a") for name, _, case in silicon.cases_of(target, ["tma"])}
AS_THEY_ARE = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16")
"""Element types that a copy does not change."""


def fields(outputs: list[NDArray[np.uint8]]) -> TensorMapFields:
    return decode_tensor_map(outputs[-1])


def in_pieces(made: TensorMapFields) -> TensorMapFields:
    """What a store writes: rows of whole 16-byte pieces."""
    piece = 128 // made.element.bits
    return replace(made, dims=(-(-made.dims[0] // piece) * piece, *made.dims[1:]))


def tiles(direction: str) -> list[str]:
    found = [name for name in CASES if f"d.{direction}.tile." in name and "interleave" not in name and "NaN" not in name]
    return [name for name in found if "gather" not in name and any(f", {kind}, " in name for kind in AS_THEY_ARE)]


@pytest.mark.parametrize("name", tiles("shared::cluster.global"))
def test_loads(name: str) -> None:
    case = CASES[name]
    outputs, _ = replay(case)
    image, done = outputs[:2]
    assert done.all()
    made, tensor = fields(outputs), case.inputs[0].data.view(np.uint8)
    size = made.element.bits // 8
    for words, shown in zip(case.inputs[1].data.astype(np.int32), image, strict=True):
        box = tma_box(made, words[: made.rank].tolist(), int(words[9]))
        expected = np.full(shown.nbytes, 0xEE, np.uint8)
        for byte in range(size):
            at = np.where(box.inside, box.offset + byte, 0)
            expected[words[9] + box.shared + byte] = np.where(box.inside, tensor[at], 0)
        assert np.array_equal(shown.view(np.uint8), expected)


@pytest.mark.parametrize("name", [name for name in tiles("global.shared::cta") if "reduce" not in name])
def test_stores(name: str) -> None:
    case = CASES[name]
    outputs, _ = replay(case)
    made, expected, image = fields(outputs), case.inputs[0].data.view(np.uint8).copy(), case.inputs[2].data.view(np.uint8)
    (words,) = case.inputs[1].data.astype(np.int32)
    box = tma_box(in_pieces(made), words[: made.rank].tolist(), int(words[9]))
    for byte in range(made.element.bits // 8):
        expected[box.offset[box.inside] + byte] = image[words[9] + box.shared[box.inside] + byte]
    assert np.array_equal(outputs[0].view(np.uint8), expected)


@pytest.mark.sweep
def test_every_copy_completes() -> None:
    """Each mode occurs, the expected number of bytes is right, and each store changes the tensor."""
    for name in [name for name in CASES if "mbarrier" in name and name not in tiles("shared::cluster.global")]:
        outputs, _ = replay(CASES[name])
        assert outputs[1].all(), name
    part_of_a_piece = "rows that end within 16 bytes"
    for mode in (
        "im2col",
        "im2col_no_offs",
        part_of_a_piece,
        "tile::gather4",
        "tile::scatter4",
        "multicast::cluster",
        "NaN outside",
        "interleave 32B",
    ):
        assert any(mode in name for name in CASES), mode
    stores = {name: case for name, case in CASES.items() if "bulk_group" in name}
    assert [name for name, case in stores.items() if np.array_equal(replay(case)[0][0], case.inputs[0].data)] == []
