"""Shared-memory operands against the exact CuTe layouts of the specification's examples, and against a loop over elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.layout import operand_addresses, operand_index, swizzle_bytes

MODES = ("none", "32B", "64B", "128B")


def cute(shape: Any, stride: Any, index: int) -> int:
    """Offset of a coordinate of one mode of a CuTe layout, first part fastest."""
    if isinstance(shape, int):
        return index * stride  # type: ignore[no-any-return]
    found = 0
    for part, step in zip(shape, stride, strict=True):
        size = int(np.prod(part))
        found += cute(part, step, index % size)
        index //= size
    return found


def cute_swizzle(bits: int, base: int, shift: int, address: int) -> int:
    return address ^ (address >> (base + shift) & ((1 << bits) - 1)) << base


@pytest.mark.parametrize(
    ("major", "swizzle", "bits", "shape", "stride", "leading", "step"),
    [
        # Canonical Layouts: the five examples, (rows, k) of each exact layout; LBO and SBO as encoded, in units of 16 bytes.
        ("k", "none", 32, ((8, 2), (4, 4)), ((4, 32), (1, 64)), 16, 8),
        ("k", "32B", 32, ((8, 2), (4, 4)), ((8, 64), (1, 4)), 1, 16),
        ("mn", "none", 16, ((8, 1, 2), (8, 2)), ((1, 8, 64), (8, 128)), 16, 8),
        ("mn", "32B", 16, ((8, 2, 2), (8, 2)), ((1, 8, 128), (16, 256)), 16, 32),
        ("mn", "64B", 16, ((8, 4, 2), (8, 2)), ((1, 8, 256), (32, 512)), 32, 64),
    ],
)
def test_examples_of_canonical_layouts(major: Any, swizzle: str, bits: int, shape: Any, stride: Any, leading: int, step: int) -> None:
    rows, k = (int(np.prod(part)) for part in shape)
    if (major, swizzle) == ("k", "32B"):
        # As printed, elements of k from 8 on overlap the next row: a row has 32 bytes.
        k = 8
    d = SharedMemoryDescriptor(start=1024, leading=leading * 16, stride=step * 16, swizzle=swizzle)
    found = operand_addresses(d, rows, k, bits, major)
    swizzle_bits = MODES.index(swizzle)
    for r, c in itertools.product(range(rows), range(k)):
        linear = (cute(shape[0], stride[0], r) + cute(shape[1], stride[1], c)) * bits // 8
        assert found[r, c] == 1024 + cute_swizzle(swizzle_bits, 4, 3, linear)


@pytest.mark.parametrize("swizzle", MODES)
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("kind", [SharedMemoryDescriptor, WgmmaDescriptor])
def test_steps_along_k_inside_an_atom(kind: Any, swizzle: str, bits: int) -> None:
    """Advancing the start address by 32 bytes gives the elements of the next K step, though the start is then not aligned to the atom."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    k = 32 * 8 // bits
    d = kind(start=2048, leading=4096, stride=width * 8, swizzle=swizzle)
    steps = 4 if swizzle == "none" else width // 32
    whole = operand_addresses(d, 64, k * steps, bits)
    advance = 2 * 4096 if swizzle == "none" else 32
    for i in range(steps):
        moved = kind(start=2048 + i * advance, leading=4096, stride=width * 8, swizzle=swizzle)
        assert np.array_equal(operand_addresses(moved, 64, k, bits), whole[:, i * k : (i + 1) * k])


def linear_address(d: SharedMemoryDescriptor, mn: int, byte: int, major: str) -> int:
    """One 16-byte slot in the words of "Major-ness supported by Strides"; ``byte`` along the contiguous dimension, ``mn`` across it."""
    width = {"none": 16, "32B": 32, "64B": 64}.get(d.swizzle, 128)
    if major == "k":
        inside = byte // 16 * d.leading if d.swizzle == "none" else byte
        return d.start + mn // 8 * d.stride + mn % 8 * width + inside
    if d.swizzle == "none":
        return d.start + mn // 8 * d.leading + mn % 8 * 16 + byte // 16 * d.stride
    lines = 4 if d.swizzle == "128B_32B" else 8
    return d.start + mn // lines * d.stride + mn % lines * width + byte // width * d.leading + byte % width


@given(
    start=st.integers(0, 1 << 12),
    leading=st.integers(0, 1 << 9),
    stride=st.integers(0, 1 << 9),
    swizzle=st.sampled_from([*MODES, "128B_32B"]),
    base_offset=st.integers(0, 7),
    major=st.sampled_from(["k", "mn"]),
    bits=st.sampled_from([8, 16, 32]),
)
def test_against_a_loop(start: int, leading: int, stride: int, swizzle: str, base_offset: int, major: Any, bits: int) -> None:
    d = SharedMemoryDescriptor(start * 16, leading * 16, stride * 16, swizzle, base_offset)
    rows, k = 32, 256 // bits
    found = operand_addresses(d, rows, k, bits, major)
    mask, at = {"none": (0, 4), "32B": (1, 4), "64B": (3, 4), "128B": (7, 4), "128B_32B": (3, 5)}[swizzle]
    for r, c in itertools.product(range(0, rows, 3), range(0, k, 3)):
        across, along = (r, c) if major == "k" else (c, r)
        byte = along * bits // 8
        address = linear_address(d, across, byte // 16 * 16, major)
        address ^= (((address >> 7) - base_offset) & mask) << at
        assert found[r, c] == address + byte % 16

    size = bits // 8
    index = operand_index(d.start % 1024, d.leading, d.stride, swizzle, base_offset, major, rows, k, size)
    base = d.start & ~1023
    assert base + index.low == found.min() // 16 * 16
    assert base + index.high == found.max() // 16 * 16 + 16
    shared = np.arange((base + index.high) // 4, dtype=np.uint32).view(np.uint8)
    assert np.array_equal(index.gather(shared, d.start), shared[found[..., None] + np.arange(size)].view(f"u{size}")[..., 0])


def test_elements_smaller_than_a_byte() -> None:
    d = SharedMemoryDescriptor(start=1024, stride=1024, swizzle="128B")
    packed = operand_addresses(d, 8, 64, 4)
    assert packed[0, :3].tolist() == [8192, 8196, 8200]
    assert packed[1, 32] == (1024 + 128) * 8, "the second slot of row 1 goes to the first place"
    four, six = operand_addresses(d, 8, 32, 4, padded=True), operand_addresses(d, 8, 32, 6)
    assert four[0, [0, 1, 15, 16]].tolist() == [8192, 8196, 8192 + 60, 8192 + 128]
    assert six[0, [0, 1, 15, 16]].tolist() == [8192, 8198, 8192 + 90, 8192 + 128]


def test_the_swizzles_are_permutations() -> None:
    addresses = np.arange(4096, dtype=np.int64)
    for swizzle, offset in itertools.product([*MODES, "128B_32B"], range(8)):
        found = swizzle_bytes(addresses, swizzle, offset)
        assert np.array_equal(np.sort(found), addresses)
        assert np.array_equal(found >> 7, addresses >> 7)
