"""The core for programs in other processes: what the library asks arrives over a socket, and device memory is shared at equal addresses.

Each thread of a program has a connection. A message is a header (size of the body, kind) and a body. The result of a request is the kind
of its answer. While a request runs, the core may ask the library on the same connection. ``library/client.c`` is the other side.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from enum import IntEnum
from types import TracebackType
from typing import Any, TextIO

from ptxlab.cuda._install import make_core
from ptxlab.cuda.bridge import Host
from ptxlab.cuda.core_types import (
    LOG_BYTES,
    DeviceDescription,
    HeapChange,
    KernelInfo,
    LaunchRequest,
    LoadedImage,
    TensorMapRequest,
)
from ptxlab.cuda.programs import call_site
from ptxlab.diagnostics import Place

__all__ = ["VARIABLE", "Server"]

VARIABLE = "PTXLAB_SERVER"
"""The environment variable that tells a program which socket to connect with: a name in the abstract namespace."""

_HEADER = struct.Struct("<Ii")
_CHUNK = 1 << 16
_LONGEST_END = 2.0
"""Seconds that a launch may go on for after its program has ended."""


class _Kind(IntEnum):
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
    STALLED = 10000
    ACTIVITY = 10001
    HEAP_ALLOCATE = 10002
    HEAP_FREE = 10003
    PRINT = 10004


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

    def ask(self, kind: _Kind, body: bytes = b"") -> bytes:
        """Ask the library during a request; return the body of its answer."""
        self.send(kind, body)
        return self.receive()[1]

    def close(self) -> None:
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()


class _Thread(threading.local):
    connection: Connection | None = None
    frames: Sequence[tuple[str, int]] = ()


class RemoteLibrary:
    """The functions of the library that the core calls, for a library in another process. Their names are those of ``core.h``."""

    def __init__(self) -> None:
        self._changes: list[HeapChange] = []
        self._version = 0
        self.memory: Memory | None = None
        self.kernels: set[str] = set()
        self.thread = _Thread()

    def note(self, changes: list[HeapChange]) -> None:
        """Keep changes of the map of memory for the core."""
        self._changes += changes
        self._version += len(changes)

    def _ask(self, kind: _Kind, body: bytes = b"") -> bytes:
        connection = self.thread.connection
        if connection is None:
            raise RuntimeError("the core asks a library in another process outside of a request")
        return connection.ask(kind, body)

    def ptxlab_heap_version(self) -> int:
        return self._version

    def ptxlab_heap_changes(self, into: Any, most: int) -> int:
        taken, self._changes = self._changes[:most], self._changes[most:]
        for i, change in enumerate(taken):
            into[i] = change
        return len(taken)

    def ptxlab_heap_allocate(self, device: int, size: int, alignment: int) -> int:
        address = int.from_bytes(self._ask(_Kind.HEAP_ALLOCATE, struct.pack("<QQQ", device, size, alignment)), "little")
        if address and self.memory is not None:
            self.memory.map(address, size)
        return address

    def ptxlab_heap_free(self, address: int) -> None:
        self._ask(_Kind.HEAP_FREE, struct.pack("<QQQ", address, 0, 0))

    def ptxlab_stalled(self) -> None:
        self._ask(_Kind.STALLED)

    def ptxlab_activity(self, waiting: Any, moving: Any) -> None:
        waiting._obj.value, moving._obj.value = struct.unpack("<II", self._ask(_Kind.ACTIVITY))

    def print(self, text: str) -> None:
        """Write to the standard output of the program."""
        self._ask(_Kind.PRINT, text.encode())

    def place(self) -> Place | None:
        """Where in the program the calling thread is."""
        return call_site(self.thread.frames, self.kernels)


class Output(io.TextIOBase):
    """Standard output: what kernels of a program print goes to the output of the program, in order with what it prints itself."""

    def __init__(self, library: RemoteLibrary, plain: TextIO) -> None:
        self._library = library
        self._plain = plain

    def write(self, text: str) -> int:
        if self._library.thread.connection is None:
            return self._plain.write(text)
        if text:
            self._library.print(text)
        return len(text)

    def flush(self) -> None:
        self._plain.flush()


FIRST_ADDRESS = 0x100000000000
"""Where the ranges of the devices begin in each program: the address of a byte, less this, is its place in the shared file."""


class Memory:
    """Allocations of a program, mapped at the addresses that they have there."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._mapped: dict[int, int] = {}

    def map(self, address: int, size: int) -> None:
        if address in self._mapped:
            return
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED_NOREPLACE
        if _mmap(address, size, protection, flags, self._file, address - FIRST_ADDRESS) != address:
            raise OSError(f"the range {address:#x} of {size} bytes is in use")
        self._mapped[address] = size

    def addresses(self) -> list[int]:
        """Where the allocations begin."""
        return list(self._mapped)

    def unmap(self, address: int) -> None:
        size = self._mapped.pop(address, None)
        if size is not None:
            _munmap(address, size)

    def close(self) -> None:
        for address in list(self._mapped):
            self.unmap(address)
        os.close(self._file)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_mmap, _munmap = _libc.mmap, _libc.munmap
