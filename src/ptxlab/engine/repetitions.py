"""Executions of services that compiled code repeats, without a call of the machine's handler.

A handler that has executed an instruction may say how compiled code can do the same again. That holds for the same values in the
registers, in a CTA whose state is the same, as far as the execution depends on it. The handler chooses what it needs to know of the
state; each state has a number. Where it may have changed, the number of the CTA's state is set to 0 until a handler knows it again.

Copies of boxes of tensor maps depend on no state: compiled code itself looks at what it needs (`ptxlab.engine.copies.boxes`), and one
execution tells it how to copy all boxes of a tensor map. The same holds for copies of contiguous bytes, by their number
(`ptxlab.engine.copies.lines`), and for cancellations of clusters (`ptxlab.engine.cancellations`). Observers are told which box is copied,
and where it goes (`CopyWord`); each function is called once for all CTAs that receive it.

The executions are in a table that compiled code searches. It stays from launch to launch of a program. In a launch with observers each
execution has calls of functions that do what the observers do, before what the instruction does; these executions end with the launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.direct_services import are_addresses, has_box_operands, has_line_operands
from ptxlab.engine.lowering.register_use import flatten, operand_registers
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Asynchronous, Pipe, Unit
from ptxlab.isa.operands import Addr, Const, Group, Op, Reg, SymbolAddress
from ptxlab.isa.warpgroup_words import NAME_WORDS
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.native.builder import Function, Value

__all__ = [
    "ASK",
    "CALLS",
    "ENTRY_WORDS",
    "EXECUTION",
    "FACTOR",
    "FUNCTION",
    "ISSUED",
    "KEY",
    "MOST_RECEIVERS",
    "NO_STATE",
    "REGISTERS",
    "SLOTS",
    "STATE_SHIFT",
    "WORDS_GIVEN",
    "Call",
    "CopyWord",
    "Repetitions",
    "each_receiver",
    "emit_calls",
    "operands_used",
    "repeatable",
    "repeated_registers",
]

SLOTS = 4096
"""Places for executions in a table; an execution is at the first free one after that which its hash names."""
ENTRY_WORDS = 25
FUNCTION, KEY, REGISTERS, WORDS_GIVEN, CALLS, ASK, ISSUED, EXECUTION = 0, 1, 2, 16, 21, 22, 23, 24
"""Words of an execution: the function, 0 if the place is free; the instruction and the state; the values of registers; what it is given.

Of a copy of a box the first one is the address of its `BoxWord`, and the address of its tensor map is what it is given.

The word after that is the address of calls for observers, 0 if there are none. A call is two words (`Call`); behind the last one is a 0.

The next one is the address of a function that is called before them with the same arguments as the function of the execution, 0 if there
is none. If its result is not 0, the handler must be called.

Where operations are issued first and perform later (`ptxlab.engine.turns.pending`), the calls are those for the performance; the next word
is the address of those for the issue. The last word is the number of the execution among `Repetitions.executions`, otherwise 0.
"""
_CALL_BYTES = 16
MOST_RECEIVERS = 16
"""As many bits has the CTA mask of a multicast, and as many CTAs has the largest cluster."""
STATE_SHIFT = 32
"""Where in the key the number of the state begins; below it is the index of the instruction."""
NO_STATE = 0
"""The number of a state in the key of an execution that depends on none."""
FACTOR = 0x9E37_79B9_7F4A_7C15
"""The hash of an execution is its key, which each value of a register changes: by XOR, this factor, and XOR with its own upper half."""
Call: TypeAlias = tuple[int, int]
"""The host address of ``i64 function(context, words, lane)``, and that of the words.

