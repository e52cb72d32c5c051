"""From a name to its definition and its uses, and between PTX and the source that it was compiled from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types

from ptxlab.diagnostics import Place
from ptxlab.editor._document import Document

__all__ = ["definition", "instructions_of", "references", "source_of"]


def definition(document: Document, uri: str, position: types.Position) -> types.Location | None:
    """Where a name is declared; on a ``.loc``, the source line that it names."""
    found = document.definition_at(position)
    if found is not None:
        return types.Location(uri, document.range_of(found.token))
    token = document.token_at(position)
    line = document.positions.offset(types.Position(position.line, 0))
    if token >= 0 and any(
        line <= document.structure.tokens[at].start <= document.structure.tokens[token].start for at in _loc_on(document, token)
    ):
        return source_of(document, position.line)
    return None


def _loc_on(document: Document, token: int) -> Iterator[int]:
    """The ``.loc`` that begins the line of a token."""
    tokens = document.structure.tokens
    line = document.positions.position(tokens[token].start).line
    yield from (at for at in document.structure.locations if document.positions.position(tokens[at].start).line == line)


def references(document: Document, uri: str, position: types.Position, declaration: bool) -> list[types.Location]:
    """Where a name is used; where a family such as ``%r<10>`` is declared, the uses of each of its registers."""
    found = document.definition_at(position)
    if found is None:
        return []
    here = document.token_at(position) == found.token
    meant = {id(found): found}
    if here:
        meant |= {id(each): each for each in document.structure.used.values() if each.token == found.token}
    uses = sorted({token for each in meant.values() for token in each.uses} | ({found.token} if declaration else set()))
    return [types.Location(uri, document.range_of(token)) for token in uses]


def source_of(document: Document, line: int) -> types.Location | None:
    """The source of the instructions on a line of PTX, which counts from 0, or that a ``.loc`` on this line names."""
    sources = document.source_map
    if sources is None:
        return None
    place = sources.at(line + 1) or sources.at(line + 2)
    if place is None:
        return None
    at = types.Position(max(place.line - 1, 0), max(place.column - 1, 0))
    return types.Location(_source_path(document, place).as_uri(), types.Range(at, at))


def _source_path(document: Document, place: Place) -> Path:
    """The file of a place; a relative one stands beside the PTX."""
    return (Path(document.file).parent / place.file).absolute()


def instructions_of(documents: Iterable[tuple[str, Document]], source: str, line: int) -> list[types.Location]:
    """The instructions in open documents that come from a line of a source file, which counts from 0; adjacent lines are one range."""
    wanted = Path(unquote(urlsplit(source).path))
    found = []
    for uri, document in documents:
        sources = document.source_map
        if sources is None:
            continue
        lines = []
        for statement in document.structure.statements:
            number = document.line_of(statement)
            place = sources.at(number)
            if place is not None and place.line == line + 1 and _source_path(document, place) == wanted:
                lines.append(number)
        for first, last in _runs(sorted(set(lines))):
            end = document.positions.of_place(last, 1, 0).end
            found.append(types.Location(uri, types.Range(types.Position(first - 1, 0), end)))
    return found


def _runs(lines: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of adjacent numbers.

    >>> list(_runs([3, 4, 7]))
    [(3, 4), (7, 7)]
    """
    for at, line in enumerate(lines):
        if at == 0 or lines[at - 1] != line - 1:
            first = line
        if at + 1 == len(lines) or lines[at + 1] != line + 1:
            yield first, line
