"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tiled and im2col mode, and their prefetches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial

from ptxlab.isa import context
from ptxlab.isa.bulk._endpoints import is_parameter, lanes, range_at, start, targets_of, used_maps, window_of
from ptxlab.isa.bulk._groups import track
from ptxlab.isa.bulk._map_cache import TileMap, map_of, raw_map
from ptxlab.isa.bulk._prepared_copy import PreparedTmaCopy
from ptxlab.isa.bulk._reduce import Combine, combiner, watched
from ptxlab.isa.bulk._staging import NOTHING
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Asynchronous, Completion, Space, Unit
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Addr, Group, Op, Resolved, Unused
from ptxlab.native import BoundedCache

__all__ = ["TENSOR_LOAD", "TENSOR_STORE", "nothing_nearer", "read_coordinates"]

_SECTION = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"
_PREFETCH = "Data Movement and Conversion Instructions: cp.async.bulk.prefetch.tensor"
TENSOR_LOAD = Asynchronous(Unit.TMA, Completion.BYTES, writes=Space.SHARED, tensor_map=True)
TENSOR_STORE = Asynchronous(Unit.TMA, Completion.BULK_GROUP, writes=Space.GLOBAL, tensor_map=True)
_TILED = "(dim=1d|2d|3d|4d|5d)"
_IMAGES = "(dim=3d|4d|5d)"
_DERIVED = {"offsets": ("dim", {"1d": "", "2d": "", "3d": "v1", "4d": "v2", "5d": "v3"})}
"""Dimensions -> im2col offsets."""
_LOADS = (
    (_TILED, "{.tile}", ""),
    (_IMAGES, ".(mode=im2col)", "offsets.b16"),
    (_IMAGES, ".(mode=im2col::w|im2col::w::128)", "v2.b16"),
)
"""Dimensions, load mode, type of im2colInfo."""

_OFFSET_LIMITS = {1: 1 << 16, 2: 1 << 8, 3: 1 << 5}
"""Dimensions of the image -> what an im2col offset stays below."""
_NOT_WIDE = (0, 5)
"""Swizzling modes that im2col::w does not take: none, and the one that flips 8 bytes."""

_ALIGNMENT = 128
"""Of a box in shared memory."""
_ABSENT: tuple[Resolved, int] = Unused(), 64


@lru_cache(maxsize=4096)
def _items(op: Op, position: int) -> tuple[Resolved, ...]:
    """The coordinates of a tensor operand as written."""
    operand = op.operands[position]
    group = operand.extra[0] if isinstance(operand, Addr) and operand.extra else None
    return group.items if isinstance(group, Group) else ()


def coordinate_items(warp: context.WarpContext, position: int, count: int) -> tuple[Resolved, ...]:
    """The coordinates of a tensor operand as written; a fault unless there are so many."""
    items = _items(warp.op, position)
    if len(items) != count:
        message = f"{warp.op.opcode} needs {count} coordinates, not {len(items)}"
        warp.fault("D724", message, fix=f"write [tensorMap, {{c0, ...}}] with {count} coordinates")
    return items


def read_coordinates(warp: context.WarpContext, position: int, lane: int, count: int) -> tuple[int, ...]:
    """The coordinates that a tensor operand names; a fault unless there are so many."""
    return _signed(warp.lane_value(item, 32, lane) for item in coordinate_items(warp, position, count))


def _signed(values: Iterable[int]) -> tuple[int, ...]:
    return tuple([value - (value >> 31 << 32) for value in values])


def _checked(warp: context.WarpContext, tile: TileMap, coordinates: tuple[int, ...], store: bool) -> None:
    """A fault unless the instruction may copy a box of this map from there."""
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
    """What an instruction says at every execution: its operands, and where the state space of its tensor map begins.

    The operands are the address of the tensor map, that in shared memory, of a load that of the mbarrier and the mask, else absent ones;
    then ``count`` coordinates, then im2colInfo. ``cuts`` are its copies by the address of the map and by coordinates and im2colInfo.
    """

    operands: tuple[tuple[Resolved, int], ...]
    window: int
    count: int
    cuts: BoundedCache[tuple[int, tuple[int, ...]], PreparedTmaCopy] = field(default_factory=lambda: BoundedCache(4096))


