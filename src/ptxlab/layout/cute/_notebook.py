"""Layouts in notebooks: the notation, and a table of offsets."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ptxlab.layout.cute._layout import ComposedLayout, Layout

__all__ = ["html_of"]

_MOST = 16
"""Rows and columns of the table; what is beyond is left out."""


def html_of(layout: Layout | ComposedLayout, inner: Layout) -> str:
    """The notation; of a layout of integers with one or two modes also offsets, coordinates of the first mode downward."""
    text = f"<p><code>{escape(str(layout))}</code></p>"
    if inner.symbols or inner.rank > 2:
        return text
    found = np.atleast_2d(layout.offsets().T).T
    rows, columns = found.shape
    shown = found[:_MOST, :_MOST].tolist()
    more = ["<td>...</td>"] * (columns > _MOST)
    head = "".join(["<th></th>", *(f"<th>{j}</th>" for j in range(len(shown[0]))), *more])
    lines = ["".join([f"<th>{i}</th>", *(f"<td>{x}</td>" for x in line), *more]) for i, line in enumerate(shown)]
    note = (
        f"<p>{rows} x {columns} coordinates; the first {len(shown)} x {len(shown[0])}</p>"
        if found.size > len(shown) * len(shown[0])
        else ""
    )
    return f"{text}<table>{''.join(f'<tr>{line}</tr>' for line in [head, *lines])}</table>{note}"
