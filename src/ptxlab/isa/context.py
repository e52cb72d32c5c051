"""The interface between instruction families and the machine. The machine implements it; families depend on nothing else of the machine.

A service handler is called once for each execution of its instruction by converged lanes of a warp:
``handler(warp: WarpContext) -> Wait | None``. It reads operands through ``warp``, reaches memory and barriers through ``warp.cta`` and
``warp.machine``, and returns a `Wait` while the lanes cannot continue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.effects import Supply
from ptxlab.isa.operands import Op, Resolved
from ptxlab.native import address_of

__all__ = ["AsyncOperation", "Cta", "Machine", "Mbarrier", "MemoryAccess", "Misuse", "Supplied", "TensorMemory", "Wait", "WarpContext"]

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]


class Misuse(Exception):
    """A rule broken inside a handler or an asynchronous operation where no `WarpContext` is at hand.

    The machine adds the place and ends the launch.
    """

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields


class Supplied(ABC):
    """What a wait is ``on`` where the effects of other instructions end it: the report of a hang lists who can still execute one."""

    __slots__ = ()

    @property
    @abstractmethod
    def awaits(self) -> Supply:
        """What is missing."""

    @abstractmethod
    def supplied_by(self, cta: Cta, warp: int) -> bool:
        """Whether a warp of a CTA can end the wait."""

    @abstractmethod
    def advice(self) -> str:
        """What to do if nobody does."""


@dataclass(slots=True)
class Wait:
    """Block the converged lanes until ``ready()``; then run the instruction again (``retry``) or continue after it.

    ``describe()`` says what is awaited, for the report of a hang: a sentence and facts in reading order. An ``on`` that has a list
    ``waiters`` wakes the lanes itself (`Machine.wake`); otherwise the scheduler polls ``ready``. An ``on`` that has a method ``advice``
    says what to do if the wait never ends. ``expires``: where nothing else can run, the instruction is run again with
    ``WarpContext.expired`` set, and may continue without what it waited for (the time limit of ``try_wait``).
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

    phase: int
    expected: int
    pending: int
    transactions: int

    def arrive(self, count: int = 1) -> int:
        """Arrive; returns the opaque state of the phase arrived on."""

    def expect_tx(self, count: int) -> None: ...
    def complete_tx(self, count: int) -> None: ...
    def completed(self, parity: int) -> bool:
        """Whether the phase of this parity has completed (``try_wait.parity``)."""

    def observed(self) -> None:
        """The running warp has seen that a phase is complete, and continues."""


class TensorMemory(Protocol):
    """Tensor memory of one SM."""

    words: U32
    """The cells, uint32[512, 128]: [column, lane]."""

    def candidates(self, columns: int) -> Iterator[int]:
        """Columns where a free range of this size starts, in the order of preference."""

    def allocate(self, columns: int, owner: Hashable, column: int | None = None) -> int | None:
        """First column of a new allocation, None when none is free now; ``column`` asks for a place that `candidates` named."""

    def deallocate(self, column: int, columns: int, owner: Hashable) -> str | None:
        """Release; or the reason why that is wrong."""

    def owned(self, owner: Hashable) -> U8:
        """uint8[512]: 1 where the column belongs to ``owner``; one array for the owner's life, changed in place."""

    def allocations_of(self, owner: Hashable) -> tuple[tuple[int, int], ...]:
        """What ``owner`` holds, as (first column, columns)."""

    def owner_of(self, column: int) -> Hashable | None: ...


class Cta(Protocol):
    """A resident CTA."""

    rank: int
    """``%cluster_ctarank``."""
    ctaid: tuple[int, int, int]
    shared: U8
    """Shared memory by window offset (the reserved bytes stand in front)."""
    shared_address: int
    tensor_address: int
    """Host addresses of the first byte of shared memory, and of the tensor memory of the SM."""
    threads: int
    exited: bool
    state: dict[Hashable, Any]
    """Room for instruction families to keep what belongs to the CTA (allocation permits, bulk groups ...)."""
    live_threads: int
    """Threads that have not exited."""
    named: list[Any]
    """The barriers 0-15 (``bar``)."""
    group: Any
    """The cluster: its ``barrier`` and ``live_threads``."""

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
        """The initialised mbarrier at a window offset; a fault (B5xx) where there is none."""

    def live_mbarrier(self, offset: int) -> Mbarrier | None:
        """The mbarrier object whose state stands at a window offset, if there is one."""

    def new_mbarrier(self, offset: int, count: int) -> Mbarrier:
        """Initialise the mbarrier object at a window offset."""

    def drop_mbarrier(self, offset: int, op: Op) -> None:
        """Invalidate the mbarrier object at a window offset, as an instruction asks."""