def _form(warp: context.WarpContext, store: bool, mask: int) -> _Form:
    found: _Form | None = warp.known.get("form")
    if found is None:
        operands, count = warp.op.operands, int(warp.q.dim[0])
        outside, inside = (0, 1) if store else (1, 0)
        info = operands[3] if not store and ".im2col" in warp.op.opcode else None
        fixed = ((operands[outside], 64), (operands[inside], 64))
        signal = (_ABSENT, _ABSENT) if store else ((operands[2], 64), _ABSENT if mask < 0 else (operands[mask], 16))
        coordinates = ((item, 32) for item in coordinate_items(warp, outside, count))
        offsets = ((item, 16) for item in (info.items if isinstance(info, Group) else ()))
        found = warp.known["form"] = _Form((*fixed, *signal, *coordinates, *offsets), window_of(operands[outside]), count)
    return found


def _cut(warp: context.WarpContext, form: _Form, address: int, places: tuple[int, ...], store: bool) -> PreparedTmaCopy:
    """The copy at these coordinates, with these im2col offsets; remembered as long as its tensor map stays as it is."""
    cut = form.cuts.get((address, places))
    if cut is not None and (not cut.raw or cut.raw == raw_map(warp, address)):
        return cut
    raw = raw_map(warp, address)
    tile = map_of(warp, address, raw)
    coordinates, info = _signed(places[: form.count]), places[form.count :]
    offsets: tuple[int, ...] = ()
    if tile.im2col and info:
        tile, offsets = _of_mode(warp, tile, info)
    _checked(warp, tile, coordinates, store)
    part = tile.region(coordinates, offsets)
    memory = warp.machine.global_view(warp, part.address, part.size, store) if part.size else NOTHING
    cut = form.cuts[address, places] = PreparedTmaCopy(b"" if is_parameter(address) else raw, tile, part, memory)
    return cut


def _load(warp: context.WarpContext, mask: int) -> None:
    pair = warp.q.group == "cta_group::2"
    own = warp.q.destination == "shared::cta"
    form = _form(warp, False, mask)
    for lane in lanes(warp):
        at, destination, barrier, ctas, *places = warp.fetch(form.operands, lane)
        address = at + form.window
        cut = _cut(warp, form, address, tuple(places), False)
        place = range_at(warp, 0, destination, cut.box.footprint, _ALIGNMENT, own)
        targets = targets_of(warp, place, barrier, None if mask < 0 else ctas, pair)
        start(warp, lane, partial(cut.deliver, targets), partial(cut.loaded, targets), *used_maps(warp, address))


def _of_mode(warp: context.WarpContext, tile: TileMap, info: tuple[int, ...]) -> tuple[TileMap, tuple[int, ...]]:
    """The map as the instruction's im2col mode uses it, and what is added to the coordinates of each pixel."""
    mode, box = warp.q.mode, tile.box
    if mode == "im2col":
        _in_range(warp, tuple((f"im2col offset {i}", value, _OFFSET_LIMITS[len(info)]) for i, value in enumerate(info)))
        return tile, info
    if box.slices or box.swizzle in _NOT_WIDE:
        what = "an interleaved" if box.slices else "no swizzled" if not box.swizzle else "an 8-byte flipped"
        warp.fault(
            "D723", f".{mode} needs a swizzled map without interleave and flip; this is {what} one", fix="encode it with 128B swizzling"
        )
    fixed = mode == "im2col::w::128"
    halo, offset = info
    _in_range(warp, (("wHalo", halo, 32 if fixed else 512), ("wOffset", offset, 32)))
    return _wide(tile, halo, fixed), (offset,)


def _in_range(warp: context.WarpContext, found: tuple[tuple[str, int, int], ...]) -> None:
    for name, value, limit in found:
        if value >= limit:
            warp.fault("D724", f"{name} is {value}; with .{warp.q.mode} it can be 0 to {limit - 1}")


