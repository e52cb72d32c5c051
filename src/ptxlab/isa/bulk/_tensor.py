"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tiled and im2col mode, and their prefetches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache, partial

from ptxlab._records import dataclass
from ptxlab.isa import context
from ptxlab.isa.bulk._box_words import OFFSET_LIMITS, WIDE_OFFSET_LIMIT, load_again, repeat_box, repeat_pixels
from ptxlab.isa.bulk._endpoints import (
    is_parameter,
    lanes,
    range_at,
    start,
    targets_of,
    track,
    used_maps,
    window_of,
)
from ptxlab.isa.bulk._linear_syntax import MULTICAST, TO_CLUSTER, TO_CTA, TO_GLOBAL
from ptxlab.isa.bulk._map_cache import TileMap, map_of, raw_map
from ptxlab.isa.bulk._prepared_copy import PreparedTmaCopy
from ptxlab.isa.bulk._reduce import Combine, combiner, undefined_combiner, watched
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.bulk._tensor_syntax import COPY, NOT_EXECUTED, PREFETCH, REDUCE
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Asynchronous, BoxForm, BoxOperands, Completion, Space, Unit
from ptxlab.isa.native_ops import BOX_ALIGNMENT, Nothing
from ptxlab.isa.operands import Addr, Group, Op, Resolved, Unused
from ptxlab.isa.operations.tiles import CopiedTile
from ptxlab.native import BoundedCache

TENSOR_LOAD = Asynchronous(Unit.TMA, Completion.BYTES, writes=Space.SHARED, tensor_map=True)
TENSOR_STORE = Asynchronous(Unit.TMA, Completion.BULK_GROUP, writes=Space.GLOBAL, tensor_map=True)
_BOX_LOAD = dataclasses.replace(TENSOR_LOAD, box=BoxOperands(tensor_map=1, shared=0, barrier=2, ctas=4))
_BOX_STORE = dataclasses.replace(TENSOR_STORE, box=BoxOperands(tensor_map=0, shared=1))
_PIXELS = BoxOperands(tensor_map=1, shared=0, barrier=2, ctas=4, offsets=3, form=BoxForm.PIXELS)
_PIXEL_LOAD = dataclasses.replace(TENSOR_LOAD, box=_PIXELS)
_WIDE_LOAD = dataclasses.replace(_PIXEL_LOAD, box=_PIXELS._replace(halo=True))
_PIXEL_STORE = dataclasses.replace(TENSOR_STORE, box=BoxOperands(tensor_map=0, shared=1, form=BoxForm.PIXELS))
_NOT_WIDE = (0, 5)
"""Swizzle modes that im2col::w does not accept: no swizzle, and 128B with 8-byte halves flipped."""

_ABSENT: tuple[Resolved, int] = Unused(), 64
_MASK = 4
"""The operand of a load that holds the CTA mask."""


@lru_cache(maxsize=4096)
def _items(op: Op, position: int) -> tuple[Resolved, ...]:
    """The coordinates of a tensor operand as written."""
    operand = op.operands[position]
    group = operand.extra[0] if isinstance(operand, Addr) and operand.extra else None
    return group.items if isinstance(group, Group) else ()


def coordinate_items(warp: context.WarpContext, position: int, count: int) -> tuple[Resolved, ...]:
    """The coordinates of a tensor operand as written; a fault unless there are ``count``."""
    items = _items(warp.op, position)
    if len(items) != count:
        message = f"{warp.op.opcode} needs {count} coordinates, not {len(items)}"
        warp.fault("D724", message, fix=f"write [tensorMap, {{c0, ...}}] with {count} coordinates")
    return items


def read_coordinates(warp: context.WarpContext, position: int, lane: int, count: int) -> tuple[int, ...]:
    """The values of the coordinates of a tensor operand; a fault unless there are ``count``."""
    return _signed(warp.lane_value(item, 32, lane) for item in coordinate_items(warp, position, count))


def _signed(values: Iterable[int]) -> tuple[int, ...]:
    return tuple([value - (value >> 31 << 32) for value in values])


def _checked(warp: context.WarpContext, tile: TileMap, coordinates: tuple[int, ...], store: bool) -> None:
    """A fault unless the instruction may copy a box of this tensor map at these coordinates."""
    if len(coordinates) != tile.rank:
        warp.fault(
            "D723",
            f"the instruction copies a {len(coordinates)}-dimensional box, but the tensor map has rank {tile.rank}",
            fix=f"use .{tile.rank}d, or a tensor map of rank {len(coordinates)}",
        )
    im2col = "im2col" in warp.op.opcode
    if tile.im2col != im2col:
        here, there = ("columns in im2col mode", "tiled") if im2col else ("tiles", "im2col")
        warp.fault("D723", f"the instruction copies {here}, but the tensor map is in {there} mode", fix="encode the map for the mode")
    if not tile.takes(coordinates, store):
        warp.fault("D724", tile.refusal(coordinates))


