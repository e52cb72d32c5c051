"""Sizes of a launch file: whole numbers that are computed from the names in its table ``sizes``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["SizeError", "evaluate", "with_sizes"]

COMPUTED = {"grid", "block", "cluster", "shared_bytes", "shape", "value", "box", "dims", "strides"}
"""Keys whose texts are expressions, alone and in lists."""
MAX_EXPRESSION = 200
_BITS = 64
"""Characters of an expression, and bits of its results."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"cdiv": lambda a, b: -(-a // b), "max": max, "min": min}


class SizeError(ValueError):
    """An expression that cannot be computed, with the reason."""


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """Compute an expression of sizes, whole numbers, ``+ - * // %``, parentheses, ``cdiv``, ``min`` and ``max``.

    Raises
    ------
    SizeError
        if it has anything else, an unknown name, a division by zero, or a result of more than 64 bits

    Examples
    --------
    >>> evaluate("cdiv(M, 128) * 2", {"M": 300})
    6
    """
    if len(text) > MAX_EXPRESSION:
        raise SizeError(f"the expression has more than {MAX_EXPRESSION} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise SizeError(f"{text!r} is no expression of sizes") from None
    try:
        return _value(tree.body, sizes)
    except ZeroDivisionError:
        raise SizeError(f"{text!r} divides by zero") from None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            found = number
        case ast.Name(id=name) if name in sizes:
            found = sizes[name]
        case ast.Name(id=name):
            raise SizeError(f"there is no size named {name!r}; the file has {', '.join(sizes) or 'none'}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = -_value(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            found = _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _FUNCTIONS:
            found = _FUNCTIONS[name](_value(left, sizes), _value(right, sizes))
        case _:
            raise SizeError(f"{ast.unparse(node)!r}: sizes are computed with + - * // % and cdiv, min, max of two values")
    if found.bit_length() >= _BITS:
        raise SizeError(f"{ast.unparse(node)!r} is {_BITS} bits or larger")
    return found


def with_sizes(table: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Replace the expressions of a table and of the tables in it by their values.

    Raises
    ------
    SizeError
        if one cannot be computed; the message begins with its key
    """
    return {key: _resolved(key, value, sizes) for key, value in table.items()}


def _resolved(key: str, value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, dict):
        return with_sizes(value, sizes)
    if isinstance(value, list):
        return [_resolved(key, each, sizes) for each in value]
    if isinstance(value, str) and key in COMPUTED:
        try:
            return evaluate(value, sizes)
        except SizeError as error:
            raise SizeError(f"{key}: {error}") from None
    return value
