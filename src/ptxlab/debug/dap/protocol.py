"""Messages of the Debug Adapter Protocol on a pair of streams: a header with the length, and JSON."""

from __future__ import annotations

import json
import threading
from typing import Any, BinaryIO

__all__ = ["Connection", "Malformed"]

_LONGEST_HEADER, _LONGEST_MESSAGE = 1 << 12, 1 << 26


class Malformed(Exception):
    """What was received is no message; reading goes on after it."""


class Connection:
    """Reads and writes messages.

    Parameters
    ----------
    reader, writer : of bytes

    Examples
    --------
    >>> import io
    >>> written = io.BytesIO()
    >>> Connection(io.BytesIO(), written).send({"type": "event", "event": "initialized"})
    >>> Connection(io.BytesIO(written.getvalue()), io.BytesIO()).receive()
    {'type': 'event', 'event': 'initialized', 'seq': 1}
    """

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer
        self._sent = 0
        self._lock = threading.Lock()

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the stream.

        Raises
        ------
        Malformed
            for a header without a length, or contents that are no JSON object
        """
        length = self._length()
        if length is None:
            return None
        body = self._reader.read(length)
        if len(body) < length:
            return None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise Malformed("the contents are no JSON") from None
        if not isinstance(found, dict):
            raise Malformed("the contents are no JSON object")
        return found

    def _length(self) -> int | None:
        length = -1
        while True:
            line = self._reader.readline(_LONGEST_HEADER)
            if not line:
                return None
            text = line.decode("latin-1").strip()
            if not text:
                if not 0 <= length <= _LONGEST_MESSAGE:
                    raise Malformed("the header has no Content-Length, or one that is too large")
                return length
            name, _, value = text.partition(":")
            if name.strip().lower() == "content-length" and value.strip().isdecimal():
                length = int(value)

    def send(self, message: dict[str, Any]) -> None:
        """Write a message, with the next number."""
        with self._lock:
            self._sent += 1
            body = json.dumps(message | {"seq": self._sent}).encode()
            self._writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self._writer.flush()
