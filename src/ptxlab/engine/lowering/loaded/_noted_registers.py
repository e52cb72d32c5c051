"""Registers that get rows of their own, in which ops note from where the words come that they move there.

What loads have brought may come to a register in many ways: from several loads, by moves in other blocks, by a choice between registers,
in halves. Of such a register each op that writes it notes what it has moved there, in the lanes that execute it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ptxlab.engine.lowering.loaded._moved_halves import ZERO, Chosen, Half, MovedHalf, moved_halves
from ptxlab.engine.lowering.loaded._registers import LoadedRegisters
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import SOURCE_ROW, LoadedWord, MovedNote, NotedHalf, NotedHalves, Program
from ptxlab.isa.native_ops import Native
from ptxlab.isa.operands import Op, Reg

__all__ = ["NotedRegisters"]

_HALF, _WORD = 16, 32
_EACH = _WORD // _HALF
Loads: TypeAlias = Callable[[Native | None], tuple[int, int]]
Row: TypeAlias = Callable[[LoadedWord], tuple[int, int]]


class NotedRegisters:
    """Those among the registers that consumers take, and those from which they are moved; ``loads`` says what a native loads.

    Attributes
    ----------
    loads : by register the loads from which it may have what it holds
    """

    def __init__(self, program: Program, taken: Iterable[int], known: LoadedRegisters, loads: Loads) -> None:
        self._program = program
        self._known = known
        self._native_loads = loads
        self._writers: defaultdict[int, list[Op]] = defaultdict(list)
        self._moved: dict[int, dict[int, tuple[MovedHalf, ...]]] = {}
        self.loads: dict[int, tuple[int, ...]] = {}
        if known.loads:
            for op in program.ops:
                for register in program.writes[op.index]:
                    self._writers[register].append(op)
            self.loads = self._find(taken)

    def _find(self, taken: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """Follow registers back to loads, and what is loaded forwards again."""
        found: dict[int, set[int]] = {}
        readers: defaultdict[int, set[int]] = defaultdict(set)
        work = list(taken)
        while work:
            register = work.pop()
            if register in found:
                continue
            direct = self._known.direct(register)
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
        return {register: tuple(sorted(loads)) for register, loads in found.items() if loads and not self._known.direct(register)}

    def _loaded(self, op: Op, register: int) -> bool:
        """Whether an op loads whole words, or halves, into a register."""
        position, bits = self._native_loads(self._program.natives.get(op.index))
        if not bits or self._program.registers[register].bits != bits:
            return False
        return [item.index for item in flatten(op.operands[position]) if isinstance(item, Reg)].count(register) == 1

    def _halves(self, op: Op) -> dict[int, tuple[MovedHalf, ...]]:
        """What a pure instruction moves."""
        if op.index not in self._moved:
            self._moved[op.index] = moved_halves(self._program, op) if op.row.kind == "pure" else {}
        return self._moved[op.index]

    def _sources(self, op: Op, register: int) -> set[int]:
        """The registers of which an op moves halves to a register."""
        halves = self._halves(op).get(register, ())
        parts = [part for half in halves for part in ((half.a, half.b) if isinstance(half, Chosen) else (half,))]
        return {part.register for part in parts if isinstance(part, Half)}

    def words(self, register: int, bits: int) -> list[LoadedWord] | None:
        """The words of a register of so many bits; None if it has no rows."""
        if register not in self.loads or self._program.registers[register].bits != bits:
            return None
        return [LoadedWord(~register, at // 8) for at in range(0, bits, _WORD)]

    def moves(self, rows: Mapping[int, int], row: Row) -> dict[int, tuple[MovedNote, ...]]:
        """What ops note; ``rows`` are those of registers, and ``row`` says where it is noted from where a word has been loaded."""
        found: defaultdict[int, list[MovedNote]] = defaultdict(list)
        for register, first in rows.items():
            for op in self._writers[register]:
                for number, note in enumerate(self._notes(op, register, rows, row)):
                    found[op.index].append(note._replace(row=first + SOURCE_ROW * number))
        return {index: tuple(notes) for index, notes in found.items()}

    def _notes(self, op: Op, register: int, rows: Mapping[int, int], row: Row) -> list[MovedNote]:
        """What an op notes of each word of a register."""
        halves = max(self._program.registers[register].bits // _HALF, 1)
        if self._loaded(op, register):
            position, bits = self._native_loads(self._program.natives[op.index])
            items = flatten(op.operands[position])
            begin = items.index(Reg(register)) * bits // 8
            each = [(row(LoadedWord(op.index, begin + at // 8))) for at in range(0, bits, _WORD)]
            return [MovedNote(0, tuple(NotedHalf(*place, bool(i)) for i in range(min(halves, _EACH)))) for place in each]
        moved = self._halves(op).get(register, (None,) * halves)
        return [self._note(moved[at : at + _EACH], rows, row) for at in range(0, halves, _EACH)]

    def _note(self, halves: tuple[MovedHalf, ...], rows: Mapping[int, int], row: Row) -> MovedNote:
        predicates = {half.predicate for half in halves if isinstance(half, Chosen)}
        if not predicates:
            return MovedNote(0, self._places(halves, rows, row))
        if len(predicates) > 1:
            return MovedNote(0, (None,) * len(halves))
        a, b = (
            self._places([getattr(half, name) if isinstance(half, Chosen) else half for half in halves], rows, row) for name in ("a", "b")
        )
        return MovedNote(0, a, b, next(iter(predicates)))

    def _places(self, halves: Iterable[MovedHalf], rows: Mapping[int, int], row: Row) -> NotedHalves:
        return tuple(self._place(half, rows, row) for half in halves)

    def _place(self, half: MovedHalf, rows: Mapping[int, int], row: Row) -> NotedHalf | None:
        """Where it is noted from where a half comes."""
        if half == ZERO:
            return NotedHalf(-1, 0, False)
        if not isinstance(half, Half):
            return None
        word, upper = divmod(half.number, _EACH)
        if half.register in rows:
            return NotedHalf(rows[half.register] + SOURCE_ROW * word, 0, bool(upper))
        direct = self._known.direct(half.register)
        return NotedHalf(*row(direct[word]), bool(upper)) if direct else None
