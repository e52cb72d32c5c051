"""Who wrote an element: an observer that watches its bytes while the launch runs again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.diagnostics import Place
from ptxlab.engine.context import Word
from ptxlab.engine.support.event_rows import SAVED_BYTES
from ptxlab.isa.effects import Asynchronous, Space
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess, MatrixAccess, Native
from ptxlab.isa.operands import Op
from ptxlab.isa.operations import AsyncOperation, MemoryAccess
from ptxlab.machine.launch.options import refuse
from ptxlab.machine.launch.result import Provenance, Writer
from ptxlab.machine.observe.event_buffer import CAPACITY, EventBuffer
from ptxlab.machine.observe.observer import Observer

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Placed, Replay
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["CopiedBytes", "SharedWatch", "Watch", "trace", "writers"]

_MOST = 16
"""Writers kept: the last ones."""
_MOST_OF_RANGE = 128
"""The same, for a range of bytes in which two writes conflict."""
_LANES = np.arange(32, dtype=np.uint64)
_LAST = np.uint64(2**64 - 1)
"""Behind all addresses."""
_WATCHED = Space.SHARED | Space.GLOBAL
"""Spaces that elements lie in."""


def trace(replay: Replay, placed: Placed, index: Any) -> Provenance:
    """Run a launch again and note who writes an element."""
    at = _index(placed, index)
    address = placed.address + sum(i * s for i, s in zip(at, placed.strides, strict=True))
    watch = _watched(replay, address, placed.dtype, ())
    if any(writer.value is None for writer in watch.writers):
        watch = _watched(replay, address, placed.dtype, tuple(watch.crowded))
    if watch.copied is not None and watch.writers[-1].asynchronous:
        watch.writers[-1].behind = _behind(replay, watch.copied)
    before = replay.memory.view(address, placed.dtype.itemsize).view(placed.dtype)[0]
    return Provenance(placed.name, at, before, watch.value(), tuple(reversed(watch.writers)), watch.count)


def _watched(replay: Replay, address: int, dtype: np.dtype[Any], slowly: tuple[tuple[int, int], ...], most: int = _MOST) -> Watch:
    return replay.observe(lambda launch: Watch(launch, launch.device.memory.view(address, dtype.itemsize), dtype, slowly, most))[1]


def _behind(replay: Replay, copied: CopiedBytes) -> tuple[Writer, ...]:
    """Who wrote the bytes that an operation copied: a run that watches them until it performs."""
    _, watch = replay.observe(lambda launch: SharedWatch(launch, np.zeros(0, np.uint8), np.dtype(np.uint8), (), until=copied))
    owners = {id(writer) for writer in watch.owners.values()}
    return tuple(replace(writer, value=None) for writer in reversed(watch.writers) if id(writer) in owners)


def writers(replay: Replay, memory: Any, first: int, size: int) -> tuple[Writer, ...]:
    """Run a launch again and return the last writers of a range of bytes, in order, with these bytes as values.

    ``memory`` is the coordinates of a CTA, of whose shared memory ``first`` is an offset, or "global".
    """

    def watched(slowly: tuple[tuple[int, int], ...]) -> Watch:
        bytes_ = np.dtype((np.void, size))
        if memory == "global":
            return _watched(replay, first, bytes_, slowly, _MOST_OF_RANGE)
        nothing = np.zeros(size, np.uint8)
        return replay.observe(lambda launch: _CtaWatch(launch, nothing, bytes_, slowly, _MOST_OF_RANGE, cta=memory, first=first))[1]

    watch = watched(())
    if any(writer.value is None for writer in watch.writers):
        watch = watched(tuple(watch.crowded))
    return tuple(watch.writers)


def _index(placed: Placed, index: Any) -> tuple[int, ...]:
    parts = tuple(index) if isinstance(index, Iterable) and not isinstance(index, str) else (index,)
    good = len(parts) == len(placed.shape) and all(hasattr(i, "__index__") and not isinstance(i, bool) for i in parts)
    if not good or not all(-n <= int(i) < n for i, n in zip(parts, placed.shape, strict=True)):
        raise refuse("A317", f"{placed.name} of shape {list(placed.shape)} has no element {index!r}", fix="give an int for each dimension")
    return tuple(int(i) % n for i, n in zip(parts, placed.shape, strict=True))


def _written_bytes(native: Native | None) -> int:
    """Bytes that each lane of a recorded instruction writes, or may write; 0 for all others."""
    if isinstance(native, LaneAccess) and native.write:
        return native.size
    if isinstance(native, MatrixAccess) and native.write:
        return native.row
    return native.size if isinstance(native, (Atomic, CopyAsync)) else 0


@dataclass(frozen=True, slots=True)
class CopiedBytes:
    """An operation, by how many have performed when it has, and the bytes that it copied: a CTA, and offsets in its shared memory."""

    number: int
    cta: tuple[int, int, int]
    offsets: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Watch(Observer):
    """The observer.

    Recorded rows are numbered. Several writes among the rows of one drain are ``crowded``: only after the last one the element can be
    read. A second run, the same as the first, drains the rows of these ranges one by one (``slowly``). A full buffer is drained when the
    next access wants to be noted; a store has been done by then, and what it has overwritten is the value that the write before left.
    """

    launch: Launch
    memory: NDArray[np.uint8]
    dtype: np.dtype[Any]
    slowly: tuple[tuple[int, int], ...]
    most: int = _MOST
    writers: deque[Writer] = field(init=False)
    crowded: deque[tuple[int, int]] = field(init=False)
    count: int = 0
    copied: CopiedBytes | None = None
    """What the last operation that wrote the element copied there."""
    _performed: int = 0
    _rows: int = 0
    _image: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None
    """Since a full buffer was drained: the element, and what the store that wants to be noted has overwritten."""
    _in_flight: dict[AsyncOperation, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Operations that will write it: the warp and the lanes that issued them."""
    _places: dict[int, tuple[Place, str, Place | None]] = field(default_factory=dict)
    _low: np.uint64 = field(init=False)
    _high: np.uint64 = field(init=False)
    _sizes: NDArray[np.uint64] = field(init=False)
    _stores: frozenset[int] = field(init=False)
    _buffer: EventBuffer = field(init=False)

    def __post_init__(self) -> None:
        self.writers, self.crowded = deque(maxlen=self.most), deque(maxlen=self.most)
        program = self.launch.program
        self._low = np.uint64(self.memory.ctypes.data)
        self._high = self._low + np.uint64(self.memory.size)
        sizes = [_written_bytes(program.natives.get(op.index)) for op in program.ops] or [0]
        self._sizes = np.array([*sizes, *([0] * 2 * len(sizes))], np.uint64)  # second rows of copies, and ends of blocks, write nothing
        self._stores = frozenset(index for index, native in program.natives.items() if isinstance(native, LaneAccess) and native.write)
        self._buffer = EventBuffer(self.launch, self._full)

    def rows(self, count: int) -> NDArray[np.uint64]:
        """The rows that wait to be drained."""
        return self._buffer.rows[:count]

    def value(self) -> Any:
        """What the element holds now."""
        return self.memory.view(self.dtype)[0].copy()

    def _log(self, op: Op, cta: Any, warp: int, lanes: Iterable[int], asynchronous: bool = False) -> None:
        self.count += 1
        self.writers.append(self.writer(op, cta, warp, lanes, asynchronous))

    def writer(self, op: Op, cta: Any, warp: int, lanes: Iterable[int], asynchronous: bool = False) -> Writer:
        """An instruction as a writer."""
        where, excerpt, source = self._places.get(op.index) or self._places.setdefault(op.index, self.launch.reports.place(op))
        return Writer(op.opcode, asynchronous, cta.ctaid, warp, tuple(lanes), where, excerpt, source)

    def _overlaps(self, starts: NDArray[np.uint64], sizes: NDArray[Any]) -> NDArray[np.bool_]:
        return (starts < self._high) & (starts + sizes.astype(np.uint64) > self._low)

    # ----------------------------------------------------------------------------------------------- compiled code

    def fill(self, warp: Warp) -> None:
        """Let a warp's recorded rows go into the buffer."""
        self._buffer.fill(warp)

    def running(self, warp: Warp, split: ConvergedLanes) -> None:
        """Say how many rows may come before the next drain."""
        self._grant(warp)

    def _grant(self, warp: Warp) -> None:
        ahead = min((start - self._rows for start, stop in self.slowly if self._rows < stop), default=CAPACITY)
        warp.words[Word.EVENT_CAPACITY] = min(CAPACITY, max(1, ahead))

    def _full(self, warp: Warp) -> None:
        self.drain(warp)
        self._image = self.memory.copy(), self._buffer.saved.copy()

    def drain(self, warp: Warp) -> None:
        """Read the rows that compiled code has left."""
        count = self._buffer.take(warp)
        if not count:
            return
        rows = self._buffer.rows[:count]
        ops, masks = (rows[:, 0] & np.uint64(0xFFFF_FFFF)).astype(np.intp), rows[:, 0] >> np.uint64(32)
        sizes = self._sizes[ops, None]
        hit = self._overlaps(rows[:, 2:], sizes) & (sizes > 0) & (masks[:, None] >> _LANES & np.uint64(1)).astype(bool)
        found = np.flatnonzero(hit.any(axis=1)).tolist()
        for row in found:
            op, lanes = self.launch.program.ops[ops[row]], np.flatnonzero(hit[row]).tolist()
            if row == 0 and self._image is not None and self.writers and op.index in self._stores:
                self.writers[-1].value = self._overwritten(*self._image, rows[0, 2:].tolist(), lanes, int(self._sizes[op.index]))
            self._log(op, warp.cta, warp.warp_id, lanes)
            self._wrote(rows[row, 2:][lanes], sizes[row])
        if found:
            self.writers[-1].value = self.value()
        if len(found) > 1:
            self.crowded.append((self._rows, self._rows + count))
        self._image = None
        self._rows += count
        self._grant(warp)

    def _overwritten(self, after: NDArray[np.uint8], saved: NDArray[np.uint8], hosts: list[int], lanes: list[int], size: int) -> Any:
        """The element before a store of these lanes."""
        low, high = int(self._low), int(self._high)
        for lane in lanes:
            start, stop = max(hosts[lane], low), min(hosts[lane] + size, high)
            kept = lane * SAVED_BYTES // 32 - hosts[lane]
            after[start - low : stop - low] = saved[kept + start : kept + stop]
        return after.view(self.dtype)[0]

    # ------------------------------------------------------------------------------------------------- the machine

    def _reached(self, accesses: Iterable[MemoryAccess]) -> bool:
        return any(t.write and self._overlaps(t.starts, t.sizes).any() for t in accesses)

    def issued(self, operation: AsyncOperation) -> None:
        """Note an asynchronous operation that writes the element, when it performs."""
        effects = operation.op.effects
        writes = isinstance(effects, Asynchronous) and bool(effects.writes & _WATCHED)
        if not writes or operation.accesses is None or not self._reached(operation.accesses()):
            return
        warp = self.launch.scheduler.current
        number = -1 if warp is None else warp.warp_id
        self._in_flight[operation] = number, operation.thread[-1:] if isinstance(operation.thread, tuple) else ()

    def performed(self, operation: AsyncOperation) -> None:
        """It has written the element."""
        self._performed += 1
        issuer = self._in_flight.pop(operation, None)
        if issuer is not None:
            self._log(operation.op, operation.cta, *issuer, asynchronous=True)
            self.writers[-1].value = self.value()
            self._ask(operation)

    def _ask(self, operation: AsyncOperation) -> None:
        """Find out what the operation that has just written the element copied there."""
        offsets = _shared_source(operation, self.memory)
        self.copied = CopiedBytes(self._performed, operation.cta.ctaid, offsets) if offsets else None

    def accessed(self, warp: Warp, accesses: Iterable[MemoryAccess]) -> None:
        """Note a service instruction that writes the element."""
        written = tuple(accesses)
        if self._reached(written):
            self._log(warp.op, warp.cta, warp.warp_id, warp.lanes().tolist())
            self.writers[-1].value = self.value()
            self._written(written)

    def _written(self, accesses: Iterable[MemoryAccess]) -> None:
        for access in accesses:
            if access.write:
                self._wrote(access.starts, access.sizes)

    def _wrote(self, starts: NDArray[np.uint64], sizes: NDArray[Any]) -> None:
        """The last of the writers has written these bytes."""