class MemoryAccess:
    """Bytes that an operation reads or writes: ranges of host memory, of shared, global or tensor memory alike.

    ``starts`` are host addresses and ``sizes`` bytes, one for each range or one for all. ``signal`` is the mbarrier whose phase completes
    when this part is done, None where something else reports it. ``reads``: what is written is read before. ``where`` is what compiled
    code wants to know: the addresses of the two arrays, the step from one size to the next, and the number of ranges.
    """

    __slots__ = ("reads", "signal", "sizes", "starts", "where", "write")

    def __init__(
        self, starts: NDArray[np.uint64], sizes: NDArray[np.uint32], write: bool, signal: Mbarrier | None = None, reads: bool = False
    ) -> None:
        self.starts = starts
        self.sizes = sizes
        self.write = write
        self.signal = signal
        self.reads = reads
        self.where = address_of(starts), address_of(sizes), 4 if len(sizes) > 1 else 0, len(starts)

    @classmethod
    def of(cls, memory: NDArray[Any], write: bool, signal: Mbarrier | None = None) -> MemoryAccess:
        """All bytes of an array whose last axis is contiguous."""
        starts = np.array([address_of(memory)], np.uint64)
        for count, stride in zip(memory.shape[:-1], memory.strides[:-1], strict=True):
            starts = (starts[:, None] + (np.arange(count) * stride).astype(np.uint64)).reshape(-1)
        return cls(starts, np.array([memory.shape[-1] * memory.itemsize], np.uint32), write, signal)

    def signalled(self, signal: Mbarrier) -> MemoryAccess:
        """The same bytes, whose completion an mbarrier reports."""
        made = MemoryAccess.__new__(MemoryAccess)
        made.starts, made.sizes, made.where = self.starts, self.sizes, self.where
        made.write, made.reads, made.signal = self.write, self.reads, signal
        return made

    @classmethod
    def together(cls, accesses: Iterable[MemoryAccess]) -> tuple[MemoryAccess, ...]:
        """The same reads as one, and the same writes; none of them signals."""
        found = list(accesses)
        made = []
        for write in (False, True):
            parts = [t for t in found if t.write is write]
            if parts:
                sizes = [np.broadcast_to(t.sizes, t.starts.shape) for t in parts]
                starts = np.concatenate([t.starts for t in parts])
                made.append(cls(starts, np.concatenate(sizes), write, reads=any(t.reads for t in parts)))
        return tuple(made)


@dataclass(slots=True, eq=False)
class AsyncOperation:
    """An asynchronous operation between issue and completion.

    ``perform`` moves the data and signals completion; the policy decides when it is called. Operations with the same ``queue`` perform in
    order of issue (all tcgen05 operations of a CTA or pair); those with queue None in any order. One with ``after``, which may be empty,
    only reports the completion of others: it performs as soon as they are done.
    """

    name: str
    op: Op
    cta: Cta
    perform: Callable[[], None]
    queue: Hashable | None = None
    thread: Hashable | None = None
    after: tuple[AsyncOperation, ...] | None = None
    done: bool = field(default=False)
    accesses: Callable[[], Iterable[MemoryAccess]] | None = None
    """What it reads and writes, for observers; asked when it is issued."""
    agent: Any = None
    """An observer's."""


class Machine(Protocol):
    """One launch."""

    program: Any
    """What is executed; ``ops`` are its instructions."""
    observed: bool
    """Whether an observer wants to know of accesses (`AsyncOperation.accesses`, `WarpContext.access`)."""

    policy: str
    model: str
    target: str
    """The architecture that executes: of the device, if it has one, else of the module."""
    progress: int
    """Grows with every change that a waiting warp may be waiting for; a handler that changes such state adds to it."""

    additions: Any
    """Where additions of floats are noted (`watched`), None if nobody asks."""
    registers: int | None
    """Registers per thread at the start of the kernel, None if nobody said: what the pool of ``setmaxnreg`` holds."""

    def perform_copies(self, cta: Cta, rows: NDArray[np.uint64]) -> None:
        """Perform deferred non-bulk copies (`WarpContext.take_copies`)."""

    def print(self, text: str) -> None:
        """Add to what the kernel has printed (``vprintf``)."""

    def cancel_cluster(self) -> tuple[int, int, int] | None:
        """Take the next cluster that has not started, which then never starts: the coordinates of its first CTA; None: all have."""

    def wake(self, waiters: list[Any]) -> None:
        """Continue those in a list ``waiters`` whose wait is over; the list keeps the others."""

    def enqueue(self, operation: AsyncOperation) -> None:
        """Issue an asynchronous operation; under ``eager`` it performs at once."""

    def read_generic(self, warp: WarpContext, address: int, size: int, cta: Cta) -> U8:
        """Bytes at a generic, global, or param address, checked; a view where that is possible."""

    def global_view(self, warp: WarpContext | None, address: int, size: int, write: bool) -> U8:
        """The bytes [address, address+size) of one global allocation as a view; a fault (M4xx) if they are not inside it."""

    def shared_at(self, warp: WarpContext, address: int) -> tuple[Cta, int]:
        """The CTA and window offset that a shared-window or generic shared address means; a fault if no such CTA."""


