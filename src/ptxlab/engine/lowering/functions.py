"""The functions of a module: their addresses, and which of them a call may reach."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ptxlab.engine.lowering.matching import candidates
from ptxlab.engine.lowering.scope import instructions
from ptxlab.isa.catalogue import Control
from ptxlab.ptx import ast

__all__ = ["called_functions", "definition", "function_addresses", "instructions", "is_call", "parts"]

_FIRST, _STEP = 0x1000, 0x10
"""The first address of functions in the code space, which is never read."""


def definition(module: ast.Module, name: str) -> ast.Function | None:
    """The function of a name or of an alias."""
    functions = module.functions
    target = next((item.target for item in module.items if isinstance(item, ast.Alias) and item.name == name), name)
    return functions.get(target)


def function_addresses(module: ast.Module) -> dict[str, int]:
    """The addresses of all functions and aliases."""
    found = {name: _FIRST + _STEP * i for i, name in enumerate(module.functions)}
    aliases = (item for item in module.items if isinstance(item, ast.Alias))
    return found | {alias.name: found[alias.target] for alias in aliases if alias.target in found}


def _listed(rest: list[ast.Operand]) -> tuple[ast.Operand, ...]:
    """Split off a leading parenthesised list, if there is one."""
    first = rest[0] if rest else None
    if not isinstance(first, ast.Arguments):
        return ()
    del rest[0]
    return first.items


Parts = tuple[tuple[ast.Operand, ...], ast.Operand | None, tuple[ast.Operand, ...], ast.Operand | None]


def parts(statement: ast.Instruction) -> Parts:
    """Results, function or pointer, arguments of a call, and what says which functions a pointer may name."""
    rest = list(statement.operands)
    results = _listed(rest)
    function = rest.pop(0) if rest else None
    arguments = _listed(rest)
    return results, function, arguments, rest[0] if rest else None


def called_functions(module: ast.Module, function: ast.Function) -> list[ast.Function]:
    """The functions with a body that a function may reach, itself first; a call through a pointer may reach every one."""
    found = {function.name: function}
    work = [function]
    while work:
        for callee in _callees(module, work.pop()):
            if callee.body is not None and callee.name not in found:
                found[callee.name] = callee
                work.append(callee)
    return list(found.values())


@lru_cache(maxsize=65536)
def is_call(opcode: str) -> bool:
    """Whether an instruction calls a function."""
    rows = candidates(opcode)
    return bool(rows) and rows[0].row.semantics is Control.CALL


def _callees(module: ast.Module, function: ast.Function) -> Iterator[ast.Function]:
    for statement in instructions(function.body) if function.body is not None else ():
        if not is_call(statement.opcode):
            continue
        _, name, _, through = parts(statement)
        callee = definition(module, name.text) if isinstance(name, ast.Name) else None
        if callee is not None:
            yield callee
        elif through is not None:
            yield from (f for f in module.functions.values() if f.kind == "func")
