"""The three formats of instruction descriptors with block scaling, and their rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.descriptors import DescriptorError, InstructionDescriptor, format_of
from ptxlab.tables import BLOCK_SCALED_KINDS, KINDS, MMA_KINDS, SCALE_VECTORS, SHAPES

KIND_NAMES = tuple(BLOCK_SCALED_KINDS)


@given(st.integers(0, (1 << 32) - 1), st.sampled_from(KIND_NAMES))
def test_every_word_round_trips(word: int, kind: str) -> None:
    assert int(InstructionDescriptor.decode(word, kind)) == word


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        # Bit for bit from the three tables.
        ({"kind": "mxf8f6f4", "a": "e4m3", "b": "e5m2", "m": 128, "n": 64}, 1 << 10 | 8 << 17 | 1 << 23 | 1 << 27),
        (
            {"kind": "mxf8f6f4", "a": "e2m1", "b": "e2m3", "m": 256, "n": 16, "scale_a_id": 3, "scale_b_id": 1, "transpose_b": True},
            1 << 4 | 5 << 7 | 3 << 10 | 1 << 16 | 2 << 17 | 1 << 23 | 2 << 27 | 3 << 29,
        ),
        (
            {"kind": "mxf4", "a": "e2m1", "b": "e2m1", "m": 128, "n": 8, "k96": True},
            1 << 7 | 1 << 10 | 1 << 17 | 1 << 23 | 1 << 27 | 1 << 31,
        ),
        (
            {"kind": "mxf4nvf4", "a": "e2m1", "b": "e2m1", "m": 256, "n": 256, "sparse": True, "negate_a": True, "scale_b_id": 2},
            1 << 2 | 2 << 4 | 1 << 7 | 1 << 10 | 1 << 13 | 32 << 17 | 2 << 27,
        ),
    ],
)
def test_words(fields: dict[str, Any], word: int) -> None:
    assert int(InstructionDescriptor(**fields)) == word
    assert InstructionDescriptor.decode(word, fields["kind"]) == InstructionDescriptor(**fields)


def test_places_of_the_three_formats() -> None:
    """Tables 42 to 44: each field's bits."""
    places = {kind: {item.name: (item.low, item.width) for item in format_of("idesc", kind).fields} for kind in MMA_KINDS}
    common = {"sparse": (2, 1), "a": (7, 3), "n": (17, 6)}
    common |= {"negate_a": (13, 1), "negate_b": (14, 1), "transpose_a": (15, 1), "transpose_b": (16, 1)}
    for kind in KINDS:
        assert places[kind] == common | {
            "selector": (0, 2), "saturate": (3, 1), "d": (4, 2), "b": (10, 3), "m": (24, 5), "max_shift": (30, 2),
        }  # fmt: skip
    scaled = common | {"scale_b_id": (4, 2), "scale": (23, 1), "m": (27, 2), "scale_a_id": (29, 2)}
    assert places["mxf8f6f4"] == scaled | {"b": (10, 3)}
    assert places["mxf4"] == places["mxf4nvf4"] == scaled | {"b": (10, 2), "k96": (31, 1)}


def test_k() -> None:
    def k(kind: str, **more: Any) -> int:
        return InstructionDescriptor(kind=kind, m=128, n=64, a="e2m1", b="e2m1", **more).k

    assert (k("mxf8f6f4"), k("mxf8f6f4", sparse=True)) == (32, 64)
    assert (k("mxf4"), k("mxf4", sparse=True), k("mxf4", k96=True)) == (64, 128, 96)


MX8 = {"kind": "mxf8f6f4", "m": 128, "n": 64, "a": "e4m3", "b": "e4m3"}
MX4 = {"kind": "mxf4", "m": 128, "n": 64, "a": "e2m1", "b": "e2m1"}
NV4 = {**MX4, "kind": "mxf4nvf4"}