@dataclass(slots=True, eq=False)
class _CtaWatch(Watch):
    """Watches a range of the shared memory of a CTA while the CTA runs."""

    cta: tuple[int, int, int] = field(kw_only=True)
    first: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        self._low = self._high = np.uint64(0)

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        for cta in ctas:
            if cta.ctaid == self.cta:
                self.memory = cta.shared[self.first : self.first + self.memory.size]
                self._low = np.uint64(self.memory.ctypes.data)
                self._high = self._low + np.uint64(self.memory.size)

    def ended(self, cta: CtaState) -> None:
        if cta.ctaid == self.cta:
            self._low = self._high = np.uint64(0)


@dataclass(slots=True, eq=False)
class SharedWatch(Watch):
    """Watches bytes of shared memory, until an operation has copied them."""

    until: CopiedBytes = field(kw_only=True)
    owners: dict[int, Writer] = field(default_factory=dict)
    """Who wrote each byte last, by its host address."""
    host_address: int = 0
    """Of the first byte of the CTA's shared memory."""
    _bytes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """Aim at the bytes when their CTA starts."""
        for cta in ctas:
            if cta.ctaid == self.until.cta:
                first, last = min(self.until.offsets), max(self.until.offsets)
                self.memory = cta.shared[first : last + 1]
                self.host_address = cta.shared_address
                self._bytes = np.sort(np.array(self.until.offsets, np.uint64) + np.uint64(cta.shared_address))
                self._low, self._high = self._bytes.min(), self._bytes.max() + np.uint64(1)

    def performed(self, operation: AsyncOperation) -> None:
        """The operation that copies them ends the watch."""
        if self._performed + 1 == self.until.number:
            self._low = self._high = np.uint64(0)
        Watch.performed(self, operation)

    def _overlaps(self, starts: NDArray[np.uint64], sizes: NDArray[Any]) -> NDArray[np.bool_]:
        """Only bytes that are watched count, not those between them."""
        if self._low == self._high:
            return np.zeros(starts.shape, np.bool_)
        following = np.append(self._bytes, _LAST)[np.searchsorted(self._bytes, starts)]
        return following < starts + sizes.astype(np.uint64)

    def _ask(self, operation: AsyncOperation) -> None:
        if operation.accesses is not None:
            self._written(operation.accesses())

    def _wrote(self, starts: NDArray[np.uint64], sizes: NDArray[Any]) -> None:
        stops = starts + sizes.astype(np.uint64)
        for byte in self._bytes[((starts[:, None] <= self._bytes) & (self._bytes < stops[:, None])).any(axis=0)].tolist():
            self.owners[byte] = self.writers[-1]