_wide = lru_cache(maxsize=256)(TileMap.wide)


@dataclass(slots=True, eq=False)
class _Form:
    """A decoded instruction: its operands, and the base (``window``) of the state space of its tensor map.

    The operands are the addresses of the tensor map and of the box in shared memory; for a load the mbarrier and the CTA mask (absent for a
    store); then ``count`` coordinates; then im2colInfo. ``prepared`` caches copies by the address of the map, coordinates and im2colInfo.
    """

    operands: tuple[tuple[Resolved, int], ...]
    window: int
    count: int
    prepared: BoundedCache[tuple[int, tuple[int, ...]], PreparedTmaCopy] = field(default_factory=lambda: BoundedCache(4096))


def _form(warp: context.WarpContext, store: bool) -> _Form:
    found: _Form | None = warp.known.get("form")
    if found is None:
        operands, count = warp.op.operands, int(warp.q.dim[0])
        outside, inside = (0, 1) if store else (1, 0)
        info = _ABSENT[0] if store else operands[3]
        fixed = ((operands[outside], 64), (operands[inside], 64))
        signal = (_ABSENT, _ABSENT) if store else ((operands[2], 64), (operands[_MASK], 16))
        coordinates = ((item, 32) for item in coordinate_items(warp, outside, count))
        offsets = ((item, 16) for item in (info.items if isinstance(info, Group) else ()))
        found = warp.known["form"] = _Form((*fixed, *signal, *coordinates, *offsets), window_of(operands[outside]), count)
    return found


def _prepare(warp: context.WarpContext, form: _Form, address: int, places: tuple[int, ...], store: bool) -> PreparedTmaCopy:
    """The copy at these coordinates, with these im2col offsets; cached until its tensor map changes."""
    copy = form.prepared.get((address, places))
    if copy is not None and (not copy.raw or copy.raw == raw_map(warp, address)):
        return copy
    raw = raw_map(warp, address)
    tile = map_of(warp, address, raw)
    coordinates, info = _signed(places[: form.count]), places[form.count :]
    offsets: tuple[int, ...] = ()
    if tile.im2col and info:
        tile, offsets = _of_mode(warp, tile, info)
    _checked(warp, tile, coordinates, store)
    inside = tile.region(coordinates, offsets)
    part = tile.region(coordinates, offsets, True) if store else inside
    memory = warp.machine.global_view(warp, inside.address, inside.size, store, part.size) if inside.size else NOTHING
    raw = b"" if is_parameter(address) else raw
    copy = form.prepared[address, places] = PreparedTmaCopy(raw, tile, coordinates, inside, part, memory)
    return copy


def _reduction(q: Qualifiers, copies: Asynchronous = TENSOR_STORE) -> Asynchronous:
    """The effects of a reduction. The element type is in the tensor map, so it may be a floating-point type."""
    return dataclasses.replace(copies, atomic=True, adds_floats=q.redOp == "add")


def _rows(mode: str | tuple[str | None, ...], *directions: str, **more: object) -> dict[str, object]:
    """The modifier values for which a row executes the form."""
    return {"mode": mode, **({"direction": directions} if directions else {}), **more, **NOT_EXECUTED}


_TILED = (None, "tile")
_SPREAD = (None, *MULTICAST[:2])


@service(COPY, only=_rows(_TILED, TO_CTA, TO_CLUSTER, multicast=_SPREAD), fidelity="hardware", outputs=0, effects=_BOX_LOAD)
@service(COPY, only=_rows("im2col", TO_CTA, TO_CLUSTER, multicast=_SPREAD), fidelity="hardware", outputs=0, effects=_PIXEL_LOAD)
@service(
    COPY,
    only=_rows("im2col::w|im2col::w::128", TO_CTA, TO_CLUSTER, multicast=_SPREAD),
    fidelity="two-models",
    outputs=0,
    effects=_WIDE_LOAD,
)
def load(warp: context.WarpContext) -> None:
    """Copy a box to shared memory."""
    pair = warp.q.cta_group == "cta_group::2"
    own = warp.q.direction == TO_CTA
    spread = not isinstance(warp.op.operands[_MASK], Unused)
    form = _form(warp, False)
    for lane in lanes(warp):
        at, destination, barrier, ctas, *places = warp.fetch(form.operands, lane)
        address = at + form.window
        copy = _prepare(warp, form, address, tuple(places), False)
        place = range_at(warp, 0, destination, copy.box.footprint, BOX_ALIGNMENT, own)
        targets = targets_of(warp, place, barrier, ctas if spread else None, pair)
        perform = partial(copy.deliver, targets)
        maps, repeated = used_maps(warp, address), partial(copy.outside, False)
        if not warp.machine.observed:
            operation = start(warp, lane, perform, None, *maps, repeated=repeated)
        else:
            undefined, tiles = partial(copy.deliver_undefined, targets), partial(copy.tiles, targets)
            accesses = partial(copy.loaded, targets)
            operation = start(warp, lane, perform, accesses, *maps, undefined=undefined, tiles=tiles, repeated=repeated)
            operation.tile_at = partial(_tile_at, warp, copy)
        if copy.tile.im2col:
            repeat_pixels(warp, lane, operation, copy, False, address, place[1])
        else:
            again = None if spread else partial(load_again, warp.op, copy.tile)
            repeat_box(warp, lane, operation, copy, address, place[1], again=again)


