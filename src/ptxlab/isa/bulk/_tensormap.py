"""tensormap.replace, tensormap.cp_fenceproxy and prefetch.tensormap."""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context as machine
from ptxlab.isa.bulk._endpoints import generic_address, is_shared, lanes
from ptxlab.isa.bulk._map_cache import BYTES, replaced
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op

__all__: list[str] = []

_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_COPY = "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
_PREFETCH = "Data Movement and Conversion Instructions: prefetch, prefetchu"
_ALIGNMENT = 128


def _place(t: machine.Issue, position: int, lane: int, space: str | None, write: bool) -> machine.U8:
    """The 128 bytes of a tensor map object as a view."""
    address = t.lane_value(t.op.operands[position], 64, lane) if space == "shared::cta" else generic_address(t, position, lane)
    if address % _ALIGNMENT:
        t.fault(
            "D721",
            f"the tensor map address {address:#x} is not a multiple of {_ALIGNMENT}",
            fix=f"align the tensor map to {_ALIGNMENT} bytes",
        )
    if space == "shared::cta" or (space is None and is_shared(address)):
        cta, offset = t.machine.shared_at(t, address)
        if cta is not t.cta or offset + BYTES > cta.shared.size:
            t.fault("C903", f"the tensor map at {address:#x} does not lie in the shared memory of the executing CTA")
        return cta.shared[offset : offset + BYTES]
    return t.machine.global_view(t, address, BYTES, write)


def _replace(t: machine.Issue, ordinal: bool) -> None:
    bits = 64 if t.q.type == "b64" else 32
    for lane in lanes(t):
        place = _place(t, 0, lane, t.q.space, True)
        index = t.lane_value(t.op.operands[1], 32, lane) if ordinal else None
        value = t.lane_value(t.op.operands[2 if ordinal else 1], bits, lane)
        place[:] = replaced(t, place, t.q.field, index, value)
        if t.machine.observed:
            t.touch(machine.Touch.of(place, True))


@service(
    "tensormap.replace.tile.(field=global_address){.space=global|shared::cta}.b1024.(type=b64)",
    "tensormap.replace.tile.(field=rank|elemtype|interleave_layout|swizzle_mode|fill_mode|swizzle_atomicity){.space=global|shared::cta}.b1024.(type=b32)",
    section=_REPLACE,
    outputs=0,
    address="addr",
    value="type",
)
def replace(t: machine.Issue) -> None:
    """Replace a field that stands once."""
    _replace(t, False)


@service(
    "tensormap.replace.tile.(field=box_dim|global_dim|element_stride){.space=global|shared::cta}.b1024.(type=b32)",
    "tensormap.replace.tile.(field=global_stride){.space=global|shared::cta}.b1024.(type=b64)",
    section=_REPLACE,
    outputs=0,
    address="addr",
    ordinal="u32",
    value="type",
)
def replace_ordinal(t: machine.Issue) -> None:
    """Replace a field that stands once for each dimension."""
    _replace(t, True)


@service(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.(scope=cta|cluster|gpu|sys).sync.aligned",
    section=_COPY,
    outputs=0,
    destination="addr",
    source="addr",
    size="u32",
)
def cp_fenceproxy(t: machine.Issue) -> None:
    """Copy a tensor map from shared to global memory, once for the warp."""
    for position in (0, 1):
        t.uniform_address(position)
    size = t.uniform(2)
    if size != BYTES:
        t.fault("C902", f"the size is {size}; a tensor map has {BYTES} bytes", fix=f"give the immediate {BYTES}")
    lane = next(lanes(t))
    source = _place(t, 1, lane, "shared::cta", False)
    target = _place(t, 0, lane, "global", True)
    np.copyto(target, source)
    t.machine.progress += 1
    if t.machine.observed:
        t.touch(machine.Touch.of(source, False), machine.Touch.of(target, True))


@native("prefetch{.space=param|const}.tensormap", section=_PREFETCH, outputs=0, source="addr")
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Bring nothing nearer: caches are not modelled."""
    return Nothing()
