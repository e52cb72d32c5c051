"""Operands against the kinds that a form declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ptxlab import ptx
from ptxlab.isa.kinds import (
    LONGS,
    SHORTS,
    TYPE_BITS,
    WORDS,
    Address,
    Immediate,
    Kind,
    Predicate,
    Register,
    Sink,
    TensorAddress,
    Typed,
    Vector,
)
from ptxlab.isa.requirements import Values, holds

__all__ = ["Finding", "Symbols", "check_operand"]


class Finding(NamedTuple):
    """A code, what is wrong with the operand, and the operand's position (-1: the instruction)."""

    code: str
    message: str
    operand: int = -1
    section: str = ""
    fix: str = ""


Symbols = Callable[[str], str | None]
"""A name's register type (``b32``), its state space with a dot before it (``.shared``), or None."""

_OF_WIDTH = {16: frozenset({"b16", "u16", "s16"}), 32: frozenset({"b32", "u32", "s32", "f32"})}
_LONGER = frozenset({*LONGS, "b128"})


def _text(operand: ptx.Operand) -> str:
    match operand:
        case ptx.Name(text):
            return text
        case ptx.Integer(value):
            return str(value)
        case ptx.Vector(items):
            return f"a vector of {len(items)}"
        case ptx.Memory(base):
            return f"[{_text(base)}]"
        case ptx.Not(name):
            return f"!{name.text}"
        case ptx.Offset(base, offset):
            return f"{base.text}+{offset}"
        case ptx.Sink():
            return "_"
        case ptx.Pair(first, second):
            return f"{_text(first)}|{_text(second)}"
        case _:
            return type(operand).__name__.lower()


def _type_of(operand: ptx.Operand, symbols: Symbols) -> str | None:
    return symbols(operand.text) if isinstance(operand, ptx.Name) else None


def check_operand(operand: ptx.Operand, kind: Kind, values: Values, symbols: Symbols) -> list[Finding]:
    """What is wrong with an operand of a declared kind; findings of lower severity for what only the assembler takes."""
    match kind:
        case TensorAddress(types, says):
            return _tensor_address(operand, types, says, symbols)
        case Address():
            return _address(operand, kind, values, symbols)
        case Register():
            return _register(operand, kind, symbols)
        case Sink(says):
            return [] if isinstance(operand, ptx.Sink) else [Finding("L111", f"{_text(operand)} is not {says}")]
        case Immediate(says, accepted):
            if not isinstance(operand, ptx.Integer):
                return [Finding("L111", f"{_text(operand)} is not {says}")]
            return [] if accepted is None or accepted(operand.value) else [Finding("L113", f"{operand.value} is not {says}")]
        case Predicate():
            return _predicate(operand, kind, symbols)
        case Vector():
            return _vector(operand, kind, values, symbols)
        case Typed():
            wrong = _typed(operand, kind, values, symbols)
            if not wrong and kind.short and isinstance(operand, ptx.Memory) and _type_of(operand.base, symbols) in SHORTS:
                return [Finding("L124", "the specification has an address in a 32-bit or 64-bit register")]
            return [Finding("L111", wrong)] if wrong else []


def _tensor_address(operand: ptx.Operand, types: tuple[str, ...], says: str, symbols: Symbols) -> list[Finding]:
    if not isinstance(operand, ptx.Memory) or operand.extra or operand.unified:
        return [Finding("L111", f"{_text(operand)} is not {says}")]
    found = symbols(operand.base.text) if isinstance(operand.base, ptx.Name) else None
    if found not in types:
        return [Finding("L111", f"{_text(operand)} is not {says}, with a register of type " + " or ".join(f".{t}" for t in types))]
    if operand.offset:
        return [Finding("L124", "the specification has a tensor-memory address without an offset")]
    return []


