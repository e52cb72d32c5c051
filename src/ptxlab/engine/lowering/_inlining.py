"""Calls and the stack: bodies of functions are lowered where they are called, each time anew; what the system provides is a service.

A call through a pointer is a choice between the functions that it may reach. Parameters in the ``.param`` space are the caller's own
variables under another name; registers are copied. The stack of alloca is a part of each thread's local memory, above its variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ptxlab.engine.lowering.functions import definition, function_addresses, parts
from ptxlab.engine.lowering.matching import candidates
from ptxlab.engine.lowering.scope import Scope, instructions, near
from ptxlab.engine.lowering.variable_layout import variable_size
from ptxlab.isa.catalogue import Qualifiers, Row
from ptxlab.isa.control import NO_FUNCTION, SYSTEM_CALLS, inserted
from ptxlab.isa.kinds import HIDDEN, type_bits
from ptxlab.isa.operands import Addr, Const, Reg, Resolved, SymbolAddress, Unused
from ptxlab.ptx import ast

if TYPE_CHECKING:
    from ptxlab.engine.lowering.lower import Lowering

__all__ = ["begin_stack", "call", "jump", "uses_stack"]

_DEEPEST = 100


def jump(low: Lowering, statement: ast.Instruction, label: int, guard: Reg | None) -> None:
    """A branch to a label number."""
    branch = candidates(inserted.BRANCH)[0]
    operands = (SymbolAddress("label", "", 0),)
    item = low.add(statement.opcode, branch.row, branch.q, operands, guard, statement.line, statement.column)
    item.targets, item.ends, item.falls = (label,), True, guard is not None


def _plain(low: Lowering, statement: ast.Instruction, opcode: str, *operands: Resolved) -> None:
    low.insert(opcode, *operands, line=statement.line, column=statement.column)


Given = tuple[tuple[Resolved, ...], tuple[Resolved, ...]]
"""Results and arguments."""


def call(low: Lowering, statement: ast.Instruction, scope: Scope) -> None:
    """Lower a call."""
    results, target, arguments, through = parts(statement)
    given = tuple(low.operand(o, scope) for o in results), tuple(low.operand(o, scope) for o in arguments)
    guard = low.guard(statement, scope)
    if through is not None or not isinstance(target, ast.Name) or low.table.lookup(scope, target.text) is not None:
        _indirect(low, statement, scope, given, guard)
        return
    name = target.text
    function = definition(low.module, name)
    if function is None:
        known = [*low.module.functions, *SYSTEM_CALLS]
        low.error(statement, "U205", f"the function {name} is not declared", near(name, known), name)
        return
    if not _fits(low, statement, function, name, given):
        return
    if name in SYSTEM_CALLS and function.body is None:
        row = SYSTEM_CALLS[name]
        operands = ((given[0] or (Unused(),)) if row.outputs else ()) + given[1]
        _service(low, statement, row, operands, guard)
        return
    if function.body is None:
        fix = "link the module that defines it; ptxlab itself provides " + " and ".join(SYSTEM_CALLS)
        low.error(statement, "U210", f"{name} is declared but has no body", fix, name)
        return
    if not _enters_again(low, function):
        _inline(low, statement, function, given, guard)
        return
    message = f"{name} calls itself: recursion is not executed by this version of ptxlab"
    low.error(statement, "U201", message, "write the recursion as a loop, with a stack of its own in local memory", name)


def _enters_again(low: Lowering, function: ast.Function) -> bool:
    return function.name in low.calling or len(low.calling) >= _DEEPEST


def _fits(low: Lowering, statement: ast.Instruction, function: ast.Function | ast.CallPrototype, name: str, given: Given) -> bool:
    """Whether a call gives as many results and arguments as the function has; an error if not."""
    wanted = len(function.returns), len(function.params)
    if (len(given[0]), len(given[1])) == wanted:
        return True
    message = f"{name} has {wanted[0]} results and {wanted[1]} parameters, the call gives {len(given[0])} and {len(given[1])}"
    low.error(statement, "U207", message, at=name)
    return False


def _service(low: Lowering, statement: ast.Instruction, row: Row, operands: tuple[Resolved, ...], guard: Reg | None) -> None:
    low.add(statement.opcode, row, Qualifiers({}), operands, guard, statement.line, statement.column)


# ------------------------------------------------------------------------------------------------ through a pointer


def _possible(low: Lowering, statement: ast.Instruction, scope: Scope, given: Given) -> list[ast.Function] | None:
    """The functions that a call through a pointer may reach; None after an error."""
    through = parts(statement)[3]
    name = through.text if isinstance(through, ast.Name) else ""
    listed = low.find_targets(scope, name)
    table = next((each.variables[name] for each in scope.outwards() if name in each.variables), low.globals.get(name))
    if isinstance(listed, ast.CallPrototype):
        if not _fits(low, statement, listed, name, given):
            return None
        every = (f for f in low.module.functions.values() if f.kind == "func" and f.body is not None)
        return [f for f in every if _signature(f) == _signature(listed)]
    names = listed.names if listed is not None and listed.kind == "calltargets" else _table(table)
    if not names:
        fix = "name a label of .calltargets or .callprototype, or an array of functions"
        message = (
            f"{statement.opcode}: {name} names no list of functions" if name else f"{statement.opcode}: a list of functions is missing"
        )
        low.error(statement, "U204", message, fix, statement.opcode)
        return None
    found = []
    for each in names:
        function = definition(low.module, each)
        if function is None:
            low.error(statement, "U205", f"the function {each} is not declared", near(each, low.module.functions), name)
            return None
        if function.body is None:
            low.error(statement, "U210", f"{each} is declared but has no body", "link the module that defines it", name)
            return None
        if not _fits(low, statement, function, each, given):
            return None
        found.append(function)
    return found


def _signature(function: ast.Function | ast.CallPrototype) -> list[tuple[str, int]]:
    """State spaces and sizes of results and parameters."""
    return [(v.space, variable_size(v)) for listed in (function.returns, function.params) for v in (*listed, _END)]


_END = ast.Variable("", "", "b8")
"""Between results and parameters."""


def _table(variable: ast.Variable | None) -> tuple[str, ...]:
    """The functions in an array's initialiser."""
    values = variable.initialiser if variable is not None else ()
    items = values if isinstance(values, tuple) else (values,)
    return tuple(dict.fromkeys(item.symbol for item in items if isinstance(item, ast.SymbolValue)))


