"""Connections of threads of programs in other processes, and the messages on them.

A message is a header (size of the body, kind) and a body. The result of a request is the kind of its answer. While a request runs, the
core may ask the library on the same connection. ``library/client.c`` is the other side.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from enum import IntEnum

__all__ = ["Connection", "Disconnected", "Kind"]

_HEADER = struct.Struct("<Ii")
_CHUNK = 1 << 16


class Kind(IntEnum):
    """The kinds of messages: requests of the library, then those of the core."""

    HELLO = 1
    LOAD_IMAGE = 2
    UNLOAD_IMAGE = 3
    KERNEL_NAME = 4
    KERNEL_INFO = 5
    VARIABLE = 6
    PREPARE_LAUNCH = 7
    RUN_LAUNCH = 8
    ENCODE_TENSOR_MAP = 9
    LINK = 10
    REPORT = 11
    HEAP_CHANGES = 12
    CONFLICT = 13
    ENDED = 14
    STALLED = 10000
    ACTIVITY = 10001
    HEAP_ALLOCATE = 10002
    HEAP_FREE = 10003
    PRINT = 10004
    ORDER_IS_WANTED = 10005
    ACCESSED = 10006
    PLACE = 10007
    ESTIMATED = 10008


class Disconnected(Exception):
    """The program has ended, or this thread of it."""


class Connection:
    """The connection of one thread of a program."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._rest = b""
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.process, self.user, _ = struct.unpack("3i", credentials)

    def receive(self) -> tuple[int, bytes]:
        """Wait for a message: its kind and its body."""
        while len(self._rest) < _HEADER.size:
            self._more(_CHUNK)
        size, kind = _HEADER.unpack_from(self._rest)
        end = _HEADER.size + size
        if len(self._rest) < end:
            parts = [self._rest]
            missing = end - len(self._rest)
            while missing > 0:
                part = self._link.recv(min(missing, 1 << 20))
                if not part:
                    raise Disconnected
                parts.append(part)
                missing -= len(part)
            self._rest = b"".join(parts)
        body, self._rest = self._rest[_HEADER.size : end], self._rest[end:]
        return kind, body

    def receive_file(self) -> int:
        """Wait for the first message of a program; return the descriptor that comes with it, -1 if there is none."""
        data, files, _, _ = socket.recv_fds(self._link, _CHUNK, 1)
        if not data:
            raise Disconnected
        self._rest += data
        return files[0] if files else -1

    def _more(self, size: int) -> None:
        try:
            data = self._link.recv(size)
        except OSError:
            data = b""
        if not data:
            raise Disconnected
        self._rest += data

    def send(self, kind: int, *parts: bytes) -> None:
        body = b"".join(parts)
        try:
            self._link.sendall(_HEADER.pack(len(body), kind) + body)
        except OSError:
            raise Disconnected from None

    def ask(self, kind: Kind, body: bytes = b"") -> bytes:
        """Ask the library during a request; return the body of its answer."""
        self.send(kind, body)
        return self.receive()[1]

    def close(self) -> None:
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()
