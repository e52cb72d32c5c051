"""Registers that get rows of their own, in which ops note from where the words come that they move there.

What loads have brought may come to a register in many ways: from several loads, by moves in other blocks, by a choice between registers,
in parts of words. Of such a register each op that writes it notes what it has moved there, in the lanes that execute it. Its rows stand for
words if nothing but whole words is moved there, else for halves or for bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ptxlab.engine.lowering.loaded._moved_bytes import ZERO, Byte, MovedByte, constant_registers, moved_bytes
from ptxlab.engine.lowering.loaded._registers import LoadedRegisters
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import (
    SOURCE_ROW,
    Chosen,
    Joined,
    LoadedWord,
    MovedNote,
    NotedPart,
    NotedRegister,
    NotedTree,
    Program,
    Tree,
    leaves,
)
from ptxlab.isa.native_ops import LaneAccess, Native
from ptxlab.isa.operands import Op, Reg

__all__ = ["NotedRegisters"]

_BYTE, _WORD = 8, 32
_ZEROS = NotedPart(-1, 0, 0)
_Source: TypeAlias = Tree[LoadedWord | int | None]
"""The first byte of what is moved together, `ZERO`, or None if that is not known."""
Loads: TypeAlias = Callable[[Native | None], tuple[int, int]]
Place: TypeAlias = Callable[[LoadedWord], NotedPart]


class _TornError(Exception):
    """What is moved together comes from different places."""


class NotedRegisters:
    """Those among the registers that consumers take, and those from which they are moved; ``loads`` says what a native loads.

    Attributes
    ----------
    loads : by register the loads from which it may have what it holds
    units : by register the bytes for which a row stands
    """

    def __init__(self, program: Program, taken: Iterable[int], known: LoadedRegisters, loads: Loads) -> None:
        self._program = program
        self._known_registers = known
        self._native_loads = loads
        self._writers: defaultdict[int, list[Op]] = defaultdict(list)
        self._moved: dict[int, dict[int, tuple[MovedByte, ...]]] = {}
        self._constants: dict[int, int] = {}
        self.loads: dict[int, tuple[int, ...]] = {}
        self.units: dict[int, int] = {}
        if known.loads:
            for op in program.ops:
                for register in program.writes[op.index]:
                    self._writers[register].append(op)
            self._constants = constant_registers(program, self._writers)
            self.loads = self._find(taken)
            self._find_units()

    def _find(self, taken: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Follow registers back to loads, and what is loaded forwards again."""
        found: dict[int, set[int]] = {}
        readers: defaultdict[int, set[int]] = defaultdict(set)
        work = list(taken)
        while work:
            register = work.pop()
            if register in found:
                continue
            direct = self._known_registers.direct(register)
            found[register] = {word.load for word in direct}
            writers = [] if direct else self._writers[register]
            if any(op.row.kind not in ("pure", "native") for op in writers):
                continue
            for op in writers:
                if self._loaded(op, register):
                    found[register].add(op.index)
                for source in self._sources(op, register):
                    readers[source].add(register)
                    work.append(source)
        work = [register for register, loads in found.items() if loads]
        while work:
            register = work.pop()
            for reader in readers[register]:
                if not found[register] <= found[reader]:
                    found[reader] |= found[register]
                    work.append(reader)
        return {register: tuple(sorted(loads)) for register, loads in found.items() if loads and not self._known_registers.direct(register)}

    def _find_units(self) -> None:
        """Rows for words, unless what an op moves to a register is made of smaller parts; none is larger than those of its source."""
        self.units = {register: min(self._size(register), _WORD // _BYTE) for register in self.loads}
        work = set(self.units)
        while work:
            register = work.pop()
            unit = self.units[register]
            while any(self._is_torn(op, register, unit) for op in self._writers[register]):
                unit //= 2
            if unit < self.units[register]:
                self.units[register] = unit
                work |= self.units.keys()

    def _is_torn(self, op: Op, register: int, unit: int) -> bool:
        """Whether an op brings something to a part of so many bytes of a register of which no source is such a part."""
        try:
            self._parts(op, register, unit)
        except _TornError:
            return True
        return False

    def _size(self, register: int) -> int:
        """Bytes of a register."""
        return self._program.registers[register].bits // _BYTE

    def _loaded(self, op: Op, register: int) -> bool:
        """Whether an op loads an element into a register, with zeros above it if the register is wider."""
        native = self._program.natives.get(op.index)
        position, bits = self._native_loads(native)
        held = self._program.registers[register].bits
        if not bits or held < bits or (held > bits and not (isinstance(native, LaneAccess) and not native.signed)):
            return False
        return [item.index for item in flatten(op.operands[position]) if isinstance(item, Reg)].count(register) == 1

    def _moves(self, op: Op) -> dict[int, tuple[MovedByte, ...]]:
        """What a pure instruction moves."""
        if op.index not in self._moved:
            self._moved[op.index] = moved_bytes(self._program, op, self._constants) if op.row.kind == "pure" else {}
        return self._moved[op.index]

    def _sources(self, op: Op, register: int) -> set[int]:
        """The registers of which an op moves bytes to a register."""
        return {leaf.register for byte in self._moves(op).get(register, ()) for leaf in leaves(byte) if isinstance(leaf, Byte)}

    def _parts(self, op: Op, register: int, unit: int) -> list[_Source]:
        """What an op brings to each part of so many bytes of a register."""
        size = self._size(register)
        found: Sequence[_Source]
        if self._loaded(op, register):
            position, bits = self._native_loads(self._program.natives[op.index])
            each = bits // _BYTE
            begin = flatten(op.operands[position]).index(Reg(register)) * each
            found = (*(LoadedWord(op.index, begin + i) for i in range(each)), *(ZERO,) * (size - each))
        else:
            found = [self._known(byte) for byte in self._moves(op).get(register, (None,) * size)]
        return [self._together(found[at : at + unit]) for at in range(0, size, unit)]

    def _known(self, byte: MovedByte) -> _Source:
        """From where a byte comes, as far as that is noted."""
        match byte:
            case Chosen(predicate, a, b):
                return Chosen(predicate, self._known(a), self._known(b))
            case Joined(a, b):
                one, other = self._known(a), self._known(b)
                return None if None in (one, other) else Joined(one, other)
            case Byte(register, number):
                direct = self._known_registers.direct(register)
                if direct:
                    word = direct[number * _BYTE // _WORD]
                    return LoadedWord(word.load, word.byte + number % (_WORD // _BYTE))
                return LoadedWord(~register, number) if register in self.loads else None
        return ZERO if byte == ZERO else None

    def _together(self, sources: Sequence[_Source]) -> _Source:
        """From where some bytes come together."""
        first = sources[0]
        if len(sources) == 1:
            return first
        choices = [source.predicate for source in sources if isinstance(source, Chosen)]
        if choices:
            if choices.count(choices[0]) < len(choices):
                raise _TornError
            sides = ([getattr(source, side) if isinstance(source, Chosen) else source for source in sources] for side in ("a", "b"))
            return Chosen(choices[0], *map(self._together, sides))
        if isinstance(first, Joined):
            if not all(isinstance(source, Joined) for source in sources):
                raise _TornError
            return Joined(*(self._together([getattr(source, side) for source in sources]) for side in ("a", "b")))
        if isinstance(first, LoadedWord):
            unit = self.units[~first.load] if first.load < 0 else len(sources)
            if (
                unit < len(sources)
                or first.byte % len(sources)
                or any(source != first._replace(byte=first.byte + i) for i, source in enumerate(sources))
            ):
                raise _TornError
        elif any(source != first for source in sources):
            raise _TornError
        return first

    def words(self, register: int, bits: int) -> list[LoadedWord] | None:
        """The words of a register, of which an instruction takes so many bits, or what it takes of one; None if it has no rows."""
        held = self._program.registers[register].bits
        if register not in self.loads or (held != bits if bits >= _WORD else held < bits):
            return None
        return [LoadedWord(~register, at // _BYTE) for at in range(0, bits, _WORD)]

    def rows(self, end: int) -> tuple[dict[int, NotedRegister], int]:
        """The rows of the registers in the frame, from an offset on, and the offset behind them."""
        registers = {}
        for register, loads in self.loads.items():
            unit = self.units[register]
            registers[register] = NotedRegister(end, unit, loads)
            end += SOURCE_ROW * (self._size(register) // unit)
        return registers, end

    def moves(self, registers: Mapping[int, NotedRegister], place: Place) -> dict[int, tuple[MovedNote, ...]]:
        """What ops note; ``place`` says where it is noted from where a byte has been loaded, or comes that has a register."""
        found: defaultdict[int, list[MovedNote]] = defaultdict(list)
        for register, (first, unit, _) in registers.items():
            for op in self._writers[register]:
                for number, source in enumerate(self._parts(op, register, unit)):
                    found[op.index].append(MovedNote(first + SOURCE_ROW * number, unit, _noted(source, place)))
        return {index: tuple(notes) for index, notes in found.items()}


def _noted(source: _Source, place: Place) -> NotedTree:
    """Where it is noted from where a part comes."""
    match source:
        case Chosen(predicate, a, b):
            return Chosen(predicate, _noted(a, place), _noted(b, place))
        case Joined(a, b):
            return Joined(_noted(a, place), _noted(b, place))
        case LoadedWord():
            return place(source)
    return None if source is None else _ZEROS
