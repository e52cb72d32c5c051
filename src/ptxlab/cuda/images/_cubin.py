"""Cubins: what machine code says about its kernels, without executing it.

The records of ``.nv.info`` are not published. What they mean was deduced from cubins of ptxas 12.9 to 13.5 and the output of its
option ``-v``.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ptxlab.cuda.images._memory import elf_size
from ptxlab.isa.address_space import SHARED_RESERVED
from ptxlab.ptx import elf

__all__ = ["Cubin", "CubinKernel", "Parameter", "read_cubin"]

_CUDA = 190
_RESERVED_FROM = 90
"""From this target on, the first bytes of shared memory are the system's; the section of a kernel counts them."""
_RECORD = struct.Struct("<BBH")
_HAS_SIZE = 4
"""The form of a record whose 16-bit word is the size of the bytes that follow; in all other forms it is the value."""

_REGISTERS, _STACK = 0x2F, 0x12
"""Records of a whole cubin: pairs of symbol and number."""
_PARAMETER, _PARAMETER_BYTES, _MAX_THREADS, _REQUIRED_THREADS, _CLUSTER = 0x17, 0x19, 0x05, 0x10, 0x3D
"""Records of one kernel."""

_FUNCTION, _OBJECT, _GLOBAL = 2, 1, 1
_ARCHITECTURE = re.compile(rb"-arch (sm_\d+[af]?)")
_COMMAND_NOTE = ".note.nv.tkinfo"
_PTX_TEXT = ".nv_debug_ptx_txt"

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where a parameter stands in the parameter buffer, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """What a cubin says about a kernel.

    Attributes
    ----------
    name : as the symbol table has it
    registers : of a thread
    static_shared : bytes of shared memory that the kernel declares
    local : bytes of stack of a thread
    parameters : in order
    parameter_bytes : the size of the parameter buffer
    max_threads, required_threads, cluster : of ``.maxntid``, ``.reqntid`` and ``.reqnctapercluster``; None where the kernel has none
    """

    name: str
    registers: int = 0
    static_shared: int = 0
    local: int = 0
    parameters: tuple[Parameter, ...] = ()
    parameter_bytes: int = 0
    max_threads: Dim3 | None = None
    required_threads: Dim3 | None = None
    cluster: Dim3 | None = None


@dataclass(frozen=True, slots=True)
class Cubin:
    """A cubin.

    Attributes
    ----------
    target : ``"sm_90a"``; without a suffix where the cubin does not name it
    digest : SHA-256 of its bytes, in hexadecimal digits
    kernels : by name
    variables : bytes of each global variable, by name
    text : the PTX that it keeps for debuggers, or None
    """

    target: str
    digest: str
    kernels: Mapping[str, CubinKernel] = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    text: str | None = None

    @property
    def number(self) -> int:
        """The number of the target."""
        return int("".join(filter(str.isdigit, self.target)) or 0)


def read_cubin(raw: bytes) -> Cubin:
    """Read a cubin; bytes after its end are left out.

    Raises
    ------
    ValueError
        if it is damaged or no cubin
    """
    header = elf.header(raw)
    if header.machine != _CUDA:
        raise ValueError(f"an ELF file for machine {header.machine}, not for a GPU")
    size = elf_size(raw)
    if size > len(raw):
        raise ValueError("the ELF file is cut off")
    sections = list(elf.sections(raw))
    named = {section.name: section for section in sections}
    number = header.flags >> 8 & 0xFF if header.abi_version >= 8 else header.flags & 0xFF
    note = named.get(_COMMAND_NOTE)
    command = _ARCHITECTURE.findall(note.content) if note else []
    target = command[-1].decode() if command and re.sub(rb"\D", b"", command[-1]) == str(number).encode() else f"sm_{number}"
    symbols = _symbols(named)
    text = named.get(_PTX_TEXT)
    return Cubin(
        target,
        hashlib.sha256(raw[:size]).hexdigest(),
        dict(_kernels(named, symbols, number)),
        {s.name: s.size for s in symbols if s.type == _OBJECT and s.section < len(sections) and _holds_variables(sections[s.section].name)},
        None if text is None else text.content.replace(b"\0", b"\n").decode("utf-8", "replace"),
    )


def _symbols(named: Mapping[str, elf.Section]) -> list[elf.Symbol]:
    table, strings = named.get(".symtab"), named.get(".strtab")
    return list(elf.symbols(table.content, strings.content)) if table and strings else []


def _holds_variables(section: str) -> bool:
    return section.startswith((".nv.global", ".nv.constant3"))


def _kernels(named: Mapping[str, elf.Section], symbols: list[elf.Symbol], number: int) -> Iterator[tuple[str, CubinKernel]]:
    whole = list(_records(named[".nv.info"].content)) if ".nv.info" in named else []
    registers, stack = _by_symbol(whole, _REGISTERS), _by_symbol(whole, _STACK)
    for index, symbol in enumerate(symbols):
        if symbol.type == _FUNCTION and symbol.binding == _GLOBAL and f".nv.info.{symbol.name}" in named:
            records = list(_records(named[f".nv.info.{symbol.name}"].content))
            shared = named.get(f".nv.shared.{symbol.name}")
            counted = SHARED_RESERVED if number >= _RESERVED_FROM else 0
            yield (
                symbol.name,
                CubinKernel(
                    symbol.name,
                    registers.get(index, 0),
                    max(shared.size - counted, 0) if shared else 0,
                    stack.get(index, 0),
                    _parameters(records),
                    next((value for kind, value, _ in records if kind == _PARAMETER_BYTES), 0),
                    _dimensions(records, _MAX_THREADS),
                    _dimensions(records, _REQUIRED_THREADS),
                    _dimensions(records, _CLUSTER),
                ),
            )


def _records(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, word and bytes of each record."""
    at = 0
    while at + _RECORD.size <= len(content):
        form, kind, word = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        data = content[at : at + word] if form == _HAS_SIZE else b""
        at += len(data)
        yield kind, word, data


def _by_symbol(records: list[tuple[int, int, bytes]], wanted: int) -> dict[int, int]:
    return dict(struct.unpack("<II", data) for kind, _, data in records if kind == wanted and len(data) == 8)


def _parameters(records: list[tuple[int, int, bytes]]) -> tuple[Parameter, ...]:
    """A record has the ordinal and the offset of a parameter in 16 bits each, and its size in the upper 14 bits of the last word."""
    found = {}
    for kind, _, data in records:
        if kind == _PARAMETER and len(data) == 12:
            _, ordinal, offset, word = struct.unpack("<IHHI", data)
            found[ordinal] = Parameter(offset, word >> 18)
    return tuple(found[ordinal] for ordinal in sorted(found))


def _dimensions(records: list[tuple[int, int, bytes]], wanted: int) -> Dim3 | None:
    found = [struct.unpack("<III", data) for kind, _, data in records if kind == wanted and len(data) == 12]
    return (found[0][0], found[0][1], found[0][2]) if found else None