The lane is the one that executes the instruction; of a copy of a box it is the address of its `CopyWord`. If the result is not 0, the
handler must be called.
"""


class CopyWord(IntEnum):
    """The words of a copy of a box to or from shared memory, which is certain to be legal.

    Those up to `NEXT`, and `SHARES`, also describe the response to a cancellation of a cluster.
    """

    LANE = 0
    """the one that executes the instruction; of a store the mask of all that do, with the same operands"""
    HOST = 1
    """the host address of the box in shared memory"""
    SIZE = 2
    """its bytes there"""
    RANK = 3
    OFFSET = 4
    """the CTA that receives the box, and where in its shared memory"""
    BARRIER_RANK = 5
    BARRIER_OFFSET = 6
    """the same of the mbarrier object whose transaction bytes the copy completes"""
    COMPLETES = 7
    """1 if this completes a phase of the object"""
    NEXT = 8
    """the host address of the same words for the next CTA that receives the box, 0 if there is none"""
    BOX = 9
    """the host address of the `BoxWord` of the tensor map"""
    SOURCE = 10
    """the host address of the first byte of the box in global memory; of a copy between CTAs that of the source"""
    MAP = 11
    """that of the tensor map, 0 if it is a parameter of the kernel"""
    SHARES = 12
    """1 if the words before these are of a CTA that signals the same object, whose phase that one does not complete"""
    ADDRESS = 13
    """the global address of the first byte of the box; of a copy between CTAs where the bytes are in shared memory of the executing one"""
    COORDINATES = 14
    """all that there are"""


_MOST = SLOTS // 2
_WORD = (1 << 64) - 1
_WIDTHS = (1, 16, 32, 64)
_MOST_REGISTERS, _MOST_OF_WARPGROUP = WORDS_GIVEN - REGISTERS, NAME_WORDS - 1


def repeated_registers(program: Program, op: Op) -> tuple[int, ...] | None:
    """The registers that name the execution of an instruction that a lane or warp repeats; None if compiled code never repeats it.

    They decide what it does, but for a copy of a box or of contiguous bytes, of which they are the address of the tensor map or the size,
    and for a cancellation of a cluster. Warps repeat their shares of a wgmma.mma_async (`ptxlab.engine.warpgroups`).
    """
    effects, operands, most = op.effects, op.operands, _MOST_REGISTERS
    if op.row.kind != "service" or program.stepped or not isinstance(effects, Asynchronous):
        return None
    if effects.unit is Unit.WARPGROUP:
        # D, A in registers and metadata are for the functions of the execution. They are looked at for undefined bits, but those of
        # mirrored programs move as the data does.
        shadowed = [index for index in operands_used(program, op) if program.registers[index].shadow >= 0]
        if shadowed and (program.mirrored or any(program.registers[index].bits != 32 for index in shadowed)):
            return None
        if effects.metadata >= 0:
            (metadata,) = flatten(operands[effects.metadata])
            if not (type(metadata) is Const or (isinstance(metadata, Reg) and not metadata.negated and _is_word(program, metadata))):
                return None
            operands = operands[: effects.metadata] + operands[effects.metadata + 1 :]
        operands, most = tuple(operand for operand in operands if not isinstance(operand, Group)), _MOST_OF_WARPGROUP
    elif op.aligned or op.row.flow is not None or program.writes[op.index]:
        return None
    elif effects.box is not None:
        if not has_box_operands(program, op, effects.box):
            return None
        tensor_map = operands[effects.box.tensor_map]
        operands = (replace(tensor_map, extra=()) if isinstance(tensor_map, Addr) else tensor_map,)
    elif effects.line is not None:
        if not has_line_operands(program, op, effects.line):
            return None
        operands = (operands[effects.line.size],)
    elif effects.unit is Unit.LAUNCH_CONTROL:
        if not are_addresses(program, operands):
            return None
        operands = ()
    elif effects.pipe not in (Pipe.MMA, Pipe.COPY, Pipe.COPY_4X256B):
        return None
    bases = [operand.base if isinstance(operand, Addr) else operand for operand in operands]
    found = tuple(dict.fromkeys(register for operand in operands for register in operand_registers(operand)))
    known = all(program.registers[index].bits in _WIDTHS and program.registers[index].offset >= 0 for index in found)
    fixed = not any(isinstance(base, SymbolAddress) and base.space != "param" for base in bases)
    return found if known and fixed and len(found) <= most else None


def _is_word(program: Program, register: Reg) -> bool:
    """Whether compiled code finds 32 bits of each lane in a register's row."""
    found = program.registers[register.index]
    return found.bits == 32 and found.offset >= 0


def operands_used(program: Program, op: Op) -> tuple[int, ...]:
    """The registers that an instruction reads or writes."""
    return tuple(dict.fromkeys((*program.reads[op.index], *program.writes[op.index])))


def repeatable(program: Program) -> dict[int, tuple[int, ...]]:
    """By the indices of the instructions that compiled code may repeat: `repeated_registers`."""
    found = {op.index: repeated_registers(program, op) for op in program.ops if isinstance(op.effects, Asynchronous)}
    return {index: registers for index, registers in found.items() if registers is not None}


