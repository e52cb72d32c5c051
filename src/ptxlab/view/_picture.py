"""A picture: panels of cells, drawn as terminal text, SVG or HTML."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ptxlab import diagnostics

__all__ = ["DARK_COLORS", "EMPTY", "Panel", "Picture", "ranges"]

EMPTY = -1
"""Colour of a cell that holds nothing."""
DARK_COLORS = ("#2f5f8c", "#96602a", "#3b7a43", "#8f4643", "#66508c", "#735b45", "#8a4671", "#77742f")


@dataclass(frozen=True, slots=True)
class Panel:
    """A grid of cells.

    Attributes
    ----------
    title, note : above and below the grid
    labels : text of each cell, row by row
    colors : 0 to 7 for each cell, or `EMPTY`
    row_names, column_names : headings
    plain : a table: columns are as wide as their texts, and begin at the left
    """

    title: str
    labels: Sequence[Sequence[str]]
    colors: Sequence[Sequence[int]]
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    note: str = ""
    plain: bool = False

    def widths(self) -> list[int]:
        """Characters of each column."""
        found = [
            max((len(row[c]) for row in (*self.labels, self.column_names) if c < len(row)), default=1)
            for c in range(max(map(len, self.labels), default=0))
        ]
        return found if self.plain else [max(found, default=1)] * len(found)


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels side by side. A notebook shows it by itself; ``print`` gives text.

    Attributes
    ----------
    title : above all panels
    panels : from left to right
    data : the numbers that it shows, for ``--json``
    """

    title: str
    panels: Sequence[Panel]
    data: Mapping[str, Any] = field(default_factory=dict)

    def svg(self) -> str:
        """A whole SVG image, for light and dark pages."""
        from ptxlab.view._svg import to_svg

        return to_svg(self)

    def html(self) -> str:
        """A page with the picture and nothing else to load."""
        from ptxlab.view._svg import to_svg

        style = ":root{color-scheme:light dark}body{margin:24px;background:Canvas}svg{max-width:100%;height:auto}"
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{style}</style>'
        return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{to_svg(self)}</body></html>\n'

    def text(self, color: bool = False) -> str:
        """For the terminal; with ``color``, cells have coloured backgrounds."""
        lines = [[(self.title, EMPTY)]]
        for panel in self.panels:
            lines.append([])
            lines += _panel(panel)
        if not color:
            return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
        from rich.console import Console
        from rich.style import Style
        from rich.text import Text

        # rich's own detection of the terminal is not asked: the caller has decided.
        console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=10_000)
        for line in lines:
            text = Text()
            for part, hue in line:
                text.append(part, Style() if hue == EMPTY else Style(color="#f1f3f5", bgcolor=DARK_COLORS[hue]))
            console.print(text)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip("\n")

    def __str__(self) -> str:
        return self.text()

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'


def ranges(values: Sequence[int]) -> str:
    """Numbers in few words.

    Examples
    --------
    >>> ranges([0, 1, 2, 3]), ranges([5]), ranges([0, 1, 8, 9])
    ('0-3', '5', '0-1,8-9')
    """
    return ",".join(diagnostics.ranges(sorted(set(values))))


def _panel(panel: Panel) -> Iterator[list[tuple[str, int]]]:
    yield [(panel.title, EMPTY)]
    names = max(map(len, panel.row_names), default=0)
    widths = panel.widths()
    if panel.column_names:
        heads = (f"{name:<{w}}" for name, w in zip(panel.column_names, widths, strict=False))
        yield [(f"{'':{names}} " if names else "", EMPTY), ("  ".join(heads), EMPTY)]
    for r, (labels, colors) in enumerate(zip(panel.labels, panel.colors, strict=True)):
        row: list[tuple[str, int]] = [(f"{panel.row_names[r]:>{names}} ", EMPTY)] if r < len(panel.row_names) else []
        for label, hue, width in zip(labels, colors, widths, strict=False):
            shown = label or ("." if hue == EMPTY and not panel.plain else "")
            row += [(f"{shown:<{width}}", hue), ("  ", EMPTY)]
        yield row
    if panel.note:
        yield [(panel.note, EMPTY)]
