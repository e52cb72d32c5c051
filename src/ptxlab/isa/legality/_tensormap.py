"""Legality of the instructions that change a tensor map."""

from __future__ import annotations

from ptxlab.isa.legality._fence import MAP_BYTES
from ptxlab.isa.legality._form import LONGS, SHORTS, WORDS, Address, Form, Immediate, Kind, Register, Rule, form
from ptxlab.isa.legality._tcgen05 import IGNORED, MAP_FIELDS
from ptxlab.isa.requirements import Condition, needs
from ptxlab.isa.targets import at_least

__all__ = ["TENSORMAP_FORMS"]

_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_COPY = "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
_90 = at_least(90)
_SPECIFIC = at_least(90, "af")
_PLAIN = (*WORDS, *LONGS)
_ADDENDS = (*SHORTS, *_PLAIN, "b128")

_ADDRESSES = ("global_address",)
_ORDINALS = ("box_dim", "global_dim", "element_stride")
_STRIDES = ("global_stride",)
_CODES = {"elemtype": (13, 15), "interleave_layout": (3, 2), "swizzle_mode": (4, 4), "swizzle_atomicity": (4, 3), "fill_mode": (2, 1)}
"""Field -> how many values it has on every target that has the field, and the last value on any."""


def _range(first: int, end: int, last: int) -> Immediate:
    return Immediate(f"a constant from 0 to {last}", lambda value: first <= value < end)


def _replace() -> Form:
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


TENSORMAP_FORMS: tuple[Form, ...] = (
    _replace(),
    form(
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
        ignored=IGNORED,
        repeatable=frozenset({"sync"}),
    ),
)
