"""What differs between two points: registers of a warp, memories, barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.debug._memory import barriers_of
from ptxlab.debug._registers import RegisterValues, registers_of
from ptxlab.diagnostics import ranges

if TYPE_CHECKING:
    from ptxlab.debug._execution import Execution
    from ptxlab.debug._points import WarpName

__all__ = ["State", "differences"]

_MOST = 16
"""Ranges of a memory that are listed."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a warp, its CTA and device memory hold at a point.

    Attributes
    ----------
    registers : by name and number among those with this name
    memories : bytes by the name of the memory, each with the address of the first one
    barriers : as `Session.barriers` lists them
    """

    registers: dict[tuple[str, int], RegisterValues]
    memories: dict[str, tuple[int, NDArray[np.uint8]]]
    barriers: list[dict[str, Any]]

    @classmethod
    def of(cls, execution: Execution, name: WarpName) -> State:
        """The state now; without registers, shared and tensor memory if the CTA is not resident."""
        warp = execution.find(name)
        registers: dict[tuple[str, int], RegisterValues] = {}
        for each in () if warp is None else registers_of(execution, warp):
            number = sum(known == each.name for known, _ in registers)
            registers[each.name, number] = each
        memories = {f"global {a.name}": (a.base, a.data.copy()) for a in execution.launch.device.memory.live()}
        if warp is not None:
            memories["shared"] = 0, warp.cta.shared.copy()
            for start, columns in warp.cta.tensor.allocations_of(warp.cta):
                memories[f"tensor from column {start}"] = (
                    0,
                    warp.cta.tensor.words[start : start + columns].copy().reshape(-1).view(np.uint8),
                )
        return cls(registers, memories, [] if warp is None else barriers_of(warp.cta))


def differences(before: State, after: State) -> list[dict[str, Any]]:
    """What differs, one row for each register, each memory and each barrier."""
    found: list[dict[str, Any]] = []
    for key, new in after.registers.items():
        old = before.registers.get(key)
        lanes = [lane for lane in range(32) if old is None or (old.raw[lane], old.undefined[lane]) != (new.raw[lane], new.undefined[lane])]
        if lanes:
            values = [None if each is None else each.as_dict()["values"][lanes[0]] for each in (old, new)]
            found.append({"register": key[0], "lanes": ", ".join(ranges(lanes)), "before": values[0], "after": values[1]})
    for memory, (base, data) in after.memories.items():
        first, held = before.memories.get(memory, (base, np.zeros(0, np.uint8)))
        changed = np.flatnonzero(held != data) if held.shape == data.shape and first == base else np.arange(data.size)
        if changed.size:
            parts = ranges((changed + base).tolist()) if changed.size < 1 << 16 else [f"{changed[0] + base}-{changed[-1] + base}"]
            more = ["..."] if len(parts) > _MOST else []
            found.append({"memory": memory, "bytes": int(changed.size), "at": ", ".join([*parts[:_MOST], *more])})
    found += [{"barrier now": each} for each in after.barriers if each not in before.barriers]
    return found + [{"barrier before": each} for each in before.barriers if each not in after.barriers]
