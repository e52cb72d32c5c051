"""Who wrote the operands of products: bytes of shared memory, registers, and cells of tensor memory.

The launch runs again. Of a register that was loaded from shared memory the writer is the load, and behind it stands who wrote the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Word
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.isa.context import AsyncOperation, Cta
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, TensorAccess
from ptxlab.isa.operands import Const, Op
from ptxlab.isa.tiles import CHUNK
from ptxlab.layout import fragment
from ptxlab.machine.launch.mma_records import OPERANDS, MmaRecords
from ptxlab.machine.launch.result import Writer
from ptxlab.machine.observe.mmas import ExecutedProduct, MmaLog
from ptxlab.machine.observe.observer import Observer
from ptxlab.machine.observe.provenance import CopiedBytes, SharedWatch, Watch

if TYPE_CHECKING:
    from ptxlab.isa.tiles import HeldLine, Product
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Observe", "operand_writers", "with_writers"]

Ctaid = tuple[int, int, int]
Observe = Callable[[Callable[["Launch"], Any], bool], Any]
"""Runs the launch again with an observer that is made for it, with or without events, and returns the observer."""
Lines = Mapping[int, Mapping[str, Sequence[int]]]
"""By the number of a product, and by operand: rows of A, or rows of B."""
Key = tuple[int, str]
"""The number of a product, and an operand."""


class Read(NamedTuple):
    """What a product takes of shared memory: at once, or by what a copy to tensor memory with this number has read before."""

    key: Key
    copy: int | None = None


@dataclass(slots=True)
class _Places:
    """Where the lines of an operand of a product are: bytes of shared memory by CTA, or registers and cells."""

    shared: dict[Ctaid, set[int]] = field(default_factory=dict)
    held: list[HeldLine] = field(default_factory=list)


def operand_writers(observe: Observe, lines: Lines) -> dict[Key, tuple[Writer, ...]]:
    """Who wrote some lines of operands, by the number of the product and the operand."""
    places: dict[Key, _Places] = {}

    def executed(each: ExecutedProduct) -> None:
        for operand, numbers in lines.get(each.number, {}).items():
            found = places.setdefault((each.number, operand), _Places())
            for number in numbers:
                for cta, offsets in each.product.bytes_of(operand, number):
                    found.shared.setdefault(cta.ctaid, set()).update(offsets.tolist())
                found.held += each.product.held(operand, number)

    observe(lambda launch: MmaLog(launch, executed), False)
    writers: dict[Key, tuple[Writer, ...]] = {}
    held_lines = {key: found.held for key, found in places.items() if found.held}
    from_shared: dict[Key, dict[Any, set[Read]]] = {}
    reads = {Read(key): found.shared for key, found in places.items()}
    if held_lines:
        watch: _HeldWatch = observe(lambda launch: _HeldWatch(launch, _NOTHING, _BYTE, (), wanted=held_lines), True)
        writers |= watch.found
        from_shared = watch.from_shared
        reads |= watch.read
    owners: dict[Read, tuple[Writer, ...]] = {}
    for cta in {cta for by_cta in reads.values() for cta in by_cta}:
        wanted = {read: sorted(by_cta[cta]) for read, by_cta in reads.items() if cta in by_cta}
        union = tuple(sorted({offset for offsets in wanted.values() for offset in offsets}))
        seen: _OperandWatch = observe(_watch_of(cta, union, wanted), True)
        for read, behind in seen.found.items():
            owners[read] = (*owners.get(read, ()), *behind)
    found_writers = {key: tuple(_with_behind(each, from_shared.get(key, {}), owners) for each in own) for key, own in writers.items()}
    in_shared = {read.key: own for read, own in owners.items() if read.key not in writers}
    return found_writers | in_shared


def _with_behind(writer: Writer, reads: Mapping[Any, Iterable[Read]], owners: Mapping[Read, tuple[Writer, ...]]) -> Writer:
    """The same with those who wrote the bytes of shared memory that it has loaded or copied."""
    behind = {_identity(each): each for read in sorted(reads.get(_identity(writer), ())) for each in owners.get(read, ())}
    return replace(writer, behind=tuple(behind.values()))


def with_writers(replay: Replay, found: MmaRecords) -> MmaRecords:
    """Add to records of products who wrote their operands."""
    lines = {record.number: {name: range(getattr(record, of.dimension)) for name, of in OPERANDS.items()} for record in found}
    known = operand_writers(lambda make, events: replay.observe(make, events=events)[1], lines)
    return MmaRecords(
        tuple(
            replace(record, writers={name: _merged(known[record.number, name]) for name in OPERANDS if (record.number, name) in known})
            for record in found
        )
    )


def _merged(writers: Iterable[Writer]) -> tuple[Writer, ...]:
    """Each instruction once for each warp, with all lanes that have executed it."""
    groups: dict[Any, list[Writer]] = {}
    for writer in writers:
        groups.setdefault(_identity(writer)[:-1], []).append(writer)
    return tuple(
        replace(
            same[0],
            lanes=tuple(sorted({lane for each in same for lane in each.lanes})),
            behind=_merged(writer for each in same for writer in each.behind),
        )
        for same in groups.values()
    )


_NOTHING: NDArray[np.uint8] = np.zeros(0, np.uint8)
_BYTE: np.dtype[Any] = np.dtype(np.uint8)
_WORD = 4
"""Bytes of a cell of tensor memory."""


def _watch_of(cta: Ctaid, union: tuple[int, ...], wanted: dict[Read, list[int]]) -> Callable[[Launch], Observer]:
    return lambda launch: _OperandWatch(launch, _NOTHING, _BYTE, (), until=CopiedBytes(-1, cta, union), wanted=wanted)


@dataclass(slots=True, eq=False)
class _OperandWatch(SharedWatch):
    """Notes for some products, and copies to tensor memory, who has written certain bytes of shared memory when they read them."""

    wanted: Mapping[Read, Sequence[int]] = field(kw_only=True)
    found: dict[Read, tuple[Writer, ...]] = field(default_factory=dict)
    _products: int = 0
    _copies: int = 0

    def performing(self, operation: AsyncOperation) -> None:
        """A product or a copy is about to read."""
        if operation.details is not None:
            self._note_product()
        if operation.tensor_copy is not None:
            self._note(read for read in self.wanted if read.copy == self._copies)

    def _note_product(self) -> None:
        self._note(read for read in self.wanted if read.copy is None and read.key[0] == self._products)

    def _note(self, reads: Iterable[Read]) -> None:
        for read in reads:
            self.found[read] = _distinct(self.owners.get(self.host_address + offset) for offset in self.wanted[read])

    def performed(self, operation: AsyncOperation) -> None:
        """It is complete."""
        SharedWatch.performed(self, operation)
        self._products += operation.details is not None
        self._copies += operation.tensor_copy is not None

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """So is one of a warp, whose matrices threads have loaded."""
        self._note_product()
        self._products += 1


def _identity(writer: Writer) -> tuple[Any, ...]:
    """Equal for executions of one instruction by the same lanes."""
    return writer.opcode, writer.place.line, writer.place.column, writer.cta, writer.warp, writer.lanes


def _distinct(owners: Iterable[Writer | None]) -> tuple[Writer, ...]:
    return tuple(replace(writer, value=None) for writer in {id(w): w for w in owners if w is not None}.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """The last execution of a load by a warp: when, and the host addresses of its lanes or rows."""

    number: int
    hosts: NDArray[np.uint64]


@dataclass(slots=True, eq=False)
class _HeldWatch(Watch):
    """Notes for some products who has written the registers and the cells of tensor memory that they take.

    Attributes
    ----------
    found : by product and operand the writers
    from_shared : those of them that have read shared memory, with the keys of ``read``
    read : the bytes of shared memory that loads for an operand, or copies to tensor memory, have read
    """

    wanted: Mapping[Key, Sequence[HeldLine]] = field(kw_only=True)
    found: dict[Key, tuple[Writer, ...]] = field(default_factory=dict)
    from_shared: dict[Key, dict[Any, set[Read]]] = field(default_factory=dict)
    read: dict[Read, dict[Ctaid, set[int]]] = field(default_factory=dict)
    _products: int = 0
    _copies: int = 0
    _number: int = 0
    _definers: dict[int, list[Op]] = field(default_factory=dict)
    """By register the instructions that write it."""
    _loads: dict[tuple[Ctaid, int, int], _Load] = field(default_factory=dict)
    _cells: dict[Ctaid, NDArray[Any]] = field(default_factory=dict)
    """Of each CTA who wrote each cell, ``[column, lane]``."""
    _copied: dict[Ctaid, NDArray[np.int64]] = field(default_factory=dict)
    """Of each CTA the number of the copy by which each cell has been written, if it has, and the byte of shared memory: ``[..., 2]``."""
    _issuers: dict[AsyncOperation, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        program = self.launch.program
        for op in program.ops:
            for register in program.writes[op.index]:
                self._definers.setdefault(register, []).append(op)

    def drain(self, warp: Warp) -> None:
        """Look at the loads and the stores to tensor memory among the recorded rows."""
        natives, cta = self.launch.program.natives, warp.cta
        for row in self.rows(warp.words[Word.EVENT_COUNT]):
            index = int(row[0]) & 0xFFFF_FFFF
            native = natives.get(index)
            self._number += 1
            if isinstance(native, TensorAccess) and native.write:
                self._stored(warp, self.launch.program.ops[index], native, int(row[1]))
            elif isinstance(native, (LaneAccess, MatrixAccess)) and not native.write:
                self._loads[cta.ctaid, warp.warp_id, index] = _Load(self._number, row[2:].copy())
        Watch.drain(self, warp)

    def _stored(self, warp: Warp, op: Op, native: TensorAccess, address: int) -> None:
        split = op.operands[native.split] if native.split >= 0 else Const(0)
        at = fragment(native.shape, native.repeat, native.pack, split.value if isinstance(split, Const) else 0)
        lane = at.lane + 32 * (warp.warp_id % 4) + (address >> 16 & 31)
        column = at.column + (address & 0xFFFF)
        cells = self._of(warp.cta.ctaid)
        for part in range(1 + native.pack):
            for thread in range(32):
                cells[column[thread] + part, lane[thread]] = self.writer(op, warp.cta, warp.warp_id, (thread,))
                if warp.cta.ctaid in self._copied:
                    self._copied[warp.cta.ctaid][column[thread] + part, lane[thread]] = -1

    def _of(self, ctaid: Ctaid) -> NDArray[Any]:
        if ctaid not in self._cells:
            self._cells[ctaid] = np.full((512, 128), None, object)
        return self._cells[ctaid]

    def issued(self, operation: AsyncOperation) -> None:
        """Note who issues a copy to tensor memory."""
        if operation.tensor_copy is not None:
            warp = self.launch.scheduler.current
            self._issuers[operation] = (
                -1 if warp is None else warp.warp_id,
                operation.thread[-1:] if isinstance(operation.thread, tuple) else (),
            )
        Watch.issued(self, operation)

    def performing(self, operation: AsyncOperation) -> None:
        """A product is about to read."""
        if operation.details is not None:
            self._note(operation.op, operation.cta)

    def performed(self, operation: AsyncOperation) -> None:
        """Something has been copied to tensor memory, or multiplied."""
        Watch.performed(self, operation)
        self._products += operation.details is not None
        if operation.tensor_copy is not None:
            copy = operation.tensor_copy()
            writer = self.writer(operation.op, operation.cta, *self._issuers.pop(operation, (-1, ())), asynchronous=True)
            columns = slice(copy.column, copy.column + 4 * copy.source.chunks.shape[1])
            words = (copy.source.chunks[..., None] * CHUNK + np.arange(0, CHUNK, _WORD)).reshape(len(copy.lanes), -1)
            for cta in copy.ctas:
                for lanes in copy.lanes.T:
                    self._of(cta.ctaid)[columns, lanes] = writer
                    sources = self._copied.setdefault(cta.ctaid, np.full((512, 128, 2), -1, np.int64))
                    sources[columns, lanes] = np.stack([np.full(words.T.shape, self._copies), words.T], axis=-1)
            self._copies += 1

    def multiplied(self, warp: Warp, details: Callable[[], Product]) -> None:
        """A warp has multiplied."""
        self._note(warp.op, warp.cta)
        self._products += 1

    def _note(self, op: Op, cta: Cta) -> None:
        for operand in OPERANDS:
            key = self._products, operand
            if key in self.wanted:
                owners: list[Writer] = []
                for line in self.wanted[key]:
                    owners += self._of_cells(line, key) if line.cells is not None else self._of_registers(op, cta, line, key)
                self.found[key] = tuple({_identity(writer): writer for writer in owners}.values())

    def _of_cells(self, line: HeldLine, key: Key) -> list[Writer]:
        assert line.cells is not None
        lanes, columns = line.cells
        ctaid = line.cta.ctaid
        owners = self._of(ctaid)[columns, lanes]
        sources = self._copied[ctaid][columns, lanes] if ctaid in self._copied else np.full((*owners.shape, 2), -1)
        for writer, (number, start) in zip(owners, sources.tolist(), strict=True):
            if number >= 0:
                copy = Read(key, number)
                self.from_shared.setdefault(key, {}).setdefault(_identity(writer), set()).add(copy)
                self.read.setdefault(copy, {}).setdefault(ctaid, set()).update(range(start, start + _WORD))
        return [writer for writer in owners if writer is not None]

    def _of_registers(self, op: Op, cta: Cta, line: HeldLine, key: Key) -> list[Writer]:
        names = [name for name, _ in op.row.operands]
        items = flatten(op.operands[names.index(line.operand)])
        found: list[Writer] = []
        for number in sorted({number for number, _ in line.registers}):
            lanes = tuple(sorted(lane for other, lane in line.registers if other == number))
            register = operand_registers(items[number])
            definers = self._definers.get(register[0], []) if register else []
            seen = {d.index: load for d in definers if (load := self._loads.get((cta.ctaid, line.warp, d.index))) is not None}
            if not seen and len(definers) != 1:
                continue
            last = max(definers, key=lambda d: seen[d.index].number if d.index in seen else -1)
            writer = self.writer(last, cta, line.warp, lanes)
            found.append(writer)
            if last.index in seen:
                self._read(last, writer, seen[last.index], register[0], key, cta)
        return found

    def _read(self, op: Op, writer: Writer, load: _Load, register: int, key: Key, cta: Cta) -> None:
        """Note the bytes of shared memory that lanes have loaded into a register."""
        native: Any = self.launch.program.natives[op.index]
        place = [operand_registers(item) for item in flatten(op.operands[native.value])].index((register,))
        starts: list[tuple[int, int]] = []
        for lane in writer.lanes:
            if isinstance(native, MatrixAccess) and native.transposed:
                starts += [(int(load.hosts[8 * place + 2 * (lane % 4) + half]) + lane // 4 * 2, 2) for half in range(2)]
            elif isinstance(native, MatrixAccess):
                starts.append((int(load.hosts[8 * place + lane // 4]) + lane % 4 * 4, 4))
            elif isinstance(native, LaneAccess):
                size = native.bits // 8
                starts.append((int(load.hosts[lane]) + place * size, size))
        base, size = cta.shared_address, len(cta.shared)
        inside = {start - base + i for start, count in starts for i in range(count) if 0 <= start - base < size}
        if inside:
            self.from_shared.setdefault(key, {}).setdefault(_identity(writer), set()).add(Read(key))
            self.read.setdefault(Read(key), {}).setdefault(cta.ctaid, set()).update(inside)
