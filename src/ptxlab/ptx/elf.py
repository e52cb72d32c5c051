"""ELF files: sections and symbols of host objects, executables and cubins."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ptxlab._records import dataclass

__all__ = ["MAGIC", "NO_BITS", "Header", "Section", "Symbol", "header", "section_ends", "sections", "symbols"]

MAGIC = b"\x7fELF"
_NULL, NO_BITS = 0, 8
"""The type of a section that has a size and no bytes in the file."""
_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PROGRAM_HEADER_SIZE = 56
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of a file say.

    Attributes
    ----------
    machine : the processor, 190 for CUDA
    abi_version : the version of the ABI
    flags : flags of the processor
    sections_at, section_count, names : position and number of the sections, and the index of the one that holds their names
    programs_at, program_count : position and number of the program headers
    """

    machine: int
    abi_version: int
    flags: int
    sections_at: int
    section_count: int
    names: int
    programs_at: int
    program_count: int

    @property
    def tables_end(self) -> int:
        """The first byte after the tables of sections and program headers."""
        sections_end = self.sections_at + self.section_count * _SECTION.size
        return max(_HEADER.size, sections_end, self.programs_at + self.program_count * _PROGRAM_HEADER_SIZE)


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its name, type and extra word, its size in memory, where its bytes stand in the file, and these bytes."""

    name: str
    type: int
    info: int
    size: int
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: its name, type (2 is a function), binding (1 is global), section index, address and size."""

    name: str
    type: int
    binding: int
    section: int
    value: int
    size: int


def header(raw: bytes) -> Header:
    """The header of a file.

    Raises
    ------
    ValueError
        if the file is damaged or of another class
    """
    if len(raw) < _HEADER.size:
        raise ValueError("the ELF header is cut off")
    magic, width, order, _, _, abi_version, _, machine, _, _, programs_at, sections_at, flags = _HEADER.unpack_from(raw)[:13]
    _, _, program_count, section_size, section_count, names = _HEADER.unpack_from(raw)[13:]
    if magic != MAGIC:
        raise ValueError("no ELF file")
    if (width, order) != (2, 1):
        raise ValueError("only 64-bit little-endian ELF files can be read")
    if section_count and (section_size != _SECTION.size or names >= section_count):
        raise ValueError("the ELF section table is damaged")
    return Header(machine, abi_version, flags, sections_at, section_count, names, programs_at, program_count)


def sections(raw: bytes) -> Iterator[Section]:
    """The sections of a file, in order.

    Raises
    ------
    ValueError
        if the file is damaged or of another class
    """
    table = _table(raw)
    strings = _content(raw, table[header(raw).names]) if table else b""
    for row in table:
        yield Section(_string(strings, row[0]), row[1], row[7], row[5], row[4], _content(raw, row))


def section_ends(raw: bytes) -> Iterator[int]:
    """For each section that has bytes in the file, the position after its last one; ``raw`` may end before them.

    Raises
    ------
    ValueError
        if the file is damaged or of another class
    """
    yield from (row[4] + row[5] for row in _table(raw) if row[1] not in (_NULL, NO_BITS))


def symbols(table: bytes, strings: bytes) -> Iterator[Symbol]:
    """The symbols of a symbol table, with the names in the string table."""
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(table[: len(table) - len(table) % _SYMBOL.size]):
        yield Symbol(_string(strings, name), info & 15, info >> 4, section, value, size)


def _table(raw: bytes) -> list[tuple[int, ...]]:
    found = header(raw)
    if found.section_count and found.sections_at + found.section_count * _SECTION.size > len(raw):
        raise ValueError("the ELF section table is cut off")
    return [_SECTION.unpack_from(raw, found.sections_at + i * _SECTION.size) for i in range(found.section_count)]


def _string(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    return strings[at : end if end >= 0 else len(strings)].decode("utf-8", "replace")


def _content(raw: bytes, row: tuple[int, ...]) -> bytes:
    offset, size = row[4], row[5]
    if row[1] == NO_BITS:
        return b""
    if offset + size > len(raw):
        raise ValueError("an ELF section is cut off")
    return raw[offset : offset + size]
