"""All recorded calls of the CUDA driver's tensor-map encoders: the same bits, or a refusal where the driver refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxlab.descriptors import TensorMapError, decode_tensor_map, encode_tensor_map, replace_field
from ptxlab.tables import ELEMENT_TYPES

RECORDS = np.load(Path(__file__).with_name("tensormap_driver.npz"))["records"]
NAMES = [name for name in RECORDS.dtype.names if name not in ("bits", "error")]


def arguments(records: np.ndarray) -> list[dict[str, Any]]:
    columns = {name: records[name].tolist() for name in NAMES}
    return [dict(zip(NAMES, row, strict=True)) for row in zip(*columns.values(), strict=True)]


CALLS = arguments(RECORDS)
ACCEPTED = np.flatnonzero(RECORDS["error"] == 0)


def test_the_recording_is_whole() -> None:
    assert len(RECORDS) == 14_000
    assert len(ACCEPTED) == 3_478


def test_same_bits_or_a_refusal() -> None:
    for call, error, bits in zip(CALLS, RECORDS["error"].tolist(), RECORDS["bits"], strict=True):
        made, refused = b"", ""
        try:
            made = encode_tensor_map(**call)
        except TensorMapError as refusal:
            refused = str(refusal)
        assert bool(refused) == bool(error), (call, refused)
        assert made == (b"" if error else bits.tobytes()), call


def test_decode_inverts() -> None:
    for i in ACCEPTED.tolist():
        call = CALLS[i]
        rank, spatial = call["rank"], call["rank"] - 2
        fields = decode_tensor_map(RECORDS["bits"][i])
        for name in ("data_type", "rank", "address", "interleave", "swizzle", "l2_promotion", "oob_fill"):
            assert getattr(fields, name) == call[name]
        assert fields.im2col == bool(call["im2col"])
        assert fields.dims == tuple(call["dims"][:rank])
        assert fields.strides == tuple(call["strides"][: rank - 1])
        assert fields.element_strides == tuple(call["element_strides"][:rank])
        if fields.im2col:
            assert fields.box == ()
            assert (fields.channels, fields.pixels) == (call["channels"], call["pixels"])
            assert fields.lower == tuple(call["lower"][:spatial])
            assert fields.upper == tuple(call["upper"][:spatial])
        else:
            assert fields.box == tuple(call["box"][:rank])


def test_replace_on_zeroed_memory_reads_as_the_drivers_map() -> None:
    """What kernels do that build their own maps: no L2 promotion can be set so, all else reads the same."""
    for i in ACCEPTED[~RECORDS["im2col"][ACCEPTED].astype(bool)][:1500].tolist():
        call = CALLS[i]
        rank = call["rank"]
        raw = bytearray(128)
        replace_field(raw, "global_address", None, call["address"])
        replace_field(raw, "rank", None, rank - 1)
        replace_field(raw, "elemtype", None, ELEMENT_TYPES[call["data_type"]].replace)
        replace_field(raw, "interleave_layout", None, call["interleave"])
        replace_field(raw, "swizzle_mode", None, call["swizzle"])
        replace_field(raw, "fill_mode", None, call["oob_fill"])
        for d in range(rank):
            replace_field(raw, "box_dim", d, call["box"][d])
            replace_field(raw, "global_dim", d, call["dims"][d])
            replace_field(raw, "element_stride", d, call["element_strides"][d])
            if d:
                replace_field(raw, "global_stride", d - 1, call["strides"][d - 1])
        assert decode_tensor_map(raw) == decode_tensor_map(encode_tensor_map(**{**call, "l2_promotion": 0}))


def test_replace_in_an_array_changes_it_in_place() -> None:
    raw = RECORDS["bits"][ACCEPTED[0]].copy()
    replace_field(raw, "global_address", None, 0x7F1000000000)
    assert decode_tensor_map(raw).address == 0x7F1000000000
    assert (raw != RECORDS["bits"][ACCEPTED[0]]).sum() <= 8


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "message"),
    [
        ("rank", None, 5, "rank: the new value is 5; it can be 0 to 4"),
        ("box_dim", 5, 8, "box_dim: the ordinal is 5; it can be 0 to 4"),
        ("global_stride", 4, 16, "global_stride: the ordinal is 4; it can be 0 to 3"),
        ("box_dim", 0, 257, "box_dim: box0 is 257; it can be 1 to 256"),
        ("global_stride", 0, 24, "global_stride: stride0 is 0x18; it must be a multiple of 16"),
        ("element_stride", 1, 9, "element_stride: element_stride1 is 9; it can be 1 to 8"),
        ("elemtype", None, 16, "elemtype: 16 is not an element type of tensormap.replace; they are 0 to 15"),
        ("swizzle_mode", None, 4, "swizzle_mode: the new value is 4; it can be 0 to 3"),
        ("colour", None, 4, "colour: tensormap.replace has no field .colour; the fields are "),
    ],
)
def test_replace_refuses(field: str, ordinal: int | None, value: int, message: str) -> None:
    raw = bytearray(128)
    with pytest.raises(TensorMapError) as caught:
        replace_field(raw, field, ordinal, value)
    assert caught.value.diagnostic.message.startswith(message)
    assert raw == bytearray(128)
