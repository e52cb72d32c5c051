"""Bars in groups, as SVG: the plots of the page of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bars"]

_WIDTH, _LABELS, _VALUES, _MARGIN = 760, 250, 90, 16
_BAR, _GAP, _LEGEND = 14, 12, 26
_COLOURS = ("#7f8c99", "#3b7dbd", "#e08a3c", "#5aa469")
_STYLE = (
    "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1c2024}.p{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){text{fill:#f1f3f5}.p{fill:#1c2026}}"
)


def bars(title: str, series: Sequence[str], groups: Mapping[str, Sequence[float | None]], unit: str) -> str:
    """Draw horizontal bars.

    Parameters
    ----------
    title : what the picture shows, for those who do not see it
    series : the names of the bars of a group, four at most
    groups : by the name of a group the length of each bar; None where there is none
    unit : of the lengths

    Returns
    -------
    the picture as SVG

    Raises
    ------
    ValueError
        if a group has another number of bars than there are names, or there are more than four
    """
    if len(series) > len(_COLOURS) or any(len(values) != len(series) for values in groups.values()):
        raise ValueError("a group has one bar for each of up to four names")
    longest = max((value for values in groups.values() for value in values if value is not None), default=0) or 1
    longest_bar = _WIDTH - _LABELS - _VALUES - 2 * _MARGIN
    height = 2 * _MARGIN + _LEGEND + len(groups) * (len(series) * _BAR + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        '<rect class="p" width="100%" height="100%" rx="8"/>',
    ]
    x = _MARGIN
    for name, colour in zip(series, _COLOURS, strict=False):
        parts += [f'<rect x="{x}" y="{_MARGIN}" width="12" height="12" fill="{colour}"/>']
        parts += [f'<text x="{x + 18}" y="{_MARGIN + 10}">{escape(name)}</text>']
        x += 36 + 7 * len(name)
    y = _MARGIN + _LEGEND
    for label, values in groups.items():
        middle = y + len(series) * _BAR / 2 + 4
        parts.append(f'<text x="{_MARGIN}" y="{middle:g}">{escape(label)}</text>')
        for value, colour in zip(values, _COLOURS, strict=False):
            if value is not None:
                length = max(1.0, value / longest * longest_bar)
                left = _MARGIN + _LABELS
                parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{_BAR - 2}" fill="{colour}"/>')
                parts.append(f'<text x="{left + length + 6:.1f}" y="{y + _BAR - 4}">{value:.3g} {escape(unit)}</text>')
            y += _BAR
        y += _GAP
    return "\n".join([*parts, "</svg>"]) + "\n"
