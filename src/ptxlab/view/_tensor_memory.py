"""Tensor memory: accumulators, matrix A, scale factors, metadata, and what tcgen05.cp writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.layout import (
    a_location,
    accumulator_location,
    copy_destination,
    metadata_location,
    scale_factor_location,
)
from ptxlab.tables import TENSOR_MEMORY_LANES, data_path_of
from ptxlab.view._picture import EMPTY, Panel, Picture, ranges

__all__ = ["draw_accumulator", "draw_copy", "draw_matrix_a", "draw_metadata", "draw_scale_factors"]

Array = NDArray[np.int64]
Block = tuple[int, int]


def _steps(size: int, step: int) -> list[Block]:
    return [(first, min(first + step, size)) for first in range(0, size, step)]


def _span(block: Block) -> str:
    return ranges(range(*block))


def _numbers(at: Any) -> dict[str, Any]:
    """The arrays of a location, for ``--json``."""
    return {name: values.tolist() for name, values in at._asdict().items()}


def _panel(
    title: str,
    lane: Array,
    column: Array,
    label: Callable[[Array], str],
    lanes: Sequence[Block],
    columns: Sequence[Block],
    note: str = "",
    hue: Callable[[int], int] = lambda first: first // 32 * 2,
    rank: int = 0,
) -> Panel:
    """Blocks of tensor memory of CTA ``rank``.

    ``lane`` and ``column`` are flat, ``label`` gets the indices of the elements that a block holds.
    """
    inside = [
        [np.flatnonzero((low <= lane) & (lane < high) & (left <= column) & (column < right)) for left, right in columns]
        for low, high in lanes
    ]
    labels = [[label(found) if len(found) else "" for found in row] for row in inside]
    colors = [[(hue(low) + rank) % 8 if len(found) else EMPTY for found in row] for (low, _), row in zip(lanes, inside, strict=True)]
    names = [f"lanes {_span(b)}" if b[1] - b[0] > 1 else f"lane {b[0]}" for b in lanes]
    heads = [f"columns {_span(b)}" if b[1] - b[0] > 1 else f"column {b[0]}" for b in columns]
    return Panel(title, labels, colors, names, heads, note)


def _indices(text: str, shape: tuple[int, ...], own: Array | None = None) -> Callable[[Array], str]:
    """Label elements with the ranges of their last two indices in an array; ``own`` are the positions of the elements of a panel."""

    def label(found: Array) -> str:
        indices = np.unravel_index(found if own is None else own[found], shape)
        return text.format(*(ranges(index.tolist()) for index in indices[-2:]))

    return label


def _qualifiers(cta_group: int, ws: bool, sparse: bool) -> str:
    return f"cta_group::{cta_group}{', .ws' if ws else ''}{', sparse' if sparse else ''}"


def draw_accumulator(m: int, n: int, cta_group: int = 1, ws: bool = False, sparse: bool = False, lane: int = 0) -> Picture:
    """Location of matrix D; parameters as of `ptxlab.layout.accumulator_location`.

    Examples
    --------
    >>> print(draw_accumulator(64, 32))
    Data path layout F: D of 64 x 32, cta_group::1
    <BLANKLINE>
    Matrix D
            n 0-31
    m 0-15  lanes 0-15
    m 16-31 lanes 32-47
    m 32-47 lanes 64-79
    m 48-63 lanes 96-111
    <BLANKLINE>
    Tensor memory
                  columns 0-31
      lanes 0-15  m 0-15, n 0-31
     lanes 16-31  .
     lanes 32-47  m 16-31, n 0-31
     lanes 48-63  .
     lanes 64-79  m 32-47, n 0-31
     lanes 80-95  .
     lanes 96-111 m 48-63, n 0-31
    lanes 112-127 .
    warp w of a warpgroup reaches lanes 32w to 32w+31, with lane 32w in its address
    """
    path = data_path_of(m, cta_group, ws, sparse)
    at = accumulator_location(m, n, cta_group, ws, sparse, lane)
    rows, pieces = _steps(m, 16), _steps(n, n // path.banks)
    pair = cta_group == 2
    labels, colors = [], []
    for top, bottom in rows:
        lanes = [at.lane[top:bottom, left] for left, _ in pieces]
        rank = int(at.cta[top, 0])
        labels.append([f"{f'CTA {rank}, ' if pair else ''}lanes {ranges(found.tolist())}" for found in lanes])
        colors.append([int(found[0]) // 32 * 2 + rank for found in lanes])
    panels = [Panel("Matrix D", labels, colors, [f"m {_span(b)}" for b in rows], [f"n {_span(b)}" for b in pieces])]
    flat = [x.ravel() for x in at]
    for rank in range(cta_group):
        own = np.flatnonzero(flat[0] == rank)
        title = f"Tensor memory of CTA {rank}" if pair else "Tensor memory"
        columns = [(0, n // path.banks)]
        note = "" if rank else "warp w of a warpgroup reaches lanes 32w to 32w+31, with lane 32w in its address"
        label = _indices("m {}, n {}", (m, n), own)
        panels.append(_panel(title, flat[1][own], flat[2][own], label, _steps(TENSOR_MEMORY_LANES, 16), columns, note, rank=rank))
    form = {"m": m, "n": n, "cta_group": cta_group, "ws": ws, "sparse": sparse}
    data = {"layout": path.letter, "organization": path.organization, **form, **_numbers(at)}
    return Picture(f"Data path layout {path.letter}: D of {m} x {n}, {_qualifiers(cta_group, ws, sparse)}", panels, data)


def draw_matrix_a(
    m: int, k: int, bits: int, cta_group: int = 1, ws: bool = False, sparse: bool = False, lane: int = 0, rank: int = 0
) -> Picture:
    """Location of a matrix A in tensor memory; parameters as of `ptxlab.layout.a_location`, ``rank`` is the CTA that is drawn."""
    path = data_path_of(m, cta_group, ws, sparse)
    at = a_location(m, k, bits, cta_group, ws, sparse, lane)
    own = np.flatnonzero(at.cta.ravel() == rank)

    columns = _steps(int(at.column.max()) + 1, 1)
    copies = "" if path.banks == 1 else f"{path.banks} copies: each part of N multiplies its own"
    panel = _panel(
        f"Tensor memory{f' of CTA {rank}' if cta_group == 2 else ''}",
        at.lane.ravel()[own],
        at.column.ravel()[own],
        _indices("m {}, k {}", at.cta.shape, own),
        _steps(TENSOR_MEMORY_LANES, 16),
        columns,
        copies,
    )
    data = {"layout": path.letter, "bits": bits, **_numbers(at)}
    return Picture(
        f"Data path layout {path.letter}: A of {m} x {k}, {bits}-bit containers, {_qualifiers(cta_group, ws, sparse)}", [panel], data
    )


def draw_scale_factors(rows: int, scales: int, scale_id: int = 0, split: bool = False) -> Picture:
    """Location of scale factors; parameters as of `ptxlab.layout.scale_factor_location`.

    Examples
    --------
    >>> print(draw_scale_factors(64, 2, split=True).text().splitlines()[-3])
     lanes 64-95 rows 32-63, 0-1
    """
    at = scale_factor_location(rows, scales, scale_id, split)
    lane = at.lane.ravel()
    column = np.broadcast_to(at.column, at.lane.shape).ravel()

    width = int(at.column.max()) + 1
    used = _steps(width if split else -(-width // 4) * 4, 1)
    halves = "the halves of the rows take two quarters of the lanes each" if split else "every quarter of the lanes has a copy"
    note = f"in a cell: rows, scale factors; scale factor j is byte (ID + j) % 4 of its cell; {halves}"
    label = _indices("rows {}, {}", at.lane.shape)
    panel = _panel("Tensor memory", lane, column, label, _steps(TENSOR_MEMORY_LANES, 32), used, note)
    title = f"{scales} scale factor{'s' * (scales > 1)} for each of {rows} rows, ID {scale_id}{', split' if split else ''}"
    return Picture(title, [panel], _numbers(at))


def draw_metadata(kind: str, m: int, cta_group: int = 1, ws: bool = False, selector: int = 0, lane: int = 0) -> Picture:
    """Location of sparsity metadata: the first 16 lanes, 4 bits in each cell; parameters as of `ptxlab.layout.metadata_location`."""
    at = metadata_location(kind, m, cta_group, ws, selector, lane)
    mine = np.flatnonzero(at.cta.ravel() == 0)
    lanes, columns, bits = (x.ravel()[mine] for x in (at.lane, at.column, at.bit))

    label = _indices("m{} c{}", at.lane.shape, mine)
    first, last = int(columns.min()), int(columns.max()) + 1
    places = _steps((last - first) * 8, 1)
    note = "m: row of A; c: chunk along k, 4 bits each"
    panel = _panel("Tensor memory", lanes, (columns - first) * 8 + bits // 4, label, _steps(16, 1), places, note, lambda low: low)
    panel = replace(panel, column_names=[f"{first + p // 8}: bits {p % 8 * 4}-{p % 8 * 4 + 3}" for p, _ in places])
    return Picture(f"Sparsity metadata of .kind::{kind}, M = {m}, selector {selector}: the first 16 lanes", [panel], _numbers(at))


def draw_copy(shape: str, multicast: str = "") -> Picture:
    """Where tcgen05.cp puts the rows of its source; parameters as of `ptxlab.layout.copy_destination`.

    Examples
    --------
    >>> print(draw_copy("64x128b", "warpx2::01_23").text().splitlines()[5])
    lanes 32-63 rows 0-31
    """
    to = copy_destination(shape, multicast)
    source = np.broadcast_to(np.arange(len(to.lanes))[:, None], to.lanes.shape).ravel()

    def label(found: Array) -> str:
        return f"row{'s' * (len(found) > 1)} {ranges(source[found].tolist())}"

    few = [block for lane in to.lanes[:, 0].tolist() for block in ((lane, lane + 1), (lane + 1, lane + 32))]
    blocks = _steps(TENSOR_MEMORY_LANES, 32) if len(to.lanes) > 4 else few
    quarter = {int(low): int(source[np.flatnonzero(to.lanes.ravel() == low)[0]]) // 32 for low in to.lanes.ravel()}
    panel = _panel(
        "Tensor memory",
        to.lanes.ravel(),
        np.zeros(to.lanes.size, np.int64),
        label,
        blocks,
        [(0, to.columns)],
        "",
        lambda low: quarter.get(low, 0) * 2,
    )
    title = f"tcgen05.cp.{shape}{'.' + multicast if multicast else ''}"
    return Picture(title, [panel], {"lanes": to.lanes.tolist(), "columns": to.columns})
