"""Registers that hold words which loads have brought, as they are: those that loads write, and those to which moves copy them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable

from ptxlab.engine.lowering.constants import moves
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import LoadedWord, Program
from ptxlab.isa.effects import Asynchronous
from ptxlab.isa.native_ops import LaneAccess, Native
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["LoadedRegisters", "writes_zero"]

_WORD = 32
Words = list[LoadedWord | None]


class LoadedRegisters:
    """What is known of the registers of a program; ``loaded`` says into which operand a native loads, and the bits of its elements.

    Loads that write the same registers, in the same order, note from where these come in the same place: what is noted there is true of
    the registers whichever of the loads was the last one. The first one stands for all of them. Other registers that several loads write,
    and halves of words, are not known here. Zeros that fill the register where the guard of the only load is false count as loaded zeros.

    A move copies the words, but not what is noted of them: the copy is known as long as the block goes on and none of the loads executes.
    """

    def __init__(self, program: Program, loaded: Callable[[Native | None], tuple[int, int]]) -> None:
        self._program = program
        self._groups: dict[int, list[int]] = {}
        self._firsts: dict[int, int] = {}
        self._direct: dict[int, list[LoadedWord]] = {}
        self._moves: dict[int, Op] = {}
        self._find_loads(loaded)
        if self._direct:
            self._find_moves()

    def _find_loads(self, loaded: Callable[[Native | None], tuple[int, int]]) -> None:
        program = self._program
        firsts: dict[tuple[object, ...], int] = {}
        others: set[int] = set()
        zeroed: set[int] = set()
        for op in program.ops:
            native = program.natives.get(op.index)
            position, bits = loaded(native)
            if bits:
                items = flatten(op.operands[position])
                is_global = isinstance(native, LaneAccess) and native.space in ("global", "generic")
                first = firsts.setdefault((tuple(items), bits, type(native), is_global), op.index)
                self._groups.setdefault(first, []).append(op.index)
                self._firsts[op.index] = first
                if first == op.index:
                    for number, item in enumerate(items):
                        if isinstance(item, Reg):
                            known = item.index not in self._direct and program.registers[item.index].bits == bits >= _WORD
                            others.update(() if known else (item.index,))
                            begin = number * bits // 8
                            self._direct[item.index] = [LoadedWord(op.index, begin + at // 8) for at in range(0, bits, _WORD)]
            elif writes_zero(op):
                zeroed.update(program.writes[op.index])
            else:
                others.update(program.writes[op.index])
        for first, group in self._groups.items():
            if len(group) > 1 and not zeroed.isdisjoint(program.writes[first]):
                others.update(program.writes[first])
        self._direct = {register: words for register, words in self._direct.items() if register not in others}

    def _find_moves(self) -> None:
        """The moves that always execute and whose registers nothing else writes."""
        program = self._program
        writers: defaultdict[int, int] = defaultdict(int)
        for registers in program.writes:
            for register in registers:
                writers[register] += 1
        for op in program.ops:
            if op.guard is None and moves(op):
                self._moves.update((register, op) for register in program.writes[op.index] if writers[register] == 1)
        self._block = {index: number for number, block in enumerate(program.blocks) for index in range(block.start, block.stop)}

    @property
    def loads(self) -> bool:
        """Whether there are loads."""
        return bool(self._groups)

    def direct(self, register: int) -> list[LoadedWord]:
        """The words of a register that nothing but loads writes, all alike; empty for another one."""
        return self._direct.get(register, [])

    def first(self, load: int) -> int:
        """The load that stands for one."""
        return self._firsts[load]

    def alike(self, load: int) -> list[int]:
        """The loads for which this one stands."""
        return self._groups[load]

    def words(self, item: Resolved, bits: int, op: Op) -> Words:
        """The words of an element of so many bits that an instruction takes, or the one of which it takes them; None if it is not known.

        An asynchronous instruction may take it when the words that were moved have been replaced.
        """
        if bits < _WORD:
            return [*(self.direct(item.index) if isinstance(item, Reg) else ()), None][:1]
        held = self._held(item, op.index, not isinstance(op.effects, Asynchronous)) if self._bits(item) == bits else None
        return [None] * (bits // _WORD) if held is None else held

    def _bits(self, item: Resolved) -> int:
        return self._program.registers[item.index].bits if isinstance(item, Reg) and not item.negated else 0

    def _held(self, item: Resolved, at: int, moved: bool = True) -> Words | None:
        """The words in a register when an op executes."""
        if not isinstance(item, Reg) or item.index in self._direct:
            return [*self._direct[item.index]] if isinstance(item, Reg) else None
        move = self._moves.get(item.index)
        if not moved or move is None or not move.index < at or self._block[move.index] != self._block[at]:
            return None
        targets, sources = (flatten(operand) for operand in move.operands)
        widths = [self._bits(part) for part in sources]
        each = sum(widths) // len(targets)
        if min(*widths, each) < _WORD or self._bits(item) != each:
            return None
        words = [
            word for part, bits in zip(sources, widths, strict=True) for word in self._held(part, move.index) or [None] * (bits // _WORD)
        ]
        begin = targets.index(item) * each // _WORD
        words = words[begin : begin + each // _WORD]
        return [None if word is None or self._loads_between(word.load, move.index, at) else word for word in words]

    def _loads_between(self, load: int, start: int, stop: int) -> bool:
        """Whether one of the loads for which this one stands is between two ops."""
        group = self._groups[load]
        after = bisect_right(group, start)
        return after < len(group) and group[after] < stop


def writes_zero(op: Op) -> bool:
    """Whether an op, which always executes, sets its register to a constant zero."""
    return op.guard is None and op.row.kind == "pure" and len(op.operands) == 1 + op.row.outputs and op.operands[-1] == Const(0)
