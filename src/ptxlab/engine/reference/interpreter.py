"""The NumPy backend: the same programs op by op, against the same context. Slow and plain; compiled code is tested against it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.entry_points import Node, Nodes
from ptxlab.engine.llvm.region import deciding_registers
from ptxlab.engine.llvm.segment import element_type
from ptxlab.engine.lowering.matching import operand_specs, read_source, write_result
from ptxlab.engine.lowering.register_use import constant_bits, is_inline
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.program import Program
from ptxlab.engine.reference._native_ops import Stop, bytes_at, drain_copies, fault_at, perform_native
from ptxlab.engine.reference._vocabulary import NumpyVocabulary
from ptxlab.isa.catalogue import Control
from ptxlab.isa.effects import Masking, Selection
from ptxlab.isa.kinds import type_bits
from ptxlab.isa.operands import Const, Group, Op, Reg, Resolved, SymbolAddress

__all__ = ["Interpreter", "Warp"]

_ALL = (1 << 32) - 1


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """A lane mask as 32 booleans.

    >>> lanes_of(5)[:4].tolist()
    [True, False, True, False]
    """
    return np.unpackbits(np.array([mask & _ALL], "<u4").view(np.uint8), bitorder="little").astype(np.bool_)


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """The reverse of `lanes_of`."""
    return int(np.packbits(np.broadcast_to(lanes, 32), bitorder="little").view("<u4")[0])


class Warp:
    """Registers and words of the warp that a context describes."""

    def __init__(self, program: Program, context: Context) -> None:
        self.program = program
        self.words = context.words
        self.frame = bytes_at(int(context.words[Word.FRAME]), program.frame_bytes)
        self.loose: dict[int, Any] = {}

    def word(self, word: Word) -> int:
        """A word of the context."""
        return int(self.words[word])

    def mask_at(self, offset: int) -> int:
        """A 32-bit lane mask in the frame."""
        return int(self.frame[offset : offset + 4].view("<u4")[0])

    def set_mask(self, offset: int, mask: int) -> None:
        """Replace a lane mask in the frame."""
        self.frame[offset : offset + 4].view("<u4")[0] = mask & _ALL

    def get(self, register: int) -> Any:
        """A register in all lanes: booleans, or unsigned integers of at least 16 bits, [2, 32] uint64 for 128 bits."""
        info = self.program.registers[register]
        if info.special in CLOCKS:
            clock = self.word(Word.CLOCK) >> CLOCKS[info.special]
            return np.full(32, clock & (1 << info.bits) - 1, f"u{info.bits // 8}")
        if info.offset < 0:
            return self.loose.setdefault(register, filled(0, info.bits))
        row = info.view(self.frame)
        return lanes_of(int(row[0])) if info.bits == 1 else row.copy()

    def put(self, register: int, value: Any, lanes: NDArray[np.bool_]) -> None:
        """Write a register in some lanes."""
        info = self.program.registers[register]
        value = np.where(lanes, value, self.get(register))
        if info.offset < 0:
            self.loose[register] = value
        else:
            info.view(self.frame)[:] = mask_of(value) if info.bits == 1 else value

    def bits(self, operand: Resolved, bits: int) -> Any:
        """A source as unsigned integers of ``bits`` in all lanes."""
        if isinstance(operand, Reg):
            value = self.get(operand.index)
            if bits == 1:
                return ~value if operand.negated else value
            return value if bits == 128 else value.astype(f"u{bits // 8}")
        if isinstance(operand, Const):
            return filled(constant_bits(operand, bits), bits)
        if isinstance(operand, SymbolAddress):
            return filled(self.symbol(operand) & (1 << bits) - 1, bits)
        if isinstance(operand, Group):
            return pack([self.bits(item, bits // len(operand.items)) for item in operand.items], bits)
        return filled(0, bits)

    def symbol(self, symbol: SymbolAddress) -> int:
        """The address of a variable in its space."""
        if symbol.space == "shared":
            return self.word(Word.SHARED_RANK) + symbol.offset
        if symbol.space in ("global", "const"):
            slot = self.program.symbols.index(symbol.name)
            return int(bytes_at(self.word(Word.SYMBOLS) + 8 * slot, 8).view(np.uint64)[0]) + symbol.offset
        return symbol.offset

    def write(self, operand: Resolved, type: str, value: Any, *, lanes: NDArray[np.bool_]) -> None:
        """Give a destination a value of a PTX type."""
        if isinstance(operand, Group):
            width = type_bits(type) // len(operand.items)
            for item, part in zip(operand.items, unpack(value, len(operand.items), type_bits(type)), strict=True):
                self.write(item, f"b{width}", part, lanes=lanes)
        elif isinstance(operand, Reg):
            bits = self.program.registers[operand.index].bits
            if bits not in (1, 128):
                value = as_integers(np.broadcast_to(value, 32))
                if type[0] == "s":
                    value = value.view(f"i{value.itemsize}").astype(f"i{max(bits, 16) // 8}")
                value = value.astype(f"u{max(bits, 16) // 8}")
            self.put(operand.index, value, lanes)


def filled(pattern: int, bits: int) -> NDArray[Any]:
    """A value in all lanes."""
    if bits == 1:
        return np.full(32, bool(pattern))
    if bits == 128:
        return np.stack([filled(pattern & (1 << 64) - 1, 64), filled(pattern >> 64, 64)])
    return np.full(32, pattern, f"u{bits // 8}")


def as_integers(value: NDArray[Any]) -> NDArray[Any]:
    """The bits of floats; integers as they are."""
    return np.ascontiguousarray(value).view(f"u{value.itemsize}") if value.dtype.kind in "fi" else value


def pack(items: list[Any], bits: int) -> NDArray[Any]:
    """Join narrow values, the first lowest."""
    if bits == 128:
        half = len(items) // 2
        return np.stack([pack(items[:half], 64), pack(items[half:], 64)])
    made = filled(0, bits)
    for i, item in enumerate(items):
        made |= item.astype(made.dtype) << made.dtype.type(bits // len(items) * i)
    return made


def unpack(value: Any, count: int, bits: int) -> list[Any]:
    """Cut a wide value into narrow ones."""
    if bits == 128:
        return [*unpack(value[0], count // 2, 64), *unpack(value[1], count // 2, 64)]
    step = bits // count
    value = as_integers(value)
    return [(value >> value.dtype.type(step * i)).astype(f"u{step // 8}") for i in range(count)]


class Interpreter:
    """Runs groups of converged lanes of a program's warps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = Nodes(program)
        self.x = NumpyVocabulary()

    def run(self, context: Context) -> Status:
        """Run the converged lanes that the context describes until they must stop."""
        warp = Warp(self.program, context)
        number = self.nodes.at(warp.word(Word.PC))
        try:
            while True:
                number = self._node(warp, number)
        except Stop as stop:
            return stop.status

    def drain(self, context: Context, first: int, count: int, lanes: int) -> Status | None:
        """Perform noted asynchronous copies."""
        try:
            drain_copies(Warp(self.program, context), first, count, lanes)
        except Stop as stop:
            return stop.status
        return None

    # ------------------------------------------------------------------------------------------------------------ nodes

    def _node(self, warp: Warp, number: int) -> int:
        """Execute a node; the number of the next one."""
        program = self.program
        node = self.nodes.nodes[number]
        warp.words[Word.FUEL] = np.uint64(warp.word(Word.FUEL) - (node.stop - node.start) & (1 << 64) - 1)
        for index in range(node.start, node.stop):
            op = program.ops[index]
            if not is_inline(program, op):
                self._check_defined(warp, op)
            mask = self._executing(warp, op)
            if op.row.kind == "control":
                return self._control(warp, node, op, mask)
            if op.row.kind == "pure":
                self._pure(warp, op)
            elif op.row.kind == "native":
                perform_native(warp, op, program.natives[index], mask)
                self._note_defined(warp, op, mask)
            elif mask:
                self._note_defined(warp, op, mask)
                warp.words[Word.ACTIVE] = mask
                raise self._stop(warp, Status.SERVICE, index, self.nodes.behind(node, index))
        block = program.blocks[node.block]
        if node.stop < block.stop:
            return number + 1
        return self._go(warp, program.blocks[block.fall].start)

    def _executing(self, warp: Warp, op: Op) -> int:
        mask = warp.word(Word.MASK)
        return mask if op.guard is None else mask & mask_of(warp.bits(op.guard, 1))

    def _stop(self, warp: Warp, status: Status, index: int | None = None, pc: int | None = None) -> Stop:
        if index is not None:
            warp.words[Word.INFO] = index
        if pc is not None:
            warp.words[Word.PC] = pc
        return Stop(status)

    def _go(self, warp: Warp, start: int) -> int:
        """Arrive at a block."""
        limited = warp.word(Word.LIMIT) <= start
        fuel = warp.word(Word.FUEL)
        if limited or fuel == 0 or fuel >> 63:
            raise self._stop(warp, Status.YIELD if limited else Status.FUEL, pc=start)
        return self.nodes.at(start)

    def _control(self, warp: Warp, node: Node, op: Op, active: int) -> int:
        does = op.row.semantics
        mask = warp.word(Word.MASK)
        behind = self.nodes.behind(node, op.index) if self.program.blocks[node.block].fall >= 0 else -1
        if op.guard is not None and not active:
            return self._go(warp, behind)
        if does is Control.BRANCH:
            if active == mask or op.targets[0] == behind:
                return self._go(warp, op.targets[0])
            raise self._diverge(warp, op, active, op.targets[0], behind)
        if does is Control.INDEXED_BRANCH:
            if active != mask:
                raise self._diverge(warp, op, active, op.index, behind)
            indices = warp.bits(op.operands[0], 32)
            lane = (active & -active).bit_length() - 1
            index = int(indices[lane])
            if index >= len(op.targets):
                raise fault_at(warp, op, Fault.BRANCH_RANGE, lane, index)
            same = active & mask_of(indices == index)
            if same == active:
                return self._go(warp, op.targets[index])
            raise self._diverge(warp, op, same, op.targets[index], op.index)
        if does in (Control.EXIT, Control.RETURN):
            warp.words[Word.EXITED] |= np.uint64(active)
            warp.words[Word.LIVE] &= np.uint64(~active & _ALL)
            warp.words[Word.MASK] = mask & ~active
            if mask & ~active:
                return self._go(warp, behind)
            raise self._stop(warp, Status.EXIT, op.index)
        raise fault_at(warp, op, Fault.TRAP, (active & -active).bit_length() - 1, 0)

    def _diverge(self, warp: Warp, op: Op, active: int, taken: int, otherwise: int) -> Stop:
        warp.words[Word.ACTIVE], warp.words[Word.TAKEN], warp.words[Word.NEXT] = active, taken, otherwise
        return self._stop(warp, Status.DIVERGE, op.index)

    # ------------------------------------------------------------------------------------------------------------- pure

    def _pure(self, warp: Warp, op: Op) -> None:
        specs = operand_specs(op)
        outputs = op.row.outputs
        sources = [read_source(partial(self._read, warp), o, s) for o, s in zip(op.operands[outputs:], specs[outputs:], strict=True)]
        guard = None if op.guard is None else warp.bits(op.guard, 1)
        lanes = lanes_of(warp.word(Word.MASK)) & (True if guard is None else guard)
        written = self.program.writes[op.index]
        shadow = self._shadow(warp, op, sources, guard) if any(self.program.registers[r].shadow >= 0 for r in written) else None
        with np.errstate(all="ignore"):
            result = op.row.semantics(self.x, op.q, *sources)
        results = (result,) if outputs == 1 else result
        for operand, spec, value in zip(op.operands[:outputs], specs, results, strict=False):
            write_result(partial(warp.write, lanes=lanes), operand, spec, value)
        if shadow is not None:
            for register in written:
                self._set_shadow(warp, register, mask_of(shadow), warp.word(Word.MASK))

    def _read(self, warp: Warp, operand: Resolved, type: str) -> Any:
        if not isinstance(operand, Reg | Const | SymbolAddress | Group):
            return None
        bits = type_bits(type)
        value = warp.bits(operand, bits)
        if bits == 128:
            return value
        element = element_type(type)
        value = self.x.bitcast(value, element) if element[0] == "f" else value
        if isinstance(operand, Reg) and operand.negated and bits > 1:
            return self.x.fneg(value) if element[0] == "f" else self.x.neg(value)
        return value

    # ------------------------------------------------------------------------------------------------ undefined values

    def _defined(self, warp: Warp, operand: Resolved) -> NDArray[np.bool_]:
        found = np.ones(32, np.bool_)
        if isinstance(operand, Reg):
            shadow = self.program.registers[operand.index].shadow
            return lanes_of(warp.mask_at(shadow)) if shadow >= 0 else found
        if isinstance(operand, Group):
            for item in operand.items:
                found &= self._defined(warp, item)
        return found

    def _shadow(self, warp: Warp, op: Op, sources: list[Any], guard: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        parts = [self._defined(warp, operand) for operand in op.operands[op.row.outputs :]]
        effects = op.effects
        if isinstance(effects, Selection):
            parts = [np.where(sources[2], parts[0], parts[1]), parts[2]]
        elif isinstance(effects, Masking) and isinstance(sources[0], np.ndarray):
            kind = sources[0].dtype.type
            decisive = ~kind(0) if effects.decisive else kind(0)
            zero = [part & (source == decisive) for part, source in zip(parts, sources, strict=True)]
            parts = [parts[0] & parts[1] | zero[0] | zero[1]]
        made = np.ones(32, np.bool_)
        for part in parts:
            made &= part
        if op.guard is not None and guard is not None:
            made &= self._defined(warp, Reg(op.guard.index))
            made = np.where(guard, made, self._defined(warp, Reg(self.program.writes[op.index][0])))
        return made

    def _set_shadow(self, warp: Warp, register: int, defined: int, mask: int) -> None:
        shadow = self.program.registers[register].shadow
        if shadow >= 0:
            warp.set_mask(shadow, warp.mask_at(shadow) & ~mask | defined & mask)

    def _note_defined(self, warp: Warp, op: Op, mask: int) -> None:
        for register in self.program.writes[op.index]:
            self._set_shadow(warp, register, mask, mask)

    def _check_defined(self, warp: Warp, op: Op) -> None:
        for register in deciding_registers(op):
            shadow = self.program.registers[register].shadow
            if shadow < 0:
                continue
            guarding = op.guard is not None and op.guard.index == register
            missing = (warp.word(Word.MASK) if guarding else self._executing(warp, op)) & ~warp.mask_at(shadow)
            if missing:
                raise fault_at(warp, op, Fault.UNDEFINED, (missing & -missing).bit_length() - 1, register)
