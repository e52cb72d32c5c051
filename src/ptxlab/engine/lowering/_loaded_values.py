"""Values that threads load and store to shared or tensor memory as they are, or multiply: matrices in registers.

Which registers hold what has been loaded, `LoadedRegisters` says.
"""

from __future__ import annotations

from ptxlab.engine.lowering._loaded_registers import LoadedRegisters, writes_zero
from ptxlab.engine.lowering.register_use import flatten
from ptxlab.engine.program import SOURCE_ROW, LoadedValues, LoadedWord, Program
from ptxlab.isa.effects import Asynchronous, Unit
from ptxlab.isa.kinds import TYPE_BITS
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, Native, TensorAccess
from ptxlab.isa.operands import Op, Reg

__all__ = ["find_loaded_values"]

_WORD = 32
_MULTIPLIERS = (Unit.TENSOR_CORE, Unit.WARPGROUP)
_GLOBAL = ("global", "generic")
_SHARED = ("shared", "shared::cta", "shared::cluster", "generic")


def find_loaded_values(program: Program) -> None:
    """Fill in `Program.loaded`, for programs that multiply matrices."""
    if not any(op.row.matrices or (isinstance(op.effects, Asynchronous) and op.effects.unit in _MULTIPLIERS) for op in program.ops):
        return
    registers = LoadedRegisters(program, _loaded)
    stores: dict[int, tuple[LoadedWord | None, ...]] = {}
    matrices: dict[int, dict[str, tuple[LoadedWord | None, ...]]] = {}
    for op in program.ops:
        found = {name: words for name, words in _matrices(program, op, registers).items() if any(words)}
        if found:
            matrices[op.index] = found
        position, bits = _stored(op, program.natives.get(op.index))
        if bits:
            words = [word for item in flatten(op.operands[position]) for word in registers.words(item, bits, op)]
            if any(words):
                stores[op.index] = tuple(words)
    cells, results = _cells(program, registers), _results(program)
    used = [*stores.values(), *cells.values(), *(words for each in matrices.values() for words in each.values())]
    rows: dict[int, int] = {}
    program.frame_bytes = -(-program.frame_bytes // SOURCE_ROW) * SOURCE_ROW
    for load in sorted({word.load for words in used for word in words if word is not None}):
        rows.update(dict.fromkeys(registers.alike(load), program.frame_bytes))
        native = program.natives[load]
        program.frame_bytes += SOURCE_ROW * (_words_loaded(native) if _is_shared(native) else 1)
    for access in sorted({*results, *(word.load for words in results.values() for word in words)}):
        rows[access] = program.frame_bytes
        program.frame_bytes += SOURCE_ROW
    shared = frozenset(load for load in rows if _is_shared(program.natives[load]))
    zeroed = {register for op in program.ops if writes_zero(op) for register in program.writes[op.index]}
    zeros = frozenset(load for load in rows if load in results or not zeroed.isdisjoint(program.writes[load]))
    program.loaded = LoadedValues(stores, cells, matrices, results, rows, shared, zeros)


def _cells(program: Program, registers: LoadedRegisters) -> dict[int, tuple[LoadedWord | None, ...]]:
    """What is stored to tensor memory; nothing if all of it is computed."""
    stores = [(index, native) for index, native in program.natives.items() if isinstance(native, TensorAccess) and native.write]
    found = {
        index: tuple(
            word for item in flatten(program.ops[index].operands[native.value]) for word in registers.words(item, _WORD, program.ops[index])
        )
        for index, native in stores
    }
    return found if any(any(words) for words in found.values()) else {}


def _results(program: Program) -> dict[int, tuple[LoadedWord, ...]]:
    """What is stored to global memory as tcgen05.ld has loaded it."""
    registers = LoadedRegisters(program, _loaded_from_tensor_memory)
    found = {}
    for index, native in program.natives.items():
        if isinstance(native, LaneAccess) and native.write and native.space in _GLOBAL and native.bits == _WORD:
            op = program.ops[index]
            words = [word for item in flatten(op.operands[native.value]) for word in registers.words(item, _WORD, op)]
            known = tuple(word for word in words if word is not None and len(registers.alike(word.load)) == 1)
            if len(known) == len(words) and len({word.load for word in known}) == 1:
                found[index] = known
    return found


def _loaded_from_tensor_memory(native: Native | None) -> tuple[int, int]:
    """The operand into which tcgen05.ld loads whole cells, and their bits."""
    if isinstance(native, TensorAccess) and not native.write and not native.pack:
        return native.value, _WORD
    return 0, 0


def _matrices(program: Program, op: Op, registers: LoadedRegisters) -> dict[str, tuple[LoadedWord | None, ...]]:
    """The words of the matrices that an instruction takes from registers, by the names of the operands."""
    operands = {name: operand for (name, _), operand in zip(op.row.operands, op.operands, strict=False) if name in op.row.matrices}
    found = {}
    for name, operand in operands.items():
        items = flatten(operand)
        bits = max((program.registers[item.index].bits for item in items if isinstance(item, Reg)), default=_WORD)
        found[name] = tuple(word for item in items for word in registers.words(item, bits, op))
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