_FIXED_NOREPLACE = 0x100000


class Server:
    """Runs the kernels of a program in another process, and of one after it.

    Attributes
    ----------
    name : of the socket in the abstract namespace, which `VARIABLE` tells the program
    """

    def __init__(self, host: Callable[[], Host]) -> None:
        self.library = RemoteLibrary()
        self.bridge, self._core = make_core(self.library, host, in_process=False)
        self.bridge.site = self.library.place
        self.name = f"ptxlab-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Condition()
        self._connections: list[Connection] = []
        self._process = 0
        self._output = redirect_stdout(Output(self.library, sys.stdout))

    def __enter__(self) -> Server:
        """Wait for programs."""
        self._output.__enter__()
        self._socket.bind("\0" + self.name)
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End all connections."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._connections:
                connection.close()
        self._output.__exit__(kind, error, trace)

    def finish(self) -> None:
        """Wait for the requests of a program that has ended; a kernel that does not end is left."""
        with self._lock:
            self._lock.wait_for(lambda: not self._connections, _LONGEST_END)

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            connection = Connection(link)
            if connection.user != os.getuid():
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        """Answer the requests of one thread until it ends."""
        self.library.thread.connection = connection
        with self._lock:
            self._connections.append(connection)
        try:
            while True:
                kind, body = connection.receive() if self._process == connection.process else self._first(connection)
                connection.send(*_HANDLERS[_Kind(kind)](self, body))
        except (Disconnected, ValueError, KeyError):
            pass
        finally:
            connection.close()
            with self._lock:
                self._connections.remove(connection)
                self._lock.notify_all()
                if not any(each.process == connection.process for each in self._connections):
                    self._forget()

    def _first(self, connection: Connection) -> tuple[int, bytes]:
        """The first message of a program, which brings the file with its memory."""
        file = connection.receive_file()
        with self._lock:
            if file < 0 or self._process:
                if file >= 0:
                    os.close(file)
                raise Disconnected
            self.library.memory, self._process = Memory(file), connection.process
        return connection.receive()

    def _forget(self) -> None:
        """The program has ended: its memory is released."""
        memory = self.library.memory
        if memory is not None:
            self.library.note([HeapChange(address, 0, 0, 0, -1) for address in memory.addresses()])
            memory.close()
        self.library.memory, self._process = None, 0

    # ------------------------------------------------------------------------------------------ requests

    def _hello(self, _: bytes) -> tuple[int, bytes]:
        size = self._core.devices * ctypes.sizeof(DeviceDescription)
        return 0, ctypes.string_at(self._core.descriptions, size)

    def _load_image(self, body: bytes) -> tuple[int, bytes]:
        (device,) = struct.unpack_from("<q", body)
        image = ctypes.create_string_buffer(body[8:])
        loaded = LoadedImage()
        result = self._core.load_image(ctypes.addressof(image), len(body) - 8, device, ctypes.byref(loaded))
        for index in range(loaded.kernels):
            name = ctypes.c_char_p()
            self._core.kernel_name(loaded.id, index, ctypes.byref(name))
            self.library.kernels.add((name.value or b"").decode())
        return result, bytes(loaded)

    def _unload_image(self, body: bytes) -> tuple[int, bytes]:
        self._core.unload_image(*struct.unpack("<Q", body))
        return 0, b""

    def _kernel_name(self, body: bytes) -> tuple[int, bytes]:
        name = ctypes.c_char_p()
        result = self._core.kernel_name(*struct.unpack("<QQ", body), ctypes.byref(name))
        return result, name.value or b""

    def _kernel_info(self, body: bytes) -> tuple[int, bytes]:
        info = KernelInfo()
        result = self._core.kernel_info(*struct.unpack("<QQ", body), ctypes.byref(info))
        if result:
            return result, b""
        return 0, bytes(info) + ctypes.string_at(info.parameters, 8 * info.parameter_count) + (info.name or b"")

    def _variable(self, body: bytes) -> tuple[int, bytes]:
        (image,) = struct.unpack_from("<Q", body)
        address, size = ctypes.c_uint64(), ctypes.c_uint64()
        result = self._core.variable(image, body[8:], ctypes.byref(address), ctypes.byref(size))
        return result, struct.pack("<QQ", address.value, size.value)

    def _prepare_launch(self, body: bytes) -> tuple[int, bytes]:
        launch = LaunchRequest.from_buffer_copy(body)
        start = ctypes.sizeof(LaunchRequest)
        end = start + launch.parameter_bytes
        parameters = ctypes.create_string_buffer(body[start:end], max(launch.parameter_bytes, 1))
        launch.parameters = ctypes.addressof(parameters)
        ticket = ctypes.c_uint64()
        with self._at(body[end:]):
            result = self._core.prepare_launch(ctypes.byref(launch), ctypes.byref(ticket))
        return result, struct.pack("<Q", ticket.value)

    def _run_launch(self, body: bytes) -> tuple[int, bytes]:
        return self._core.run_launch(*struct.unpack("<QQ", body)), b""

    def _encode_tensor_map(self, body: bytes) -> tuple[int, bytes]:
        request = TensorMapRequest.from_buffer_copy(body)
        encoded = ctypes.create_string_buffer(128)
        return self._core.encode_tensor_map(ctypes.byref(request), encoded), encoded.raw

    def _link(self, body: bytes) -> tuple[int, bytes]:
        (count,) = struct.unpack_from("<Q", body)
        sizes = struct.unpack_from(f"<{count}Q", body, 8)
        at, texts = 8 + 8 * count, []
        for size in sizes:
            texts.append(ctypes.create_string_buffer(body[at : at + size]))
            at += size
        addresses = (ctypes.c_uint64 * count)(*map(ctypes.addressof, texts))
        image, length, log = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.create_string_buffer(LOG_BYTES)
        result = self._core.link(count, addresses, (ctypes.c_uint64 * count)(*sizes), ctypes.byref(image), ctypes.byref(length), log)
        return result, log.raw + (ctypes.string_at(image, length.value) if image.value else b"")

    def _report(self, body: bytes) -> tuple[int, bytes]:
        kind, address = struct.unpack_from("<QQ", body)
        function, text, site = body[16:].split(b"\0", 2)
        with self._at(site):
            self._core.report(kind, function, address, text)
        return 0, b""

    def _heap_changes(self, body: bytes) -> tuple[int, bytes]:
        size = ctypes.sizeof(HeapChange)
        changes = [HeapChange.from_buffer_copy(body, at) for at in range(0, len(body), size)]
        memory = self.library.memory
        for change in changes:
            if memory is None:
                break
            if change.kind < 0:
                memory.unmap(change.address)
            else:
                memory.map(change.address, change.size)
        self.library.note(changes)
        return 0, b""

    @contextmanager
    def _at(self, frames: bytes) -> Iterator[None]:
        """Say where in the program the calling thread is: lines with offsets and files, the innermost first."""
        lines = (line.partition(" ") for line in frames.decode(errors="replace").splitlines())
        thread, program = self.library.thread, f"/proc/{self._process}/exe"
        thread.frames = [(file if os.path.isabs(file) else os.readlink(program), int(offset, 16)) for offset, _, file in lines]
        try:
            yield
        finally:
            thread.frames = ()


_HANDLERS: dict[_Kind, Callable[[Server, bytes], tuple[int, bytes]]] = {
    _Kind.HELLO: Server._hello,
    _Kind.LOAD_IMAGE: Server._load_image,
    _Kind.UNLOAD_IMAGE: Server._unload_image,
    _Kind.KERNEL_NAME: Server._kernel_name,
    _Kind.KERNEL_INFO: Server._kernel_info,
    _Kind.VARIABLE: Server._variable,
    _Kind.PREPARE_LAUNCH: Server._prepare_launch,
    _Kind.RUN_LAUNCH: Server._run_launch,
    _Kind.ENCODE_TENSOR_MAP: Server._encode_tensor_map,
    _Kind.LINK: Server._link,
    _Kind.REPORT: Server._report,
    _Kind.HEAP_CHANGES: Server._heap_changes,
}