def _shared_source(operation: AsyncOperation, element: NDArray[np.uint8]) -> tuple[int, ...]:
    """The offsets, in the shared memory of the operation's CTA, of the bytes that it has just copied to ``element``.

    The bytes that it reads are filled with the bits of their own numbers, one bit at a time, and the operation performs again each time.
    Then all bytes are restored. () for an operation that does more than copy.
    """
    effects = operation.op.effects
    copies = isinstance(effects, Asynchronous) and Space.GLOBAL in effects.writes and not effects.atomic
    read = _shared_reads(operation) if copies else None
    if read is None:
        return ()
    start, source = read
    kept, numbers = source.copy(), np.arange(source.size)

    def with_bytes(values: NDArray[np.integer] | int) -> NDArray[np.intp]:
        source[:] = values
        operation.perform()
        return element.astype(np.intp)

    try:
        copied = (with_bytes(0) == 0) & (with_bytes(1) == 1)
        found = sum(with_bytes(numbers >> bit & 1) << bit for bit in range(int(source.size).bit_length()))
    finally:
        with_bytes(kept)
    return tuple((start + np.asarray(found)[copied]).tolist())


def _shared_reads(operation: AsyncOperation) -> tuple[int, NDArray[np.uint8]] | None:
    """The part of its CTA's shared memory that it reads: the offset and the bytes."""
    shared = operation.cta.shared
    low, high = shared.ctypes.data, shared.ctypes.data + shared.size
    reads = [access for access in operation.accesses() if not access.write] if operation.accesses is not None else []
    if not reads:
        return None
    starts = np.concatenate([access.starts for access in reads]).astype(np.int64)
    stops = starts + np.concatenate([np.broadcast_to(access.sizes, access.starts.shape) for access in reads]).astype(np.int64)
    inside = (starts >= low) & (stops <= high)
    if not inside.any():
        return None
    first, last = int(starts[inside].min()) - low, int(stops[inside].max()) - low
    return first, shared[first:last]
