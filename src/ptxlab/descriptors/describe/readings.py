"""Descriptors, tensor memory addresses and tensor maps in words, and what may have been meant instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from ptxlab.descriptors._bitfields import DescriptorError, Finding, TensorMapError
from ptxlab.descriptors._instruction import FORMATS, InstructionDescriptor
from ptxlab.descriptors._register_operands import TENSOR_ADDRESS_FORMAT, ZERO_COLUMN_FORMAT, TensorMemoryAddress, ZeroColumnMask
from ptxlab.descriptors._shared_memory import TCGEN05_FORMAT, WGMMA_FORMAT, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.describe.explanation import FieldRow, Hint, Interpretation, field_rows
from ptxlab.descriptors.describe.strides import stride_hints, stride_remarks
from ptxlab.descriptors.tensor_map.codec import TENSOR_MAP_BYTES, TensorMapFields, decode_tensor_map
from ptxlab.descriptors.tensor_map.encode import encode_tensor_map
from ptxlab.layout import Major, canonical_layout, zero_column_mask
from ptxlab.tables import (
    DATA_PATHS,
    INTERLEAVES,
    L2_PROMOTIONS,
    MMA_KINDS,
    OOB_FILLS,
    SHAPES,
    STRIDE_ROLES,
    SWIZZLES,
    TENSOR_MEMORY_COLUMNS,
    TENSOR_MEMORY_LANES,
    WGMMA_KINDS,
)

__all__ = ["read_instruction", "read_mask", "read_shared", "read_tensor_address", "read_tensor_map", "read_wgmma"]

Descriptor = SharedMemoryDescriptor | WgmmaDescriptor

_SHARED_BYTES = 228 * 1024
"""Addresses of shared memory end here: sm_90 and sm_100, with the 1 KiB that is reserved."""

_VERSION = 0b001 << 46
_WGMMA_CODES = {mode.wgmma: mode for mode in SWIZZLES.values() if mode.wgmma is not None}


def read_shared(raw: int, kind: str | None, major: Major | None) -> Interpretation:
    """As a descriptor of tcgen05."""
    d = SharedMemoryDescriptor.decode(raw)
    bits = _container(kind)
    findings = tuple(d.findings(major, bits))
    hints = tuple(_hints(raw, d, major))
    score = 0.9 - 0.12 * len(findings) - (0.25 if raw & _VERSION == 0 else 0) - (0.1 if hints else 0) - (0.5 if raw < 1 << 32 else 0)
    return Interpretation(
        what="smem",
        title="shared memory descriptor of tcgen05",
        section=TCGEN05_FORMAT.section,
        decoded=d,
        score=score,
        fields=field_rows(TCGEN05_FORMAT, raw),
        layouts=tuple(_layouts(d, bits, major)),
        notes=tuple(_notes(d, major, bits)),
        findings=findings,
        hints=hints,
    )


def read_wgmma(raw: int, kind: str | None, major: Major | None) -> Interpretation:
    """As a matrix descriptor of wgmma."""
    d = WgmmaDescriptor.decode(raw)
    bits = _container(kind)
    findings = tuple(d.findings(major, bits))
    hints = [] if raw >> 46 & 7 != 1 else [Hint("a shared memory descriptor of tcgen05, whose bits 46-48 are 0b001 (--as smem)")]
    hints += _common_hints(raw, d, major)
    return Interpretation(
        what="wgmma",
        title="matrix descriptor of wgmma",
        section=WGMMA_FORMAT.section,
        decoded=d,
        score=0.88 - 0.2 * len(findings) - (0.1 if hints else 0) - (0.5 if raw < 1 << 32 else 0),
        fields=field_rows(WGMMA_FORMAT, raw),
        layouts=tuple(_layouts(d, bits, major)),
        notes=tuple(_notes(d, major, bits)),
        findings=findings,
        hints=tuple(hints),
    )


def _container(kind: str | None) -> int | None:
    """Bits that an element of a kind takes in shared memory."""
    if kind is None:
        return None
    return MMA_KINDS[kind].container if kind in MMA_KINDS else WGMMA_KINDS[kind].bits


def _layouts(d: Descriptor, bits: int | None, major: Major | None) -> Iterator[tuple[str, str]]:
    if d.swizzle not in SWIZZLES:
        return
    swizzled = SWIZZLES[d.swizzle].bits > 0
    majors: tuple[Major, ...] = ("k", "mn") if major is None else (major,)
    for one in majors:
        layout = canonical_layout(one, d.swizzle)
        name = f"{one.upper()}-major"
        yield f"{name} canonical layout", str(layout)
        if bits is not None:
            known = {"T": 128 // bits, "LBO": d.leading * 8 // bits, "SBO": d.stride * 8 // bits}
            yield f"{name} with elements of {bits} bits", str(layout.substitute(**known))
        leading, stride = STRIDE_ROLES[one, swizzled]
        if (one, d.swizzle) == ("k", "32B"):
            leading = "from 32 bytes of k to the next 32, which only sparse instructions have"
        absolute = getattr(d, "leading_mode", "relative") == "absolute"
        yield f"{name} LBO", f"{d.leading:#x}: address of the next buffer" if absolute else f"{d.leading} bytes: {leading}"
        yield f"{name} SBO", f"{d.stride} bytes: {stride}"


def _notes(d: Descriptor, major: Major | None, bits: int | None) -> Iterator[str]:
    mode = SWIZZLES.get(d.swizzle)
    if mode is None:
        return
    if mode.bits and d.start % mode.repeat and not d.base_offset:
        inside = d.start % mode.repeat
        yield (
            f"the start is {inside} bytes inside the {mode.repeat}-byte pattern: right for a descriptor advanced along K inside an atom, "
            "since the swizzle takes the bits of the address itself; for a tile that begins here, align it"
        )
    if d.base_offset:
        yield f"the swizzle takes its phase as if the address were {d.base_offset} rows of 128 bytes lower"
    if mode.bits and d.swizzle != "32B" and d.leading in (0, 16):
        yield "LBO is not used by swizzled K-major operands; 0 and 1 (16 bytes) are what compilers write there"
    if not any(stride_hints(d, major)):
        yield from stride_remarks(d, major, bits)


def _hints(raw: int, d: SharedMemoryDescriptor, major: Major | None) -> Iterator[Hint]:
    version, code = raw >> 46 & 7, raw >> 61
    if version == 0 and not raw >> 46 & 0x7FFF:
        yield Hint("a matrix descriptor of wgmma, which has no such constant (--as wgmma)")
    if code in (1, 3):
        meant = _WGMMA_CODES[code]
        reads = "128B swizzling with 32B atomicity" if code == 1 else "nothing"
        yield Hint(
            f"{meant.name} swizzling? {code} is wgmma's code for it and means {reads} to tcgen05, whose code is {meant.tcgen05}",
            int(replace(d, swizzle=meant.name)),
        )
    yield from _common_hints(raw, d, major)


def _common_hints(raw: int, d: Descriptor, major: Major | None) -> Iterator[Hint]:
    mode = SWIZZLES.get(d.swizzle)
    if d.start >= _SHARED_BYTES or raw >> 14 & 3:
        address = raw & 0xFFFF
        if address % 16 == 0:
            text = f"start address {address:#x}? The field holds the address >> 4, and {d.start:#x} is beyond shared memory"
            yield Hint(text, raw & ~0xFFFF | address >> 4)
    if mode is None:
        return
    yield from stride_hints(d, major)


def _legal(i: InstructionDescriptor) -> tuple[list[Finding], list[str]]:
    """Findings of the variant that has the fewest, and the variants (cta_group, .ws) that have none."""
    tried = [
        (i.findings(group, ws), f"cta_group::{group}{', .ws' if ws else ''}")
        for ws, group in ((False, 1), (False, 2), (True, 1))
        if (i.kind, ws, group, i.sparse) in SHAPES
    ]
    fewest = min((found for found, _ in tried), key=len)
    return fewest, [name for found, name in tried if not found]


def read_instruction(raw: int, kind: str) -> Interpretation:
    """As an instruction descriptor of one kind."""
    i = InstructionDescriptor.decode(raw, kind)
    findings, variants = _legal(i)
    layouts = [("shape", f"M{i.m} x N{i.n} x K{i.k}, {i.a} x {i.b} -> {i.d}")]
    for group in (1, 2):
        for ws in (False, True):
            path = DATA_PATHS.get((i.m, group, ws, i.sparse))
            if path is not None and not i.findings(group, ws):
                name = f"D for cta_group::{group}{', .ws' if ws else ''}"
                layouts.append(
                    (name, f"layout {path.letter}, {path.organization}, {path.rows} rows, {i.n // path.banks} columns of each CTA")
                )
    notes = [f"legal for {' and for '.join(variants)}"] if variants else []
    if i.k96 and not i.sparse and i.m not in SHAPES[kind, False, 2, False].k96:
        notes.append(f"the table of shapes lists K = 96 for M = 256 with cta_group::2 only; CUTLASS issues it for M = {i.m}, too")
    others = [other for other in FORMATS if findings and other != kind and not _legal(InstructionDescriptor.decode(raw, other))[0]]
    return Interpretation(
        what="idesc",
        title=f"instruction descriptor of tcgen05.mma.kind::{kind}",
        section=FORMATS[kind].section,
        decoded=i,
        score=0.8 - 0.15 * len(findings) - (0.02 if kind.startswith("mx") else 0),
        fields=field_rows(FORMATS[kind], raw),
        layouts=tuple(layouts),
        notes=tuple(notes),
        findings=tuple(findings),
        hints=tuple(Hint(f"a descriptor of .kind::{other}, for which it is legal (--kind {other})") for other in others),
    )


def read_mask(raw: int, m: int | None = None) -> Interpretation:
    """As a zero-column mask descriptor."""
    d = ZeroColumnMask.decode(raw)
    findings = tuple(d.findings(m))
    masks = {rows: zero_column_mask(d, rows, 64)[::-1] for rows in ((128, 64, 32) if m is None else (m,))}
    exchanged = "the text of the specification's table exchanges Skip Span and Use Span; its examples do as here"
    return Interpretation(
        what="mask",
        title="zero-column mask descriptor",
        section=ZERO_COLUMN_FORMAT.section,
        decoded=d,
        score=(0.6 if d.non_zero or not raw else 0.2) - 0.15 * len(findings),
        fields=field_rows(ZERO_COLUMN_FORMAT, raw),
        layouts=tuple(
            (f"mask for M = {rows}, N = 64, column 0 on the right", "".join("01"[int(bit)] for bit in mask)) for rows, mask in masks.items()
        ),
        notes=(exchanged if d.non_zero else "Non-Zero Mask is 0: no column is zeroed",),
        findings=findings,
    )


def read_tensor_address(raw: int) -> Interpretation:
    """As an address of tensor memory."""
    a = TensorMemoryAddress.decode(raw)
    findings = tuple(a.findings())
    hints = []
    if findings and a.column < TENSOR_MEMORY_LANES and a.lane < TENSOR_MEMORY_COLUMNS:
        hints.append(Hint("lane and column exchanged? The lane is in bits 16-31", a.column << 16 | a.lane))
    notes = [] if findings else [f"lane {a.lane} is reached by warp {a.warp} of a warpgroup (lanes {32 * a.warp} to {32 * a.warp + 31})"]
    if not findings and a.lane % 32 not in (0, 16):
        notes.append("instructions begin at lanes that are multiples of 32, or 16 more; only tcgen05.cp.4x256b begins elsewhere")
    return Interpretation(
        what="tmem",
        title="tensor memory address",
        section=TENSOR_ADDRESS_FORMAT.section,
        decoded=a,
        score=(0.7 if a.lane % 16 == 0 else 0.4) - 0.6 * len(findings),
        fields=field_rows(TENSOR_ADDRESS_FORMAT, raw),
        notes=tuple(notes),
        findings=findings,
        hints=tuple(hints),
    )


def read_tensor_map(raw: bytes) -> Interpretation:
    """As the 128 bytes of a tensor map."""
    try:
        fields = decode_tensor_map(raw)
    except TensorMapError as error:
        finding = Finding("D732", error.argument, error.diagnostic.message, "Tensor-map")
        row = FieldRow("bytes", "0-1023", 0, raw.hex(), "")
        return Interpretation("tensormap", "tensor map", "Tensor-map", None, score=0.1, fields=(row,), findings=(finding,))
    findings = tuple(_refusals(fields, raw))
    notes: tuple[str, ...] = ()
    if fields.box:
        elements = prod(-(-size // step) for size, step in zip(fields.box, fields.element_strides, strict=True))
        notes = (f"one copy moves {elements * fields.element.bits // 8} bytes",)
    return Interpretation(
        what="tensormap",
        title="tensor map",
        section="Tensor-map",
        decoded=fields,
        score=0.9 - 0.2 * len(findings),
        fields=tuple(_map_rows(fields)),
        notes=notes,
        findings=findings,
    )


def _map_rows(fields: TensorMapFields) -> Iterator[FieldRow]:
    def row(name: str, bits: str, value: Any, meaning: str, code: int = 0) -> FieldRow:
        return FieldRow(name, bits, code, str(value), meaning)

    yield row("address", "0-63", f"{fields.address:#x}", "global address", fields.address)
    yield row("mode", "64", "im2col" if fields.im2col else "tiled", "", int(fields.im2col))
    yield row("rank", "68-70", fields.rank, "dimensions", fields.rank - 1)
    yield row("type", "71-74, 80", fields.element.name, "element type", fields.element.code)
    yield row("interleave", "75-76", INTERLEAVES[fields.interleave], "interleave layout", fields.interleave)
    yield row("swizzle", "77-78, 83-84, 86", fields.swizzle_mode.name, "swizzling mode", fields.swizzle_mode.mode)
    yield row("oob_fill", "79", OOB_FILLS[fields.oob_fill], "what elements outside the tensor read as", fields.oob_fill)
    yield row("l2_promotion", "81-82", L2_PROMOTIONS[fields.l2_promotion], "L2 promotion", fields.l2_promotion)
    yield row("strides", "96-255", fields.strides, "bytes, of dimensions 1 and up")
    yield row("dims", "256-415", fields.dims, "elements, innermost dimension first")
    yield row("element_strides", "416-430", fields.element_strides, "traversal strides")
    if fields.im2col:
        yield row("lower, upper", "448-479", f"{fields.lower}, {fields.upper}", "corners of the bounding box")
        yield row("channels, pixels", "440-447, 480-489", f"{fields.channels}, {fields.pixels}", "channels per pixel, pixels per column")
    else:
        yield row("box", "440-479", fields.box, "elements of one copy")


def _refusals(fields: TensorMapFields, raw: bytes) -> Iterator[Finding]:
    names = ("data_type", "rank", "address", "dims", "strides", "element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill")
    given: dict[str, Any] = {name: getattr(fields, name) for name in names}
    if fields.im2col:
        given |= {"im2col": True, "box": None, **{name: getattr(fields, name) for name in ("lower", "upper", "channels", "pixels")}}
    else:
        given["box"] = fields.box
    try:
        again = encode_tensor_map(**given)
    except (TensorMapError, DescriptorError) as error:
        yield Finding("D732", "", error.diagnostic.message, "Tensor-map", error.diagnostic.fix)
        return
    if again != raw:
        differing = [i for i in range(TENSOR_MAP_BYTES) if again[i] != raw[i]]
        message = f"{len(differing)} bytes differ from what the driver writes for these fields, the first at offset {differing[0]}"
        yield Finding("D732", "", message, "Tensor-map")
