"""Constants and constant expressions, folded with the types of section "Integer Constant Expression Evaluation"."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable
from typing import Literal, NamedTuple

from ptxlab.ptx._cursor import MAX_DEPTH, Cursor
from ptxlab.ptx.ast import Float, Integer

__all__ = ["constant", "integer", "number"]

_M64 = (1 << 64) - 1
_S63 = 1 << 63

Type = Literal["s64", "u64", "f64", "f32"]


class _Value(NamedTuple):
    """A typed value; an f32 is held as its bits, which no operator but a sign touches."""

    type: Type
    value: int | float


_INTEGER = re.compile(r"(?:0[xX]([0-9a-fA-F]++)|0[bB]([01]++)|0([0-7]*+)|([1-9]\d*+))(U?+)", re.ASCII)
_DECIMAL_FLOAT = re.compile(r"(?:\d++\.\d*+|\.\d++)(?:[eE][+-]?+\d++)?+|\d++[eE][+-]?+\d++", re.ASCII)
_HEX_FLOAT = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", re.ASCII)
_BASES = (16, 2, 8, 10)


def constant(c: Cursor, depth: int = 0) -> Integer | Float:
    """Take a constant expression and fold it."""
    result = _conditional(c, depth)
    if result.type == "f32":
        return Float(int(result.value), 32)
    if result.type == "f64":
        return Float(struct.unpack("<Q", struct.pack("<d", result.value))[0], 64)
    return Integer(int(result.value))


def integer(c: Cursor, what: str, depth: int = 0) -> int:
    """Take a constant expression that must be an integer."""
    start = c.start
    result = _conditional(c, depth)
    if result.type in ("f32", "f64"):
        c.fail("S109", f"{what} must be an integer", start, c.previous_end)
    return int(result.value)


# ----------------------------------------------------------------------------------------- literals


def _literal(c: Cursor) -> _Value:
    text = c.value
    if m := _INTEGER.fullmatch(text):
        index = next(i for i in (1, 2, 3, 4) if m[i] is not None)
        digits = m[index].lstrip("0") or "0"
        value = int(digits, _BASES[index - 1]) if len(digits) <= 64 else _M64 + 1
        if value > _M64:
            c.fail("S108", "this integer does not fit in 64 bits", reason="Integer Constants")
        return _Value("u64" if m[5] or value >= _S63 else "s64", value)
    if m := _HEX_FLOAT.fullmatch(text):
        if m[1]:
            return _Value("f32", int(m[1], 16))
        return _Value("f64", struct.unpack(">d", bytes.fromhex(m[2]))[0])
    if _DECIMAL_FLOAT.fullmatch(text):
        return _Value("f64", float(text))
    return c.fail(
        "S108",
        f"malformed number {c.found()}",
        fix="an integer is 12, 0x1F, 0b101 or 017, with an optional U; a float 1.5e3, 0f and 8 or 0d and 16 hex digits",
    )


def number(c: Cursor, what: str) -> int:
    """Take one integer literal, no expression."""
    if c.kind != "number":
        c.expected(what)
    value = _literal(c)
    if value.type in ("f32", "f64"):
        c.fail("S108", f"{what} must be an integer, found {c.found()}")
    c.advance()
    return int(value.value)


# ---------------------------------------------------------------------------------------- operators


def _of(type: Type, value: int) -> _Value:
    """The value with its low 64 bits, signed or unsigned."""
    return _Value("u64", value & _M64) if type == "u64" else _Value("s64", ((value + _S63) & _M64) - _S63)


def _quotient(a: int, b: int) -> int:
    """C's division, which rounds toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_PRECEDENCE = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, ">>": 8, "<<": 8, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_CONVERTED: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_SHIFTS: dict[str, Callable[[int, int], int]] = {"<<": lambda a, b: a << b if b < 64 else 0, ">>": lambda a, b: a >> min(b, 64)}
_FLOATING: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _apply(c: Cursor, symbol: str, a: _Value, b: _Value, span: tuple[int, int]) -> _Value:
    if "f32" in (a.type, b.type):
        c.fail("S109", "a 0f constant cannot be used in an expression", *span, fix="write it in decimal or as 0d")
    if "f64" in (a.type, b.type):
        if a.type != b.type or (symbol not in _FLOATING and symbol not in _COMPARISONS and symbol != "/"):
            c.fail("S109", f"operator '{symbol}' takes two integers, or (but for bits and logic) two floats", *span)
        return _apply_float(symbol, float(a.value), float(b.value))
    if symbol in ("&&", "||"):
        both = bool(a.value), bool(b.value)
        return _Value("s64", int(all(both) if symbol == "&&" else any(both)))
    if symbol in ("/", "%") and not b.value:
        c.fail("S109", "division by zero in a constant expression", *span)
    if symbol == "%":
        return _of("s64", (int(a.value) & _M64) % (int(b.value) & _M64))
    if symbol in _SHIFTS:
        return _of(a.type, _SHIFTS[symbol](int(a.value), int(b.value) & _M64))
    # The usual arithmetic conversions: unsigned if either is.
    type: Type = "u64" if "u64" in (a.type, b.type) else "s64"
    x, y = (int(v.value) & _M64 if type == "u64" else int(v.value) for v in (a, b))
    if symbol in _COMPARISONS:
        return _Value("s64", int(_COMPARISONS[symbol](x, y)))
    return _of(type, _CONVERTED[symbol](x, y))


