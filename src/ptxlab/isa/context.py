"""The interface between instruction families and the machine. The machine implements it; families use no other part of the machine.

A service handler is called once for each execution of its instruction by converged lanes of a warp:
``handler(warp: WarpContext) -> Wait | None``. It reads operands through ``warp``, reaches memory and barriers through ``warp.cta`` and
``warp.machine``, and returns a `Wait` while the lanes cannot continue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Op, Resolved
from ptxlab.isa.repeating import RepeatedByCompiledCode

if TYPE_CHECKING:
    from ptxlab.isa.operations import AccessMarks, AsyncOperation, MemoryAccess
    from ptxlab.isa.operations.matrices import MatrixOperand
    from ptxlab.isa.operations.products import Product

__all__ = [
    "Cta",
    "Machine",
    "Mbarrier",
    "Misuse",
    "Supplied",
    "TensorMemory",
    "Wait",
    "WarpContext",
]

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
T = TypeVar("T")


class Misuse(Exception):
    """An error inside a handler or an asynchronous operation that has no `WarpContext`.

    The machine adds the position of the instruction and ends the launch.
    """

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields


class Supplied(ABC):
    """The ``on`` of a `Wait` that ends through the effects of other instructions.

    The report of a hang lists the warps that can still execute such an instruction.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def awaits(self) -> Supply:
        """The effect that ends the wait."""

    @abstractmethod
    def supplied_by(self, cta: Cta, warp: int) -> bool:
        """Return whether warp number ``warp`` of a CTA can end the wait."""

    @abstractmethod
    def advice(self) -> str:
        """Return the fix that the report of a hang shows if no warp ends the wait."""


@dataclass(slots=True)
class Wait:
    """Block the converged lanes until ``ready()``; then run the instruction again (``retry``) or continue after it.

    ``describe()`` returns a sentence and facts (name, value) for the report of a hang. If ``on`` has a list ``waiters``, the object ``on``
    wakes the lanes (`Machine.wake`); otherwise the scheduler polls ``ready``. If ``on`` has a method ``advice``, the report of a hang shows
    its result as the fix. ``expires``: if no other warp can run, the instruction runs again with ``WarpContext.expired`` set. It may then
    continue although the wait has not ended (the time limit of ``try_wait``).
    """

    ready: Callable[[], bool]
    describe: Callable[[], tuple[str, tuple[tuple[str, str], ...]]]
    retry: bool = False
    on: Any = None
    expires: bool = False


class Mbarrier(Protocol):
    """The state of one mbarrier object.

    All counts are signed; a phase completes when pending arrivals and transaction bytes are both zero.
    """

    @property
    def phase(self) -> int:
        """The phases that have completed."""

    @property
    def expected(self) -> int:
        """The arrivals that the next phase expects."""

    @property
    def pending(self) -> int:
        """The arrivals that are pending in the current phase."""

    @property
    def transactions(self) -> int:
        """The transaction count."""

    def arrive(self, count: int = 1) -> int:
        """Perform ``count`` arrivals and return the opaque state of the phase before them."""

    def expect_tx(self, count: int) -> None: ...
    def complete_tx(self, count: int) -> None: ...
    def completed(self, parity: int) -> bool:
        """Return whether the phase of this parity, the lowest bit, has completed (``try_wait.parity``)."""

    def passed(self, state: int) -> bool:
        """Return whether the phase of an opaque state has completed (``try_wait``)."""

    def awaited(self) -> None:
        """Record that lanes are about to wait for the object."""

    def observed(self) -> None:
        """Record that the running warp has observed a completed phase and continues."""


class TensorMemory(Protocol):
    """Tensor memory of one SM."""

    @property
    def words(self) -> U32:
        """The cells, uint32[512, 128]: [column, lane]."""

    def candidates(self, columns: int) -> Iterator[int]:
        """Yield the first columns of free ranges of this size, the preferred one first."""

    def allocate(self, columns: int, owner: Hashable, column: int | None = None) -> int | None:
        """Return the first column of a new allocation, or None if no range is free; ``column`` selects one of the `candidates`."""

    def deallocate(self, column: int, columns: int, owner: Hashable) -> str | None:
        """Free the columns; if that is not allowed, return the reason."""

    def owned(self, owner: Hashable) -> U8:
        """uint8[512]: 1 for each column that belongs to ``owner``. The array stays the same and is updated in place."""

    def allocations_of(self, owner: Hashable) -> tuple[tuple[int, int], ...]:
        """The allocations of ``owner`` as (first column, number of columns)."""

    def owner_of(self, column: int) -> Hashable | None: ...


