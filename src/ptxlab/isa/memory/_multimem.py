"""multimem: accesses to the memory of several devices; they are checked, and not executed."""

from __future__ import annotations

from ptxlab.isa.form import Rule, both_or_none, form, only
from ptxlab.isa.kinds import LONGS, SHORTS, WORDS, Address, Kind, Register, Vector
from ptxlab.isa.requirements import Condition, Values, needs

__all__: list[str] = []

_SECTION = "Data Movement and Conversion Instructions: multimem."
_SCOPES = ("cta", "cluster", "gpu", "sys")
_HALVES, _PAIRS = ("f16", "bf16"), ("f16x2", "bf16x2")
_SIGNED = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")
_PACKED = (*_HALVES, *_PAIRS)
_TYPES = "|".join((*_SIGNED, *_BITS, *_PACKED, "f32", "f64"))


def _length(values: Values) -> int:
    return int(str(values["vec"])[1:])


def _register(types: tuple[str, ...]) -> Register:
    return Register(types, "a register of the type, or an integer constant to be stored", immediate=True, integers=True)


_KINDS: dict[str, Kind] = {
    "[a]": Address(spaces=("global",), types=LONGS, says="an address of global memory in brackets"),
    "word": _register(WORDS),
    "long": _register(LONGS),
    "float": Register(("f32", "b32"), "a register of type .f32"),
    "double": Register(("f64", "b64"), "a register of type .f64"),
    "vector": Vector(_length, True, bare=True, constants=True),
    "halves": Vector(_length, True, width=16, types=lambda values: SHORTS, says="a vector of 16-bit registers in braces"),
}
_VALUES: dict[str, Condition] = {
    "word": {"vec": (None,), "type": ("u32", "s32", "b32", *_PAIRS)},
    "long": {"vec": (None,), "type": ("u64", "s64", "b64")},
    "float": {"vec": (None,), "type": ("f32",)},
    "double": {"vec": (None,), "type": ("f64",)},
    "vector": {"vec": ("v2", "v4", "v8"), "type": ("f32", *_PAIRS)},
    "halves": {"vec": ("v2", "v4", "v8"), "type": _HALVES},
}
_VECTORS = (only("type", (*_PACKED, "f32"), vec="v2|v4|v8"), only("vec", "v2|v4|v8", type=_HALVES))
_OPERATIONS = (
    only("type", ("u32", "s32", "u64", *_PACKED, "f32", "f64"), op="add"),
    only("type", (*_SIGNED, *_PACKED), op="min|max"),
    only("type", _BITS, op="and|or|xor"),
)


def _declare(name: str, orders: str, modifiers: str, line: str, rules: tuple[Rule, ...]) -> None:
    section = _SECTION + name
    strong = tuple(order for order in orders.split("|") if order != "weak")
    form(
        f"multimem.{name}",
        f"{{.sem={orders}}}{{.scope={'|'.join(_SCOPES)}}}{{.global}}{modifiers}{{.vec=v2|v4|v8}}.(type={_TYPES})",
        *((line.replace("value", value), when, {}, "") for value, when in _VALUES.items()),
        kinds=_KINDS,
        section=section,
        rules=(*both_or_none(section, strong, _SCOPES), *_VECTORS, *rules),
        requires=needs("8.1", "sm_90", what=f"multimem.{name}"),
    )


_OPERATION = ".(op=add|min|max|and|or|xor)"
_declare("ld_reduce", "weak|relaxed|acquire", _OPERATION + "{.acc=acc::f32}", "value [a]", _OPERATIONS)
_declare("red", "relaxed|release", _OPERATION, "[a] value", _OPERATIONS)
_declare("st", "weak|relaxed|release", "", "[a] value", ())