def _store(warp: context.WarpContext, operation: str | None) -> None:
    form = _form(warp, True, -1)
    for lane in lanes(warp):
        at, source, _, _, *places = warp.fetch(form.operands, lane)
        address = at + form.window
        cut = _cut(warp, form, address, tuple(places), True)
        cta, offset = range_at(warp, 1, source, cut.box.footprint, _ALIGNMENT, True)
        combine: Combine | None = None
        if operation is not None:
            combine = _combiner(warp, operation, cut.tile.element)
        perform = partial(cut.store, cta, offset, combine)
        track(warp, lane, start(warp, lane, perform, partial(cut.stored, cta, offset), *used_maps(warp, address)))


def _combiner(warp: context.WarpContext, operation: str, element: str) -> Combine:
    combine = combiner(operation, element)
    if combine is None:
        warp.fault("D726", f".{operation} is not available for the tensor map's element type {element}")
    return watched(warp, operation, element, combine)


def _declare_loads(hinted: str, policy: dict[str, str]) -> None:
    for multicast in (False, True):
        spread = ".(spread=multicast::cluster|multicast::cluster::16b)" if multicast else ""
        mask = {"mask": "b16"} if multicast else {}
        for dimensions, mode, info in _LOADS:
            position = (4 if info else 3) if multicast else -1
            service(
                f"cp.async.bulk.tensor.{dimensions}.(destination=shared::cta|shared::cluster).global{mode}.mbarrier::complete_tx::bytes"
                f"{spread}{{.group=cta_group::1|cta_group::2}}{hinted}",
                section=_SECTION,
                fidelity="two-models" if "::w" in mode else "hardware",
                outputs=0,
                ordered=False,
                derived=_DERIVED,
                effects=TENSOR_LOAD,
                destination="addr",
                source="addr",
                mbarrier="addr",
                **({"info": info} if info else {}),
                **mask,
                **policy,
            )(partial(_load, mask=position))


def _declare_prefetches(hinted: str, policy: dict[str, str]) -> None:
    for dimensions, mode, info in _LOADS:
        native(
            f"cp.async.bulk.prefetch.tensor.{dimensions}.L2.global{mode}{hinted}",
            section=_PREFETCH,
            outputs=0,
            ordered=False,
            derived=_DERIVED,
            source="addr",
            **({"info": info} if info else {}),
            **policy,
        )(nothing_nearer)


def _declare_stores(hinted: str, policy: dict[str, str]) -> None:
    for dimensions, mode in ((_TILED, "{.tile}"), (_IMAGES, ".im2col_no_offs")):
        common = {"destination": "addr", "source": "addr", **policy}
        service(
            f"cp.async.bulk.tensor.{dimensions}.global.shared::cta{mode}.bulk_group{hinted}",
            section=_SECTION,
            fidelity="hardware",
            outputs=0,
            ordered=False,
            effects=TENSOR_STORE,
            **common,
        )(partial(_store, operation=None))
        service(
            f"cp.reduce.async.bulk.tensor.{dimensions}.global.shared::cta.(operation=add|min|max|inc|dec|and|or|xor){mode}.bulk_group{hinted}",
            section=_REDUCE,
            fidelity="hardware",
            outputs=0,
            ordered=False,
            effects=_reduction,
            **common,
        )(_reduce)


def _reduction(q: Qualifiers) -> Asynchronous:
    """The element type stands in the tensor map: it may be a float."""
    return dataclasses.replace(TENSOR_STORE, atomic=True, adds_floats=q.operation == "add")


def _reduce(warp: context.WarpContext) -> None:
    _store(warp, warp.q.operation)


def nothing_nearer(q: Qualifiers, op: Op) -> Nothing:
    """Bring nothing nearer: caches are not modelled."""
    return Nothing()


for _hinted, _policy in (("", {}), (".L2::cache_hint", {"policy": "b64"})):
    _declare_loads(_hinted, _policy)
    _declare_prefetches(_hinted, _policy)
    _declare_stores(_hinted, _policy)
