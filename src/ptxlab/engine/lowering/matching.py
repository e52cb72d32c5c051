"""Which catalogue row an instruction is: the opcode against patterns, then the operands against the row's operand types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count, product
from typing import Any

from ptxlab._records import dataclass
from ptxlab.engine.lowering.scope import Table
from ptxlab.engine.program import Register
from ptxlab.isa import kinds
from ptxlab.isa.catalogue import Qualifiers, Row, match
from ptxlab.isa.kinds import HIDDEN, TYPE_BITS, type_bits
from ptxlab.isa.operands import Addr, Const, Group, Op, PairOf, Reg, Resolved, SymbolAddress, Unused
from ptxlab.isa.requirements import Values

__all__ = [
    "Candidate",
    "Mismatch",
    "OperandSpec",
    "candidates",
    "element_type",
    "fits",
    "operand_specs",
    "read_source",
    "shape_of",
    "write_result",
]

_NO_ADDRESS = ("label", "func")
_ABSENT = Unused()


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand as a row declares it: ``kind`` is scalar, vector, pair, addr, label, any, or absent where the modifiers leave it out."""

    name: str
    kind: str
    type: str = ""
    bits: int = 0
    count: int = 1
    second: str = ""
    optional: bool = False
    wider: bool = False
    parts: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row with what its pattern matched and its operands spelt out."""

    row: Row
    q: Qualifiers
    specs: tuple[OperandSpec, ...]
    lines: Mapping[int, list[tuple[int, ...]]]
    """Number of operands -> which ones may be given, by position; those that leave out late ones come first."""
    hidden: tuple[tuple[int, str], ...] = ()
    """Positions of registers that the text does not name, and their kinds (`HIDDEN`)."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why operands do not fit a row: the code of the diagnostic, its message, and the position of the operand (-1: all)."""

    code: str
    message: str
    position: int


def _spec_of(name: str, kind: kinds.Kind, there: bool | None, values: Values) -> OperandSpec:
    """The operand of a kind; ``there`` is None where it may be missing."""
    optional = there is None
    if there is False:
        return OperandSpec(name, "absent")
    match kind:
        case kinds.Typed():
            return _typed(name, kind, kind.spelt(values), optional)
        case kinds.Address() | kinds.TensorAddress():
            return OperandSpec(name, "addr", optional=optional)
        case kinds.Vector(width=width):
            type = _common_type(kind.types(values), width)
            return OperandSpec(name, "vector", type, width, kind.length(values) or 1, optional=optional)
        case kinds.Register(types):
            type = _common_type(types, TYPE_BITS[types[0]])
            return OperandSpec(name, "scalar", type, TYPE_BITS[types[0]], optional=optional)
        case kinds.Predicate():
            return OperandSpec(name, "scalar", "pred", 1, optional=optional)
        case kinds.Immediate():
            return OperandSpec(name, "scalar", "b32", 32, optional=optional)
    return OperandSpec(name, "scalar", "b64", 64, optional=optional)


def _common_type(types: tuple[str, ...], width: int) -> str:
    """The type whose registers are those of any of the types."""
    signs = {type[0] for type in types}
    return f"b{width}" if signs == {"b"} or {"f", "u"} <= signs else f"f{width}" if "f" in signs else f"u{width}"


def _typed(name: str, kind: kinds.Typed, text: str, optional: bool) -> OperandSpec:
    if text in ("addr", "label", "any"):
        return OperandSpec(name, text, optional=optional)
    text, _ = HIDDEN.get(text, (text, ""))
    type, _, second = text.partition("|")
    vector, _, type = type.rpartition(".")
    bits = TYPE_BITS[type]
    shape = "pair" if second else "vector" if vector else "scalar"
    return OperandSpec(name, shape, type, bits, int(vector[1:] or 1), second, optional, kind.wider or bits == 8, kind.parts)


@lru_cache(maxsize=65536)
def candidates(opcode: str) -> tuple[Candidate, ...]:
    """Rows that the opcode fits, in the order of the catalogue."""
    found = []
    for row, q in match(opcode):
        values = row.values(q)
        specs = tuple(_spec_of(*shown, values) for shown in row.shown(values))
        hidden = tuple((i, text) for i, (_, text) in enumerate(row.operands) if text in HIDDEN)
        choices = [((i,), ()) if spec.optional else ((i,),) for i, spec in enumerate(specs) if spec.kind != "absent"]
        lines: dict[int, list[tuple[int, ...]]] = {}
        for chosen in product(*choices):
            line = sum(chosen, ())
            lines.setdefault(len(line), []).append(line)
        found.append(Candidate(row, q, specs, lines, hidden))
    return tuple(found)


def operand_specs(op: Op) -> tuple[OperandSpec, ...]:
    """The operand types of a lowered op."""
    for candidate in candidates(op.opcode):
        if candidate.row is op.row:
            return candidate.specs
    return ()


