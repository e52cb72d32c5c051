"""An instruction of the compact notation against its row: versions and targets, rules between modifiers, and what may stand as operands.

The lowering finds the row, and refuses what cannot be executed. Here stands what the assembler refuses besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ptxlab import ptx
from ptxlab.check.static._legality import check_needs, weight
from ptxlab.check.static._operands import Finding, Symbols
from ptxlab.isa import load_all
from ptxlab.isa.catalogue import Row
from ptxlab.isa.kinds import HIDDEN, SHORTS, WORDS, Kind, Typed
from ptxlab.isa.requirements import Values, holds

if TYPE_CHECKING:
    from ptxlab.engine.lowering.matching import OperandSpec

__all__ = ["check_row"]


class _Place(NamedTuple):
    """An operand's place in a row: its name, what the lowering takes there, its kind, and whether it is written."""

    name: str
    spec: OperandSpec
    kind: Kind
    written: bool


class _Fit(NamedTuple):
    """A row that takes as many operands, with the values of its groups."""

    row: Row
    values: Values
    places: tuple[_Place, ...]
    packed: bool
    """Whether the instruction has a type of several numbers: no register is wider than its type then."""


def check_row(instruction: ptx.Instruction, target: str, version: tuple[int, int], symbols: Symbols) -> list[Finding]:
    """Findings about the row that fits best; none where no row takes the opcode with so many operands."""
    tried = []
    opcode = instruction.opcode
    for fit in _fits(opcode, len(instruction.operands)):
        form = fit.row.form
        found = [Finding("L105", rule.message, section=form.section) for rule in form.rules if rule.is_broken(fit.values)]
        found += [f for needed in form.requires for f in check_needs(needed, opcode, fit.values, target, version)]
        for at, (place, operand) in enumerate(zip(fit.places, instruction.operands, strict=True)):
            wrong = _operand(operand, place, fit, symbols)
            if wrong:
                found.append(Finding("L111", wrong, at, fit.row.section))
            elif _is_short(operand, place.kind, symbols):
                found.append(Finding("L124", "the specification has an address in a 32-bit or 64-bit register", at, fit.row.section))
        tried.append(found)
    best = min(tried, key=weight, default=[])
    if version < _WIDEST_SINCE and not any(f.code == "L107" for f in best):
        best = [*best, *_widest(instruction, version, symbols)]
    return best


_WIDEST_SINCE = (8, 3)
"""The first version with registers of type .b128."""


def _widest(instruction: ptx.Instruction, version: tuple[int, int], symbols: Symbols) -> Iterator[Finding]:
    """A finding if an operand is a register of type .b128."""
    for at, operand in enumerate(instruction.operands):
        items = operand.items if isinstance(operand, ptx.Vector) else (operand,)
        if any(isinstance(item, ptx.Name) and symbols(item.text) == "b128" for item in items):
            yield Finding("L107", f"a register of type .b128 needs PTX ISA 8.3; the module has {version[0]}.{version[1]}", at)
            return


@lru_cache(maxsize=4096)
def _fits(opcode: str, count: int) -> tuple[_Fit, ...]:
    from ptxlab.engine.lowering.matching import candidates

    load_all()
    found = []
    for candidate in candidates(opcode):
        row, values = candidate.row, candidate.row.values(candidate.q)
        shown = zip(candidate.specs, row.shown(values), strict=True)
        places = [
            _Place(name, spec, kind, at < row.outputs)
            for at, (spec, (name, kind, _)) in enumerate(shown)
            if kind not in HIDDEN and spec.kind != "absent"
        ]
        spare = count - sum(not place.spec.optional for place in places)
        given = []
        for place in places:
            if not place.spec.optional or spare > 0:
                given.append(place)
                spare -= place.spec.optional
        if len(given) == count:
            values |= {place.name: "given" for place in given if place.spec.optional}
            found.append(_Fit(row, values, tuple(given), any(map(_PACKED.fullmatch, opcode.split(".")))))
    return tuple(found)


