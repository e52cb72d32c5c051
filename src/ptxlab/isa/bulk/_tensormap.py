"""tensormap.replace, tensormap.cp_fenceproxy and prefetch.tensormap."""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context
from ptxlab.isa.bulk._endpoints import generic_address, is_shared, lanes
from ptxlab.isa.bulk._map_cache import BYTES, replaced
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Access, Space, order_of
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import needs

__all__: list[str] = []

_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_COPY = "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
_PREFETCH = "Data Movement and Conversion Instructions: prefetch, prefetchu"
_ALIGNMENT = 128


def _change(q: Qualifiers) -> Access:
    return Access(writes=Space.SHARED if q.space == "shared::cta" else Space.GLOBAL, tensor_map=True)


def _place(warp: context.WarpContext, position: int, lane: int, space: str | None, write: bool) -> context.U8:
    """The 128 bytes of a tensor map object as a view."""
    address = warp.lane_value(warp.op.operands[position], 64, lane) if space == "shared::cta" else generic_address(warp, position, lane)
    if address % _ALIGNMENT:
        warp.fault(
            "D721",
            f"the tensor map address {address:#x} is not a multiple of {_ALIGNMENT}",
            fix=f"align the tensor map to {_ALIGNMENT} bytes",
        )
    if space == "shared::cta" or (space is None and is_shared(address)):
        cta, offset = warp.machine.shared_at(warp, address)
        if cta is not warp.cta or offset + BYTES > cta.shared.size:
            warp.fault("C903", f"the tensor map at {address:#x} does not lie in the shared memory of the executing CTA")
        return cta.shared[offset : offset + BYTES]
    return warp.machine.global_view(warp, address, BYTES, write)


def _replace(warp: context.WarpContext, ordinal: bool) -> None:
    bits = 64 if warp.q.type == "b64" else 32
    for lane in lanes(warp):
        place = _place(warp, 0, lane, warp.q.space, True)
        index = warp.lane_value(warp.op.operands[1], 32, lane) if ordinal else None
        value = warp.lane_value(warp.op.operands[2 if ordinal else 1], bits, lane)
        place[:] = replaced(warp, place, warp.q.field, index, value)
        if warp.machine.observed:
            warp.access(context.MemoryAccess.of(place, True))


@service(
    "tensormap.replace.tile.(field=global_address){.space=global|shared::cta}.b1024.(type=b64)",
    "tensormap.replace.tile.(field=rank|elemtype|interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity){.space=global|shared::cta}.b1024.(type=b32)",
    section=_REPLACE,
    outputs=0,
    effects=_change,
    address="addr",
    value="type",
)
def replace(warp: context.WarpContext) -> None:
    """Replace a field that stands once."""
    _replace(warp, False)


@service(
    "tensormap.replace.tile.(field=box_dim|global_dim|element_stride){.space=global|shared::cta}.b1024.(type=b32)",
    "tensormap.replace.tile.(field=global_stride){.space=global|shared::cta}.b1024.(type=b64)",
    section=_REPLACE,
    outputs=0,
    effects=_change,
    address="addr",
    ordinal="u32",
    value="type",
)
def replace_ordinal(warp: context.WarpContext) -> None:
    """Replace a field that stands once for each dimension."""
    _replace(warp, True)


@service(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.(scope=cta|cluster|gpu|sys).sync.aligned",
    section=_COPY,
    outputs=0,
    effects=lambda q: Access(order_of("release", q.scope), Space.GLOBAL, tensor_map=True),
    destination="addr",
    source="addr",
    size="u32",
)
def cp_fenceproxy(warp: context.WarpContext) -> None:
    """Copy a tensor map from shared to global memory, once for the warp."""
    for position in (0, 1):
        warp.uniform_address(position)
    size = warp.uniform(2)
    if size != BYTES:
        warp.fault("C902", f"the size is {size}; a tensor map has {BYTES} bytes", fix=f"give the immediate {BYTES}")
    lane = next(lanes(warp))
    source = _place(warp, 1, lane, "shared::cta", False)
    target = _place(warp, 0, lane, "global", True)
    np.copyto(target, source)
    warp.machine.progress += 1
    if warp.machine.observed:
        warp.access(context.MemoryAccess.of(source, False), context.MemoryAccess.of(target, True))


@native(
    "prefetch{.space=param|const}.tensormap",
    section=_PREFETCH,
    requires=needs("8.0", "sm_90", what="prefetch.tensormap"),
    outputs=0,
    source="addr",
)
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Bring nothing nearer: caches are not modelled."""
    return Nothing()
