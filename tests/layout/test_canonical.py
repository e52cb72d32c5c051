"""Canonical and exact layouts: the specification's examples, and every mode against the addresses of operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxlab.descriptors import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.layout import LayoutError, atom_shape, canonical_layout, exact_layout, operand_addresses
from ptxlab.tables import CANONICAL_LAYOUTS, SWIZZLE_ATOMS, SWIZZLES
from tests.tables.specification_helpers import PATTERN_STARTS

EXAMPLES = [
    # type bits, major, mode, m, k, LBO, SBO in elements, exact layout, the two encodings
    (32, "k", "none", 2, 2, 64, 32, "Swizzle<0,4,3> o ((8,2),(4,4)):((4,32),(1,64))", 16, 8),
    (32, "k", "32B", 2, 2, None, 64, "Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))", 1, 16),
    (16, "mn", "none", 2, 2, 128, 64, "Swizzle<0,4,3> o ((8,1,2),(8,2)):((1,8,64),(8,128))", 16, 8),
    (16, "mn", "32B", 2, 2, 128, 256, "Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))", 16, 32),
    (16, "mn", "64B", 2, 2, 256, 512, "Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))", 32, 64),
]


@pytest.mark.parametrize(("bits", "major", "mode", "m", "k", "leading", "stride", "exact", "lbo", "sbo"), EXAMPLES)
@pytest.mark.parametrize("kind", [SharedMemoryDescriptor, WgmmaDescriptor])
def test_examples(
    kind: Any, bits: int, major: Any, mode: str, m: int, k: int, leading: int | None, stride: int, exact: str, lbo: int, sbo: int
) -> None:
    """Sections "Canonical Layouts" of tcgen05 and wgmma: parameters, exact layout and encodings of all examples."""
    known = {"T": 128 // bits, "m": m, "k": k, "SBO": stride} | ({} if leading is None else {"LBO": leading})
    assert str(canonical_layout(major, mode).substitute(**known)) == exact
    d = kind(leading=(leading or 16 * 8 // bits) * bits // 8, stride=stride * bits // 8, swizzle=mode)
    assert int(d) >> 16 & 0x3FFF == lbo
    assert int(d) >> 32 & 0x3FFF == sbo
    rows = m * 8 if major == "k" else canonical_layout(major, mode).substitute(**known).layout[0].size
    if (major, mode) == ("k", "32B"):
        # Two widths of the swizzle overlap as the example has them; an H200 steps by the leading dimension from one to the next.
        exact = "Swizzle<1,4,3> o ((8,2),(4,2,2)):((8,64),(1,4,4))"
    assert str(exact_layout(d, rows, k * (2 * 128 // bits if major == "k" else 8), bits, major)) == exact


@pytest.mark.parametrize("mode", SWIZZLES)
@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("bits", [4, 8, 16, 32])
def test_exact_layouts_give_the_addresses(mode: str, major: Any, bits: int) -> None:
    for leading, stride, start in ((4096, 1024, 0), (2064, 528, 16384), (16384, 2048, 1024)):
        d = SharedMemoryDescriptor(start, leading, stride, mode)
        rows, k = (64, 2048 // bits) if major == "k" else (1024 // bits * 2, 16)
        exact = exact_layout(d, rows, k, bits, major)
        linear = start * 8 // bits + exact.layout.offsets()
        found = operand_addresses(d, rows, k, bits, major)
        if bits == 4:
            linear, found = linear // 2, found // 8
        else:
            linear = linear * bits // 8
        assert np.array_equal(exact.swizzle(linear), found)
        if start % 1024 == 0 and bits != 4:
            # The swizzle on elements is the one on bytes.
            assert np.array_equal(exact.swizzle.recast(bits)(start * 8 // bits + exact.layout.offsets()) * bits // 8, found)


def test_atoms() -> None:
    # The specification's own example: 128B, MN-major, tf32.
    assert atom_shape("mn", "128B", 32) == (32, 8)
    for (major, name), row in CANONICAL_LAYOUTS.items():
        mode = SWIZZLES[name]
        assert row.swizzle == f"Swizzle<{mode.bits},{mode.base},{7 - mode.base}>" if mode.bits else row.swizzle == "Swizzle<0,4,3>"
        shape = SWIZZLE_ATOMS[name][major]
        if shape is not None:
            width, lines = shape if major == "mn" else shape[::-1]
            assert (width * 16, lines) == (mode.width, mode.lines if major == "mn" else 8)
    with pytest.raises(LayoutError, match="swizzling mode 128B_32B has no atom for K-major operands"):
        atom_shape("k", "128B_32B", 16)
    assert {name: SWIZZLES[name].repeat for name in PATTERN_STARTS} == dict(PATTERN_STARTS)


def test_sizes_without_whole_atoms() -> None:
    d = SharedMemoryDescriptor(stride=1024, swizzle="128B")
    with pytest.raises(LayoutError, match="needs rows in steps of 8 and K in steps of 8"):
        exact_layout(d, 12, 16, 16)
    absolute = SharedMemoryDescriptor(stride=1024, leading=4096, swizzle="128B", leading_mode="absolute")
    with pytest.raises(LayoutError, match="is not one layout"):
        exact_layout(absolute, 8, 96, 4)


def test_absolute_leading_dimension() -> None:
    """The walk of eight K = 96 instructions over three buffers takes each byte of 384 of a row once."""
    buffers = (0, 16384, 32768)
    walk = [(0, 0), (0, 48), (0, 96), (1, 16), (1, 64), (1, 112), (2, 32), (2, 80)]
    taken = []
    for buffer, offset in walk:
        following = buffers[buffer + 1] if offset + 48 > 128 else buffers[buffer]
        d = SharedMemoryDescriptor(buffers[buffer] + offset, following, 1024, "128B", leading_mode="absolute")
        found = operand_addresses(d, 128, 96, 4)[:, ::2] // 8
        assert found.shape == (128, 48)
        taken.append(found)
    together = np.concatenate(taken, axis=1)
    for row in range(128):
        group, line = divmod(row, 8)
        linear = np.concatenate([b + group * 1024 + line * 128 + np.arange(128) for b in buffers])
        assert np.array_equal(together[row], linear ^ (linear >> 7 & 7) << 4)
