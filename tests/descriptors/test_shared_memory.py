from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.descriptors import DescriptorError, SharedMemoryDescriptor, WgmmaDescriptor

WORDS = st.integers(0, (1 << 64) - 1)


@given(WORDS)
def test_every_word_round_trips(word: int) -> None:
    assert int(SharedMemoryDescriptor.decode(word)) == word
    assert int(WgmmaDescriptor.decode(word)) == word


def test_fields_of_a_word_that_kernels_build() -> None:
    # K-major, 128B swizzle, tile at 0x10000: version 1, SBO 1024, LBO 0 is ignored.
    d = SharedMemoryDescriptor.decode(0x4000_4040_0000_1000)
    assert d == SharedMemoryDescriptor(start=0x10000, leading=0, stride=1024, swizzle="128B")
    assert not d.findings("k", 16)
    assert d.fields()[:4] == [("start", 0x10000), ("leading", 0), ("stride", 1024), ("swizzle", "128B")]


@pytest.mark.parametrize(("name", "tcgen05", "wgmma"), [("none", 0, 0), ("128B", 2, 1), ("64B", 4, 2), ("32B", 6, 3)])
def test_layout_codes(name: str, tcgen05: int, wgmma: int) -> None:
    assert int(SharedMemoryDescriptor(swizzle=name)) >> 61 == tcgen05
    assert int(WgmmaDescriptor(swizzle=name)) >> 62 == wgmma


def test_the_mode_that_wgmma_does_not_have() -> None:
    assert int(SharedMemoryDescriptor(swizzle="128B_32B")) >> 61 == 1
    with pytest.raises(DescriptorError, match="swizzle is '128B_32B'; it can be none, 32B, 64B, 128B"):
        int(WgmmaDescriptor(swizzle="128B_32B"))


def test_what_does_not_fit() -> None:
    with pytest.raises(DescriptorError, match="start is 0x408; it must be a multiple of 16"):
        int(SharedMemoryDescriptor(start=0x408))
    with pytest.raises(DescriptorError, match="start is 262144; it can be 0x0 to 0x3fff0"):
        int(SharedMemoryDescriptor(start=0x40000))


def messages(d: SharedMemoryDescriptor, *args: object) -> list[str]:
    return [finding.message for finding in d.findings(*args)]  # type: ignore[arg-type]


def test_findings_of_the_fields() -> None:
    wgmma = SharedMemoryDescriptor.decode(int(WgmmaDescriptor(start=0x400, stride=1024, swizzle="128B")))
    assert messages(wgmma) == ["bits 46-48 of the shared memory descriptor must be 0b001, not 0b000"]
    assert messages(SharedMemoryDescriptor.decode(3 << 61 | 1 << 46)) == [
        "The swizzling mode has the invalid code 3; the codes are 0 = none, 6 = 32B, 4 = 64B, 2 = 128B, 1 = 128B_32B"
    ]
    assert not messages(SharedMemoryDescriptor(base_offset=2))
    assert messages(SharedMemoryDescriptor(base_offset=2, swizzle="128B_32B")) == [
        "the matrix base offset is 2 with swizzling mode 128B_32B"
    ]
    assert messages(SharedMemoryDescriptor(leading_mode="absolute", swizzle="64B", base_offset=1), "mn") == [
        "the absolute leading dimension needs 128B swizzling, not 64B",
        "the absolute leading dimension needs a K-major operand",
        "the matrix base offset must be 0 with an absolute leading dimension",
    ]


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "128B_32B"])
def test_type_size_majorness_and_swizzle(swizzle: str) -> None:
    d = SharedMemoryDescriptor(swizzle=swizzle)
    atom = swizzle == "128B_32B"
    assert all(not d.findings("k", bits) for bits in (4, 6, 8, 16, 32))
    assert bool(d.findings("mn", 32)) == (not atom)
    assert bool(d.findings("mn", 16)) == bool(d.findings("mn", 8)) == atom
    assert [f.code for f in d.findings("mn", 4)] == ["D705"]


def test_wgmma_findings() -> None:
    assert not WgmmaDescriptor(base_offset=3, swizzle="128B").findings()
    assert [f.message for f in WgmmaDescriptor(base_offset=3).findings()] == ["the matrix base offset is 3 without swizzling"]
