"""What the body of a function declares and mentions."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.ptx import ast

__all__ = ["instructions", "names", "variables"]


def _statements(block: ast.Block) -> Iterator[ast.Statement]:
    """Statements of a body, in inner blocks too, in the order of the text; blocks may be nested deeper than Python recurses."""
    work = [iter(block.statements)]
    while work:
        for statement in work[-1]:
            if isinstance(statement, ast.Block):
                work.append(iter(statement.statements))
                break
            yield statement
        else:
            work.pop()


def instructions(block: ast.Block) -> Iterator[ast.Instruction]:
    """Instructions of a body, in inner blocks too, in the order of the text."""
    return (statement for statement in _statements(block) if isinstance(statement, ast.Instruction))


def variables(block: ast.Block) -> Iterator[ast.Variable]:
    """Variables that a body declares, in inner blocks too, in the order of the text."""
    return (statement for statement in _statements(block) if isinstance(statement, ast.Variable))


def names(block: ast.Block) -> Iterator[str]:
    """Names of variables that instructions mention."""
    for statement in instructions(block):
        for operand in statement.operands:
            yield from _names_in(operand)


def _names_in(operand: ast.Operand) -> Iterator[str]:
    if isinstance(operand, ast.Name):
        if not operand.text.startswith("%"):
            yield operand.text
    elif isinstance(operand, ast.Offset):
        yield operand.base.text
    elif isinstance(operand, ast.Memory):
        if isinstance(operand.base, ast.Name):
            yield operand.base.text
        for item in operand.extra:
            yield from _names_in(item)
    elif isinstance(operand, ast.Vector | ast.Arguments):
        for item in operand.items:
            yield from _names_in(item)
    elif isinstance(operand, ast.Not | ast.Negative):
        yield from _names_in(operand.operand)
    elif isinstance(operand, ast.Pair):
        yield from _names_in(operand.first)
        yield from _names_in(operand.second)
