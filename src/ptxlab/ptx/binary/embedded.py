"""PTX in binary files: fat binaries, cubins with line information, host objects, libraries and executables."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.ptx._cursor import PtxSyntaxError
from ptxlab.ptx.binary import _fatbin

__all__ = ["Embedded", "embedded", "is_binary"]

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
    return raw.startswith((_fatbin.MAGIC, _ELF_MAGIC))


def embedded(raw: bytes, file: str) -> list[Embedded]:
    """Every PTX text that a fat binary or an ELF file carries.

    Raises
    ------
    PtxSyntaxError
        S201 if there is none, S202 if the file is damaged, S203 if a package is missing
    """
    try:
        texts = list(dict.fromkeys(_texts(raw)))
    except ValueError as error:
        raise _refusal(file, diagnose("S202", f"the file is damaged: {error}")) from None
    except _fatbin.MissingPackage as missing:
        found = diagnose("S203", f"the PTX is compressed with zstd, and {missing} is not installed: pip install {missing}")
        raise _refusal(file, found) from None
    if not texts:
        fix = "compile with -gencode arch=compute_100a,code=compute_100a, or -lineinfo for a cubin that keeps its PTX"
        raise _refusal(file, diagnose("S201", "the file carries no PTX", fix=fix))
    return [Embedded(f"{file}[{target}]", target, text) for text in texts for target in _TARGET.findall(text)[:1] or [""]]


def _refusal(file: str, found: Diagnostic) -> PtxSyntaxError:
    return PtxSyntaxError(found.at(Place(file, 0, 0)))


def _texts(raw: bytes) -> Iterator[str]:
    if raw.startswith(_fatbin.MAGIC):
        yield from _of_entries(_fatbin.entries(raw))
        return
    for name, content in sections(raw):
        if name in _FATBIN_SECTIONS:
            yield from _of_entries(_fatbin.entries(content))
        elif name == _CUBIN_TEXT:
            # The lines, each ended by a zero byte instead of a line feed.
            yield content.replace(b"\0", b"\n").decode("utf-8", "replace")


def _of_entries(entries: Iterable[_fatbin.Entry]) -> Iterator[str]:
    """The PTX entries; where there are none, the PTX that the cubins keep for debuggers."""
    cubins = []
    found = False
    for entry in entries:
        if entry.kind == _fatbin.PTX:
            found = True
            yield entry.payload.split(b"\0", 1)[0].decode("utf-8", "replace")
        else:
            cubins.append(entry.payload)
    if not found:
        for cubin in cubins:
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
