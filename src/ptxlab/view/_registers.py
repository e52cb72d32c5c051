"""Register fragments of tcgen05.ld and .st, and of wgmma."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout import fragment, wgmma_a_fragment, wgmma_fragment
from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["draw_fragment", "draw_wgmma_fragment"]

_COLUMNS = 16
"""Columns that are drawn."""


def _grid(row: NDArray[np.int64], column: NDArray[np.int64], labels: list[list[str]], rows: int, columns: int) -> Panel:
    """Cells by their place; ``labels`` is indexed like ``row`` and ``column``, [thread, register]."""
    texts = [[""] * columns for _ in range(rows)]
    colors = [[EMPTY] * columns for _ in range(rows)]
    for thread in range(len(row)):
        for register in range(row.shape[1]):
            i, j = int(row[thread, register]), int(column[thread, register])
            if i < rows and j < columns:
                texts[i][j] = labels[thread][register]
                colors[i][j] = thread // 4 % 8
    return Panel("", texts, colors)


def draw_fragment(shape: str, num: int = 1, pack: bool = False, split: int = 0) -> Picture:
    """The thread and register of each cell; parameters as of `ptxlab.layout.fragment`.

    Examples
    --------
    >>> print(draw_fragment("16x64b").text().splitlines()[4])
    lane 0 t0 r0  t2 r0
    """
    at = fragment(shape, num, pack, split)
    row, column = at.lane, at.column
    labels = [[f"t{t} r{r}" for r in range(row.shape[1])] for t in range(32)]
    if pack:
        row, column = np.repeat(row, 2, 1), np.stack([column, column + 1], 2).reshape(32, -1)
        labels = [[f"{text}{half}" for text in line for half in (".lo", ".hi")] for line in labels]
    wide = int(column.max()) + 1
    lanes, shown = int(row.max()) + 1, min(wide, _COLUMNS)
    found = _grid(row, column, labels, lanes, shown)
    note = f"t: thread, r: register{'; lo: bits 0-15, hi: bits 16-31' if pack else ''}{f'; {wide} columns in all' if wide > shown else ''}"
    panel = Panel(
        "Tensor memory, from the address",
        found.labels,
        found.colors,
        [f"lane {i}" for i in range(lanes)],
        [f"{j}" for j in range(shown)],
        note,
    )
    data = {"shape": shape, "num": num, "pack": pack, "lane": at.lane.tolist(), "column": at.column.tolist()}
    return Picture(f"tcgen05.ld .{shape}.x{num}{'.pack::16b' if pack else ''}", [panel], data)


def draw_wgmma_fragment(n: int | None = None, bits: int | None = None) -> Picture:
    """Registers of wgmma: matrix D of 64 x ``n``, or matrix A of elements of ``bits`` in registers; the 16 rows of warp 0 are drawn.

    Examples
    --------
    >>> print(draw_wgmma_fragment(n=8).text().splitlines()[4])
    row 0 t0 v0  t0 v1  t1 v0  t1 v1  t2 v0  t2 v1  t3 v0  t3 v1
    """
    at = wgmma_fragment(n) if n is not None else wgmma_a_fragment(bits or 16)
    labels = [[f"t{t} v{v}" for v in range(at.row.shape[1])] for t in range(128)]
    wide = int(at.column.max()) + 1
    shown = min(wide, _COLUMNS)
    found = _grid(at.row, at.column, labels, 16, shown)
    note = f"t: thread, v: value; warp w of the warpgroup has rows 16w to 16w+15{f'; {wide} columns in all' if wide > shown else ''}"
    what = f"matrix D of 64 x {n}" if n is not None else f"matrix A of 64 x {wide} in registers, {bits}-bit elements"
    panel = Panel(
        "Matrix, rows of warp 0", found.labels, found.colors, [f"row {i}" for i in range(16)], [f"{j}" for j in range(shown)], note
    )
    return Picture(f"wgmma: {what}", [panel], {"row": at.row.tolist(), "column": at.column.tolist()})
