"""A kernel that is typed key by key, with mistakes and their corrections: every feature answers after each key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

import ptxlab
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
    assert [each.code for each in editor.diagnostics(uri)] == [each.code for each in ptxlab.lint(text)] == []
    assert editor.messages == []
    editor.stop()
