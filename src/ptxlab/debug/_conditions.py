"""Conditions and values over registers: expressions that are evaluated in one lane."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from ptxlab.debug._points import refuse

__all__ = ["Expression"]

_REGISTER = re.compile(r"(?<![\w$.])(%[A-Za-z_$][\w$]*(?:\.[A-Za-z]\w*)?)")
_PREFIX = "register_"
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LONGEST_SHIFT = 128


class Expression:
    """An expression with the operators of Python over numbers, registers and special registers.

    Registers have the values of their PTX types: ``.f32`` is a float, ``.s32`` signed, ``.b32`` unsigned, ``.pred`` True or False.

    Parameters
    ----------
    text : such as ``%r1 == 5 and %tid.x < 4``

    Examples
    --------
    >>> Expression("%r1 % 4 == 3 and not %p1").value({"%r1": 7, "%p1": False}.__getitem__)
    True
    >>> Expression("i + 0x10 << 1").registers
    ('i',)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        names: dict[str, str] = {}

        def named(match: re.Match[str]) -> str:
            made = f"{_PREFIX}{len(names)}"
            names[made] = match[1]
            return f" {made} "

        try:
            self._tree = ast.parse(_REGISTER.sub(named, text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise refuse("G102", f"{text!r} is no expression", fix="write it as in Python, with names of registers") from None
        self._names = names
        for node in ast.walk(self._tree):
            self._check(node)
        self.registers = tuple(dict.fromkeys(names.get(n.id, n.id) for n in ast.walk(self._tree) if isinstance(n, ast.Name)))

    def _check(self, node: ast.AST) -> None:
        known = isinstance(node, ast.Name | ast.BoolOp | ast.boolop | ast.expr_context | ast.operator | ast.unaryop | ast.cmpop)
        known |= isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float)
        known |= isinstance(node, ast.BinOp) and type(node.op) in _BINARY
        known |= isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY
        known |= isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops)
        if not known:
            operators = "+ - * / // % & | ^ << >> ~ == != < <= > >= and or not"
            raise refuse("G102", f"{self.text!r} has what no condition may have", fix=f"use numbers, registers, brackets and {operators}")

    def value(self, read: Callable[[str], Any]) -> Any:
        """The value, where ``read`` returns that of a register."""
        try:
            return self._evaluate(self._tree, read)
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            raise refuse("G102", f"{self.text!r} has no value here: {error}") from None

    def _evaluate(self, node: ast.expr, read: Callable[[str], Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return read(self._names.get(node.id, node.id))
        if isinstance(node, ast.BoolOp):
            wanted = isinstance(node.op, ast.Or)
            return next((wanted for item in node.values if bool(self._evaluate(item, read)) is wanted), not wanted)
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self._evaluate(node.operand, read))
        if isinstance(node, ast.BinOp):
            left, right = self._evaluate(node.left, read), self._evaluate(node.right, read)
            if isinstance(node.op, ast.LShift) and right > _LONGEST_SHIFT:
                raise ValueError(f"a shift by {right} bits")
            return _BINARY[type(node.op)](left, right)
        assert isinstance(node, ast.Compare)
        left = self._evaluate(node.left, read)
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = self._evaluate(item, read)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True