class Cta(Protocol):
    """A resident CTA."""

    rank: int
    """``%cluster_ctarank``."""
    ctaid: tuple[int, int, int]
    shared: U8
    """Shared memory, indexed by the offset in the shared window; the reserved bytes come first."""
    shared_address: int
    """The host address of the first byte of shared memory."""
    threads: int
    exited: bool
    state: dict[Hashable, Any]
    """State that instruction families keep for the CTA (allocation permits, bulk groups ...)."""
    live_threads: int
    """Threads that have not exited."""
    named: Any
    """The barriers (``bar``) by number, 0-15."""
    group: Any
    """The cluster: its ``barrier`` and ``live_threads``."""

    @property
    def tensor_address(self) -> int:
        """The host address of the tensor memory of the SM."""

    def __hash__(self) -> int: ...

    @property
    def tensor(self) -> TensorMemory:
        """Tensor memory of the SM."""

    @property
    def cluster(self) -> tuple[Cta, ...]:
        """All CTAs of the cluster by rank."""

    @property
    def peer(self) -> Cta | None:
        """The other CTA of the pair (rank XOR 1), if the cluster has it."""

    def mbarrier(self, warp: WarpContext | None, offset: int) -> Mbarrier:
        """The initialised mbarrier at a window offset; a fault (B5xx) if there is none."""

    def live_mbarrier(self, offset: int) -> Mbarrier | None:
        """The initialised mbarrier object at a window offset, or None."""

    def new_mbarrier(self, offset: int, count: int) -> Mbarrier:
        """Initialise the mbarrier object at a window offset."""

    @property
    def mbarriers(self) -> Mapping[int, Mbarrier]:
        """The mbarrier objects that have been initialised and not invalidated, by their window offsets."""

    def drop_mbarrier(self, offset: int, op: Op) -> None:
        """Invalidate the mbarrier object at a window offset for ``mbarrier.inval``."""

    def changed(self) -> None:
        """Tell that something may have changed that executions depend on which compiled code repeats (`WarpContext.repeat`)."""


class Machine(Protocol):
    """One launch."""

    program: Any
    """The lowered program; ``ops`` are its instructions."""
    observed: bool
    """Whether an observer receives accesses (`AsyncOperation.accesses`, `WarpContext.access`)."""
    marks: AccessMarks | None
    """What marks accesses to device memory; None outside worker processes."""

    early_results: bool
    """Whether wgmma.mma_async writes D at issue: under ``eager``, in a program that uses D before it waits. Others cannot tell."""
    policy: str
    model: str
    target: str
    """The simulated architecture: that of the device if it has one, else that of the module."""
    progress: int
    """A counter. A handler increments it when it changes state that a warp may be waiting for."""

    additions: Any
    """Records floating-point additions for an observer (`watched`); None without such an observer."""
    registers: int | None
    """Registers per thread at the start of the kernel, which sets the size of the ``setmaxnreg`` pool; None if unknown."""

    def of_program(self, find: Callable[[Any], T]) -> T:
        """``find(program)``, which is called once for all launches of the program."""

    def perform_copies(self, cta: Cta, rows: NDArray[np.uint64]) -> None:
        """Perform deferred non-bulk copies (`WarpContext.take_copies`)."""

    def print(self, text: str) -> None:
        """Append to the kernel's output (``vprintf``)."""

    def cancel_cluster(self) -> tuple[int, int, int] | None:
        """Cancel the next cluster that has not started and return the coordinates of its first CTA; None if all have started."""

    def wake(self, waiters: list[Any]) -> None:
        """Resume the entries of ``waiters`` whose wait has ended and remove them from the list."""

    def take_over_waiters(self, address: int, wait_of: Callable[[int, Op], Wait]) -> None:
        """Block those whom compiled code has blocked (`ptxlab.engine.turns`), the first of whom is named by an address.

        ``wait_of`` says for what they wait: by `ptxlab.engine.context.Word.AWAITED_PHASE` and the instruction.
        """

    def enqueue(self, operation: AsyncOperation) -> None:
        """Issue an asynchronous operation; under ``eager`` it performs at once."""

    def unperformed(self, cta: Cta, queue: Hashable, thread: Hashable | None = None) -> Sequence[AsyncOperation]:
        """The operations issued in the cluster of a CTA that perform in a queue, and have not, in order.

        With a thread only its own; of those that compiled code has issued, which the machine does not know, only the last one.
        """

    def read_generic(self, warp: WarpContext, address: int, size: int, cta: Cta) -> U8:
        """Return the bytes at a generic, global or param address, after a bounds check; a view if possible."""

    def global_view(self, warp: WarpContext | None, address: int, size: int, write: bool, most: int = 0) -> U8:
        """Return a view of the bytes [address, address+size) of one global allocation; a fault (M4xx) if they are not inside one.

        If ``most`` is larger than ``size``, the view has so many bytes, or ends where the allocation ends.
        """

    def advice(self, operand: MatrixOperand, cta: Cta) -> str:
        """Which descriptor would read a matrix operand that this one cannot read; "" if no observer knows."""

    def shared_at(self, warp: WarpContext, address: int) -> tuple[Cta, int]:
        """Return the CTA and window offset of a shared-window or generic shared address; a fault if the CTA does not exist."""


