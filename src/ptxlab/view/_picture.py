"""A picture: panels of cells, drawn as terminal text, SVG (written directly) or HTML."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from textwrap import wrap
from typing import Any

from ptxlab import diagnostics

__all__ = ["EMPTY", "Panel", "Picture", "ranges"]

EMPTY = -1
"""Colour of a cell that holds nothing."""
_DARK = ("#2f5f8c", "#96602a", "#3b7a43", "#8f4643", "#66508c", "#735b45", "#8a4671", "#77742f")


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
        return _to_svg(self)

    def html(self) -> str:
        """A page with the picture and nothing else to load."""
        style = ":root{color-scheme:light dark}body{margin:24px;background:Canvas}svg{max-width:100%;height:auto}"
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{style}</style>'
        return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{_to_svg(self)}</body></html>\n'

    def text(self, color: bool = False) -> str:
        """For the terminal; with ``color``, cells have coloured backgrounds."""
        lines: list[list[tuple[str, int]]] = [[(self.title, EMPTY)], *(line for panel in self.panels for line in ([], *_panel(panel)))]
        if not color:
            return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
        from rich.console import Console
        from rich.style import Style
        from rich.text import Text

        # rich's own detection of the terminal is not asked: the caller has decided.
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, color_system="truecolor", width=10_000)
        styles = {hue: Style(color="#f1f3f5", bgcolor=color) for hue, color in enumerate(_DARK)} | {EMPTY: Style()}
        for line in lines:
            console.print(Text.assemble(*((part, styles[hue]) for part, hue in line)))
        return out.getvalue().rstrip("\n")

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


# -------------------------------------------------------------------------------------------------------------------- SVG

_CELL_HEIGHT = 19
_CHARACTER = 6.05
"""Width of a character of the cells' font (10px, monospaced)."""
_PAD = 9
_GAP = 34
_MARGIN = 16
_PAGE = 1100
"""Panels that would go beyond it begin a new row."""

_LIGHT = ("#9dc3e6", "#f5c08a", "#a9d8a5", "#eea3a0", "#c9b3e3", "#d9bfa5", "#f0b4d6", "#ddd98a")


def _style() -> str:
    sans, mono = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif", "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
    rules = [
        f"text{{font:10px {mono};fill:#1c2024}}",
        f".h{{font:600 15px {sans}}}.t{{font:600 12px {sans}}}",
        f".n{{font:11px {sans};fill:#6b7280}}.a{{fill:#6b7280}}",
        ".p{fill:#ffffff}.e{fill:#eceef1}",
        *(f".c{i}{{fill:{color}}}" for i, color in enumerate(_LIGHT)),
    ]
    dark = [
        "text{fill:#f1f3f5}.n,.a{fill:#98a1ad}.p{fill:#1c2026}.e{fill:#262b32}",
        *(f".c{i}{{fill:{color}}}" for i, color in enumerate(_DARK)),
    ]
    return f"<style>{''.join(rules)}@media (prefers-color-scheme:dark){{{''.join(dark)}}}</style>"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{_number(x)}" y="{_number(y)}"{attributes}>{escape(text)}</text>'


def _to_svg(picture: Picture) -> str:
    """The picture as one SVG element."""
    body: list[str] = []
    x, top, height, widest = float(_MARGIN), 50.0, 0.0, 8.2 * len(picture.title)
    for panel in picture.panels:
        if x > _MARGIN and x + _measure(panel) > _PAGE:
            x, top = float(_MARGIN), height + 30
        bottom, lines = _svg_panel(panel, x, top)
        body += lines
        x += _measure(panel) + _GAP
        height, widest = max(height, bottom), max(widest, x - _GAP - _MARGIN)
    width = widest + 2 * _MARGIN
    size = f'width="{_number(width)}" height="{_number(height + _MARGIN)}"'
    box = f'viewBox="0 0 {_number(width)} {_number(height + _MARGIN)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" aria-label="{escape(picture.title)}">'
    back = '<rect class="p" width="100%" height="100%" rx="8"/>'
    return "\n".join([head, _style(), back, _text(_MARGIN, 26, picture.title, "h"), *body, "</svg>", ""])


def _names(panel: Panel) -> float:
    return max(map(len, panel.row_names), default=0) * _CHARACTER + (8 if panel.row_names else 0)


def _measure(panel: Panel) -> float:
    """Width of a panel."""
    cells = _names(panel) + sum(w * _CHARACTER + _PAD for w in panel.widths())
    return max(cells, len(panel.title) * 6.6, min(220, len(panel.note) * 5.6))


def _svg_panel(panel: Panel, left: float, head: float) -> tuple[float, list[str]]:
    """Bottom and elements of a panel whose title is at (``left``, ``head``)."""
    widths = [w * _CHARACTER + _PAD for w in panel.widths()]
    lefts = list(accumulate(widths, initial=left + _names(panel)))
    top = head + (26 if panel.column_names else 12)
    out = [_text(left, head, panel.title, "t")]
    for name, x, width in zip(panel.column_names, lefts, widths, strict=False):
        out.append(_text(x + 4, top - 5, name, "a") if panel.plain else _text(x + width / 2, top - 5, name, "a", "middle"))
    for r, name in enumerate(panel.row_names):
        out.append(_text(lefts[0] - 6, top + r * _CELL_HEIGHT + 13, name, "a", "end"))
    out += _cells(panel, lefts, top, widths)
    bottom = top + len(panel.labels) * _CELL_HEIGHT
    for line in wrap(panel.note, int(max(_measure(panel), 220) / 5.6), break_long_words=False, break_on_hyphens=False):
        bottom += 16
        out.append(_text(left, bottom, line, "n"))
    return bottom, out


def _cells(panel: Panel, lefts: list[float], top: float, widths: list[float]) -> Iterator[str]:
    height = _CELL_HEIGHT - 1
    for r, (labels, colors) in enumerate(zip(panel.labels, panel.colors, strict=True)):
        y = top + r * _CELL_HEIGHT
        for label, color, x, width in zip(labels, colors, lefts, widths, strict=False):
            if not panel.plain or color != EMPTY:
                kind, place = "e" if color == EMPTY else f"c{color}", f'x="{_number(x)}" y="{_number(y)}"'
                yield f'<rect class="{kind}" {place} width="{_number(width - 1)}" height="{height}" rx="2"/>'
            if label:
                yield _text(x + 4, y + 13, label) if panel.plain else _text(x + (width - 1) / 2, y + 13, label, "", "middle")