@pytest.mark.parametrize(
    ("fields", "options", "messages"),
    [
        (MX8, {}, []),
        ({**MX8, "m": 256}, {"cta_group": 2}, []),
        ({**MX8, "m": 256}, {}, ["M = 256 for .kind::mxf8f6f4, cta_group::1, dense; M must be 128"]),
        ({**MX8, "sparse": True}, {"cta_group": 2}, ["M = 128 for .kind::mxf8f6f4, cta_group::2, sparse; M must be 256"]),
        (MX8, {"ws": True}, ["the combination .kind::mxf8f6f4, cta_group::1, .ws, dense is not supported"]),
        (
            {**MX8, "transpose_b": True, "n": 24},
            {},
            ["N = 24 with a transposed 8-bit matrix B and cta_group::1; N must be 16, 32, ... 256"],
        ),
        ({**MX8, "scale_a_id": 3}, {"scale_vector": "block32"}, []),
        (MX8, {"scale_vector": "scale_vec::2X"}, [".scale_vec::2X does not go with .kind::mxf8f6f4; use .scale_vec::1X or .block32"]),
        ({**MX4, "transpose_a": True}, {}, ["matrix A cannot be transposed for .kind::mxf4"]),
        ({**MX4, "scale_b_id": 1}, {}, ["the scale factor B ID is 1; with 2 scale factors of a row it must be 0 or 2"]),
        ({**MX4, "scale_b_id": 1, "k96": True}, {"scale_vector": "block32"}, []),
        ({**MX4, "k96": True, "sparse": True}, {}, ["K = 96 is for dense matrices only"]),
        ({**NV4, "scale_a_id": 2}, {}, ["the scale factor A ID is 2; with 4 scale factors of a row it must be 0"]),
        ({**NV4, "scale": "ue8m0", "scale_a_id": 2}, {"scale_vector": "block32"}, []),
        (
            NV4,
            {"scale_vector": "block32"},
            ["scale factors of type .ue4m3 for .kind::mxf4nvf4 need .scale_vec::4X or .block16, not .block32"],
        ),
        (
            {**NV4, "k96": True, "scale_a_id": 1},
            {"scale_vector": "block16"},
            ["the scale factor A ID is 1; with 6 scale factors of a row it must be 0 or 2"],
        ),
    ],
)  # fmt: skip
def test_findings(fields: dict[str, Any], options: dict[str, Any], messages: list[str]) -> None:
    found = InstructionDescriptor(**fields).findings(**{"cta_group": 1, **options})
    assert [f.message for f in found] == messages
    assert all(f.section for f in found)


def test_every_shape_of_the_table_is_legal_and_no_other_m() -> None:
    for (kind, ws, group, sparse), shapes in SHAPES.items():
        row = MMA_KINDS[kind]
        a, d = next(iter(row.ab)), list(row.d)[-1]
        for m in (32, 64, 128, 192, 256):
            for n in (shapes.n[0], shapes.n[-1]):
                if kind in BLOCK_SCALED_KINDS and m % 128:
                    continue
                i = InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=a, d=d, sparse=sparse)
                found = i.findings(group, ws)
                assert (found == []) == (m in shapes.m), (kind, ws, group, sparse, m, n, found)


def test_k_of_every_scale_vector() -> None:
    """Scale factors cover K: blocks of 32 or 16 elements."""
    for row in SCALE_VECTORS:
        k = row.k or MMA_KINDS[row.kind].k
        assert k // row.scales in ((16,) if row.name in ("block16", "scale_vec::4X") else (32,))


def test_fields_that_a_format_lacks() -> None:
    with pytest.raises(DescriptorError) as caught:
        int(InstructionDescriptor(kind="f16", m=128, n=64, a="f16", b="f16", k96=True))
    assert caught.value.diagnostic.message == "k96 is True, but .kind::f16 has no field for it"
    with pytest.raises(DescriptorError, match="saturate is True"):
        int(InstructionDescriptor(**MX4, saturate=True))
    assert [name for name, _ in InstructionDescriptor(**MX4).fields()] == [
        "kind", "m", "n", "a", "b", "transpose_a", "transpose_b", "negate_a", "negate_b", "sparse", "reserved", "scale", "scale_a_id",
        "scale_b_id", "k96",
    ]  # fmt: skip