def _address(operand: ptx.Operand, kind: Address, values: Values, symbols: Symbols) -> list[Finding]:
    generic = kind.generic is not None and holds(kind.generic, values)
    wrong = [Finding("L111", f"{_text(operand)} is not {kind.says}")]
    if kind.bare and isinstance(operand, ptx.Name | ptx.Offset):
        name = operand.text if isinstance(operand, ptx.Name) else operand.base.text
        taken = symbols(name) not in (None, "pred", ".global", ".const", ".local", ".param")
        return [Finding("L124", "the specification has this address in brackets")] if taken else wrong
    if not isinstance(operand, ptx.Memory) or operand.extra or operand.unified:
        return wrong
    if isinstance(operand.base, ptx.Integer) and kind.constant:
        return [Finding("L124", f"the specification has an address in a register here, not the constant {operand.base.value}")]
    if not isinstance(operand.base, ptx.Name):
        return wrong
    if operand.offset and not kind.offset:
        return [Finding("L111", f"{kind.says} stands here without an offset")]
    found = symbols(operand.base.text) or ""
    if found in SHORTS and kind.words is not None and holds(kind.words, values):
        return wrong
    if found in (kind.generic_types if generic else kind.types) or (found in kind.plain and not operand.offset):
        other = [Finding("L124", f"the specification has an address in a 32-bit or 64-bit register, not in a .{found} one")]
        return [] if found in (*WORDS, *LONGS) else other
    if generic and found in kind.types:
        return [Finding("L111", f"a generic address stands in a 64-bit register, not in a .{found} one")]
    return [] if found.removeprefix(".") in (kind.generic_spaces if generic else kind.spaces) else wrong


def _register(operand: ptx.Operand, kind: Register, symbols: Symbols) -> list[Finding]:
    if isinstance(operand, ptx.Sink) and kind.sink:
        return []
    if isinstance(operand, ptx.Vector) and len(operand.items) == 1 and kind.braces:
        alone = _register(operand.items[0], replace(kind, types=kind.braces, offset=False), symbols)
        return alone or [Finding("L124", f"the specification has {kind.says}, not in braces")]
    if isinstance(operand, ptx.Integer) and kind.immediate:
        if kind.values is not None and not kind.values(operand.value):
            return [Finding("L113", f"{operand.value} is not {kind.says}")]
        return [] if kind.integers else [Finding("L124", f"the specification has {kind.says}, not the constant {operand.value}")]
    if isinstance(operand, ptx.Float) and operand.width == kind.float_width:
        return [Finding("L124", f"the specification has {kind.says}, not a floating-point constant")]
    if isinstance(operand, ptx.Offset) and kind.offset and _is_addend(symbols(operand.base.text), kind):
        return [Finding("L124", f"the specification has {kind.says}, not a sum")]
    name = operand.operand if isinstance(operand, ptx.Not) else operand
    if isinstance(name, ptx.Name) and symbols(name.text) == "pred" and "pred" in kind.types:
        return [Finding("L124", f"the specification has {kind.says}, not a predicate")]
    if isinstance(operand, ptx.Name) and kind.parts and operand.text.endswith(tuple(f".{part}" for part in kind.parts)):
        operand = ptx.Name(operand.text[: operand.text.rindex(".")])
    if isinstance(operand, ptx.Name) and symbols(operand.text) in kind.types:
        return []
    return [Finding("L111", f"{_text(operand)} is not {kind.says}")]


def _is_addend(found: str | None, kind: Register) -> bool:
    if found is not None and found.startswith("."):
        return bool(kind.addends) or "b32" in kind.types
    return found in (kind.addends or kind.types)


def _predicate(operand: ptx.Operand, kind: Predicate, symbols: Symbols) -> list[Finding]:
    if isinstance(operand, ptx.Integer) and kind.immediate is not None:
        if not kind.immediate(operand.value):
            return [Finding("L113", f"{operand.value} is not {kind.says}")]
        return [Finding("L124", f"the specification has a predicate here, not the constant {operand.value}")]
    if isinstance(operand, ptx.Sink) and kind.sink:
        return []
    if isinstance(operand, ptx.Not) and symbols(operand.operand.text) == "pred" and not kind.written:
        return [Finding("L124", "the specification has a predicate without negation here")]
    if isinstance(operand, ptx.Name) and symbols(operand.text) == "pred":
        return []
    return [Finding("L111", f"{_text(operand)} is not {kind.says}")]


