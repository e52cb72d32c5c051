"""What explain says of values: readings, text, hints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxlab
from ptxlab.descriptors import (
    READINGS,
    DescriptorError,
    InstructionDescriptor,
    OperandTile,
    SharedMemoryDescriptor,
    TensorMap,
    TensorMemoryAddress,
    WgmmaDescriptor,
    ZeroColumnMask,
    explain,
)


def test_a_shared_memory_descriptor_in_full() -> None:
    assert str(ptxlab.explain(0x4000404000010040, kind="f16", major="k", as_="smem")) == (
        "0x4000404000010040: shared memory descriptor of tcgen05  "
        '(Shared memory descriptor, table "Shared memory descriptor layout")\n'
        "   0-13  start         0x400         Matrix start address\n"
        "  16-29  leading       16 (0x10)     Leading dimension byte offset\n"
        "  32-45  stride        1024 (0x400)  Stride dimension byte offset\n"
        "  46-48  constant      0b001         must be 0b001\n"
        "  49-51  base_offset   0             Matrix base offset\n"
        "     52  leading_mode  relative      Leading dimension stride mode\n"
        "  61-63  swizzle       128B          The swizzling mode\n"
        "  K-major canonical layout: Swizzle<3,4,3> o ((8,m),(T,2k)):((8T,SBO),(1,T))\n"
        "  K-major with elements of 16 bits: Swizzle<3,4,3> o ((8,m),(8,2k)):((64,512),(1,8))\n"
        "  K-major LBO: 16 bytes: not used\n"
        "  K-major SBO: 1024 bytes: from 8 rows to the next 8\n"
        "  note: LBO is not used by swizzled K-major operands; 0 and 1 (16 bytes) are what compilers write there"
    )


GOOD = SharedMemoryDescriptor(start=0x400, leading=16, stride=1024, swizzle="128B")


@pytest.mark.parametrize(
    ("value", "hint", "meant"),
    [
        (int(SharedMemoryDescriptor(0x400, 1024, 16, "128B")), "LBO and SBO exchanged? With SBO = 16 bytes,", int(GOOD)),
        (int(GOOD) & ~(7 << 61) | 1 << 61, "128B swizzling? 1 is wgmma's code for it", int(GOOD)),
        (int(GOOD) & ~(7 << 61) | 3 << 61, "32B swizzling? 3 is wgmma's code for it and means nothing", int(GOOD) & ~(7 << 61) | 6 << 61),
        (int(GOOD) & ~0x3FFF | 0xC400, "start address 0xc400? The field holds the address >> 4", int(GOOD) & ~0x3FFF | 0xC40),
        (int(GOOD) & ~(0x3FFF << 32) | 1024 << 32, "SBO = 1024 bytes? The field holds bytes >> 4", int(GOOD)),
    ],
)
def test_did_you_mean(value: int, hint: str, meant: int) -> None:
    found = explain(value, as_="smem")
    hints = {h.text: h.value for h in found.best.hints}
    text = next(t for t in hints if t.startswith(hint))
    assert hints[text] == meant
    assert explain(meant, as_="smem").best.hints == ()
    assert f"did you mean: {text}: {meant:#x}" in str(found)


def test_fixed_bits_are_corrected_once() -> None:
    found = explain(int(GOOD) & ~(1 << 46), as_="smem")
    assert str(found).count(f"{int(GOOD):#x}") == 1
    assert f"    fix: write {int(GOOD):#x}, which differs in these bits only" in str(found)
    assert found.best.hints[0].text == "a matrix descriptor of wgmma, which has no such constant (--as wgmma)"


def test_widths_of_k() -> None:
    """With 32B swizzling the second 32 bytes of k, which sparse instructions have, stand a leading dimension further."""
    found = str(explain(int(SharedMemoryDescriptor(0x400, 512, 256, "32B")), as_="smem", major="k"))
    assert "K-major LBO: 512 bytes: from 32 bytes of k to the next 32, which only sparse instructions have" in found
    assert "not used" not in str(explain(int(SharedMemoryDescriptor(0x400, 16, 256, "32B")), as_="smem", major="k"))


def test_other_hints() -> None:
    wrong = int(InstructionDescriptor(kind="f16", m=128, n=256, a="bf16", b="bf16", d="f32"))
    assert [h.text for h in explain(wrong, "idesc", "i8").best.hints] == [
        "a descriptor of .kind::f16, for which it is legal (--kind f16)",
        "a descriptor of .kind::f8f6f4, for which it is legal (--kind f8f6f4)",
    ]
    exchanged = explain(int(TensorMemoryAddress(lane=256, column=32)), as_="tmem").best
    assert [str(h) for h in exchanged.hints] == ["lane and column exchanged? The lane is in bits 16-31: 0x200100"]
    assert (
        explain(int(GOOD), as_="wgmma").best.hints[0].text
        == "a shared memory descriptor of tcgen05, whose bits 46-48 are 0b001 (--as smem)"
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (int(GOOD), "smem"),
        (int(SharedMemoryDescriptor(0x2000, 256, 128)), "smem"),
        (int(WgmmaDescriptor(0x400, 16, 1024, "128B")), "wgmma"),
        (int(WgmmaDescriptor(0x400, 16, 512, "64B")), "wgmma"),
        (int(InstructionDescriptor(kind="f16", m=128, n=256, a="bf16", b="bf16")), "idesc"),
        (int(InstructionDescriptor(kind="mxf4", m=128, n=256, a="e2m1", b="e2m1")), "idesc"),
        (int(ZeroColumnMask(non_zero=True, skip_span=2, use_span=3)), "mask"),
        (int(TensorMemoryAddress(64, 128)), "tmem"),
    ],
)
def test_ranking(value: int, what: str) -> None:
    found = explain(value)
    assert found.best.what == what
    scores = [one.score for one in found.interpretations]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_tensor_map() -> None:
    raw = ptxlab.descriptors.encode_tensor_map(
        data_type=6, rank=2, address=1 << 20, dims=(512, 256), strides=(1024,), box=(64, 128), element_strides=(1, 1),
        interleave=0, swizzle=3, l2_promotion=0, oob_fill=0,
    )  # fmt: skip
    found = explain(raw)
    assert found.best.what == "tensormap"
    assert not found.findings
    rows = {row.name: row.value for row in found.best.fields}
    assert rows == {
        "address": "0x100000", "mode": "tiled", "rank": "2", "type": "f16", "interleave": "none", "swizzle": "128B", "oob_fill": "none",
        "l2_promotion": "none", "strides": "(1024,)", "dims": "(512, 256)", "element_strides": "(1, 1)", "box": "(64, 128)",
    }  # fmt: skip
    assert found.best.notes == ("one copy moves 16384 bytes",)
    assert explain(int.from_bytes(raw, "little")).best.fields == found.best.fields
    changed = bytearray(raw)
    changed[64] ^= 1
    assert "differ from what the driver writes" in explain(bytes(changed)).findings[0].message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1 << 40, "idesc"), "0x10000000000 does not fit in the 32 bits of a value read as idesc"),
        ((5, "fields"), "a value cannot be read as 'fields'; it can be smem, wgmma, idesc, mask, tmem, tensormap"),
        ((5, None, "f64"), "kind 'f64' is unknown; it can be tf32, f16, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4, bf16, f8, b1"),
        ((b"abc",), "3 bytes; an address has 4, a descriptor 4 or 8, a tensor map 128"),
        ((1 << 2000,), "a value of 2001 bits; the largest thing explained has 1024"),
        ((-(1 << 70),), "a negative value of more than 64 bits"),
    ],
)
def test_values_that_cannot_be_read(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DescriptorError) as caught:
        explain(*arguments)
    assert caught.value.diagnostic.message == message


def test_negative_values_are_twos_complement() -> None:
    assert explain(-1, as_="tmem").value == 0xFFFFFFFF
    assert explain(-1, as_="smem").value == 0xFFFFFFFFFFFFFFFF
    assert explain(int(GOOD) - (1 << 64), as_="smem").value == int(GOOD)


@settings(deadline=None)
@given(st.integers(0, (1 << 64) - 1), st.sampled_from([None, *(r for r in READINGS if r != "tensormap")]))
def test_anything_can_be_explained(value: int, as_: str | None) -> None:
    if as_ is not None:
        value &= (1 << READINGS[as_]) - 1
    found = explain(value, as_)
    text = str(found)
    assert "\n" in text
    json.dumps(found.as_dict())
    assert found._repr_html_().count("<table>") == 1
    # The rows hold all bits that the format names.
    for one in found.interpretations:
        if one.what in ("smem", "wgmma", "mask", "tmem"):
            assert int(one.decoded) == value


@settings(deadline=None)
@given(st.binary(min_size=128, max_size=128))
def test_any_128_bytes_can_be_explained(raw: bytes) -> None:
    found = explain(raw)
    json.dumps(found.as_dict())
    assert found.best.what == "tensormap"
    assert str(found)


def test_html_escapes() -> None:
    html = explain(int(GOOD))._repr_html_()
    assert "Swizzle&lt;3,4,3&gt;" in html
    assert "<p>Other readings</p>" in html


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (GOOD, "smem"),
        (WgmmaDescriptor(0x400, 16, 1024, "128B"), "wgmma"),
        (InstructionDescriptor(kind="mxf4", m=128, n=256, a="e2m1", b="e2m1"), "idesc"),
        (ZeroColumnMask(non_zero=True, skip_span=2, use_span=3), "mask"),
        (TensorMemoryAddress(64, 128), "tmem"),
    ],
)
def test_objects(value: Any, what: str) -> None:
    found = explain(value)
    assert [one.what for one in found.interpretations] == [what]
    assert found.best.decoded == value
    assert value._repr_html_() == found._repr_html_()
    assert explain(np.uint64(int(value)), what, getattr(value, "kind", None)).best == found.best


def test_a_tensor_map_object() -> None:
    array = np.zeros((64, 64), np.float16)
    assert explain(TensorMap(array, (64, 8))).best.decoded.box == (64, 8)
    with pytest.raises(DescriptorError, match="a value of type list cannot be explained"):
        explain(["0x1"])


def test_instruction_descriptors_of_compiled_kernels() -> None:
    """Every one in the kernels of the tests is legal as its own kind, and no reading ranks above the instruction descriptors."""
    found = 0
    for path in sorted((Path(__file__).parents[1] / "end_to_end" / "triton").glob("*.ptx")):
        text = path.read_text()
        for kind, register in set(re.findall(r"tcgen05\.mma\.cta_group::\d\.kind::(\w+) .*?(%r\d+), %p\d+;", text)):
            for word in set(re.findall(rf"mov\.b32\s+{register}, (-?\d+);", text)):
                own = explain(int(word), "idesc", kind)
                assert own.findings == ()
                best = explain(int(word)).best
                assert (best.what, best.findings) == ("idesc", ())
                found += 1
    assert found > 20


def test_kinds_of_wgmma_and_absolute_leading_dimensions() -> None:
    assert dict(explain(GOOD, kind="bf16").best.layouts)["K-major with elements of 16 bits"].endswith("((64,512),(1,8))")
    absolute = SharedMemoryDescriptor(0x400, 0x4400, 1024, "128B", leading_mode="absolute")
    assert dict(explain(absolute, kind="mxf4", major="k").best.layouts)["K-major LBO"] == "0x4400: address of the next buffer"


def test_tensor_maps_and_tiles_in_notebooks() -> None:
    tensor_map = TensorMap(np.zeros((64, 64), np.float16), box=(64, 8))
    assert tensor_map._repr_html_() == explain(bytes(tensor_map))._repr_html_()
    html = OperandTile(16, 64, "f16", start=0x400)._repr_html_()
    assert html.startswith("<p>16 x 64 elements of type .f16, K-major, 2048 bytes from 0x400</p>")
    assert "<code>Swizzle&lt;3,4,3&gt; o ((8,2),(8,8)):((64,512),(1,8))</code>" in html
    assert "shared memory descriptor of tcgen05" in html
    part = OperandTile(72, 8, "f16", "mn")._repr_html_()
    assert "<code>Swizzle&lt;3,4,3&gt; o ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))</code>" in part
    assert "<p>no descriptor: " in OperandTile(16, 64, "f16", start=8)._repr_html_()


def test_k_of_96_that_the_table_does_not_list() -> None:
    fields = {"kind": "mxf4", "n": 64, "a": "e2m1", "b": "e2m1", "k96": True}
    note = "the table of shapes lists K = 96 for M = 256 with cta_group::2 only; CUTLASS issues it for M = 128, too"
    assert note in explain(InstructionDescriptor(m=128, **fields)).best.notes
    assert explain(InstructionDescriptor(m=256, **fields)).best.notes == ("legal for cta_group::2",)


def test_strides_of_an_unswizzled_transposed_operand() -> None:
    """They have the roles that the swizzled modes give them the other way round."""
    right = OperandTile(64, 32, "f16", "mn", "none").descriptor()
    assert right.leading > right.stride
    assert explain(right, major="mn").best.hints == ()
    wrong = SharedMemoryDescriptor(leading=right.stride, stride=right.leading)
    for d in (wrong, WgmmaDescriptor(leading=right.stride, stride=right.leading)):
        (hint,) = explain(d, major="mn").best.hints
        assert hint.text == (
            "LBO and SBO exchanged? Without swizzling LBO is the step along K and SBO the step along M or N, unlike with swizzling: "
            "here 8 steps of K are 128 bytes apart, rows of 16 bytes 1024 bytes, which is right only where consecutive atoms follow each "
            "other along K"
        )
        assert hint.value is not None
        assert type(d).decode(hint.value) == type(d)(leading=right.leading, stride=right.stride)
    assert explain(wrong).best.hints == explain(wrong, major="k").best.hints == ()
