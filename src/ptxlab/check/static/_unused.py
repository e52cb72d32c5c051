"""Notes on code that no path reaches, and on values, variables and functions that nothing uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ptxlab import ptx
from ptxlab.diagnostics import Diagnostic, Place, diagnose
from ptxlab.engine import Program
from ptxlab.engine.lowering.functions import instructions, is_call
from ptxlab.engine.lowering.scope import names, variables
from ptxlab.isa.catalogue import Control

__all__ = ["unused"]

_NOWHERE = "remove it, or the branch that goes around it"


def unused(module: ptx.Module, programs: Mapping[str, Program], reachable: Mapping[str, Sequence[ptx.Function]]) -> Iterator[Diagnostic]:
    """The notes on a module of which all kernels are lowered; ``reachable``: the functions that each entry may reach."""
    entries = [function for function in module.functions.values() if function.kind == "entry" and function.name in programs]
    called = {each.name for entry in entries for each in reachable[entry.name]}
    executed = {op.line for program in programs.values() for op in program.ops}
    for function in module.items:
        if not isinstance(function, ptx.Function) or function.body is None:
            continue
        if function.name not in called:
            if function.kind == "func" and not function.linkage and entries:
                yield _note(module, "L142", function.line, 1, f"nothing calls the function {function.name}", "remove it")
            continue
        yield from _unreachable(module, function, executed)
    yield from _values(module, programs.values())
    yield from _variables(module)


def _unreachable(module: ptx.Module, function: ptx.Function, executed: set[int]) -> Iterator[Diagnostic]:
    """The first instruction of each piece of code that no path reaches."""
    assert function.body is not None
    before = True
    for statement in instructions(function.body):
        reached = statement.line in executed or is_call(statement.opcode)
        if before and not reached:
            message = f"no path of the kernel reaches {statement.opcode}"
            yield _note(module, "L141", statement.line, statement.column, message, _NOWHERE)
        before = reached


def _values(module: ptx.Module, programs: Iterable[Program]) -> Iterator[Diagnostic]:
    """Instructions that only compute, and whose results no instruction of any kernel reads."""
    useless: dict[int, tuple[int, str, str] | None] = {}
    for program in programs:
        read = {register for registers in program.reads for register in registers}
        read.update(op.guard.index for op in program.ops if op.guard is not None)
        for op in program.ops:
            written = program.writes[op.index]
            if op.row.kind != "pure" or not written or isinstance(op.row.semantics, Control) or not read.isdisjoint(written):
                useless[op.line] = None
            elif op.line not in useless:
                useless[op.line] = op.column, op.opcode, program.registers[written[0]].name
    for line, found in sorted(useless.items()):
        if found is not None:
            column, opcode, name = found
            yield _note(module, "L142", line, column, f"nothing uses {name}, the result of {opcode}", "remove the instruction")


def _variables(module: ptx.Module) -> Iterator[Diagnostic]:
    """Variables of functions whose name stands nowhere else."""
    for function in module.items:
        if not isinstance(function, ptx.Function) or function.body is None:
            continue
        declared = [variable for variable in variables(function.body) if variable.space in ("shared", "local")]
        mentioned = set(names(function.body)) if declared else set()
        for variable in declared:
            if variable.name not in mentioned:
                yield _note(module, "L142", variable.line, 1, f"nothing uses the variable {variable.name}", "remove it")


def _note(module: ptx.Module, code: str, line: int, column: int, message: str, fix: str) -> Diagnostic:
    place = Place(module.file, line, column, 1)
    return diagnose(code, message, fix=fix).at(place, ptx.line_text(module, line))
