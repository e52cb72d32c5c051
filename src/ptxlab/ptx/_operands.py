"""Instructions and operands: an exact parser over tokens, and tables that read the usual forms by one regular expression each.

The table agrees with the exact parser on everything it accepts; what it does not accept goes to the exact parser, which
also has the errors.
"""

from __future__ import annotations

import re

from ptxlab.ptx._cursor import MAX_DEPTH, NAME, OPCODE, Cursor, PtxSyntaxError, short
from ptxlab.ptx._expressions import constant, integer
from ptxlab.ptx.ast import Arguments, Float, Guard, Instruction, Integer, Memory, Name, Negative, Not, Offset, Operand, Pair, Sink, Vector

__all__ = ["GuardTable", "Irregular", "OperandTable", "address_offset", "instruction", "operand", "operand_table"]

_SINK = Sink()
_WHITE = " \t\r\n\f\v"


def address_offset(value: int) -> int:
    """An offset as a signed 64-bit number."""
    return value - (1 << 64) if value >= 1 << 63 else value


# -------------------------------------------------------------------------------------------- exact


def instruction(c: Cursor, line: int, column: int) -> Instruction:
    """Take an instruction up to its semicolon, which stays the current token."""
    guard = None
    if c.take("@"):
        negated = c.take("!")
        guard = Guard(c.name("a predicate"), negated)
    opcode = OPCODE.match(c.text, c.start)
    if c.kind != "name" or opcode is None:
        c.expected("an instruction")
    c.seek(opcode.end())
    call = opcode[0] == "call" or opcode[0].startswith("call.")
    items = [] if c.at(";") else c.separated(lambda: operand(c, call=call))
    c.finish(";", ",")
    return Instruction(opcode[0], tuple(items), guard, line, column)


def operand(c: Cursor, depth: int = 0, *, call: bool = False) -> Operand:
    """Take one operand. ``call`` admits the parenthesised lists of a call."""
    if depth > MAX_DEPTH:
        c.too_deep("operands")
    first = _single(c, depth, call)
    if isinstance(first, Name | Sink | Vector) and c.take("|"):
        return Pair(first, _single(c, depth + 1, call))
    return first


def _single(c: Cursor, depth: int, call: bool) -> Operand:
    kind, value = c.kind, c.value
    if kind == "name" and value != "WARP_SZ":
        return _named(c)
    if kind == "sink":
        c.advance()
        return _SINK
    if kind == "punctuation":
        if value == "[":
            return _memory(c, depth)
        if value == "{":
            return Vector(_sequence(c, "}", depth))
        if value == "(" and call:
            return Arguments(_sequence(c, ")", depth))
        if value in "!-" and c.peek()[0] == "name" and c.peek()[1] != "WARP_SZ":
            c.advance()
            name = Name(c.advance())
            return Not(name) if value == "!" else Negative(name)
    if kind == "number" or (kind == "name") or (kind == "punctuation" and value in "+-!~("):
        return constant(c, depth)
    return c.expected("an operand")


def _named(c: Cursor) -> Operand:
    start = c.start
    name = Name(c.advance())
    if c.at("["):
        fix = f"write the byte offset: [{short(name.text)}+4*i]"
        c.fail("S114", f"indexing {short(name.text)!r} is not supported", start, c.end, fix=fix)
    if c.take("+") or c.at("-"):
        return Offset(name, address_offset(integer(c, "an address offset")))
    return name


def _memory(c: Cursor, depth: int) -> Memory:
    c.advance()
    base: Name | Integer
    offset = 0
    if c.kind == "name" and c.value != "WARP_SZ":
        base = Name(c.advance())
        if c.take("+"):
            offset = address_offset(integer(c, "an address offset", depth))
        elif c.at("-"):
            c.fail("S112", "an address offset cannot be subtracted", fix="add a negative offset: [a+-4]")
    else:
        base = Integer(integer(c, "an address", depth))
    extra: list[Operand] = []
    while c.take(","):
        extra.append(operand(c, depth + 1))
    c.expect("]", *(() if extra or offset else ("+",)), ",")
    unified = c.kind == "directive" and c.take(".unified")
    return Memory(base, offset, tuple(extra), unified)


def _sequence(c: Cursor, close: str, depth: int) -> tuple[Operand, ...]:
    c.advance()
    if c.take(close):
        return ()
    items = c.separated(lambda: operand(c, depth + 1))
    c.expect(close, ",")
    return tuple(items)


# --------------------------------------------------------------------------------------------- fast


class Irregular(Exception):
    """The table cannot read this operand; the exact parser reads it or reports the error."""


