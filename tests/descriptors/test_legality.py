"""Rules that need more than one descriptor, zero-column masks, and tensor memory addresses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxlab.descriptors import (
    InstructionDescriptor,
    SharedMemoryDescriptor,
    TensorMemoryAddress,
    ZeroColumnMask,
    check_fragment,
    check_mma,
    format_of,
)
from ptxlab.tables import MMA_KINDS, SHAPES, SWIZZLES, TRANSPOSED_8_BIT_N, TYPE_BITS
from tests.tables.specification_helpers import TYPE_SIZES

F16 = {"kind": "f16", "m": 128, "n": 64, "a": "f16", "b": "f16"}
K96 = {"kind": "mxf4", "m": 128, "n": 64, "a": "e2m1", "b": "e2m1", "k96": True}
SWIZZLED = SharedMemoryDescriptor(stride=1024, swizzle="128B")
ATOM32 = SharedMemoryDescriptor(stride=1024, swizzle="128B_32B")
ABSOLUTE = SharedMemoryDescriptor(leading=4096, stride=1024, swizzle="128B", leading_mode="absolute")
PATHS = "Data Path Layout Organization"
SIZES = "Valid Combinations of Type-Size, Major-ness and Swizzling"
RESTRICTIONS = "Restrictions on the Leading Dimension Absolute Address Stride"


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        (F16, {"a": SWIZZLED, "b": SWIZZLED, "d": TensorMemoryAddress(0, 64)}, []),
        ({**F16, "transpose_a": True}, {"a": SWIZZLED}, []),
        (
            {**F16, "transpose_a": True},
            {"a": ATOM32},
            [("a transposed (MN-major) operand of 16-bit elements with 128B swizzling of 32B atomicity is not supported", SIZES)],
        ),
        (
            {"kind": "tf32", "m": 128, "n": 64, "a": "tf32", "b": "tf32", "transpose_b": True},
            {"b": SWIZZLED},
            [("a transposed (MN-major) operand of 32-bit elements with swizzling mode 128B is not supported", SIZES)],
        ),
        ({"kind": "tf32", "m": 128, "n": 64, "a": "tf32", "b": "tf32", "transpose_b": True}, {"b": ATOM32}, []),
        (
            {**F16, "transpose_a": True},
            {"a": TensorMemoryAddress()},
            [("matrix A in tensor memory is K-major; it cannot be transposed", "Matrix Layout Organization")],
        ),
        (K96, {"a": ABSOLUTE, "target": "sm_103a"}, []),
        (
            K96,
            {"a": ABSOLUTE, "target": "sm_100a"},
            [
                ("the absolute leading dimension needs sm_103a, not sm_100a", "Shared memory descriptor, Target ISA Note"),
                ("K = 96 needs sm_103a, not sm_100a", "Matrix Shape"),
            ],
        ),
        (
            F16,
            {"a": ABSOLUTE},
            [("the absolute leading dimension is for K = 96 only", "Absolute address mode for K dimension being 48B")],
        ),
        (
            {**F16, "transpose_a": True},
            {"a": SharedMemoryDescriptor(leading=16, stride=1024, swizzle="64B", base_offset=1, leading_mode="absolute")},
            [
                ("the absolute leading dimension needs 128B swizzling, not 64B", RESTRICTIONS),
                ("the absolute leading dimension needs a K-major operand", RESTRICTIONS),
                ("the matrix base offset must be 0 with an absolute leading dimension", RESTRICTIONS),
                ("the absolute leading dimension is for K = 96 only", "Absolute address mode for K dimension being 48B"),
            ],
        ),
        ({**F16, "m": 64}, {"d": TensorMemoryAddress(16, 0), "a": TensorMemoryAddress(16, 64)}, []),
        (
            {**F16, "m": 64},
            {"d": TensorMemoryAddress(16, 0), "a": TensorMemoryAddress(0, 64)},
            [("operands in tensor memory begin at different lanes: matrix D at 16, matrix A at 0", f"{PATHS}, Alignment restriction")],
        ),
        (F16, {"d": TensorMemoryAddress(16)}, [("matrix D begins at lane 16; with layout D it must be 0", PATHS)]),
        (F16, {"d": TensorMemoryAddress(0, 480)}, [("matrix D takes columns 480 to 543; there are 512", PATHS)]),
        (
            {**F16, "sparse": True, "selector": 2},
            {"metadata": TensorMemoryAddress(32)},
            [
                ("the sparsity selector is 2; it must be 0 or 1 for .kind::f16", "Sparsity selector"),
                ("the sparsity metadata begins at lane 32; with layout D it must be 0", PATHS),
            ],
        ),
    ],
)
def test_instructions(fields: dict[str, Any], options: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = check_mma(InstructionDescriptor(**fields), **options)
    assert [(f.message, f.section) for f in found] == expected


def test_zero_columns_of_an_instruction() -> None:
    i = InstructionDescriptor(kind="f16", m=32, n=64, a="f16", b="f16", max_shift=8)
    assert check_mma(i, ws=True, zero_columns=ZeroColumnMask(shift=8)) == []
    found = check_mma(i, ws=True, zero_columns=ZeroColumnMask(shift=12))
    assert [f.message for f in found] == ["the column shift is 12, the instruction descriptor allows 8"]
    assert [f.message for f in ZeroColumnMask(shift=20).findings(32)] == ["the column shift is 20; it can be 0 to 16 for M = 32"]
    over = ZeroColumnMask((4, 0, 0, 0), non_zero=True, skip_span=2, use_span=3)
    assert [f.message for f in over.findings(128)] == ["start count 0 is 4, but the first span has 4 columns"]


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("32x32b", 8, TensorMemoryAddress(64, 0), 2), []),
        (("32x32b", 8, TensorMemoryAddress(64, 0), 6), []),
        (("32x32b", 8, TensorMemoryAddress(16, 0)), ["lane 16 for .32x32b: lane % 32 must be 0"]),
        (("16x256b", 4, TensorMemoryAddress(48, 0), 1), []),
        (("16x64b", 4, TensorMemoryAddress(8, 0)), ["lane 8 for .16x64b: lane % 32 must be 0 or 16"]),
        (("16x256b", 64), [".x64 does not exist for .16x256b; it can be .x1 to .x32"]),
        (("8x8b", 1), ["there is no shape .8x8b"]),
        (("32x32b", 64, TensorMemoryAddress(0, 450)), ["columns 450 to 513; there are 512"]),
        (("32x32b", 128, TensorMemoryAddress(0, 384), None, True), ["columns 384 to 639; there are 512"]),
    ],
)
def test_loads_and_stores(arguments: tuple[Any, ...], messages: list[str]) -> None:
    assert [f.message for f in check_fragment(*arguments)] == messages


@given(st.integers(0, (1 << 64) - 1))
def test_masks_round_trip(word: int) -> None:
    assert int(ZeroColumnMask.decode(word)) == word


@given(st.integers(0, (1 << 32) - 1))
def test_addresses_round_trip(word: int) -> None:
    found = TensorMemoryAddress.decode(word)
    assert int(found) == word
    assert (found.lane, found.column) == (word >> 16, word & 0xFFFF)


def test_places_of_the_fields() -> None:
    """Tables 40 and 45, and wgmma's "Matrix Descriptor Format"."""

    def places(reading: str) -> dict[str, tuple[int, int]]:
        return {item.name: (item.low, item.width) for item in format_of(reading).fields}

    common = {"start": (0, 14), "leading": (16, 14), "stride": (32, 14), "base_offset": (49, 3)}
    assert places("smem") == common | {"leading_mode": (52, 1), "swizzle": (61, 3)}
    assert format_of("smem").fixed == 0b001 << 46
    assert places("wgmma") == common | {"swizzle": (62, 2)}
    counts = {f"start_count{i}": (8 * i, 8) for i in range(4)} | {f"first_span{i}": (32 + i, 1) for i in range(4)}
    assert places("mask") == counts | {"non_zero": (39, 1), "skip_span": (40, 8), "use_span": (48, 8), "shift": (56, 6)}
    assert places("tmem") == {"lane": (16, 16), "column": (0, 16)}


