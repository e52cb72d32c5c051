"""Undefined bits that decide branches and addresses: which of them are the same in all fillings.

A launch runs again and again with other bits in what is undefined, and follows them as in the first run. Compared is the first
decision of each thread in which undefined bits take part. Later ones depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from ptxlab.engine import Executable, mirrored
from ptxlab.engine.lowering.register_use import deciding_registers, operand_registers
from ptxlab.engine.program import Observed
from ptxlab.isa.operands import Addr, Op, Reg
from ptxlab.machine import Device
from ptxlab.machine.launch.execution import execute
from ptxlab.machine.launch.launch import Launch
from ptxlab.machine.replay.replay import Replay
from ptxlab.machine.warp.warp import Warp
from tests.check.race.filling_helpers import Bytes, Followed, randomised

__all__ = ["KINDS", "Decisions", "decided", "decisive"]

KINDS = ("branches", "addresses")
"""Branches, guards and other operands that decide; addresses."""
MOST = 1
"""Decisions of a thread that are compared."""


class Decision(NamedTuple):
    """A register with undefined bits that decides something for one thread."""

    op: int
    register: int
    undefined: int
    value: int


class Log(Followed):
    """Notes the first decision of each thread that undefined bits take part in."""

    def __init__(self, launch: Launch, masks: dict[int, Bytes]) -> None:
        super().__init__(launch, masks)
        self.threads: dict[tuple[Any, int, int], Decision] = {}

    def _observed(self, warp: Warp, op: Op, how: Observed, mask: int) -> None:
        if how is Observed.DECIDED:
            for register in dict.fromkeys(deciding_registers(op)):
                self._decided(warp, op, register, mask)
        super()._observed(warp, op, how, mask)

    def _decided(self, warp: Warp, op: Op, register: int, mask: int) -> None:
        width = self._launch.program.registers[register].bits
        undefined = warp.undefined(Reg(register)).reshape(-1, 32)[0]
        if self._launch.program.registers[register].offset < 0:
            return
        values = warp.values(Reg(register), width)
        for lane in np.flatnonzero(undefined != 0).tolist():
            if mask >> lane & 1:
                found = Decision(op.index, register, int(undefined[lane]), int(values[lane]))
                self.threads.setdefault((warp.cta.ctaid, warp.warp_id, lane), found)


@dataclass
class Decisions:
    """The bits that are called undefined, and those of them that are the same in all fillings: by kind and family."""

    called: dict[str, Counter[str]]
    same: dict[str, Counter[str]]


def decisive(replay: Replay) -> dict[int, Bytes]:
    """Masks of the two lowest bits of integers, and of all bits of floats, in all elements of the arguments."""
    masks: dict[int, Bytes] = {}
    for each in replay.arrays:
        allocation = replay.memory.find(each.address)
        if allocation is not None and allocation.size and allocation.base not in masks and each.dtype.kind in "iuf":
            mask = masks[allocation.base] = np.full(allocation.size, 0xFF if each.dtype.kind == "f" else 0, np.uint8)
            mask[:: each.dtype.itemsize] |= np.uint8(3)
    return masks


def logs(replay: Replay, masks: dict[int, Bytes], fillings: int) -> list[Log]:
    """What decides, in launches with different fillings; the code is compiled once."""
    program = mirrored(replay.kernel.variant(replay.options.contract, False)[0], frozenset())
    executable = Executable(program)
    target, sms, ctas_per_sm, _ = replay.device
    found: list[Log] = []

    def observer(launch: Launch) -> Log:
        found.append(Log(launch, masks))
        return found[-1]

    for seed in range(fillings):
        options = replace(replay.options, undefined="random", seed=seed, check="none", trace=None, progress=None, keep_inputs=False)
        device = Device(target, sms, ctas_per_sm)
        device.memory = randomised(replay, masks, seed)
        launch = Launch(device, replay.kernel.module.ast, program, executable, options, replay.parameters, replay.variables, observer)
        execute(launch, 0.0, None, None)
        assert found[-1].raised is None, found[-1].raised
    return found


def decided(replay: Replay, masks: dict[int, Bytes], fillings: int, family: Callable[[Op, int], str]) -> Decisions:
    """Compare fillings; ``family`` is that of the instruction which computed a register before an op."""
    result = Decisions({kind: Counter() for kind in KINDS}, {kind: Counter() for kind in KINDS})
    first, *others = logs(replay, masks, fillings)
    ops = first._launch.program.ops
    for thread, one in first.threads.items():
        alike = [log.threads.get(thread) for log in others]
        if any(each is None or each[:2] != one[:2] for each in alike):
            continue  # another thread of the launch has decided otherwise before
        differ = reduce(or_, (each.value ^ one.value for each in alike if each is not None))
        is_address = any(one.register in operand_registers(each) for each in ops[one.op].operands if isinstance(each, Addr))
        kind, name = KINDS[is_address], family(ops[one.op], one.register)
        result.called[kind][name] += one.undefined.bit_count()
        result.same[kind][name] += (one.undefined & ~differ).bit_count()
    return result
