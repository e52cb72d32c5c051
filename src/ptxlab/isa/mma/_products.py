"""mma.sync and mma.sp: sections "Multiply-and-Accumulate Instruction: mma" and "... mma.sp / mma.sp::ordered_metadata".

mma.m8n8k4 with f16 is four independent products: section "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Product i belongs
to threads 4i to 4i + 3, which hold rows (columns) 0 to 3, and to threads 4i + 16 to 4i + 19, which hold rows (columns) 4 to 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab import numerics
from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa._undefined_products import product_of
from ptxlab.isa.catalogue import Fidelity, Flow, service
from ptxlab.isa.effects import LOCAL
from ptxlab.isa.kinds import Typed
from ptxlab.isa.mma._arithmetic import Scales, bit_product, float_product, integer_product, quad_product
from ptxlab.isa.mma._fragments import gather_ab, gather_cd, immediate, read, scatter_d, selectors, write
from ptxlab.isa.mma._product import WarpProduct
from ptxlab.isa.mma._undefined import undefined
from ptxlab.isa.requirements import Needs, needs
from ptxlab.isa.targets import at_least
from ptxlab.layout import matrix_fragment, matrix_fragment_layout, metadata_fragment

_SECTION = "Multiply-and-Accumulate Instruction: mma"
_ACCUMULATORS = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}


@dataclass(frozen=True)
class Types:
    """Element types that share shapes.

    Attributes
    ----------
    ab, d : types of A and B, and of C and D
    bits : bits of an element in a register
    dense : shapes of mma.sync
    sparse : shapes of mma.sp -> number of values of the sparsity selector
    kind : the .kind, "" without one
    scales : (number of factors in a row, their type) -> stored elements that share a factor
    since : the first architecture with these types; from 120 on the target needs a suffix letter
    """

    ab: tuple[str, ...]
    d: tuple[str, ...]
    bits: int
    dense: tuple[str, ...]
    sparse: Mapping[str, int] = field(default_factory=dict)
    kind: str = ""
    scales: Mapping[tuple[int, str], int] = field(default_factory=dict)
    fidelity: Fidelity = "hardware"
    since: int = 80


_EIGHT = ("e4m3", "e5m2")
_NARROW = (*_EIGHT, "e3m2", "e2m3", "e2m1")
_FLOATS = ("f32", "f16")

TYPES = (
    #     A and B          C and D    bits dense                                         sparse
    Types(("f16",),        _FLOATS,    16, ("m16n8k8", "m16n8k16"),                      {"m16n8k16": 4, "m16n8k32": 2}),
    Types(("bf16",),       ("f32",),   16, ("m16n8k8", "m16n8k16"),                      {"m16n8k16": 4, "m16n8k32": 2}),
    Types(("tf32",),       ("f32",),   32, ("m16n8k4", "m16n8k8"),                       {"m16n8k8": 4, "m16n8k16": 2}),
    Types(("f64",),        ("f64",),   64, ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
    Types(_EIGHT,          _FLOATS,     8, ("m16n8k16", "m16n8k32"),                     {"m16n8k64": 1}, since=89),
    Types(("s8", "u8"),    ("s32",),    8, ("m8n8k16", "m16n8k16", "m16n8k32"),          {"m16n8k32": 2, "m16n8k64": 1}),
    Types(("s4", "u4"),    ("s32",),    4, ("m8n8k32", "m16n8k32", "m16n8k64"),          {"m16n8k64": 2, "m16n8k128": 1}),
    Types(("b1",),         ("s32",),    1, ("m8n8k128", "m16n8k128", "m16n8k256")),
    Types(_NARROW,         _FLOATS,     8, ("m16n8k32",),                                {"m16n8k64": 1}, "f8f6f4", {}, "two-models", 120),
    Types(_NARROW,         ("f32",),    8, ("m16n8k32",),                                {"m16n8k64": 1}, "mxf8f6f4",
          {(1, "ue8m0"): 32}, "two-models", 120),
    Types(("e2m1",),       ("f32",),    4, ("m16n8k64",),                                {"m16n8k128": 1}, "mxf4",
          {(2, "ue8m0"): 32}, "two-models", 120),
    Types(("e2m1",),       ("f32",),    4, ("m16n8k64",),                                {"m16n8k128": 1}, "mxf4nvf4",
          {(2, "ue8m0"): 32, (4, "ue8m0"): 16, (4, "ue4m3"): 16}, "two-models", 120),
)  # fmt: skip

_SINCE = {
    ("f16", "m16n8k8"): 75, ("s8", "m8n8k16"): 75, ("s4", "m8n8k32"): 75, ("b1", "m8n8k128"): 75,
    ("f64", "m16n8k4"): 90, ("f64", "m16n8k8"): 90, ("f64", "m16n8k16"): 90,
}  # fmt: skip
"""(First type of a row, shape) -> the first architecture with it, where it differs from that of the row: section "Target ISA Notes"."""

_VERSIONS = {75: "6.5", 80: "7.0", 90: "7.8"}
"""Architecture -> the PTX ISA version that introduced the types and shapes that first appeared on it."""

_OWN_BITS = {"e3m2": (0, 0x3F), "e2m3": (0, 0x3F), "e2m1": (2, 0xF)}
"""Element type of fewer than 8 bits -> its lowest bit in the byte, and mask."""


Lanes: TypeAlias = dict[str, NDArray[np.intp]]
"""By the name of an operand with metadata or scale factors the lanes that hold those of a row, ``[row, lane]``."""


def _elements(codes: NDArray[Any], name: str, types: Types) -> NDArray[Any]:
    """The codes without the padding of their containers."""
    if types.bits != 8 or name not in _OWN_BITS:
        return codes
    shift, mask = _OWN_BITS[name]
    found: NDArray[Any] = codes >> shift & mask
    return found


def _check_target(warp: context.WarpContext, since: int) -> None:
    target = warp.machine.target
    number = int(re.sub(r"\D", "", target))
    if number < since or (since >= 120 and target[-1].isdigit()):
        needed = f"sm_{since}a or another target of its family" if since >= 120 else f"sm_{since} or later"
        warp.fault("W912", f"{warp.op.opcode} needs {needed}; the target is {target}")


def _metadata(warp: context.WarpContext, types: Types, k: int, lanes: Lanes) -> NDArray[np.uint8]:
    """The metadata codes of a sparse A, [16, chunks]; a fault if a code is not legal. Adds to ``lanes`` those that hold them."""
    q = warp.q
    selector = immediate(warp, "selector", "the sparsity selector", tuple(range(types.sparse[q.shape])))
    chunks = k // (2 if types.bits == 32 else 8 if types.bits == 4 else 4)
    at = metadata_fragment(types.bits, chunks, selector)
    lanes["metadata"] = at.lane
    codes: NDArray[np.uint8] = (read(warp, "metadata")[0][at.lane] >> at.bit & 0xF).astype(np.uint8)
    wrong = np.argwhere(~np.isin(codes, numerics.legal_codes(q.a, q.variant)))
    if len(wrong):
        row, chunk = (int(x) for x in wrong[0])
        code = int(codes[row, chunk])
        why = "is not in increasing order" if code in numerics.legal_codes(q.a, "sp") else "selects nothing"
        warp.fault("D707", f"the sparsity metadata of row {row}, chunk {chunk} is {code:#06b}, which {why}")
    return codes


def _scales(warp: context.WarpContext, vector: int, type: str, block: int, lanes: Lanes) -> Scales:
    """The scale factors that the selectors choose: section "Block Scaling for mma.sync". Adds to ``lanes`` those that hold them."""
    bytes_ = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[vector]
    byte_a, thread_a = selectors(warp, "select_a", (("byte-id-a", bytes_), ("thread-id-a", (0, 1))))
    byte_b, thread_b = selectors(warp, "select_b", (("byte-id-b", bytes_), ("thread-id-b", (0, 1, 2, 3))))
    row, column = np.arange(16), np.arange(8)
    # In a pair of threads the first holds row t/4, the second row t/4 + 8.
    lanes["scale_a"], lanes["scale_b"] = (4 * (row % 8) + 2 * thread_a + row // 8)[:, None], (4 * column + thread_b)[:, None]
    a, b = (_factors(warp, name, lanes[name], byte, vector) for name, byte in (("scale_a", byte_a), ("scale_b", byte_b)))
    return Scales(a, b, type, block)


def _factors(warp: context.WarpContext, name: str, lanes: NDArray[np.intp], byte: int, count: int) -> NDArray[np.uint8]:
    words = np.ascontiguousarray(read(warp, name)[0][lanes])
    return np.ascontiguousarray(words.view(np.uint8).reshape(-1, 4)[:, byte : byte + count])


def _multiply(warp: context.WarpContext, types: Types, sparse: bool, scale: tuple[int, str], since: int) -> None:
    q = warp.q
    _check_target(warp, since)
    m, _, k = (int(x) for x in re.findall(r"\d+", q.shape))
    wide = max(types.bits, 32)
    a = _elements(gather_ab(read(warp, "a", wide), m, types.bits), q.a, types)
    b = _elements(gather_ab(read(warp, "b", wide), 8, types.bits), q.b, types)
    half = q.d == "f16"
    c = gather_cd(read(warp, "c", wide), m, half)
    lanes: Lanes = {}
    metadata = _metadata(warp, types, k, lanes) if sparse else None
    d: NDArray[Any]
    if q.a == "f64":
        d = numerics.mma_f64(a.view(np.float64), b.view(np.float64), c.view(np.float64), q.rounding or "rn").view(np.uint64)
    elif q.a == "b1":
        d = bit_product(q.operation, a, b, c)
    elif q.d == "s32":
        d = integer_product((q.a, q.b), types.bits, a, b, c, metadata, q.satfinite)
    else:
        scales = _scales(warp, *scale, types.scales[scale], lanes) if types.scales else None
        d = float_product(warp.machine.target, types.kind or None, (q.a, q.b, q.d), a, b, c, metadata, scales)
    write(warp, scatter_d(d, half), wide)
    if warp.machine.observed:
        warp.multiplied(partial(WarpProduct, warp, k, types.bits, (q.a, q.b, q.d), (a, b, c, d), lanes))


def _undefined_bits(warp: context.WarpContext, types: Types) -> NDArray[Any]:
    """The undefined bits of the registers of D."""
    q, half = warp.q, warp.q.d == "f16"
    m = int(re.findall(r"\d+", q.shape)[0])
    a = _elements(gather_ab(undefined(warp, "a"), m, types.bits), q.a, types)
    b = _elements(gather_ab(undefined(warp, "b"), 8, types.bits), q.b, types)
    c = gather_cd(undefined(warp, "c"), m, half)
    scales = any(undefined(warp, name).any() for name in ("scale_a", "scale_b")) if types.scales else False
    return scatter_d(product_of(a, b, c, scales), half)


def _vector(registers: int, type: str) -> str:
    return f"v{registers}.{type}"


def _pattern(types: Types, shape: str, d: str, sparse: bool, scale: tuple[int, str], since: int) -> str:
    # Types and shapes introduced with sm_120 exist only as sp::ordered_metadata.
    variant = "" if not sparse else ".(variant=sp::ordered_metadata)" if since >= 120 else ".(variant=sp|sp::ordered_metadata)"
    kind = f".kind::{types.kind}" if types.kind else ""
    if types.scales:
        # The scale vector size is optional if the kind has only one.
        size = f".scale_vec::{scale[0]}X"
        kind += ".block_scale" + (f"{{{size}}}" if len(types.scales) == 1 else size)
    a = "|".join(types.ab)
    saturate = "{.satfinite}" if d == "s32" and a != "b1" else ""
    suffix = {"f64": "{.rounding=rn|rz|rm|rp}", "b1": ".(operation=xor|and).popc"}.get(a, f".{scale[1]}" if types.scales else "")
    return f"mma{variant}.sync.aligned.(shape={shape}).row.col{kind}{saturate}.(d={d}).(a={a}).(b={a}).{d}{suffix}"


def _needs(types: Types, shape: str, d: str, sparse: bool, scale: tuple[int, str], since: int) -> tuple[Needs, ...]:
    """Section "Target ISA Notes" of mma and mma.sp."""
    if types.scales:
        version = "9.1" if scale == (4, "ue8m0") else "8.7"
        return (needs(version, at_least(120, "a" if sparse and types.kind != "mxf8f6f4" else "af")),)
    if types.kind:
        newer = [needs("8.7", at_least(120, "af"), when={operand: "e3m2|e2m3|e2m1"}) for operand in "ab"]
        return (needs("8.6" if d == "f32" else "8.7", at_least(100 if d == "f32" or not sparse else 120, "af")), *newer)
    if since >= 120:
        return (needs("8.7", at_least(120, "af")),)
    wide = types.ab is _EIGHT and d == "f32" and shape in ("m16n8k32", "m16n8k64")
    version = "8.4" if wide else "8.7" if types.ab is _EIGHT else "7.1" if sparse else _VERSIONS[since]
    ordered = needs("8.5", when={"variant": "sp::ordered_metadata"})
    return needs(version, f"sm_{since}"), ordered, needs("7.1", "sm_80", when={"operation": "and"})


def _declare(types: Types, shape: str, d: str, sparse: bool, scale: tuple[int, str]) -> None:
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    stored = k // 2 if sparse else k
    lane = 64 if types.bits == 64 else 32
    accumulators = m * n * _ACCUMULATORS[d] // (32 * lane)
    accumulator = _vector(accumulators, "b32" if d == "f16" else d)
    scaled = {"scale_a": "b32", "select_a": "v2.b16", "scale_b": "b32", "select_b": "v2.b16"} if types.scales else {}
    element = "f64" if types.bits == 64 else "b32"
    halves_of_sparse_bytes = sparse and d == "f16" and types.bits == 8
    since = 120 if halves_of_sparse_bytes else _SINCE.get((types.ab[0], shape), types.since)
    service(
        _pattern(types, shape, d, sparse, scale, since),
        requires=_needs(types, shape, d, sparse, scale, since),
        section=_SECTION + (".sp / mma.sp::ordered_metadata" if sparse else ""),
        fidelity="spec" if sparse and types.kind else types.fidelity,
        outputs=1,
        ordered=False,
        effects=LOCAL,
        flow=Flow(("a", "b", "c", "scale_a", "scale_b"), partial(_undefined_bits, types=types)),
        matrices=("a", "b"),
        d=accumulator,
        a=_vector(m * stored * types.bits // (32 * lane), element),
        b=_vector(n * k * types.bits // (32 * lane), element),
        c=accumulator,
        **({"metadata": "b32", "selector": Typed("b32", range(types.sparse[shape]), constant=True)} if sparse else {}),
        **scaled,
    )(partial(_multiply, types=types, sparse=sparse, scale=scale, since=since))


for _types in TYPES:
    for _d in _types.d:
        for _scale in _types.scales or ((0, ""),):
            for _shape in _types.dense:
                _declare(_types, _shape, _d, False, _scale)
            for _shape in _types.sparse:
                _declare(_types, _shape, _d, True, _scale)


def _values(registers: NDArray[np.uint32], half: bool) -> NDArray[Any]:
    """The values of each thread, [32, values]."""
    rows = np.ascontiguousarray(registers.T)
    return rows.view(np.uint16) if half else rows


_PRODUCT = matrix_fragment_layout("m8n8k4 row").coefficients("P").offsets()[:, :1]
"""The number of each thread's product."""


