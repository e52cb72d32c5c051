"""The NumPy backend: the same programs op by op, against the same context. Slow and plain; compiled code is tested against it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.llvm.entry_points import Node, Nodes
from ptxlab.engine.lowering.matching import OperandSpec, element_type, operand_specs, read_source, write_result
from ptxlab.engine.lowering.register_use import deciding_registers, is_inline, observed_registers, operand_registers
from ptxlab.engine.program import UNWRITTEN_REGISTER, Program
from ptxlab.engine.reference._exchanges import shuffled
from ptxlab.engine.reference._lane_accesses import Stop, fault_at
from ptxlab.engine.reference._loaded_values import note_moves
from ptxlab.engine.reference._native_ops import drain_copies, perform_native
from ptxlab.engine.reference._vocabulary import NumpyVocabulary
from ptxlab.engine.reference.warp import ALL_LANES, ShadowRows, Warp, lanes_of, mask_of
from ptxlab.engine.undefined.vocabulary import Shadowed, ShadowVocabulary, operands_once
from ptxlab.isa.catalogue import Control
from ptxlab.isa.kinds import TYPE_BITS, type_bits
from ptxlab.isa.native_ops import Collective, LaneAccess, Native
from ptxlab.isa.operands import Const, Group, Op, PairOf, Reg, Resolved, SymbolAddress
from ptxlab.native import address_of

__all__ = ["Interpreter"]


class Interpreter:
    """Runs groups of converged lanes of a program's warps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = Nodes(program)
        self.x = NumpyVocabulary()

    def run(self, context: Context) -> Status:
        """Run the converged lanes that the context describes until they must stop."""
        while True:
            status = self.run_node(context)
            if status is not None:
                return status

    def run_node(self, context: Context) -> Status | None:
        """Run them to the end of a node; None if they go on at PC."""
        try:
            context.words[Word.PC] = self._node(Warp(self.program, context), int(context.words[Word.PC]))
        except Stop as stop:
            return stop.status
        return None

    def arrive(self, warp: Warp, node: Node, op: Op) -> None:
        """Called before each op; a debugger overrides it."""

    @staticmethod
    def charge(warp: Warp, ops: int) -> None:
        """Count warp-instructions; a negative number gives back what has not been executed."""
        warp.words[Word.FUEL] = np.uint64(warp.word(Word.FUEL) - ops & (1 << 64) - 1)

    def drain(self, context: Context, first: int, count: int, lanes: int) -> Status | None:
        """Perform noted asynchronous copies."""
        try:
            drain_copies(Warp(self.program, context), first, count, lanes)
        except Stop as stop:
            return stop.status
        return None

    # ------------------------------------------------------------------------------------------------------------ nodes

    def _node(self, warp: Warp, pc: int) -> int:
        """Execute a node from an op on; the index of the op that follows."""
        program = self.program
        node = self.nodes.nodes[self.nodes.at(pc)]
        self.charge(warp, self.nodes.charge(node) - (pc - node.start))
        for index in range(pc, node.stop):
            op = program.ops[index]
            self.arrive(warp, node, op)
            if not is_inline(program, op):
                self._check_defined(warp, op)
            mask = self.executing(warp, op)
            if op.row.kind == "control":
                return self._control(warp, node, op, mask)
            if op.row.kind == "pure":
                note_moves(warp, op, mask)
                self._pure(warp, op)
            elif op.row.kind == "native":
                self._native(warp, op, program.natives[index], mask)
                note_moves(warp, op, mask)
            elif mask:
                if op.row.flow is None:
                    self._set_defined(warp, op, mask)
                warp.words[Word.ACTIVE] = mask
                raise self._stop(warp, Status.SERVICE, index, self.nodes.behind(node, index))
        block = program.blocks[node.block]
        if node.stop < block.stop:
            return node.stop
        return self._go(warp, program.blocks[block.fall].start)

    def _native(self, warp: Warp, op: Op, native: Native, mask: int) -> None:
        exchange = isinstance(native, Collective) and native.name in ("shfl", "vote", "match", "redux")
        if not exchange or not any(self.program.registers[r].shadow >= 0 for o in op.operands for r in operand_registers(o)):
            perform_native(warp, op, native, mask)
            if isinstance(native, LaneAccess) and not native.write and op.guard is not None:
                self._left_by_load(warp, op, mask)
            self._set_defined(warp, op, mask)
            return
        assert isinstance(native, Collective)
        values = [warp.get(register) for register in operand_registers(op.operands[0])]
        perform_native(warp, op, native, mask)
        made = [warp.get(register) for register in operand_registers(op.operands[0])]
        everywhere = np.ones(32, np.bool_)
        for register, value in zip(operand_registers(op.operands[0]), values, strict=True):
            warp.put(register, value, everywhere)
        self._exchange(warp, op, native, mask)
        for register, value in zip(operand_registers(op.operands[0]), made, strict=True):
            warp.put(register, value, everywhere)

    def executing(self, warp: Warp, op: Op) -> int:
        """The converged lanes whose guard is true."""
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
        return start

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
            warp.words[Word.LIVE] &= np.uint64(~active & ALL_LANES)
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
        tracked = any(self.program.registers[r].shadow >= 0 for r in self.program.writes[op.index])
        write_shadow = self._follow(warp, op, specs, sources, lanes) if tracked else None
        self._give_values(warp, op, specs, sources, lanes)
        if write_shadow is not None:
            write_shadow()

    def _give_values(self, warp: Warp, op: Op, specs: tuple[OperandSpec, ...], sources: list[Any], lanes: NDArray[np.bool_]) -> None:
        """Evaluate an op and write its results in some lanes."""
        outputs = op.row.outputs
        with np.errstate(all="ignore"):
            result = op.row.semantics(self.x, op.q, *sources)
        for operand, spec, value in zip(op.operands[:outputs], specs, (result,) if outputs == 1 else result, strict=False):
            write_result(partial(warp.write, lanes=lanes), operand, spec, value)

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

    # ------------------------------------------------------------------------------------------------- undefined bits

    def _shadowed(self, shadow: ShadowRows, operand: Resolved, spec: OperandSpec, source: Any) -> Any:
        """A source with its undefined bits."""
        if spec.kind == "vector" and isinstance(operand, Group):
            element = replace(spec, kind="scalar")
            return tuple(self._shadowed(shadow, item, element, part) for item, part in zip(operand.items, source, strict=True))
        if source is None or spec.kind not in ("scalar", "vector", "pair"):
            return source
        bits = type_bits(spec.type)
        mask = shadow.bits(operand, bits)
        if isinstance(operand, Reg) and operand.negated and bits > 1 and element_type(spec.type)[0] == "i":
            mask = mask | self.x.neg(mask)
        return Shadowed(source, mask)

    def _follow(
        self, warp: Warp, op: Op, specs: tuple[OperandSpec, ...], sources: list[Any], lanes: NDArray[np.bool_]
    ) -> Callable[[], None]:
        """What an op makes of undefined bits: a function that writes them, to be called when the values are written."""
        shadow, outputs = ShadowRows(warp), op.row.outputs
        x = ShadowVocabulary(self.x)
        given = [
            self._shadowed(shadow, operand, spec, source)
            for operand, spec, source in zip(op.operands[outputs:], specs[outputs:], sources, strict=True)
        ]
        given = operands_once(op.operands[outputs:], (spec.type for spec in specs[outputs:]), given)
        with np.errstate(all="ignore"):
            result = op.row.semantics(x, op.q, *given)
        masks = _masks(x, result)
        origin = shadow.joined_origin([*self.program.reads[op.index], *(() if op.guard is None else (op.guard.index,))])
        before = {register: (warp.get(register), shadow.get(register)) for register in self.program.writes[op.index]}
        undecided = np.zeros(32, np.bool_) if op.guard is None else shadow.bits(Reg(op.guard.index), 1)
        running = lanes_of(warp.word(Word.MASK))

        def write() -> None:
            for operand, spec, mask in zip(op.operands[:outputs], specs, (masks,) if outputs == 1 else masks, strict=False):
                write_result(partial(shadow.write, lanes=lanes), operand, spec, mask)
            for operand, spec, mask in zip(op.operands[:outputs], specs, (masks,) if outputs == 1 else masks, strict=False):
                write_result(partial(shadow.write, lanes=undecided & running), operand, spec, mask)
            for register, (old, old_mask) in before.items():
                shadow.set_origin(register, origin, lanes | undecided & running)
                if undecided.any():
                    shadow.add(register, old, self._other(warp, op, specs, register, sources), old_mask, undecided & running)

        return write

    def _other(self, warp: Warp, op: Op, specs: tuple[OperandSpec, ...], register: int, sources: list[Any]) -> Any:
        """What a register would hold if the guard of an op were true in all lanes."""
        kept = warp.get(register)
        everywhere = np.ones(32, np.bool_)
        self._give_values(warp, op, specs, sources, everywhere)
        found = warp.get(register)
        warp.put(register, kept, everywhere)
        return found

    def _set_defined(self, warp: Warp, op: Op, mask: int) -> None:
        shadow = ShadowRows(warp)
        for register in self.program.writes[op.index]:
            shadow.put(register, 0, lanes_of(mask))

    def _exchange(self, warp: Warp, op: Op, native: Collective, mask: int) -> None:
        """Undefined bits through an exchange between lanes."""
        shadow, lanes = ShadowRows(warp), lanes_of(mask)
        destination, source, *rest = op.operands
        pair = destination if isinstance(destination, PairOf) else PairOf(destination, Const(0))
        targets = operand_registers(destination)
        if native.name == "shfl":
            chooses = [r for operand in rest[:2] for r in operand_registers(operand)]
            open_ = np.logical_or.reduce([shadow.some(r) for r in chooses] or [np.zeros(32, np.bool_)]) & lanes
            came = shuffled(warp, op, native, mask)
            moved, origins = shadow.bits(source, 32)[came], shadow.joined_origin(operand_registers(source))[came]
            shadow.write(pair.first, "b32", np.where(open_, ~np.uint32(0), moved), lanes=lanes)
            shadow.write(pair.second, "pred", open_, lanes=lanes)
            origins = np.where(open_, shadow.joined_origin(chooses), origins)
        else:
            bad = np.logical_or.reduce([shadow.some(r) for r in operand_registers(source)] or [np.zeros(32, np.bool_)]) & lanes
            origins = np.full(32, shadow.joined_origin(operand_registers(source))[bad.argmax()])
            ballot = native.name == "vote" and native.mode == "ballot"
            matches = native.name == "match" and native.mode == "any"
            if matches:
                shadow.write(destination, "b32", self._undecided(warp, shadow, op, native, mask), lanes=lanes)
            for register in () if matches else targets:
                bits = self.program.registers[register].bits
                ones = (
                    np.full(32, bad.any()) if bits == 1 else np.full(32, mask_of(bad) if ballot else -int(bad.any()) & ALL_LANES, np.uint32)
                )
                shadow.put(register, ones, lanes)
        for register in targets:
            shadow.set_origin(register, origins, lanes & shadow.some(register))

    def _undecided(self, warp: Warp, shadow: ShadowRows, op: Op, native: Collective, mask: int) -> NDArray[np.uint32]:
        """For match.any, the lanes that may have the value of a lane or not."""
        bits = TYPE_BITS[native.type]
        values, undefined = (rows.bits(op.operands[1], bits) for rows in (warp, shadow))
        either = undefined[:, None] | undefined
        open_ = (either != 0) & ((values[:, None] ^ values) & ~either == 0) & ~np.eye(32, dtype=np.bool_)
        found = np.array([mask_of(row) for row in open_], np.uint32)
        members: NDArray[np.uint32] = warp.bits(op.operands[native.member], 32)
        return found & members & np.uint32(mask)

    def _left_by_load(self, warp: Warp, op: Op, mask: int) -> None:
        shadow, lanes = ShadowRows(warp), lanes_of(warp.word(Word.MASK) & ~mask)
        for register in self.program.writes[op.index]:
            fresh = shadow.joined_origin([register]) >= UNWRITTEN_REGISTER
            shadow.set_origin(register, np.full(32, op.index + 1, np.uint32), lanes & fresh)

    def _check_defined(self, warp: Warp, op: Op) -> None:
        shadow = ShadowRows(warp)
        for register in deciding_registers(op):
            guarding = op.guard is not None and op.guard.index == register
            missing = (warp.word(Word.MASK) if guarding else self.executing(warp, op)) & mask_of(shadow.some(register))
            if missing:
                raise fault_at(warp, op, Fault.UNDEFINED, (missing & -missing).bit_length() - 1, register)
        leaving = 0
        for register in observed_registers(self.program, op):
            leaving |= self.executing(warp, op) & mask_of(shadow.some(register))
        if leaving and warp.word(Word.OBSERVE):
            warp.words[Word.OBSERVE_OP], warp.words[Word.OBSERVE_MASK] = op.index, leaving
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(warp.word(Word.OBSERVE))(address_of(warp.words))


def _masks(x: ShadowVocabulary, result: Any) -> Any:
    """The undefined bits of what semantics over `ShadowVocabulary` give."""
    return tuple(_masks(x, each) for each in result) if isinstance(result, tuple | list) else x.mask(result)