def _indirect(low: Lowering, statement: ast.Instruction, scope: Scope, given: Given, guard: Reg | None) -> None:
    """Compare the pointer with each function that it may name, and call that one; their bodies stand here one after the other."""
    target = parts(statement)[1]
    pointer = low.operand(target, scope) if target is not None else Unused()
    if not isinstance(pointer, Reg) or low.table.registers[pointer.index].bits not in (32, 64):
        low.error(
            statement,
            "U206",
            f"{statement.opcode}: a pointer to a function is expected in a register of 32 or 64 bits",
            at=statement.opcode,
        )
        return
    possible = _possible(low, statement, scope, given)
    if possible is None:
        return
    bits = low.table.registers[pointer.index].bits
    differs = Reg(low.table.add("whether the pointer names another function", "pred"))
    addresses = function_addresses(low.module)
    end = low.new_label()
    if guard is not None:
        jump(low, statement, end, Reg(guard.index, not guard.negated))
    for function in possible:
        if _enters_again(low, function):
            continue  # which ends at NO_FUNCTION
        following = low.new_label()
        _plain(low, statement, inserted.differ(bits), differs, pointer, Const(addresses[function.name]))
        jump(low, statement, following, differs)
        _inline(low, statement, function, given, None)
        jump(low, statement, end, None)
        low.place(following)
    _service(low, statement, NO_FUNCTION, (pointer,), None)
    low.place(end)


# ------------------------------------------------------------------------------------------------ bodies


def _inline(
    low: Lowering,
    statement: ast.Instruction,
    function: ast.Function,
    given: Given,
    guard: Reg | None,
) -> None:
    """The body of a function, between copies of arguments and results; the stack memory that it has allocated is freed."""
    assert function.body is not None
    end = low.new_label()
    if guard is not None:
        jump(low, statement, end, Reg(guard.index, not guard.negated))
    inner = Scope()
    behind: list[tuple[str, Resolved, Resolved]] = []
    for formals, actuals, out in ((function.params, given[1], False), (function.returns, given[0], True)):
        for formal, actual in zip(formals, actuals, strict=True):
            if formal.space == "reg":
                inner.registers[formal.name] = (formal.type, formal.vector)
                register = low.table.lookup(inner, formal.name)
                assert isinstance(register, int)
                copy = inserted.move(type_bits(formal.type))
                if out:
                    behind.append((copy, actual, Reg(register)))
                else:
                    _plain(low, statement, copy, Reg(register), actual)
            elif isinstance(actual, SymbolAddress):
                inner.bound[formal.name] = actual
            else:
                place = SymbolAddress("local", formal.name, low.local_at[id(formal)])
                inner.bound[formal.name] = place
                bits = type_bits(formal.type)
                if out:
                    behind.append((inserted.load_argument(bits), actual, Addr(place)))
                else:
                    _plain(low, statement, inserted.store_argument(bits), Addr(place), actual)
    saved = None
    if uses_stack(function.body):
        saved = Reg(low.table.add("the stack pointer of the caller", "u64"))
        _plain(low, statement, _MOVE, saved, _stack_pointer(low))
    low.calling[function.name] = back = low.new_label()
    low.calls = (*low.calls, (function.name, statement.line))
    low.block(function.body, inner)
    low.calls = low.calls[:-1]
    del low.calling[function.name]
    low.place(back)
    if saved is not None:
        _plain(low, statement, _MOVE, _stack_pointer(low), saved)
    for opcode, first, second in behind:
        _plain(low, statement, opcode, first, second)
    low.place(end)


# ------------------------------------------------------------------------------------------------ the stack


STACK_BYTES = 16384
"""Bytes for each thread."""
_LARGEST_ALIGNMENT = 1 << 23
_MOVE = inserted.move(64)


def _moves_stack(statement: ast.Instruction) -> bool:
    return any(kind == "stack" for candidate in candidates(statement.opcode)[:1] for _, kind in candidate.hidden)


def uses_stack(body: ast.Block) -> bool:
    """Whether a body moves the stack pointer."""
    return any(map(_moves_stack, instructions(body)))


def _stack_pointer(low: Lowering) -> Reg:
    return Reg(low.table.hidden(*HIDDEN["stack"]))


def begin_stack(low: Lowering, function: ast.Function, bodies: Iterable[ast.Block], local_bytes: int) -> int:
    """Let the stack begin at the end of local memory, whose new size is returned."""
    for statement in (s for body in bodies for s in instructions(body)):
        if _moves_stack(statement) and len(statement.operands) == 3:
            align = statement.operands[2]
            if not isinstance(align, ast.Integer) or align.value.bit_count() != 1 or not 0 < align.value <= _LARGEST_ALIGNMENT:
                low.error(statement, "U206", f"{statement.opcode}: the alignment must be a power of two of at most 2^23", at=2)
    total = local_bytes + STACK_BYTES
    low.insert(_MOVE, _stack_pointer(low), Const(total), line=function.line, column=function.column)
    return total
