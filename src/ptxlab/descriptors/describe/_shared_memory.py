"""Shared-memory descriptors in words, and what may have been meant instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxlab.descriptors._shared_memory import TCGEN05_FORMAT, WGMMA_FORMAT, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.describe.explanation import Hint, Interpretation, field_rows
from ptxlab.layout import Major, canonical_layout
from ptxlab.tables import MMA_KINDS, STRIDE_ROLES, SWIZZLES, WGMMA_KINDS

__all__ = ["read_shared", "read_wgmma"]

Descriptor = SharedMemoryDescriptor | WgmmaDescriptor

_SHARED_BYTES = 228 * 1024
"""Addresses of shared memory end here: sm_90 and sm_100, with the 1 KiB that is reserved."""

_VERSION = 0b001 << 46
_EXCHANGED = (
    "LBO and SBO exchanged? Without swizzling LBO is the step along K and SBO the step along M or N, unlike with swizzling: here 8 "
    "steps of K are {} bytes apart, rows of 16 bytes {} bytes, which is right only where consecutive atoms follow each other along K"
)
_WGMMA_CODES = {mode.wgmma: mode for mode in SWIZZLES.values() if mode.wgmma is not None}


def read_shared(raw: int, kind: str | None, major: Major | None) -> Interpretation:
    """As a descriptor of tcgen05."""
    d = SharedMemoryDescriptor.decode(raw)
    bits = _container(kind)
    findings = tuple(d.findings(major, bits))
    hints = tuple(_hints(raw, d, major))
    notes = tuple(_notes(d))
    score = 0.9 - 0.12 * len(findings) - (0.25 if raw & _VERSION == 0 else 0) - (0.1 if hints else 0) - (0.5 if raw < 1 << 32 else 0)
    rows = field_rows(TCGEN05_FORMAT, raw)
    title = "shared memory descriptor of tcgen05"
    return Interpretation("smem", title, TCGEN05_FORMAT.section, d, score, rows, tuple(_layouts(d, bits, major)), notes, findings, hints)


def read_wgmma(raw: int, kind: str | None, major: Major | None) -> Interpretation:
    """As a matrix descriptor of wgmma."""
    d = WgmmaDescriptor.decode(raw)
    bits = _container(kind)
    findings = tuple(d.findings(major, bits))
    hints = [] if raw >> 46 & 7 != 1 else [Hint("a shared memory descriptor of tcgen05, whose bits 46-48 are 0b001 (--as smem)")]
    hints += _common_hints(raw, d, major)
    score = 0.88 - 0.2 * len(findings) - (0.1 if hints else 0) - (0.5 if raw < 1 << 32 else 0)
    rows = field_rows(WGMMA_FORMAT, raw)
    title = "matrix descriptor of wgmma"
    layouts = tuple(_layouts(d, bits, major))
    return Interpretation("wgmma", title, WGMMA_FORMAT.section, d, score, rows, layouts, tuple(_notes(d)), findings, tuple(hints))


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


def _notes(d: Descriptor) -> Iterator[str]:
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


def _hints(raw: int, d: SharedMemoryDescriptor, major: Major | None) -> Iterator[Hint]:
    version, code = raw >> 46 & 7, raw >> 61
    if version == 0:
        yield Hint("the same with the constant 0b001 in bits 46-48", raw | _VERSION)
        if not raw >> 46 & 0x7FFF:
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
    swapped = int(replace(d, leading=d.stride, stride=d.leading))
    if not mode.bits:
        if major == "mn" and d.leading < d.stride:
            yield Hint(_EXCHANGED.format(d.leading, d.stride), swapped)
        return
    group = mode.lines * mode.width
    if d.stride < group <= d.leading and d.leading % group == 0:
        text = f"LBO and SBO exchanged? With SBO = {d.stride} bytes, groups of {mode.lines} lines of {mode.width} bytes overlap"
        yield Hint(text, swapped)
    elif d.stride == 16 * group:
        text = f"SBO = {group} bytes? The field holds bytes >> 4, and {d.stride} bytes is 16 times the distance of dense atoms"
        yield Hint(text, int(replace(d, stride=group)))
