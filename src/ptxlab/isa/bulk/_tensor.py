"""cp.async.bulk.tensor and cp.reduce.async.bulk.tensor in tiled and im2col mode, and their prefetches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

from ptxlab.isa import _machine as machine
from ptxlab.isa._catalogue import Qualifiers, native, service
from ptxlab.isa._natives import Nothing
from ptxlab.isa._operands import Addr, Group, Op, Resolved
from ptxlab.isa.bulk._endpoints import Target, delivered, generic_address, lanes, moved, shared_range, signal_targets, start, used_maps
from ptxlab.isa.bulk._groups import track
from ptxlab.isa.bulk._maps import Copy, TileMap, tile_map
from ptxlab.isa.bulk._reduce import Combine, combiner, watched
from ptxlab.isa.bulk._staging import NOTHING, Staged

__all__ = ["nothing_nearer", "read_coordinates"]

_SECTION = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REDUCE = "Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"
_PREFETCH = "Data Movement and Conversion Instructions: cp.async.bulk.prefetch.tensor"
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


@lru_cache(maxsize=4096)
def _items(op: Op, position: int) -> tuple[Resolved, ...]:
    """The coordinates of a tensor operand as written."""
    operand = op.operands[position]
    group = operand.extra[0] if isinstance(operand, Addr) and operand.extra else None
    return group.items if isinstance(group, Group) else ()


def read_coordinates(t: machine.Issue, position: int, lane: int, count: int) -> tuple[int, ...]:
    """The coordinates that a tensor operand names; a fault unless there are so many."""
    items = _items(t.op, position)
    if len(items) != count:
        message = f"{t.op.opcode} needs {count} coordinates, not {len(items)}"
        t.fault("D724", message, fix=f"write [tensorMap, {{c0, ...}}] with {count} coordinates")
    read = t.lane_value
    return tuple([(value := read(item, 32, lane)) - (value >> 31 << 32) for item in items])


def _coordinates(t: machine.Issue, position: int, lane: int, tile: TileMap, store: bool) -> tuple[int, ...]:
    wanted = int(t.q.dim[0])
    coordinates = read_coordinates(t, position, lane, wanted)
    if wanted != tile.rank:
        t.fault(
            "D723",
            f"the instruction copies a {wanted}-dimensional box, but the tensor map has rank {tile.rank}",
            fix=f"use .{tile.rank}d, or a tensor map of rank {wanted}",
        )
    im2col = "im2col" in t.op.opcode
    if tile.im2col != im2col:
        here, there = ("columns in im2col mode", "tiled") if im2col else ("tiles", "im2col")
        t.fault("D723", f"the instruction copies {here}, but the tensor map is in {there} mode", fix="encode the map for the mode")
    if not tile.takes(coordinates, store):
        t.fault("D724", tile.refusal(coordinates))
    return coordinates


_copy = lru_cache(maxsize=8192)(TileMap.copy)
_wide = lru_cache(maxsize=256)(TileMap.wide)


def _info(t: machine.Issue, lane: int) -> tuple[int, ...]:
    """The values of im2colInfo."""
    operand = t.op.operands[3]
    assert isinstance(operand, Group)
    return tuple(t.lane_value(item, 16, lane) for item in operand.items)


def _load(t: machine.Issue, mask: int) -> None:
    pair = t.q.group == "cta_group::2"
    own = t.q.destination == "shared::cta"
    for lane in lanes(t):
        tile = tile_map(t, generic_address(t, 1, lane))
        offsets: tuple[int, ...] = ()
        if tile.im2col and ".im2col" in t.op.opcode:
            tile, offsets = _of_mode(t, tile, _info(t, lane))
        coordinates = _coordinates(t, 1, lane, tile, False)
        box = tile.box
        destination = shared_range(t, 0, lane, box.footprint, _ALIGNMENT, own)
        targets = signal_targets(t, lane, destination, 2, mask, pair)
        copy = _copy(tile, coordinates, offsets)
        source = t.machine.global_view(t, copy.address, copy.size, False) if copy.size else NOTHING
        perform = partial(_perform_load, box, copy, source, targets)
        start(t, lane, perform, partial(_loaded, box.footprint, copy, source, targets), *used_maps(t, 1, lane))


def _of_mode(t: machine.Issue, tile: TileMap, info: tuple[int, ...]) -> tuple[TileMap, tuple[int, ...]]:
    """The map as the instruction's im2col mode uses it, and what is added to the coordinates of each pixel."""
    mode, box = t.q.mode, tile.box
    if mode == "im2col":
        _in_range(t, tuple((f"im2col offset {i}", value, _OFFSET_LIMITS[len(info)]) for i, value in enumerate(info)))
        return tile, info
    if box.slices or box.swizzle in _NOT_WIDE:
        what = "an interleaved" if box.slices else "no swizzled" if not box.swizzle else "an 8-byte flipped"
        t.fault(
            "D723", f".{mode} needs a swizzled map without interleave and flip; this is {what} one", fix="encode it with 128B swizzling"
        )
    fixed = mode == "im2col::w::128"
    halo, offset = info
    _in_range(t, (("wHalo", halo, 32 if fixed else 512), ("wOffset", offset, 32)))
    return _wide(tile, halo, fixed), (offset,)


