"""``ptxlab lsp``: the features of the language server, over pygls."""

from __future__ import annotations

import asyncio

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from ptxlab._version import __version__
from ptxlab.check import Abandoned
from ptxlab.editor._descriptors import inlay_hints
from ptxlab.editor._document import Document
from ptxlab.editor._fixes import quick_fixes
from ptxlab.editor._hover import hover
from ptxlab.editor._navigation import definition, instructions_of, references, source_of
from ptxlab.editor._outline import LEGEND, folding_ranges, outline, semantic_tokens
from ptxlab.isa import load_all

__all__ = ["PtxServer", "make_server"]

_PAUSE = 0.005
"""How many seconds a text must not change before it is checked."""


class PtxServer(LanguageServer):
    """The server with the documents that the editor has opened."""

    def __init__(self) -> None:
        super().__init__("ptxlab", __version__)
        self._documents: dict[str, Document] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def document(self, uri: str) -> Document:
        """A document as it is now."""
        opened = self.workspace.get_text_document(uri)
        text, known = opened.source, self._documents.get(uri)
        if known is None or known.text != text:
            encoding = types.PositionEncodingKind(self.workspace.position_encoding or types.PositionEncodingKind.Utf16)
            known = self._documents[uri] = Document(text, opened.path or uri, encoding.value, known)
        return known

    def documents(self) -> list[tuple[str, Document]]:
        """All documents that are open."""
        return [(uri, self.document(uri)) for uri in self.workspace.text_documents]

    def forget(self, uri: str) -> None:
        """Drop a document that has been closed, and its diagnostics."""
        self._documents.pop(uri, None)
        self._locks.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def check(self, uri: str) -> None:
        """Publish the diagnostics of a document; one check of a document runs at a time, and ends early if the document changes.

        Those of single instructions come first. Following the paths takes longer: all findings replace the first ones then.
        """
        version = self.workspace.get_text_document(uri).version
        await asyncio.sleep(_PAUSE)
        async with self._locks.setdefault(uri, asyncio.Lock()):
            for dataflow in (False, True):
                if self._has_changed(uri, version):
                    return
                try:
                    found = await asyncio.to_thread(self.document(uri).diagnostics, dataflow, lambda: not self._has_changed(uri, version))
                except Abandoned:
                    return
                if not self._has_changed(uri, version):
                    self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def _has_changed(self, uri: str, version: int | None) -> bool:
        return uri not in self.workspace.text_documents or self.workspace.text_documents[uri].version != version


async def _opened(server: PtxServer, params: types.DidOpenTextDocumentParams) -> None:
    await server.check(params.text_document.uri)


async def _changed(server: PtxServer, params: types.DidChangeTextDocumentParams) -> None:
    await server.check(params.text_document.uri)


def _closed(server: PtxServer, params: types.DidCloseTextDocumentParams) -> None:
    server.forget(params.text_document.uri)


def _hover(server: PtxServer, params: types.HoverParams) -> types.Hover | None:
    return hover(server.document(params.text_document.uri), params.position)


def _definition(server: PtxServer, params: types.DefinitionParams) -> types.Location | None:
    uri = params.text_document.uri
    return definition(server.document(uri), uri, params.position)


def _references(server: PtxServer, params: types.ReferenceParams) -> list[types.Location]:
    uri = params.text_document.uri
    return references(server.document(uri), uri, params.position, params.context.include_declaration)


def _implementation(server: PtxServer, params: types.ImplementationParams) -> types.Location | None:
    return source_of(server.document(params.text_document.uri), params.position.line)


def _outline(server: PtxServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    return outline(server.document(params.text_document.uri))


def _folding(server: PtxServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    return folding_ranges(server.document(params.text_document.uri))


def _tokens(server: PtxServer, params: types.SemanticTokensParams) -> types.SemanticTokens:
    return semantic_tokens(server.document(params.text_document.uri))


def _hints(server: PtxServer, params: types.InlayHintParams) -> list[types.InlayHint]:
    return inlay_hints(server.document(params.text_document.uri), params.range)


def _actions(server: PtxServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    return quick_fixes(server.document(uri), uri, params.range)


def _source(server: PtxServer, uri: str, line: int) -> types.Location | None:
    """The command ``ptxlab.source``: the source of a line of PTX, which counts from 0."""
    return source_of(server.document(uri), line)


def _instructions(server: PtxServer, source: str, line: int) -> list[types.Location]:
    """The command ``ptxlab.instructions``: the instructions in open documents that come from a source line, which counts from 0."""
    return instructions_of(server.documents(), source, line)


def make_server() -> PtxServer:
    """Make a server with all features; ``start_io()`` serves standard input and output."""
    load_all()
    server = PtxServer()
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(_opened)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_changed)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_closed)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(_definition)
    server.feature(types.TEXT_DOCUMENT_REFERENCES)(_references)
    server.feature(types.TEXT_DOCUMENT_IMPLEMENTATION)(_implementation)
    server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(_outline)
    server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)(_folding)
    server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, LEGEND)(_tokens)
    server.feature(types.TEXT_DOCUMENT_INLAY_HINT)(_hints)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))(_actions)
    server.command("ptxlab.source")(_source)
    server.command("ptxlab.instructions")(_instructions)
    return server
