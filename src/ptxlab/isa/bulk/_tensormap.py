"""tensormap.replace, tensormap.cp_fenceproxy and prefetch.tensormap."""

from __future__ import annotations

import numpy as np

from ptxlab.isa import context, operations
from ptxlab.isa.bulk._endpoints import generic_address, is_shared, lanes
from ptxlab.isa.bulk._map_cache import BYTES, replaced
from ptxlab.isa.catalogue import Qualifiers, native, service
from ptxlab.isa.effects import Access, Space, order_of
from ptxlab.isa.form import IGNORED, MAP_FIELDS, Form, Rule, form
from ptxlab.isa.kinds import LONGS, MAP_BYTES, SHORTS, WORDS, Address, Immediate, Kind, Register
from ptxlab.isa.native_ops import Nothing
from ptxlab.isa.operands import Op
from ptxlab.isa.requirements import Condition, needs
from ptxlab.isa.targets import at_least

_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_COPY = "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
_PREFETCH = "Data Movement and Conversion Instructions: prefetch, prefetchu"
_ALIGNMENT = 128

_90 = at_least(90)
_SPECIFIC = at_least(90, "af")
_PLAIN = (*WORDS, *LONGS)
_ADDENDS = (*SHORTS, *_PLAIN, "b128")

_ADDRESSES = ("global_address",)
_ORDINALS = ("box_dim", "global_dim", "element_stride")
_STRIDES = ("global_stride",)
_CODES = {"elemtype": (13, 15), "interleave_layout": (3, 2), "swizzle_mode": (4, 4), "swizzle_atomicity": (4, 3), "fill_mode": (2, 1)}
"""Field -> number of values that every target with this field has, and the largest value on any target."""


def _range(first: int, end: int, last: int) -> Immediate:
    return Immediate(f"a constant from 0 to {last}", lambda value: first <= value < end)


def _replacement() -> Form:
    """The form of tensormap.replace: one line of operands for each field and state space."""
    kinds: dict[str, Kind] = {
        "[addr]": Address(
            {"space": (None,)},
            "the address of a tensor map in brackets",
            ("global",),
            _PLAIN,
            ("shared", "global", "local", "param"),
            _PLAIN,
        ),
        "[own]": Address(None, "an address of the CTA's shared memory in brackets", ("shared",), _PLAIN),
        "new_val": Register((*WORDS, "f32"), "a 32-bit value", True, True, integers=True, addends=_ADDENDS, float_width=32),
        "long": Register((*LONGS, "f64"), "a 64-bit value", True, True, integers=True, addends=(*_ADDENDS, "f32", "f64"), float_width=64),
        "ord": Immediate("the dimension, a constant from 0 to 4", lambda value: 0 <= value <= 4),
        "word": Register(WORDS, "a 32-bit value", True, True, integers=True, addends=_ADDENDS),
        "stride": Register((*LONGS, "f64"), "a 64-bit value", True, True, integers=True, addends=_ADDENDS, float_width=64),
        **{field: _range(0, count, last) for field, (count, last) in _CODES.items()},
        "sub-byte": _range(13, 16, 15),
        "96B": _range(4, 5, 4),
    }
    lines: list[tuple[str, Condition, Condition, str]] = []
    for where, place in ((("shared::cta",), "[own]"), ((None, "global"), "[addr]")):
        for fields, operands, gives in (
            (("rank",), "new_val", {}),
            (_ADDRESSES, "long", {}),
            (_ORDINALS, "ord word", {}),
            (_STRIDES, "ord stride", {}),
            *(((field,), field, {}) for field in _CODES),
            (("elemtype",), "sub-byte", {"value": "sub-byte"}),
            (("swizzle_mode",), "96B", {"value": "96B"}),
        ):
            lines.append((f"{place} {operands}", {"space": where, "field": fields}, gives, ""))
    long = (*_ADDRESSES, *_STRIDES)
    short = ("rank", *_ORDINALS, *_CODES)
    return form(
        "tensormap.replace",
        f".tile.(field={'|'.join((*long, *short))}){{.space=global|shared::cta}}.b1024.(type=b32|b64)",
        *lines,
        kinds=kinds,
        section=_REPLACE,
        rules=(
            Rule({"field": long}, "type", ("b64",), "addresses and strides are .b64", _REPLACE),
            Rule({"field": short}, "type", ("b32",), "this field is .b32", _REPLACE),
        ),
        requires=(
            needs("8.3", _SPECIFIC, what="tensormap.replace"),
            needs("8.6", _SPECIFIC - {"sm_90a"}, what=".swizzle_atomicity", when={"field": ("swizzle_atomicity",)}),
            needs("8.7", _SPECIFIC - {"sm_90a"}, what="an element type of less than a byte", when={"value": ("sub-byte",)}),
            needs("8.8", frozenset({"sm_103a", "sm_107a"}), what="swizzling of 96 bytes", when={"value": ("96B",)}),
        ),
        ignored=IGNORED - MAP_FIELDS,
    )


_REPLACED = _replacement()
_FENCED = form(
    "tensormap.cp_fenceproxy",
    ".(direction*2=global|shared::cta).tensormap::generic.release.(scope=cta|cluster|gpu|sys).sync.aligned",
    "[dst] [src] size",
    kinds={
        "[dst]": Address(None, "an address of global memory in brackets", ("global",), (*SHORTS, *_PLAIN)),
        "[src]": Address(None, "an address of the CTA's shared memory in brackets", ("shared",), (*SHORTS, *_PLAIN)),
        "size": MAP_BYTES,
    },
    section=_COPY,
    rules=(Rule({}, "direction", ("global.shared::cta",), "the copy is .global.shared::cta", _COPY),),
    requires=(needs("8.3", _90, what="tensormap.cp_fenceproxy"),),
    repeatable=frozenset({"sync"}),
)


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


def has_ordinal(field: str) -> bool:
    """Whether a field has a value for each dimension."""
    return field in (*_ORDINALS, *_STRIDES)


@service(_REPLACED, only={"field": ("rank", *_ADDRESSES, *_CODES), "value": None}, outputs=0, effects=_change)
@service(_REPLACED, only={"field": (*_ORDINALS, *_STRIDES)}, outputs=0, effects=_change)
def replace(warp: context.WarpContext) -> None:
    """Replace a field, or the value of one dimension in a field with a value for each dimension."""
    ordinal = has_ordinal(warp.q.field)
    bits = 64 if warp.q.type == "b64" else 32
    for lane in lanes(warp):
        place = _place(warp, 0, lane, warp.q.space, True)
        index = warp.lane_value(warp.op.operands[1], 32, lane) if ordinal else None
        value = warp.lane_value(warp.op.operands[2 if ordinal else 1], bits, lane)
        place[:] = replaced(warp, place, warp.q.field, index, value)
        warp.access(operations.MemoryAccess.of(place, True))


@service(_FENCED, outputs=0, effects=lambda q: Access(order_of("release", q.scope), Space.GLOBAL, tensor_map=True))
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
    warp.access(operations.MemoryAccess.of(source, False), operations.MemoryAccess.of(target, True))


@native(
    "prefetch{.space=param|const}.tensormap",
    section=_PREFETCH,
    requires=needs("8.0", "sm_90", what="prefetch.tensormap"),
    outputs=0,
    source="addr",
)
def prefetch(q: Qualifiers, op: Op) -> Nothing:
    """Has no effect: caches are not modelled."""
    return Nothing()
