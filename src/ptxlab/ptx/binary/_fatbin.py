"""Fat binaries: the container in which nvcc puts PTX and machine code, one entry for each target.

The format is not published; it was deduced from the output of nvcc 11 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from ptxlab.ptx.binary import _lz4

__all__ = ["MAGIC", "Entry", "MissingPackage", "entries"]

MAGIC = (0xBA55ED50).to_bytes(4, "little")
PTX, ELF = 1, 2
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQI4xHHI8xQ8xQ")
_LZ4, _ZSTD = 0x2000, 0x8000
_MOST = 1 << 28


class MissingPackage(Exception):
    """The payload can only be read with a package that is not installed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: PTX text or a cubin, decompressed."""

    kind: int
    payload: bytes


def entries(raw: bytes) -> Iterator[Entry]:
    """The PTX texts and cubins of the fat binaries that follow one another in ``raw``, with zeros between them.

    Raises
    ------
    ValueError
        if a fat binary is damaged
    MissingPackage
        if zstandard is needed and not there
    """
    at = 0
    while at + _CONTAINER.size <= len(raw):
        magic, _, header, size = _CONTAINER.unpack_from(raw, at)
        if magic != MAGIC:
            if any(magic):
                raise ValueError(f"no fat binary at byte {at}")
            at += 4
            continue
        at += header
        if header < _CONTAINER.size or at + size > len(raw):
            raise ValueError("the fat binary is cut off")
        yield from _entries(raw[at : at + size])
        at += size


def _entries(raw: bytes) -> Iterator[Entry]:
    at = 0
    while at + _ENTRY.size <= len(raw):
        kind, _, header, padded, packed, *_, flags, size = _ENTRY.unpack_from(raw, at)
        start = at + header
        at = start + padded
        if header < _ENTRY.size or at > len(raw) or packed > padded:
            raise ValueError("an entry of the fat binary is cut off")
        if kind in (PTX, ELF):
            payload = raw[start : start + packed] if flags & (_LZ4 | _ZSTD) else raw[start:at]
            yield Entry(kind, _decompressed(payload, flags, size))


def _decompressed(payload: bytes, flags: int, size: int) -> bytes:
    if flags & (_LZ4 | _ZSTD) and size > _MOST:
        raise ValueError(f"an entry of {size} bytes")
    if flags & _LZ4:
        return _lz4.decompress(payload, size)
    if flags & _ZSTD:
        return _zstd(payload, size)
    return payload


def _zstd(payload: bytes, size: int) -> bytes:
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        raise MissingPackage("zstandard") from None
    try:
        if zstandard.frame_content_size(payload) not in (size, -1):
            raise ValueError("a compressed entry does not have the size that it declares")
        found: bytes = zstandard.ZstdDecompressor().decompress(payload, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(f"zstd: {error}") from None
    if len(found) != size:
        raise ValueError("a compressed entry does not have the size that it declares")
    return found
