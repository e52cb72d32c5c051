"""Parts of a function other than its body: parameter lists, directives, targets and prototypes of indirect control flow."""

from __future__ import annotations

from ptxlab.ptx._cursor import Cursor
from ptxlab.ptx._declarations import dimensions, modifiers, suggestion
from ptxlab.ptx._expressions import integer
from ptxlab.ptx.ast import CallPrototype, Targets, Variable

__all__ = ["FUNCTION_DIRECTIVES", "call_prototype", "function_directives", "parameters", "targets"]

FUNCTION_DIRECTIVES: dict[str, tuple[int, int]] = {
    "reqntid": (1, 3),
    "maxntid": (1, 3),
    "minnctapersm": (1, 1),
    "maxnctapersm": (1, 1),
    "maxnreg": (1, 1),
    "reqnctapercluster": (1, 3),
    "maxclusterrank": (1, 1),
    "explicitcluster": (0, 0),
    "blocksareclusters": (0, 0),
    "noreturn": (0, 0),
    "abi_preserve": (1, 1),
    "abi_preserve_control": (1, 1),
    "minperctamemory": (1, 1),
    "pragma": (1, 1 << 16),
    "language": (1, 1 << 16),
}
"""Directives between a function's header and its body: fewest and most arguments."""

_TERMINATED = frozenset({"pragma", "minperctamemory"})


def parameters(c: Cursor) -> tuple[Variable, ...]:
    """Take a parenthesised parameter list."""
    c.expect("(")
    if c.take(")"):
        return ()
    found = c.separated(lambda: _parameter(c))
    c.expect(")", ",")
    return tuple(found)


def _parameter(c: Cursor) -> Variable:
    if c.value not in (".param", ".reg"):
        c.expected("'.param'", "'.reg'")
    line, column = c.locate(c.start)
    space = c.advance()[1:]
    m = modifiers(c, parameter=True)
    name = c.advance() if c.kind == "sink" else c.name("a parameter name")
    return Variable(space, m.type, name, m.align, m.vector, dimensions(c), None, "", m.ptr, m.attributes, line=line, column=column)


def function_directives(c: Cursor) -> tuple[tuple[str, tuple[int | str, ...]], ...]:
    """Take the performance, cluster and other directives of a function."""
    found: list[tuple[str, tuple[int | str, ...]]] = []
    while c.kind == "directive":
        name = c.value[1:]
        if name not in FUNCTION_DIRECTIVES:
            c.fail("S106", f"unknown function directive {c.found()}", fix=suggestion(c.value, {f".{d}" for d in FUNCTION_DIRECTIVES}))
        start = c.start
        c.advance()
        values = _directive_values(c, name)
        fewest, most = FUNCTION_DIRECTIVES[name]
        if not fewest <= len(values) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            c.fail("S101", f"'.{name}' takes {wanted} values, not {len(values)}", start, c.previous_end)
        found.append((name, values))
        # These two end in a semicolon, which does not make a prototype of the function.
        if name in _TERMINATED and c.at(";") and (c.peek()[1] == "{" or c.peek()[1][1:] in FUNCTION_DIRECTIVES):
            c.advance()
    return tuple(found)


def _directive_values(c: Cursor, name: str) -> tuple[int | str, ...]:
    if FUNCTION_DIRECTIVES[name] == (0, 0):
        return ()
    return tuple(c.separated(lambda: _directive_value(c, name)))


def _directive_value(c: Cursor, name: str) -> int | str:
    if name in ("pragma", "language") and c.kind == "string":
        return c.advance()[1:-1]
    if name == "pragma":
        c.expected("a string")
    return integer(c, f"a value of '.{name}'")


def targets(c: Cursor, label: str, line: int, column: int) -> Targets:
    """Take ``.branchtargets`` or ``.calltargets`` up to its semicolon, which stays the current token."""
    kind = c.advance()[1:]
    names = c.separated(lambda: c.name("a label" if kind == "branchtargets" else "a function name"))
    c.finish(";", ",")
    return Targets(kind, label, tuple(names), line=line, column=column)


def call_prototype(c: Cursor, label: str, line: int, column: int) -> CallPrototype:
    """Take ``.callprototype`` up to its semicolon, which stays the current token."""
    c.advance()
    returns = parameters(c) if c.at("(") else ()
    c.expect("_")
    params = parameters(c) if c.at("(") else ()
    directives = function_directives(c)
    c.finish(";")
    words = tuple(" ".join(map(str, (name, *values))) for name, values in directives)
    return CallPrototype(label, returns, params, words, line=line, column=column)
