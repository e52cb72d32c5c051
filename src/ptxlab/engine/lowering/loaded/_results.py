"""Results that threads store to global memory as tcgen05.ld has loaded them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ptxlab.engine.lowering.loaded._noted_registers import NotedRegisters
from ptxlab.engine.lowering.loaded._registers import LoadedRegisters
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import SOURCE_ROW, LoadedValues, LoadedWord, MovedNote, MovedResult, NotedPart, Program
from ptxlab.engine.word_sources import LOADED_BYTE_SHIFT
from ptxlab.isa.native_ops import LaneAccess, Native, TensorAccess
from ptxlab.isa.operands import Op, Reg, Resolved

__all__ = ["find_results", "with_moved_results"]

_BYTE, _WORD = 8, 32
_GLOBAL = ("global", "generic")
Words = tuple[LoadedWord, ...]


def find_results(program: Program) -> dict[int, Words]:
    """Stores of which each register is known to hold what one load has brought there, or a move of the same block."""
    known = LoadedRegisters(program, _loaded)
    found = {}
    for op, items in _stores(program):
        words = [word for item in items for word in known.words(item, _WORD, op)]
        held = tuple(word for word in words if word is not None and len(known.alike(word.load)) == 1)
        if len(held) == len(words) and len({word.load for word in held}) == 1:
            found[op.index] = held
    return found


def with_moved_results(program: Program, loaded: LoadedValues) -> LoadedValues:
    """Add the stores of registers to which what one load has brought has been moved otherwise: what they write is noted when they do."""
    others = [(op, items) for op, items in _stores(program) if op.index not in loaded.results]
    known = LoadedRegisters(program, _loaded)
    noted = NotedRegisters(program, {item.index for _, items in others for item in items if isinstance(item, Reg)}, known, _loaded)
    words = {op.index: [_word(item, known, noted) for item in items] for op, items in others}
    results = {store: found for store, each in words.items() if len(found := [word for word in each if word is not None]) == len(each)}
    loads = {store: {load for word in each for load in _loads(word, noted)} for store, each in results.items()}
    chosen = {store: next(iter(each)) for store, each in loads.items() if len(each) == 1 and len(known.alike(min(each))) == 1}
    if not chosen:
        return loaded
    end, rows = program.frame_bytes, dict(loaded.rows)

    def row_of(access: int) -> int:
        nonlocal end
        if access not in rows:
            rows[access], end = end, end + SOURCE_ROW
        return rows[access]

    for access in sorted({*chosen, *chosen.values()}):
        row_of(access)
    registers, end = noted.rows(end)

    def place(byte: LoadedWord) -> NotedPart:
        if byte.load < 0:
            return registers[~byte.load].part(byte.byte)
        return NotedPart(row_of(byte.load), byte.byte << LOADED_BYTE_SHIFT, 0)

    moves = defaultdict(tuple, loaded.moves)
    for index, notes in noted.moves(registers, place).items():
        moves[index] += notes
    moved = {}
    for store, load in chosen.items():
        moved[store] = MovedResult(load, end, len(results[store]))
        for word in results[store]:
            moves[store] += (MovedNote(end, _WORD // _BYTE, place(word)),)
            end += SOURCE_ROW
    program.frame_bytes = end
    return replace(loaded, rows=rows, moves=dict(moves), moved_results=moved, zeros=loaded.zeros | moved.keys())


def _stores(program: Program) -> list[tuple[Op, tuple[Resolved, ...]]]:
    """The stores of words to global memory, with what they write."""
    natives = [(program.ops[index], native) for index, native in program.natives.items()]
    return [
        (op, flatten(op.operands[native.value]))
        for op, native in natives
        if isinstance(native, LaneAccess) and native.write and native.space in _GLOBAL and native.bits == _WORD
    ]


def _word(item: Resolved, known: LoadedRegisters, noted: NotedRegisters) -> LoadedWord | None:
    """What a register holds: a word of a load, or of a register that has rows of its own."""
    if not isinstance(item, Reg) or item.negated:
        return None
    if noted.units.get(item.index, _WORD // _BYTE) < _WORD // _BYTE:
        return None
    return next(iter(known.direct(item.index) or noted.words(item.index, _WORD) or ()), None)


def _loads(word: LoadedWord, noted: NotedRegisters) -> tuple[int, ...]:
    return noted.loads[~word.load] if word.load < 0 else (word.load,)


def _loaded(native: Native | None) -> tuple[int, int]:
    """The operand into which tcgen05.ld loads whole cells, and their bits."""
    if isinstance(native, TensorAccess) and not native.write and not native.pack:
        return native.value, _WORD
    return 0, 0
