"""CuTe notation: ``((8,m),(T,2k)):((1T,SBO),(1,LBO))``, and ``Swizzle<3,4,3> o ...``."""

from __future__ import annotations

import re
from typing import NoReturn

from ptxlab.layout.cute._layout import ComposedLayout, Layout, Swizzle
from ptxlab.layout.cute._tuples import LayoutError, Symbol

__all__ = ["parse_layout"]

_SWIZZLE = re.compile(r"\s*(?:Swizzle|Sw|S)\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>\s*[o∘]\s*")
_OFFSET = re.compile(r"(?:(\d+)|smem_ptr\[[^]]*\]\([^)]*\))\s*[o∘]\s*")
_LEAF = re.compile(r"_?(\d+)?([A-Za-z][A-Za-z0-9]*)?")
_FORM = "write a layout as SHAPE:STRIDE, for instance Swizzle<3,4,3> o ((8,2),(4,4)):((4,32),(1,64))"


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def refuse(self, wanted: str) -> NoReturn:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        raise LayoutError(f"column {self.at + 1} of {self.text!r}: expected {wanted}, found {found}", fix=_FORM, code="D742")

    def skip(self, literal: str) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def value(self) -> object:
        if self.skip("("):
            parts: list[object] = []
            while not parts or self.skip(","):
                parts.append(self.value())
            if not self.skip(")"):
                self.refuse("',' or ')'")
            return tuple(parts)
        match = _LEAF.match(self.text, self.at)
        if match is None or match.group(1) is match.group(2) is None:
            self.refuse("an integer, a symbol or '('")
        self.at = match.end()
        number, name = match.groups()
        if name is None:
            return int(number)
        return Symbol(name, int(number or 1), written=number is not None)


def parse_layout(text: str) -> Layout | ComposedLayout:
    """Read CuTe notation; integers, symbols, and multiples of symbols. A missing stride means compact.

    Raises
    ------
    LayoutError
        if the text is not a layout

    Examples
    --------
    >>> str(parse_layout("Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))"))
    'Swizzle<1,4,3> o ((8,m),(T,2k)):((2T,SBO),(1,T))'
    >>> parse_layout("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")(1, 8)
    72
    """
    reader = _Reader(text)
    swizzle = _SWIZZLE.match(text)
    offset = 0
    if swizzle is not None:
        reader.at = swizzle.end()
        middle = _OFFSET.match(text, reader.at)
        if middle is not None:
            reader.at = middle.end()
            offset = int(middle.group(1) or 0)
    shape = reader.value()
    stride = reader.value() if reader.skip(":") else None
    reader.skip("")
    if reader.at < len(text):
        reader.refuse("':' or the end" if stride is None else "the end")
    layout = Layout(shape, stride)
    return layout if swizzle is None else ComposedLayout(Swizzle(*map(int, swizzle.groups())), layout, offset)
