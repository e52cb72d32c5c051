"""mma.sync and mma.sp in kernels, against matrices placed by the ISA's tables and multiplied in exact integers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxlab
from ptxlab import numerics
from tests.isa.mma.fragment_helpers import a_registers, b_registers, c_registers, d_matrix, metadata_registers, scale_registers

SHOWS = {
    "test_narrow_types": ("mma.*kind::f8f6f4*",),
    "test_scaled_bytes": ("mma.*kind::mxf8f6f4*",),
    "test_scaled_four_bits": ("mma.*kind::mxf4*",),
    "test_sparse": ("mma.(variant=sp::ordered_metadata)*(d=f16).(a=e4m3|e5m2)*",),
}

Codes = NDArray[Any]
NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
WIDTH = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 6,
    "e2m3": 6,
    "e2m1": 4,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
}
ORDERED = (4, 8, 9, 12, 13, 14)
ANY_ORDER = (*ORDERED, 1, 2, 3, 6, 7, 11)


def kernel(opcode: str, counts: dict[str, int], d: str, tail: str, target: str) -> ptxlab.Kernel:
    """Registers a, b, c, d; e the metadata, p and q the scale factors."""
    kind = "f32" if d == "f32" else "b32"
    lists = {o: "{" + ", ".join(f"%{o}{i}" for i in range(counts[o])) + "}" for o in "dabc"}
    loads = "\n".join(
        f"ld.param.u64 %r, [{o}]; mad.wide.u32 %r, %t, {4 * counts[o]}, %r; "
        + " ".join(f"ld.global.b32 %{o}{i}, [%r+{4 * i}];" for i in range(counts[o]))
        for o in "abc"
    )
    extra = " ".join(f"ld.param.u64 %r, [{o}]; mad.wide.u32 %r, %t, 4, %r; ld.global.b32 %{o}, [%r];" for o in "epq")
    stores = " ".join(f"st.global.b32 [%r+{4 * i}], %d{i};" for i in range(counts["d"]))
    text = f""".version 9.1
