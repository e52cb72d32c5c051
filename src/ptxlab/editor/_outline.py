"""The outline of a text, what folds in it, and the kinds of its tokens."""

from __future__ import annotations

from lsprotocol import types

from ptxlab.editor._document import Document
from ptxlab.editor._structure import Definition, FunctionPart

__all__ = ["LEGEND", "folding_ranges", "outline", "semantic_tokens"]

_SYMBOLS = {"function": types.SymbolKind.Function, "variable": types.SymbolKind.Variable, "label": types.SymbolKind.Event}
_TYPES = (
    types.SemanticTokenTypes.Keyword,
    types.SemanticTokenTypes.Method,
    types.SemanticTokenTypes.Variable,
    types.SemanticTokenTypes.Parameter,
    types.SemanticTokenTypes.Property,
    types.SemanticTokenTypes.Function,
    types.SemanticTokenTypes.Label,
    types.SemanticTokenTypes.EnumMember,
    types.SemanticTokenTypes.Number,
    types.SemanticTokenTypes.String,
    types.SemanticTokenTypes.Comment,
)
_CODES = {name: number for number, name in enumerate(_TYPES)}
_OF_KIND = {
    "directive": types.SemanticTokenTypes.Keyword,
    "number": types.SemanticTokenTypes.Number,
    "string": types.SemanticTokenTypes.String,
    "comment": types.SemanticTokenTypes.Comment,
}
_OF_DEFINITION = {
    "register": types.SemanticTokenTypes.Variable,
    "parameter": types.SemanticTokenTypes.Parameter,
    "variable": types.SemanticTokenTypes.Property,
    "function": types.SemanticTokenTypes.Function,
    "label": types.SemanticTokenTypes.Label,
}
LEGEND = types.SemanticTokensLegend([str(each.value) for each in _TYPES], [str(types.SemanticTokenModifiers.Declaration.value)])


def outline(document: Document) -> list[types.DocumentSymbol]:
    """The functions with their labels and variables, and the variables of the module."""
    structure = document.structure
    found = [_function(document, each) for each in structure.functions]
    found += [_symbol(document, each) for each in structure.scopes[0].names.values() if each.kind == "variable"]
    return sorted(found, key=lambda symbol: (symbol.range.start.line, symbol.range.start.character))


def _symbol(document: Document, definition: Definition) -> types.DocumentSymbol:
    where = document.range_of(definition.token)
    return types.DocumentSymbol(definition.name, _SYMBOLS[definition.kind], where, where, detail=definition.type)


def _function(document: Document, part: FunctionPart) -> types.DocumentSymbol:
    structure = document.structure
    tokens = structure.tokens
    inside = [
        each
        for scope in structure.scopes[1:]
        for each in scope.names.values()
        if each.kind in ("label", "variable") and part.first <= each.token <= part.last
    ]
    return types.DocumentSymbol(
        part.definition.name,
        types.SymbolKind.Function,
        document.positions.range(tokens[part.first].start, tokens[part.last].end),
        document.range_of(part.definition.token),
        detail=f".{part.kind}",
        children=[_symbol(document, each) for each in sorted(inside, key=lambda each: each.token)],
    )


def folding_ranges(document: Document) -> list[types.FoldingRange]:
    """What stands in braces over several lines, comments of several lines, and runs of comments."""
    structure, positions = document.structure, document.positions
    found = []
    for first, last in structure.blocks:
        start, end = (positions.position(structure.tokens[at].start).line for at in (first, last))
        if end > start + 1:
            found.append(types.FoldingRange(start, end - 1))
    begin = last_line = -2
    for token in structure.comments:
        start, end = positions.position(token.start).line, positions.position(token.end).line
        alone = not document.text[positions.starts[start] : token.start].strip()
        if not alone or start > last_line + 1:
            begin = start if alone else -2
        if alone:
            if found and found[-1].kind is types.FoldingRangeKind.Comment and found[-1].start_line == begin:
                found.pop()
            if end > begin:
                found.append(types.FoldingRange(begin, end, kind=types.FoldingRangeKind.Comment))
            last_line = end
    return found


def semantic_tokens(document: Document) -> types.SemanticTokens:
    """The kinds of the tokens: what is an opcode, a register, a variable, a label."""
    structure = document.structure
    opcodes = {statement.head for statement in structure.statements}
    kinds: list[tuple[int, int, int, int]] = []
    for at, token in enumerate(structure.tokens):
        modifier = 0
        kind = _OF_KIND.get(token.kind)
        if token.kind == "word":
            definition = structure.used.get(at)
            if at in opcodes:
                kind = types.SemanticTokenTypes.Method
            elif definition is not None:
                kind = _OF_DEFINITION[definition.kind]
                modifier = int(definition.token == at)
            elif token.text.startswith("%"):
                kind = types.SemanticTokenTypes.EnumMember
        if kind is not None:
            kinds.append((token.start, token.end, _CODES[kind], modifier))
    kinds += [(token.start, token.end, _CODES[types.SemanticTokenTypes.Comment], 0) for token in structure.comments]
    return types.SemanticTokens(_encoded(document, sorted(kinds)))


def _encoded(document: Document, kinds: list[tuple[int, int, int, int]]) -> list[int]:
    """The tokens as the protocol has them: each relative to the one before it, and those of several lines line by line."""
    data: list[int] = []
    line = character = 0
    for start, end, kind, modifier in kinds:
        while start < end:
            break_at = document.text.find("\n", start, end)
            stop = end if break_at < 0 else break_at
            first, last = document.positions.position(start), document.positions.position(stop)
            if stop > start:
                same = first.line == line
                data += [first.line - line, first.character - character if same else first.character, last.character - first.character]
                data += [kind, modifier]
                line, character = first.line, first.character
            start = stop + 1
    return data
