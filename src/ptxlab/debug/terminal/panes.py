"""What the panes of the terminal interface show, as text."""

from __future__ import annotations

from pathlib import Path

from ptxlab import ptx
from ptxlab.debug._points import DebugError
from ptxlab.debug._session import Session

__all__ = ["barriers", "memory", "program", "registers", "source", "timeline"]

_WORDS = 4
"""32-bit words in a line of memory."""


def program(session: Session, height: int) -> str:
    """The PTX around the instruction at which the chosen thread stands."""
    op, module = session.op(), session.launch.module
    return _around(module.text.split("\n"), 0 if op is None else op.line, height)


def source(session: Session, height: int) -> str:
    """The source around the line at which the chosen thread stands, if its file can be read."""
    op = session.op()
    place = None if op is None else session.sources.at(op.line)
    if place is None:
        return "no source"
    try:
        lines = Path(place.file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return str(place)
    return _around(lines, place.line, height)


def _around(lines: list[str], line: int, height: int) -> str:
    first = max(min(line - height // 2, len(lines) - height + 1), 1)
    shown = range(first, min(first + height, len(lines) + 1))
    return "\n".join(f"{'>' if number == line else ' '}{number:4} {lines[number - 1].expandtabs(2)}" for number in shown)


def registers(session: Session) -> str:
    """The registers of the chosen thread; those that the instruction reads are marked, those without a value left out."""
    try:
        found, lane = session.registers(), session.focus.lane
    except DebugError as error:
        return error.diagnostic.message
    op = session.op()
    program = session.launch.program
    read = set() if op is None else {program.registers[r].name for r in program.reads[op.index]}
    rows = []
    for each in found:
        if each.undefined[lane] != (1 << each.bits) - 1:
            marked = "*" if each.undefined[lane] else ""
            rows.append(f"{'>' if each.name in read else ' '}{each.name:8} {each.value(lane)}{marked}")
    return "\n".join(rows) or "no register has a value"


def memory(session: Session, space: str, address: int, height: int) -> str:
    """Words of a memory from an address on."""
    size = session.readable(space, address, height * _WORDS * 4)
    words = [] if size < 4 else session.memory(space, address, size // 4, "b32").tolist()
    starts = range(0, len(words), _WORDS)
    lines = [f"{address + 4 * n:#x}: {' '.join(f'{word:08x}' for word in words[n : n + _WORDS])}" for n in starts]
    return "\n".join(lines) or f"nothing at {space} {address:#x}"


def barriers(session: Session) -> str:
    """The barriers of the chosen CTA, and the outstanding operations."""
    try:
        rows = session.barriers()
    except DebugError as error:
        return error.diagnostic.message
    lines = []
    for each in rows:
        waiting = " ".join(f"w{group['warp']}" for group in each["waiting"])
        name = f"mbarrier {each['offset']:#x}" if each["kind"] == "mbarrier" else f"{each['kind']} {each.get('number', '')}".strip()
        state = (
            f"phase {each['phase']} pending {each['pending']} bytes {each['bytes']}" if "pending" in each else f"arrived {each['arrived']}"
        )
        lines.append(f"{name}: {state}" + (f" waiting {waiting}" if waiting else ""))
    lines += [f"operation {each['number']}: {ptx.line_text(session.launch.module, each['line']).strip()}" for each in session.operations()]
    return "\n".join(lines) or "no barrier has been used"


def timeline(session: Session, width: int) -> str:
    """Points from the start to the furthest one that has been reached: snapshots, findings, and where the launch stands."""
    here = session.point.step
    snapshots = [max(each.step, 0) for each in session.snapshots]
    last = max([here, *snapshots, *session.stops.found, 1])
    marks = [" "] * width

    def put(step: int, mark: str) -> None:
        marks[min(step * (width - 1) // last, width - 1)] = mark

    for step in snapshots:
        put(step, ".")
    for step in session.stops.found:
        if step >= 0:
            put(step, "!")
    put(here, "^")
    return f"{''.join(marks)}\npoint {here}, {session.focus}"
