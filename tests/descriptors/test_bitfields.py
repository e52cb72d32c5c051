"""The declaration style itself: encode, decode, and what a format finds wrong."""

from __future__ import annotations

import pytest

from ptxlab.descriptors import BitField, BitFormat, DescriptorError

FORMAT = BitFormat(
    "sample",
    "a section",
    16,
    (
        BitField("size", 0, 3, "the size", shift=2, bias=4),
        BitField("mode", 4, 2, "the mode", values={"one": 1, "two": 2}),
        BitField("corner", 6, 4, "the corner", signed=True, upper=(14, 2)),
    ),
    fixed=0b1000_0000_0000,
)


def test_a_word_and_its_values() -> None:
    values = {"size": 16, "mode": "two", "corner": -3}
    word = FORMAT.encode(values)
    assert word == 0b11_0_0_1_0_1101_10_0_011
    assert FORMAT.decode(word) == {**values, "reserved": 0}


def test_every_word_is_read_and_written_back() -> None:
    for word in range(1 << 16):
        values = FORMAT.decode(word)
        assert FORMAT.encode(values, values["reserved"]) == word


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 6}, "size is 0x6; it must be a multiple of 4"),
        ({"size": 36}, "size is 36; it can be 4 to 32"),
        ({"mode": "three"}, "mode is 'three'; it can be one, two"),
        ({"corner": 32}, "corner is 32; it can be -32 to 31"),
    ],
)
def test_values_that_do_not_fit(change: dict[str, object], message: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        FORMAT.encode({"size": 4, "mode": "one", "corner": 0, **change})
    assert caught.value.diagnostic.message == message
    assert caught.value.diagnostic.code == "D731"


def test_findings() -> None:
    values = FORMAT.decode(0b0011_0111_0000_1000)
    assert [str(finding) for finding in FORMAT.findings(values, "D702")] == [
        "bit 3 of the sample must be 0b0, not 0b1 (a section)",
        "bits 10-13 of the sample must be 0b0010, not 0b1101 (a section)",
        "the mode has the invalid code 0; the codes are 1 = one, 2 = two (a section)",
    ]


def test_overlapping_fields_are_an_error_of_the_table() -> None:
    with pytest.raises(ValueError, match="b overlaps"):
        BitFormat("bad", "", 8, (BitField("a", 0, 4), BitField("b", 3, 2)))
