"""Operands against the kinds that a form declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ptxlab import ptx
from ptxlab.isa.legality import Address, Immediate, Kind, Predicate, Register, Sink, TensorAddress, Values, Vector

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


def _holds(when: Mapping[str, object], values: Values) -> bool:
    return all(values.get(group) in allowed for group, allowed in when.items())  # type: ignore[operator]


def check_operand(operand: ptx.Operand, kind: Kind, values: Values, symbols: Symbols) -> list[Finding]:
    """What is wrong with an operand of a declared kind; findings of lower severity for what only the assembler takes."""
    match kind:
        case TensorAddress(types, says):
            return _tensor_address(operand, types, says, symbols)
        case Address():
            return _address(operand, kind, kind.generic is not None and _holds(kind.generic, values), symbols)
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


def _tensor_address(operand: ptx.Operand, types: tuple[str, ...], says: str, symbols: Symbols) -> list[Finding]:
    if not isinstance(operand, ptx.Memory) or operand.extra or operand.unified:
        return [Finding("L111", f"{_text(operand)} is not {says}")]
    found = symbols(operand.base.text) if isinstance(operand.base, ptx.Name) else None
    if found not in types:
        return [Finding("L111", f"{_text(operand)} is not {says}, with a register of type " + " or ".join(f".{t}" for t in types))]
    if operand.offset:
        return [Finding("L124", "the specification has a tensor-memory address without an offset")]
    return []


def _address(operand: ptx.Operand, kind: Address, generic: bool, symbols: Symbols) -> list[Finding]:
    wrong = [Finding("L111", f"{_text(operand)} is not {kind.says}")]
    if kind.bare and isinstance(operand, ptx.Name | ptx.Offset):
        name = operand.text if isinstance(operand, ptx.Name) else operand.base.text
        taken = symbols(name) not in (None, "pred", ".global", ".const", ".local", ".param")
        return [Finding("L124", "the specification has this address in brackets")] if taken else wrong
    if not isinstance(operand, ptx.Memory) or operand.extra or operand.unified or not isinstance(operand.base, ptx.Name):
        return wrong
    if operand.offset and not kind.offset:
        return [Finding("L111", f"{kind.says} stands here without an offset")]
    found = symbols(operand.base.text) or ""
    if found in (kind.generic_types if generic else kind.types):
        short = [Finding("L124", f"the specification has an address in a 32-bit or 64-bit register, not in a .{found} one")]
        return short if found in _OF_WIDTH[16] else []
    if generic and found in kind.types:
        return [Finding("L111", f"a generic address stands in a 64-bit register, not in a .{found} one")]
    return [] if found.removeprefix(".") in (kind.generic_spaces if generic else kind.spaces) else wrong


def _register(operand: ptx.Operand, kind: Register, symbols: Symbols) -> list[Finding]:
    if isinstance(operand, ptx.Sink) and kind.sink:
        return []
    if isinstance(operand, ptx.Vector) and len(operand.items) == 1 and not kind.immediate:
        operand = operand.items[0]
    if isinstance(operand, ptx.Integer) and kind.immediate:
        if kind.values is not None and not kind.values(operand.value):
            return [Finding("L113", f"{operand.value} is not {kind.says}")]
        return [] if kind.integers else [Finding("L124", f"the specification has {kind.says}, not the constant {operand.value}")]
    if isinstance(operand, ptx.Offset) and kind.offset and symbols(operand.base.text) in kind.types:
        return [Finding("L124", f"the specification has {kind.says}, not a sum")]
    if isinstance(operand, ptx.Name) and symbols(operand.text) in kind.types:
        return []
    return [Finding("L111", f"{_text(operand)} is not {kind.says}")]


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
    types: set[str] = set()
    constants = False
    for item in operand.items:
        found = symbols(item.text) if isinstance(item, ptx.Name) else None
        if found is not None and found in _OF_WIDTH[kind.width]:
            types.add(found)
        elif kind.constants and (isinstance(item, ptx.Integer) or (isinstance(item, ptx.Float) and item.width == 32)):
            constants = constants or isinstance(item, ptx.Integer)
        else:
            return [Finding("L111", f"{_text(item)} is not a {kind.width}-bit register")]
    if not types:
        return [] if kind.bare and constants else [Finding("L111", "the vector holds no register")]
    if "f32" in types and (types & {"u32", "s32"} or constants):
        return [Finding("L111", "floating-point registers and integers stand in one vector")]
    common = next(iter(types)) if len(types) == 1 and not constants else f"b{kind.width}"
    if common not in kind.types(values):
        return [Finding("L111", f"the registers are .{common}; the instruction takes " + " or ".join(f".{t}" for t in kind.types(values)))]
    names = [item.text for item in operand.items if isinstance(item, ptx.Name)]
    if kind.distinct and len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        return [Finding("L114", f"{repeated} stands twice in the destination")]
    return []
