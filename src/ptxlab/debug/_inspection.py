"""What a session shows of a launch that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab import ptx
from ptxlab.debug._conditions import Expression
from ptxlab.debug._execution import Execution
from ptxlab.debug._memory import barriers_of, digest, memory_bytes, operations_of, tensor_words, typed, variables
from ptxlab.debug._points import DebugError, Event, Point, WarpName, refuse
from ptxlab.debug._registers import RegisterValues, dtype_of, one_register, registers_of, special_values
from ptxlab.debug._snapshots import Snapshot
from ptxlab.debug._stops import read_value
from ptxlab.machine.warp.warp import CONVERGE, WAIT

if TYPE_CHECKING:
    from ptxlab.diagnostics import Place
    from ptxlab.isa.operands import Op
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.replay.replay import Replay
    from ptxlab.machine.warp.warp import ConvergedLanes, Warp

__all__ = ["Focus", "Frame", "Inspection"]


@dataclass(frozen=True, slots=True)
class Focus:
    """The thread that is looked at: the coordinates of its CTA, its warp, its lane."""

    cta: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    lane: int = 0

    def __str__(self) -> str:
        return f"CTA {self.cta} warp {self.warp} lane {self.lane}"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the call stack: a function, the line of the PTX text at which it stands, and the place in the source."""

    function: str
    line: int
    source: Place | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"function": self.function, "line": self.line, "source": None if self.source is None else str(self.source)}


