"""The core for programs in other processes: what the library asks arrives over a socket, and device memory is shared at equal addresses."""

from __future__ import annotations

import ctypes
import io
import os
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import TracebackType
from typing import Any, TextIO

from ptxlab.cuda._install import make_core
from ptxlab.cuda.core_types import (
    LOG_BYTES,
    AccessRange,
    Conflict,
    DeviceDescription,
    HeapChange,
    KernelInfo,
    LaunchRequest,
    LoadedImage,
    TensorMapRequest,
)
from ptxlab.cuda.devices import visible_targets
from ptxlab.cuda.host import Host
from ptxlab.cuda.memory import TRANSFER
from ptxlab.cuda.remote._connection import Connection, Disconnected, Kind
from ptxlab.cuda.remote._shared_memory import SharedMemory
from ptxlab.cuda.remote.executables import call_site
from ptxlab.cuda.reports import Report
from ptxlab.diagnostics import Place
from ptxlab.native import BoundedCache

__all__ = ["VARIABLE", "Server"]

VARIABLE = "PTXLAB_SERVER"
"""The environment variable that tells a program which socket to connect with: a name in the abstract namespace."""

_MOST_PLACES = 1024
_LONGEST_END = 2.0
"""Seconds that a launch may go on for after its program has ended."""


class _Thread(threading.local):
    connection: Connection | None = None
    frames: bytes = b""


class RemoteLibrary:
    """The functions of the library that the core calls, for a library in another process. Their names are those of ``core.h``."""

    def __init__(self) -> None:
        self._changes: list[HeapChange] = []
        self._version = 0
        self.memory: SharedMemory | None = None
        self.kernels: set[str] = set()
        self.thread = _Thread()
        self._places = BoundedCache[tuple[int, bytes, int], tuple[Place | None]](_MOST_PLACES)

    def note(self, changes: list[HeapChange]) -> None:
        """Keep changes of the map of memory for the core."""
        self._changes += changes
        self._version += len(changes)

    def _ask(self, kind: Kind, body: bytes = b"") -> bytes:
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
        address = int.from_bytes(self._ask(Kind.HEAP_ALLOCATE, struct.pack("<QQQ", device, size, alignment)), "little")
        if address and self.memory is not None:
            self.memory.map(address, size)
        return address

    def ptxlab_heap_free(self, address: int) -> None:
        self._ask(Kind.HEAP_FREE, struct.pack("<QQQ", address, 0, 0))

    def ptxlab_estimated(self, nanoseconds: int) -> None:
        self._ask(Kind.ESTIMATED, struct.pack("<QQQ", nanoseconds, 0, 0))

    def ptxlab_stalled(self) -> None:
        self._ask(Kind.STALLED)

    def ptxlab_activity(self, waiting: Any, moving: Any) -> None:
        waiting._obj.value, moving._obj.value = struct.unpack("<II", self._ask(Kind.ACTIVITY))

    def ptxlab_order_is_wanted(self) -> int:
        return int.from_bytes(self._ask(Kind.ORDER_IS_WANTED), "little")

    def ptxlab_accessed(self, ranges: Any, count: int) -> None:
        self._ask(Kind.ACCESSED, bytes(ranges)[: count * ctypes.sizeof(AccessRange)])

    def site(self, noted: int) -> bytes:
        """The frames of a place that the library has noted."""
        return self._ask(Kind.PLACE, struct.pack("<QQQ", noted, 0, 0))

    def print(self, text: str) -> None:
        """Write to the standard output of the program."""
        self._ask(Kind.PRINT, text.encode())

    def place(self, process: int) -> Place | None:
        """Where in a program the calling thread is: its frames are lines with offsets and files, the innermost first."""
        key = process, self.thread.frames, len(self.kernels)
        found = self._places.get(key)
        if found is None:
            lines = (line.partition(" ") for line in self.thread.frames.decode(errors="replace").splitlines())
            program = f"/proc/{process}/exe"
            frames = [(file if os.path.isabs(file) else os.readlink(program), int(offset, 16)) for offset, _, file in lines]
            found = self._places[key] = (call_site(frames, self.kernels),)
        return found[0]


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


