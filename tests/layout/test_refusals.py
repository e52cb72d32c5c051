"""What the functions say to arguments that mean nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab import layout
from ptxlab.descriptors import SharedMemoryDescriptor, ZeroColumnMask
from ptxlab.layout import LayoutError

PLAIN = SharedMemoryDescriptor(stride=1024, swizzle="128B")
WRONG = SharedMemoryDescriptor.decode(int(PLAIN) | 1 << 61)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: layout.operand_addresses(WRONG, 8, 16, 16),
            "the swizzling mode of the descriptor is 'code 3'; it can be none, 32B, 64B, 128B, 128B_32B",
        ),
        (lambda: layout.operand_addresses(PLAIN, 8, 16, 12), "there is no operand of 8 x 16 elements of 12 bits, 'k'-major"),
        (lambda: layout.operand_addresses(PLAIN, 8, 16, 16, "m"), "there is no operand of 8 x 16 elements of 16 bits, 'm'-major"),  # type: ignore[arg-type]
        (lambda: layout.canonical_layout("k", "256B"), "there is no canonical layout for 'k'-major operands with swizzling mode '256B'"),
        (lambda: layout.exact_layout(WRONG, 8, 16, 16), "there is no canonical layout for 'k'-major operands with swizzling mode 'code 3'"),
        (lambda: layout.accumulator_location(96, 64), "no data path layout for M = 96, cta_group::1"),
        (lambda: layout.a_location(64, 16, 16, 2, sparse=True), "no data path layout for M = 64, cta_group::2, sparse"),
        (lambda: layout.accumulator_location(32, 10, ws=True), "N = 10 does not fall into 4 equal parts, as layout G needs"),
        (
            lambda: layout.fragment("8x8b"),
            "tcgen05.ld has no shape .8x8b; the shapes are 32x32b, 16x64b, 16x128b, 16x256b, 16x32bx2",
        ),
        (lambda: layout.copy_destination("64x128b"), "tcgen05.cp has no shape .64x128b"),
        (lambda: layout.decompression("b8x16"), "tcgen05.cp has no source format .b8x16; the formats are b4x16_p64, b6x16_p32"),
        (lambda: layout.wgmma_fragment(12), "wgmma has no shape with N = 12; N is a multiple of 8 up to 256"),
        (lambda: layout.wgmma_a_fragment(4), "wgmma has no matrix A of 4-bit elements in registers; they have 8, 16 or 32 bits"),
        (
            lambda: layout.metadata_location("f64", 128),
            "there is no sparse .kind::f64; the kinds are tf32, f16, f8f6f4, mxf8f6f4, i8, mxf4, mxf4nvf4",
        ),
        (
            lambda: layout.zero_column_mask(ZeroColumnMask(non_zero=True), 256, 64),
            "there is no zero-column mask for M = 256; M is 32, 64 or 128",
        ),
        (lambda: layout.bank_conflicts(np.arange(32), 12), "an access of 12 bytes; it can be 1, 2, 4, 8 or 16"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        call()
    assert caught.value.diagnostic.code == "D741"
    assert caught.value.diagnostic.message == message
