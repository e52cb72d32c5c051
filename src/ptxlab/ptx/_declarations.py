"""Declarations of registers and variables, with their attributes and initialisers; parameters and directives of functions."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from ptxlab._records import dataclass
from ptxlab.ptx._cursor import MAX_DEPTH, Cursor
from ptxlab.ptx._expressions import constant, integer, number
from ptxlab.ptx._operands import Irregular, OperandTable, address_offset
from ptxlab.ptx.ast import CallPrototype, Float, Initialiser, Integer, RegisterDeclaration, SymbolValue, Targets, Variable

__all__ = [
    "FUNCTION_DIRECTIVES",
    "LINKAGES",
    "SPACES",
    "TYPES",
    "attributes",
    "call_prototype",
    "dimensions",
    "function_directives",
    "modifiers",
    "parameters",
    "register_declaration",
    "suggestion",
    "targets",
    "variable_declaration",
]

LINKAGES = frozenset({".extern", ".visible", ".weak", ".common"})
SPACES = frozenset({".global", ".shared", ".const", ".local", ".param", ".tex"})

TYPES = frozenset(
    {f"{kind}{width}" for kind in "bus" for width in (8, 16, 32, 64)}
    | {"b128", "f16", "f16x2", "f32", "f64", "pred", "texref", "samplerref", "surfref"}
)

_HELD_IN = {"bf16": "b16", "bf16x2": "b32", "tf32": "b32", "e4m3x2": "b16", "e5m2x2": "b16", "ue8m0x2": "b16"}
"""Formats that no register or variable is declared with (section "Alternate Floating-Point Data Formats")."""
_LARGEST_EXPANSION = 4096
_PLAIN_LIST = re.compile(r"\{([\s\w.+-]*+(?:,[\s\w.+-]*+)*+)\}", re.ASCII)


def suggestion(word: str, known: frozenset[str] | set[str]) -> str:
    """A fix that names the closest known word, or nothing."""
    import difflib

    close = difflib.get_close_matches(word[:40], sorted(known), 1)
    return f"did you mean {close[0]!r}?" if close else ""


# ---------------------------------------------------------------------------------------- modifiers


@dataclass(slots=True)
class Modifiers:
    """The words between a state space and the declared name."""

    align: int | None = None
    attributes: tuple[str, ...] = ()
    ptr: tuple[str, int] | None = None
    type: str = ""
    vector: int = 1


def modifiers(c: Cursor, *, parameter: bool = False) -> Modifiers:
    """Take alignment, attributes, vector, type and, of a parameter, ``.ptr``."""
    m = Modifiers()
    while c.kind == "directive":
        word = c.value[1:]
        if word == "align":
            m.align = _alignment(c)
        elif word == "attribute":
            m.attributes += attributes(c)
        elif word in ("v2", "v4", "v8") and m.vector == 1:
            m.vector = int(word[1])
            c.advance()
        elif word == "ptr" and parameter:
            c.advance()
            m.ptr = _pointer(c)
        elif m.type:
            c.expected("a name")
        elif word in TYPES:
            m.type = c.advance()[1:]
        else:
            held = _HELD_IN.get(word)
            fix = f"hold it in '.{held}'" if held else suggestion(c.value, {f".{t}" for t in TYPES})
            c.fail("S111", f"unknown type {c.found()}", fix=fix)
    if not m.type:
        c.expected("a type")
    return m


def _alignment(c: Cursor) -> int:
    c.advance()
    start = c.start
    value = number(c, "an alignment")
    if value <= 0 or value & (value - 1):
        c.fail("S101", f"an alignment is a power of two, not {value}", start, c.previous_end)
    return value


def _pointer(c: Cursor) -> tuple[str, int]:
    space, align = "", 0
    if c.value in (".global", ".shared", ".const", ".local"):
        space = c.advance()[1:]
    if c.at(".align"):
        align = _alignment(c)
    return space, align


def attributes(c: Cursor) -> tuple[str, ...]:
    """Take ``.attribute(.managed, .unified(1, 2))``."""
    c.advance()
    c.expect("(")
    found = c.separated(lambda: _attribute(c))
    c.expect(")", ",")
    return tuple(found)


def _attribute(c: Cursor) -> str:
    text = c.token("an attribute", "directive")
    if c.take("("):
        values = c.separated(lambda: str(integer(c, "an attribute's argument")))
        c.expect(")", ",")
        text += f"({', '.join(values)})"
    return text


# ---------------------------------------------------------------------------------------- registers


def register_declaration(c: Cursor, line: int, column: int) -> RegisterDeclaration:
    """Take ``.reg`` up to its semicolon, which stays the current token."""
    c.advance()
    m = modifiers(c)
    names = c.separated(lambda: (c.name("a register name"), _range(c)))
    c.finish(";", ",", *(() if names[-1][1] is not None else ("<",)))
    return RegisterDeclaration(m.type, tuple(names), m.vector, line=line, column=column)


def _range(c: Cursor) -> int | None:
    """``<10>``; the bound is a number, because ``>`` would end no expression."""
    if not c.take("<"):
        return None
    count = number(c, "a number of names")
    c.expect(">")
    return count


# ---------------------------------------------------------------------------------------- variables


def variable_declaration(c: Cursor, linkage: str, line: int, column: int, table: OperandTable) -> list[Variable]:
    """Take a declaration in a state space up to its semicolon, which stays the current token."""
    space = c.advance()[1:]
    m = modifiers(c)
    found: list[Variable] = []
    while True:
        start = c.start
        name = c.name("a variable name")
        count = _range(c)
        dims = dimensions(c)
        value = _initialiser(c, table, 0) if c.take("=") else None
        v = Variable(space, m.type, name, m.align, m.vector, dims, value, linkage, None, m.attributes, line=line, column=column)
        if count is None:
            found.append(v)
        elif dims or value is not None or count > _LARGEST_EXPANSION:
            c.fail(
                "S101",
                f"a parameterised name has no dimensions or initialiser, and at most {_LARGEST_EXPANSION} numbers",
                start,
                c.previous_end,
                reason="Parameterized Variable Names",
            )
        else:
            found += [replace(v, name=f"{name}{i}") for i in range(count)]
        if not c.take(","):
            break
    c.finish(";", ",", "[", "=")
    return found


def dimensions(c: Cursor) -> tuple[int, ...]:
    """Take array dimensions; -1 for an empty one."""
    dims: list[int] = []
    while c.take("["):
        if c.take("]"):
            dims.append(-1)
            continue
        start = c.start
        size = integer(c, "an array dimension")
        if size < 0:
            c.fail("S101", f"an array dimension is not negative: {size}", start, c.previous_end)
        dims.append(size)
        c.expect("]")
    return tuple(dims)


def _initialiser(c: Cursor, table: OperandTable, depth: int) -> Initialiser:
    if depth > MAX_DEPTH:
        c.too_deep("initialisers")
    if c.at("{"):
        return _plain_list(c, table) or _list(c, table, depth)
    if c.kind == "name" and c.value != "WARP_SZ":
        return _symbol(c)
    if c.kind == "number" and c.peek() == ("punctuation", "("):
        return _masked(c)
    return constant(c, depth)


def _plain_list(c: Cursor, table: OperandTable) -> tuple[Initialiser, ...] | None:
    """A brace-enclosed list of numbers at one match, or None: initialisers can be long."""
    m = _PLAIN_LIST.match(c.text, c.start)
    if m is None or not m[1].strip():
        return None
    try:
        items = [table[item] for item in m[1].split(",")]
    except Irregular:
        return None
    values = tuple([item for item in items if isinstance(item, Integer | Float)])
    if len(values) != len(items):
        return None
    c.seek(m.end())
    return values


def _list(c: Cursor, table: OperandTable, depth: int) -> tuple[Initialiser, ...]:
    c.advance()
    items: list[Initialiser] = []
    while not c.take("}"):
        if c.kind == "name" and c.peek() == ("punctuation", "="):  # a sampler's property
            items.append((SymbolValue(c.value), _property(c)))
        else:
            items.append(_initialiser(c, table, depth + 1))
        if not c.take(","):
            c.expect("}", ",")
            break
    return tuple(items)


def _property(c: Cursor) -> Initialiser:
    c.advance()
    c.advance()
    if c.kind == "name":
        return SymbolValue(c.name("a value"))
    return constant(c)


def _symbol(c: Cursor) -> SymbolValue:
    name = c.name("a symbol")
    if name == "generic" and c.take("("):
        name = c.name("a symbol")
        inner = _offset(c)
        c.expect(")")
        return SymbolValue(name, inner + _offset(c), generic=True)
    return SymbolValue(name, _offset(c))


def _offset(c: Cursor) -> int:
    if c.take("+") or c.at("-"):
        return address_offset(integer(c, "an address offset"))
    return 0


def _masked(c: Cursor) -> SymbolValue | Integer:
    """``0xFF00(sym)``: one byte of an address, or of an integer."""
    start = c.start
    mask = number(c, "a mask")
    if mask not in [0xFF << shift for shift in range(0, 64, 8)]:
        reason = "Initializers"
        c.fail("S101", "a mask selects one byte: 0xFF, 0xFF00, ...", start, c.previous_end, reason=reason)
    c.expect("(")
    value: SymbolValue | Integer
    if c.kind == "name" and c.value != "WARP_SZ":
        value = replace(_symbol(c), mask=mask)
    else:
        plain = integer(c, "a masked value")
        value = Integer((plain & mask) >> (mask.bit_length() - 8))
    c.expect(")")
    return value


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
        fewest, most = FUNCTION_DIRECTIVES[name]
        values = tuple(c.separated(partial(_directive_value, c, name))) if most else ()
        if not fewest <= len(values) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            c.fail("S101", f"'.{name}' takes {wanted} values, not {len(values)}", start, c.previous_end)
        found.append((name, values))
        # These two end in a semicolon, which does not make a prototype of the function.
        if name in _TERMINATED and c.at(";") and (c.peek()[1] == "{" or c.peek()[1][1:] in FUNCTION_DIRECTIVES):
            c.advance()
    return tuple(found)


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
