"""A kernel that is typed key by key, with mistakes and their corrections: every feature answers after each key."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

import ptxlab
from ptxlab.editor._descriptors import inlay_hints
from ptxlab.editor._document import Document
from ptxlab.editor._fixes import quick_fixes
from ptxlab.editor._hover import hover
from ptxlab.editor._navigation import definition, references, source_of
from ptxlab.editor._outline import folding_ranges, outline, semantic_tokens
from tests.check.static.dataflow_kernels.launches import LAUNCHES, base_text
from tests.editor.client_helpers import Editor

SESSION = (Path(__file__).parent / "session.txt").read_text()
"""What is typed; ``⌫`` deletes the character before the cursor, ``◀`` and ``▶`` move it."""


def keys(session: str) -> list[tuple[int, int, str]]:
    """The edits: offsets of what is replaced, and the text that takes its place."""
    edits, cursor = [], 0
    for key in session:
        if key == "⌫":
            edits.append((cursor - 1, cursor, ""))
            cursor -= 1
        elif key in "◀▶":
            cursor += 1 if key == "▶" else -1
        else:
            edits.append((cursor, cursor, key))
            cursor += 1
    return edits


def position(text: str, offset: int) -> types.Position:
    return types.Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)


async def ask_everything(editor: Editor, uri: str, where: types.Position, end: types.Position) -> None:
    """Ask for each feature; an error of the server is raised here."""
    document, whole = types.TextDocumentIdentifier(uri), types.Range(types.Position(0, 0), end)
    requests = [
        (types.TEXT_DOCUMENT_HOVER, types.HoverParams(document, where)),
        (types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(document, where)),
        (types.TEXT_DOCUMENT_IMPLEMENTATION, types.ImplementationParams(document, where)),
        (types.TEXT_DOCUMENT_REFERENCES, types.ReferenceParams(types.ReferenceContext(True), document, where)),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, types.DocumentSymbolParams(document)),
        (types.TEXT_DOCUMENT_FOLDING_RANGE, types.FoldingRangeParams(document)),
        (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensParams(document)),
        (types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintParams(document, whole)),
        (types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionParams(document, whole, types.CodeActionContext([]))),
    ]
    await asyncio.gather(*(editor.request(*request) for request in requests))


@pytest.mark.sweep
def test_every_key_of_a_session(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    uri = editor.open("typed.ptx", "")
    text = ""
    for start, end, typed in keys(SESSION):
        editor.edit(uri, types.Range(position(text, start), position(text, end)), typed)
        text = text[:start] + typed + text[end:]
        cursor = start + len(typed)
        editor.wait(ask_everything(editor, uri, position(text, cursor), position(text, len(text))))
    assert [each.code for each in editor.diagnostics(uri)] == [each.code for each in ptxlab.lint(text)] == ["L142"]
    assert editor.messages == []
    editor.stop()


def shaken(text: str, random: Random) -> str:
    """A text with a few random changes."""
    for _ in range(random.randint(1, 6)):
        at, length = random.randrange(len(text) + 1), random.randint(1, 60)
        kind = random.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + length :]
        elif kind == 1:
            text = text[:at] + random.choice(PIECES) + text[at:]
        elif kind == 2:
            begin = random.randrange(len(text) + 1)
            text = text[:at] + text[begin : begin + length] + text[at:]
        else:
            text = text[:at] if random.random() < 0.2 else text
    return text


WORDS = '.entry .func { } ( ) [ ] ; , .reg < 9 > @ ! | : // /* */ " .section .file 𝄞 %r1 0x :: .param % _'
PIECES = (*re.split(" ", WORDS), "\n", ".loc 1 2 3\n")


def answer_everything(text: str, offset: int) -> None:
    """Each feature for a place of a text, in this process."""
    document = Document(text)
    where, end = document.positions.position(offset), document.positions.position(len(text))
    whole, uri = types.Range(types.Position(0, 0), end), "file:///typed.ptx"
    hover(document, where)
    definition(document, uri, where)
    references(document, uri, where, True)
    source_of(document, where.line)
    outline(document)
    folding_ranges(document)
    semantic_tokens(document)
    inlay_hints(document, whole)
    quick_fixes(document, uri, whole)
    document.diagnostics()


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 400))])
def test_texts_with_random_changes(seed: int) -> None:
    random = Random(seed)
    for base in LAUNCHES:
        text = shaken(base_text(base), random)
        answer_everything(text, random.randrange(len(text) + 1))
