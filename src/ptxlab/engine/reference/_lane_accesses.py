"""Operands of the lanes of a warp, the bytes that they access, and faults, in the NumPy backend."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Status, Word
from ptxlab.engine.faults import Fault
from ptxlab.engine.reference._host_memory import bytes_at
from ptxlab.isa.address_space import LOCAL_WINDOW, PARAM_BASE, PARAM_WINDOW, SHARED_WINDOW
from ptxlab.isa.operands import Addr, Op, Reg, Resolved

if TYPE_CHECKING:
    from ptxlab.engine.reference.warp import Warp

__all__ = ["Stop", "addresses_of", "fault_at", "host_address", "host_bytes", "integers", "lanes_in", "put_lanes", "refuse"]

_U64 = (1 << 64) - 1


class Stop(Exception):
    """The group of converged lanes stops with a status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def lanes_in(mask: int) -> list[int]:
    """The numbers of the lanes of a mask."""
    return [lane for lane in range(32) if mask >> lane & 1]


def fault_at(warp: Warp, op: Op | None, fault: Fault, lane: int, address: int) -> Stop:
    """Note a fault."""
    warp.words[Word.FAULT], warp.words[Word.FAULT_LANE] = int(fault), lane
    warp.words[Word.FAULT_ADDRESS] = np.uint64(address & _U64)
    if op is not None:
        warp.words[Word.INFO] = op.index
    return Stop(Status.FAULT)


def refuse(wrong: object, warp: Warp, op: Op | None, fault: Fault, lane: int, address: int) -> None:
    """Note a fault and stop, if something is wrong."""
    if wrong:
        raise fault_at(warp, op, fault, lane, address)


def addresses_of(warp: Warp, operand: Resolved) -> list[int]:
    """The address in each lane."""
    assert isinstance(operand, Addr)
    if operand.base is None:
        return [operand.offset & _U64] * 32
    if isinstance(operand.base, Reg):
        bits = warp.program.registers[operand.base.index].bits
        return [(int(v) + operand.offset) & ((1 << bits) - 1) for v in warp.bits(operand.base, bits)]
    return [(warp.symbol(operand.base) + operand.offset) & _U64] * 32


def host_address(warp: Warp, op: Op | None, space: str, lane: int, address: int, size: int, align: int, write: bool) -> int:
    """The host address of an access, or a fault."""
    refuse(address % align, warp, op, Fault.MISALIGNED, lane, address)
    if space == "generic":
        window = address >> 32
        for base, name in ((SHARED_WINDOW, "shared::cluster"), (LOCAL_WINDOW, "local"), (PARAM_WINDOW, "param")):
            if window == base >> 32:
                try:
                    return host_address(warp, op, name, lane, address & 0xFFFFFFFF, size, align, write)
                except Stop:
                    warp.words[Word.FAULT_ADDRESS] = np.uint64(address)
                    raise
        space = "global"
    if space in ("shared", "shared::cta"):
        rank = warp.word(Word.SHARED_RANK)
        if address - rank >= 0 and address - rank + size <= warp.word(Word.SHARED_SIZE):
            return warp.word(Word.SHARED) + address - rank
        peer = address >> 24 < warp.word(Word.CLUSTER_SIZE) and address >> 24 != rank >> 24
        raise fault_at(warp, op, Fault.SHARED_PEER if peer else Fault.SHARED_RANGE, lane, address)
    if space == "shared::cluster":
        named, inside = address >> 24, address & 0xFFFFFF
        refuse(named >= warp.word(Word.CLUSTER_SIZE), warp, op, Fault.SHARED_GONE, lane, address)
        base, total = (int(v) for v in bytes_at(warp.word(Word.CLUSTER) + 16 * named, 16).view(np.uint64))
        refuse(not total, warp, op, Fault.SHARED_GONE, lane, address)
        refuse(inside + size > total, warp, op, Fault.SHARED_RANGE, lane, address)
        return base + inside
    if space in ("global", "const"):
        count = warp.word(Word.ALLOCATION_COUNT)
        rows = bytes_at(warp.word(Word.ALLOCATIONS), 32 * count).view(np.uint64).reshape(count, 4)
        for base, total, data, flags in rows.tolist():
            need = 3 if write else 1
            if base <= address and address + size <= base + total and flags & need == need:
                return int(data) + address - int(base)
        if write and warp.word(Word.BEFORE_WRITE):
            host: int = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(warp.word(Word.BEFORE_WRITE))(address, size)
            if host:
                return host
        raise fault_at(warp, op, Fault.GLOBAL_WRITE if write else Fault.GLOBAL_READ, lane, address)
    if space == "local":
        total = warp.word(Word.LOCAL_SIZE)
        refuse(address + size > total, warp, op, Fault.LOCAL_RANGE, lane, address)
        return warp.word(Word.LOCAL) + lane * total + address
    refuse(write, warp, op, Fault.PARAM_WRITE, lane, address)
    refuse(not 0 <= address - PARAM_BASE <= warp.word(Word.PARAM_SIZE) - size, warp, op, Fault.PARAM_RANGE, lane, address)
    return warp.word(Word.PARAM) + address - PARAM_BASE


def host_bytes(warp: Warp, op: Op, space: str, operand: Resolved, size: int, write: bool, mask: int) -> dict[int, NDArray[np.uint8]]:
    """The bytes of each executing lane's access; all are checked before any is used."""
    addresses = addresses_of(warp, operand)
    return {lane: bytes_at(host_address(warp, op, space, lane, addresses[lane], size, size, write), size) for lane in lanes_in(mask)}


def integers(warp: Warp, operand: Resolved, bits: int) -> list[int]:
    """A source in all lanes as Python integers."""
    value = warp.bits(operand, bits)
    if bits == 128:
        return [int(low) | int(high) << 64 for low, high in zip(*value, strict=True)]
    return [int(v) for v in value]


def put_lanes(warp: Warp, operand: Resolved, values: dict[int, int]) -> None:
    """Write a destination register in the lanes given."""
    if not isinstance(operand, Reg):
        return
    bits = warp.program.registers[operand.index].bits
    lanes = np.zeros(32, np.bool_)
    lanes[list(values)] = True
    new = [values.get(lane, 0) & ((1 << bits) - 1) for lane in range(32)]
    if bits == 128:
        made: Any = (np.array([v & _U64 for v in new], np.uint64), np.array([v >> 64 for v in new], np.uint64))
    else:
        made = np.array(new, np.bool_ if bits == 1 else f"u{max(bits, 16) // 8}")
    warp.put(operand.index, made, lanes)
