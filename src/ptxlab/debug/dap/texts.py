"""Texts and memory: the PTX, its sources, the instructions as a disassembly, and bytes."""

from __future__ import annotations

import base64
from typing import Any

from ptxlab import ptx
from ptxlab.debug._points import refuse
from ptxlab.debug._session import Session
from ptxlab.debug.dap.places import PTX_SOURCE, Arguments, Places, source_file

__all__ = ["REQUESTS", "Texts"]

_MOST_BYTES = 1 << 20
_MOST_INSTRUCTIONS = 1 << 14


class Texts:
    """Answers requests for texts and bytes.

    Parameters
    ----------
    session : the launch
    places : its names in the protocol
    """

    def __init__(self, session: Session, places: Places) -> None:
        self._session, self._places = session, places

    def source(self, arguments: Arguments) -> dict[str, Any]:
        """The PTX text."""
        reference = (arguments.get("source") or {}).get("sourceReference", arguments.get("sourceReference"))
        if reference != PTX_SOURCE:
            raise refuse("G103", f"there is no source {reference}")
        return {"content": self._session.launch.module.text, "mimeType": "text/x-ptx"}

    def loaded_sources(self, arguments: Arguments) -> dict[str, Any]:
        """The PTX text, and the sources that it names."""
        names = sorted({place.file for op in self._session.launch.program.ops if (place := self._session.sources.at(op.line)) is not None})
        return {"sources": [self._places.ptx(), *map(source_file, names)]}

    def disassemble(self, arguments: Arguments) -> dict[str, Any]:
        """PTX instructions around one, with the lines of their source."""
        session = self._session
        ops, module = session.launch.program.ops, session.launch.module
        first = self._places.index(str(arguments["memoryReference"]), int(arguments.get("offset", 0))) + int(
            arguments.get("instructionOffset", 0)
        )
        found: list[dict[str, Any]] = []
        for index in range(first, first + min(int(arguments["instructionCount"]), _MOST_INSTRUCTIONS)):
            if not 0 <= index < len(ops):
                found.append({"address": self._places.address(index), "instruction": "??", "presentationHint": "invalid"})
                continue
            op = ops[index]
            where = self._places.of(op.line, session.sources.at(op.line))
            row = {"address": self._places.address(op.index), "instruction": ptx.line_text(module, op.line).strip()}
            found.append(row | {"location": where["source"], "line": where["line"]})
        return {"instructions": found}

    def read_memory(self, arguments: Arguments) -> dict[str, Any]:
        """Bytes of global or shared memory."""
        space, address = self._places.memory(str(arguments["memoryReference"]), int(arguments.get("offset", 0)))
        count = int(arguments["count"])
        if not 0 <= count <= _MOST_BYTES:
            raise ValueError(f"count {count}")
        readable = self._session.readable(space, address, count)
        found: dict[str, Any] = {"address": hex(address)}
        if readable:
            held = self._session.memory(space, address, readable, "u8").tobytes()
            found["data"] = base64.b64encode(held).decode()
        return found | ({"unreadableBytes": count - readable} if readable < count else {})


REQUESTS = {
    "source": Texts.source,
    "loadedSources": Texts.loaded_sources,
    "disassemble": Texts.disassemble,
    "readMemory": Texts.read_memory,
}