def _vector(operand: ptx.Operand, kind: Vector, values: Values, symbols: Symbols) -> list[Finding]:
    if not isinstance(operand, ptx.Vector):
        return [Finding("L111", f"{_text(operand)} is not {kind.says}")]
    length = kind.length(values)
    if length is not None and len(operand.items) != length:
        return [Finding("L112", f"the vector has {len(operand.items)} registers; the instruction takes {length}")]
    elements = [_element(item, kind, symbols) for item in operand.items]
    for item, element in zip(operand.items, elements, strict=True):
        if element is None:
            return [Finding("L111", f"{_text(item)} is not a {kind.width}-bit register")]
    found = _joined([element for element in elements if element is not None], operand.items, kind, values)
    if any(f.code == "L111" for f in found):
        return found
    names = [item.text for item in operand.items if isinstance(item, ptx.Name)]
    if kind.distinct and len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        return [Finding("L114", f"{repeated} stands twice in the destination")]
    return found


def _element(item: ptx.Operand, kind: Vector, symbols: Symbols) -> str | None:
    """The type of a vector's element: a register's, ``integer`` or ``float`` of a constant; None where it cannot be one."""
    match item:
        case ptx.Name(name):
            found = symbols(name)
            return found if found in _OF_WIDTH[16] | _OF_WIDTH[32] or (kind.mixed and found in _LONGER) else None
        case ptx.Integer() if kind.constants:
            return "integer"
        case ptx.Float(width=32) if kind.constants:
            return "float"
    return None


_INTEGERS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64", "integer"})
_FLOATS = frozenset({"f32", "float"})


def _joined(elements: list[str], items: Sequence[ptx.Operand], kind: Vector, values: Values) -> list[Finding]:
    """What is wrong with the elements together.

    Registers have one width. In a ``mixed`` vector that begins with an integer constant the assembler asks no more than that the last
    register of at most 32 bits, or floating-point constant, be wide enough. No integer stands beside a floating-point element, and a
    vector that begins with a floating-point constant holds no integer constant.
    """
    first = elements[0]
    pairs = [{a, b} for a, b in pairwise(elements)]
    if any(pair & _INTEGERS and pair & _FLOATS for pair in pairs) or (first == "float" and "integer" in elements):
        return [Finding("L111", "floating-point registers and integers stand side by side in one vector")]
    types = set(elements)
    if types == {"integer"}:
        return [] if kind.bare else [Finding("L111", "the vector holds no register")]
    odd = [at for at, e in enumerate(elements) if e not in ("integer", "float") and e not in _OF_WIDTH[kind.width]]
    taken = [Finding("L124", f"the specification has {kind.says}, not {_text(items[at])}") for at in odd[:1]]
    if first == "integer" and kind.mixed:
        last = next((e for e in reversed(elements) if e == "float" or e in _OF_WIDTH[16] | _OF_WIDTH[32]), None)
        if kind.width == 32 and (last is None or last in _OF_WIDTH[16]):
            return [Finding("L111", f"{_text(items[odd[-1]])} is not a {kind.width}-bit register")]
        return taken
    if odd and not (first == "float" and kind.width == 16 and types & _OF_WIDTH[16]):
        return [Finding("L111", f"{_text(items[odd[0]])} is not a {kind.width}-bit register")]
    common = "f32" if types <= _FLOATS else next(iter(types)) if len(types) == 1 else f"b{kind.width}"
    if common not in kind.types(values):
        return [Finding("L111", f"the registers are .{common}; the instruction takes " + " or ".join(f".{t}" for t in kind.types(values)))]
    return taken


# ------------------------------------------------------------------------------------------------ the compact notation


