"""Descriptors among the operands of a text: which they are, what they say, and hints that show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lsprotocol import types

from ptxlab.descriptors import DescriptorError, Interpretation, explain
from ptxlab.editor._document import Document
from ptxlab.editor._structure import Statement
from ptxlab.editor._values import candidate_of, literal
from ptxlab.isa.effects import Asynchronous, Unit, resolve

__all__ = ["DescriptorOperand", "descriptor_operands", "inlay_hints", "reading_of_constant"]

_READINGS = {"idesc": "idesc", "a-desc": "smem", "b-desc": "smem", "s-desc": "smem", "zero-column-mask-desc": "mask"}
_LEAST_BITS = 32
"""A constant of fewer bits is no descriptor of shared memory."""
_LEAST_SCORE = 0.8


class DescriptorOperand(NamedTuple):
    """An operand that is a descriptor: its tokens, the name of its reading, and the kind of the instruction."""

    first: int
    last: int
    reading: str
    kind: str | None


def descriptor_operands(document: Document, statement: Statement) -> Iterator[DescriptorOperand]:
    """The operands of an instruction that are descriptors."""
    structure = document.structure
    row = candidate_of(structure, statement)
    if row is None:
        return
    candidate, line = row
    if not any(spec.name in _READINGS for spec in candidate.specs):
        return
    effects = resolve(candidate.row.effects, candidate.q) if candidate.row.effects is not None else None
    of_wgmma = isinstance(effects, Asynchronous) and effects.unit is Unit.WARPGROUP
    kind = candidate.q.get("kind")
    for place, (first, last) in zip(line, structure.operands(statement), strict=True):
        reading = _READINGS.get(candidate.specs[place].name)
        if reading:
            yield DescriptorOperand(
                first, last, "wgmma" if of_wgmma and reading == "smem" else reading, kind and kind.removeprefix("kind::")
            )


def reading_of(operand: DescriptorOperand, value: int) -> Interpretation | None:
    """What a descriptor says."""
    try:
        return explain(value, operand.reading, operand.kind).best
    except DescriptorError:
        return None


def reading_of_constant(text: str) -> Interpretation | None:
    """What a constant such as 0x4000404000010000 says, if it can hardly be anything but a descriptor of shared memory."""
    value = literal(text)
    if value is None or value.bit_length() <= _LEAST_BITS or not text.lower().startswith("0x"):
        return None
    try:
        best = explain(value).best
    except DescriptorError:
        return None
    return best if best.what in ("smem", "wgmma") and best.score >= _LEAST_SCORE and not best.findings else None


def _label(said: Interpretation) -> str:
    """A descriptor in a few words."""
    if said.findings:
        return f"not legal: {said.findings[0].message}"
    layouts = dict(said.layouts)
    if "shape" in layouts:
        return layouts["shape"]
    fields = {each.name: each.value for each in said.fields}
    shown = [f"{name} {fields[name].split(' ')[0]}" for name in ("swizzle", "leading", "stride") if name in fields]
    return ", ".join(shown) or said.title


def inlay_hints(document: Document, wanted: types.Range) -> list[types.InlayHint]:
    """Hints for the descriptors in a range that are constants."""
    positions, structure = document.positions, document.structure
    begin, end = positions.offset(wanted.start), positions.offset(wanted.end)
    found = []
    for statement in structure.statements:
        if structure.tokens[statement.last].end < begin or structure.tokens[statement.first].start > end:
            continue
        said: dict[int, Interpretation | None] = {}
        for operand in descriptor_operands(document, statement):
            value = document.values.operand((operand.first, operand.last))
            said[operand.last] = None if value is None else reading_of(operand, value)
        for token in range(statement.head + 1, statement.last + 1):
            if token not in said and structure.tokens[token].kind == "number":
                said[token] = reading_of_constant(structure.tokens[token].text)
        for token, meaning in said.items():
            if meaning is not None:
                place = positions.position(structure.tokens[token].end)
                tooltip = types.MarkupContent(types.MarkupKind.Markdown, f"```\n{meaning}\n```")
                found.append(types.InlayHint(place, _label(meaning), tooltip=tooltip, padding_left=True))
    return found