class WarpContext(Protocol):
    """One execution of a service instruction by converged lanes of a warp."""

    op: Op
    q: Qualifiers
    mask: int
    """Lanes that execute it: the converged lanes without those whose guard is false."""
    converged_mask: int
    cta: Cta
    machine: Machine
    warp_id: int
    """``%warpid``."""
    expired: bool
    """The time limit of the wait has passed (`Wait.expires`)."""
    retried: bool
    """The instruction runs again after a wait with ``retry``."""
    state: dict[Hashable, Any]
    """Room for instruction families to keep what belongs to the warp."""
    known: dict[Any, Any]
    """Room for instruction families to keep what belongs to this instruction in this launch."""
    live: int
    """Lanes of the warp that have not exited, diverged or not."""
    rows: U32
    """The warp's 32-bit registers, uint32[row, lane]; what an asynchronous operation may read and write later."""

    def row_numbers(self, operand: Resolved | int) -> NDArray[np.intp]:
        """Where the 32-bit registers of a vector stand in ``rows``."""

    def row_bytes(self, position: int) -> bytes:
        """The operand in all lanes, as bytes to compare with those of another warp; empty for a constant."""

    def unsure(self, operand: Resolved | int) -> tuple[int, ...]:
        """Registers of a vector that some path leaves without a value."""

    def require_defined(self, registers: tuple[int, ...]) -> None:
        """A fault (R802) unless these registers have a value in the executing lanes."""

    def lanes(self) -> NDArray[np.intp]:
        """Indices of the lanes in ``mask``."""

    def values(self, operand: Resolved | int, bits: int = 32) -> NDArray[Any]:
        """The operand in all 32 lanes, unsigned of ``bits`` (1: bool); an int is a position in ``op.operands``. Not to be written to."""

    def uniform(self, operand: Resolved | int, bits: int = 32) -> int:
        """The operand's value where it must be the same in all executing lanes; a fault (R8xx) where it is not."""

    def common(self, operand: Resolved | int, bits: int = 32) -> int | None:
        """The operand's value if it is the same in all executing lanes, else None."""

    def common_address(self, operand: Resolved | int) -> int | None:
        """Base plus offset of a bracketed operand if it is the same in all executing lanes, else None."""

    def take_copies(self) -> NDArray[np.uint64]:
        """The deferred non-bulk copies of the executing lanes that nothing tracks yet, oldest first; they leave the warp's buffer."""

    def lane_value(self, operand: Resolved | int, bits: int, lane: int) -> int: ...
    def fetch(self, operands: Sequence[tuple[Resolved, int]], lane: int) -> tuple[int, ...]:
        """Several operands of their bits in one lane, 0 for an absent one. Each instruction asks always for the same."""

    def local_memory(self, lane: int) -> U8:
        """The local memory of a thread, as a view."""

    def addresses(self, operand: Resolved | int) -> NDArray[np.uint64]:
        """Base plus offset of a bracketed operand in all lanes."""

    def uniform_address(self, operand: Resolved | int) -> int: ...
    def write(self, operand: Resolved | int, values: NDArray[Any] | int, bits: int = 32) -> None:
        """Write a destination register in the executing lanes; `Unused` is ignored."""

    def one_lane(self) -> int:
        """The only executing lane; for instructions issued by one thread when several execute, each in turn is the caller's business."""

    def access(self, *accesses: MemoryAccess) -> None:
        """Report bytes that the instruction itself reads or writes to observers."""

    def spin(self) -> None:
        """The instruction found nothing new (a failed ``test_wait``, ``nanosleep``): end the slice soon."""

    def report(self, code: str, message: str, **fields: Any) -> None:
        """Add a finding at this instruction and go on."""

    def fault(self, code: str, message: str, **fields: Any) -> NoReturn:
        """End the launch with an error at this instruction."""
