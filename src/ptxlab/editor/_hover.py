"""What a token means, for the box that an editor shows beside it."""

from __future__ import annotations

from lsprotocol import types

from ptxlab.descriptors import Interpretation
from ptxlab.editor._descriptors import descriptor_operands, reading_of, reading_of_constant
from ptxlab.editor._document import Document
from ptxlab.editor._structure import Definition, Statement
from ptxlab.editor._values import candidate_of
from ptxlab.isa.help_text import forms_of, help_text

__all__ = ["hover"]

_MOST_FORMS = 4
_MOST_WRITES = 8


def hover(document: Document, position: types.Position) -> types.Hover | None:
    """What stands at a position: the forms of an instruction, the fields of a descriptor, the definitions and the value of a register."""
    token = document.token_at(position)
    if token < 0:
        return None
    structure = document.structure
    statement = structure.statement_at(token)
    definition = structure.used.get(token)
    parts: list[str] = []
    if statement is not None and token == statement.head:
        parts = _instruction(document, statement)
    elif definition is not None:
        parts = _name(document, definition)
    if statement is not None and token != statement.head:
        said = _descriptor(document, statement, token)
        parts += [_code(str(said))] if said is not None else []
    if not parts:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(parts)), document.range_of(token))


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _instruction(document: Document, statement: Statement) -> list[str]:
    """The forms of an instruction, and how its behaviour is known."""
    row = candidate_of(document.structure, statement)
    if row is not None:
        return [_code(help_text(row[0].row.form)), f"fidelity: {row[0].row.fidelity}"]
    words = document.structure.tokens[statement.head].text.split(".")
    for count in range(len(words), 0, -1):
        forms = forms_of(".".join(words[:count]))
        if forms:
            more = [f"{len(forms) - _MOST_FORMS} more forms: `ptxlab rule {'.'.join(words[:count])}`"] if len(forms) > _MOST_FORMS else []
            return [_code("\n\n".join(map(help_text, forms[:_MOST_FORMS]))), *more]
    return []


def _name(document: Document, definition: Definition) -> list[str]:
    """What a name is, and for a register what writes it, and its value if that is constant."""
    line = document.positions.position(document.structure.tokens[definition.token].start).line + 1
    type = f" .{definition.type}" if definition.kind in ("register", "parameter") and definition.type else f" {definition.type}".rstrip()
    parts = [f"{definition.kind} `{definition.name}`{type}, declared on line {line}"]
    if definition.kind != "register":
        return parts
    value = document.values.of(definition)
    if value is not None:
        parts.append(f"value {value:#x} ({value})")
    writes = document.values.writes(definition)
    if writes:
        shown = [f"{document.line_of(each):5}  {document.statement_text(each)}" for each in writes[:_MOST_WRITES]]
        if len(writes) > _MOST_WRITES:
            shown.append(f"       and {len(writes) - _MOST_WRITES} more")
        parts += ["written by", _code("\n".join(shown))]
    return parts


def _descriptor(document: Document, statement: Statement, token: int) -> Interpretation | None:
    """What the descriptor says that a token is, or is a part of."""
    for operand in descriptor_operands(document, statement):
        if operand.first <= token <= operand.last:
            value = document.values.operand((operand.first, operand.last))
            return None if value is None else reading_of(operand, value)
    found = document.structure.tokens[token]
    return reading_of_constant(found.text) if found.kind == "number" else None
