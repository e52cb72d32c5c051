"""Source variables: what the debug information of PTX says about their names and types, and where their values are.

Compilers write DWARF 2 into the PTX as numbers and labels. A location is a register, whose number spells its name, or an address of a
variable of the PTX in parameters or local memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Location", "SourceVariable", "Type", "variables_at", "variables_of"]

_SECTION = re.compile(r"\.section\s+\.debug_(info|abbrev|loc|str)\s*\{(.*?)\}", re.DOTALL)
_DATA = re.compile(r"^\s*(?:\.b(8|16|32|64)\s+(.*?)|(\$?[\w$]+):)\s*(?://.*)?$")
_LABEL = re.compile(r"^\s*(\$?[\w$]+):")
_SIZES = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4}
"""Bytes of the forms of fixed size."""
_BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}
"""Bytes of the length of a block."""
_NAME, _LOCATION, _LOW, _HIGH, _TYPE, _SIZE, _ENCODING, _COUNT, _UPPER, _CLASS = 0x03, 0x02, 0x11, 0x12, 0x49, 0x0B, 0x3E, 0x37, 0x2F, 0x33
_FUNCTION, _BLOCK, _VARIABLE, _PARAMETER, _ARRAY, _POINTER, _BASE, _RANGE = 0x2E, 0x0B, 0x34, 0x05, 0x01, 0x0F, 0x24, 0x21
_SPACES = {6: "local", 7: "param", 8: "shared", 5: "global", 4: "const"}
_REGISTER, _ADDRESS, _PLUS = 0x90, 0x03, 0x23


class Location(NamedTuple):
    """Where a value is from one line of the PTX text on to before another one: a register, or an offset from a variable of the PTX."""

    first: int
    end: int
    name: str
    offset: int | None
    """None for a register."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the source.

    Attributes
    ----------
    element : the PTX type of an element; empty if the parts of the type are not shown
    size : bytes of an element
    count : the elements of an array
    """

    name: str
    element: str
    size: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class SourceVariable:
    """A variable of a function or a block, which begins at one line of the PTX text and ends before another one.

    Attributes
    ----------
    space : of its address
    """

    name: str
    type: Type
    first: int
    end: int
    space: str
    locations: tuple[Location, ...]

    def at(self, line: int) -> Location | None:
        """Where the value is at a line of the PTX text."""
        return next((each for each in self.locations if each.first <= line < each.end), None)


@dataclass(slots=True)
class _Section:
    """The bytes of a section; ``names`` are labels and other sections in place of numbers, by offset."""

    data: bytearray = field(default_factory=bytearray)
    names: dict[int, str] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> _Section:
        found = cls()
        for line in text.split("\n"):
            match = _DATA.match(line)
            if match is None:
                continue
            if match[3]:
                found.labels[match[3]] = len(found.data)
                continue
            for item in match[2].split(","):
                word = item.strip()
                number = int(word, 0) if re.fullmatch(r"-?\w+", word) and word.lstrip("-")[:1].isdigit() else 0
                if not number and word.strip("0x"):
                    found.names[len(found.data)] = word
                size = int(match[1]) // 8
                found.data += (number & (1 << 8 * size) - 1).to_bytes(size, "little")
        return found


class _Reader:
    """Reads a section from an offset on."""

    def __init__(self, section: _Section, at: int = 0) -> None:
        self.section, self.at = section, at

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.section.data[self.at - size : self.at], "little")

    def name(self, size: int) -> int | str:
        """A number, or what stands for one."""
        found = self.section.names.get(self.at)
        number = self.number(size)
        return number if found is None else found

    def leb(self) -> int:
        found = shift = 0
        while True:
            byte = self.number(1)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def string(self) -> str:
        end = self.section.data.index(0, self.at)
        found = self.section.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found


@dataclass(slots=True)
class _Entry:
    """An entry of .debug_info: its tag, attributes, and the entries inside."""

    tag: int
    values: dict[int, Any]
    inside: list[_Entry] = field(default_factory=list)


class _Information:
    """The debug information of one module."""

    def __init__(self, text: str) -> None:
        self._sections = {name: _Section.of(body) for name, body in _SECTION.findall(text)}
        lines = text.split("\n")
        self._lines = {match[1]: number for number, line in enumerate(lines, 1) if (match := _LABEL.match(line))}
        self._end = len(lines) + 1
        self._entries: dict[int, _Entry] = {}
        self.roots: list[_Entry] = []
        if {"info", "abbrev"} <= self._sections.keys():
            self._read()

    # -------------------------------------------------------------------------------------------------------------- entries

    def _read(self) -> None:
        info = _Reader(self._sections["info"])
        while info.at + 11 <= len(info.section.data):
            start = info.at
            length, version, at, size = info.number(4), info.number(2), info.name(4), info.number(1)
            if version not in (2, 3) or size != 8:
                return
            kinds = self._kinds(_offset(at))
            levels: list[list[_Entry]] = [self.roots]
            while info.at < start + 4 + length and levels:
                place, code = info.at, info.leb()
                if not code:
                    levels.pop()
                    continue
                tag, nests, forms = kinds[code]
                entry = self._entries[place - start] = _Entry(tag, {name: self._value(info, form) for name, form in forms})
                levels[-1].append(entry)
                if nests:
                    levels.append(entry.inside)
            info.at = start + 4 + length

    def _kinds(self, at: int) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
        reader, found = _Reader(self._sections["abbrev"], at), {}
        while code := reader.leb():
            tag, nests = reader.leb(), bool(reader.number(1))
            forms = []
            while (pair := (reader.leb(), reader.leb())) != (0, 0):
                forms.append(pair)
            found[code] = tag, nests, forms
        return found

    def _value(self, info: _Reader, form: int) -> Any:
        if form == 0x08:
            return info.string()
        if form == 0x0E:
            strings, name = self._sections.get("str", _Section()), info.name(4)
            at = strings.labels.get(name, 0) if isinstance(name, str) else name
            return _Reader(strings, at).string() if strings.data else ""
        if form in _BLOCKS or form in (0x09, 0x18):
            length = info.number(_BLOCKS[form]) if form in _BLOCKS else info.leb()
            begin, info.at = info.at, info.at + length
            return info.section, begin, begin + length
        if form in (0x0D, 0x0F, 0x15):
            return info.leb()
        return True if form == 0x19 else info.name(_SIZES[form])

    # ------------------------------------------------------------------------------------------------------------ variables

    def variables(self) -> Iterator[SourceVariable]:
        """All variables of functions, those of inner blocks behind those around them."""
        work = [(entry, 0, 0) for entry in reversed(self.roots)]
        while work:
            entry, first, end = work.pop()
            if entry.tag in (_FUNCTION, _BLOCK):
                first, end = self._line(entry.values.get(_LOW), 0), self._line(entry.values.get(_HIGH), 0)
            elif entry.tag in (_VARIABLE, _PARAMETER) and end and _NAME in entry.values:
                kind = self._type(entry.values.get(_TYPE))
                locations = tuple(self._locations(entry.values.get(_LOCATION), first, end))
                yield SourceVariable(entry.values[_NAME], kind, first, end, _SPACES.get(entry.values.get(_CLASS, 0), ""), locations)
            work += [(inner, first, end) for inner in reversed(entry.inside)]

    def _line(self, label: Any, other: int) -> int:
        return self._lines.get(label, other) if isinstance(label, str) else other

    def _locations(self, value: Any, first: int, end: int) -> Iterator[Location]:
        if isinstance(value, tuple):
            section, at, stop = value
            found = _place(_Reader(section, at), stop)
            if found is not None:
                yield Location(first, end, *found)
        elif value is not None and "loc" in self._sections:
            reader = _Reader(self._sections["loc"], _offset(value))
            while (low := reader.name(8)) != 0 or reader.name(8) != 0:
                begin, behind = self._line(low, 0), self._line(reader.name(8), self._end)
                stop = reader.number(2) + reader.at
                found = _place(reader, stop)
                reader.at = stop
                if found is not None and begin:
                    yield Location(begin, behind, *found)

    def _type(self, at: Any) -> Type:
        entry = self._entries.get(at) if isinstance(at, int) else None
        if entry is None:
            return Type("void", "", 0)
        values = entry.values
        if entry.tag == _BASE:
            size = values[_SIZE]
            letter = {4: "f", 5: "s", 6: "s"}.get(values[_ENCODING], "u")
            return Type(values[_NAME], f"{letter}{8 * size}" if size in (1, 2, 4, 8) else "", size)
        inner = self._type(values.get(_TYPE))
        if entry.tag == _POINTER:
            return Type(f"{inner.name}*", "u64", 8)
        if entry.tag == _ARRAY:
            counts = [each.values.get(_COUNT, each.values.get(_UPPER, -1) + 1) for each in entry.inside if each.tag == _RANGE]
            whole = len(counts) == 1 and inner.count is None
            return Type(
                inner.name + "".join(f"[{count}]" for count in counts),
                inner.element if whole else "",
                inner.size,
                counts[0] if counts else 0,
            )
        if _TYPE in values and _SIZE not in values:
            return Type(values.get(_NAME, inner.name), inner.element, inner.size, inner.count)
        return Type(values.get(_NAME, "?"), "", values.get(_SIZE, 0))


def _offset(value: int | str) -> int:
    """The offset that ``.debug_loc+133`` says."""
    return value if isinstance(value, int) else int(value.partition("+")[2] or 0)


def _place(reader: _Reader, stop: int) -> tuple[str, int | None] | None:
    """A location: a register, or a variable of the PTX and an offset; None for others."""
    found: tuple[str, int | None] | None = None
    while reader.at < stop:
        operation = reader.number(1)
        if operation == _REGISTER:
            number = reader.leb()
            found = number.to_bytes((number.bit_length() + 7) // 8, "big").decode("ascii", "replace"), None
        elif operation == _ADDRESS:
            found = str(reader.name(8)), 0
        elif operation == _PLUS and found is not None and found[1] is not None:
            found = found[0], found[1] + reader.leb()
        else:
            return None
    return found


def variables_of(text: str) -> list[SourceVariable]:
    """The source variables of a PTX text; none without debug information, or if that cannot be read."""
    try:
        return list(_Information(text).variables())
    except (KeyError, IndexError, ValueError):
        return []


def variables_at(known: list[SourceVariable], line: int) -> list[SourceVariable]:
    """Those of the function and the blocks around a line; an inner one hides an outer one of its name."""
    return list({each.name: each for each in known if each.first <= line < each.end}.values())
