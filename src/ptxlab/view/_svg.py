"""SVG, written directly."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from textwrap import wrap

from ptxlab.view._picture import DARK_COLORS, EMPTY, Panel, Picture

__all__ = ["to_svg"]

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
        *(f".c{i}{{fill:{color}}}" for i, color in enumerate(DARK_COLORS)),
    ]
    return f"<style>{''.join(rules)}@media (prefers-color-scheme:dark){{{''.join(dark)}}}</style>"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{_number(x)}" y="{_number(y)}"{attributes}>{escape(text)}</text>'


def to_svg(picture: Picture) -> str:
    """The picture as one SVG element."""
    body: list[str] = []
    x, top, height, widest = float(_MARGIN), 50.0, 0.0, 8.2 * len(picture.title)
    for panel in picture.panels:
        if x > _MARGIN and x + _measure(panel) > _PAGE:
            x, top = float(_MARGIN), height + 30
        bottom, lines = _draw(panel, x, top)
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


def _draw(panel: Panel, left: float, head: float) -> tuple[float, list[str]]:
    """Bottom and elements of a panel whose title is at (``left``, ``head``)."""
    names = _names(panel)
    widths = [w * _CHARACTER + _PAD for w in panel.widths()]
    top = head + (26 if panel.column_names else 12)
    out = [_text(left, head, panel.title, "t")]
    x0 = left + names
    x = x0
    for c, width in enumerate(widths):
        if c < len(panel.column_names):
            name = panel.column_names[c]
            out.append(_text(x + 4, top - 5, name, "a") if panel.plain else _text(x + width / 2, top - 5, name, "a", "middle"))
        x += width
    for r, name in enumerate(panel.row_names):
        out.append(_text(x0 - 6, top + r * _CELL_HEIGHT + 13, name, "a", "end"))
    out += _cells(panel, x0, top, widths)
    bottom = top + len(panel.labels) * _CELL_HEIGHT
    for line in wrap(panel.note, int(max(_measure(panel), 220) / 5.6), break_long_words=False, break_on_hyphens=False):
        bottom += 16
        out.append(_text(left, bottom, line, "n"))
    return bottom, out


def _cells(panel: Panel, left: float, top: float, widths: list[float]) -> Iterator[str]:
    height = _CELL_HEIGHT - 1
    for r, (labels, colors) in enumerate(zip(panel.labels, panel.colors, strict=True)):
        x, y = left, top + r * _CELL_HEIGHT
        for label, color, width in zip(labels, colors, widths, strict=False):
            if not panel.plain or color != EMPTY:
                kind, place = "e" if color == EMPTY else f"c{color}", f'x="{_number(x)}" y="{_number(y)}"'
                yield f'<rect class="{kind}" {place} width="{_number(width - 1)}" height="{height}" rx="2"/>'
            if label:
                yield _text(x + 4, y + 13, label) if panel.plain else _text(x + (width - 1) / 2, y + 13, label, "", "middle")
            x += width
