"""A warp: its context and registers, its groups of converged lanes, and what a service handler reads and changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.engine.context import Context, Word
from ptxlab.isa.address_space import SHARED_RANK_SHIFT
from ptxlab.isa.catalogue import Qualifiers
from ptxlab.isa.context import MemoryAccess, Wait
from ptxlab.machine.warp._registers import ALL_LANES, Registers, lanes_of
from ptxlab.native import address_of

if TYPE_CHECKING:
    from ptxlab.machine.launch.cta import CtaState
    from ptxlab.machine.launch.launch import Launch

__all__ = ["ALL_LANES", "CONVERGE", "RUN", "WAIT", "ConvergedLanes", "Warp", "context_words", "lanes_of"]

RUN, WAIT, CONVERGE = 0, 1, 2
"""The state of a group of converged lanes: it can run; it waits for a `Wait`; it stands at an instruction until other lanes arrive."""

_PENDING_COUNT = int(Word.PENDING_COUNT)
_NO_ROWS = np.zeros((0, 3), np.uint64)
_NO_BYTES = np.zeros(0, np.uint8)


def context_words(launch: Launch, cta: CtaState) -> NDArray[np.uint64]:
    """The context's words that are the same in all warps of a CTA."""
    words = Context().words
    words[Word.SHARED] = address_of(cta.shared)
    words[Word.SHARED_SIZE] = len(cta.shared)
    words[Word.SHARED_RANK] = cta.rank << SHARED_RANK_SHIFT
    words[Word.CLUSTER] = address_of(cta.group.table)
    words[Word.CLUSTER_SIZE] = len(cta.group.table)
    words[Word.PARAM] = address_of(launch.parameter_bytes)
    words[Word.PARAM_SIZE] = len(launch.parameter_bytes)
    words[Word.ALLOCATIONS] = address_of(launch.allocations)
    words[Word.ALLOCATION_COUNT] = len(launch.allocations)
    words[Word.SYMBOLS] = address_of(launch.symbol_table)
    words[Word.TENSOR] = address_of(cta.tensor.words)
    words[Word.TENSOR_OWNED] = address_of(cta.owned)
    return words


class ConvergedLanes:
    """A group of lanes of one warp that execute together, at one program counter.

    ``op`` is the instruction that the group stands at (``CONVERGE``) or waits in (``WAIT``), and ``active`` the lanes that execute it.
    ``again`` says that the handler must be called (again) before the group continues. ``turn`` grows with every slice used up, so that
    the other groups of the warp run while one spins.
    """

    __slots__ = ("active", "again", "expired", "mask", "op", "pc", "retried", "state", "turn", "wait", "warp")

    def __init__(self, warp: Warp, pc: int, mask: int, turn: int = 0) -> None:
        self.warp = warp
        self.pc = pc
        self.mask = mask
        self.turn = turn
        self.state = RUN
        self.wait: Wait | None = None
        self.op = -1
        self.active = 0
        self.again = False
        self.expired = False
        self.retried = False


class Warp(Registers):
    """One warp of a resident CTA; it is also the `ptxlab.isa.WarpContext` of the service that it executes."""

    __slots__ = (
        "context",
        "converged",
        "converged_mask",
        "cta",
        "expired",
        "live",
        "local",
        "machine",
        "q",
        "queued",
        "retried",
        "slice",
        "spun",
        "state",
        "threads",
        "warp_id",
        "words",
    )  # fmt: skip

    q: Qualifiers

    def __init__(self, launch: Launch, cta: CtaState, index: int, mask: int, frame: NDArray[np.uint8]) -> None:
        super().__init__(launch, cta.rank << SHARED_RANK_SHIFT, frame)
        self.machine = launch
        self.cta = cta
        self.warp_id = index
        self.threads = mask
        self.live = mask
        self.converged_mask = 0
        self.converged = [ConvergedLanes(self, 0, mask)]
        self.queued = False
        self.spun = False
        self.expired = self.retried = False
        self.slice = 0
        self.local: NDArray[np.uint8] | None = None
        self.state: dict[Hashable, Any] = {}
        self.context = Context()
        self.words = self.context.words.data.cast("B").cast("q")
        self.context.keep.append(frame)
        self._fill_context()

    def _fill_context(self) -> None:
        words, launch = self.words, self.launch
        self.context.words[:] = self.cta.words
        words[Word.FRAME] = address_of(self._frame)
        words[Word.QUADRANT] = self.warp_id % 4
        words[Word.LIVE] = self.live
        words[Word.OBSERVE] = launch.observations.address
        if launch.additions is not None:
            launch.warps_started += 1
            words[Word.ADDITIONS] = address_of(launch.additions.table)
            words[Word.AGENT] = 32 * launch.warps_started
        if launch.program.local_bytes:
            self.local = local = np.zeros(launch.program.local_bytes * 32, np.uint8)
            words[Word.LOCAL] = address_of(local)
            words[Word.LOCAL_SIZE] = launch.program.local_bytes
        if launch.deferred:
            pending = np.zeros((launch.pending_capacity, 3), np.uint64)
            self.state["cp.async rows"] = pending
            words[Word.DEFERRED] = 1
            words[Word.PENDING] = address_of(pending)
            words[Word.PENDING_CAPACITY] = len(pending)
        if launch.observer is not None:
            launch.observer.fill(self)

    @property
    def known(self) -> dict[Any, Any]:
        """Data that the handler of the instruction keeps for this launch."""
        return self.launch.known[self.op.index]

    def local_memory(self, lane: int) -> NDArray[np.uint8]:
        """The local memory of a thread."""
        size = self.launch.program.local_bytes
        return _NO_BYTES if self.local is None else self.local[lane * size : (lane + 1) * size]

    def take_copies(self) -> NDArray[np.uint64]:
        """Remove the deferred copies of the executing lanes from the warp's buffer and return them."""
        count = self.words[_PENDING_COUNT]
        if not count:
            return _NO_ROWS
        rows: NDArray[np.uint64] = self.state["cp.async rows"]
        lanes = rows[:count, 2] >> np.uint64(16) & np.uint64(31)
        mine = (np.uint64(self.mask) >> lanes & np.uint64(1)).astype(bool)
        taken: NDArray[np.uint64] = rows[:count][mine]
        kept = rows[:count][~mine]
        rows[: len(kept)] = kept
        self.words[_PENDING_COUNT] = len(kept)
        return taken

    # --------------------------------------------------------------------------------------------------------- findings

    def spin(self) -> None:
        """Shorten the slice: the warp polls."""
        self.spun = True

    def access(self, *accesses: MemoryAccess) -> None:
        """Report to the observer the bytes that the instruction itself reads or writes."""
        if self.launch.observer is not None:
            self.launch.observer.accessed(self, accesses)

    def report(self, code: str, message: str, **fields: Any) -> None:
        """Add a finding at this instruction; the launch continues."""
        self.launch.reports.add(code, message, op=self.op, warp=self, mask=self.mask, **fields)

    def memory(self) -> bytes:
        """A copy of the registers and the local memory."""
        local = self.local
        return self._frame.tobytes() if local is None else self._frame.tobytes() + local.tobytes()

    def release(self) -> NDArray[np.uint8]:
        """Return the register file for reuse; the warp has ended."""
        return self._frame