def _gather(values: NDArray[Any], name: str, width: int) -> NDArray[Any]:
    """Matrices [4, 8, width] of values in the layout of that name."""
    at = matrix_fragment(f"m8n8k4 {name}")
    found = np.empty((4, 8, width), values.dtype)
    found[_PRODUCT, at.row, at.column] = values
    return found


def _registers(matrices: NDArray[Any], d: str) -> NDArray[Any]:
    """The registers of matrices [4, 8, 8] of bits of elements of D; a truth value stands for all bits."""
    at, kind = matrix_fragment(f"m8n8k4 {d}"), np.uint16 if d == "f16" else np.uint32
    values = matrices[_PRODUCT, at.row, at.column]
    bits = np.where(values, ~kind(0), kind(0)) if values.dtype == np.bool_ else values.astype(kind)
    return np.ascontiguousarray(bits).view(np.uint32).T


def _undefined_bits_of_quads(warp: context.WarpContext) -> NDArray[Any]:
    """The undefined bits of the registers of D."""
    q = warp.q
    a = _gather(_values(undefined(warp, "a"), True), q.alayout, 4)
    b = _gather(_values(undefined(warp, "b"), True), {"row": "col", "col": "row"}[q.blayout], 4)
    c = _gather(_values(undefined(warp, "c"), q.c == "f16"), q.c, 8)
    return _registers(product_of(a, b, c) != 0, q.d)


def _multiply_quads(warp: context.WarpContext) -> None:
    q = warp.q
    a = _gather(_values(read(warp, "a"), True), q.alayout, 4)
    b = _gather(_values(read(warp, "b"), True), {"row": "col", "col": "row"}[q.blayout], 4)
    c = _gather(_values(read(warp, "c"), q.c == "f16"), q.c, 8)
    d = np.stack([quad_product(warp.machine.target, q.d, q.c, a[i], b[i], c[i]) for i in range(4)])
    write(warp, _registers(d, q.d))


for _d, _c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32")):
    service(
        f"mma.sync.aligned.m8n8k4.(alayout=row|col).(blayout=row|col).(d={_d}).f16.f16.(c={_c})",
        section=_SECTION,
        fidelity="hardware",
        outputs=1,
        effects=LOCAL,
        flow=Flow(("a", "b", "c"), _undefined_bits_of_quads),
        d="v4.b32" if _d == "f16" else "v8.f32",
        a="v2.b32",
        b="v2.b32",
        c="v4.b32" if _c == "f16" else "v8.f32",
    )(_multiply_quads)