def read_source(read: Callable[[Resolved, str], Any], operand: Resolved, spec: OperandSpec) -> Any:
    """A source as the semantics take it: a value that ``read`` returns, a tuple of them for a vector, None if absent."""
    if spec.kind == "vector" and isinstance(operand, Group):
        return tuple(read(item, spec.type) for item in operand.items)
    return read(operand, spec.type) if spec.kind in ("scalar", "vector", "pair") else operand


def write_result(write: Callable[[Resolved, str, Any], None], operand: Resolved, spec: OperandSpec, value: Any) -> None:
    """Give each part of a destination its value."""
    if spec.kind == "pair":
        write(operand.first if isinstance(operand, PairOf) else operand, spec.type, value[0])
        if isinstance(operand, PairOf):
            write(operand.second, spec.second, value[1])
    elif spec.kind == "vector" and isinstance(operand, Group):
        for item, part in zip(operand.items, value, strict=True):
            write(item, spec.type, part)
    else:
        write(operand, spec.type, value)


def _register_fits(register: Register, type: str, bits: int, wider: bool) -> str | None:
    if register.bits != bits and not (register.bits > bits > 1 and (wider or register.special)):
        return f"{register.name} is .{register.type} ({register.bits} bits), but .{type} ({bits} bits) is expected"
    if (type[0] in "us" and register.type[0] == "f") or (type in ("f32", "f64") and register.type[0] in "us"):
        return f"{register.name} is .{register.type}, but .{type} is expected"
    return None


def _scalar(operand: Resolved, type: str, bits: int, wider: bool, registers: Sequence[Register], write: bool, parts: bool) -> str | None:
    if isinstance(operand, Reg):
        register = registers[operand.index]
        if write and register.special:
            return f"{register.name} is a special register and cannot be written"
        if operand.negated and write:
            return f"a destination cannot be negated: {register.name}"
        return _register_fits(register, type, bits, wider)
    if isinstance(operand, Unused):
        return None if write else "the bit bucket _ stands only for a destination"
    if isinstance(operand, Group) and parts:
        width = bits // len(operand.items) if operand.items else 0
        if width * len(operand.items) != bits or width < 8:
            return f"a vector of {len(operand.items)} cannot make up {bits} bits"
        for item in operand.items:
            message = _scalar(item, f"b{width}", width, False, registers, write, False)
            if message:
                return message
        return None
    if write:
        return f"a register of type .{type} is expected as destination"
    if isinstance(operand, Const):
        if operand.float_width and (type[0] in "us" or bits < 16):
            return f"a floating-point constant cannot stand for .{type}"
        return None
    if isinstance(operand, SymbolAddress) and bits >= 32 and operand.space not in _NO_ADDRESS:
        return None
    return f"a register or constant of type .{type} is expected"


def _fits(spec: OperandSpec, operand: Resolved, registers: Sequence[Register], write: bool) -> str | None:
    kind = spec.kind
    if kind == "scalar":
        return _scalar(operand, spec.type, spec.bits, spec.wider, registers, write, spec.parts)
    if kind == "any":
        return None
    if kind == "addr":
        if not isinstance(operand, Addr):
            return "an address in brackets is expected"
        if isinstance(operand.base, SymbolAddress) and operand.base.space in _NO_ADDRESS:
            return f"{operand.base.name} is a {operand.base.space} and has no address in memory"
        return None
    if kind == "vector":
        if not isinstance(operand, Group) or len(operand.items) != spec.count:
            return f"a vector of {spec.count} registers of type .{spec.type} is expected"
        for item in operand.items:
            message = _scalar(item, spec.type, spec.bits, spec.wider, registers, write, False)
            if message:
                return message
        widths = {registers[item.index].bits for item in operand.items if isinstance(item, Reg)}
        return "the registers of a vector must have the same width" if len(widths) > 1 else None
    if kind == "pair":
        if not isinstance(operand, PairOf):
            return _scalar(operand, spec.type, spec.bits, spec.wider, registers, write, False)
        return _scalar(operand.first, spec.type, spec.bits, spec.wider, registers, write, False) or _scalar(
            operand.second, spec.second, TYPE_BITS[spec.second], False, registers, write, False
        )
    return None if isinstance(operand, SymbolAddress) and operand.space == "label" else "a label is expected"


_SHAPES: dict[Hashable, int] = {}
_NUMBERS = count()
"""No number is given twice, so that the shapes can be forgotten when there are many."""
_FITS: dict[tuple[str, tuple[int, ...]], tuple[Candidate, tuple[int, ...]]] = {}
"""Opcodes with the shapes of operands that fit, and which operand stands where; -1: none."""
_MOST_FITS = 1 << 16