def _apply_float(symbol: str, a: float, b: float) -> _Value:
    if symbol in _COMPARISONS:
        return _Value("s64", int(_COMPARISONS[symbol](a, b)))
    if symbol == "/":
        if b == 0.0:
            undefined = a == 0.0 or math.isnan(a)
            return _Value("f64", math.nan if undefined else math.copysign(math.inf, a) * math.copysign(1.0, b))
        return _Value("f64", a / b)
    return _Value("f64", _FLOATING[symbol](a, b))


# ------------------------------------------------------------------------------------------ grammar


def _conditional(c: Cursor, depth: int) -> _Value:
    if depth > MAX_DEPTH:
        c.too_deep("constant expressions")
    start = c.start
    test = _binary(c, depth)
    if not c.take("?"):
        return test
    yes = _conditional(c, depth + 1)
    c.expect(":")
    no = _conditional(c, depth + 1)
    if test.type in ("f32", "f64") or (yes.type == "f64") != (no.type == "f64") or "f32" in (yes.type, no.type):
        c.fail("S109", "a conditional takes an integer, then two integers or two .f64 values", start, c.previous_end)
    chosen = yes if test.value else no
    if yes.type == "f64":
        return chosen
    return _of("u64" if "u64" in (yes.type, no.type) else "s64", int(chosen.value))


def _binary(c: Cursor, depth: int) -> _Value:
    """Operator precedence with explicit stacks, so that only parentheses and conditionals recurse."""
    start = c.start
    values, symbols = [_unary(c, depth)], list[str]()

    def reduce() -> None:
        b, a = values.pop(), values.pop()
        values.append(_apply(c, symbols.pop(), a, b, (start, c.previous_end)))

    while True:
        symbol = c.value
        if c.kind == "name" and symbol[0] == "%":  # "5 %3": here a percent sign is the operator
            symbol = "%"
        elif c.kind != "punctuation" or symbol not in _PRECEDENCE:
            break
        while symbols and _PRECEDENCE[symbols[-1]] >= _PRECEDENCE[symbol]:
            reduce()
        symbols.append(symbol)
        c.seek(c.start + len(symbol))
        values.append(_unary(c, depth))
    while symbols:
        reduce()
    return values[0]


def _unary(c: Cursor, depth: int) -> _Value:
    prefix: list[tuple[str, int]] = []
    while True:
        start = c.start
        if c.kind == "punctuation" and c.value in "+-!~":
            prefix.append((c.value, start))
            c.advance()
        elif c.at("(") and c.peek() in (("directive", ".s64"), ("directive", ".u64")):
            c.advance()
            prefix.append((c.value, start))
            c.advance()
            c.expect(")")
        else:
            break
    literal = c.value if c.kind == "number" else ""
    value = _primary(c, depth)
    for symbol, start in reversed(prefix):
        value = _prefixed(c, symbol, value, start, literal)
        literal = ""
    return value


def _primary(c: Cursor, depth: int) -> _Value:
    if c.kind == "number":
        value = _literal(c)
        c.advance()
        return value
    if c.kind == "name" and c.value == "WARP_SZ":
        c.advance()
        return _Value("s64", 32)
    if c.take("("):
        value = _conditional(c, depth + 1)
        c.expect(")")
        return value
    return c.expected("a constant")


def _prefixed(c: Cursor, symbol: str, a: _Value, start: int, literal: str) -> _Value:
    if a.type in ("f32", "f64"):
        if symbol not in "+-":
            c.fail("S109", f"operator '{symbol}' takes an integer", start, c.previous_end)
        if symbol == "+":
            return a
        return _Value("f32", int(a.value) ^ 0x80000000) if a.type == "f32" else _Value("f64", -a.value)
    value = int(a.value)
    if symbol == "-":
        # The one literal that is signed only together with its sign.
        return _Value("s64", -_S63) if literal and value == _S63 and literal[-1] != "U" else _of(a.type, -value)
    if symbol == "!":
        return _Value("s64", int(not value))
    if symbol == "~":
        return _of("u64", ~value)
    return a if symbol == "+" else _of("u64" if symbol == ".u64" else "s64", value)
