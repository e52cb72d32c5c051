"""Tables of operand layouts, scaling, operations and wgmma: what they must have in common."""

from __future__ import annotations

import re

import numpy as np

from ptxlab.layout import a_location, accumulator_location, copy_destination, parse_layout
from ptxlab.tables import (
    BLOCK_SCALED_KINDS,
    CANONICAL_LAYOUTS,
    COPY_LAYOUTS,
    FRAGMENT_LANES,
    FRAGMENT_REGISTERS,
    KINDS,
    LOAD_REGISTERS,
    MMA_KINDS,
    SCALE_IDS,
    SCALE_VECTOR_TYPES,
    SCALE_VECTORS,
    SHAPES,
    SPARSE_GRANULARITY,
    STRIDE_ROLES,
    SWIZZLES,
    TENSOR_FRAGMENTS,
    TRANSPOSED_8_BIT_N,
    TYPE_BITS,
    WGMMA_KINDS,
    WGMMA_M,
    scale_vector_of,
)
from tests.tables.specification_helpers import DATA_MOVEMENT_SHAPES, ISSUE_GRANULARITY, MAJORNESS, TYPE_SIZES


def test_canonical_layouts_cover_every_mode_and_only_name_known_symbols() -> None:
    assert set(CANONICAL_LAYOUTS) == {(major, mode) for major in ("k", "mn") for mode in SWIZZLES}
    for (major, mode), row in CANONICAL_LAYOUTS.items():
        layout = parse_layout(row.layout)
        assert layout.symbols <= {"T", "m", "k", "LBO", "SBO"}
        # The leading dimension byte offset counts for nothing where K-major operands are swizzled.
        assert ("LBO" in layout.symbols) == (major == "mn" or mode == "none")
        assert "SBO" in layout.symbols
    assert set(STRIDE_ROLES) == {(major, swizzled) for major in ("k", "mn") for swizzled in (False, True)}


def test_scale_vectors() -> None:
    assert {row.scales for row in SCALE_VECTORS} == set(SCALE_IDS)
    assert {kind for kind, _ in SCALE_VECTOR_TYPES} == set(BLOCK_SCALED_KINDS)
    for (kind, scale), names in SCALE_VECTOR_TYPES.items():
        assert scale in BLOCK_SCALED_KINDS[kind].scale
        assert all(scale_vector_of(kind, name) is not None for name in names)
    for kind in BLOCK_SCALED_KINDS:
        # .blockN stands for a .scale_vec::NX where K is not 96.
        for block, vectors in (("block16", ("scale_vec::4X",)), ("block32", ("scale_vec::1X", "scale_vec::2X"))):
            row = scale_vector_of(kind, block)
            same = {v.scales for name in vectors if (v := scale_vector_of(kind, name)) is not None}
            assert same == (set() if row is None else {row.scales})
    assert scale_vector_of("mxf8f6f4", "block16") is None


def test_registers_of_loads_and_stores() -> None:
    """The registers at .x1 are a 32nd of the bits of the shape, and those of its layout."""
    for shape, registers in FRAGMENT_REGISTERS.items():
        rows, bits, halves = (int(number) for number in re.findall(r"\d+", f"{shape}x1")[:3])
        assert registers == rows * bits * halves // 1024
        assert parse_layout(TENSOR_FRAGMENTS[shape])[1].coefficients("C", n=1).size == registers
    assert {shape: LOAD_REGISTERS[shape, 1] for shape in FRAGMENT_REGISTERS} == dict(FRAGMENT_REGISTERS)
    assert set(TENSOR_FRAGMENTS) == set(FRAGMENT_REGISTERS)
    assert {shape for shape, _ in COPY_LAYOUTS} == set(DATA_MOVEMENT_SHAPES["cp"])
    last = {shape: max(num for s, num in LOAD_REGISTERS if s == shape) for shape in FRAGMENT_REGISTERS}
    assert last == {"32x32b": 128, "16x64b": 128, "16x32bx2": 128, "16x128b": 64, "16x256b": 32}
    assert set(FRAGMENT_LANES) == set(DATA_MOVEMENT_SHAPES["ld"]) == set(DATA_MOVEMENT_SHAPES["st"]) == set(FRAGMENT_REGISTERS)
    for shape in DATA_MOVEMENT_SHAPES["cp"]:
        multicast = {"32x128b": "warpx4", "64x128b": "warpx2::02_13"}.get(shape, "")
        assert copy_destination(shape, multicast).columns == int(shape.split("x")[1].rstrip("b")) // 32


def test_kinds() -> None:
    assert MMA_KINDS == {**KINDS, **BLOCK_SCALED_KINDS}
    assert {kind for kind, *_ in SHAPES} == set(MMA_KINDS) == set(SPARSE_GRANULARITY)
    # Transpose and Negate operation for various MMA-Kind.
    assert {kind.name for kind in MMA_KINDS.values() if not kind.transpose} == {"mxf4", "mxf4nvf4"}
    assert {kind.name for kind in MMA_KINDS.values() if not kind.negate} == {"i8"}
    for kind in BLOCK_SCALED_KINDS.values():
        assert kind.k * kind.container == 256
        assert (kind.name, True, 1, False) not in SHAPES
    for stored, of, together in SPARSE_GRANULARITY.values():
        assert of == 2 * stored
        assert stored % together == 0


def test_type_sizes() -> None:
    """Each size and major-ness stands in one row; transposed 32-bit operands and the rest exclude each other's modes."""
    seen = {(bits, row.major): row.swizzles for row in TYPE_SIZES for bits in row.bits}
    assert {bits for bits, major in seen if major == "k"} == {4, *(TYPE_BITS[t] for kind in MMA_KINDS.values() for t in kind.ab)}
    assert {bits for bits, major in seen if major == "mn"} == {8, 16, 32}
    assert set(seen[16, "mn"]) | set(seen[32, "mn"]) == set(SWIZZLES)
    assert not set(seen[16, "mn"]) & set(seen[32, "mn"])
    assert list(TRANSPOSED_8_BIT_N[1]) == list(range(16, 257, 16))
    assert list(TRANSPOSED_8_BIT_N[2]) == list(range(32, 257, 32))


def test_majorness() -> None:
    """In tensor memory the matrices are row-major: elements of a row stand side by side, rows in lanes of their own."""
    assert {memory for (matrix, memory), default in MAJORNESS.items() if default == "row"} == {"tensor memory"}
    d, a = accumulator_location(128, 64), a_location(128, 16, 32)
    for lane, column in ((d.lane, d.column), (a.lane[0], a.column[0])):
        assert (np.diff(column, axis=1) == 1).all()
        assert (np.diff(lane, axis=0) == 1).all()
    assert set(MAJORNESS) == {("D", "tensor memory"), ("A", "tensor memory"), ("A", "shared memory"), ("B", "shared memory")}


def test_issue_granularity() -> None:
    assert {op for op, group in ISSUE_GRANULARITY if group == 1} == {op for op, group in ISSUE_GRANULARITY if group == 2}
    assert {op for op, group in ISSUE_GRANULARITY if group is None} == {"ld", "st", "wait::ld", "wait::st", "fence"}


def test_wgmma() -> None:
    assert WGMMA_M == 64
    for kind in WGMMA_KINDS.values():
        assert kind.k * kind.bits == 256
        assert kind.sparse_k in (0, 2 * kind.k)
        assert kind.transpose == (kind.bits == 16)
        assert kind.n[0] == 8
        assert kind.n[-1] == 256
    assert list(WGMMA_KINDS["i8"].n) == list(SHAPES["i8", False, 1, False].n)
