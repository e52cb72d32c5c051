"""Debug information: `.file`, `.loc`, debug sections, ``@@DWARF`` lines and embedded intermediate source."""

from __future__ import annotations

import re

from ptxlab.ptx._cursor import COMMENT, SPACE, Cursor
from ptxlab.ptx._expressions import integer, number
from ptxlab.ptx.ast import File, Location, Section

__all__ = ["dwarf_lines", "file", "intermediate_location", "intermediate_source", "location", "section"]

_ITEM = r"[-+]?+[\w.$%]++(?>[ \t]*+[-+][ \t]*+[\w.$%]++)*+"
_ENTRY = re.compile(SPACE + rf"(?:([\w.$%]++)\s*+:|(\.(?:b8|b16|b32|b64)\s++{_ITEM}(?>{SPACE},{SPACE}{_ITEM})*+);?+)", re.ASCII)
_COMMENT = re.compile(COMMENT)
_DWARF_LINE = re.compile(SPACE + r"@@(?i:dwarf)\b([^\n]*+)", re.ASCII)
_SOURCE_SECTION_PART = re.compile(r'"[^"\n]*+"|\.source_begin\b|[{}]', re.ASCII)


def file(c: Cursor, line: int, column: int) -> File:
    """Take ``.file index "name"``; the token after it is the current one."""
    c.advance()
    index = number(c, "a file index")
    name = c.token("a file name in quotes", "string")[1:-1]
    timestamp = size = None
    if c.take(","):
        timestamp = number(c, "a timestamp")
        if c.take(","):
            size = number(c, "a file size")
    return File(index, name, timestamp, size, line=line, column=column)


def location(c: Cursor, line: int, column: int) -> Location:
    """Take a ``.loc`` in full; the token after it is the current one."""
    c.advance()
    file, line_number, column_number = _position(c)
    name, offset, inlined = "", 0, None
    while c.take(","):
        if c.take("function_name"):
            name = c.token("a label of .debug_str", "name", "directive")
            if c.take("+"):
                offset = integer(c, "an offset")
        elif c.take("inlined_at"):
            inlined = _position(c)
        else:
            c.expected("'function_name'", "'inlined_at'")
    return Location(file, line_number, column_number, name, offset, inlined, None, line, column)


def _position(c: Cursor) -> tuple[int, int, int]:
    return number(c, "a file index"), number(c, "a line number"), number(c, "a column")


def intermediate_location(c: Cursor) -> tuple[int, int, int]:
    """Take a ``.loc_intermediate``; the token after it is the current one."""
    c.advance()
    return _position(c)


def section(c: Cursor, line: int, column: int) -> Section:
    """Take ``.section name { ... }``; the token after it is the current one."""
    c.advance()
    name = c.token("a section name", "name", "directive")
    text, position = c.text, c.finish("{")
    entries: list[str] = []
    match = _ENTRY.match
    while m := match(text, position):
        position = m.end()
        entry = m[2]
        if entry is None:
            entries.append(m[1] + ":")
        elif "\n" in entry or "/" in entry:
            entries.append(" ".join(_COMMENT.sub(" ", entry).split()))
        else:
            entries.append(entry)
    c.seek(position)
    c.expect("}", ".b8", ".b16", ".b32", ".b64", "label:")
    return Section(name, tuple(entries), line=line, column=column)


def dwarf_lines(c: Cursor, line: int, column: int) -> Section:
    """Take consecutive ``@@DWARF`` lines; the token after them is the current one."""
    position = c.start
    lines: list[str] = []
    while m := _DWARF_LINE.match(c.text, position):
        lines.append(m[1].strip())
        position = m.end()
    if not lines:
        c.expected("a directive")
    c.seek(position)
    return Section("@@DWARF", tuple(lines), line=line, column=column)


def intermediate_source(c: Cursor, line: int, column: int) -> Section:
    """Take ``.nv_intermediate_source_section { ... }``, whose source text is kept unchanged."""
    start, name = c.start, c.advance()
    begin = position = c.finish("{")
    depth = 1
    while depth:
        m = _SOURCE_SECTION_PART.search(c.text, position)
        end = -1 if m is None else c.text.find(".source_end", m.end()) if m[0] == ".source_begin" else m.end()
        if m is None or end < 0:
            fix = "close '.source_begin' with '.source_end' and the section with '}'"
            c.fail("S103", f"'{name}' does not end", start, start + len(name), fix=fix)
        depth += {"{": 1, "}": -1}.get(m[0], 0)
        position = end
    c.seek(position)
    return Section(name, tuple(c.text[begin : position - 1].strip("\n").split("\n")), line=line, column=column)
