"""How many bytes an image has that only its address is known of, and reading them without a fault."""

from __future__ import annotations

import os
from collections.abc import Callable

from ptxlab.ptx import elf, fat_binary

__all__ = ["LARGEST", "Reader", "bytes_at", "elf_size", "own_memory"]

Reader = Callable[[int, int], bytes]
"""Takes an address and a size; gives the bytes there, fewer where memory ends."""

LARGEST = 1 << 30
"""The largest image in bytes."""
_TEXT_PIECE = 64 << 10


def own_memory(address: int, size: int) -> bytes:
    """The bytes of this process at an address, up to the first page that cannot be read."""
    found = bytearray()
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        while len(found) < size:
            try:
                piece = os.pread(memory.fileno(), size - len(found), address + len(found))
            except (OSError, OverflowError):
                break
            if not piece:
                break
            found += piece
    return bytes(found)


def bytes_at(read: Reader, address: int) -> bytes:
    """The image that begins at an address: a fat binary, an ELF file, or a text up to its first zero byte.

    Raises
    ------
    ValueError
        if its size cannot be told or memory ends before it does
    """
    start = read(address, 64)
    if start.startswith(fat_binary.MAGIC):
        return _exactly(read, address, fat_binary.size_of(start))
    if start.startswith(elf.MAGIC):
        return _elf_at(read, address, start)
    return _text_at(read, address)


def _exactly(read: Reader, address: int, size: int) -> bytes:
    if size > LARGEST:
        raise ValueError(f"an image of {size} bytes")
    raw = read(address, size)
    if len(raw) < size:
        raise ValueError(f"the image has {size} bytes, and memory ends after {len(raw)} of them")
    return raw


def _elf_at(read: Reader, address: int, start: bytes) -> bytes:
    found = elf.header(start)
    if found.tables_end > LARGEST:
        raise ValueError("the tables of the ELF file lie too far from its beginning")
    return _exactly(read, address, elf_size(_exactly(read, address, found.tables_end)))


def elf_size(raw: bytes) -> int:
    """Bytes of the ELF file that ``raw`` begins with; ``raw`` reaches at least to the end of its tables.

    Raises
    ------
    ValueError
        if the file is damaged
    """
    return max([elf.header(raw).tables_end, *elf.section_ends(raw)])


def _text_at(read: Reader, address: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= LARGEST:
        piece = read(address + size, _TEXT_PIECE)
        end = piece.find(b"\0")
        if end >= 0:
            return b"".join((*pieces, piece[:end]))
        if not piece:
            raise ValueError(f"the text has no zero byte at its end; memory ends after {size} bytes")
        pieces.append(piece)
        size += len(piece)
    raise ValueError(f"a text of more than {LARGEST} bytes")