.target {target}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 e, .param .u64 p, .param .u64 q, .param .u64 d)
{{
.reg .b32 %a<5>, %b<5>, %t, %e, %p, %q; .reg .{kind} %c<5>, %d<5>; .reg .b64 %r; .reg .b16 %one;
mov.u32 %t, %tid.x; mov.b16 %one, 1;
{loads}
{extra}
{opcode} {lists["d"]}, {lists["a"]}, {lists["b"]}, {lists["c"]}{tail};
ld.param.u64 %r, [d]; mad.wide.u32 %r, %t, {4 * counts["d"]}, %r;
{stores}
ret;
}}
"""
    return ptxlab.loads(text).kernel()


def elements(rng: np.random.Generator, fmt: str, shape: tuple[int, ...]) -> Codes:
    """Any codes of the small types, middling ones of the others."""
    if WIDTH[fmt] <= 8:
        codes = rng.integers(0, 1 << WIDTH[fmt], shape).astype(np.uint8)
        return codes & 0xFB if fmt == "e5m2" else codes  # no infinities: they would hide the rest
    values = rng.standard_normal(shape)
    if fmt == "f16":
        return values.astype(np.float16).view(np.uint16)
    words = values.astype(np.float32).view(np.uint32)
    return (words >> 16).astype(np.uint16) if fmt == "bf16" else words


def accumulator(rng: np.random.Generator, d: str, m: int) -> Codes:
    if d == "s32":
        return rng.integers(0, 1 << 32, (m, 8), dtype=np.uint64).astype(np.uint32)
    values = rng.standard_normal((m, 8))
    return values.astype(np.float16).view(np.uint16) if d == "f16" else values.astype(np.float32).view(np.uint32)


def in_containers(codes: Codes, fmt: str, bits: int) -> Codes:
    """As registers hold them: e2m1 in bits 5:2 of a byte; the padding is not looked at."""
    if bits != 8 or WIDTH[fmt] == 8:
        return codes
    padding = np.uint8(0xC3 if fmt == "e2m1" else 0xC0)
    return (codes << (2 if fmt == "e2m1" else 0)).astype(np.uint8) | padding


def launch(opcode: str, target: str, operands: list[NDArray[Any]], d: str, m: int, tail: str, **options: Any) -> tuple[Codes, Any]:
    counts = dict(zip("abc", (x.shape[1] for x in operands[:3]), strict=True))
    counts["d"] = m * 8 * (16 if d == "f16" else 32) // 1024
    out = np.zeros((32, counts["d"]), np.uint32)
    result = kernel(opcode, counts, d, tail, target).launch(grid=1, block=32, args=[*operands, out], **options)
    return d_matrix(out, m, 16 if d == "f16" else 32), result


def check(
    shape: str,
    d: str,
    a: str,
    b: str,
    *,
    kind: str = "",
    vector: int = 0,
    scale: str = "",
    sparse: str = "",
    selector: int = 0,
    suffix: str = "",
    select: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    target: str = "sm_120a",
    seed: int = 0,
) -> None:
    m, _, k = (int(x) for x in re.findall(r"\d+", shape))
    rng = np.random.default_rng(seed)
    bits = 4 if kind.startswith("mxf4") or a in ("s4", "u4") else max(WIDTH[a], 8)
    stored = k // 2 if sparse else k
    A, B, C = elements(rng, a, (m, stored)), elements(rng, b, (8, k)), accumulator(rng, d, m)
    types: dict[str, Any] = {"arch": f"mma.{target.rstrip('a')}", "kind": kind or None, "a": a, "b": b, "d": d}
    chunk = 1 if a == "tf32" else 4 if bits == 4 else 2
    codes = rng.choice((4, 14) if a == "tf32" else ANY_ORDER if sparse == "sp" else ORDERED, (m, stored // chunk)).astype(np.uint8)
    words = np.zeros((3, 32), np.uint32)
    tail = ""
    if sparse:
        words[0] = metadata_registers(codes, bits, selector, rng)
        types["metadata"] = codes
        tail = f", %e, {selector}"
    if vector:
        factors = [rng.integers(0x30, 0x50, (rows, vector)).astype(np.uint8) for rows in (16, 8)]
        if scale == "ue8m0":
            factors = [x + np.uint8(0x40) for x in factors]
        words[1], words[2] = scale_registers(factors[0], factors[1], *select)
        types |= {"scale_a": factors[0], "scale_b": factors[1], "scale": scale, "block": stored // vector}
        # A selector may stand in a register.
        tail += ", %p, {{{}, {}}}, %q, {{{}, {}}}".format(*("%one" if x == 1 else x for pair in select for x in pair))
    name = f"mma.{sparse + '.' if sparse else ''}sync.aligned.{shape}.row.col"
    scaling = f".block_scale.scale_vec::{vector}X" if vector else ""
    opcode = f"{name}{'.kind::' + kind if kind else ''}{scaling}.{d}.{a}.{b}.{d}{'.' + scale if scale else ''}{suffix}"
    held = [in_containers(x, fmt, bits) for x, fmt in ((A, a), (B, b))]
    operands = [a_registers(held[0], bits), b_registers(held[1], bits), c_registers(C, 16 if d == "f16" else 32), *words]
    found, result = launch(opcode, target, operands, d, m, tail)
    assert result.ok, result.diagnostics
    if WIDTH[a] == 4 and d == "s32":
        want = integers(A, B, C, (a, b), codes if sparse else None)
    else:
        want = numerics.reference.mma(A=A, B=B, C=C, **types)
    np.testing.assert_array_equal(found, want)


def integers(A: Codes, B: Codes, C: Codes, types: tuple[str, str], metadata: Codes | None) -> Codes:
    """Four-bit integers, one product at a time."""

    def number(code: int, name: str) -> int:
        return int(code) - 16 if name == "s4" and code & 8 else int(code)

    D = np.zeros(C.shape, np.uint32)
    for m in range(C.shape[0]):
        for n in range(8):
            total = int(C[m, n])
            for k, code in enumerate(A[m]):
                place = k
                if metadata is not None:
                    chunk = metadata[m, k // 4]
                    pair = (chunk & 3, chunk >> 2)[k % 4 // 2]
                    place = k // 4 * 8 + 2 * pair + k % 2
                total += number(code, types[0]) * number(B[n, place], types[1])
            D[m, n] = total & 0xFFFFFFFF
    return D


@pytest.mark.parametrize("d", ["f32", "f16"])
@pytest.mark.parametrize(("a", "b"), [("e4m3", "e2m1"), ("e2m1", "e3m2"), ("e2m3", "e5m2"), ("e3m2", "e2m3"), ("e5m2", "e4m3")])
def test_narrow_types(a: str, b: str, d: str) -> None:
    check("m16n8k32", d, a, b, kind="f8f6f4")
    check("m16n8k64", d, a, b, kind="f8f6f4", sparse="sp::ordered_metadata", seed=1)


@pytest.mark.parametrize("select", [((0, 0), (0, 0)), ((3, 1), (1, 2)), ((1, 0), (2, 3))])
@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e2m1", "e3m2"), ("e5m2", "e2m3")])
def test_scaled_bytes(a: str, b: str, select: Any) -> None:
    check("m16n8k32", "f32", a, b, kind="mxf8f6f4", vector=1, scale="ue8m0", select=select)
    check("m16n8k64", "f32", a, b, kind="mxf8f6f4", vector=1, scale="ue8m0", select=select, sparse="sp::ordered_metadata", seed=2)


@pytest.mark.parametrize(
    ("kind", "vector", "scale", "select"),
    [
        ("mxf4", 2, "ue8m0", ((0, 1), (2, 3))),
        ("mxf4", 2, "ue8m0", ((2, 0), (0, 1))),
        ("mxf4nvf4", 2, "ue8m0", ((2, 1), (2, 2))),
        ("mxf4nvf4", 4, "ue8m0", ((0, 1), (0, 0))),
        ("mxf4nvf4", 4, "ue4m3", ((0, 0), (0, 3))),
    ],
)
def test_scaled_four_bits(kind: str, vector: int, scale: str, select: Any) -> None:
    check("m16n8k64", "f32", "e2m1", "e2m1", kind=kind, vector=vector, scale=scale, select=select)
    sparse = "sp::ordered_metadata"
    check("m16n8k128", "f32", "e2m1", "e2m1", kind=kind, vector=vector, scale=scale, select=select, sparse=sparse, seed=3)


@pytest.mark.parametrize("variant", ["sp", "sp::ordered_metadata"])
@pytest.mark.parametrize(
    ("shape", "d", "a", "b", "selectors"),
    [
        ("m16n8k16", "f32", "f16", "f16", 4),
        ("m16n8k32", "f16", "f16", "f16", 2),
        ("m16n8k32", "f32", "bf16", "bf16", 2),
        ("m16n8k8", "f32", "tf32", "tf32", 4),
        ("m16n8k16", "f32", "tf32", "tf32", 2),
        ("m16n8k32", "s32", "s8", "u8", 2),
        ("m16n8k64", "s32", "u8", "s8", 1),
        ("m16n8k64", "s32", "s4", "u4", 2),
        ("m16n8k128", "s32", "u4", "s4", 1),
        ("m16n8k64", "f32", "e4m3", "e5m2", 1),
    ],
)
def test_sparse(shape: str, d: str, a: str, b: str, selectors: int, variant: str) -> None:
    for selector in range(selectors):
        check(shape, d, a, b, sparse=variant, selector=selector, seed=selector)


def test_sparse_bytes_into_halves() -> None:
    check("m16n8k64", "f16", "e5m2", "e4m3", sparse="sp::ordered_metadata")


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_100a"])
def test_sparse_of_generations(target: str) -> None:
    check("m16n8k32", "f32", "f16", "f16", sparse="sp", selector=1, target=target)
    check("m16n8k16", "f32", "tf32", "tf32", sparse="sp", selector=0, target=target)


MXF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"


@pytest.mark.parametrize(
    ("opcode", "tail", "metadata", "code", "message"),
    [
        (MXF4, ", %p, {1, 0}, %q, {0, 0}", 0, "W911", "byte-id-a is 1; it must be 0 or 2"),
        (MXF4, ", %p, {0, 2}, %q, {0, 0}", 0, "W911", "thread-id-a is 2; it must be 0 or 1"),
        (MXF4, ", %p, {0, 0}, %q, {0, 4}", 0, "W911", "thread-id-b is 4; it must be 0 to 3"),
        (SPARSE, ", %e, 2", 0x44444444, "W911", "the sparsity selector must be a constant, 0 or 1"),
        (SPARSE, ", %e, 0", 0x44454444, "D707", "the sparsity metadata of row 8, chunk 0 is 0b0101, which selects nothing"),
        (SPARSE, ", %e, 1", 0x44444464, "D707", "the sparsity metadata of row 0, chunk 1 is 0b0110, which is not in increasing order"),
    ],
)
def test_refusals(opcode: str, tail: str, metadata: int, code: str, message: str) -> None:
    words = np.full(32, metadata, np.uint32)
    operands = [np.zeros((32, n), np.uint32) for n in ((4, 2, 4) if opcode == MXF4 else (4, 4, 4))] + [words, words, words]
    _, result = launch(opcode, "sm_120a", operands, "f32", 16, tail)
    error = next(d for d in result.diagnostics if d.severity == "error")
    assert (error.code, error.message.partition(" (")[0]) == (code, message)


@pytest.mark.parametrize(
    ("form", "a", "b", "target", "needed"),
    [
        ("m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32", 4, 2, "sm_100a", "sm_120a or another target of its family"),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32", 4, 2, "sm_120", "sm_120a or another target of its family"),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, "sm_80", "sm_89 or later"),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, "sm_75", "sm_80 or later"),
    ],
)
def test_targets(form: str, a: int, b: int, target: str, needed: str) -> None:
    operands = [np.zeros((32, n), np.uint32) for n in (a, b, 4, 1, 1, 1)]
    opcode = f"mma.sync.aligned.{form}"
    _, result = launch(opcode, target, operands, "f32", 16, "")
    error = next(d for d in result.diagnostics if d.severity == "error")
    assert (error.code, error.message.partition(" (")[0]) == ("W912", f"{opcode} needs {needed}; the target is {target}")
