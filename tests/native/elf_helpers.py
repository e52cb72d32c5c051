"""Object code of AArch64 in memory: its sections, and its relocations resolved."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["PlacedObject", "place"]

_HEADER, _SECTION, _SYMBOL, _RELOCATION = (struct.Struct(text) for text in ("<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq"))
_AARCH64 = 183
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
"""Kinds of sections: SHT_SYMTAB, SHT_RELA, SHT_NOBITS."""
_ALLOCATED = 2
"""SHF_ALLOC."""
_UNDEFINED = 0
"""SHN_UNDEF."""
_BRANCH = struct.pack("<II", 0x58000050, 0xD61F0200)
"""``ldr x16, .+8`` and ``br x16``: a branch to the address that follows, which is also an entry of a global offset table."""
_STUB = 16

_PAGES = (275, 311)
"""R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADR_GOT_PAGE."""
_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST*_ABS_LO12_NC and R_AARCH64_LD64_GOT_LO12_NC, with the scale of the field."""
_BRANCHES = (282, 283)
"""R_AARCH64_JUMP26, R_AARCH64_CALL26."""
_OF_ENTRY = (311, 312)
"""Those of an entry of the global offset table."""


@dataclass(frozen=True)
class _Section:
    """An entry of the table of section headers."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    value: int


@dataclass
class PlacedObject:
    """Code and data at the addresses for which they have been relocated.

    Attributes
    ----------
    start, size : the memory of this process that holds them
    symbols : the addresses of the symbols that are defined
    """

    memory: mmap.mmap
    start: int
    size: int
    symbols: dict[str, int] = field(default_factory=dict)


def place(image: bytes, resolve: Callable[[str], int]) -> PlacedObject:
    """Copy an object file to memory of this process; ``resolve`` gives the addresses of symbols that it does not define."""
    header = _HEADER.unpack_from(image)
    assert header[0][:6] == b"\x7fELF\x02\x01"
    assert header[2] == _AARCH64
    sections = [_section(image, header[6] + _SECTION.size * index) for index in range(header[12])]
    symbols = [found for each in sections if each.kind == _SYMBOLS for found in _symbols(image, each, sections[each.link])]
    offsets, end = {}, 0
    for index, section in enumerate(sections):
        if section.flags & _ALLOCATED:
            offsets[index] = end = _aligned(end, section.align)
            end += section.size
    outside = [symbol.name for symbol in symbols if symbol.section == _UNDEFINED and symbol.name]
    stubs = _aligned(end, _STUB)
    size = _aligned(stubs + _STUB * len(outside) or 1, mmap.PAGESIZE)
    memory = mmap.mmap(-1, size)
    placed = PlacedObject(memory, ctypes.addressof(ctypes.c_char.from_buffer(memory)), size)
    for index, offset in offsets.items():
        section = sections[index]
        if section.kind != _NO_BITS:
            memory[offset : offset + section.size] = image[section.offset : section.offset + section.size]
    for number, name in enumerate(outside):
        first = stubs + _STUB * number
        memory[first : first + _STUB] = _BRANCH + resolve(name).to_bytes(8, "little")
    addresses = {"": placed.start} | {name: placed.start + stubs + _STUB * number for number, name in enumerate(outside)}
    placed.symbols = {each.name: placed.start + offsets[each.section] + each.value for each in symbols if each.section in offsets}
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in offsets:
            for first in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(image, first)
                symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
                if symbol.section == _UNDEFINED:
                    target = addresses[symbol.name] + 8 * (kind in _OF_ENTRY)
                else:
                    target = placed.start + offsets[symbol.section] + symbol.value
                _relocate(placed, offsets[section.info] + offset, kind, target + addend)
    return placed


def _aligned(offset: int, align: int) -> int:
    return -(-offset // max(align, 1)) * max(align, 1)


def _section(image: bytes, at: int) -> _Section:
    _, kind, flags, _, offset, size, link, info, align, _ = _SECTION.unpack_from(image, at)
    return _Section(kind, flags, offset, size, link, info, align)


def _symbols(image: bytes, table: _Section, names: _Section) -> list[_Symbol]:
    found = []
    for first in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(image, first)
        begin = names.offset + name
        found.append(_Symbol(image[begin : image.index(b"\0", begin)].decode(), section, value))
    return found


def _relocate(placed: PlacedObject, offset: int, kind: int, target: int) -> None:
    """Enter an address into an instruction; ``kind`` is the number of the relocation in the ABI of AArch64."""
    here = placed.start + offset
    (word,) = struct.unpack_from("<I", placed.memory, offset)
    if kind in _PAGES:
        pages = (target >> 12) - (here >> 12)
        assert -(1 << 20) <= pages < 1 << 20
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif kind in _LOW_BITS:
        word |= (target & 0xFFF) >> _LOW_BITS[kind] << 10
    elif kind in _BRANCHES:
        words = (target - here) // 4
        assert -(1 << 25) <= words < 1 << 25
        word |= words & 0x3FFFFFF
    else:
        raise NotImplementedError(f"relocation {kind}")
    struct.pack_into("<I", placed.memory, offset, word)
