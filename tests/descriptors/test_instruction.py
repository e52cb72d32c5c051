from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.descriptors import DescriptorError, InstructionDescriptor

KERNELS = Path(__file__).parents[1] / "end_to_end" / "triton"
KINDS = ("f16", "tf32", "f8f6f4", "i8")


@given(st.integers(0, (1 << 32) - 1), st.sampled_from(KINDS))
def test_every_word_round_trips(word: int, kind: str) -> None:
    assert int(InstructionDescriptor.decode(word, kind)) == word


@pytest.mark.parametrize(
    ("kernel", "word", "kind", "group", "expected"),
    [
        ("gl_mm_2cta_fp16", 270598160, "f16", 2, {"m": 256, "n": 128, "a": "f16", "b": "f16", "d": "f32", "transpose_b": True}),
        ("gl_mm_fp16_acc16", 135266304, "f16", 1, {"m": 128, "n": 64, "a": "f16", "b": "f16", "d": "f16"}),
        ("gl_mm_multicast_bf16", 136316048, "f16", 1, {"m": 128, "n": 128, "a": "bf16", "b": "bf16", "d": "f32"}),
        ("mm_tile_64x128_e5m2", 69207184, "f8f6f4", 1, {"m": 64, "n": 128, "a": "e5m2", "b": "e5m2", "d": "f32"}),
        ("mm_bt_int8", 136316064, "i8", 1, {"m": 128, "n": 128, "a": "s8", "b": "s8", "d": "s32"}),
        ("mm_ptr_tf32", 136317200, "tf32", 1, {"m": 128, "n": 128, "a": "tf32", "b": "tf32", "d": "f32"}),
    ],
)
def test_what_triton_emits(kernel: str, word: int, kind: str, group: int, expected: dict[str, object]) -> None:
    assert re.search(rf"mov\.b32\s+%r\d+, {word};", (KERNELS / f"{kernel}.ptx").read_text())
    found = InstructionDescriptor.decode(word, kind)
    assert found == InstructionDescriptor(kind=kind, **expected)  # type: ignore[arg-type]
    assert found.findings(group) == []


def descriptor(
    kind: str = "f16", m: int = 128, n: int = 128, a: str = "f16", b: str = "f16", d: str = "f32", **more: object
) -> InstructionDescriptor:
    return InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=b, d=d, **more)  # type: ignore[arg-type]


F8 = {"kind": "f8f6f4", "a": "e4m3", "b": "e4m3"}
I8 = {"kind": "i8", "a": "s8", "b": "u8", "d": "s32"}


@pytest.mark.parametrize(
    ("fields", "options", "messages"),
    [
        ({}, {}, []),
        ({"m": 256}, {"cta_group": 2}, []),
        ({"m": 256}, {}, ["M = 256 for .kind::f16, cta_group::1, dense; M must be 64 or 128"]),
        ({"m": 64}, {"cta_group": 2}, ["M = 64 for .kind::f16, cta_group::2, dense; M must be 128 or 256"]),
        ({"n": 24}, {"cta_group": 2}, ["N = 24 for .kind::f16, cta_group::2, dense; N must be 16, 32, ... 256"]),
        ({"n": 40, **I8}, {}, ["N = 40 for .kind::i8, cta_group::1, dense; N must be 8, 16, 24, 32, 48, 64, ... 256"]),
        ({"n": 24, **I8}, {}, []),
        ({"m": 32, "n": 96}, {"ws": True}, ["N = 96 for .kind::f16, cta_group::1, .ws, dense; N must be 64, 128 or 256"]),
        ({}, {"cta_group": 2, "ws": True}, ["the combination .kind::f16, cta_group::2, .ws, dense is not supported"]),
        ({"a": "bf16", "d": "f16"}, {}, ["matrix D of type .f16 needs matrix A of type .f16, not .bf16"]),
        ({"saturate": True}, {}, ["saturation is not available for .kind::f16"]),
        ({**I8, "saturate": True, "negate_b": True}, {}, ["matrix B cannot be negated for .kind::i8"]),
        ({**F8, "a": "e2m1", "transpose_a": True}, {}, ["matrix A of type .e2m1 cannot be transposed"]),
        ({**F8, "n": 24, "transpose_b": True}, {}, ["N = 24 with a transposed 8-bit matrix B and cta_group::1; N must be 16, 32, ... 256"]),
        ({"sparse": True}, {"sparse": False}, ["the instruction descriptor says sparse, the instruction is tcgen05.mma"]),
        ({}, {"sparse": True}, ["the instruction descriptor says dense, the instruction is tcgen05.mma.sp"]),
    ],
)
def test_findings(fields: dict[str, object], options: dict[str, object], messages: list[str]) -> None:
    found = descriptor(**fields).findings(**{"cta_group": 1, **options})  # type: ignore[arg-type]
    assert [finding.message for finding in found] == messages
    assert all(finding.section and finding.code in ("D701", "D703") for finding in found)


def test_bits_that_mean_nothing() -> None:
    found = InstructionDescriptor.decode(1 << 6 | 3 << 4 | 2 << 7 | 16 << 17 | 8 << 24, "f16").findings()
    assert [finding.message for finding in found] == [
        "bit 6 of the instruction descriptor must be 0b0, not 0b1",
        "dtype of .kind::f16 has the invalid code 3; the codes are 0 = f16, 1 = f32",
        "atype of .kind::f16 has the invalid code 2; the codes are 0 = f16, 1 = bf16",
    ]


def test_k_of_the_instruction() -> None:
    assert [descriptor(**fields).k for fields in ({}, {"sparse": True}, F8, {"kind": "tf32", "a": "tf32", "b": "tf32"})] == [16, 32, 32, 8]  # type: ignore[arg-type]


def test_what_cannot_be_built() -> None:
    with pytest.raises(DescriptorError, match=r"no instruction descriptor of \.kind::mx; the kinds are tf32, f16, f8f6f4, i8"):
        InstructionDescriptor.decode(0, "mx")
    with pytest.raises(DescriptorError, match="n is 0x81; it must be a multiple of 8"):
        int(descriptor(n=129))
