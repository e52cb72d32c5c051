"""Breakpoints as the protocol sets them: all of a kind at once, which replace those of this kind before."""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.debug._points import DebugError, refuse
from ptxlab.debug._session import Session
from ptxlab.debug.dap.places import Arguments, Places

__all__ = ["REQUESTS", "Breakpoints"]


class Breakpoints:
    """Sets breakpoints of a session, and remembers which kind of request has set them."""

    def __init__(self, session: Session, places: Places) -> None:
        self._session, self._places = session, places
        self._set: dict[str, list[int]] = {}

    def at_lines(self, arguments: Arguments) -> Arguments:
        """At lines of a source file, or of the PTX text."""
        source = arguments["source"]
        ptx = self._places.is_ptx(source)
        name = "ptx" if ptx else str(source.get("path") or source.get("name") or "")

        def place(each: Arguments) -> tuple[str, str]:
            line = self._places.line(int(each["line"]))
            return ("line", str(line)) if ptx else ("source", f"{name}:{line}")

        return self._replace(f"source {name}", arguments.get("breakpoints", []), lambda each: self._break(*place(each), each))

    def at_functions(self, arguments: Arguments) -> Arguments:
        """At functions; a name with a dot is an opcode: ``tcgen05.mma``."""

        def place(each: Arguments) -> int:
            name = str(each["name"])
            return self._break("instruction" if "." in name else "function", name, each)

        return self._replace("function", arguments["breakpoints"], place)

    def at_instructions(self, arguments: Arguments) -> Arguments:
        """At instructions of the disassembly."""
        ops = self._session.launch.program.ops

        def place(each: Arguments) -> int:
            index = self._places.index(str(each["instructionReference"]), int(each.get("offset", 0)))
            if not 0 <= index < len(ops):
                raise refuse("G103", f"there is no instruction at {each['instructionReference']}")
            return self._break("line", str(ops[index].line), each)

        return self._replace("instruction", arguments["breakpoints"], place)

    def at_data(self, arguments: Arguments) -> Arguments:
        """At changes of what `data` has named."""
        session = self._session

        def place(each: Arguments) -> int:
            kind, name, *thread = str(each["dataId"]).split(" ")
            if kind != "register":
                return session.watch_memory(kind, int(name, 0), int(thread[0])).number
            kept = session.focus
            x, y, z, warp, lane = map(int, thread)
            session.choose_thread((x, y, z), warp, lane)
            try:
                return session.watch_register(name).number
            finally:
                session.focus = kept

        return self._replace("data", arguments["breakpoints"], place)

    def at_findings(self, codes: list[str]) -> Arguments:
        """At findings whose codes begin so."""
        return self._replace("finding", [{"code": code} for code in codes], lambda each: self._break("finding", each["code"], {}))

    def data(self, arguments: Arguments) -> Arguments:
        """What a register or an address is called as a place of data."""
        try:
            return self._data(str(arguments["name"]), bool(arguments.get("asAddress")), int(arguments.get("bytes", 4)))
        except DebugError as error:
            return {"dataId": None, "description": error.diagnostic.message}

    def _data(self, name: str, as_address: bool, size: int) -> Arguments:
        session, focus = self._session, self._session.focus
        if as_address:
            space, address = self._places.memory(name, 0)
            session.memory(space, address, size, "u8")
            return {
                "dataId": f"{space} {address:#x} {size}",
                "description": f"{size} bytes of {space} memory at {address:#x}",
                "accessTypes": ["write"],
            }
        session.register(name)
        thread = " ".join(map(str, (*focus.cta, focus.warp, focus.lane)))
        return {"dataId": f"register {name} {thread}", "description": f"{name} in {focus}", "accessTypes": ["write"]}

    def kind_of(self, number: int) -> str:
        """What has set a breakpoint: as the protocol calls the reason of a stop."""
        kind = next((kind for kind, numbers in self._set.items() if number in numbers), "")
        return {"function": "function breakpoint", "instruction": "instruction breakpoint", "finding": "exception"}.get(kind, "breakpoint")

    def _break(self, kind: str, where: str, asked: Arguments) -> int:
        hits = str(asked.get("hitCondition") or "1").lstrip(">= ")
        if not hits.isdecimal():
            raise refuse("G102", f"{asked['hitCondition']!r} is no number of hits", fix="write a number from 1")
        return self._session.break_at(kind, where, asked.get("condition") or None, int(hits)).number

    def _replace(self, kind: str, asked: list[Arguments], place: Callable[[Arguments], int]) -> Arguments:
        for number in self._set.pop(kind, ()):
            if number in self._session.stops.breakpoints or number in self._session.stops.watchpoints:
                self._session.delete(number)
        numbers: list[int] = []
        found: list[Arguments] = []
        for each in asked:
            try:
                numbers.append(place(each))
                found.append({"id": numbers[-1], "verified": True} | ({"line": each["line"]} if "line" in each else {}))
            except DebugError as error:
                found.append({"verified": False, "message": error.diagnostic.message})
        self._set[kind] = numbers
        return {"breakpoints": found}


REQUESTS = {
    "setBreakpoints": Breakpoints.at_lines,
    "setFunctionBreakpoints": Breakpoints.at_functions,
    "setInstructionBreakpoints": Breakpoints.at_instructions,
    "setDataBreakpoints": Breakpoints.at_data,
    "dataBreakpointInfo": Breakpoints.data,
}
