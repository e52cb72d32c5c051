"""Every recorded H200 wgmma execution: gather A and B through the descriptors, multiply exactly, compare D."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.descriptors import WgmmaDescriptor
from ptxlab.layout import operand_addresses, operand_index

DATA = np.load(Path(__file__).parents[1] / "hardware" / "wgmma_h200.npz")
SETS = [entry for entry in json.loads(bytes(DATA["meta"])) if entry["key"].startswith("layout/")]

TYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32,
}  # fmt: skip


def descriptor(word: int, base: int) -> WgmmaDescriptor:
    return WgmmaDescriptor.decode(int(word) + (base >> 4))


@pytest.mark.parametrize("entry", SETS, ids=lambda entry: entry["key"].removeprefix("layout/"))
def test_addresses_reproduce_the_execution(entry: dict[str, Any]) -> None:
    key, base = entry["key"], entry["smem_base"]
    parts = entry["instruction"].split(".")
    k = int(parts[4].split("k")[1])
    d_type, a_type, b_type = (TYPES[name] for name in parts[5:8])
    image = np.zeros(base + 65536, np.uint8)
    image[base:] = DATA[f"{key}/smem"]
    offsets: set[int] = set()
    for desc_a, desc_b, c, d in zip(*(DATA[f"{key}/{name}"] for name in ("desc_a", "desc_b", "c", "d")), strict=True):
        operands = []
        for word, rows, dtype, transposed in ((desc_a, 64, a_type, entry["trans_a"]), (desc_b, 16, b_type, entry["trans_b"])):
            found = descriptor(word, base)
            offsets.add(found.base_offset)
            size, major = np.dtype(dtype).itemsize, "mn" if transposed else "k"
            addresses = operand_addresses(found, rows, k, size * 8, major)
            values = image[addresses[..., None] + np.arange(size)].view(dtype)[..., 0]
            index = operand_index(found.start % 1024, found.leading, found.stride, found.swizzle, found.base_offset, major, rows, k, size)
            start = found.start & ~1023
            assert start + index.low <= addresses.min()
            assert addresses.max() < start + index.high
            assert np.array_equal(index.gather(image, found.start).view(dtype), values)
            operands.append(values.astype(np.float64))
        expected = operands[0] @ operands[1].T + c.view(d_type).astype(np.float64)
        assert np.array_equal(expected, d.view(d_type).astype(np.float64))
    assert len(offsets) > 1, "the recording has base offsets"
