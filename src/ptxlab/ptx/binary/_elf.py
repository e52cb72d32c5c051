"""The sections of a 64-bit little-endian ELF file, as far as PTX may be in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

__all__ = ["MAGIC", "sections"]

MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8


def sections(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each section.

    Raises
    ------
    ValueError
        if the file is damaged or of another class
    """
    if len(raw) < _HEADER.size:
        raise ValueError("the ELF header is cut off")
    header = _HEADER.unpack_from(raw)
    if header[1:3] != (2, 1):
        raise ValueError("only 64-bit little-endian ELF files can be read")
    start, size, count, names = header[8], header[13], header[14], header[15]
    if not count:
        return
    if size != _SECTION.size or start + count * size > len(raw) or names >= count:
        raise ValueError("the ELF section table is cut off")
    table = [_SECTION.unpack_from(raw, start + i * size) for i in range(count)]
    strings = _content(raw, table[names])
    for row in table:
        name = strings[row[0] : strings.find(b"\0", row[0])].decode("utf-8", "replace")
        yield name, _content(raw, row)


def _content(raw: bytes, row: tuple[int, ...]) -> bytes:
    offset, size = row[4], row[5]
    if row[1] == _NO_BITS:
        return b""
    if offset + size > len(raw):
        raise ValueError("an ELF section is cut off")
    return raw[offset : offset + size]
