"""What the instructions of a kernel take, recorded and changed: descriptors, and tensor maps in memory.

Kernels compute descriptors as they run. An instruction is therefore given another context of its warp, in which the values differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptxlab.descriptors import TENSOR_MAP_BYTES
from ptxlab.engine.program import Program
from ptxlab.isa.effects import Asynchronous, Space, Unit
from ptxlab.isa.operands import Op

__all__ = [
    "INSTRUCTION",
    "METADATA",
    "SCALES_A",
    "SCALES_B",
    "SOURCE",
    "A",
    "B",
    "Taken",
    "changed",
    "copies",
    "products",
    "record",
    "tensor_copies",
    "with_handler",
]

A, B, INSTRUCTION, METADATA, SCALES_A, SCALES_B = 1, 2, 3, 4, 5, 6
"""The positions of both matrix descriptors, of the instruction descriptor, and of the addresses of metadata and scale factors among the
operands that `tcgen05.mma` fetches.

The matrix descriptors of `wgmma` are its operands 1 and 2.
"""
_WGMMA = {1: A, 2: B}
SOURCE = 1
"""The position of the descriptor of `tcgen05.cp`."""
Values = tuple[int, ...]


@dataclass
class Taken:
    """What was taken, by instruction.

    Attributes
    ----------
    values : of each product the descriptors and addresses, in order of execution: issuing agent, instruction, values by position
    maps : of each tensor copy its maps
    """

    values: list[tuple[Any, int, dict[int, int]]] = field(default_factory=list)
    maps: dict[int, list[bytes]] = field(default_factory=dict)

    def distinct(self, op: int, position: int) -> list[int]:
        """The values that an instruction takes at a position."""
        return list(dict.fromkeys(values[position] for _, index, values in self.values if index == op and position in values))


Change = Callable[[Any, dict[int, int]], dict[int, int]]
"""From the context of a warp, and values by position, to the values in their place."""


class _Context:
    """The context of a warp, with other values."""

    repeats = False
    """Compiled code would take the values of the registers."""

    def __init__(self, warp: Any, change: Change, of_map: Callable[[int, bytes], bytes] | None) -> None:
        self._warp, self._change, self._of_map = warp, change, of_map

    def __getattr__(self, name: str) -> Any:
        return getattr(self._warp, name)

    @property
    def issued(self) -> int:
        return int(self._warp.issued)

    @issued.setter
    def issued(self, lanes: int) -> None:
        self._warp.issued = lanes

    def fetch(self, operands: Any, lane: int) -> Values:
        """The operands of tcgen05.mma."""
        found: Values = self._warp.fetch(operands, lane)
        if self._of_map is not None:
            return found
        values = self._change(self._warp, dict(enumerate(found)))
        return tuple(values[i] for i in range(len(found)))

    def uniform(self, operand: int, bits: int) -> int:
        """The operands of wgmma."""
        found: int = self._warp.uniform(operand, bits)
        if bits != 64 or operand not in _WGMMA:
            return found
        return self._change(self._warp, {_WGMMA[operand]: found})[_WGMMA[operand]]

    def lane_value(self, operand: Any, bits: int, lane: int) -> int:
        """The descriptor of tcgen05.cp."""
        found: int = self._warp.lane_value(operand, bits, lane)
        if bits != 64 or self._of_map is not None or operand is not self._warp.op.operands[SOURCE]:
            return found
        return self._change(self._warp, {SOURCE: found})[SOURCE]

    @property
    def machine(self) -> Any:
        return self._warp.machine if self._of_map is None else _Machine(self._warp, self._of_map)


class _Machine:
    """The machine of a warp, which reads other tensor maps."""

    def __init__(self, warp: Any, of_map: Callable[[int, bytes], bytes]) -> None:
        self._warp, self._of_map = warp, of_map

    def __getattr__(self, name: str) -> Any:
        return getattr(self._warp.machine, name)

    def read_generic(self, warp: Any, address: int, size: int, cta: Any) -> Any:
        """Tensor maps are all that a tensor copy reads so."""
        found = self._warp.machine.read_generic(self._warp, address, size, cta)
        if size != TENSOR_MAP_BYTES:
            return found
        return np.frombuffer(self._of_map(self._warp.op.index, found.tobytes()), np.uint8)


def products(program: Program) -> list[Op]:
    """The matrix instructions with operands in shared memory."""
    return [op for op in program.ops if isinstance(op.effects, Asynchronous) and _multiplies(op)]


def _multiplies(op: Op) -> bool:
    effects = op.effects
    assert isinstance(effects, Asynchronous)
    if effects.unit is Unit.WARPGROUP:
        return True
    return effects.unit is Unit.TENSOR_CORE and any(name == "b-desc" for name, _ in op.row.operands)


def copies(program: Program) -> list[Op]:
    """The tensor copies to shared memory."""
    return [op for op in program.ops if isinstance(op.effects, Asynchronous) and op.effects.tensor_map and op.effects.writes & Space.SHARED]


def tensor_copies(program: Program) -> list[Op]:
    """The copies from shared to tensor memory."""
    return [
        op
        for op in program.ops
        if isinstance(op.effects, Asynchronous) and op.effects.unit is Unit.TENSOR_CORE and any(n == "s-desc" for n, _ in op.row.operands)
    ]


def changed(
    program: Program, ops: Iterable[Op], change: Change | None = None, of_map: Callable[[int, bytes], bytes] | None = None
) -> Program:
    """The program in which these instructions take other values."""
    made = list(program.ops)
    for op in ops:
        made[op.index] = with_handler(op, change or (lambda _, values: values), of_map)
    return replace(program, ops=made)


def with_handler(op: Op, change: Change, of_map: Callable[[int, bytes], bytes] | None = None, **fields: Any) -> Op:
    """The instruction, which takes other values; ``fields`` are other attributes of it."""
    original = op.row.semantics

    def handler(warp: Any) -> Any:
        return original(_Context(warp, change, of_map))

    row = replace(op.row, semantics=handler)
    given = {"q": op.q, "operands": op.operands, **fields}
    return Op(op.index, op.opcode, row, given["q"], given["operands"], op.guard, op.line, op.column, op.targets)


def record(run: Callable[[Program], object], program: Program) -> Taken:
    """Run a kernel, and note what its products and copies take."""
    taken = Taken()

    def note(warp: Any, values: dict[int, int]) -> dict[int, int]:
        agent = (warp.cta.ctaid, warp.warp_id)
        last = taken.values[-1] if taken.values else None
        if last is not None and last[:2] == (agent, warp.op.index) and not set(last[2]) & set(values):
            last[2].update(values)
        else:
            taken.values.append((agent, warp.op.index, dict(values)))
        return values

    def note_map(op: int, raw: bytes) -> bytes:
        known = taken.maps.setdefault(op, [])
        if raw not in known:
            known.append(raw)
        return raw

    watched = changed(changed(program, [*products(program), *tensor_copies(program)], note), copies(program), of_map=note_map)
    run(watched)
    return taken