class Server:
    """Runs the kernels of a program in another process, and of one after it.

    Attributes
    ----------
    name : of the socket in the abstract namespace, which `VARIABLE` tells the program
    """

    def __init__(self, host: Callable[[], Host]) -> None:
        self.library = RemoteLibrary()
        settings = host().settings
        self.bridge, self._core = make_core(self.library, host, visible_targets(settings.target), settings.sms)
        self.bridge.site = lambda: self.library.place(self._process)
        self.bridge.place_of = self._place
        self.bridge.memory.reader = self.bridge.read_by_program if settings.follows_memory else None
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
                connection.send(*_HANDLERS[Kind(kind)](self, body))
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
            self.library.memory, self._process = SharedMemory(file, connection.process), connection.process
        return connection.receive()

    def _forget(self) -> None:
        """The program has ended: its memory is released."""
        memory = self.library.memory
        if memory is not None:
            self.library.note([HeapChange(address=address, kind=-1) for address in memory.addresses()])
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
        found = [ctypes.c_uint64() for _ in range(3)]
        result = self._core.variable(image, body[8:], *map(ctypes.byref, found))
        return result, struct.pack("<3Q", *(each.value for each in found))

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
        memory = self.library.memory
        if memory is None:
            raise Disconnected
        memory.fetch()
        result = self._core.run_launch(*struct.unpack("<QQ", body))
        memory.store()
        return result, b""

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

    def _conflict(self, body: bytes) -> tuple[int, bytes]:
        self._core.report_conflict(ctypes.byref(Conflict.from_buffer_copy(body)))
        return 0, b""

    def _ended(self, _: bytes) -> tuple[int, bytes]:
        self.bridge.memory.update()
        self.bridge.report_left()
        return 0, b""

    def _place(self, noted: int) -> Place | None:
        """Where in the program a number of the library is."""
        if not noted or self.library.thread.connection is None:
            return None
        with self._at(self.library.site(noted)):
            return self.library.place(self._process)

    def _heap_changes(self, body: bytes) -> tuple[int, bytes]:
        size = ctypes.sizeof(HeapChange)
        changes = [HeapChange.from_buffer_copy(body, at) for at in range(0, len(body), size)]
        memory = self.library.memory
        for change in changes:
            if memory is None:
                break
            if change.kind == TRANSFER:
                continue
            if change.kind < 0:
                memory.unmap(change.address)
                continue
            try:
                memory.map(change.address, change.size, change.file)
            except OSError:
                text = b"the process that runs the kernels uses these addresses itself"
                self._core.report(Report.UNSUPPORTED, b"cuMemHostRegister", change.address, text)
        known = (change for change in changes if change.kind == TRANSFER or change.kind < 0 or (memory and memory.has(change.address)))
        self.library.note(list(known))
        return 0, b""

    @contextmanager
    def _at(self, frames: bytes) -> Iterator[None]:
        """Say where in the program the calling thread is."""
        self.library.thread.frames = frames
        try:
            yield
        finally:
            self.library.thread.frames = b""


_HANDLERS: dict[Kind, Callable[[Server, bytes], tuple[int, bytes]]] = {
    Kind.HELLO: Server._hello,
    Kind.LOAD_IMAGE: Server._load_image,
    Kind.UNLOAD_IMAGE: Server._unload_image,
    Kind.KERNEL_NAME: Server._kernel_name,
    Kind.KERNEL_INFO: Server._kernel_info,
    Kind.VARIABLE: Server._variable,
    Kind.PREPARE_LAUNCH: Server._prepare_launch,
    Kind.RUN_LAUNCH: Server._run_launch,
    Kind.ENCODE_TENSOR_MAP: Server._encode_tensor_map,
    Kind.LINK: Server._link,
    Kind.REPORT: Server._report,
    Kind.HEAP_CHANGES: Server._heap_changes,
    Kind.CONFLICT: Server._conflict,
    Kind.ENDED: Server._ended,
}
