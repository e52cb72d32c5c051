"""Tensor maps of the driver's encoders, beside those that NVIDIA's driver made."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxlab.descriptors import decode_tensor_map
from ptxlab.interop.session import Session
from tests.cuda.driver_helpers import Driver, needs_compiler

pytestmark = needs_compiler

RECORD = Path(__file__).parents[1] / "hardware" / "im2col_h200.npz"
ADDRESS = 1 << 32
FLOAT16, INVALID_VALUE = 6, 1
W, W128 = 0, 1


def wide(
    driver: Driver, rank: int, corners: Sequence[int], pixels: int, mode: int, swizzle: int, address: int = ADDRESS
) -> tuple[int, bytes]:
    """The encoder's answer for the tensor of the recording: f16, 16 channels, 400 elements in each other dimension."""
    room = (ctypes.c_uint8 * 256)()
    aligned = -(-ctypes.addressof(room) // 64) * 64
    dims, strides = (c_uint64 * 5)(16, *[400] * 4), (c_uint64 * 4)(*(32 * 400**d for d in range(4)))
    driver.call("cuInit", 0)
    head = (c_void_p(aligned), FLOAT16, rank, c_void_p(address), dims, strides)
    counts = (c_uint32(16), c_uint32(pixels), (c_uint32 * 5)(*[1] * 5))
    error = driver.cuTensorMapEncodeIm2colWide(*head, *map(c_int, corners), *counts, 0, mode, swizzle, 0, 0)
    return error, ctypes.string_at(aligned, 128)


def test_maps_of_the_wide_modes_equal_those_of_nvidias_driver(driver: Driver) -> None:
    with np.load(RECORD) as file:
        calls = file["wide"]
    refused = 0
    for call in calls:
        corners = int(call["lower"]), int(call["upper"])
        error, made = wide(driver, int(call["rank"]), corners, int(call["pixels"]), int(call["mode"]), int(call["swizzle"]))
        assert error == call["error"]
        assert error or made == call["bytes"].tobytes()
        refused += error == INVALID_VALUE
    assert 0 < refused < len(calls)


def test_the_mode_of_128_pixels_ignores_their_number(driver: Driver) -> None:
    error, made = wide(driver, 4, (-1, 1), 0, W128, 3)
    assert (error, decode_tensor_map(made).lower) == (0, (-1, 0))
    assert wide(driver, 4, (-1, 1), 0, W, 3)[0] == INVALID_VALUE


@pytest.mark.parametrize("wrong", [{"mode": 2}, {"rank": 2}, {"rank": 6}, {"corners": (300, 0)}, {"corners": (0, -500)}, {"address": 8}])
def test_what_is_no_wide_map(driver: Driver, wrong: dict[str, Any], found: Session) -> None:
    given: dict[str, Any] = {"rank": 4, "corners": (-1, 1), "pixels": 8, "mode": W, "swizzle": 3} | wrong
    assert wide(driver, **given)[0] == INVALID_VALUE


def test_the_same_map_again_and_what_is_refused_again(driver: Driver, found: Session) -> None:
    """Maps are kept by their arguments; what is refused stays refused."""
    first, again, other = (wide(driver, 4, (-1, 1), 8, W, 3, address) for address in (ADDRESS, ADDRESS, ADDRESS + 64))
    assert first == again
    assert (first[0], other[0]) == (0, 0)
    assert decode_tensor_map(other[1]).address == ADDRESS + 64
    for _ in range(2):
        assert wide(driver, 4, (300, 1), 8, W, 3)[0] == INVALID_VALUE
    assert [d.code for d in found.diagnostics] == ["D732"]
