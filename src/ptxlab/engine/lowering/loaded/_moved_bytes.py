"""Which instructions only move bytes: copies, packing and unpacking, choices, permutations, fields, and shifts by whole bytes.

An instruction's semantics are evaluated over bytes instead of numbers. What is not made of bytes of the operands is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ptxlab.engine.lowering.matching import operand_specs, read_source
from ptxlab.engine.lowering.register_use import constant_bits, flatten
from ptxlab.engine.program import Chosen, Joined, Program, Tree, leaves
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, Op, Reg, Resolved

__all__ = ["ZERO", "Byte", "MovedByte", "constant_registers", "moved_bytes"]

_BITS = 8
_ONES = (1 << _BITS) - 1


class Byte(NamedTuple):
    """One of the bytes of a register, the lowest is 0."""

    register: int
    number: int


ZERO = 0
Leaf: TypeAlias = Byte | int | None
"""A byte of a register, a constant, or None for what is computed."""
MovedByte: TypeAlias = Tree[Leaf]
_Value: TypeAlias = tuple[MovedByte, ...]
_NONE: Mapping[int, int] = MappingProxyType({})


class _ComputedError(Exception):
    """An instruction does more than to move bytes."""


def _compute(*_: Any) -> Any:
    raise _ComputedError


class _Bytes:
    """The vocabulary of semantics over bytes; a predicate is the operand that names it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _compute

    def const(self, value: float, type: str) -> _Value:
        if type[0] != "i" or int(type[1:]) < _BITS:
            raise _ComputedError
        return _cut(int(value), int(type[1:]) // _BITS)

    def type(self, a: _Value) -> str:
        return f"i{_BITS * len(a)}"

    def known(self, a: _Value) -> int | None:
        numbers = [byte for byte in a if isinstance(byte, int)]
        return sum(byte << _BITS * i for i, byte in enumerate(numbers)) if a and len(numbers) == len(a) else None

    def select(self, condition: Resolved, a: _Value, b: _Value) -> _Value:
        if not isinstance(condition, Reg):
            raise _ComputedError
        return tuple(_chosen(condition, *pair) for pair in zip(a, b, strict=True))

    def shl(self, a: _Value, amount: _Value) -> _Value:
        number, bits = self.known(a), self._constant(amount)
        if number is not None:
            return _cut(number << min(bits, _BITS * len(a)), len(a))
        count = min(bits // _BITS, len(a))
        return (None,) * len(a) if bits % _BITS and count < len(a) else (*(ZERO,) * count, *a[: len(a) - count])

    def lshr(self, a: _Value, amount: _Value) -> _Value:
        bits = self._constant(amount)
        count = min(bits // _BITS, len(a))
        return (None,) * len(a) if bits % _BITS and count < len(a) else (*a[count:], *(ZERO,) * count)

    def ashr(self, a: _Value, amount: _Value) -> _Value:
        return (None,) * len(a)

    def mul(self, a: _Value, b: _Value) -> _Value:
        number = self._constant(b)
        if number.bit_count() != 1:
            raise _ComputedError
        return self.shl(a, _cut(number.bit_length() - 1, len(a)))

    def sub(self, a: _Value, b: _Value) -> _Value:
        return _cut(self._constant(a) - self._constant(b), len(a))

    def _constant(self, a: _Value) -> int:
        known = self.known(a)
        if known is None:
            raise _ComputedError
        return known

    def not_(self, a: _Value) -> _Value:
        return tuple(byte ^ _ONES if isinstance(byte, int) else None for byte in a)

    def and_(self, a: _Value, b: _Value) -> _Value:
        return tuple(_both(*pair, unit=_ONES, zero=ZERO) for pair in zip(a, b, strict=True))

    def or_(self, a: _Value, b: _Value) -> _Value:
        return tuple(_joined(*pair) if _ONES not in pair else _ONES for pair in zip(a, b, strict=True))

    def xor(self, a: _Value, b: _Value) -> _Value:
        return tuple(_differing(*pair) for pair in zip(a, b, strict=True))

    def zext(self, a: _Value, type: str) -> _Value:
        return (*a, *(ZERO,) * (int(type[1:]) // _BITS - len(a)))

    def trunc(self, a: _Value, type: str) -> _Value:
        if int(type[1:]) < _BITS:
            raise _ComputedError
        return a[: int(type[1:]) // _BITS]


def _chosen(condition: Reg, a: MovedByte, b: MovedByte) -> MovedByte:
    return a if a == b else Chosen(condition, a, b)


def _both(a: MovedByte, b: MovedByte, unit: int, zero: int) -> MovedByte:
    """The result of an operation that has a neutral element, and one with which the result is always the same."""
    if zero in (a, b):
        return zero
    return b if a == unit else a if b == unit or a == b else None


def _joined(a: MovedByte, b: MovedByte) -> MovedByte:
    """Both, one of which may be zero wherever the instruction executes."""
    if ZERO in (a, b) or a == b:
        return a if b == ZERO else b
    return None if any(isinstance(leaf, int) or leaf is None for side in (a, b) for leaf in leaves(side)) else Joined(a, b)


def _differing(a: MovedByte, b: MovedByte) -> MovedByte:
    """The exclusive or: nothing of what is in both."""
    if None in (a, b):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if a == b:
        return ZERO
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Joined) and other in one:
            return one.b if one.a == other else one.a
    return _joined(a, b)


def _cut(number: int, count: int) -> tuple[int, ...]:
    return tuple(number >> _BITS * i & _ONES for i in range(count))


def moved_bytes(program: Program, op: Op, constants: Mapping[int, int] = _NONE) -> dict[int, tuple[MovedByte, ...]]:
    """The bytes of each register that a pure instruction writes, the lowest first; nothing of those that it computes.

    ``constants`` are registers that always hold the same number.
    """
    outputs, specs = op.row.outputs, operand_specs(op)
    if outputs != 1 or specs[0].kind != "scalar" or type_bits(specs[0].type) < _BITS:
        return {}

    def read(operand: Resolved, type: str) -> Any:
        return operand if type == "pred" else _read(program, operand, type_bits(type), constants)

    try:
        value = op.row.semantics(
            _Bytes(), op.q, *[read_source(read, operand, spec) for operand, spec in zip(op.operands[1:], specs[1:], strict=True)]
        )
    except _ComputedError:
        return {}
    target = op.operands[0]
    items = flatten(target)
    each = type_bits(specs[0].type) // _BITS // len(items)
    found = _flat(value)
    return {
        item.index: found[i * each : (i + 1) * each]
        for i, item in enumerate(items)
        if isinstance(item, Reg) and each and program.registers[item.index].bits == each * _BITS
    }


def _flat(value: Any) -> _Value:
    """The bytes of a value of 128 bits, which is a pair, or of another one."""
    return tuple(byte for part in value for byte in part) if value and _is_pair(value) else value


def _is_pair(value: Sequence[Any]) -> bool:
    return all(type(part) is tuple for part in value)


def _read(program: Program, operand: Resolved, bits: int, constants: Mapping[int, int]) -> Any:
    """An operand as bytes; of 128 bits as a pair."""
    found = _bytes(program, operand, bits, constants)
    return (found[: len(found) // 2], found[len(found) // 2 :]) if bits == 2 * 64 else found


def _bytes(program: Program, operand: Resolved, bits: int, constants: Mapping[int, int]) -> _Value:
    if bits < _BITS:
        raise _ComputedError
    if isinstance(operand, Group):
        return tuple(byte for item in operand.items for byte in _bytes(program, item, bits // len(operand.items), constants))
    if isinstance(operand, Const):
        return _cut(constant_bits(operand, bits), bits // _BITS)
    if isinstance(operand, Reg) and operand.index in constants:
        return _cut(constants[operand.index], bits // _BITS)
    if isinstance(operand, Reg) and not operand.negated and program.registers[operand.index].bits >= bits:
        return tuple(Byte(operand.index, i) for i in range(bits // _BITS))
    return (None,) * (bits // _BITS)


def constant_registers(program: Program, writers: Mapping[int, Sequence[Op]]) -> dict[int, int]:
    """The registers that always hold the same number; ``writers`` are the ops that write each register."""
    found = {}
    for register, ops in writers.items():
        if len(ops) == 1 and ops[0].guard is None and ops[0].row.kind == "pure" and not program.reads[ops[0].index]:
            made = moved_bytes(program, ops[0]).get(register, (None,))
            if all(isinstance(byte, int) for byte in made):
                found[register] = sum(byte << _BITS * i for i, byte in enumerate(made) if isinstance(byte, int))
    return found
