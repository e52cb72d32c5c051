"""LLVM's library: loaded when code is first compiled or loaded, without the pages that only its initialisation touches."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

__all__ = ["llvm", "read_only_pages", "release_pages"]

_PT_LOAD, _PF_W = 1, 2
_MADV_DONTNEED = 4


class _ProgramHeader(ctypes.Structure):
    """``Elf64_Phdr``."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("offset", "address", "physical_address", "file_size", "memory_size", "align")),
    )


class _LoadedObject(ctypes.Structure):
    """The first fields of ``struct dl_phdr_info``."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_ProgramHeader)),
        ("count", ctypes.c_uint16),
    )


_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p)


@cache
def llvm() -> Any:
    """The binding of llvmlite.

    Half of the pages of LLVM that are resident after its library is loaded belong to constructors of static variables and to relocations.
    They are released; a page that is needed again is mapped again from the cache of the file system.
    """
    from llvmlite import binding

    release_pages(binding.ffi.lib._name)
    return binding


def release_pages(library: str) -> None:
    """Let the read-only pages of a loaded library be no longer resident; only Linux can do it, elsewhere nothing happens."""
    if sys.platform == "linux" and sys.maxsize > 1 << 32:
        advise = ctypes.CDLL(None).madvise
        for start, stop in read_only_pages(library):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _MADV_DONTNEED)


def read_only_pages(library: str) -> list[tuple[int, int]]:
    """Start and end of the whole pages of a loaded library that are never written, not even by relocations."""
    found: list[tuple[int, int]] = []
    page = os.sysconf("SC_PAGE_SIZE")

    def visit(loaded: Any, _size: int, _data: int | None) -> int:
        each = loaded.contents
        if each.name != library.encode():
            return 0
        for header in each.headers[: each.count]:
            if header.type == _PT_LOAD and not header.flags & _PF_W:
                first = each.base + header.address
                found.append((-(-first // page) * page, (first + header.memory_size) // page * page))
        return 1

    ctypes.CDLL(None).dl_iterate_phdr(_VISIT(visit), None)
    return found
