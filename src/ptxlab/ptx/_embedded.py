"""PTX in binary files: fat binaries, cubins with line information, host objects, libraries and executables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxlab._records import dataclass
from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.ptx import elf, fat_binary
from ptxlab.ptx._cursor import PtxSyntaxError

__all__ = ["Embedded", "embedded", "is_binary"]

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
    return raw.startswith((fat_binary.MAGIC, elf.MAGIC))


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
    except fat_binary.MissingPackage as missing:
        found = diagnose("S203", f"the PTX is compressed with zstd, and {missing} is not installed: pip install {missing}")
        raise _refusal(file, found) from None
    if not texts:
        fix = "compile with -gencode arch=compute_100a,code=compute_100a, or -lineinfo for a cubin that keeps its PTX"
        raise _refusal(file, diagnose("S201", "the file carries no PTX", fix=fix))
    return [Embedded(f"{file}[{target}]", target, text) for text in texts for target in _TARGET.findall(text)[:1] or [""]]


def _refusal(file: str, found: Diagnostic) -> PtxSyntaxError:
    return PtxSyntaxError(found.at(Place(file, 0, 0)))


def _texts(raw: bytes) -> Iterator[str]:
    if raw.startswith(fat_binary.MAGIC):
        yield from _of_entries(raw)
        return
    for section in elf.sections(raw):
        if section.name in _FATBIN_SECTIONS:
            yield from _of_entries(section.content)
        elif section.name == _CUBIN_TEXT:
            # The lines, each ended by a zero byte instead of a line feed.
            yield section.content.replace(b"\0", b"\n").decode("utf-8", "replace")


def _of_entries(raw: bytes) -> Iterator[str]:
    """The PTX entries of fat binaries; where there are none, the PTX that the cubins keep for debuggers."""
    found = list(fat_binary.entries(raw))
    yield from (entry.text() for entry in found if entry.kind == fat_binary.PTX)
    if all(entry.kind != fat_binary.PTX for entry in found):
        for entry in found:
            yield from _texts(entry.payload())
