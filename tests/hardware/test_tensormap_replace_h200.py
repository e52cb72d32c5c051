"""tensormap.replace as an H200 carries it out: every field, ordinal and several values, on memory that held zeros, ones, and a mixture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxlab.descriptors import decode_tensor_map, replace_field

CASES = np.load(Path(__file__).with_name("tensormap_replace_h200.npz"))["cases"]


def test_the_recording_is_whole() -> None:
    assert len(CASES) == 351
    assert len(np.unique(CASES["field"])) == 10


@pytest.mark.parametrize("field", np.unique(CASES["field"]).tolist())
def test_the_same_bits(field: str) -> None:
    for case in CASES[CASES["field"] == field]:
        raw = case["before"].copy()
        replace_field(raw, field, None if case["ordinal"] < 0 else int(case["ordinal"]), int(case["value"]))
        assert np.array_equal(raw, case["after"]), (case["ordinal"], case["value"], case["before"][0])


def test_rounding_to_tf32_stays() -> None:
    """Element type f32 in a map of tf32 leaves tf32; other types have nothing to round."""
    raw = bytearray(128)
    replace_field(raw, "elemtype", None, 11)
    assert decode_tensor_map(raw).element.name == "tf32"
    replace_field(raw, "elemtype", None, 7)
    assert decode_tensor_map(raw).element.name == "tf32"
    replace_field(raw, "elemtype", None, 6)
    assert decode_tensor_map(raw).element.name == "f16"