def _tile_at(warp: context.WarpContext, copy: PreparedTmaCopy, coordinates: tuple[int, ...], cta: context.Cta, offset: int) -> CopiedTile:
    """The box of a copy's tensor map at other coordinates, and with other im2col offsets, as it is copied to an offset in shared memory."""
    coordinates, offsets = coordinates[: copy.tile.rank], coordinates[copy.tile.rank :]
    region = copy.tile.region(coordinates, offsets)
    memory = warp.machine.global_view(warp, region.address, region.size, False) if region.size else NOTHING
    return PreparedTmaCopy(copy.raw, copy.tile, coordinates, region, region, memory).tile_at(cta, offset)


def _of_mode(warp: context.WarpContext, tile: TileMap, info: tuple[int, ...]) -> tuple[TileMap, tuple[int, ...]]:
    """The tensor map in the instruction's im2col mode, and the offsets that are added to the coordinates of each pixel."""
    mode, box = warp.q.mode, tile.box
    if mode == "im2col":
        _in_range(warp, tuple((f"im2col offset {i}", value, OFFSET_LIMITS[len(info)]) for i, value in enumerate(info)))
        return tile, info
    if box.slices or box.swizzle in _NOT_WIDE:
        what = "an interleaved" if box.slices else "no swizzled" if not box.swizzle else "an 8-byte flipped"
        warp.fault(
            "D723", f".{mode} needs a swizzled map without interleave and flip; this is {what} one", fix="encode it with 128B swizzling"
        )
    fixed = mode == "im2col::w::128"
    halo, offset = info
    _in_range(warp, (("wHalo", halo, 32 if fixed else 512), ("wOffset", offset, WIDE_OFFSET_LIMIT)))
    return _wide(tile, halo, fixed), (offset,)


def _in_range(warp: context.WarpContext, found: tuple[tuple[str, int, int], ...]) -> None:
    for name, value, limit in found:
        if value >= limit:
            warp.fault("D724", f"{name} is {value}; with .{warp.q.mode} it can be 0 to {limit - 1}")


@service(COPY, only=_rows(_TILED, TO_GLOBAL), fidelity="hardware", outputs=0, effects=_BOX_STORE)
@service(COPY, only=_rows("im2col_no_offs", TO_GLOBAL), fidelity="hardware", outputs=0, effects=_PIXEL_STORE)
@service(REDUCE, only=_rows(_TILED), fidelity="hardware", outputs=0, effects=partial(_reduction, copies=_BOX_STORE))
@service(REDUCE, only=_rows("im2col_no_offs"), fidelity="hardware", outputs=0, effects=_reduction)
def store(warp: context.WarpContext) -> None:
    """Copy a box from shared memory, or reduce it into a tensor."""
    operation: str | None = warp.q.get("redOp")
    form = _form(warp, True)
    for lane in lanes(warp):
        at, source, _, _, *places = warp.fetch(form.operands, lane)
        address = at + form.window
        copy = _prepare(warp, form, address, tuple(places), True)
        cta, offset = range_at(warp, 1, source, copy.box.footprint, BOX_ALIGNMENT, True)
        combine = None if operation is None else _combiner(warp, operation, copy.tile.element)
        perform = partial(copy.store, cta, offset, combine)
        undefined = partial(copy.store_undefined, cta, offset, combine and undefined_combiner(copy.tile.element))
        accesses = partial(copy.stored, cta, offset)
        maps = used_maps(warp, address)
        started = start(warp, lane, perform, accesses, *maps, undefined=undefined, repeated=partial(copy.outside, True))
        track(warp, lane, started)
    if not copy.tile.im2col:
        repeat_box(warp, lane, started, copy, address, offset, operation is not None)
    elif operation is None:
        repeat_pixels(warp, lane, started, copy, True, address, offset)


def _combiner(warp: context.WarpContext, operation: str, element: str) -> Combine:
    combine = combiner(operation, element)
    if combine is None:
        warp.fault("D726", f".{operation} is not available for the tensor map's element type {element}")
    return watched(warp, operation, element, combine)


@native(PREFETCH, only=_rows((*_TILED, "im2col", "im2col::w", "im2col::w::128", "tile::gather4")), outputs=0)
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect: caches are not modelled."""
    return Nothing()
