"""A program as something that runs: regions compiled when first reached, and the state of a warp's frame."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Status, Word
from ptxlab.engine.llvm.entry_points import Nodes
from ptxlab.engine.lowering.frame import row_bytes
from ptxlab.engine.program import UNWRITTEN_REGISTER, Program
from ptxlab.engine.turns.words import TurnWord
from ptxlab.native.collection import collection_paused

if TYPE_CHECKING:
    from ptxlab.engine.reference.interpreter import Interpreter

__all__ = ["Executable"]

_STATUS = tuple(Status)
_COMPILE = 101
_PC = int(Word.PC)
_CURRENT = int(TurnWord.CURRENT)


class Executable:
    """A program ready to run warps.

    Parameters
    ----------
    program : from `lower`
    backend : ``"llvm"``, or ``"numpy"``: op by op, slow, with the same results
    interpreter : what executes the ops of the backend ``"numpy"``; default: `ptxlab.engine.reference.interpreter.Interpreter`

    Attributes
    ----------
    compiled : regions compiled or loaded so far
    dispatch_address : of the compiled function that runs one warp; 0 if the backend has none
    """

    def __init__(self, program: Program, *, backend: str = "llvm", interpreter: Interpreter | None = None) -> None:
        self.program = program
        self.backend = backend
        self.compiled = self.dispatch_address = 0
        if backend == "numpy":
            from ptxlab.engine.reference.interpreter import Interpreter

            self._interpreter = interpreter or Interpreter(program)
            self.run = self._interpreter.run  # type: ignore[method-assign]
            return
        from ptxlab import native
        from ptxlab.engine.support.compiled import OFTEN, address_of, optimise_often

        self._native = native
        self._address_of = address_of
        self._often, self._optimise_often = OFTEN, optimise_often
        self._nodes = Nodes(program)
        self._libraries: list[Any] = []
        self._table: NDArray[np.uint64] = np.zeros(max(len(program.ops), 1), np.uint64)
        self._table_address = self._table.ctypes.data
        self.dispatch_address = address_of("dispatch")
        self._dispatch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(self.dispatch_address)
        self._regions: Any = None

    def run(self, context: Context) -> Status:
        """Run the converged lanes that the context describes until they must stop."""
        while True:
            status = self._dispatch(context.address, self._table_address)
            if status != _COMPILE:
                found: Status = _STATUS[status]
                return found
            self._prepare(context.address)

    @cached_property
    def _turns(self) -> Callable[[int, int, int], int]:
        function: Callable[[int, int, int], int]
        function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(self._address_of("turns"))
        return function

    def run_turns(self, words: memoryview, address: int) -> Callable[[Context], Status]:
        """A function that runs a warp, and others when it waits at a barrier.

        ``words``, at ``address``, are those of `TurnWord`, and say which one has stopped.
        """
        turns, table = self._turns, self._table_address

        def run(context: Context) -> Status:
            at = context.address
            while True:
                status = turns(at, table, address)
                if status != _COMPILE:
                    found: Status = _STATUS[status]
                    return found
                at = words[_CURRENT]
                self._prepare(at)

        return run

    def support_function(self, name: str) -> int:
        """The address of a compiled support function (`ptxlab.engine.support`)."""
        address: int = self._address_of(name)
        return address

    def _prepare(self, address: int) -> None:
        """Compile what the warp lacks whose context has this address, or optimise what has been called often."""
        if self._often[0]:
            self._optimise_often()
        else:
            self._compile(_word_at(address, _PC))

    def run_up_to(self, starts: Collection[int], words: memoryview | None = None, address: int = 0) -> Callable[[Context], Status | None]:
        """A function that runs as `run` does, but leaves before the nodes of a stepped program that begin at ``starts``: None, PC there.

        With the words of `TurnWord` it runs other warps, too, as that of `run_turns` does.
        """
        left_out = list(starts)
        table = self._table.copy()
        table[left_out] = 0
        regions = table.ctypes.data

        def run(context: Context) -> Status | None:
            at = context.address
            while True:
                if words is None:
                    status = self._dispatch(at, regions)
                else:
                    status = self._turns(at, regions, address)
                    at = words[_CURRENT]
                if status != _COMPILE:
                    found: Status = _STATUS[status]
                    return found
                if self._often[0]:
                    self._optimise_often()
                    continue
                pc = _word_at(at, _PC)
                if pc in starts:
                    return None
                if not self._table[pc]:
                    self._compile(pc)
                table[:] = self._table
                table[left_out] = 0

        return run

    @cached_property
    def template(self) -> NDArray[np.uint8]:
        """What `new_frame` returns, once for all launches, which copy it."""
        return self.new_frame()

    def new_frame(self) -> NDArray[np.uint8]:
        """A zeroed register file for one warp, 64-byte aligned, with the program's constants and undefined bits in place."""
        raw = np.zeros(self.program.frame_bytes + 64, np.uint8)
        skip = -raw.ctypes.data % 64
        frame = raw[skip : skip + self.program.frame_bytes]
        for (value, bits), offset in self.program.constants.items():
            if bits == 1:
                frame[offset : offset + 4] = 255 * value
            elif bits == 128:
                halves = frame[offset : offset + 512].view(np.uint64)
                halves[:32], halves[32:] = value & (1 << 64) - 1, value >> 64
            else:
                frame[offset : offset + 4 * bits].view(f"u{bits // 8}")[:] = value
        for register in self.program.unwritten:
            info = self.program.registers[register]
            if info.shadow >= 0:
                frame[info.shadow : info.shadow + row_bytes(info.bits)] = 0xFF
                frame[info.origin : info.origin + row_bytes(32)].view(np.uint32)[:] = UNWRITTEN_REGISTER | register
            if info.range >= 0:
                ends = np.iinfo(f"i{info.bits // 8}")
                rows = frame[info.range : info.range + 2 * row_bytes(info.bits)].view(ends.dtype)
                rows[:32], rows[32:] = ends.min, ends.max
        return frame

    def drain_pending(self, context: Context, first: int, count: int, lanes: int = 0xFFFFFFFF) -> Status | None:
        """Perform noted asynchronous copies ``first .. first+count-1`` of some lanes; `Status.FAULT` if one fails."""
        if self.backend == "numpy":
            return self._interpreter.drain(context, first, count, lanes)
        drain = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32)(self._address_of("drain"))
        return Status.FAULT if drain(context.address, first, count, lanes) else None

    # ---------------------------------------------------------------------------------------------------------- regions

    def _compile(self, pc: int, later: Iterable[int] | None = None) -> None:
        """Make the region around an op index and enter it into the table; ``later``: nodes that are to be executed after it."""
        number = self._nodes.at(pc)
        if number < 0 or self._nodes.starts[number] != pc:
            raise ValueError(f"execution cannot start at op {pc}")
        if self._regions is None:
            from ptxlab.engine.llvm._region_cache import Regions

            self._regions = Regions(self.program, self._nodes, max(self._native.host().vector_bits // 32, 8))
        with collection_paused():
            library = self._regions.load(number, self._nodes.behind_all_ways(number) if later is None else later)
        self._libraries.append(library)
        self._table[[self._nodes.starts[n] for n in self._nodes.region_of(number)]] = library.address("region")
        self.compiled += 1

    def compile_all(self) -> None:
        """Compile every region now, or load it, and optimise the functions that regions call."""
        from ptxlab.engine.support.compiled import optimise_all

        for number, start in enumerate(self._nodes.starts):
            if not self._table[start]:
                self._compile(start, range(number, len(self._nodes.starts)))
        optimise_all()


def _word_at(address: int, word: int) -> int:
    """A word of the context at a host address."""
    return ctypes.c_int64.from_address(address + 8 * word).value
