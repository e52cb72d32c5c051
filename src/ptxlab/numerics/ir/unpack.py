"""LLVM code that gives each element code of 4 or 6 bits a byte.

Section "Packing formats of elements in Tensor and Shared memory": codes are a dense bit string, fill the first bytes of slots of 16 bytes,
or have a byte each already, where they need not begin at bit 0.
"""

from __future__ import annotations

from ptxlab.formats import CONTAINER_SHIFT, Packing
from ptxlab.native.builder import Module, Value

__all__ = ["SLOT", "unpack_ir", "unpacked_bytes"]

SLOT = 16
"""Bytes that one step of the function reads, and elements of a slot with padding."""


def unpacked_bytes(packing: Packing, bits: int) -> int:
    """The bytes that a slot of 16 becomes."""
    return SLOT * 8 // bits if packing == "dense" else SLOT


def unpack_ir(packing: Packing, bits: int, contained: bool) -> str:
    """``void unpack(from, to, count)`` for so many slots of 16 bytes; ``contained``: codes begin where those of byte containers do."""
    module = Module()
    code, (source, target, count) = module.define("void unpack(ptr from, ptr to, i64 count)")
    shift = CONTAINER_SHIFT[bits] if contained else 0
    with code.loop(count) as i:
        slot, place = source.at(i * SLOT), target.at(i * unpacked_bytes(packing, bits))
        if packing == "bytes":
            codes = (slot.load("<16 x i8>", align=1) >> CONTAINER_SHIFT[bits]) & ((1 << bits) - 1)
            place.store(codes << shift, align=1)
        elif bits == 4:
            place.store(_two(slot, SLOT if packing == "dense" else SLOT // 2) << shift, align=1)
        else:
            for group in range(SLOT // 4):
                place.at(4 * group).store(_four(slot.at(3 * group)) << shift, align=1)
    return module.finish()


def _two(source: Value, count: int) -> Value:
    """The codes of 4 bits in so many bytes, two in each of 16 bits."""
    found = source.load(f"<{count} x i8>", align=1).convert("zext", "i16")
    return (found & 15) | ((found & 0xF0) << 4)


def _four(source: Value) -> Value:
    """The codes of 6 bits in three bytes, in a word."""
    word = source.load("i32", align=1)
    low, *others = ((word >> 6 * index) & 63 for index in range(4))
    for index, each in enumerate(others, 1):
        low = low | (each << 8 * index)
    return low
