"""PTX in binary files: fat binaries, cubins with line information, host objects, libraries and executables.

A fat binary is the container in which nvcc puts PTX and machine code, one entry for each target. The format is not published; it was
deduced from the output of nvcc 11 to 13.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.ptx._cursor import PtxSyntaxError

__all__ = ["MAGIC", "Embedded", "MissingPackage", "embedded", "entries", "is_binary"]

MAGIC = (0xBA55ED50).to_bytes(4, "little")
PTX, ELF = 1, 2
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQI4xHHI8xQ8xQ")
_LZ4, _ZSTD = 0x2000, 0x8000
_MOST = 1 << 28
_LEAST_MATCH = 4


class MissingPackage(Exception):
    """The payload can only be read with a package that is not installed."""


def entries(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and decompressed bytes of the PTX texts and cubins in ``raw``: fat binaries that follow one another, with zeros between them.

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


def _entries(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ENTRY.size <= len(raw):
        kind, _, header, padded, packed, *_, flags, size = _ENTRY.unpack_from(raw, at)
        start = at + header
        at = start + padded
        if header < _ENTRY.size or at > len(raw) or packed > padded:
            raise ValueError("an entry of the fat binary is cut off")
        if kind in (PTX, ELF):
            payload = raw[start : start + packed] if flags & (_LZ4 | _ZSTD) else raw[start:at]
            yield kind, _decompressed(payload, flags, size)


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


_ELF_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
_FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_CUBIN_TEXT = ".nv_debug_ptx_txt"
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A PTX text found in a binary file; ``file`` names the file and the target."""

    file: str
    target: str
    text: str


def is_binary(raw: bytes) -> bool:
    """Whether these are the first bytes of a fat binary or an ELF file."""
    return raw.startswith((MAGIC, _ELF_MAGIC))


def embedded(raw: bytes, file: str) -> list[Embedded]:
    """Every PTX text in a fat binary or an ELF file.

    Raises
    ------
    PtxSyntaxError
        S201 if there is none, S202 if the file is damaged, S203 if a package is missing
    """
    try:
        texts = list(dict.fromkeys(_texts(raw)))
    except ValueError as error:
        raise _refusal(file, diagnose("S202", f"the file is damaged: {error}")) from None
    except MissingPackage as missing:
        found = diagnose("S203", f"the PTX is compressed with zstd, and {missing} is not installed: pip install {missing}")
        raise _refusal(file, found) from None
    if not texts:
        fix = "compile with -gencode arch=compute_100a,code=compute_100a, or -lineinfo for a cubin that keeps its PTX"
        raise _refusal(file, diagnose("S201", "the file carries no PTX", fix=fix))
    return [Embedded(f"{file}[{target}]", target, text) for text in texts for target in _TARGET.findall(text)[:1] or [""]]


def _refusal(file: str, found: Diagnostic) -> PtxSyntaxError:
    return PtxSyntaxError(found.at(Place(file, 0, 0)))


def _texts(raw: bytes) -> Iterator[str]:
    if raw.startswith(MAGIC):
        yield from _of_entries(raw)
        return
    for name, content in sections(raw):
        if name in _FATBIN_SECTIONS:
            yield from _of_entries(content)
        elif name == _CUBIN_TEXT:
            # The lines, each ended by a zero byte instead of a line feed.
            yield content.replace(b"\0", b"\n").decode("utf-8", "replace")


def _of_entries(raw: bytes) -> Iterator[str]:
    """The PTX entries of fat binaries; where there are none, the PTX that the cubins keep for debuggers."""
    found = list(entries(raw))
    yield from (payload.split(b"\0", 1)[0].decode("utf-8", "replace") for kind, payload in found if kind == PTX)
    if all(kind != PTX for kind, _ in found):
        for _, cubin in found:
            yield from _texts(cubin)


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
