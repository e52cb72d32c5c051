"""cp.async.bulk.tensor in the modes tile::gather4 and tile::scatter4: four arbitrary rows of a two-dimensional tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.bulk._endpoints import Target, delivered, generic_address, lanes, moved, shared_range, signal_targets, start, used_maps
from ptxlab.isa.bulk._groups import track
from ptxlab.isa.bulk._linear_syntax import MULTICAST, TO_CLUSTER, TO_CTA, TO_GLOBAL
from ptxlab.isa.bulk._map_cache import TileMap, tile_map
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.bulk._tensor import TENSOR_LOAD, TENSOR_STORE, read_coordinates
from ptxlab.isa.bulk._tensor_syntax import COPY, NOT_EXECUTED
from ptxlab.isa.bulk._tiled import Box, Region
from ptxlab.isa.catalogue import service

__all__: list[str] = []

_ROWS = 4
_ALIGNMENT = 128


@lru_cache(maxsize=256)
def _four(box: Box) -> Box:
    """The box that the four rows form in shared memory."""
    return replace(box, counts=(box.counts[0], _ROWS))


def _map(warp: context.WarpContext, position: int, lane: int) -> tuple[TileMap, Box]:
    tile = tile_map(warp, generic_address(warp, position, lane))
    box = tile.box
    if tile.rank != 2 or not isinstance(box, Box) or box.counts[1] != 1:
        shape = f"box {box.counts}" if isinstance(box, Box) else "im2col mode"
        warp.fault(
            "D723",
            f"{warp.op.opcode} needs a tensor map of rank 2 whose box has one row; this one has rank {tile.rank}, {shape}",
            fix="encode the tensor map with a box of (columns, 1)",
        )
    return tile, box


def _regions(warp: context.WarpContext, position: int, lane: int, tile: TileMap, box: Box, store: bool) -> list[Region]:
    """The regions of the four rows in global memory."""
    column, *rows = read_coordinates(warp, position, lane, 1 + _ROWS)
    for row in rows:
        if not tile.takes((column, row), store):
            warp.fault("D724", tile.refusal((column, row)))
    return [box.region((column, row)) for row in rows]


def _views(warp: context.WarpContext, regions: list[Region], write: bool) -> list[context.U8]:
    return [warp.machine.global_view(warp, region.address, region.size, write) if region.size else NOTHING for region in regions]


def _gather(warp: context.WarpContext) -> None:
    pair = warp.q.cta_group == "cta_group::2"
    for lane in lanes(warp):
        tile, box = _map(warp, 1, lane)
        four = _four(box)
        regions = _regions(warp, 1, lane, tile, box, False)
        destination = shared_range(warp, 0, lane, four.footprint, _ALIGNMENT, warp.q.direction == TO_CTA)
        targets = signal_targets(warp, lane, destination, 2, 4, pair)
        sources = _views(warp, regions, False)
        perform = partial(_perform_gather, box, four, sources, regions, targets)
        start(
            warp, lane, perform, partial(_gathered, box, four, sources, regions, targets), *used_maps(warp, generic_address(warp, 1, lane))
        )


def _gathered(
    box: Box, four: Box, sources: list[context.U8], regions: list[Region], targets: list[Target]
) -> Iterator[context.MemoryAccess]:
    return delivered(targets, four.footprint, *map(box.read, sources, regions))


def _perform_gather(box: Box, four: Box, sources: list[context.U8], regions: list[Region], targets: list[Target]) -> None:
    dense = np.concatenate([box.load(source, region) for source, region in zip(sources, regions, strict=True)])
    for cta, offset, barrier in targets:
        four.scatter(dense, cta.shared, offset)
        barrier.complete_tx(four.bytes)


def _scatter(warp: context.WarpContext) -> None:
    for lane in lanes(warp):
        tile, box = _map(warp, 0, lane)
        four = _four(box)
        regions = _regions(warp, 0, lane, tile, box, True)
        cta, offset = shared_range(warp, 1, lane, four.footprint, _ALIGNMENT, True)
        views = _views(warp, regions, True)
        perform = partial(_perform_scatter, box, four, views, regions, cta, offset)
        source = cta.shared[offset : offset + four.footprint]
        track(
            warp,
            lane,
            start(warp, lane, perform, partial(_scattered, box, views, regions, source), *used_maps(warp, generic_address(warp, 0, lane))),
        )


def _scattered(box: Box, targets: list[context.U8], regions: list[Region], source: context.U8) -> Iterator[context.MemoryAccess]:
    return moved(source, *map(box.read, targets, regions))


def _perform_scatter(box: Box, four: Box, targets: list[context.U8], regions: list[Region], cta: context.Cta, offset: int) -> None:
    rows = four.gather(cta.shared, offset).reshape(_ROWS, -1)
    for target, region, row in zip(targets, regions, rows, strict=True):
        box.store(region, target, row, None)


@service(
    COPY,
    only={"direction": (TO_CTA, TO_CLUSTER), "mode": "tile::gather4", "multicast": (None, MULTICAST[0]), **NOT_EXECUTED},
    outputs=0,
    effects=TENSOR_LOAD,
)
def gather(warp: context.WarpContext) -> None:
    """Copy four rows of a tensor to shared memory."""
    _gather(warp)


@service(COPY, only={"direction": TO_GLOBAL, "mode": "tile::scatter4", **NOT_EXECUTED}, outputs=0, effects=TENSOR_STORE)
def scatter(warp: context.WarpContext) -> None:
    """Copy four rows from shared memory to a tensor."""
    _scatter(warp)
