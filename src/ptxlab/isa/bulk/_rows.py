"""cp.async.bulk.tensor in gather4 and scatter4 mode: four rows of a tensor, each with a coordinate of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from ptxlab.isa import context, operations
from ptxlab.isa.bulk._box_words import ROWS, repeat_rows
from ptxlab.isa.bulk._endpoints import (
    Target,
    delivered,
    generic_address,
    lanes,
    moved,
    shared_range,
    signal_targets,
    start,
    track,
    used_maps,
)
from ptxlab.isa.bulk._linear_syntax import MULTICAST, TO_CLUSTER, TO_CTA, TO_GLOBAL
from ptxlab.isa.bulk._map_cache import TileMap, array_of, tile_map
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.bulk._tensor import TENSOR_LOAD, TENSOR_STORE, read_coordinates
from ptxlab.isa.bulk._tensor_syntax import COPY, NOT_EXECUTED
from ptxlab.isa.bulk._tiled import Box, Region
from ptxlab.isa.catalogue import service
from ptxlab.isa.effects import BoxOperands
from ptxlab.isa.native_ops import BOX_ALIGNMENT
from ptxlab.isa.operations.tiles import CopiedTile

_LOAD = dataclasses.replace(TENSOR_LOAD, box=BoxOperands(tensor_map=1, shared=0, barrier=2, ctas=4, rows=True))
_STORE = dataclasses.replace(TENSOR_STORE, box=BoxOperands(tensor_map=0, shared=1, rows=True))


@lru_cache(maxsize=256)
def _four(box: Box) -> Box:
    """The box that the four rows form in shared memory."""
    return replace(box, counts=(box.counts[0], ROWS))


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


def _regions(
    warp: context.WarpContext, tile: TileMap, box: Box, coordinates: tuple[int, ...], store: bool
) -> tuple[list[Region], list[Region], list[context.U8]]:
    """The four rows: what is inside the tensor, what is copied, and the bytes of it in global memory."""
    column, *rows = coordinates
    for row in rows:
        if not tile.takes((column, row), store):
            warp.fault("D724", tile.refusal((column, row)))
    inside = [box.region((column, row)) for row in rows]
    parts = [box.region((column, row), True) for row in rows] if store else inside
    view = partial(warp.machine.global_view, warp)
    views = [
        view(region.address, region.size, store, part.size) if region.size else NOTHING for region, part in zip(inside, parts, strict=True)
    ]
    return inside, parts, views


@service(
    COPY,
    only={"direction": (TO_CTA, TO_CLUSTER), "mode": "tile::gather4", "multicast": (None, MULTICAST[0]), **NOT_EXECUTED},
    outputs=0,
    effects=_LOAD,
)
def gather(warp: context.WarpContext) -> None:
    """Copy four rows of a tensor to shared memory."""
    pair = warp.q.cta_group == "cta_group::2"
    for lane in lanes(warp):
        tile, box = _map(warp, 1, lane)
        four = _four(box)
        coordinates = read_coordinates(warp, 1, lane, 1 + ROWS)
        _, regions, sources = _regions(warp, tile, box, coordinates, False)
        destination = shared_range(warp, 0, lane, four.footprint, BOX_ALIGNMENT, warp.q.direction == TO_CTA)
        targets = signal_targets(warp, lane, destination, 2, 4, pair)
        perform = partial(_perform_gather, box, four, sources, regions, targets)
        undefined = partial(_gather_undefined, box, four, sources, regions, targets)
        accesses = partial(_gathered, box, four, sources, regions, targets)
        tiles = partial(_gathered_tiles, box, four, tile.element, sources, regions, targets)
        address = generic_address(warp, 1, lane)
        operation = start(warp, lane, perform, accesses, *used_maps(warp, address), undefined=undefined, tiles=tiles)
        operation.tile_at = partial(_tile_at, warp, tile, box)
        repeat_rows(warp, lane, operation, tile, box.region((coordinates[0], 0)), address, destination[1])


def _gather_undefined(
    box: Box, four: Box, sources: list[context.U8], regions: list[Region], targets: list[Target], undefined: operations.UndefinedBits
) -> None:
    dense = np.concatenate([box.load_undefined(undefined.of(each), region) for each, region in zip(sources, regions, strict=True)])
    for cta, offset, _ in targets:
        four.scatter(dense, undefined.of(cta.shared), offset)


def _gathered(
    box: Box, four: Box, sources: list[context.U8], regions: list[Region], targets: list[Target]
) -> Iterator[operations.MemoryAccess]:
    return delivered(targets, four.footprint, *map(box.read, sources, regions))


def _gathered_tiles(
    box: Box, four: Box, element: str, sources: list[context.U8], regions: list[Region], targets: list[Target]
) -> Iterator[CopiedTile]:
    if array_of(four, element, False) is not None:
        for cta, offset, _ in targets:
            yield _tile(box, four, element, sources, regions, cta, offset)


def _tile(box: Box, four: Box, element: str, sources: list[context.U8], regions: list[Region], cta: context.Cta, offset: int) -> CopiedTile:
    array, contents = array_of(four, element, False), partial(_gathered_bytes, box, sources, regions)
    assert array is not None
    return CopiedTile(array, (), cta, offset, four.footprint, four.order(offset), contents)


def _tile_at(warp: context.WarpContext, tile: TileMap, box: Box, coordinates: tuple[int, ...], cta: context.Cta, offset: int) -> CopiedTile:
    """Four rows of the tensor at other coordinates, as they are copied to an offset in shared memory."""
    _, regions, sources = _regions(warp, tile, box, coordinates, False)
    return _tile(box, _four(box), tile.element, sources, regions, cta, offset)


def _gathered_bytes(box: Box, sources: list[context.U8], regions: list[Region]) -> context.U8:
    return np.concatenate([box.load(source, region) for source, region in zip(sources, regions, strict=True)])


def _perform_gather(box: Box, four: Box, sources: list[context.U8], regions: list[Region], targets: list[Target]) -> None:
    dense = _gathered_bytes(box, sources, regions)
    for cta, offset, barrier in targets:
        four.scatter(dense, cta.shared, offset)
        barrier.complete_tx(four.transaction)


@service(COPY, only={"direction": TO_GLOBAL, "mode": "tile::scatter4", **NOT_EXECUTED}, outputs=0, effects=_STORE)
def scatter(warp: context.WarpContext) -> None:
    """Copy four rows from shared memory to a tensor."""
    for lane in lanes(warp):
        tile, box = _map(warp, 0, lane)
        four = _four(box)
        coordinates = read_coordinates(warp, 0, lane, 1 + ROWS)
        inside, parts, views = _regions(warp, tile, box, coordinates, True)
        cta, offset = shared_range(warp, 1, lane, four.footprint, BOX_ALIGNMENT, True)
        perform = partial(_perform_scatter, box, four, views, parts, cta, offset)
        source = cta.shared[offset : offset + four.footprint]
        undefined = partial(_scatter_undefined, box, four, views, inside, cta, offset)
        written = [part if len(view) >= part.size else region for view, part, region in zip(views, parts, inside, strict=True)]
        accesses = partial(_scattered, box, views, written, source)
        address = generic_address(warp, 0, lane)
        started = start(warp, lane, perform, accesses, *used_maps(warp, address), undefined=undefined)
        track(warp, lane, started)
    repeat_rows(warp, lane, started, tile, box.region((coordinates[0], 0), True), address, offset)


def _scattered(box: Box, targets: list[context.U8], regions: list[Region], source: context.U8) -> Iterator[operations.MemoryAccess]:
    return moved(source, *[box.read(target, region) for target, region in zip(targets, regions, strict=True) if region.size])


def _perform_scatter(box: Box, four: Box, targets: list[context.U8], regions: list[Region], cta: context.Cta, offset: int) -> None:
    _scatter(box, four, targets, regions, cta.shared, offset)


def _scatter_undefined(
    box: Box,
    four: Box,
    targets: list[context.U8],
    regions: list[Region],
    cta: context.Cta,
    offset: int,
    undefined: operations.UndefinedBits,
) -> None:
    _scatter(box, four, [undefined.of(target) for target in targets], regions, undefined.of(cta.shared), offset)


def _scatter(box: Box, four: Box, targets: list[context.U8], regions: list[Region], shared: context.U8, offset: int) -> None:
    rows = four.gather(shared, offset).reshape(ROWS, -1)
    for target, region, row in zip(targets, regions, rows, strict=True):
        box.store(region, target, row, None)