class Inspection:
    """Reads registers, memories, barriers and operations. Nothing here changes the launch."""

    _replay: Replay
    _execution: Execution
    focus: Focus

    @property
    def launch(self) -> Launch:
        """The machine, for readers who know `ptxlab.machine`."""
        return self._execution.launch

    @property
    def point(self) -> Point:
        """Where the launch stands."""
        return self._execution.point

    @property
    def snapshots(self) -> list[Snapshot]:
        """The snapshots from which the launch can go on."""
        return self._execution.snapshots.taken

    @cached_property
    def sources(self) -> ptx.SourceMap:
        """The places in the source of the lines of the PTX text."""
        return ptx.SourceMap(self.launch.module)

    # ------------------------------------------------------------------------------------------------------------- threads

    def _warp(self) -> Warp:
        found = self._execution.find((self.focus.cta, self.focus.warp))
        if found is None:
            raise refuse("G103", f"{self.focus} is not resident: it has ended or not started", fix="choose a thread that `warps` lists")
        return found

    def warp_named(self, name: WarpName) -> Warp:
        """A resident warp by the coordinates of its CTA and its number, for readers who know `ptxlab.machine`."""
        found = self._execution.find(name)
        if found is None:
            raise refuse("G103", f"CTA {name[0]} warp {name[1]} is not resident: it has ended or not started", fix="choose one of `warps`")
        return found

    def _cta(self) -> CtaState:
        found = next((cta for cta in self.launch.resident if cta.ctaid == self.focus.cta), None)
        if found is None:
            raise refuse("G103", f"CTA {self.focus.cta} is not resident: it has ended or not started", fix="choose one that `warps` lists")
        return found

    def op(self) -> Op | None:
        """The instruction at which the chosen thread stands; None if it has ended."""
        warp = self._execution.find((self.focus.cta, self.focus.warp))
        if warp is None or not warp.live >> self.focus.lane & 1:
            return None
        return self._op_of(warp, self.focus.lane)

    def _op_of(self, warp: Warp, lane: int) -> Op | None:
        point, author = self.point, self._execution.author
        if point.event is Event.INSTRUCTION and point.warp is warp and point.converged >> lane & 1:
            return point.op
        if author.warp is warp and author.mask >> lane & 1 and self.launch.scheduler.current is warp:
            return author.op
        group = next((g for g in warp.converged if g.mask >> lane & 1), None)
        return None if group is None else group.instruction

    def stack(self) -> list[Frame]:
        """The call stack of the chosen thread, the innermost frame first; with functions that the compiler has inlined."""
        op = self.op()
        if op is None:
            return []
        names = [self.launch.program.name, *(name for name, _ in op.calls)]
        lines = [*(line for _, line in op.calls), op.line]
        frames = []
        for name, line in reversed(list(zip(names, lines, strict=True))):
            frames.append(Frame(name, line, self.sources.at(line)))
            frames += [Frame(f"inlined into {name}", line, place) for place in self.sources.callers(line)]
        return frames

    def warps(self) -> list[dict[str, Any]]:
        """All resident warps: their groups of converged lanes with the lines at which they stand, and what they do."""
        order = self._execution.order
        return [
            {
                "cta": cta.ctaid,
                "warp": warp.warp_id,
                "frozen": order.is_frozen(warp),
                "groups": [self._group(group) for group in warp.converged],
            }
            for cta in self.launch.resident
            for warp in cta.warps
        ]

    def _group(self, group: ConvergedLanes) -> dict[str, Any]:
        op = self._op_of(group.warp, (group.mask & -group.mask).bit_length() - 1)
        state = {WAIT: "waits", CONVERGE: "waits for other lanes"}.get(group.state, "runs")
        found = {"lanes": hex(group.mask), "line": 0 if op is None else op.line, "state": state}
        return found | ({"for": group.wait.describe()[0]} if group.wait is not None else {})

    # ------------------------------------------------------------------------------------------------------------- values

    def registers(self) -> list[RegisterValues]:
        """The registers of the chosen warp."""
        return registers_of(self._execution, self._warp())

    def register(self, name: str) -> RegisterValues:
        """A register of the chosen warp, or a special register."""
        warp = self._warp()
        found = one_register(self._execution, warp, name, self.op())
        if found is not None:
            return found
        specials = special_values(warp)
        if name not in specials:
            raise refuse("G103", f"the kernel has no register {name}", fix="names are those that the PTX declares, with their %")
        return RegisterValues(name, "u64", 64, tuple(specials[name]), (0,) * 32)

    def special(self) -> dict[str, list[int]]:
        """The special registers of the chosen warp by name, in all lanes; without clocks and counters."""
        return special_values(self._warp())

    def evaluate(self, text: str) -> Any:
        """The value of an expression over registers in the chosen thread."""
        expression = Expression(text)
        warp, op = self._warp(), self.op()
        return expression.value(lambda name: read_value(self._execution, warp, op, self.focus.lane, name))

    # ------------------------------------------------------------------------------------------------------------- memory

    def memory(self, space: str, address: int | str, count: int = 1, type: str = "b32") -> NDArray[Any]:
        """Read a memory as an array of a type.

        Parameters
        ----------
        space : ``"global"``, ``"shared"`` (of the chosen CTA), ``"local"`` (of the chosen thread) or ``"param"``
        address : in this space, or the name of a variable or of an array argument
        count, type : how many values of which type: ``b32``, ``f16``, ``float8_e4m3fn``
        """
        start = self._address(space, address)
        size = max(count, 0) * dtype_of(type).itemsize
        cta = next((c for c in self.launch.resident if c.ctaid == self.focus.cta), None)
        warp = self._execution.find((self.focus.cta, self.focus.warp))
        return typed(memory_bytes(self.launch, space, start, size, cta, warp, self.focus.lane), type)

    def readable(self, space: str, address: int, size: int) -> int:
        """How many bytes from an address on can be read, of so many."""
        low, high = 0, size
        while low < high:
            middle = (low + high + 1) // 2
            try:
                self.memory(space, address, middle, "u8")
                low = middle
            except DebugError:
                high = middle - 1
        return low

    def _address(self, space: str, address: int | str) -> int:
        if not isinstance(address, str):
            return address
        known = {("global", placed.name): placed.address for placed in self._replay.arrays} | variables(self.launch)
        found = known.get((space, address))
        if found is None:
            names = ", ".join(sorted(name for where, name in known if where == space)) or "none"
            raise refuse("G103", f"the launch has no variable or array {address} in {space} memory", fix=f"those that it has: {names}")
        return found

    def tensor(self, lane: int, column: int, lanes: int = 1, columns: int = 1, type: str = "b32") -> NDArray[Any]:
        """Cells of the tensor memory of the chosen CTA as [lane, column]; narrower types have more columns."""
        words: NDArray[np.uint32] = tensor_words(self._cta(), lane, column, lanes, columns)
        dtype = dtype_of(type)
        if 4 * columns % dtype.itemsize:
            raise refuse("G103", f"{columns} columns of 32 bits hold no whole number of {type}")
        found: NDArray[Any] = words.view(dtype)
        return found

    def barriers(self) -> list[dict[str, Any]]:
        """The barriers of the chosen CTA and of its cluster: what they expect, and who waits."""
        return barriers_of(self._cta())

    def operations(self) -> list[dict[str, Any]]:
        """The asynchronous operations that have been issued and have not performed: what they read and write, and which may perform now."""
        return operations_of(self._execution)

    def digest(self) -> str:
        """A digest of the whole state; the same position has the same digest."""
        return digest(self._execution)
