"""An editor as the adapter sees it: it sends requests over a socket, and keeps events."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ptxlab.debug.dap.adapter import Adapter
from ptxlab.debug.dap.protocol import Connection
from ptxlab.machine import Replay

TIMEOUT = 20


class Editor:
    """A client of one adapter."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(TIMEOUT)
        self.raw = stream
        self._connection = Connection(stream.makefile("rb"), stream.makefile("wb"))
        self._sent = 0
        self.events: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request; its number."""
        self._sent += 1
        self._connection.send({"type": "request", "command": command, "arguments": arguments})
        return self._sent

    def message(self) -> dict[str, Any]:
        """The next answer or event."""
        found = self._connection.receive()
        assert found is not None
        return found

    def answer(self) -> dict[str, Any]:
        """The next answer; events before it are kept."""
        while True:
            message = self.message()
            if message["type"] == "response":
                return message
            self.events.append(message)

    def ask(self, command: str, **arguments: Any) -> Any:
        """The body of the answer to a request, which succeeds."""
        number = self.send(command, **arguments)
        answer = self.answer()
        assert (answer["request_seq"], answer["command"]) == (number, command)
        assert answer["success"], answer["message"]
        return answer["body"]

    def refused(self, command: str, **arguments: Any) -> str:
        """Why a request is refused."""
        self.send(command, **arguments)
        answer = self.answer()
        assert not answer["success"]
        return str(answer["message"])

    def event(self, name: str) -> dict[str, Any]:
        """The next event of a name; others are dropped."""
        while True:
            message = self.events.pop(0) if self.events else self.message()
            if message.get("event") == name:
                return dict(message["body"])

    def start(self, **arguments: Any) -> dict[str, Any]:
        """From initialize to the first stop, without breakpoints."""
        self.ask("initialize", adapterID="ptxlab")
        self.ask("launch", **{"stopOnEntry": True, "stopAtEnd": True} | arguments)
        self.event("initialized")
        self.ask("configurationDone")
        return self.event("stopped")

    def line(self) -> int:
        """The line at which the thread of the last stop stands."""
        (thread, *_) = self.ask("threads")["threads"]
        return int(self.ask("stackTrace", threadId=thread["id"])["stackFrames"][0]["line"])


@contextmanager
def editor(replay: Replay | None = None) -> Iterator[Editor]:
    """An editor whose adapter debugs a launch."""

    def load(arguments: dict[str, Any]) -> Replay:
        if replay is None:
            raise KeyError("program")
        return replay

    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as reader, theirs.makefile("wb") as writer:
        thread = threading.Thread(target=Adapter(Connection(reader, writer), load).serve, daemon=True)
        thread.start()
        try:
            yield Editor(ours)
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            thread.join(TIMEOUT)
        assert not thread.is_alive()
