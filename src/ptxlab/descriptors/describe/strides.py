"""The strides of a shared memory or matrix descriptor: what may have been meant, and whether they leave gaps or overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxlab.descriptors._shared_memory import SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.describe.explanation import Hint
from ptxlab.layout import Major
from ptxlab.tables import SWIZZLES

__all__ = ["stride_hints", "stride_remarks"]

_EXCHANGED = (
    "LBO and SBO exchanged? Without swizzling LBO is the step along K and SBO the step along M or N, unlike with swizzling: here 8 "
    "steps of K are {} bytes apart, rows of 16 bytes {} bytes, which is right only where consecutive atoms follow each other along K"
)
_FREE = "right where these are padding or hold other parts of the tile"
_MMA_BITS = 256
"""Bits of each row of an operand that one instruction takes."""
_UNUSED = (0, 16)
"""Leading dimension byte offsets that compilers write where an operand has one width of the swizzle."""


def stride_hints(d: SharedMemoryDescriptor | WgmmaDescriptor, major: Major | None) -> Iterator[Hint]:
    """Strides that are likely mistakes for others."""
    mode = SWIZZLES[d.swizzle]
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


def stride_remarks(d: SharedMemoryDescriptor | WgmmaDescriptor, major: Major | None, bits: int | None = None) -> tuple[str, ...]:
    """Say where strides leave bytes free between parts of the operand, or let the parts overlap.

    Parameters
    ----------
    major : of the operand; None: unknown, and a remark is made only if the strides fit neither majorness
    bits : that an element takes in shared memory; None: unknown

    Examples
    --------
    >>> stride_remarks(SharedMemoryDescriptor(stride=1024, swizzle="64B"), "k")
    ('SBO = 1024 bytes leaves 512 bytes free after each 8 rows of 64 bytes: right where these are padding or hold other parts of the tile',)
    >>> stride_remarks(SharedMemoryDescriptor(stride=256, swizzle="64B"), "k")
    ('SBO = 256 bytes is less than 8 rows of 64 bytes: they overlap, unless the operand has only 8 rows',)
    """
    if major is not None:
        return tuple(_remarks(d, major, bits))
    # A descriptor of tcgen05.cp has no majorness, and no use for LBO where a row of the source has 16 bytes.
    both = {one: tuple(_remarks(d, one, bits, d.leading in _UNUSED)) for one in ("k", "mn")}
    return tuple(f"{one.upper()}-major: {text}" for one, texts in both.items() for text in texts) if all(both.values()) else ()


def _remarks(d: SharedMemoryDescriptor | WgmmaDescriptor, major: Major, bits: int | None, one_step: bool = False) -> Iterator[str]:
    """At most one remark; ``one_step``: LBO is not used without swizzling, either."""
    mode = SWIZZLES[d.swizzle]
    lines, name = (8, "rows") if major == "k" else (mode.lines, "steps of K")
    size, atom = lines * mode.width, f"{lines} {name} of {mode.width} bytes"
    along, across = (
        f"the operand has only {lines} {name}",
        f"the operand has only {mode.width} bytes along {'K' if major == 'k' else 'M or N'}",
    )
    # Each stride with the operands that do not use it. Without swizzling the strides of MN-major operands have exchanged roles.
    exchanged = major == "mn" and not mode.bits
    strides = [("SBO", d.stride, across if exchanged else along), ("LBO", d.leading, along if exchanged else across)]
    if one_step or (mode.bits and (major == "k" or d.leading in _UNUSED)):
        strides = strides[:1]
    short = major == "mn" and bits is not None and _MMA_BITS // bits <= lines  # K of an instruction
    for stride, step, unless in strides:
        if step < size and not (short and unless == along):
            yield f"{stride} = {step} bytes is less than {atom}: they overlap, unless {unless}"
            return
    if mode.bits and major == "k" and (d.leading == size or getattr(d, "leading_mode", "relative") == "absolute"):
        return  # the parts of a row follow each other
    free = min(step for _, step, _ in strides) - size
    if free > 0:
        names = " and ".join(f"{stride} = {step}" for stride, step, _ in strides)
        leaves = "leaves" if len(strides) == 1 else "leave at least"
        yield f"{names} bytes {leaves} {free} bytes free after each {atom}: {_FREE}"
