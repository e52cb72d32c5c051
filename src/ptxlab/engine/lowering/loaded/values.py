"""Values that threads load and store to shared or tensor memory as they are, or multiply: matrices in registers.

Which registers hold what has been loaded, `LoadedRegisters` and `NotedRegisters` say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ptxlab.engine.lowering.loaded._noted_registers import NotedRegisters
from ptxlab.engine.lowering.loaded._registers import LoadedRegisters, writes_zero
from ptxlab.engine.lowering.loaded._results import find_results, with_moved_results
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import SOURCE_ROW, LoadedValues, LoadedWord, NotedPart, Program
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, Native, TensorAccess
from ptxlab.isa.operands import Op, Reg, Resolved

__all__ = ["find_loaded_values"]

_BYTE, _WORD = 8, 32
_MULTIPLIERS = (Unit.TENSOR_CORE, Unit.WARPGROUP)
Words: TypeAlias = tuple[LoadedWord | None, ...]
_GLOBAL = ("global", "generic")
_SHARED = ("shared", "shared::cta", "shared::cluster", "generic")


def find_loaded_values(program: Program) -> None:
    """Fill in `Program.loaded`, for programs that multiply matrices."""
    if not any(op.row.matrices or (isinstance(op.effects, Asynchronous) and op.effects.unit in _MULTIPLIERS) for op in program.ops):
        return
    known = LoadedRegisters(program, _loaded)
    takers = [taker for op in program.ops for taker in _takers(program, op)]
    words = [[known.words(item, taker.bits, taker.op) for item in taker.items] for taker in takers]
    missing = {
        item.index
        for taker, found in zip(takers, words, strict=True)
        for item, each in zip(taker.items, found, strict=True)
        if isinstance(item, Reg) and not item.negated and not all(each)
    }
    noted = NotedRegisters(program, missing, known, _loaded)
    stores: dict[int, Words] = {}
    cells: dict[int, Words] = {}
    matrices: dict[int, dict[str, Words]] = {}
    for taker, found in zip(takers, words, strict=True):
        every = tuple(
            word
            for item, each in zip(taker.items, found, strict=True)
            for word in ((isinstance(item, Reg) and not all(each) and noted.words(item.index, taker.bits)) or each)
        )
        if taker.matrix and any(every):
            matrices.setdefault(taker.op.index, {})[taker.matrix] = every
        elif isinstance(program.natives.get(taker.op.index), TensorAccess):
            cells[taker.op.index] = every
        elif any(every):
            stores[taker.op.index] = every
    if not any(word for every in cells.values() for word in every):
        cells = {}
    loaded = _with_rows(program, known, noted, LoadedValues(stores, cells, matrices, find_results(program)))
    program.loaded = with_moved_results(program, loaded)


class _Taker(NamedTuple):
    """An op that stores registers, or multiplies a matrix in registers: which ones, and their bits."""

    op: Op
    items: tuple[Resolved, ...]
    bits: int
    matrix: str = ""


def _takers(program: Program, op: Op) -> Iterator[_Taker]:
    """What an op takes from registers that may have been loaded."""
    for (name, _), operand in zip(op.row.operands, op.operands, strict=False) if op.row.matrices else ():
        if name in op.row.matrices:
            items = flatten(operand)
            bits = max((program.registers[item.index].bits for item in items if isinstance(item, Reg)), default=_WORD)
            yield _Taker(op, items, bits, name)
    position, bits = _stored(op, program.natives.get(op.index))
    if bits:
        yield _Taker(op, flatten(op.operands[position]), bits)


def _with_rows(program: Program, known: LoadedRegisters, noted: NotedRegisters, loaded: LoadedValues) -> LoadedValues:
    """Give rows in the frame to loads and registers."""
    used = [*loaded.stores.values(), *loaded.cells.values(), *(words for each in loaded.matrices.values() for words in each.values())]
    rows: dict[int, int] = {}
    end = -(-program.frame_bytes // SOURCE_ROW) * SOURCE_ROW
    loads = {word.load for words in used for word in words if word is not None and word.load >= 0}
    for load in sorted(loads | {known.first(load) for each in noted.loads.values() for load in each}):
        rows.update(dict.fromkeys(known.alike(load), end))
        native = program.natives[load]
        end += SOURCE_ROW * (_elements_loaded(native) if _is_shared(native) else 1)
    for access in sorted({*loaded.results, *(word.load for words in loaded.results.values() for word in words)}):
        rows[access] = end
        end += SOURCE_ROW
    registers, program.frame_bytes = noted.rows(end)
    shared = frozenset(load for load in rows if _is_shared(program.natives[load]))
    zeroed = {register for op in program.ops if writes_zero(op) for register in program.writes[op.index]}
    zeros = frozenset(load for load in rows if load in loaded.results or not zeroed.isdisjoint(program.writes[load]))
    found = replace(loaded, rows=rows, shared=shared, zeros=zeros, registers=registers)

    def place(byte: LoadedWord) -> NotedPart:
        if byte.load not in shared:
            return found.noted(byte, 1)[0]
        native = program.natives[byte.load]
        each = min(native.bits, _WORD) // _BYTE if isinstance(native, LaneAccess) else _WORD // _BYTE
        element, rest = divmod(byte.byte, each)
        return NotedPart(rows[byte.load] + SOURCE_ROW * element, 0, rest)

    return replace(found, moves=noted.moves(registers, place))


def _is_shared(native: Native) -> bool:
    return isinstance(native, MatrixAccess) or (isinstance(native, LaneAccess) and native.space not in _GLOBAL)


def _elements_loaded(native: Native) -> int:
    """The words that a lane loads, or its elements if these are smaller."""
    if isinstance(native, MatrixAccess):
        return native.registers
    return native.size * 8 // min(native.bits, _WORD) if isinstance(native, LaneAccess) else 0


def _stored(op: Op, native: Native | None) -> tuple[int, int]:
    """What an instruction stores to shared or tensor memory: the operand, and the bits of its elements; else 0."""
    if isinstance(native, TensorAccess) and native.write:
        return native.value, _WORD
    if isinstance(native, LaneAccess) and native.write and native.space in _SHARED:
        return native.value, native.bits
    if isinstance(native, MatrixAccess) and native.write and native.element == "b16":
        return native.value, _WORD
    if isinstance(op.effects, Asynchronous) and op.effects.stored >= 0:
        return op.effects.stored, TYPE_BITS[op.q.type]
    return 0, 0


def _loaded(native: Native | None) -> tuple[int, int]:
    """The operand into which an instruction loads, and the bits of its elements; else 0 bits."""
    if isinstance(native, LaneAccess) and not native.write and native.space in (*_GLOBAL, *_SHARED):
        return native.value, native.bits
    if isinstance(native, MatrixAccess) and not native.write and native.element == "b16":
        return native.value, _WORD
    return 0, 0
