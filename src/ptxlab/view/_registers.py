"""Register fragments of tcgen05.ld and .st, and of wgmma."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout import fragment, wgmma_a_fragment, wgmma_fragment
from ptxlab.view._picture import EMPTY, Panel, Picture

__all__ = ["draw_fragment", "draw_wgmma_fragment"]

_COLUMNS = 16
"""Columns that are drawn."""


def _panel(title: str, row: NDArray[np.int64], column: NDArray[np.int64], labels: list[list[str]], names: list[str], note: str) -> Panel:
    """Cells by their place: ``labels`` is indexed like ``row`` and ``column``, [thread, register]; ``names`` are those of the rows."""
    wide = int(column.max()) + 1
    shown = min(wide, _COLUMNS)
    texts = [[""] * shown for _ in names]
    colors = [[EMPTY] * shown for _ in names]
    for thread, register in np.ndindex(row.shape):
        i, j = int(row[thread, register]), int(column[thread, register])
        if i < len(names) and j < shown:
            texts[i][j] = labels[thread][register]
            colors[i][j] = thread // 4 % 8
    return Panel(title, texts, colors, names, [f"{j}" for j in range(shown)], note + (f"; {wide} columns in all" if wide > shown else ""))


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
    note = f"t: thread, r: register{'; lo: bits 0-15, hi: bits 16-31' if pack else ''}"
    lanes = [f"lane {i}" for i in range(int(row.max()) + 1)]
    panel = _panel("Tensor memory, from the address", row, column, labels, lanes, note)
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
    note = "t: thread, v: value; warp w of the warpgroup has rows 16w to 16w+15"
    panel = _panel("Matrix, rows of warp 0", at.row, at.column, labels, [f"row {i}" for i in range(16)], note)
    wide = int(at.column.max()) + 1
    what = f"matrix D of 64 x {n}" if n is not None else f"matrix A of 64 x {wide} in registers, {bits}-bit elements"
    return Picture(f"wgmma: {what}", [panel], {"row": at.row.tolist(), "column": at.column.tolist()})
