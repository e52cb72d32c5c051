"""A client of the language server: it starts ``ptxlab lsp``, opens documents, edits them and asks for features."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient

TEXT = """.version 8.7
.target sm_100a
.address_size 64
.global .align 4 .b32 counter;
.shared .align 1024 .b8 tile[1024];
// Adds
// one.
.func (.reg .b32 %out) next(.reg .b32 %in)
{
    add.u32 %out, %in, 1;
    ret;
}
.visible .entry k(.param .u64 result)
.reqntid 128
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, tile;
    mov.u32 %r2, 0x08100000;
    or.b32 %r3, %r2, 16;
    cvt.u64.u32 %rd1, %r1;
    or.b64 %rd1, %rd1, 0x4000404000010000;
LOOP:
    tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd1, %rd1, %r3, %p1;
    {
        .reg .b32 %r3;
        mov.u32 %r3, %tid.x;
        st.shared.b32 [tile], %r3;
    }
    call (%r5), next, (%r3);
    @%p1 bra LOOP;
    ld.param.u64 %rd2, [result];
    st.global.b32 [%rd2], %r5;
    ret;
}
"""

START = "from ptxlab.cli import main; main(['lsp'])"
TIMEOUT = 60


class Editor:
    """An editor with one server; ``messages`` holds what the server has shown or logged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.loop = asyncio.new_event_loop()
        self.client = BaseLanguageClient("test", "1")
        self.messages: list[str] = []
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.publications: Counter[tuple[str, int | None]] = Counter()
        self.arrived = asyncio.Event()
        self.versions: dict[str, int] = {}
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(Editor._publish, self))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(partial(Editor._say, self))
        self.client.feature(types.WINDOW_LOG_MESSAGE)(partial(Editor._say, self))
        self.result: types.InitializeResult = self.wait(self._start())

    def _publish(self, params: types.PublishDiagnosticsParams) -> None:
        self.published[params.uri] = params
        self.publications[params.uri, params.version] += 1
        self.arrived.set()

    def _say(self, params: types.ShowMessageParams | types.LogMessageParams) -> None:
        self.messages.append(params.message)

    async def _start(self) -> types.InitializeResult:
        await self.client.start_io(sys.executable, "-c", START)
        params = types.InitializeParams(types.ClientCapabilities(), root_uri=self.root.as_uri())
        result = await self.client.initialize_async(params)
        self.client.initialized(types.InitializedParams())
        return result

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run until something is done."""
        return self.loop.run_until_complete(asyncio.wait_for(work, TIMEOUT))

    def ask(self, method: str, params: Any) -> Any:
        """The answer to a request."""
        return self.wait(self.request(method, params))

    async def request(self, method: str, params: Any) -> Any:
        """Ask; an error of the server is raised here."""
        return await self.client.protocol.send_request_async(method, params)

    def open(self, name: str, text: str) -> str:
        """Open a document; its address."""
        uri = (self.root / name).as_uri()
        self.versions[uri] = 1
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "ptx", 1, text)))
        return uri

    def replace(self, uri: str, text: str) -> None:
        """Replace the whole text of a document."""
        self._change(uri, types.TextDocumentContentChangeWholeDocument(text))

    def edit(self, uri: str, where: types.Range, text: str) -> None:
        """Replace a range of a document."""
        self._change(uri, types.TextDocumentContentChangePartial(where, text))

    def _change(self, uri: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        """Close a document."""
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of the newest version of a document: the second ones, which have followed the paths."""
        return list(self.wait(self._newest(uri)))

    async def _newest(self, uri: str) -> list[types.Diagnostic]:
        while self.publications[uri, self.versions[uri]] < 2:
            self.arrived.clear()
            await self.arrived.wait()
        return list(self.published[uri].diagnostics)

    def stop(self) -> None:
        """Shut the server down."""
        self.ask(types.SHUTDOWN, None)
        self.client.exit(None)
        self.wait(self.client.stop())
        self.loop.close()


def position(text: str, piece: str, inside: int = 0, occurrence: int = 0) -> types.Position:
    """The position in a piece of a text."""
    at = -1
    for _ in range(occurrence + 1):
        at = text.index(piece, at + 1)
    at += inside
    return types.Position(text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1)


def covered(text: str, where: types.Range) -> str:
    """The text in a range that stays on one line."""
    assert where.start.line == where.end.line
    return text.split("\n")[where.start.line][where.start.character : where.end.character]


def long_text() -> str:
    """A kernel of 5,000 lines."""
    lines = [f"    add.u32 %r6, %r6, {i};\n    xor.b32 %r7, %r6, %r7;" for i in range(2500)]
    return TEXT.replace("%r5;\n    ret;\n", "%r5;\n" + "\n".join(lines) + "\n    ret;\n")
