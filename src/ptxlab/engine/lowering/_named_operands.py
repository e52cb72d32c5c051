"""Operands of a function with their names resolved: registers, variables, parameters, labels and functions."""

from __future__ import annotations

from dataclasses import replace

from ptxlab.engine.lowering.functions import definition, function_addresses
from ptxlab.engine.lowering.matching import shape_of
from ptxlab.engine.lowering.scope import Scope, Table
from ptxlab.engine.lowering.special_registers import CONSTANTS
from ptxlab.isa.operands import Addr, Const, Group, PairOf, Reg, Resolved, SymbolAddress, Unused
from ptxlab.ptx import ast

__all__ = ["NamedOperands", "Undeclared"]

_UNUSED = Unused()


class Undeclared(Exception):
    """A name that is not defined here; the arguments are the code of the diagnostic, the name, and the message."""


class NamedOperands:
    """What the names in operands of a function stand for."""

    module: ast.Module
    table: Table
    parameters: dict[str, int]
    symbols: dict[str, None]
    globals: dict[str, ast.Variable]
    local_at: dict[int, int]
    shared_at: dict[int, int]

    def operand(self, operand: ast.Operand, scope: Scope) -> Resolved:
        """An operand with its names resolved."""
        return (scope.resolved.get(id(operand)) or self._find(operand, scope))[1]

    def _find(self, operand: ast.Operand, scope: Scope) -> tuple[ast.Operand, Resolved, int]:
        resolved = self._resolve(operand, scope)
        found = scope.resolved[id(operand)] = (operand, resolved, shape_of(resolved, self.table.registers))
        return found

    def _resolve(self, operand: ast.Operand, scope: Scope) -> Resolved:
        kind = type(operand)
        if kind is ast.Name:
            return self._name(operand.text, scope, 0)  # type: ignore[union-attr]
        if kind is ast.Integer:
            return Const(operand.value)  # type: ignore[union-attr]
        if kind is ast.Memory:
            return self._memory(operand, scope)  # type: ignore[arg-type]
        if isinstance(operand, ast.Float):
            return Const(operand.bits, operand.width)
        if isinstance(operand, ast.Vector | ast.Arguments):
            items: list[Resolved] = []
            for item in operand.items:
                resolved = self._resolve(item, scope)
                items.extend(resolved.items if isinstance(resolved, Group) else (resolved,))
            return Group(tuple(items))
        if isinstance(operand, ast.Pair):
            return PairOf(self._resolve(operand.first, scope), self._resolve(operand.second, scope))
        if isinstance(operand, ast.Not | ast.Negative):
            inner = self._name(operand.operand.text, scope, 0)
            if not isinstance(inner, Reg):
                raise Undeclared("U206", operand.operand.text, f"{operand.operand.text} cannot be negated: it is no register")
            return replace(inner, negated=True)
        if isinstance(operand, ast.Offset):
            base = self._name(operand.base.text, scope, operand.offset)
            if isinstance(base, Reg):
                raise Undeclared("U206", operand.base.text, f"{operand.base.text}: a register takes an offset only inside brackets")
            return base
        return _UNUSED

    def _memory(self, operand: ast.Memory, scope: Scope) -> Resolved:
        extra = tuple(self._resolve(item, scope) for item in operand.extra)
        if isinstance(operand.base, ast.Integer):
            return Addr(None, operand.base.value + operand.offset, extra)
        base = self._name(operand.base.text, scope, 0)
        if isinstance(base, Const):
            return Addr(None, base.value + operand.offset, extra)
        if not isinstance(base, Reg | SymbolAddress) or (isinstance(base, SymbolAddress) and base.space == "label"):
            raise Undeclared("U206", operand.base.text, f"{operand.base.text} is no address")
        return Addr(base, operand.offset, extra)

    def _name(self, name: str, scope: Scope, offset: int) -> Resolved:
        found = self.table.lookup(scope, name)
        if isinstance(found, int):
            return Reg(found)
        if found is not None:
            return Group(tuple(map(Reg, found)))
        if name in CONSTANTS:
            return Const(CONSTANTS[name] + offset)
        for at in scope.outwards():
            if name in at.variables:
                return self._variable(at.variables[name], offset)
            if name in at.bound:
                bound = at.bound[name]
                return replace(bound, offset=bound.offset + offset)
            if name in at.labels or name in at.targets:
                return SymbolAddress("label", name, 0)
        if name in self.parameters:
            return SymbolAddress("param", name, self.parameters[name] + offset)
        if name in self.globals:
            return self._variable(self.globals[name], offset)
        if definition(self.module, name) is not None:
            return SymbolAddress("func", name, function_addresses(self.module)[name])
        if name.startswith("%"):
            raise Undeclared("U203", name, f"the register {name} is not declared")
        raise Undeclared("U205", name, f"{name} is not declared")

    def _variable(self, variable: ast.Variable, offset: int) -> SymbolAddress:
        space, name = variable.space.split("::")[0], variable.name
        if space == "shared":
            return SymbolAddress("shared", name, self.shared_at[id(variable)] + offset)
        if space in ("local", "param"):
            return SymbolAddress("local", name, self.local_at[id(variable)] + offset)
        self.symbols[name] = None
        return SymbolAddress("const" if space == "const" else "global", name, offset)
