"""Remarks of `explain` on strides that leave bytes free, or let parts of an operand overlap."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ptxlab.descriptors import DescriptorError, OperandTile, SharedMemoryDescriptor, WgmmaDescriptor, explain
from ptxlab.layout import operand_addresses
from ptxlab.tables import SWIZZLES, TYPE_BITS

FREE = "right where these are padding or hold other parts of the tile"
LEAVE = "bytes leave at least"
ONLY = ": they overlap, unless the operand has only"


def remarks(d: SharedMemoryDescriptor | WgmmaDescriptor, major: Any = None, kind: str | None = None) -> list[str]:
    """Notes of an explanation about a stride."""
    return [note for note in explain(d, kind=kind, major=major).best.notes if "overlap" in note or "free" in note]


@pytest.mark.parametrize(
    ("swizzle", "leading", "stride", "major", "text"),
    [
        ("64B", 16, 1024, "k", f"SBO = 1024 bytes leaves 512 bytes free after each 8 rows of 64 bytes: {FREE}"),
        ("64B", 16, 256, "k", f"SBO = 256 bytes is less than 8 rows of 64 bytes{ONLY} 8 rows"),
        ("128B", 16, 0, "k", f"SBO = 0 bytes is less than 8 rows of 128 bytes{ONLY} 8 rows"),
        ("none", 64, 128, "k", f"LBO = 64 bytes is less than 8 rows of 16 bytes{ONLY} 16 bytes along K"),
        ("none", 256, 512, "k", f"SBO = 512 and LBO = 256 {LEAVE} 128 bytes free after each 8 rows of 16 bytes: {FREE}"),
        ("none", 256, 64, "mn", f"SBO = 64 bytes is less than 8 steps of K of 16 bytes{ONLY} 16 bytes along M or N"),
        ("128B", 512, 1024, "mn", f"LBO = 512 bytes is less than 8 steps of K of 128 bytes{ONLY} 128 bytes along M or N"),
        ("128B", 8192, 512, "mn", f"SBO = 512 bytes is less than 8 steps of K of 128 bytes{ONLY} 8 steps of K"),
        ("32B", 16, 512, "mn", f"SBO = 512 bytes leaves 256 bytes free after each 8 steps of K of 32 bytes: {FREE}"),
        ("128B_32B", 4096, 1024, "mn", f"SBO = 1024 and LBO = 4096 {LEAVE} 512 bytes free after each 4 steps of K of 128 bytes: {FREE}"),
    ],
)  # fmt: skip
def test_the_text(swizzle: str, leading: int, stride: int, major: Any, text: str) -> None:
    d = SharedMemoryDescriptor(0x400, leading, stride, swizzle)
    if (swizzle, leading, stride) == ("128B", 8192, 512):  # the exchanged strides of a K-major operand are another hint
        assert remarks(d, major) == []
        d = SharedMemoryDescriptor(0x400, 8192 + 512, stride, swizzle)
    assert remarks(d, major) == [text]
    if swizzle != "128B_32B":
        assert remarks(WgmmaDescriptor(0x400, d.leading, stride, swizzle), major) == [text]
    assert f"\n  note: {text}" in str(explain(d, major=major))


def test_a_remark_without_the_majorness() -> None:
    """It is made only if the strides fit neither."""
    text = "SBO = 1024 bytes leaves 512 bytes free after each 8 {} of 64 bytes: " + FREE
    wanted = ["K-major: " + text.format("rows"), "MN-major: " + text.format("steps of K")]
    assert remarks(SharedMemoryDescriptor(0x400, 16, 1024, "64B")) == wanted
    # MN-major, the second width of M directly behind the first one.
    assert remarks(SharedMemoryDescriptor(0x400, 512, 1024, "64B")) == []


def test_a_stride_that_one_instruction_does_not_use() -> None:
    """K of an instruction on tf32 is 8: one group of steps of K."""
    d = SharedMemoryDescriptor(0x400, 1024, 0, "none")
    assert remarks(d, "mn", "f16") == [
        "SBO = 0 bytes is less than 8 steps of K of 16 bytes: they overlap, unless the operand has only 16 bytes along M or N"
    ]
    assert remarks(SharedMemoryDescriptor(0x400, 0, 128, "none"), "mn", "tf32") == []
    # For f16 another value is proposed.
    assert [h.text[:26] for h in explain(SharedMemoryDescriptor(0x400, 0, 128, "none"), kind="f16", major="mn").best.hints] == [
        "LBO and SBO exchanged? Wit"
    ]


def test_a_source_of_cp() -> None:
    """Rows of 16 bytes: nothing uses LBO, and the descriptor has no majorness."""
    d = SharedMemoryDescriptor(0x400, 16, 128, "none")
    assert remarks(d) == []
    assert remarks(d, "k") == ["LBO = 16 bytes is less than 8 rows of 16 bytes: they overlap, unless the operand has only 16 bytes along K"]


def test_one_cause_has_one_remark() -> None:
    """Strides for which another value is proposed have no remark beside it."""
    for d in (SharedMemoryDescriptor(0x400, 1024, 16, "128B"), SharedMemoryDescriptor(0x400, 16, 16384, "128B")):
        assert len(explain(d, major="k").best.hints) == 1
        assert remarks(d, "k") == []


def test_tiles_without_gaps() -> None:
    """Every tile, and every tile whose parts along K stand first."""
    checked = 0
    shapes = itertools.product((8, 32, 64, 128, 256), (8, 16, 32, 64, 128))
    for (rows, k), type_, swizzle, major in itertools.product(shapes, ("e2m1", "e4m3", "f16", "tf32"), SWIZZLES, ("k", "mn")):
        try:
            tile = OperandTile(rows, k, type_, major, swizzle)  # type: ignore[arg-type]
        except DescriptorError:  # not of whole atoms
            continue
        kind = {"e2m1": "mxf4", "e4m3": "f8f6f4"}.get(type_, type_)
        for d in (tile.descriptor(), *([] if swizzle == "128B_32B" else [tile.wgmma_descriptor()])):
            assert remarks(d, major, kind) == remarks(d, major) == remarks(d) == []
        checked += 1
    assert checked > 500
    for swizzle, leading, stride, major in (
        ("64B", 512, 1024, "k"),
        ("64B", 512, 1024, "mn"),
        ("none", 128, 1024, "k"),
        ("none", 128, 256, "mn"),
    ):
        assert remarks(SharedMemoryDescriptor(0x400, leading, stride, swizzle), major) == []


# Form, swizzle, LBO, SBO, majorness, bits of a container in shared memory: of kernels of tests/end_to_end. The one without swizzling is of
# tcgen05.cp.
KERNELS = """
smem 128B 0 1024 mn 16
smem 128B 16 1024 k 4
smem 128B 16 1024 k 8
smem 128B 16 1024 k 16
smem 128B 16 1024 k 32
smem 128B 8192 1024 mn 16
smem 128B_32B 4096 512 mn 32
smem none 16 128 k 32
wgmma 128B 0 1024 mn 16
wgmma 128B 16 1024 k 16
wgmma 64B 16 512 k 8"""


@pytest.mark.parametrize("row", KERNELS.split("\n")[1:])
def test_descriptors_of_kernels(row: str) -> None:
    form, swizzle, leading, stride, major, bits = row.split()
    d = (SharedMemoryDescriptor if form == "smem" else WgmmaDescriptor)(0x400, int(leading), int(stride), swizzle)
    kind = {4: "mxf4", 8: "i8", 16: "f16", 32: "tf32"}[int(bits)]
    assert remarks(d) == remarks(d, kind=kind) == []
    if swizzle != "none":
        assert remarks(d, major) == remarks(d, major, kind) == []


def test_a_remark_is_true() -> None:
    """Of the addresses of an operand that has two atoms in each direction: bytes that are free between them, or taken twice."""
    rng = np.random.default_rng(11)
    seen = set()
    for _ in range(600):
        swizzle, major, type_ = rng.choice(list(SWIZZLES)), rng.choice(["k", "mn"]), rng.choice(["e4m3", "f16"])
        mode, bits = SWIZZLES[swizzle], TYPE_BITS[type_]
        lines = 8 if major == "k" else mode.lines
        size = lines * mode.width
        # The larger stride is far enough for both atoms along the smaller one.
        near = size * int(rng.integers(1, 8)) // 4
        leading, stride = (near, 8 * size) if rng.integers(2) else (8 * size, near)
        only = bool(mode.bits) and major == "k"
        if only:
            leading, stride = 16, near
        d = SharedMemoryDescriptor(0, leading, stride, swizzle)
        along, across = 2 * lines, (1 if only else 2) * mode.width * 8 // bits
        shape = (along, across) if major == "k" else (across, along)
        at = operand_addresses(d, *shape, bits, major)  # type: ignore[arg-type]
        found = [text for text in explain(d, "smem", major=major).best.notes if "overlap" in text or "free" in text]  # type: ignore[arg-type]
        overlapping = np.unique(at).size < at.size
        spanned = int(at.max()) + bits // 8 - int(at.min())
        dense = spanned == at.size * bits // 8
        if any("is less than" in text for text in found):
            assert overlapping, d
            seen.add("overlap")
        elif found:
            assert not overlapping
            assert not dense, d
            seen.add("gap")
        elif not any(explain(d, "smem", major=major).best.hints):  # type: ignore[arg-type]
            assert near == size, d
            seen.add("none")
    assert seen == {"overlap", "gap", "none"}
