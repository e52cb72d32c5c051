"""Offsets in a text, and the positions that a client counts in lines and in units of its encoding."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

__all__ = ["Positions"]

_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Positions:
    """Translates between offsets and positions; a position outside the text means its nearest end."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._codec, self._width = _BYTES[encoding]
        self._plain = text.isascii()

    def position(self, offset: int) -> types.Position:
        """The position of an offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        if self._plain:
            return types.Position(line, offset - start)
        return types.Position(line, len(self.text[start:offset].encode(self._codec, "surrogatepass")) // self._width)

    def range(self, start: int, end: int) -> types.Range:
        """The range between two offsets."""
        return types.Range(self.position(start), self.position(end))

    def offset(self, position: types.Position) -> int:
        """The offset of a position."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[max(position.line, 0)]
        end = self.starts[position.line + 1] - 1 if position.line + 1 < len(self.starts) else len(self.text)
        if self._plain:
            return min(start + max(position.character, 0), end)
        units = self.text[start:end].encode(self._codec, "surrogatepass")[: position.character * self._width]
        return start + len(units.decode(self._codec, "replace"))

    def of_place(self, line: int, column: int, length: int) -> types.Range:
        """The range of a diagnostic's place, which counts from 1; one without a length reaches to the end of its line."""
        if not 1 <= line <= len(self.starts):
            end = len(self.text)
            return self.range(end, end)
        start = self.starts[line - 1]
        end = self.starts[line] - 1 if line < len(self.starts) else len(self.text)
        first = min(start + max(column - 1, 0), end)
        return self.range(first, min(first + length, len(self.text)) if length else end)