@pytest.mark.parametrize("bits", [4, 6, 8, 16, 32])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_type_size_major_ness_and_swizzling(bits: int, major: Any) -> None:
    """Every cell of table "Valid Combinations of Type-Size, Major-ness and Swizzling"."""
    allowed = {s for row in TYPE_SIZES if bits in row.bits and row.major == major for s in row.swizzles}
    legal = {s for s in SWIZZLES if not SharedMemoryDescriptor(stride=1024, swizzle=s).findings(major, bits)}
    assert legal == allowed


@pytest.mark.parametrize("kind", list(MMA_KINDS))
def test_transpose_and_negate(kind: str) -> None:
    """Every cell of table "Transpose and Negate operation for various MMA-Kind", and 8-bit N of the table after it."""
    row = MMA_KINDS[kind]
    a, d = next(iter(row.ab)), list(row.d)[-1]
    for group, m in ((1, 128), (2, 256)):
        for n in range(8, 257, 8):
            shape_is_legal = n in SHAPES[kind, False, group, False].n
            for field, possible in (("transpose_a", row.transpose), ("transpose_b", row.transpose), ("negate_a", row.negate)):
                i = InstructionDescriptor(kind=kind, m=m, n=n, a=a, b=a, d=d, **{field: True})  # type: ignore[arg-type]
                fits = field != "transpose_b" or TYPE_BITS[a] != 8 or n in TRANSPOSED_8_BIT_N[group]
                assert (i.findings(group) == []) == (possible and shape_is_legal and fits), (field, group, n)
