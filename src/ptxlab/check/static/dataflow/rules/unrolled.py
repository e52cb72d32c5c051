"""Rules on one execution of the kernel with its loops turned: addresses and descriptors of later turns, and stages of pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptxlab.check.static.dataflow._kernel import Kernel, Report, is_supplier, mbarrier_operand, of_class
from ptxlab.check.static.dataflow._point import Point
from ptxlab.check.static.dataflow._unrolled import Step
from ptxlab.check.static.dataflow._values import Value
from ptxlab.check.static.dataflow.rules import addresses, constants
from ptxlab.check.static.dataflow.rules._phases import Phases
from ptxlab.check.static.dataflow.rules._stages import Copies, Products
from ptxlab.check.static.dataflow.rules._written import Uncommitted, Unfenced
from ptxlab.isa.effects import MbarrierInit, MbarrierWait
from ptxlab.isa.native_ops import Atomic, LaneAccess

__all__ = ["RULES"]

Check = Callable[[Kernel, Step], Iterator[Report]]
_ELSEWHERE = ("global", "const", "param", "local")
"""State spaces with which the rules on shared memory have nothing to do."""


def _places(kernel: Kernel, step: Step) -> Iterator[Report]:
    """Accesses to shared memory that are misaligned, or outside of their variable."""
    threads = kernel.surely(step.threads)
    if not step.certain or not threads.any():
        return
    for access in addresses.accesses(kernel, step.point):
        if access.address.exact:
            report = addresses.wrong_place(kernel, step.point, access, access.address.data, threads)
            if report is not None:
                yield report
                return


def _descriptors(kernel: Kernel, step: Step) -> Iterator[Report]:
    """Descriptors that are not legal."""
    check = constants.check_of(step.point)
    if check is None or not step.certain:
        return
    first = int(step.threads.argmax())
    values = {}
    for (name, _), value in zip(step.point.op.row.operands, step.point.operands, strict=False):
        if value is not None and (exact := value.of(first)) is not None:
            values[name] = exact
    for misuse in check(step.point.op, values, kernel.target, kernel.shared_end):
        yield Report(misuse.code, step.point.op, misuse.message, misuse.fields.get("fix", ""))


def _divided(kernel: Kernel, step: Step) -> Iterator[Report]:
    """Instructions with .aligned that part of a warp executes because other threads of it have left a loop."""
    point = step.point
    loop = kernel.program.blocks[point.block].loop
    if not step.certain or not point.op.aligned or point.op.effects is None or loop < 0:
        return
    threads = kernel.flow.threads
    begun = kernel.flow.reached[loop]
    if begun is None or not threads.exact:
        return
    for warp in np.unique(threads.warp[step.reached]):
        inside = threads.warp == warp
        count, whole = int((step.reached & inside).sum()), int((begun & inside).sum())
        if count < whole:
            message = f"{point.op.short} is executed by {count} threads of warp {warp}, while the others have left the loop"
            fix = "let all threads of a warp turn the loop equally often"
            yield Report("H605", point.op, message, fix)
            return


class _Initialised:
    """Mbarriers of an array of which only others are initialised."""

    def __init__(self, kernel: Kernel) -> None:
        self.known: set[int] | None = set()
        for point in kernel.of(of_class(MbarrierInit)):
            offsets = kernel.shared_offsets(point, mbarrier_operand(point))
            self.known = None if offsets is None or self.known is None else self.known | offsets

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        address = mbarrier_operand(step.point) if self.known else None
        if not self.known or address is None or not _is_use(step, address):
            return
        offset = (address.of(int(step.threads.argmax())) or 0) & addresses.OFFSET_MASK
        if offset in self.known:
            return
        low, high, name = addresses.extent(kernel, address.root)
        if low <= offset < high and any(low <= each < high for each in self.known):
            message = f"there is no mbarrier object at shared offset {offset:#x}, in {name}: only others of it are initialised"
            fix = "execute mbarrier.init for each mbarrier of the array"
            yield Report("B503", step.point.op, message, fix, severity=None if step.certain else "warning")


class _Parities:
    """Mbarriers that complete phase after phase, while all waits there, again and again, are for one parity."""

    def __init__(self) -> None:
        self.waits: dict[int, dict[int, Step]] = {}
        """By the offset of the mbarrier and the parity: the last wait."""
        self.supplied: set[int] = set()
        """The mbarriers on which something has arrived since the last wait."""
        self.repeated: dict[int, int] = {}
        """How often such a wait has followed such an arrival."""
        self.initialised: set[int] = set()
        self.begun: set[int] = set()

    def __call__(self, kernel: Kernel, step: Step) -> Iterator[Report]:
        """Follow a step; what is found is known at the end."""
        point = step.point
        address, parity = mbarrier_operand(point), point.named("phaseParity")
        if address is None or not address.exact:
            return iter(())
        offset = (address.of(int(step.threads.argmax())) or 0) & addresses.OFFSET_MASK
        effect = point.op.effects
        if isinstance(effect, MbarrierInit):
            if offset in self.begun:
                self.initialised.add(offset)
            self.begun.add(offset)
        elif isinstance(effect, MbarrierWait):
            value = None if parity is None else parity.of(int(step.threads.argmax()))
            before = self.waits.setdefault(offset, {})
            if value in before and offset in self.supplied and before[value].point is point:
                self.repeated[offset] = self.repeated.get(offset, 0) + 1
            before[-1 if value is None else value & 1] = step
            self.supplied.discard(offset)
        elif is_supplier(point):
            self.supplied.add(offset)
        return iter(())

    def reports(self) -> Iterator[Report]:
        """What the whole execution shows."""
        for offset, count in self.repeated.items():
            parities = self.waits[offset]
            if count > 1 and len(parities) == 1 and -1 not in parities and offset not in self.initialised:
                ((parity, step),) = parities.items()
                message = f"each wait on the mbarrier at shared offset {offset:#x} is for parity {parity}, and its phases go on"
                yield Report("B522", step.point.op, message, "flip the parity after each phase that a thread has waited for")


def _is_use(step: Step, address: Value) -> bool:
    return address.exact and bool(address.root) and not isinstance(step.point.op.effects, MbarrierInit) and bool(step.threads.any())


def executions(kernel: Kernel) -> Iterator[Report]:
    """What the executions of instructions show."""
    every = (Copies(kernel), Products(kernel), Unfenced(kernel), Uncommitted(kernel))
    stages: list[Check] = [each for each in every if each.active]
    initialised, parities, phases = _Initialised(kernel), _Parities(), Phases(kernel)
    looking: dict[int, list[Check]] = {}
    execution = kernel.execution()
    for step in execution:
        index = step.point.op.index
        checks = looking.get(index)
        if checks is None:
            checks = looking[index] = _looking(kernel, step.point, [initialised, parities, phases], stages)
        for check in checks:
            yield from check(kernel, step)
    yield from parities.reports()
    yield from phases.reports(execution)


def _looking(kernel: Kernel, point: Point, mbarriers: list[Check], stages: list[Check]) -> list[Check]:
    """The checks that may have something to do with an instruction."""
    op = point.op
    found: list[Check] = []
    if next(addresses.accesses(kernel, point), None) is not None:
        found.append(_places)
    if constants.check_of(point) is not None:
        found.append(_descriptors)
    if op.aligned and op.effects is not None and kernel.program.blocks[point.block].loop >= 0:
        found.append(_divided)
    if mbarrier_operand(point) is not None:
        found += mbarriers
    native = kernel.program.natives.get(op.index)
    elsewhere = isinstance(native, LaneAccess | Atomic) and native.space in _ELSEWHERE
    if op.effects is not None or point.joins_warp or (native is not None and not elsewhere):
        found += stages
    return found


RULES = (executions,)
