"""What launches need to know of a program: found by the first launch, and kept for the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, ref

from ptxlab.engine.direct_services import direct_arrivals, direct_groups, direct_services
from ptxlab.engine.lowering.special_registers import CLOCKS
from ptxlab.engine.repetitions import repeatable
from ptxlab.isa.context import Wait
from ptxlab.isa.effects import Access, Alloc, Asynchronous, Dealloc, GridLaunch, Pipe, Space, TensorTransfer, Unit
from ptxlab.isa.native_ops import Atomic, CopyAsync, LaneAccess
from ptxlab.isa.operands import Op
from ptxlab.machine.launch.host_memory import CtaMemory, LaunchMemory
from ptxlab.machine.memory.tensor_memory import new_cells
from ptxlab.machine.warp.frame import Frame

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ptxlab.engine import Executable
    from ptxlab.engine.program import Program
    from ptxlab.machine.launch.configuration import LaunchConfiguration
    from ptxlab.machine.launch.prepared import Prepared
    from ptxlab.machine.warp.warp import Warp

__all__ = [
    "ProgramFacts",
    "copies_cells",
    "copies_words",
    "depends_on_schedule",
    "facts_of",
    "lets_others_start",
    "may_poll",
    "multiplies",
    "only_computes",
    "uses_tensor_memory",
]

T = TypeVar("T")

_MOST_FRAMES, _MOST_CTAS, _MOST_LAUNCHES = 8, 4, 2
"""So many frames of warps, and what so many CTAs and launches have in host memory, is kept for the next launch."""


class ProgramFacts:
    """Tables by register or by instruction, and results of functions of the program.

    Attributes
    ----------
    register_offsets, register_shadows, register_widths : by register
    specials : name, frame offset and bits of the special registers in the frame
    handlers : by instruction, the function of a service
    together : by instruction, whether it is a service that all lanes execute together
    frames, memories, launch_memories : of warps, CTAs and launches that have ended, for the next launch
    prepared : what launches with the last options begin with (`ptxlab.machine.launch.prepared`)
    changed : the indices of instructions that are not those for which code was compiled: it completes and repeats none of them
    tracked : whether the program follows undefined bits
    executed : whether a launch of the program has run to its end
    written : the sizes of the allocations that the last launch with workers reached, and the numbers of those that it wrote
    """

    def __init__(self, program: Program, compiled: Program) -> None:
        self.program = program
        changed = () if compiled is program else zip(program.ops, compiled.ops, strict=True)
        self.changed = frozenset(op.index for op, own in changed if op is not own)
        registers = program.registers
        self.register_offsets = [r.offset for r in registers]
        self.register_shadows = [r.shadow for r in registers]
        self.register_widths = [r.bits for r in registers]
        self.specials = [(r.special, r.offset, r.bits) for r in registers if r.special and r.offset >= 0]
        self.handlers = [self._handler(op) for op in program.ops]
        self.together = [op.row.kind == "service" and op.aligned for op in program.ops]
        self.frames: deque[Frame] = deque(maxlen=_MOST_FRAMES)
        self.memories: deque[CtaMemory] = deque(maxlen=_MOST_CTAS)
        self.tensor_memories: deque[NDArray[np.uint32]] = deque(maxlen=_MOST_CTAS)
        self.launch_memories: deque[LaunchMemory] = deque(maxlen=_MOST_LAUNCHES)
        self.prepared: tuple[ref[LaunchConfiguration], Prepared] | None = None
        self._found: dict[Hashable, Any] = {}
        self.tracked = program.tracked
        self.executed = False
        self.written: tuple[tuple[int, ...], frozenset[int]] | None = None

    @cached_property
    def direct(self) -> tuple[tuple[Op, ...], ...]:
        """The instructions that compiled code may complete: waits, arrivals, and groups of operations."""
        finds = direct_services, direct_arrivals, direct_groups
        return tuple(tuple(op for op in find(self.program) if op.index not in self.changed) for find in finds)

    def frame(self) -> Frame:
        """The registers and the context for a warp."""
        try:
            return self.frames.pop()
        except IndexError:
            return Frame(self.program.frame_bytes)

    def launch_memory(self, size: int) -> LaunchMemory:
        """What a launch with so many bytes of parameters has in host memory."""
        found: LaunchMemory | None
        try:  # another thread may take the last one
            found = self.launch_memories.pop()
        except IndexError:
            found = None
        if found is not None and len(found.parameters) == size:
            return found
        return LaunchMemory(self.program, size, bool(self.of(repeatable)))

    def memory(self, size: int) -> CtaMemory:
        """Host memory for a CTA with so many bytes of shared memory; reused first in, first out: launches use the same addresses."""
        try:
            found = self.memories.popleft()
        except IndexError:
            return CtaMemory(size)
        return found if len(found.shared) == size else CtaMemory(size)

    def tensor_cells(self, used: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
        """The cells of a tensor memory, which become the last of those that a launch has ``used``."""
        try:
            found = self.tensor_memories.popleft()
        except IndexError:
            found = new_cells()
        used.append(found)
        return found

    def of(self, find: Callable[..., T], *given: Hashable) -> T:
        """``find(program, *given)``, which depends on nothing else."""
        key = find, given
        try:
            found: T = self._found[key]
        except KeyError:
            found = self._found[key] = find(self.program, *given)
        return found

    def know(self, find: Callable[[Program], T], found: T) -> None:
        """Keep ``find(program)``, which has been found before."""
        self._found[find, ()] = found

    def each_of(self, find: Callable[[Program], Iterable[T]]) -> tuple[T, ...]:
        """What ``find(program)`` yields."""
        return self.of(_every, find)

    def _handler(self, op: Op) -> Callable[[Warp], Wait | None]:
        """The function of a service, which also passes on undefined bits where its operands may have some."""
        semantics: Callable[[Warp], Wait | None] = op.row.semantics
        flow, reads = op.row.flow, self.program.reads[op.index]
        itself = flow is not None and flow.through_memory and self.program.mirrored
        if flow is None or itself or not any(self.register_shadows[r] >= 0 for r in (*reads, *self.program.writes[op.index])):
            return semantics

        def handle(warp: Warp) -> Wait | None:
            origin = warp.origin(reads, warp.mask)
            masks = flow.masks(warp) if origin else None
            wait = semantics(warp)
            warp.set_undefined(op.operands[0], masks, origin)
            return wait

        return handle


def _every(program: Program, find: Callable[[Program], Iterable[T]]) -> tuple[T, ...]:
    return tuple(find(program))


_FACTS: WeakKeyDictionary[Executable, ProgramFacts] = WeakKeyDictionary()


def facts_of(program: Program, executable: Executable) -> ProgramFacts:
    """The facts about a program, kept with its executable; programs whose services differ may share one."""
    found = _FACTS.get(executable)
    if found is None or found.program is not program:
        found = _FACTS[executable] = ProgramFacts(program, executable.program)
    return found


def uses_tensor_memory(program: Program) -> bool:
    """Whether an instruction allocates, frees, reads or writes tensor memory."""
    return any(
        isinstance(op.effects, (Alloc, Dealloc, TensorTransfer))
        or (isinstance(op.effects, Asynchronous) and Space.TENSOR in op.effects.writes)
        for op in program.ops
    )


def only_computes(program: Program) -> bool:
    """Whether no instruction accesses memory or has an effect on other threads, and no register may have undefined bits."""
    return not program.tracked and all(op.effects is None for op in program.ops)


def lets_others_start(program: Program) -> bool:
    """Whether dependent grids can start before a kernel is complete."""
    return any(isinstance(op.effects, GridLaunch) for op in program.ops)


def multiplies(program: Program) -> bool:
    """Whether a kernel has copies to shared memory that are followed, and matrix instructions."""
    effects = [op.effects for op in program.ops if isinstance(op.effects, Asynchronous)]
    if program.loaded.matrices or program.loaded.cells or program.loaded.with_results:
        return True
    products = any(e.unit in (Unit.TENSOR_CORE, Unit.WARPGROUP) for e in effects)
    return products and (any(e.tensor_map for e in effects) or copies_words(program))


def copies_words(program: Program) -> bool:
    """Whether a kernel copies to shared memory without tensor maps: by threads, word by word, or contiguous bytes."""
    if program.loaded.stores or any(isinstance(native, CopyAsync) for native in program.natives.values()):
        return True
    effects = [op.effects for op in program.ops if isinstance(op.effects, Asynchronous)]
    return any(e.unit is Unit.TMA and e.writes & Space.SHARED and not e.tensor_map for e in effects)


def copies_cells(program: Program) -> bool:
    """Whether a kernel copies from shared to tensor memory."""
    return any(isinstance(op.effects, Asynchronous) and op.effects.pipe in (Pipe.COPY, Pipe.COPY_4X256B) for op in program.ops)


def depends_on_schedule(program: Program) -> bool:
    """Whether an instruction reads a clock or the number of the SM: what ran before decides what they are."""
    return any(register.special in CLOCKS or register.special == "%smid" for register in program.registers)


def may_poll(program: Program) -> bool:
    """Whether an instruction reads device memory in a way in which one CTA can wait for another one: by a strong load or an atomic."""
    for index, native in program.natives.items():
        effects = program.ops[index].effects
        strong = isinstance(effects, Access) and effects.order.strong
        reads = (isinstance(native, Atomic) and native.destination >= 0) or (isinstance(native, LaneAccess) and not native.write)
        if strong and reads and getattr(native, "space", "") in ("generic", "global"):
            return True
    return False
