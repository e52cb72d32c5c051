"""Which instructions only move halves of words: copies, packing and unpacking, choices, permutations and shifts by whole halves.

An instruction's semantics are evaluated over halves instead of numbers. What is not made of halves of the operands is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ptxlab.engine.lowering.matching import operand_specs, read_source
from ptxlab.engine.lowering.register_use import constant_bits, flatten
from ptxlab.engine.program import Program
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, Op, Reg, Resolved

__all__ = ["ZERO", "Chosen", "Half", "MovedHalf", "moved_halves"]

_HALF = 16
_ONES = (1 << _HALF) - 1


class Half(NamedTuple):
    """One of the halves of words that a register consists of, the lowest is 0."""

    register: int
    number: int


class Chosen(NamedTuple):
    """Half ``a`` in the lanes in which a predicate holds, else ``b``."""

    predicate: Reg
    a: MovedPart
    b: MovedPart


ZERO = 0
MovedPart: TypeAlias = Half | int | None
"""A half of a register, a constant, or None for what is computed."""
MovedHalf: TypeAlias = MovedPart | Chosen
_Value: TypeAlias = tuple[MovedHalf, ...]


_COMPUTED: _Value = (None,) * 4


class _ComputedError(Exception):
    """An instruction does more than to move halves."""


def _compute(*_: Any) -> Any:
    raise _ComputedError


class _Halves:
    """The vocabulary of semantics over halves; a predicate is the operand that names it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _compute

    def const(self, value: float, type: str) -> _Value:
        if type[0] != "i" or int(type[1:]) < _HALF:
            raise _ComputedError
        return _cut(int(value), int(type[1:]))

    def known(self, a: _Value) -> int | None:
        numbers = [half for half in a if isinstance(half, int)]
        return sum(half << _HALF * i for i, half in enumerate(numbers)) if a and len(numbers) == len(a) else None

    def select(self, condition: Resolved, a: _Value, b: _Value) -> _Value:
        if not isinstance(condition, Reg):
            raise _ComputedError
        return tuple(_chosen(condition, *pair) for pair in zip(a, b, strict=True))

    def shl(self, a: _Value, amount: _Value) -> _Value:
        halves, rest = self._amount(amount, len(a))
        return _COMPUTED[: len(a)] if rest else (*(ZERO,) * halves, *a[: len(a) - halves])

    def lshr(self, a: _Value, amount: _Value) -> _Value:
        halves, rest = self._amount(amount, len(a))
        return _COMPUTED[: len(a)] if rest else (*a[halves:], *(ZERO,) * halves)

    def _amount(self, amount: _Value, most: int) -> tuple[int, int]:
        """How many halves a value is shifted, and the rest."""
        known = self.known(amount)
        if known is None:
            raise _ComputedError
        return (most, 0) if known >= most * _HALF else divmod(known, _HALF)

    def and_(self, a: _Value, b: _Value) -> _Value:
        return tuple(_both(*pair, unit=_ONES, zero=ZERO) for pair in zip(a, b, strict=True))

    def or_(self, a: _Value, b: _Value) -> _Value:
        return tuple(_both(*pair, unit=ZERO, zero=_ONES) for pair in zip(a, b, strict=True))

    def zext(self, a: _Value, type: str) -> _Value:
        return (*a, *(ZERO,) * (int(type[1:]) // _HALF - len(a)))

    def trunc(self, a: _Value, type: str) -> _Value:
        if int(type[1:]) < _HALF:
            raise _ComputedError
        return a[: int(type[1:]) // _HALF]


def _chosen(condition: Reg, a: MovedHalf, b: MovedHalf) -> MovedHalf:
    if a == b:
        return a
    return None if isinstance(a, Chosen) or isinstance(b, Chosen) else Chosen(condition, a, b)


def _both(a: MovedHalf, b: MovedHalf, unit: int, zero: int) -> MovedHalf:
    """The result of an operation that has a neutral element, and one with which the result is always the same."""
    if zero in (a, b):
        return zero
    return b if a == unit else a if b == unit else None


def _cut(number: int, bits: int) -> _Value:
    return tuple(number >> at & _ONES for at in range(0, bits, _HALF))


def moved_halves(program: Program, op: Op) -> dict[int, tuple[MovedHalf, ...]]:
    """The halves of each register that a pure instruction writes, the lowest first; nothing of those that it computes."""
    outputs, specs = op.row.outputs, operand_specs(op)
    if outputs != 1 or specs[0].kind != "scalar" or type_bits(specs[0].type) < _HALF:
        return {}

    def read(operand: Resolved, type: str) -> Any:
        return operand if type == "pred" else _read(program, operand, type_bits(type))

    try:
        value = op.row.semantics(
            _Halves(), op.q, *[read_source(read, operand, spec) for operand, spec in zip(op.operands[1:], specs[1:], strict=True)]
        )
    except _ComputedError:
        return {}
    target = op.operands[0]
    items = flatten(target)
    each = type_bits(specs[0].type) // _HALF // len(items)
    halves = _flat(value)
    return {
        item.index: halves[i * each : (i + 1) * each]
        for i, item in enumerate(items)
        if isinstance(item, Reg) and each and program.registers[item.index].bits == each * _HALF
    }


def _flat(value: Any) -> _Value:
    """The halves of a value of 128 bits, which is a pair, or of another one."""
    return tuple(half for part in value for half in part) if value and _is_pair(value) else value


def _is_pair(value: Sequence[Any]) -> bool:
    return all(type(part) is tuple for part in value)


def _read(program: Program, operand: Resolved, bits: int) -> Any:
    """An operand as halves; of 128 bits as a pair."""
    halves = _halves(program, operand, bits)
    return (halves[: len(halves) // 2], halves[len(halves) // 2 :]) if bits == 2 * 64 else halves


def _halves(program: Program, operand: Resolved, bits: int) -> _Value:
    if bits < _HALF:
        raise _ComputedError
    if isinstance(operand, Group):
        return tuple(half for item in operand.items for half in _halves(program, item, bits // len(operand.items)))
    if isinstance(operand, Const):
        return _cut(constant_bits(operand, bits), bits)
    if isinstance(operand, Reg) and not operand.negated and program.registers[operand.index].bits == bits:
        return tuple(Half(operand.index, i) for i in range(bits // _HALF))
    return (None,) * (bits // _HALF)
