"""`TensorMap` and the refusals of the encoder; the recorded calls are in tests/hardware/test_tensormap_driver.py."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ptxlab.descriptors import TensorMap, TensorMapError, decode_tensor_map, encode_tensor_map, replace_field

CALL: dict[str, Any] = {
    "data_type": 6, "rank": 2, "address": 0x10000, "dims": (512, 256), "strides": (1024,), "box": (64, 128), "element_strides": (1, 1),
}  # fmt: skip
VOLUME = {**CALL, "rank": 3, "dims": (64, 32, 8), "strides": (128, 4096), "box": (8, 8, 8), "element_strides": (1, 1, 1)}
IM2COL = {**VOLUME, "im2col": True, "lower": (0,), "upper": (0,), "channels": 64, "pixels": 8}


@pytest.mark.parametrize(
    ("call", "change", "message"),
    [
        (CALL, {"data_type": 16}, "data_type: 16 is not an element type; they are 0 to 15"),
        (CALL, {"data_type": 13}, "data_type: sm_90a has no element type b4x16 in this mode"),
        (CALL, {"rank": 6}, "rank: the rank is 6; it can be 1 to 5"),
        (CALL, {"interleave": 1}, "rank: the rank is 2; it can be 3 to 5 with interleave layout 16B"),
        (CALL, {"im2col": True}, "rank: the rank is 2; it can be 3 to 5 in im2col mode"),
        (CALL, {"interleave": 3}, "interleave: 3 is not a valid interleave layout; valid are 0, 1, 2"),
        (CALL, {"swizzle": 4}, "swizzle: 4 is not a valid swizzling mode of sm_90a; valid are 0, 1, 2, 3"),
        (CALL, {"data_type": 1, "oob_fill": 1}, "oob_fill: fill mode NaN needs a floating-point type, not u16"),
        (CALL, {"address": 0x10008}, "address: the global address 0x10008 is not a multiple of 16"),
        (CALL, {"dims": (512, 0)}, "dims[1]: the size is 0; it can be 1 to 2^32"),
        (CALL, {"dims": (512,)}, "dims: 1 values; the rank needs 2"),
        (CALL, {"strides": (1000,)}, "strides[0]: the stride is 1000 bytes; it must be a multiple of 16 below 2^40"),
        (CALL, {"element_strides": (1, 9)}, "element_strides[1]: the traversal stride is 9; it can be 1 to 8"),
        (CALL, {"box": (64, 257)}, "box[1]: the number is 257; it can be 1 to 256"),
        (CALL, {"box": (12, 8)}, "box[0]: 12 elements of f16 are 24 bytes; they must be a multiple of 16 bytes"),
        (CALL, {"box": (256, 256), "data_type": 7}, "box: one copy has 262144 bytes; shared memory has 233472"),
        (CALL, {"box": (128, 8), "swizzle": 3}, "box[0]: 128 elements of f16 are 256 bytes, more than the 128 bytes of 128B swizzling"),
        (VOLUME, {"interleave": 2, "address": 16}, "address: the global address 0x10 is not a multiple of 32"),
        (IM2COL, {"channels": None}, "channels: the number is None; it can be 1 to 256"),
        (IM2COL, {"pixels": 1025}, "pixels: the number is 1025; it can be 1 to 1024"),
        (IM2COL, {"lower": (40_000,)}, "lower[0]: the corner is 40000; it can be -32768 to 32767 for rank 3"),
        (IM2COL, {"upper": (-32,)}, "upper[0]: the bounding box of dimension 1 is empty: size 32, lower corner 0, upper corner -32"),
    ],
)
def test_refusals(call: dict[str, Any], change: dict[str, Any], message: str) -> None:
    assert encode_tensor_map(**call)
    with pytest.raises(TensorMapError) as caught:
        encode_tensor_map(**{**call, **change})
    assert caught.value.diagnostic.message == message
    assert caught.value.diagnostic.code == "D732"
    assert message.startswith(caught.value.argument)


def test_larger_atoms_from_sm_100_on() -> None:
    for swizzle in (4, 5, 6):
        raw = encode_tensor_map(**CALL, swizzle=swizzle, target="sm_100a")
        assert decode_tensor_map(raw).swizzle == swizzle
        built = bytearray(encode_tensor_map(**CALL, swizzle=3))
        replace_field(built, "swizzle_atomicity", None, swizzle - 3)
        assert bytes(built) == raw


NARROW = {"data_type": 13, "box": (256, 128), "dims": (512, 256), "strides": (256,), "swizzle": 3, "target": "sm_100a"}
PADDED = NARROW | {"data_type": 14, "box": (128, 128), "address": 0x10020}


def test_narrow_elements_from_sm_100_on() -> None:
    """Sizes count elements of 4 and 6 bits."""
    for data_type, change in ((13, NARROW), (14, PADDED), (15, PADDED | {"strides": (384,)})):
        found = decode_tensor_map(encode_tensor_map(**{**CALL, **change, "data_type": data_type}))
        assert (found.data_type, found.dims, found.box, found.strides) == (data_type, (512, 256), change["box"], change["strides"])


@pytest.mark.parametrize(
    ("call", "change", "message"),
    [
        (NARROW, {"dims": (511, 256)}, "dims[0]: the size is 511; of elements of type b4x16 it must be a multiple of 2"),
        (NARROW, {"box": (512, 1)}, "box[0]: the number is 512; it can be 1 to 256"),
        (NARROW, {"swizzle": 2}, "box[0]: 256 elements of b4x16 are 128 bytes, more than the 64 bytes of 64B swizzling"),
        (PADDED, {"dims": (448, 256)}, "dims[0]: the size is 448; of elements of type b4x16_p64 it must be a multiple of 128"),
        (PADDED, {"box": (64, 128)}, "box[0]: the number is 64; of elements of type b4x16_p64 it must be 128"),
        (PADDED, {"address": 0x10010}, "address: the global address 0x10010 is not a multiple of 32"),
        (PADDED, {"strides": (272,)}, "strides[0]: the stride is 272 bytes; it must be a multiple of 32 below 2^40"),
        (
            PADDED,
            {"rank": 3, "dims": (512, 256, 1), "strides": (256, 256), "box": (128, 1, 1), "element_strides": (1, 1, 1), "interleave": 1},
            "interleave: elements of type b4x16_p64 cannot be interleaved",
        ),
    ],
)
def test_refusals_of_narrow_elements(call: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorMapError) as caught:
        encode_tensor_map(**{**CALL, **call, **change})
    assert caught.value.diagnostic.message == message


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ((68, 3), 7, "rank: the rank field holds 7, which means 8 dimensions; a tensor has 1 to 5"),
        ((71, 4), 14, "data_type: the storage format field holds 14, which is not an element type"),
        ((86, 1), 1, "swizzle: the swizzling mode field holds 4, which is not a mode"),
        ((75, 2), 3, "interleave: the interleave field holds 3, which is not a layout"),
        ((83, 2), 2, "swizzle: swizzle atomicity 2 needs 128B swizzling, not mode 0"),
        ((64, 1), 1, "rank: an im2col map of rank 1; it needs 3 to 5 dimensions"),
    ],
)
def test_what_cannot_be_read(field: tuple[int, int], value: int, message: str) -> None:
    with pytest.raises(TensorMapError) as caught:
        decode_tensor_map((value << field[0]).to_bytes(128, "little"))
    assert caught.value.diagnostic.message == message


def test_the_wrong_size() -> None:
    with pytest.raises(TensorMapError, match="a tensor map has 128 bytes, not 64"):
        decode_tensor_map(bytes(64))


def test_over_an_array() -> None:
    array = np.zeros((3, 256, 512), np.float16)[:, ::2, :256]
    tm = TensorMap(array, box=(64, 128, 1), swizzle="128B", l2_promotion="128B", oob_fill="nan")
    assert tm.base is array
    assert (tm.dims, tm.strides, tm.box, tm.element_strides) == ((256, 128, 3), (2048, 262144), (64, 128, 1), (1, 1, 1))
    assert (tm.dtype, tm.swizzle, tm.interleave, tm.l2_promotion, tm.oob_fill) == ("f16", "128B", "none", "128B", "nan")
    assert bytes(tm) == tm.encode(0)
    raw = tm.encode(0x7F1000000000)
    same = {"data_type": 6, "rank": 3, "dims": tm.dims, "strides": tm.strides, "box": tm.box, "element_strides": (1, 1, 1)}
    assert raw == encode_tensor_map(address=0x7F1000000000, swizzle=3, l2_promotion=2, oob_fill=1, **same)
    assert bytes(TensorMap.decode(raw)) == raw
    assert TensorMap.decode(raw).base is None
    assert repr(tm) == "<TensorMap f16 dims=(256, 128, 3) strides=(2048, 262144) box=(64, 128, 1) swizzle=128B>"


class Buffer:
    address = 0x7F1000000400
    shape = (8, 16)
    dtype = np.dtype(np.int32)


def test_over_a_device_buffer() -> None:
    tm = TensorMap(Buffer(), box=(16, 8))
    assert decode_tensor_map(bytes(tm)).address == Buffer.address
    assert (tm.dims, tm.strides, tm.dtype) == ((16, 8), (64,), "s32")


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.uint8, "u8"), (np.int8, "u8"), (np.uint16, "u16"), (np.uint32, "u32"),
        (np.int64, "s64"), (np.float64, "f64"), (np.float32, "f32"),
        (ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float8_e4m3fn, "u8"), (ml_dtypes.float8_e5m2, "u8"),
    ],
)  # fmt: skip
def test_types_of_arrays(dtype: Any, name: str) -> None:
    assert TensorMap(np.zeros((16, 16), dtype), box=(16, 16)).dtype == name


def test_an_element_type_by_name() -> None:
    array = np.zeros((16, 16), np.float32)
    assert TensorMap(array, box=(16, 16), dtype="tf32").dtype == "tf32"
    assert TensorMap(array, box=(16, 16), dtype=np.uint32).dtype == "u32"
    assert TensorMap(array, box=(16, 16), dtype="f16", dims=(32, 16)).strides == (64,)
    assert TensorMap(array, box=(32, 16), dtype="b4x16", dims=(128, 16)).strides == (64,)


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros((4, 4), np.complex64), {}, "dtype: complex64 is not an element type of tensor maps; they are u8, u16, "),
        (
            np.zeros((4, 8), np.float16),
            {"dtype": "f32"},
            "dtype: elements of f32 have 4 bytes, those of the array 2; give dims (and strides)",
        ),
        (
            np.zeros((8, 16), np.float32)[:, ::2],
            {},
            "strides: the elements of the last axis are 8 bytes apart; the innermost dimension must",
        ),
        (np.zeros((4, 6), np.float16), {}, "strides[0]: the stride is 12 bytes; it must be a multiple of 16 below 2^40"),
        (np.zeros((4, 8, 8), np.float16), {}, "box: 2 values for a tensor of 3 dimensions; 3 are needed"),
        (np.zeros((4, 8), np.float16), {"swizzle": "96B"}, "swizzle: '96B' is not one of none, 32B, 64B, 128B, 128B_32B, "),
        (np.zeros((4, 8), np.float16), {"box": (8, 1.5)}, "box: (8, 1.5) is not a sequence of integers"),
        (np.zeros((4, 16), np.uint8), {"dtype": "b4x16"}, "dims: elements of b4x16 have 4 bits; give dims (and strides)"),
        (b"abc", {}, "dtype: a base of type bytes has no element type; name one"),
        (b"abc", {"dtype": "u8"}, "dims: a base of type bytes without a shape needs dims"),
    ],
)
def test_refusals_of_the_class(array: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TensorMapError) as caught:
        TensorMap(array, **{"box": (8, 1), **options})
    assert caught.value.diagnostic.message.startswith(message)


@pytest.mark.parametrize(
    ("own", "other", "name"),
    [(np.float16, "bf16", "float16"), (np.float16, ml_dtypes.bfloat16, "float16"), (ml_dtypes.bfloat16, "f16", "bfloat16")],
)
@pytest.mark.parametrize("further", [{}, {"dims": (16, 16)}], ids=["", "dims"])
def test_half_types_are_not_taken_for_each_other(own: Any, other: Any, name: str, further: dict[str, Any]) -> None:
    wanted = "f16" if other == "f16" else "bf16"
    with pytest.raises(TensorMapError) as caught:
        TensorMap(np.zeros((16, 16), own), box=(16, 16), dtype=other, **further)
    assert str(caught.value) == (
        f"error[D732]: dtype: elements of {wanted} over an array of {name}: the same bits are other numbers\n"
        "  why: Tensor-map\n"
        f"  fix: leave out dtype, or convert the array; to take its bits as {wanted}, give array.view(np.uint16)"
    )
    assert TensorMap(np.zeros((16, 16), own).view(np.uint16), box=(16, 16), dtype=other).dtype == wanted


def test_other_views_of_the_same_width_are_taken() -> None:
    views = [(np.uint16, "bf16"), (np.int16, "f16"), (np.float16, "u16"), (np.float32, "tf32"), (ml_dtypes.float8_e4m3fn, "u8")]
    assert [TensorMap(np.zeros((16, 16), own), box=(16, 16), dtype=dtype).dtype for own, dtype in views] == [name for _, name in views]


def test_an_address_that_does_not_fit() -> None:
    tm = TensorMap(np.zeros((4, 8), np.float16), box=(8, 1))
    with pytest.raises(TensorMapError, match="the global address 0x7f1000000008 is not a multiple of 16"):
        tm.encode(0x7F1000000008)


def test_im2col() -> None:
    array = np.zeros((2, 16, 16, 64), np.float16)
    tm = TensorMap.im2col(array, lower=(-1, -1), upper=(-1, -1), channels=64, pixels=32, swizzle="128B")
    fields = decode_tensor_map(bytes(tm))
    assert fields.im2col
    assert (fields.lower, fields.upper, fields.channels, fields.pixels) == ((-1, -1), (-1, -1), 64, 32)
    assert bytes(TensorMap.decode(bytes(tm))) == bytes(tm)


def test_slices_of_channels() -> None:
    """The last axis is the slice; packed strides count it."""
    array = np.zeros((2, 3, 5, 6, 16), np.uint8)
    made = TensorMap(array, box=(16, 1, 1, 1), interleave="16B")
    assert (made.dims, made.strides) == ((6, 5, 3, 2), (96, 480, 1440))
    assert TensorMap(array, box=(16, 1, 1, 1), dims=(6, 5, 3, 2), interleave="16B").strides == made.strides
    with pytest.raises(TensorMapError, match="interleave: the last axis has 16 bytes; a slice of channels has 32"):
        TensorMap(array, box=(16, 1, 1, 1), interleave="32B")
    with pytest.raises(TensorMapError, match="strides: the slices are 32 bytes apart; along W they must be contiguous"):
        TensorMap(array[:, :, :, ::2], box=(16, 1, 1, 1), interleave="16B")
    with pytest.raises(TensorMapError, match="rank: the rank is 0; it can be 3 to 5 with interleave layout 16B"):
        TensorMap(np.zeros(16, np.uint8), box=(), interleave="16B")
