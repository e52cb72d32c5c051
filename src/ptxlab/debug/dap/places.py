"""What the protocol names by numbers and texts: threads, sources, instructions, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptxlab.debug._points import WarpName, refuse
from ptxlab.debug._session import Session
from ptxlab.diagnostics import Place
from ptxlab.isa.address_space import SHARED_WINDOW

__all__ = ["PTX_SOURCE", "Arguments", "Places", "source_file"]

Arguments = dict[str, Any]
"""Of a request of the protocol, or the body of an answer."""

PTX_SOURCE = 1
"""The source reference of the PTX text, where no file holds it."""
_FIRST_INSTRUCTION = 0x1000
"""The address of the first instruction, as editors show it; the next ones follow one by one."""
_WINDOW = 1 << 32


class Places:
    """Names of the protocol for what a session has.

    Parameters
    ----------
    session : the launch
    first_line, first_column : the numbers that the editor gives to the first line and the first column
    """

    def __init__(self, session: Session, first_line: int, first_column: int) -> None:
        self._session = session
        self._first_line, self._first_column = first_line, first_column
        self._threads: dict[WarpName, int] = {}
        self._names: dict[int, WarpName] = {}

    # ------------------------------------------------------------------------------------------------------------- threads

    def thread(self, name: WarpName) -> int:
        """The number of a warp."""
        number = self._threads.setdefault(name, len(self._threads) + 1)
        self._names[number] = name
        return number

    def warp(self, number: int) -> WarpName:
        """The reverse of `thread`."""
        found = self._names.get(number)
        if found is None:
            raise refuse("G103", f"there is no thread {number}", fix="ask for the threads")
        return found

    # ------------------------------------------------------------------------------------------------------------- sources

    def ptx(self) -> dict[str, Any]:
        """The PTX text as a source."""
        file = Path(self._session.launch.module.file)
        if file.is_file():
            return {"name": file.name, "path": str(file.resolve())}
        return {"name": file.name, "sourceReference": PTX_SOURCE}

    def of(self, line: int, source: Place | None) -> dict[str, Any]:
        """Source, line and column: of a place in the source, or of a line of the PTX text."""
        first_line, first_column = self._first_line - 1, self._first_column - 1
        if source is None:
            return {"source": self.ptx(), "line": line + first_line, "column": 1 + first_column}
        where = {"line": source.line + first_line, "column": max(source.column, 1) + first_column}
        return {"source": source_file(source.file), **where}

    def line(self, line: int) -> int:
        """The number, from 1, of a line that the editor names."""
        return line + 1 - self._first_line

    def is_ptx(self, source: dict[str, Any]) -> bool:
        """Whether a source of the editor is the PTX text."""
        if source.get("sourceReference"):
            return int(source["sourceReference"]) == PTX_SOURCE
        own, path = self.ptx().get("path"), source.get("path")
        return own is not None and path is not None and Path(path).resolve() == Path(own)

    # -------------------------------------------------------------------------------------------------------- instructions

    @staticmethod
    def address(index: int) -> str:
        """The address of an instruction by its number."""
        return hex(max(_FIRST_INSTRUCTION + index, 0))

    @staticmethod
    def index(reference: str, offset: int = 0) -> int:
        """The number of the instruction at an address."""
        return int(reference, 0) + offset - _FIRST_INSTRUCTION

    # -------------------------------------------------------------------------------------------------------------- memory

    @staticmethod
    def memory(reference: str, offset: int) -> tuple[str, int]:
        """The memory and the address that ``shared:0x400`` or a generic address means."""
        space, _, text = reference.rpartition(":")
        address = int(text, 0) + offset
        if not space and SHARED_WINDOW <= address < SHARED_WINDOW + _WINDOW:
            return "shared", address
        return space or "global", address


def source_file(name: str) -> dict[str, Any]:
    """A file of the source."""
    return {"name": name.rpartition("/")[2], "path": name}