def _in_range(t: machine.Issue, found: tuple[tuple[str, int, int], ...]) -> None:
    for name, value, limit in found:
        if value >= limit:
            t.fault("D724", f"{name} is {value}; with .{t.q.mode} it can be 0 to {limit - 1}")


def _loaded(footprint: int, copy: Copy, source: machine.U8, targets: list[Target]) -> Iterator[machine.Touch]:
    return delivered(targets, footprint, *copy.outside(source))


def _stored(copy: Copy, target: machine.U8, source: machine.U8) -> Iterator[machine.Touch]:
    return moved(source, *copy.outside(target))


def _perform_load(box: Staged, copy: Copy, source: machine.U8, targets: list[Target]) -> None:
    dense = copy.load(source)
    for cta, offset, barrier in targets:
        box.scatter(dense, cta.shared, offset)
        barrier.complete_tx(box.bytes)


def _store(t: machine.Issue, operation: str | None) -> None:
    for lane in lanes(t):
        tile = tile_map(t, generic_address(t, 0, lane))
        box = tile.box
        coordinates = _coordinates(t, 0, lane, tile, True)
        cta, offset = shared_range(t, 1, lane, box.footprint, _ALIGNMENT, True)
        combine: Combine | None = None
        if operation is not None:
            combine = combiner(operation, tile.element)
            if combine is None:
                t.fault("D726", f".{operation} is not available for the tensor map's element type {tile.element}")
            combine = watched(t, operation, tile.element, combine)
        copy = _copy(tile, coordinates, ())
        target = t.machine.global_view(t, copy.address, copy.size, True) if copy.size else NOTHING
        perform = partial(_perform_store, box, copy, target, cta, offset, combine)
        touches = partial(_stored, copy, target, cta.shared[offset : offset + box.footprint])
        track(t, lane, start(t, lane, perform, touches, *used_maps(t, 0, lane)))


def _perform_store(box: Staged, copy: Copy, target: machine.U8, cta: machine.Cta, offset: int, combine: Combine | None) -> None:
    copy.store(target, box.gather(cta.shared, offset), combine)


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
            **common,
        )(partial(_store, operation=None))
        service(
            f"cp.reduce.async.bulk.tensor.{dimensions}.global.shared::cta.(operation=add|min|max|inc|dec|and|or|xor){mode}.bulk_group{hinted}",
            section=_REDUCE,
            fidelity="hardware",
            outputs=0,
            ordered=False,
            **common,
        )(_reduce)


def _reduce(t: machine.Issue) -> None:
    _store(t, t.q.operation)


def nothing_nearer(q: Qualifiers, op: Op) -> Nothing:
    """Bring nothing nearer: caches are not modelled."""
    return Nothing()


for _hinted, _policy in (("", {}), (".L2::cache_hint", {"policy": "b64"})):
    _declare_loads(_hinted, _policy)
    _declare_prefetches(_hinted, _policy)
    _declare_stores(_hinted, _policy)
