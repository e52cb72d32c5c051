"""Values that threads load and store to shared or tensor memory as they are, or multiply: matrices in registers.

Only a register that one load writes is followed: what it holds at a store is then what the load has read last. Zeros that fill the register
where the guard of the load is false count as loaded zeros.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import SOURCE_ROW, LoadedValues, LoadedWord, Program
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, Native, TensorAccess
from ptxlab.isa.operands import Const, Op, Reg, Resolved

__all__ = ["find_loaded_values"]

_WORD = 32
_MULTIPLIERS = (Unit.TENSOR_CORE, Unit.WARPGROUP)
_GLOBAL = ("global", "generic")
_SHARED = ("shared", "shared::cta", "shared::cluster", "generic")


def find_loaded_values(program: Program) -> None:
    """Fill in `Program.loaded`, for programs that multiply matrices."""
    if not any(op.row.matrices or (isinstance(op.effects, Asynchronous) and op.effects.unit in _MULTIPLIERS) for op in program.ops):
        return
    origins = _origins(program, _loaded)
    stores: dict[int, tuple[LoadedWord | None, ...]] = {}
    matrices: dict[int, dict[str, tuple[LoadedWord | None, ...]]] = {}
    for op in program.ops:
        found = {name: words for name, words in _matrices(program, op, origins).items() if any(words)}
        if found:
            matrices[op.index] = found
        position, bits = _stored(op, program.natives.get(op.index))
        if bits:
            words = [word for item in flatten(op.operands[position]) for word in _words_of(program, item, origins, bits)]
            if any(words):
                stores[op.index] = tuple(words)
    cells, results = _cells(program, origins), _results(program)
    used = [*stores.values(), *cells.values(), *(words for each in matrices.values() for words in each.values())]
    loads = sorted({word.load for words in used for word in words if word is not None})
    loads += sorted({*results, *(word.load for words in results.values() for word in words)})
    shared = frozenset(load for load in loads if _is_shared(program.natives[load]))
    rows = {}
    program.frame_bytes = -(-program.frame_bytes // SOURCE_ROW) * SOURCE_ROW
    for load in loads:
        rows[load] = program.frame_bytes
        program.frame_bytes += SOURCE_ROW * (_words_loaded(program.natives[load]) if load in shared else 1)
    zeroed = {register for op in program.ops if _writes_zero(program, op.index) for register in program.writes[op.index]}
    zeros = frozenset(load for load in loads if load in results or not zeroed.isdisjoint(program.writes[load]))
    program.loaded = LoadedValues(stores, cells, matrices, results, rows, shared, zeros)


def _cells(program: Program, origins: dict[int, LoadedWord]) -> dict[int, tuple[LoadedWord | None, ...]]:
    """What is stored to tensor memory; nothing if all of it is computed."""
    stores = [(index, native) for index, native in program.natives.items() if isinstance(native, TensorAccess) and native.write]
    found = {
        index: tuple(
            word for item in flatten(program.ops[index].operands[native.value]) for word in _words_of(program, item, origins, _WORD)
        )
        for index, native in stores
    }
    return found if any(any(words) for words in found.values()) else {}


def _results(program: Program) -> dict[int, tuple[LoadedWord, ...]]:
    """What is stored to global memory as tcgen05.ld has loaded it."""
    origins = _origins(program, _loaded_from_tensor_memory)
    found = {}
    for index, native in program.natives.items():
        if origins and isinstance(native, LaneAccess) and native.write and native.space in _GLOBAL and native.bits == _WORD:
            items = flatten(program.ops[index].operands[native.value])
            words = [origins.get(item.index) if isinstance(item, Reg) else None for item in items]
            known = tuple(word for word in words if word is not None)
            if len(known) == len(words) and len({word.load for word in known}) == 1:
                found[index] = known
    return found


def _loaded_from_tensor_memory(native: Native | None) -> tuple[int, int]:
    """The operand into which tcgen05.ld loads whole cells, and their bits."""
    if isinstance(native, TensorAccess) and not native.write and not native.pack:
        return native.value, _WORD
    return 0, 0


def _matrices(program: Program, op: Op, origins: dict[int, LoadedWord]) -> dict[str, tuple[LoadedWord | None, ...]]:
    """The words of the matrices that an instruction takes from registers, by the names of the operands."""
    operands = {name: operand for (name, _), operand in zip(op.row.operands, op.operands, strict=False) if name in op.row.matrices}
    found = {}
    for name, operand in operands.items():
        items = flatten(operand)
        bits = max((program.registers[item.index].bits for item in items if isinstance(item, Reg)), default=_WORD)
        found[name] = tuple(word for item in items for word in _words_of(program, item, origins, bits))
    return found


def _is_shared(native: Native) -> bool:
    return isinstance(native, MatrixAccess) or (isinstance(native, LaneAccess) and native.space not in _GLOBAL)


def _words_loaded(native: Native) -> int:
    """The words that a lane loads."""
    return native.registers if isinstance(native, MatrixAccess) else native.size * 8 // _WORD if isinstance(native, LaneAccess) else 0


def _stored(op: Op, native: Native | None) -> tuple[int, int]:
    """The operand that an instruction stores to shared memory, and the bits of its elements, each of which is whole words; else 0 bits."""
    if isinstance(native, LaneAccess) and native.write and native.space in _SHARED and native.bits >= _WORD:
        return native.value, native.bits
    if isinstance(native, MatrixAccess) and native.write and native.element == "b16":
        return native.value, _WORD
    if isinstance(op.effects, Asynchronous) and op.effects.stored >= 0:
        return op.effects.stored, TYPE_BITS[op.q.type]
    return 0, 0


def _loaded(native: Native | None) -> tuple[int, int]:
    """The operand into which an instruction loads, and the bits of its elements, each of which is whole words; else 0 bits."""
    if isinstance(native, LaneAccess) and not native.write and native.space in (*_GLOBAL, *_SHARED) and native.bits >= _WORD:
        return native.value, native.bits
    if isinstance(native, MatrixAccess) and not native.write and native.element == "b16":
        return native.value, _WORD
    return 0, 0


def _words_of(program: Program, item: Resolved, origins: dict[int, LoadedWord], bits: int) -> list[LoadedWord | None]:
    """The words of an element of ``bits`` that a store writes."""
    origin = origins.get(item.index) if isinstance(item, Reg) and program.registers[item.index].bits == bits else None
    return [None if origin is None else LoadedWord(origin.load, origin.byte + at // 8) for at in range(0, bits, _WORD)]


def _origins(program: Program, loaded: Callable[[Native | None], tuple[int, int]]) -> dict[int, LoadedWord]:
    """For registers that one load writes, and nothing else but zeros, where in what it loads they lie; ``loaded`` is as `_loaded`."""
    found: dict[int, LoadedWord] = {}
    others: set[int] = set()
    for op in program.ops:
        native = program.natives.get(op.index)
        position, bits = loaded(native)
        if bits:
            for number, item in enumerate(flatten(op.operands[position])):
                if isinstance(item, Reg):
                    known = item.index not in found and program.registers[item.index].bits == bits
                    found[item.index] = LoadedWord(op.index, number * bits // 8)
                    others.update(() if known else (item.index,))
        elif not _writes_zero(program, op.index):
            others.update(program.writes[op.index])
    return {register: origin for register, origin in found.items() if register not in others}


def _writes_zero(program: Program, index: int) -> bool:
    """Whether an op, which always executes, sets its register to a constant zero."""
    op = program.ops[index]
    return op.guard is None and op.row.kind == "pure" and len(op.operands) == 1 + op.row.outputs and op.operands[-1] == Const(0)
