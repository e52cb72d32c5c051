"""Fat binaries: the container in which nvcc puts PTX and machine code, one entry for each target.

The format is not published; it was deduced from the output of nvcc 11 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib import import_module

from ptxlab._records import dataclass

__all__ = ["ELF", "MAGIC", "PTX", "Entry", "MissingPackage", "decompress", "entries", "size_of"]

MAGIC = (0xBA55ED50).to_bytes(4, "little")
PTX, ELF = 1, 2
CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQ8xQ")
_LZ4, _ZSTD = 0x2000, 0x8000
_MOST = 1 << 28
_LEAST_MATCH = 4


class MissingPackage(Exception):
    """The payload can only be read with a package that is not installed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A PTX text or a cubin of a fat binary.

    Attributes
    ----------
    kind : `PTX` or `ELF`
    architecture : the number of the target, 90 or 100
    version : of PTX for a text, of the format for a cubin
    flags : how it is compressed, and what the compiler says about it
    name : the name of the source file, often empty
    size : bytes of the payload when it is not compressed
    stored : the payload as it is stored
    """

    kind: int
    architecture: int
    version: tuple[int, int]
    flags: int
    name: str
    size: int
    stored: bytes

    def payload(self) -> bytes:
        """The decompressed payload.

        Raises
        ------
        ValueError
            if it is damaged
        MissingPackage
            if zstandard is needed and not there
        """
        return _decompressed(self.stored, self.flags, self.size)

    def text(self) -> str:
        """The PTX of a text entry, up to its first zero byte; raises like `payload`."""
        return self.payload().split(b"\0", 1)[0].decode("utf-8", "replace")


def size_of(header: bytes) -> int:
    """Bytes of the fat binary that begins with these bytes.

    Raises
    ------
    ValueError
        if no fat binary begins so
    """
    if len(header) < CONTAINER.size or not header.startswith(MAGIC):
        raise ValueError("no fat binary")
    _, _, start, size = CONTAINER.unpack_from(header)
    return int(start + size)


def entries(raw: bytes) -> Iterator[Entry]:
    """The PTX texts and cubins in ``raw``: fat binaries that follow one another, with zeros between them.

    Raises
    ------
    ValueError
        if a fat binary is damaged
    """
    at = 0
    while at + CONTAINER.size <= len(raw):
        magic, _, header, size = CONTAINER.unpack_from(raw, at)
        if magic != MAGIC:
            if any(magic):
                raise ValueError(f"no fat binary at byte {at}")
            at += 4
            continue
        at += header
        if header < CONTAINER.size or at + size > len(raw):
            raise ValueError("the fat binary is cut off")
        yield from _entries(raw[at : at + size])
        at += size


def _entries(raw: bytes) -> Iterator[Entry]:
    at = 0
    while at + _ENTRY.size <= len(raw):
        kind, _, header, padded, packed, _, minor, major, architecture, name_at, name_size, flags, size = _ENTRY.unpack_from(raw, at)
        start = at + header
        name = raw[at + name_at : at + name_at + name_size] if name_at + name_size <= header else b""
        at = start + padded
        if header < _ENTRY.size or at > len(raw) or packed > padded:
            raise ValueError("an entry of the fat binary is cut off")
        if kind in (PTX, ELF):
            stored = raw[start : start + packed] if flags & (_LZ4 | _ZSTD) else raw[start:at]
            yield Entry(kind, architecture, (major, minor), flags, name.rstrip(b"\0").decode("utf-8", "replace"), size, stored)


def _decompressed(payload: bytes, flags: int, size: int) -> bytes:
    if flags & (_LZ4 | _ZSTD) and size > _MOST:
        raise ValueError(f"an entry of {size} bytes")
    if flags & _LZ4:
        return decompress(payload, size)
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


def decompress(block: bytes, size: int) -> bytes:
    r"""The bytes that a block decompresses to.

    Raises
    ------
    ValueError
        if the block is damaged or does not give exactly ``size`` bytes

    Examples
    --------
    >>> decompress(b"\x24ab\x02\x00\x10!", 11)
    b'ababababab!'
    """
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            literals, at = _length(block, at + 1, token >> 4)
            if at + literals > len(block) or len(out) + literals > size:
                raise ValueError("literals run past the end")
            out += block[at : at + literals]
            at += literals
            if at == len(block):
                break
            distance = block[at] | block[at + 1] << 8
            match, at = _length(block, at + 2, token & 15)
            match += _LEAST_MATCH
            if not 0 < distance <= len(out) or len(out) + match > size:
                raise ValueError("a back reference points outside")
            start = len(out) - distance
            repeated = bytes(out[start : start + match])
            out += (repeated * (match // len(repeated) + 1))[:match]
    except IndexError:
        raise ValueError("the block ends early") from None
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes instead of {size}")
    return bytes(out)


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length whose first four bits are 15 continues in bytes, up to the first that is not 255."""
    if length == 15:
        while True:
            more = block[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at