class Repetitions:
    """A table of executions.

    Attributes
    ----------
    address : host address of the table
    executions : what the machine needs to perform a repetition itself that compiled code has issued; they are numbered from 1 on
    """

    def __init__(self) -> None:
        table: NDArray[np.uint64] = np.zeros(SLOTS * ENTRY_WORDS, np.uint64)
        self.address = address_of(table)
        self._words = table.data
        self._table = table
        self._states: dict[Hashable, int] = {}
        self._last_state = 0
        self._kept: list[object] = []
        self._calls: dict[int, tuple[Sequence[Call], Sequence[Call]]] = {}
        """By place."""
        self.executions: list[object] = []

    def number(self, state: Hashable) -> int:
        """The number of a state; no other state ever has it."""
        found = self._states.get(state)
        if found is None:
            if len(self._states) >= _MOST:
                self._states.clear()
            found = self._states[state] = self._last_state = self._last_state + 1
        return found

    def known(self, state: Hashable) -> int:
        """The number of a state, 0 if it has none."""
        return self._states.get(state, 0)

    def add(
        self,
        op: int,
        state: int,
        values: Sequence[int],
        function: int,
        given: Sequence[int],
        kept: object,
        calls: Sequence[Call] = (),
        ask: int = 0,
        issued: Sequence[Call] = (),
        execution: object = None,
    ) -> None:
        """Enter an execution: what compiled code calls with the bases of the CTA and the address of the words that it is given.

        ``ask`` comes first, and then ``calls``, in order. ``kept`` stays alive as long as the execution is in the table. ``execution`` is
        for the machine, if the operation performs later, and ``issued`` are the calls for the issue. When the table is full, all others
        leave it, or if operations perform later this one is not entered. The execution takes the place of one that has the same name.
        """
        words, same = self._words, [state << STATE_SHIFT | op, *values]
        mixed = same[0]
        for value in values:
            mixed = (mixed ^ value) * FACTOR & _WORD
            mixed ^= mixed >> 32
        first = at = mixed % SLOTS
        while words[at * ENTRY_WORDS + FUNCTION]:
            entry = at * ENTRY_WORDS
            if words[entry + KEY : entry + KEY + len(same)].tolist() == same:
                if words[entry + FUNCTION] != function:
                    break
                if self._calls.get(at, ((), ())) != (calls, issued) and not (execution is not None and self.is_full):
                    self._call(at, calls, issued)
                    self._kept.append(kept)
                return
            at = (at + 1) % SLOTS
        if self.is_full:
            if execution is not None:
                return
            self.clear()
            at = first
        entry = at * ENTRY_WORDS
        for index, word in enumerate(same, entry + KEY):
            words[index] = word
        for index, word in enumerate(given, entry + WORDS_GIVEN):
            words[index] = word & _WORD
        words[entry + ASK] = ask
        if calls or issued:
            self._call(at, calls, issued)
        if execution is not None:
            self.executions.append(execution)
            words[entry + EXECUTION] = len(self.executions)
        words[entry + FUNCTION] = function
        self._kept.append(kept)

    def _call(self, at: int, calls: Sequence[Call], issued: Sequence[Call]) -> None:
        """Let the execution at a place have these calls."""
        self._calls[at] = calls, issued
        table = np.array([*calls, (0, 0), *issued, (0, 0)], np.int64)
        self._kept.append(table)
        address = self._words[at * ENTRY_WORDS + CALLS] = address_of(table)
        self._words[at * ENTRY_WORDS + ISSUED] = address + (len(calls) + 1) * _CALL_BYTES

    @property
    def is_full(self) -> bool:
        """Whether others leave the table when an execution enters it."""
        return len(self._kept) >= _MOST

    def clear(self) -> None:
        """Remove all executions."""
        if self._kept:
            self._table.fill(0)
            self._calls.clear()
            self._kept.clear()
            self.executions.clear()


def each_receiver(code: Function, copy: Value) -> Iterator[Value]:
    """Emit code for each CTA that receives a box; yields its `CopyWord`."""
    place = copy.variable()
    with code.loop_while(lambda: place.get().ne(0)):
        here = place.get()
        yield here
        place.set(here.pointer(CopyWord.NEXT))


def emit_calls(code: Function, context: Value, calls: Value, given: Value, failed: int) -> None:
    """Emit what calls the functions of an execution (`Call`), and returns ``failed`` where the handler must be called."""
    with code.when(calls.ne(0)):
        place = calls.variable()
        with code.loop_while(lambda: place.get().word(0).ne(0)):
            called = place.get()
            with code.when(code.call(called.pointer(0), "i64", context, called.pointer(1), given).ne(0)):
                code.ret(failed)
            place.set(called.at(_CALL_BYTES))
