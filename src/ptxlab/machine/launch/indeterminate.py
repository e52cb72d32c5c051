"""Indeterminate values of a launch: what stands in them, and the findings where they leave a thread."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab.diagnostics import ranges
from ptxlab.engine.context import Word
from ptxlab.engine.lowering.frame import row_bytes
from ptxlab.engine.lowering.register_use import observed_registers
from ptxlab.engine.program import HOW_SHIFT, UNWRITTEN_REGISTER, Observed
from ptxlab.isa.address_space import GLOBAL_BASE
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.warp import lanes_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.warp.warp import Warp

__all__ = ["Contents", "Observations", "UndefinedUse", "fix_of", "reaches_global", "undefined_use"]

_OBSERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Contents:
    """What stands where nothing has been written: what is there (``report``), zeros, or random bits (launch option ``undefined``)."""

    def __init__(self, launch: Launch) -> None:
        self._random = np.random.default_rng(launch.options.seed % (1 << 64)) if launch.options.undefined == "random" else None
        self._kept = launch.options.undefined == "report"
        registers = (launch.program.registers[r] for r in launch.program.unwritten)
        self._rows = [] if self._kept else [(r.offset, row_bytes(r.bits)) for r in registers if r.offset >= 0]

    def fill(self, memory: NDArray[Any]) -> None:
        """Fill memory that a CTA gets."""
        if not self._kept:
            raw = memory.reshape(-1).view(np.uint8)
            raw[:] = 0 if self._random is None else np.frombuffer(self._random.bytes(raw.size), np.uint8)

    def fill_registers(self, frame: NDArray[np.uint8]) -> None:
        """Fill the registers that some path reads before it has written them."""
        for offset, size in self._rows:
            self.fill(frame[offset : offset + size])


class Observations:
    """Findings where undefined bits go to memory that others read: once for each origin.

    Attributes
    ----------
    address : of the function that compiled code calls (`Word.OBSERVE`)
    kept : whether undefined bits have been stored where the CTA may read them again
    seen : the origins of which there is a finding
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.seen: set[int] = set()
        self.kept = False
        self._raised: BaseException | None = None
        self._callback = _OBSERVE(self._called)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def finish(self) -> None:
        """Raise what was raised while compiled code ran, which cannot pass it on."""
        if self._raised is not None:
            raise self._raised

    def _called(self, context: int) -> None:
        warp = self._launch.scheduler.current
        try:
            if warp is not None and warp.words[Word.OBSERVE_OP] >> HOW_SHIFT == Observed.STORED:
                self.kept = True
            elif warp is not None:
                self._observe(warp, self._launch.program.ops[warp.words[Word.OBSERVE_OP]], warp.words[Word.OBSERVE_MASK])
        except BaseException as error:
            self._raised = error

    def _observe(self, warp: Warp, op: Op, mask: int) -> None:
        program = self._launch.program
        native = program.natives.get(op.index)
        if not reaches_global(warp, op, native, mask):
            self.kept = True
            return
        for register in observed_registers(program, op):
            origin = warp.origin((register,), mask)
            if origin and origin not in self.seen:
                self.report(undefined_use(warp, op, register, mask), origin)

    def report(self, found: UndefinedUse, origin: int) -> None:
        """Report a use of undefined bits with an origin of which there is no finding yet."""
        if origin not in self.seen:
            self.seen.add(origin)
            reports = self._launch.reports
            details = (("origin", reports.origin_text(origin)),)
            reports.add(
                found.code, found.message, op=found.op, warp=found.warp, mask=found.lanes, part=origin, details=details, fix=fix_of(origin)
            )


def reaches_global(warp: Warp, op: Op, native: object, mask: int) -> bool:
    """Whether an access is not known to go to shared or local memory: by a generic address in some lane it may go to global memory."""
    if not isinstance(native, LaneAccess) or native.space != "generic":
        return True
    return bool((warp.addresses(op.operands[native.address])[lanes_of(mask)] >= GLOBAL_BASE).any())


class UndefinedUse(NamedTuple):
    """A use of undefined bits, as a finding."""

    code: str
    message: str
    op: Op
    warp: Warp
    lanes: int


def undefined_use(warp: Warp, op: Op, register: int, mask: int, decides: bool = False) -> UndefinedUse:
    """The use of a register with undefined bits in some lanes."""
    lanes, bits = warp.undefined_bits(register, mask)
    info = warp.launch.program.registers[register]
    if decides:
        return UndefinedUse("R802", f"{info.name} is used here but has no value in this thread", op, warp, lanes)
    verb = "stores" if isinstance(warp.launch.program.natives.get(op.index), LaneAccess) else "uses"
    return UndefinedUse("R808", f"{op.opcode} {verb} {info.name}, {_bits_text(bits, info.bits)} undefined", op, warp, lanes)


def _bits_text(bits: int, width: int) -> str:
    """Bits of a register as the subject of a sentence."""
    if bits == (1 << width) - 1:
        return "which is"
    listed = ", ".join(ranges(i for i in range(width) if bits >> i & 1))
    return f"whose bit {listed} is" if listed.isdecimal() else f"whose bits {listed} are"


def fix_of(origin: int) -> str:
    """What to do about undefined bits with this origin."""
    if origin >= UNWRITTEN_REGISTER:
        return "write the register on every path that leads here"
    return "give the masked elements a value (other=0 in Triton), or do not store what is computed from them"