class WarpContext(RepeatedByCompiledCode, Protocol):
    """One execution of a service instruction by converged lanes of a warp."""

    op: Op
    q: Qualifiers
    mask: int
    """Lanes that execute the instruction: the converged lanes whose guard predicate is true."""
    converged_mask: int
    cta: Cta
    machine: Machine
    warp_id: int
    """``%warpid``."""
    expired: bool
    """The time limit of the wait has passed (`Wait.expires`)."""
    retried: Wait | None
    """The wait with ``retry`` after which the instruction runs again; None if it does not."""
    state: dict[Hashable, Any]
    """State that instruction families keep for the warp."""
    known: dict[Any, Any]
    """State that instruction families keep for this instruction in this launch."""
    live: int
    """Lanes of the warp that have not exited, diverged or not."""
    issued: int
    """Lanes that have issued operations that a tcgen05.commit tracks."""
    rows: U32
    """The warp's 32-bit registers, uint32[row, lane]. An asynchronous operation may read and write them later."""

    def row_numbers(self, operand: Resolved | int) -> NDArray[np.intp]:
        """Return the indices in ``rows`` of the 32-bit registers of a vector."""

    def row_bytes(self, position: int) -> bytes:
        """Return the operand's values in all lanes as bytes, to compare with another warp; empty for a constant."""

    def undefined(self, operand: Resolved | int) -> NDArray[Any]:
        """Masks of the undefined bits of the elements of an operand, [elements, 32]: zeros where all bits are defined."""

    def origins_of(self, operand: Resolved | int) -> set[int]:
        """Where the undefined bits of an operand in the executing lanes come from."""

    def set_undefined(self, operand: Resolved, masks: NDArray[Any] | None, origin: int, mask: int | None = None) -> None:
        """Give registers undefined bits with an origin, in the executing lanes or in those of ``mask``. None: they are defined."""

    def lanes(self) -> NDArray[np.intp]:
        """Indices of the lanes in ``mask``."""

    def values(self, operand: Resolved | int, bits: int = 32) -> NDArray[Any]:
        """The operand in all 32 lanes, unsigned of ``bits`` (1: bool). An int is a position in ``op.operands``. Do not modify the array."""

    def uniform(self, operand: Resolved | int, bits: int = 32) -> int:
        """The operand's value, which must be the same in all executing lanes; otherwise a fault (R8xx)."""

    def common(self, operand: Resolved | int, bits: int = 32) -> int | None:
        """The operand's value if it is the same in all executing lanes, else None."""

    def common_address(self, operand: Resolved | int) -> int | None:
        """Base plus offset of a bracketed operand if it is the same in all executing lanes, else None."""

    def take_copies(self) -> NDArray[np.uint64]:
        """Remove from the warp's buffer the executing lanes' non-bulk copies that no group or mbarrier tracks; oldest first."""

    def lane_value(self, operand: Resolved | int, bits: int, lane: int) -> int: ...
    def loaded_from(self, lane: int) -> NDArray[np.uint64]:
        """Return from where a lane has loaded each word that the instruction stores; zeros for words whose origin is not known.

        An address in global memory, as in `ptxlab.engine.context.Word.COPIED`. Empty if no word is known.
        """

    def fetch(self, operands: Sequence[tuple[Resolved, int]], lane: int) -> tuple[int, ...]:
        """Return several operands, each with its number of bits, in one lane; 0 for an absent one.

        Each execution of an instruction must pass the same operands.
        """

    def local_memory(self, lane: int) -> U8:
        """The local memory of a thread, as a view."""

    def addresses(self, operand: Resolved | int) -> NDArray[np.uint64]:
        """Base plus offset of a bracketed operand in all lanes."""

    def uniform_address(self, operand: Resolved | int) -> int: ...
    def write(self, operand: Resolved | int, values: NDArray[Any] | int, bits: int = 32) -> None:
        """Write a destination register in the executing lanes; `Unused` is ignored."""

    def one_lane(self) -> int:
        """Return the executing lane if there is only one. If several lanes execute, the caller handles each of them."""

    def access(self, *accesses: MemoryAccess) -> None:
        """Report to observers the bytes that the instruction itself reads or writes."""

    def multiplied(self, details: Callable[[], Product]) -> None:
        """Report to observers the product that the instruction has computed."""

    def spin(self) -> None:
        """End the warp's time slice soon: the thread is polling (a failed ``test_wait``, ``nanosleep``)."""

    def report(self, code: str, message: str, **fields: Any) -> None:
        """Add a finding at this instruction and continue."""

    def retract(self, code: str) -> None:
        """Leave out the finding with a code at this instruction, made or to come: this execution shows that it is none."""

    def fault(self, code: str, message: str, **fields: Any) -> NoReturn:
        """End the launch with an error at this instruction."""
