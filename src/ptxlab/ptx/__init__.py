"""The PTX front end: text to a typed syntax tree and back to text, and a map to source positions."""

from typing import TYPE_CHECKING

from ptxlab._exports import deferred
from ptxlab.ptx._cursor import PtxSyntaxError
from ptxlab.ptx._outline import may_declare, outline, text_without_bodies
from ptxlab.ptx._parser import parse
from ptxlab.ptx._places import SourceMap, TextOrder, line_text, opcode_span, operand_span, place
from ptxlab.ptx.ast import (
    Alias,
    Arguments,
    Block,
    CallPrototype,
    File,
    Float,
    Function,
    Guard,
    Initialiser,
    Instruction,
    Integer,
    Label,
    Location,
    Memory,
    Module,
    Name,
    Negative,
    Not,
    Offset,
    Operand,
    Pair,
    Pragma,
    RegisterDeclaration,
    Section,
    Sink,
    Statement,
    SymbolValue,
    Targets,
    TopLevel,
    Variable,
    Vector,
)

if TYPE_CHECKING:
    from ptxlab.ptx._embedded import Embedded, embedded, is_binary
    from ptxlab.ptx._printer import to_text
    from ptxlab.ptx._tokens import Token, tokens
else:
    _HOMES = {"_embedded": ("Embedded", "embedded", "is_binary"), "_printer": ("to_text",), "_tokens": ("Token", "tokens")}
    __getattr__ = deferred(__name__, _HOMES)

__all__ = [
    "Alias",
    "Arguments",
    "Block",
    "CallPrototype",
    "Embedded",
    "File",
    "Float",
    "Function",
    "Guard",
    "Initialiser",
    "Instruction",
    "Integer",
    "Label",
    "Location",
    "Memory",
    "Module",
    "Name",
    "Negative",
    "Not",
    "Offset",
    "Operand",
    "Pair",
    "Pragma",
    "PtxSyntaxError",
    "RegisterDeclaration",
    "Section",
    "Sink",
    "SourceMap",
    "Statement",
    "SymbolValue",
    "Targets",
    "TextOrder",
    "Token",
    "TopLevel",
    "Variable",
    "Vector",
    "embedded",
    "is_binary",
    "line_text",
    "may_declare",
    "opcode_span",
    "operand_span",
    "outline",
    "parse",
    "place",
    "text_without_bodies",
    "to_text",
    "tokens",
]
