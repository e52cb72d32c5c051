"""Packed codes: against bit strings written out one bit at a time, and round trips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.formats import FORMATS, FormatError, pack, unpack

PACKINGS = ["dense", "padded", "bytes"]


def bit_string(codes: list[int], bits: int) -> list[int]:
    """Bytes of codes one after the other, low bits first."""
    number = sum(code << (bits * i) for i, code in enumerate(codes))
    return [number >> (8 * i) & 255 for i in range(len(codes) * bits // 8)]


def by_the_book(codes: list[int], bits: int, packing: str) -> list[int]:
    if packing == "dense" or bits >= 8:
        return bit_string(codes, bits)
    if packing == "bytes":
        return [code << 2 if bits == 4 else code for code in codes]
    slots = (codes[i : i + 16] for i in range(0, len(codes), 16))
    return [byte for slot in slots for byte in (bit_string(slot, bits) + 16 * [0])[:16]]


@given(st.sampled_from(list(FORMATS)), st.sampled_from(PACKINGS), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_bytes_and_back(fmt: str, packing: Any, slots: int, seed: int) -> None:
    row = FORMATS[fmt]
    codes = np.random.default_rng(seed).integers(0, 1 << row.bits, (2, 3, 16 * slots), dtype=np.uint64)
    packed = pack(codes, fmt, packing)
    assert packed.dtype == np.uint8
    for index in np.ndindex(2, 3):
        assert packed[index].tolist() == by_the_book(codes[index].tolist(), row.bits, packing)
    assert np.array_equal(unpack(packed, fmt, packing), codes)


def test_padding_is_ignored() -> None:
    for fmt, packing, padding in (("e2m1", "bytes", 0xC3), ("e3m2", "bytes", 0xC0)):
        codes = np.arange(1 << FORMATS[fmt].bits)
        assert np.array_equal(unpack(pack(codes, fmt, packing) | np.uint8(padding), fmt, packing), codes)  # type: ignore[arg-type]
    slots = pack(np.arange(16), "e2m1", "padded")
    slots[8:] = 255
    assert np.array_equal(unpack(slots, "e2m1", "padded"), np.arange(16))


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (pack, ([1], "e2m1", "tight"), "no packing 'tight'; there are dense, padded, bytes"),
        (pack, ([16, 0], "e2m1"), "e2m1 codes are unsigned integers below 2^4; got int64"),
        (pack, ([1, 2, 3], "e2m1"), "dense e2m1: expected a multiple of 2 codes, got 3"),
        (pack, ([1, 2, 3], "e3m2"), "dense e3m2: expected a multiple of 4 codes, got 3"),
        (pack, (list(range(8)), "e2m3", "padded"), "padded e2m3: expected a multiple of 16 codes, got 8"),
        (unpack, (np.zeros(4, np.uint8), "e2m3"), "dense e2m3: expected a multiple of 3 bytes, got 4"),
        (unpack, (np.zeros(3, np.uint8), "f16"), "dense f16: expected a multiple of 2 bytes, got 3"),
        (unpack, (np.zeros(8, np.uint8), "e2m1", "padded"), "padded e2m1: expected a multiple of 16 bytes, got 8"),
        (unpack, ([300], "e4m3"), "packed e4m3: expected uint8, got int64"),
    ],
)
def test_errors(function: Any, arguments: Any, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        function(*arguments)
    assert caught.value.diagnostic.message == text