_DOTTED = NAME + r"(?:\.\w++)?+"
_DECIMAL = r"-?+(?:0|[1-9][0-9]{0,17}+)(?![\w.])"
_USUAL = re.compile(
    rf"({_DOTTED})"  # 1 name
    rf"|({_DECIMAL}|-?+0[xX][0-9a-fA-F]{{1,15}}(?![\w.]))"  # 2 integer
    rf"|\[\s*+({_DOTTED})\s*+(?>(?:\+\s*+({_DECIMAL})\s*+)?)\]"  # 3 base, 4 offset
    rf"|({_DOTTED}|_)\s*+\|\s*+({_DOTTED}|_)"  # 5, 6 pair
    r"|0[fF]([0-9a-fA-F]{8})"  # 7 f32
    r"|\{([^{}()\[\]]*+)\}"  # 8 vector
    rf"|\[\s*+({_DOTTED})\s*+(?>(?:\+\s*+({_DECIMAL})\s*+)?),"  # 9 base, 10 offset
    r"((?:[^\[\]{}()]++|\{[^\[\]{}()]*+\})++)\]"  # 11 what follows the base
    rf"|!({_DOTTED})"  # 12 negated
    r"|(_)",  # 13 sink
    re.ASCII,
)
_PIECES = re.compile(r"(?:[^,{}()\[\]]++|\{[^{}()\[\]]*+\}|\[(?:[^\[\]{}()]++|\{[^{}\[\]()]*+\})*+\]|\([^()\[\]{}]*+\))++")
_GUARD = re.compile(rf"\s*+(!?+)\s*+({NAME})\Z", re.ASCII)


class OperandTable(dict[str, Operand]):
    """Operands by their text; a new text is parsed on first use."""

    def __missing__(self, text: str) -> Operand:
        stripped = text.strip(_WHITE)
        value = self[text] = self._read(text) if stripped == text else self[stripped]
        return value

    def split(self, body: str, call: bool) -> tuple[Operand, ...]:
        """The operands of an instruction that has vectors or parentheses."""
        pieces: list[str] = _PIECES.findall(body)
        if ",".join(pieces) != body:
            raise Irregular
        if not call:
            return tuple([self[piece[1:] if piece[0] == " " else piece] for piece in pieces])
        return tuple([self._argument(piece) for piece in pieces])

    def _argument(self, piece: str) -> Operand:
        stripped = piece.strip(_WHITE)
        if stripped[:1] != "(":
            return self[stripped]
        if stripped[-1] != ")":
            raise Irregular
        return Arguments(self._items(stripped[1:-1]))

    def _items(self, inner: str) -> tuple[Operand, ...]:
        comma = ", " if ", " in inner else ","
        return tuple([self[item] for item in inner.split(comma)]) if inner.strip(_WHITE) else ()

    def _read(self, text: str) -> Operand:
        m = _USUAL.fullmatch(text)
        if m is None:
            return self._exactly(text)
        i = m.lastindex
        if i == 1:
            return Name(text) if text != "WARP_SZ" else Integer(32)
        if i == 2:
            return Integer(int(text) if text.isdigit() else int(text, 0))
        if i in (3, 4):
            if m[3] == "WARP_SZ":
                return self._exactly(text)
            return Memory(self[m[3]], int(m[4] or 0))  # type: ignore[arg-type]
        if i == 6:
            if "WARP_SZ" in (m[5], m[6]):
                return self._exactly(text)
            return Pair(self[m[5]], self[m[6]])
        if i == 7:
            return Float(int(m[7], 16), 32)
        if i == 8:
            return Vector(self._items(m[8]))
        if i == 11:
            if m[9] == "WARP_SZ":
                return self._exactly(text)
            return Memory(self[m[9]], int(m[10] or 0), self.split(m[11], False))  # type: ignore[arg-type]
        if i == 12:
            return Not(self[m[12]]) if m[12] != "WARP_SZ" else self._exactly(text)  # type: ignore[arg-type]
        return _SINK

    def _exactly(self, text: str) -> Operand:
        try:
            c = Cursor(text)
            value = operand(c)
        except PtxSyntaxError:
            raise Irregular from None
        if c.kind != "end":
            raise Irregular
        return value


_MOST_OPERANDS = 1 << 15
_table = OperandTable()


def operand_table() -> OperandTable:
    """The table of all parses: operands are immutable, and modules have many in common. It is emptied once it is large."""
    if len(_table) > _MOST_OPERANDS:
        _table.clear()
    return _table


class GuardTable(dict[str, Guard]):
    """Guards by the text that follows ``@``."""

    def __missing__(self, text: str) -> Guard:
        m = _GUARD.match(text)
        if m is None:
            raise Irregular
        value = self[text] = Guard(m[2], bool(m[1]))
        return value