def _operand(operand: ptx.Operand, place: _Place, fit: _Fit, symbols: Symbols) -> str:
    """What is wrong with an operand, in words."""
    spec, kind = place.spec, place.kind
    if not isinstance(kind, Typed):
        return ""
    if kind.constant and not isinstance(operand, ptx.Integer):
        return f"the operand {spec.name} is an integer constant"
    if isinstance(operand, ptx.Integer) and kind.values is not None and operand.value not in kind.values:
        return f"{operand.value} is not one of the constants that may stand here"
    if spec.kind in ("addr", "any"):
        return _address(operand, kind, fit.values, symbols)
    if spec.kind not in ("scalar", "pair", "vector"):
        return ""
    if isinstance(operand, ptx.Sink) and place.written and fit.row.kind == "pure" and spec.type != "pred":
        return "the destination cannot be dropped"
    if kind.both and not (isinstance(operand, ptx.Pair) and isinstance(operand.second, ptx.Name)):
        return f"the destination is a pair, {spec.name}|p, with a predicate register"
    parts: list[tuple[ptx.Operand, str]] = [(operand, spec.type)]
    if isinstance(operand, ptx.Pair) and spec.kind == "pair":
        parts = [(operand.first, spec.type), (operand.second, spec.second)]
    elif isinstance(operand, ptx.Vector) and spec.kind == "vector":
        parts = [(item, spec.type) for item in operand.items]
    return next(filter(None, (_scalar(part, type, place, fit, symbols) for part, type in parts)), "")


def _address(operand: ptx.Operand, kind: Typed, values: Values, symbols: Symbols) -> str:
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


def _is_short(operand: ptx.Operand, kind: Kind, symbols: Symbols) -> bool:
    """Whether it is an address in a 16-bit register, which only the assembler takes."""
    if not (isinstance(kind, Typed) and kind.short and isinstance(operand, ptx.Memory) and isinstance(operand.base, ptx.Name)):
        return False
    return symbols(operand.base.text) in SHORTS


_PACKED = re.compile(r"\w+x[24]|tf32")
"""Types of several numbers, or of fewer bits than their register has."""


def _is_float(type: str) -> bool:
    return type[0] == "f" or type == "bf16" or _PACKED.fullmatch(type) is not None


def _scalar(operand: ptx.Operand, type: str, place: _Place, fit: _Fit, symbols: Symbols) -> str:
    narrow = fit.packed and place.spec.wider
    match operand:
        case ptx.Integer(value):
            return f"the integer {value} cannot stand for .{type}" if narrow or _is_float(type) else ""
        case ptx.Float(width=width):
            taken = type in ("f32", "f64", f"b{width}")
            return "" if taken else f"a floating-point constant of {width} bits cannot stand for .{type}"
        case ptx.Vector(items) if len(items) > 1 and type[0] != "b":
            return f"a vector makes up a type without a sign, not .{type}"
        case ptx.Offset(base):
            return _name(base.text, type, place, narrow, symbols)
        case ptx.Name(text):
            return _name(text, type, place, narrow, symbols)
    return ""


def _name(name: str, type: str, place: _Place, narrow: bool, symbols: Symbols) -> str:
    """What is wrong with a register, a special register or a variable for an operand of a type; ``narrow`` where none is wider."""
    found, kind, bits = symbols(name), place.kind, place.spec.bits
    assert isinstance(kind, Typed)
    if found is None:
        return f"the special register {name} must be moved to a register first" if name[0] == "%" and not kind.special else ""
    if found[0] == ".":
        if not kind.symbols or type[0] == "f":
            return f"the address of {name} must be moved to a register first"
        return f"the address of {name} has 64 bits" if found == ".global" and bits < 64 else ""
    if bits < 16 or found in (type, f"b{bits}"):
        return ""
    wide = place.spec.wider and not narrow and found[0] == "b"
    if (_is_float(type) and not wide) or (narrow and re.sub(r"\D", "", found) != str(bits)):
        return f"{name} is .{found}; .{type} stands in a register of type .b{bits} here"
    return ""
