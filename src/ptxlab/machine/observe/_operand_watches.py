"""Observers that note who has written what products take: registers, cells of tensor memory, and bytes of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.engine.context import Word
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.isa.context import Cta
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, TensorAccess
from ptxlab.isa.operands import Const, Op, Resolved
from ptxlab.isa.operations import AsyncOperation
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.layout import decompression, fragment
from ptxlab.machine.launch.mma_records import OPERANDS
from ptxlab.machine.launch.result import Writer
from ptxlab.machine.observe._moved_words import MovedWords
from ptxlab.machine.observe.provenance import SharedWatch, Watch

if TYPE_CHECKING:
    from ptxlab.engine.program import LoadedWord
    from ptxlab.isa.operations.products import HeldLine, Product
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Ctaid", "HeldWatch", "Key", "Read", "SharedReads", "identity"]

Ctaid = tuple[int, int, int]
Key = tuple[int, str]
"""The number of a product, and an operand."""


class Read(NamedTuple):
    """What a product takes of shared memory: at once, or by what a copy to tensor memory or a load with this number has read before."""

    key: Key
    copy: int = -1
    load: int = -1


_WORD = 4
"""Bytes of a cell of tensor memory."""


@dataclass(slots=True, eq=False)
class SharedReads(SharedWatch):
    """Notes for some products, and copies to tensor memory, who has written certain bytes of shared memory when they read them."""

    wanted: Mapping[Read, Sequence[int]] = field(kw_only=True)
    found: dict[Read, tuple[Writer, ...]] = field(default_factory=dict)
    _products: int = 0
    _copies: int = 0
    _loads: dict[int, list[Read]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        SharedWatch.__post_init__(self)
        for read in self.wanted:
            if read.load >= 0:
                self._loads.setdefault(read.load, []).append(read)

    def drain(self, warp: Warp) -> None:
        """Loads are among the recorded rows."""
        first = self._rows
        SharedWatch.drain(self, warp)
        for number in range(first, self._rows):
            self._note(self._loads.get(number, ()))

    def performing(self, operation: AsyncOperation) -> None:
        """A product or a copy is about to read."""
        if operation.details is not None:
            self._note_product()
        if operation.tensor_copy is not None:
            self._note(read for read in self.wanted if read.copy == self._copies)

    def _note_product(self) -> None:
        self._note(read for read in self.wanted if read.copy == read.load == -1 and read.key[0] == self._products)

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


def identity(writer: Writer) -> tuple[Any, ...]:
    """Equal for executions of one instruction by the same lanes."""
    return writer.opcode, writer.place.line, writer.place.column, writer.cta, writer.warp, writer.lanes


def _distinct(owners: Iterable[Writer | None]) -> tuple[Writer, ...]:
    return tuple(replace(writer, value=None) for writer in {id(w): w for w in owners if w is not None}.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """The last execution of a load by a warp: the number of its row, the host addresses of its lanes or rows, and if there were others."""

    number: int
    hosts: NDArray[np.uint64]
    again: bool


class _Written(NamedTuple):
    """Who has written a register of a warp: an instruction, which element it is of what that loads, and the execution, if it does."""

    op: Op
    element: int
    load: _Load | None


@dataclass(slots=True, eq=False)
class HeldWatch(Watch):
    """Notes for some products who has written the registers and the cells of tensor memory that they take.

    Attributes
    ----------
    found : by product and operand the writers
    stored : by those of them that have stored registers to tensor memory, the writers of these
    from_shared : those of them that have read shared memory, with the keys of ``read``
    read : the bytes of shared memory that loads for an operand, or copies to tensor memory, have read
    """

    wanted: Mapping[Key, Sequence[HeldLine]] = field(kw_only=True)
    found: dict[Key, tuple[Writer, ...]] = field(default_factory=dict)
    stored: dict[Key, dict[Any, dict[Any, Writer]]] = field(default_factory=dict)
    from_shared: dict[Key, dict[Any, set[Read]]] = field(default_factory=dict)
    read: dict[Read, dict[Ctaid, set[int]]] = field(default_factory=dict)
    _products: int = 0
    _copies: int = 0
    _ctas: dict[Ctaid, CtaState] = field(default_factory=dict)
    _definers: dict[int, list[Op]] = field(default_factory=dict)
    """By register the instructions that write it."""
    _loads: dict[tuple[Ctaid, int, int], _Load] = field(default_factory=dict)
    _moved: MovedWords = field(init=False)
    _cells: dict[Ctaid, NDArray[Any]] = field(default_factory=dict)
    """Of each CTA who wrote each cell, ``[column, lane]``."""
    _registers: dict[Ctaid, NDArray[Any]] = field(default_factory=dict)
    """Of each CTA who has written the register that has been stored to each cell."""
    _copied: dict[Ctaid, NDArray[np.int64]] = field(default_factory=dict)
    """Of each CTA the number of the copy by which each cell has been written, if it has, and the byte of shared memory: ``[..., 2]``."""
    _issuers: dict[AsyncOperation, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Watch.__post_init__(self)
        program = self.launch.program
        for op in program.ops:
            for register in program.writes[op.index]:
                self._definers.setdefault(register, []).append(op)
        self._moved = MovedWords(program)

    def started(self, ctas: tuple[CtaState, ...]) -> None:
        """Lines name CTAs of an earlier run."""
        self._ctas.update((cta.ctaid, cta) for cta in ctas)
        Watch.started(self, ctas)

    def drain(self, warp: Warp) -> None:
        """Look at the loads and the stores to tensor memory among the recorded rows."""
        natives, cta = self.launch.program.natives, warp.cta
        for number, row in enumerate(self.rows(warp.words[Word.EVENT_COUNT]), self._rows):
            index = int(row[0]) & 0xFFFF_FFFF
            native = natives.get(index)
            if isinstance(native, TensorAccess) and native.write:
                self._stored(warp, self.launch.program.ops[index], native, int(row[1]))
            elif isinstance(native, (LaneAccess, MatrixAccess)) and not native.write:
                key = cta.ctaid, warp.warp_id, index
                self._loads[key] = _Load(number, row[2:].copy(), key in self._loads)
        Watch.drain(self, warp)

    def _stored(self, warp: Warp, op: Op, native: TensorAccess, address: int) -> None:
        split = op.operands[native.split] if native.split >= 0 else Const(0)
        at = fragment(native.shape, native.repeat, native.pack, split.value if isinstance(split, Const) else 0)
        lane = at.lane + 32 * (warp.warp_id % 4) + (address >> 16 & 31)
        column = at.column + (address & 0xFFFF)
        cells = self._of(warp.cta.ctaid)
        registers = self._registers.setdefault(warp.cta.ctaid, np.full(cells.shape, None, object))
        words = self.launch.program.loaded.cells.get(op.index, ())
        for number, item in enumerate(flatten(op.operands[native.value])):
            written = self._writers_of(item, words[number] if words else None, warp.cta.ctaid, warp.warp_id)
            for part in range(1 + native.pack):
                for cell in zip((column[:, number] + part).tolist(), lane[:, number].tolist(), strict=True):
                    registers[cell] = written
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
            # Four elements of a chunk that is expanded come to a cell.
            each = decompression(copy.expanded).bits // 2 if copy.expanded else _WORD
            words = (copy.source.chunks[..., None] * CHUNK + np.arange(CHUNK // _WORD) * each).reshape(len(copy.lanes), -1)
            for cta in copy.ctas:
                for lanes in copy.lanes.T:
                    self._of(cta.ctaid)[columns, lanes] = writer
                    if cta.ctaid in self._registers:
                        self._registers[cta.ctaid][columns, lanes] = None
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
                self.found[key] = tuple({identity(writer): writer for writer in owners}.values())

    def _of_cells(self, line: HeldLine, key: Key) -> list[Writer]:
        assert line.cells is not None
        lanes, columns = line.cells
        ctaid = line.cta.ctaid
        owners = self._of(ctaid)[columns, lanes]
        sources = self._copied[ctaid][columns, lanes] if ctaid in self._copied else np.full((*owners.shape, 2), -1)
        registers = self._registers[ctaid][columns, lanes] if ctaid in self._registers else np.full(owners.shape, None, object)
        for writer, (number, start), written in zip(owners, sources.tolist(), registers, strict=True):
            if number >= 0:
                copy = Read(key, number)
                self.from_shared.setdefault(key, {}).setdefault(identity(writer), set()).add(copy)
                self.read.setdefault(copy, {}).setdefault(ctaid, set()).update(range(start, start + _WORD))
                continue
            for each in written or ():
                before = self._writer_of(each, self._ctas[ctaid], writer.warp, writer.lanes, key)
                self.stored.setdefault(key, {}).setdefault(identity(writer), {})[identity(before)] = before
        return [writer for writer in owners if writer is not None]

    def _of_registers(self, op: Op, cta: Cta, line: HeldLine, key: Key) -> list[Writer]:
        names = [name for name, _ in op.row.operands]
        items = flatten(op.operands[names.index(line.operand)])
        words = self.launch.program.loaded.matrices.get(op.index, {}).get(line.operand, ())
        found: list[Writer] = []
        for number in sorted({number for number, _ in line.registers}):
            lanes = tuple(sorted(lane for other, lane in line.registers if other == number))
            word = words[number * len(words) // len(items)] if words else None
            for written in self._writers_of(items[number], word, cta.ctaid, line.warp):
                found.append(self._writer_of(written, cta, line.warp, lanes, key))
        return found

    def _writers_of(self, item: Resolved, word: LoadedWord | None, ctaid: Ctaid, warp: int) -> tuple[_Written, ...]:
        """Who has written a register of a warp last; of one to which moves have brought what it holds, the loads from which it may come.

        Which execution of a load that was is known if there was no other one.
        """
        moved = self._moved.loads(word) if word is not None and word.load < 0 else set()
        found = []
        for first, element in sorted(moved):
            for load in self.launch.program.loaded.alike(first):
                seen = self._loads.get((ctaid, warp, load))
                if seen is not None:
                    found.append(_Written(self.launch.program.ops[load], element, None if seen.again else seen))
        last = None if found else self._last_writer(item, word, ctaid, warp)
        return (last,) if last is not None else tuple(found)

    def _last_writer(self, item: Resolved, word: LoadedWord | None, ctaid: Ctaid, warp: int) -> _Written | None:
        """Who has written a register of a warp last; ``word`` says which word of a load it holds, if that is known."""
        loaded = self.launch.program.loaded
        register = operand_registers(item)[:1]
        direct = word is not None and word.load >= 0
        writers = [self.launch.program.ops[load] for load in loaded.alike(word.load)] if word is not None and direct else []
        definers = writers or self._definers.get(register[0] if register else -1, [])
        seen = {d.index: load for d in definers if (load := self._loads.get((ctaid, warp, d.index))) is not None}
        if not seen and len(definers) != 1:
            return None
        last = max(definers, key=lambda d: seen[d.index].number if d.index in seen else -1)
        native: Any = self.launch.program.natives.get(last.index)
        if last.index not in seen:
            return _Written(last, 0, None)
        items = flatten(last.operands[native.value])
        if word is not None and direct:
            bits = native.bits if isinstance(native, LaneAccess) else 8 * _WORD
            return _Written(last, word.byte * 8 // bits, seen[last.index])
        return _Written(last, [operand_registers(each) for each in items].index(register), seen[last.index])

    def _writer_of(self, written: _Written, cta: Cta, warp: int, lanes: tuple[int, ...], key: Key) -> Writer:
        """The instruction that has written registers of some lanes, as a writer."""
        writer = self.writer(written.op, cta, warp, lanes)
        if written.load is not None:
            self._read(written, writer, key, cta)
        return writer

    def _read(self, written: _Written, writer: Writer, key: Key, cta: Cta) -> None:
        """Note the bytes of shared memory that lanes have loaded into a register."""
        native: Any = self.launch.program.natives[written.op.index]
        place, load = written.element, written.load
        assert load is not None
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
            read = Read(key, load=load.number)
            self.from_shared.setdefault(key, {}).setdefault(identity(writer), set()).add(read)
            self.read.setdefault(read, {}).setdefault(cta.ctaid, set()).update(inside)
