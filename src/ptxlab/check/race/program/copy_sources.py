"""Whether what cp.async reads is ever written: most kernels copy from arrays that nobody writes, and there is nothing to watch.

Addresses are followed back to the kernel's parameters, and these name allocations. What comes from memory, or from anything but arithmetic,
may be an address of any allocation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ptxlab.engine.lowering.register_use import operand_registers
from ptxlab.isa.address_space import PARAM_BASE
from ptxlab.isa.effects import Access, Asynchronous, GridLaunch, GridWait, Space
from ptxlab.isa.native_ops import Atomic, Collective, CopyAsync, LaneAccess
from ptxlab.isa.operands import Addr, Group, Op, Resolved, SymbolAddress

if TYPE_CHECKING:
    from ptxlab.machine.launch.launch import Launch

__all__ = ["sources_change"]

_GLOBAL = ("global", "generic")


def sources_change(launch: Launch) -> bool:
    """Whether the launch may write an allocation that a cp.async of it reads, or a launch behind it may."""
    program = launch.program
    copied = [program.ops[index].operands[native.source] for index, native in program.natives.items() if isinstance(native, CopyAsync)]
    if not copied or any(isinstance(op.effects, GridWait | GridLaunch) or _stores(op) for op in program.ops):
        return bool(copied)
    flow = _Flow(launch)
    read = flow.allocations(copied)
    written = flow.allocations(_written(launch))
    return read is None or written is None or bool(read & written)


def _stores(op: Op) -> bool:
    """Whether a service writes global memory."""
    return op.row.kind == "service" and isinstance(op.effects, Access | Asynchronous) and Space.GLOBAL in op.effects.writes


def _written(launch: Launch) -> Iterator[Resolved]:
    """The addresses of what compiled code writes to global memory."""
    for index, native in launch.program.natives.items():
        if (isinstance(native, Atomic) or (isinstance(native, LaneAccess) and native.write)) and native.space in _GLOBAL:
            yield launch.program.ops[index].operands[native.address]


class _Flow:
    """Where the values of registers come from, all definitions of a register taken together."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._definitions: dict[int, list[Op]] = defaultdict(list)
        for op, writes in zip(launch.program.ops, launch.program.writes, strict=True):
            for register in writes:
                self._definitions[register].append(op)

    def allocations(self, addresses: Iterable[Resolved]) -> set[int] | None:
        """The bases of the allocations that addresses may lie in; None if they may lie anywhere."""
        program = self._launch.program
        found: set[int] = set()
        work: list[int] = []
        for address in addresses:
            if _has_symbol(address):
                return None
            work += operand_registers(address)
        seen = set(work)
        while work:
            for op in self._definitions[work.pop()]:
                native = program.natives.get(op.index)
                if isinstance(native, LaneAccess):
                    place = _parameter(op, native)
                    if place is None:
                        return None
                    found |= self._pointed(place, native.bits // 8 * native.count)
                elif (op.row.kind != "pure" and not isinstance(native, Collective)) or any(map(_has_symbol, op.operands)):
                    return None
                else:
                    new = [r for r in program.reads[op.index] if r not in seen and program.registers[r].bits > 1]
                    seen.update(new)
                    work += new
        return found

    def _pointed(self, place: int, size: int) -> set[int]:
        """The allocations that addresses among some bytes of the parameters lie in."""
        values = (int.from_bytes(self._launch.parameter_bytes[at : at + 8].tobytes(), "little") for at in range(place, place + size, 8))
        return {found.base for value in values if (found := self._launch.device.memory.find(value)) is not None}


def _has_symbol(operand: Resolved) -> bool:
    """Whether the address of a global variable is in an operand."""
    if isinstance(operand, Addr):
        return operand.base is None or _has_symbol(operand.base)
    if isinstance(operand, Group):
        return any(map(_has_symbol, operand.items))
    return isinstance(operand, SymbolAddress) and operand.space in ("global", "const")


def _parameter(op: Op, native: LaneAccess) -> int | None:
    """The offset of the kernel parameter that a load reads."""
    address = op.operands[native.address]
    if native.space != "param" or native.write or not isinstance(address, Addr):
        return None
    base = address.base
    return base.offset + address.offset - PARAM_BASE if isinstance(base, SymbolAddress) and base.space == "param" else None
