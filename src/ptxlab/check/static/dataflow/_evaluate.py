"""Values that instructions give to registers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ptxlab.check.static.dataflow._affine import Affine, Multiple, Opaque, Sum
from ptxlab.check.static.dataflow._outcomes import Outcomes
from ptxlab.check.static.dataflow._values import EVERYWHERE, Symbol, Symbols, Value, constant
from ptxlab.engine import Program
from ptxlab.engine.lowering.matching import OperandSpec, operand_specs
from ptxlab.engine.lowering.register_use import constant_bits
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Addr, Const, Group, Op, PairOf, Reg, Resolved, SymbolAddress, Unused

__all__ = ["Evaluator", "State"]

_MOST_LEAVES = 32
_NO_WIDTH = 64
"""What is not written is calculated with so many bits."""
_MOST_OPTIONS = 4
State = dict[int, Value]
"""The values of registers."""


@dataclass(slots=True)
class _Result:
    """What an instruction has written for certain values.

    Only if all of ``symbols`` get values that are known on some path, such a value can be added to it; none: it stays as it is.
    """

    read: list[Value]
    written: list[tuple[int, Value]]
    symbols: list[Symbol]


@dataclass(slots=True)
class _Plan:
    """How a pure instruction is evaluated: its sources, those that no register decides as values, with their widths; 0: not a number.

    ``written``: the positions of the registers that it writes among its results; ``widths``: those of all its results.
    """

    specs: tuple[OperandSpec, ...]
    sources: list[tuple[Resolved | Value | None, int]] | None
    floating: bool
    written: tuple[int, ...]
    widths: tuple[int, ...]


class Evaluator:
    """Evaluates the operands and the pure instructions of a program."""

    def __init__(self, program: Program, symbols: Symbols) -> None:
        self.program = program
        self.symbols = symbols
        self.x = Affine()
        self._memory: dict[Hashable, tuple[Value, ...]] = {}
        self._plans: dict[int, _Plan] = {}
        self._forms: dict[tuple[int, str], tuple[tuple[OperandSpec, ...], tuple[int, ...], bool]] = {}
        self._never_affine: set[Hashable] = set()
        self._results: list[dict[tuple[int, ...], _Result]] = [{} for _ in program.ops]
        self._unwritten: dict[int, Value] = {}
        self._opaque_values: dict[Hashable, dict[int, Value]] = {}

    def unwritten(self, register: int) -> Value:
        """A register that nothing has written."""
        found = self._unwritten.get(register)
        if found is None:
            found = self._unwritten[register] = Value(self.symbols.get(("unwritten", register)), 0)
        return found

    def operand(self, operand: Resolved, state: State, bits: int = 64) -> Value | None:
        """The value of a register, constant, variable's address, or of the address in brackets; None for others."""
        match operand:
            case Reg(index, negated):
                found = state.get(index) or self.unwritten(index)
                if negated and self.program.registers[index].bits == 1:
                    return found.inverse
                return None if negated else found
            case Const():
                return constant(constant_bits(operand, bits))
            case SymbolAddress():
                return self._address(operand, bits)
            case Addr(base, offset):
                if base is None:
                    return constant(offset & (1 << 64) - 1)
                found_base = self.operand(base, state, 64)
                if found_base is None:
                    return None
                if not offset:
                    return found_base
                wide = 64 if not isinstance(base, Reg) else self.program.registers[base.index].bits
                return Value(found_base.symbol, _plus(found_base.data, offset, wide), found_base.root)
            case Group(items) if 0 < bits <= 64:
                return self._packed([self.operand(item, state, bits // len(items)) for item in items], bits // len(items))
        return None

    def _packed(self, items: list[Value | None], width: int) -> Value | None:
        """Values side by side, the first lowest; None if one is not exact."""
        total: Any = 0
        for number, item in enumerate(items):
            if item is None or not item.exact:
                return None
            data = item.data if isinstance(item.data, int) else item.data.astype(np.uint64)
            total = total + (data & ((1 << width) - 1)) * (1 << number * width)
        return Value(None, total, next((item.root for item in items if item is not None and item.root), ""))

    def _address(self, operand: SymbolAddress, bits: int) -> Value:
        if operand.space in ("shared", "param", "local"):
            return Value(None, operand.offset & (1 << bits) - 1, operand.name if operand.space == "shared" else "")
        return Value(self.symbols.get(("address", operand.space, operand.name), uniform=True), operand.offset & (1 << bits) - 1)

    # ----------------------------------------------------------------------------------------------- pure instructions

    def pure(self, op: Op, read: list[Value], state: State) -> list[tuple[int, Value]]:
        """What a pure instruction writes that reads these values."""
        same = tuple(map(id, read))
        known = self._results[op.index].get(same)
        if known is not None:
            for symbol in known.symbols:
                if not symbol.options:
                    return known.written
            if not known.symbols:
                return known.written
        written = self._pure(op, state)
        symbols: list[Symbol] = []
        for _, value in written:
            if value.symbol is not None and not value.symbol.options:
                symbols = [each.symbol for each in read if each.symbol is not None]
                break
        self._results[op.index][same] = _Result(read, written, symbols)
        return written

    def _pure(self, op: Op, state: State) -> list[tuple[int, Value]]:
        plan = self._plans.get(op.index)
        if plan is None:
            plan = self._plans[op.index] = self._plan(op)
        if plan.sources is None:
            return self._opaque(op, [None], state)
        sources: list[Value | None] = []
        plain = True
        for operand, bits in plan.sources:
            if operand is None or isinstance(operand, Value):
                sources.append(operand)
                continue
            value: Value | None = None
            if bits:
                plain_register = isinstance(operand, Reg) and not operand.negated
                value = state.get(operand.index) if plain_register else None  # type: ignore[union-attr]
                if value is None:
                    value = self.operand(operand, state, bits)
            plain = plain and value is not None
            sources.append(value)
        if not plain:
            return self._opaque(op, sources, state)
        pattern = (id(op.row), op.opcode, tuple([value is not None and value.symbol is not None for value in sources]))
        if True in pattern[2] and (plan.floating or pattern in self._never_affine):
            return self._opaque(op, sources, state)
        key = (id(op.row), op.opcode, *[None if value is None else value.key for value in sources])
        made = self._memory.get(key)
        if made is None:
            made = self._memory[key] = self._evaluate(op, plan.specs, sources, pattern) or ()
        if not made:
            return self._opaque(op, sources, state)
        found = self._destinations(op, plan.specs, made)
        return found if len(found) == len(self.program.writes[op.index]) else self._opaque(op, sources, state)

    def _plan(self, op: Op) -> _Plan:
        key = id(op.row), op.opcode
        form = self._forms.get(key)
        if form is None:
            specs = operand_specs(op)
            sizes = tuple([(spec.bits or 64) if spec.kind in ("scalar", "pair") else 0 for spec in specs[op.row.outputs :]])
            form = self._forms[key] = specs, sizes, any(spec.type[:1] == "f" for spec in specs)
        specs, bits_of_sources, floating = form
        parts = _result_parts(op)
        widths = tuple([self.program.registers[part.index].bits if isinstance(part, Reg) else _NO_WIDTH for part in parts])
        written = tuple([at for at, part in enumerate(parts) if isinstance(part, Reg)])
        if len(written) != (count := len(self.program.writes[op.index])):
            written = tuple(range(count))
        if len(specs) != len(op.operands):
            return _Plan(specs, None, False, written, widths)
        sources: list[tuple[Resolved | Value | None, int]] = []
        for operand, bits in zip(op.operands[op.row.outputs :], bits_of_sources, strict=True):
            known: Resolved | Value | None = operand
            if isinstance(operand, Unused):
                known = None
            elif bits and isinstance(operand, Const | SymbolAddress):
                known = self.operand(operand, {}, bits)
            sources.append((known, bits))
        return _Plan(specs, sources, floating, written, widths)

    def _destinations(self, op: Op, specs: tuple[OperandSpec, ...], made: tuple[Value, ...]) -> list[tuple[int, Value]]:
        found: list[tuple[int, Value]] = []
        values = iter(made)
        for operand, spec in zip(op.operands[: op.row.outputs], specs, strict=False):
            parts: tuple[Resolved, ...] = (operand,)
            if spec.kind == "pair":
                parts = (operand.first, operand.second) if isinstance(operand, PairOf) else (operand, Unused())
            for part in parts:
                value = next(values)
                if isinstance(part, Reg):
                    found.append((part.index, value))
        return found

    def _evaluate(
        self, op: Op, specs: tuple[OperandSpec, ...], sources: list[Value | None], pattern: Hashable = None
    ) -> tuple[Value, ...] | None:
        """The results as values; None if they have no form that is followed, then the pattern of the sources is remembered."""
        outcomes = Outcomes((op.row, op.opcode, self._plans[op.index].widths), sources)
        found = outcomes.find()
        if found is None:
            found = self._calculate(op, specs, sources, pattern)
            if found is not None:
                outcomes.keep(found)
        return found

    def _calculate(
        self, op: Op, specs: tuple[OperandSpec, ...], sources: list[Value | None], pattern: Hashable
    ) -> tuple[Value, ...] | None:
        outputs = op.row.outputs
        if any(spec.kind not in ("scalar", "pair") or spec.bits > 64 for spec in specs[:outputs]):
            return None
        given: list[Any] = [
            operand if value is None or spec.kind not in ("scalar", "pair") else self._source(value, spec.type, op, operand)
            for value, spec, operand in zip(sources, specs[outputs:], op.operands[outputs:], strict=True)
        ]
        given = [
            None if isinstance(each, Unused) and spec.kind == "scalar" else each for each, spec in zip(given, specs[outputs:], strict=True)
        ]
        try:
            with np.errstate(all="ignore"):
                result = op.row.semantics(self.x, op.q, *given)
        except Opaque as opaque:
            if opaque.low is not None:
                return self._placed(op, specs, sources, *opaque.low)
            if opaque.limits is None:
                if not opaque.options:
                    self._never_affine.add(pattern)
                    return None
                return self._chosen(op, specs, sources, opaque)
            key = ("limited", id(op.row), op.opcode, *[None if value is None else value.key for value in sources])
            return (self._limited(key, sources, opaque),)
        except (TypeError, AttributeError):
            self._never_affine.add(pattern)
            return None
        if isinstance(result, Multiple):
            self._never_affine.add(pattern)
            return None
        results = (result,) if outputs == 1 else result
        root = next((value.root for value in sources if value is not None and value.root), "")
        made: list[Value] = []
        for operand, spec, value in zip(op.operands[:outputs], specs, results, strict=False):
            pairs = ((operand, spec.type, value),)
            if spec.kind == "pair":
                first, second = (operand.first, operand.second) if isinstance(operand, PairOf) else (operand, Unused())
                pairs = ((first, spec.type, value[0]), (second, spec.second, value[1]))  # type: ignore[assignment]
            for part, type, each in pairs:
                made.append(self._stored(each, type, part, root))
        return tuple(made)

    def _chosen(self, op: Op, specs: tuple[OperandSpec, ...], sources: list[Value | None], opaque: Opaque) -> tuple[Value, ...]:
        """A choice between values by a predicate that is not known."""
        key = ("chosen", id(op.row), op.opcode, *[None if value is None else value.key for value in sources])
        leaves, uniform, _ = _joined(sources)
        symbol = self.symbols.get(key, leaves, uniform)
        symbol.options = tuple(self._stored(each, specs[0].type, op.operands[0], "") for each in opaque.options)
        return (Value(symbol, 0),)

    def _placed(self, op: Op, specs: tuple[OperandSpec, ...], sources: list[Value | None], low: Any, zeros: int) -> tuple[Value, ...]:
        """A number whose high bits are not known."""
        key = ("placed", id(op.row), op.opcode, *[None if value is None else value.key for value in sources])
        leaves, uniform, root = _joined(sources)
        symbol = self.symbols.get(key, leaves, uniform, None, root)
        symbol.zeros = zeros
        stored = self._stored(low, specs[0].type, op.operands[0], root)
        return (Value(symbol, stored.data, root),)

    def _options(self, op: Op, sources: list[Value | None]) -> tuple[tuple[Value, ...], bool]:
        """The results of an instruction for those values of its operands that are known on some path.

        Where several operands have more than one, not all combinations need be on some path: only the first ones are taken.
        """
        for value in sources:
            if value is None or (value.symbol is not None and not value.symbol.options):
                return (), False
        if op.row.outputs != 1 or len(self.program.writes[op.index]) != 1:
            return (), False
        given = [value.alternatives for value in sources if value is not None]
        first = all(value is not None and value.first is not None for value in sources)
        if sum(len(each) > 1 for each in given) > 1:
            given = [each[:1] for each in given] if first else [()]
        count = prod(map(len, given))
        if not 0 < count <= _MOST_OPTIONS:
            return (), False
        specs = self._plans[op.index].specs
        made = [self._evaluate(op, specs, list(choice)) for choice in product(*given)]
        return tuple(values[0] for values in made if values and values[0].exact), first and bool(made[0])

    def _limited(self, key: Hashable, sources: list[Value | None], opaque: Opaque) -> Value:
        leaves, _, _ = _joined(sources)
        return Value(self.symbols.get(key, leaves, False, opaque.limits), int(opaque.inverted))

    def _source(self, value: Value, type: str, op: Op, operand: Resolved) -> Any:
        bits = type_bits(type)
        if isinstance(value.data, int):
            data = self.x.const(value.data & (1 << bits) - 1, f"i{bits}")
        else:
            data = value.data.astype(np.bool_ if bits == 1 else f"u{bits // 8}")
        if value.symbol is not None:
            return Sum(value.symbol, data)
        return self.x.bitcast(data, type) if type in ("f32", "f64") else data

    def _stored(self, result: Any, type: str, operand: Resolved, root: str) -> Value:
        """A result as it stands in its register."""
        symbol = None
        if isinstance(result, Sum):
            symbol, result = result.symbol, result.offset
        if result.dtype.kind == "f":
            result = np.ascontiguousarray(result).view(f"u{result.itemsize}")
        bits = self.program.registers[operand.index].bits if isinstance(operand, Reg) else _NO_WIDTH
        if bits > 1 and result.dtype.kind != "b":
            if type[0] == "s":
                result = result.view(f"i{result.itemsize}").astype(f"i{max(bits, 16) // 8}")
            result = result.astype(f"u{max(bits, 16) // 8}") if bits <= 64 else result
        flat = result.reshape(-1)
        if flat.size == 1 or (flat == flat[0]).all():
            return Value(symbol, int(flat[0]), root)
        return Value(symbol, flat, root)

    def _opaque(self, op: Op, sources: list[Value | None], state: State) -> list[tuple[int, Value]]:
        """A symbol for each register, the same for the same instruction with the same operands."""
        written = self.program.writes[op.index]
        aligned = None not in sources
        if not aligned:
            registers = self.program.reads[op.index]
            sources = [state.get(register) or self.unwritten(register) for register in registers]
            if len(registers) > 8 or any(isinstance(operand, Const | Group) for operand in op.operands[op.row.outputs :]):
                # The constants among the operands are part of what it computes.
                key: Hashable = (op.index, *[value.key for value in sources if value is not None])
            else:
                key = (id(op.row), op.opcode, op.index, *[value.key for value in sources if value is not None])
        else:
            key = (id(op.row), op.opcode, *[value.key for value in sources if value is not None])
        values = self._opaque_values.setdefault(key, {})
        found = []
        for position, register in zip(self._plans[op.index].written, written, strict=True):
            value = values.get(position)
            if value is None:
                leaves, uniform, root = _joined(sources)
                value = values[position] = Value(self.symbols.get((key, position), leaves, uniform, None, root), 0, root)
            if aligned and value.symbol is not None and not value.symbol.options:
                value.symbol.options, value.symbol.first = self._options(op, sources)
            found.append((register, value))
        return found


def _result_parts(op: Op) -> list[Resolved]:
    """The registers among the results of an instruction, and what stands for those that are not written."""
    parts: list[Resolved] = []
    for operand in op.operands[: op.row.outputs]:
        if isinstance(operand, PairOf):
            parts += operand.first, operand.second
        else:
            parts += operand.items if isinstance(operand, Group) else (operand,)
    return parts


def _joined(sources: list[Value | None]) -> tuple[frozenset[int], bool, str]:
    """The leaves of an expression of these values, whether it is the same in all threads, and the variable whose address is in it."""
    leaves: frozenset[int] = frozenset()
    uniform, root = True, ""
    for value in sources:
        if value is None:
            continue
        root = root or value.root
        symbol = value.symbol
        uniform = uniform and isinstance(value.data, int)
        if symbol is not None:
            if symbol.leaves is not leaves:
                leaves = leaves | symbol.leaves if leaves else symbol.leaves
            uniform = uniform and symbol.uniform
    return (leaves if len(leaves) <= _MOST_LEAVES else EVERYWHERE), uniform, root


def _plus(data: Any, offset: int, bits: int) -> Any:
    if isinstance(data, int):
        return data + offset & (1 << bits) - 1
    return (data.astype(np.uint64) + np.uint64(offset & (1 << 64) - 1)) & np.uint64((1 << bits) - 1)
