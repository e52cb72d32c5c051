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
from ptxlab.isa.native_ops import LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.warp.warp import lanes_of
from ptxlab.native import callback_address

if TYPE_CHECKING:
    from ptxlab.engine.program import Program
    from ptxlab.machine.launch.launch import Launch
    from ptxlab.machine.memory.global_memory import DeviceMemory
    from ptxlab.machine.warp.warp import Warp

__all__ = ["KEPT", "Contents", "Observations", "UndefinedUse", "described", "lanes_observed", "undefined_use"]

KEPT = 1 << 29
"""An origin: this plus a position in `Launch.kept`, for undefined bits that device memory had before the launch."""

_OBSERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Contents:
    """What stands where nothing has been written: what is there (``report``), zeros, or random bits (launch option ``undefined``)."""

    def __init__(self, launch: Launch) -> None:
        self._kept = launch.options.undefined == "report"
        self._random = np.random.default_rng(launch.options.seed % (1 << 64)) if launch.options.undefined == "random" else None
        self._rows = () if self._kept else launch.facts.of(_unwritten_rows)

    def fill(self, memory: NDArray[Any]) -> None:
        """Fill memory that a CTA gets."""
        if not self._kept:
            raw = memory.reshape(-1).view(np.uint8)
            raw[:] = 0 if self._random is None else np.frombuffer(self._random.bytes(raw.size), np.uint8)

    def fill_device(self, memory: DeviceMemory) -> None:
        """Fill the undefined bits of device memory, which are defined then."""
        for allocation in () if self._kept else memory.mirrored():
            if allocation.mirror is not None:
                undefined, filled = allocation.mirror.bits, np.empty_like(allocation.data)
                self.fill(filled)
                allocation.data[:] = allocation.data & ~undefined | filled & undefined
                allocation.mirror = None

    def fill_registers(self, frame: NDArray[np.uint8]) -> None:
        """Fill the registers that some path reads before it has written them."""
        for offset, size in self._rows:
            self.fill(frame[offset : offset + size])


def _unwritten_rows(program: Program) -> tuple[tuple[int, int], ...]:
    """Offset and bytes of the registers that some path reads before it has written them."""
    registers = (program.registers[register] for register in program.unwritten)
    return tuple((r.offset, row_bytes(r.bits)) for r in registers if r.offset >= 0)


class Observations:
    """Findings where undefined bits go to memory that others read: once for each origin.

    Attributes
    ----------
    address : of the function that compiled code calls (`Word.OBSERVE`); 0 if it follows no undefined bits
    kept : whether undefined bits have been stored where this launch or a later one may read them again
    followed : whether a second run follows undefined bits of memory, and device memory keeps them
    seen : the origins of which there is a finding
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.seen: set[int] = set()
        self.kept = self.followed = False
        self._raised: BaseException | None = None
        self._callback = _OBSERVE(self._called) if launch.facts.tracked else None
        self.address = 0 if self._callback is None else callback_address(self._callback)

    def finish(self) -> None:
        """Raise what was raised while compiled code ran, which cannot pass it on."""
        if self._raised is not None:
            raise self._raised

    def _called(self, context: int) -> None:
        warp = self._launch.scheduler.running_warp()
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
        observed = lanes_observed(warp, op, native, mask, self.followed)
        if observed != mask:
            self.kept = True
        for register in observed_registers(program, op):
            origin = warp.origin((register,), observed, stored_bits(native))
            if origin and origin not in self.seen:
                self.report(undefined_use(warp, op, register, observed), origin)

    def report(self, found: UndefinedUse, origin: int) -> None:
        """Report a use of undefined bits with an origin of which there is no finding yet."""
        if origin not in self.seen:
            self.seen.add(origin)
            text, fix = described(self._launch, origin)
            self._launch.reports.add(
                found.code,
                found.message,
                op=found.op,
                warp=found.warp,
                mask=found.lanes,
                part=origin,
                details=(*_elements(found), ("origin", text)),
                fix=fix,
            )


def _elements(found: UndefinedUse) -> tuple[tuple[str, str], ...]:
    """The elements of an array in device memory that a store with undefined bits writes, as details of a finding."""
    native = None if found.warp is None else found.warp.launch.program.natives.get(found.op.index)
    if found.warp is None or not isinstance(native, LaneAccess) or not native.write:
        return ()
    addresses = found.warp.addresses(found.op.operands[native.address])[lanes_of(found.lanes)]
    for allocation, inside in found.warp.launch.device.memory.reached(addresses):
        every = addresses[inside].astype(np.int64)[:, None] + np.arange(native.size)
        return allocation.elements(every.reshape(-1).tolist())
    return ()


def stored_bits(native: object) -> int | None:
    """How many low bits of a register a store takes; None if all bits count."""
    return native.bits if isinstance(native, LaneAccess) and native.write else None


def lanes_observed(warp: Warp, op: Op, native: object, mask: int, followed: bool) -> int:
    """The lanes whose undefined bits the host or other threads see at once: not those that store to shared, local or device memory.

    Device memory that is not copied back to the host counts as observed, unless undefined bits of memory are ``followed``.
    """
    if not isinstance(native, LaneAccess):
        return mask
    lanes = lanes_of(mask)
    observed: NDArray[np.bool_] = np.zeros(len(lanes), np.bool_)
    for found, inside in warp.launch.device.memory.reached(warp.addresses(op.operands[native.address])[lanes]):
        if found.copied_back or not followed:
            observed |= inside
    return int((np.uint32(1) << lanes[observed].astype(np.uint32)).sum(dtype=np.uint64))


class UndefinedUse(NamedTuple):
    """A use of undefined bits, as a finding."""

    code: str
    message: str
    op: Op
    warp: Warp | None
    lanes: int


def undefined_use(warp: Warp, op: Op, register: int, mask: int, decides: bool = False) -> UndefinedUse:
    """The use of a register with undefined bits in some lanes."""
    native = warp.launch.program.natives.get(op.index)
    lanes, bits = warp.undefined_bits(register, mask, None if decides else stored_bits(native))
    info = warp.launch.program.registers[register]
    if decides:
        return UndefinedUse("R802", f"{info.name} is used here but has no value in this thread", op, warp, lanes)
    verb = "stores" if isinstance(native, LaneAccess) else "uses"
    return UndefinedUse("R808", f"{op.opcode} {verb} {info.name}, {_bits_text(bits, info.bits)} undefined", op, warp, lanes)


def _bits_text(bits: int, width: int) -> str:
    """Bits of a register as the subject of a sentence."""
    if bits == (1 << width) - 1:
        return "which is"
    listed = ", ".join(ranges(i for i in range(width) if bits >> i & 1))
    return f"whose bit {listed} is" if listed.isdecimal() else f"whose bits {listed} are"


def described(launch: Launch, origin: int) -> tuple[str, str]:
    """Where undefined bits come from (`ptxlab.engine.program.UNWRITTEN_REGISTER`, `KEPT`), and what to do about them."""
    program, name = launch.program, launch.reports.name
    if origin >= UNWRITTEN_REGISTER:
        register = origin - UNWRITTEN_REGISTER
        reader = next(op for op in program.ops if register in program.reads[op.index] or (op.guard and op.guard.index == register))
        text = f"{program.registers[register].name}, which is first read by {name(reader)}; no instruction writes it before"
        return text, "write the register on every path that leads here"
    if origin >= KEPT:
        kept = launch.kept[origin - KEPT]
        return kept.text, kept.fix
    text = f"{name(program.ops[origin - 1])}: its guard is false, and nothing else writes its register"
    return text, "give the masked elements a value (other=0 in Triton), or do not store what is computed from them"