def shape_of(operand: Resolved, registers: Sequence[Register]) -> int:
    """A number for all of an operand that decides whether it fits a row."""
    shape = _shape(operand, registers)
    found = _SHAPES.get(shape)
    if found is None:
        if len(_SHAPES) >= _MOST_FITS:
            _SHAPES.clear()
        found = _SHAPES[shape] = next(_NUMBERS)
    return found


def _shape(operand: Resolved, registers: Sequence[Register]) -> Hashable:
    if isinstance(operand, Reg):
        register = registers[operand.index]
        return register.type, bool(register.special), operand.negated
    if isinstance(operand, Const):
        return operand.float_width
    if isinstance(operand, Addr):
        return "[", None if operand.base is None else _shape(operand.base, registers)
    if isinstance(operand, Group):
        return "{", *[_shape(item, registers) for item in operand.items]
    if isinstance(operand, SymbolAddress):
        return operand.space
    if isinstance(operand, PairOf):
        return "|", _shape(operand.first, registers), _shape(operand.second, registers)
    return None


def fits(opcode: str, shapes: tuple[int, ...], operands: list[Resolved], table: Table) -> tuple[Candidate, tuple[Resolved, ...]] | Mismatch:
    """The first row that takes the operands, and the operands in its order; or why the last one that comes near does not."""
    known = _FITS.get((opcode, shapes))
    if known is not None:
        return known[0], tuple([_ABSENT if at < 0 else operands[at] for at in known[1]])
    trouble: Mismatch | None = None
    for candidate in candidates(opcode):
        given = operands
        if candidate.hidden:
            given = list(operands)
            for position, kind in candidate.hidden:
                given.insert(position, Reg(table.hidden(*HIDDEN[kind])))
        fitted = _fit(candidate, given, table.registers)
        if not isinstance(fitted, Mismatch):
            wrong = _wrong_address(operands, table.registers)
            if wrong is None:
                _note(opcode, shapes, operands, candidate, fitted)
            return wrong or (candidate, fitted)
        if trouble is None or fitted.position > trouble.position:
            trouble = fitted
    assert trouble is not None
    return trouble


def _wrong_address(operands: Sequence[Resolved], registers: Sequence[Register]) -> Mismatch | None:
    for position, operand in enumerate(operands):
        if isinstance(operand, Addr) and isinstance(operand.base, Reg) and registers[operand.base.index].bits not in (32, 64):
            register = registers[operand.base.index]
            return Mismatch("U206", f"the address register {register.name} is .{register.type}, but 32 or 64 bits are expected", position)
    return None


def _note(opcode: str, shapes: tuple[int, ...], operands: Sequence[Resolved], candidate: Candidate, fitted: tuple[Resolved, ...]) -> None:
    """Remember where operands stand that are taken as they are."""
    places = {id(operand): at for at, operand in enumerate(operands)}
    taken = tuple([-1 if operand is _ABSENT else places.get(id(operand), -2) for operand in fitted])
    if len(places) == len(operands) == sum(at >= 0 for at in taken) and -2 not in taken:
        if len(_FITS) >= _MOST_FITS:
            _FITS.clear()
        _FITS[opcode, shapes] = candidate, taken


def _fit(candidate: Candidate, operands: Sequence[Resolved], registers: Sequence[Register]) -> tuple[Resolved, ...] | Mismatch:
    """The operands in the order of the row, absent ones as `Unused`; or why they do not fit."""
    lines = candidate.lines.get(len(operands))
    if lines is None:
        least, most = min(candidate.lines), max(candidate.lines)
        want = str(most) if least == most else f"{least} to {most}"
        return Mismatch("U207", f"{len(operands)} operands are given, {want} are expected", -1)
    trouble: Mismatch | None = None
    for line in lines:
        taken: list[Resolved] = [_ABSENT] * len(candidate.specs)
        for at, (i, operand) in enumerate(zip(line, operands, strict=True)):
            spec = candidate.specs[i]
            if spec.kind == "scalar" and isinstance(operand, Group) and len(operand.items) == 1:
                operand = operand.items[0]
            if spec.parts and isinstance(operand, SymbolAddress) and operand.space == "func":
                operand = Const(operand.offset)
            message = _fits(spec, operand, registers, i < candidate.row.outputs)
            if message is not None:
                if trouble is None or at >= trouble.position:
                    trouble = Mismatch("U206", f"operand {at + 1}: {message}", at)
                break
            taken[i] = operand
        else:
            return tuple(taken)
    assert trouble is not None
    return trouble


@cache
def element_type(type: str) -> str:
    """The vocabulary's element type for an operand type; 128-bit operands are pairs of i64."""
    if type in ("f32", "f64"):
        return type
    bits = type_bits(type)
    return "i64" if bits == 128 else f"i{bits}"
