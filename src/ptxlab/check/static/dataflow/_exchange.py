"""How threads of a CTA communicate in one execution: barriers at which they wait, and constants that they store in shared memory.

Warps that wait for work read its number, a byte of shared memory, behind a barrier, and branch on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.static.dataflow._evaluate import Evaluator, State
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._values import Value
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.effects import CtaBarrier
from ptxlab.isa.native_ops import LaneAccess, Native
from ptxlab.isa.operands import Op, Reg

__all__ = ["Barriers", "Words", "holds", "loads_byte"]

_MASK = (1 << SHARED_RANK_SHIFT) - 1
_MOST_ADDRESSES = 64
_SHARED = ("shared", "shared::cta")
Threads = NDArray[np.bool_]
Held = TypeVar("Held")


def holds(op: Op) -> bool:
    """Whether an instruction holds threads until others come to a barrier of the CTA."""
    return isinstance(op.effects, CtaBarrier) and op.effects.waits


def loads_byte(native: Native) -> bool:
    """Whether threads load one byte each from shared memory."""
    return isinstance(native, LaneAccess) and not native.write and native.size == 1 and native.space in _SHARED


@dataclass
class Barriers(Generic[Held]):
    """The barriers of a CTA; ``count`` threads come to one that names no number of threads."""

    count: int
    _arrived: dict[int, Threads] = field(default_factory=dict)
    _held: dict[int, list[Held]] = field(default_factory=dict)

    def arrive(self, point: Point, threads: Threads, held: Held | None) -> list[Held]:
        """Let threads arrive, and hold them if ``held`` stands for them; those that go on now, in the order in which they came."""
        number, limit = point.named("a"), point.named("b")
        wanted = self.count if limit is None else limit.constant
        if number is None or number.constant is None or wanted is None:
            return [] if held is None else [held]
        barrier = number.constant
        waiting = self._held.setdefault(barrier, [])
        if held is not None:
            waiting.append(held)
        before = self._arrived.get(barrier)
        arrived = self._arrived[barrier] = threads if before is None else threads | before
        if int(arrived.sum()) < wanted:
            return []
        del self._arrived[barrier], self._held[barrier]
        return waiting

    def give_up(self) -> list[Held]:
        """Let all threads go on that are held: what they wait for has not been followed."""
        found = [each for waiting in self._held.values() for each in waiting]
        self._held.clear()
        self._arrived.clear()
        return found


class Words:
    """The bytes of shared memory that hold constants. What is stored at addresses that are not known is taken to go elsewhere."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._bytes: dict[int, int] = {}

    def access(self, op: Op, native: Native | None, operands: tuple[Value | None, ...], threads: Threads, state: State) -> Value | None:
        """Follow a store; the value that a load gives, if it is known."""
        if not isinstance(native, LaneAccess) or native.space not in _SHARED:
            return None
        address = operands[native.address]
        if address is None or not address.exact:
            return None
        guard = None if op.guard is None else self.evaluator.operand(op.guard, state, 1)
        sure = guard is None or guard.exact
        executing = np.logical_and(threads, guard.data) if guard is not None and guard.exact else threads
        offsets = np.broadcast_to(np.asarray(address.data), threads.shape).astype(np.int64) & _MASK
        if native.write:
            stored = self.evaluator.operand(op.operands[native.value], state, 8 * native.size) if sure else None
            self._store(np.unique(offsets[executing]), native.size, None if stored is None else stored.constant)
            return None
        return self._load(offsets, native, executing, op) if sure else None

    def _store(self, offsets: NDArray[np.int64], size: int, value: int | None) -> None:
        for at in list(self._bytes):
            if ((offsets <= at) & (at < offsets + size)).any():
                del self._bytes[at]
        if value is not None and offsets.size <= _MOST_ADDRESSES:
            for offset in offsets.tolist():
                self._bytes.update(zip(range(offset, offset + size), value.to_bytes(size, "little"), strict=True))

    def _load(self, offsets: NDArray[np.int64], native: LaneAccess, threads: Threads, op: Op) -> Value | None:
        destination = op.operands[native.value]
        if native.count != 1 or native.signed or not isinstance(destination, Reg) or not threads.any():
            return None
        different = np.unique(offsets[threads])
        if different.size > _MOST_ADDRESSES:
            return None
        found = np.zeros(offsets.shape, np.uint64)
        for offset in different.tolist():
            value = 0
            for position in range(native.size):
                byte = self._bytes.get(offset + position)
                if byte is None:
                    return None
                value |= byte << 8 * position
            found[offsets == offset] = value
        bits = self.evaluator.program.registers[destination.index].bits
        data = found.astype(f"u{max(bits, 16) // 8}")
        return Value(None, int(data[threads][0]) if different.size == 1 else data)