def _typed(operand: ptx.Operand, kind: Typed, values: Values, symbols: Symbols) -> str:
    """What the assembler refuses, in words; what cannot be executed is refused by the lowering."""
    if kind.constant and not isinstance(operand, ptx.Integer):
        return f"the operand {kind.name} is an integer constant"
    if isinstance(operand, ptx.Integer) and kind.values is not None and operand.value not in kind.values:
        return f"{operand.value} is not one of the constants that may stand here"
    text = kind.spelt(values)
    if text in ("addr", "any"):
        return _typed_address(operand, kind, values, symbols)
    if text == "label":
        return ""
    first, _, second = text.partition("|")
    vector, _, first = first.rpartition(".")
    if isinstance(operand, ptx.Sink) and not kind.sink and first != "pred":
        return "the destination cannot be dropped"
    if kind.both and not (isinstance(operand, ptx.Pair) and isinstance(operand.second, ptx.Name)):
        return f"the destination is a pair, {kind.name}|p, with a predicate register"
    parts: list[tuple[ptx.Operand, str]] = [(operand, first)]
    if isinstance(operand, ptx.Pair) and second:
        parts = [(operand.first, first), (operand.second, second)]
    elif isinstance(operand, ptx.Vector) and vector:
        parts = [(item, first) for item in operand.items]
    packed = any(value and _PACKED.fullmatch(value) for value in values.values())
    return next(filter(None, (_scalar(part, type, kind, packed, symbols) for part, type in parts)), "")


def _typed_address(operand: ptx.Operand, kind: Typed, values: Values, symbols: Symbols) -> str:
    if not isinstance(operand, ptx.Memory) or not isinstance(operand.base, ptx.Name):
        return ""
    found = symbols(operand.base.text) or ""
    if found[:1] == ".":
        return _variable(operand.base.text, found[1:], kind, values)
    if found[:1] == "f" or found == "pred":
        return f"{operand.base.text} is .{found}: an address stands in an integer register or one without a type"
    if found in WORDS and kind.wide is not None and holds(kind.wide, values):
        return f"{operand.base.text} has 32 bits: a generic or global address has 64"
    return ""


def _variable(name: str, space: str, kind: Typed, values: Values) -> str:
    """What is wrong with the state space of a variable; a generic address is not that of a constant variable."""
    named = kind.space or values.get("space") or values.get("global")
    if named is not None:
        return "" if named.split("::")[0] == space else f"{name} lies in the state space .{space}; the instruction accesses .{named}"
    generic = space == "const" and not {"space", "global"}.isdisjoint(values)
    return f"{name} lies in the state space .const, which a generic address does not reach here" if generic else ""


_PACKED = re.compile(r"\w+x[24]|tf32")
"""Types of several numbers, or of fewer bits than their register has."""


def _is_float(type: str) -> bool:
    return type[0] == "f" or type == "bf16" or _PACKED.fullmatch(type) is not None


def _scalar(operand: ptx.Operand, type: str, kind: Typed, packed: bool, symbols: Symbols) -> str:
    """``packed``: the instruction has a type of several numbers; no register is wider than its type then."""
    wider = kind.wider or TYPE_BITS[type] == 8
    match operand:
        case ptx.Integer(value):
            return f"the integer {value} cannot stand for .{type}" if (packed and wider) or _is_float(type) else ""
        case ptx.Float(width=width):
            taken = type in ("f32", "f64", f"b{width}")
            return "" if taken else f"a floating-point constant of {width} bits cannot stand for .{type}"
        case ptx.Vector(items) if len(items) > 1 and type[0] != "b":
            return f"a vector makes up a type without a sign, not .{type}"
        case ptx.Offset(base):
            return _name(base.text, type, kind, wider, packed, symbols)
        case ptx.Name(text):
            return _name(text, type, kind, wider, packed, symbols)
    return ""


def _name(name: str, type: str, kind: Typed, wider: bool, packed: bool, symbols: Symbols) -> str:
    """What is wrong with a register, a special register or a variable for an operand of a type."""
    found, bits = symbols(name), TYPE_BITS[type]
    if found is None:
        return f"the special register {name} must be moved to a register first" if name[0] == "%" and not kind.special else ""
    if found[0] == ".":
        if not kind.symbols or type[0] == "f":
            return f"the address of {name} must be moved to a register first"
        return f"the address of {name} has 64 bits" if found == ".global" and bits < 64 else ""
    if bits < 16 or found in (type, f"b{bits}"):
        return ""
    if (_is_float(type) and not (wider and not packed and found[0] == "b")) or (packed and wider and re.sub(r"\D", "", found) != str(bits)):
        return f"{name} is .{found}; .{type} stands in a register of type .b{bits} here"
    return ""
