"""Terminal text; colours through rich."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["to_text"]

_BACKGROUNDS = ("#2f5f8c", "#96602a", "#3b7a43", "#8f4643", "#66508c", "#735b45", "#8a4671", "#77742f")


def to_text(picture: Picture, color: bool = False) -> str:
    """Panels one below the other."""
    lines = [[(picture.title, EMPTY)]]
    for panel in picture.panels:
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
            text.append(part, Style() if hue == EMPTY else Style(color="#f1f3f5", bgcolor=_BACKGROUNDS[hue]))
        console.print(text)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n")


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
