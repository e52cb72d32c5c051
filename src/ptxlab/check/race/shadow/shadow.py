"""Shadow memory: for every granule of memory the accesses that no later access has replaced."""

from __future__ import annotations

import ctypes
from dataclasses import field
from functools import cache
from itertools import count
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxlab import native
from ptxlab._digests import blake2b
from ptxlab._records import dataclass
from ptxlab.check.race.shadow._clocks_ir import DONE
from ptxlab.check.race.shadow._event_replay_ir import emit_drain, emit_replay
from ptxlab.check.race.shadow._spans_ir import emit_spans
from ptxlab.check.race.shadow._suspects_ir import emit_suspects
from ptxlab.check.race.shadow.copies_ir import emit_copied, emit_digest, emit_stored
from ptxlab.check.race.shadow.issue_ir import emit_issue, emit_issue_of_group
from ptxlab.check.race.shadow.shadow_ir import emit_shadow
from ptxlab.check.race.shadow.shadow_words import (
    AGENT_HEADER,
    NEAR,
    OBJECT_WORDS,
    OP_WORDS,
    REPORTED_WORDS,
    SUSPECT_WORDS,
    AgentWord,
    OpWord,
    StateWord,
)
from ptxlab.isa.operations import MemoryAccess
from ptxlab.machine.memory.global_memory import aligned_bytes, sparse_bytes
from ptxlab.native import address_of
from ptxlab.native.builder import Module

__all__ = ["ACCUMULATOR", "MEMORY_GRANULE", "TENSOR_GRANULE", "Object", "Shadow", "shadow_functions"]

MEMORY_GRANULE = 5, 0
"""log2 of the bytes of a granule, and of the bytes for each bit of its mask: 32 bytes, one bit for each byte."""
TENSOR_GRANULE = 7, 2
"""32 lanes of a column, one bit for each lane."""
_SPARSE = 1 << 22
"""Cells of so many bytes or more are of memory of which a launch may access little."""
_SUSPECTS = 4096
"""The number of granules that the largest copies access."""
_MOST_REPORTED = 64


_EXPORTS = "drain", "ranges", "group_step", "group_issue", "bulk_step", "digest", "replay", "issue", "issued", "copied", "stored"
_DRAINED, _DRAINED_AT = Struct("3Q"), 8 * StateWord.DRAINED
_ACCESSED, _ACCESSED_AT = Struct("6Q"), 8 * StateWord.ACCESSED
ACCUMULATOR, _ACCUMULATOR_AT = Struct("3Q"), 8 * StateWord.ACCUMULATOR
"""The words that say which accumulator was written last."""
_READY = int(StateWord.READY)
_QUICK_ROWS = 1 << 18
"""Rows that functions without optimisation record before optimised ones are compiled, which takes about as long."""
_ROWS_OF_ACCESS = 64
"""As many rows cost as much as an access of an asynchronous operation, which compiled code does not repeat without optimised functions."""


@cache
def _sources() -> str:
    """A digest of the modules that decide the code beside the packages that every key of the cache includes."""
    here = Path(__file__).parent
    clocks = [here.parent / "clocks" / f"{name}_clock.py" for name in ("mbarrier", "warpgroup")]
    files = sorted(here.glob("*.py")), [*clocks, here.parents[1] / "model.py"]
    return blake2b(b"".join(file.read_bytes() for group in files for file in group)).hexdigest()


def _request(opt: int) -> tuple[object, ...]:
    return "shadow", opt, _sources()


class _Compiled(NamedTuple):
    """The functions that Python calls, and the addresses of the others."""

    drain: Any
    ranges: Any
    group_step: Any
    group_issue: Any
    bulk_step: Any
    digest: Any
    replay: int
    issue: int
    issued: int
    copied: int
    stored: int


@cache
def shadow_functions(opt: int = 2) -> _Compiled:
    """The functions, compiled or from the cache."""
    library, state, word = native.compile_or_load(_request(opt), _EXPORTS, lambda: _ir(opt), opt=opt), ctypes.c_void_p, ctypes.c_uint64
    drain, ranges = library.function("drain", ctypes.c_int64, state), library.function("ranges", None, state)
    group_step, group_issue = (library.function(name, ctypes.c_int64, state, ctypes.c_int64) for name in _EXPORTS[2:4])
    bulk_step = library.function("bulk_step", None, state, ctypes.c_int64, state)
    digest = library.function("digest", word, word, state, word, word)
    return _Compiled(drain, ranges, group_step, group_issue, bulk_step, digest, *map(library.address, _EXPORTS[6:]))


def _ir(opt: int) -> str:
    module = Module()
    emit_suspects(module)
    emit_shadow(module)
    emit_spans(module)
    emit_drain(module)
    emit_replay(module, quick=not opt)
    emit_issue(module)
    emit_issue_of_group(module)
    emit_copied(module)
    emit_digest(module)
    emit_stored(module)
    return module.finish()


class _Functions:
    """The functions of a process: what compiles quickly, unless the cache has the optimised ones, until it has recorded many rows."""

    def __init__(self) -> None:
        is_kept = native.OBJECTS.read(native.object_key(*_request(2))) is not None
        self.compiled = shadow_functions(2 if is_kept else 0)
        self.are_quick = not is_kept
        left = np.array([_QUICK_ROWS], np.int64)
        self._left, self.left_address = left.data, address_of(left)

    @property
    def quick_rows(self) -> int:
        """Rows that functions without optimisation may still record."""
        return self._left[0]

    @quick_rows.setter
    def quick_rows(self, rows: int) -> None:
        self._left[0] = rows

    def recorded(self, rows: int) -> None:
        """So many further rows are recorded."""
        left = self._left[0] = self._left[0] - rows
        if left < 0:
            self.optimise()

    def optimise(self) -> None:
        """Use the optimised functions from now on: much has been recorded."""
        self.compiled = shadow_functions()
        self.are_quick = False
        self.quick_rows = -1  # quick functions that compiled code still has leave the rows


_functions = cache(_Functions)


@dataclass(slots=True, eq=False)
class Object:
    """Memory that is watched, with its ``number`` in the order in which a launch begins to watch.

    ``data`` are its host bytes. ``cells`` and ``further`` are the near and the further entries of its cells, uint64[granules, entries, 2].
    ``owner`` is the CTA, the tensor memory or the allocation.
    """

    data: NDArray[np.uint8]
    cells: NDArray[np.uint64]
    further: NDArray[np.uint64]
    granule: tuple[int, int]
    proxy_row: int
    owner: Any
    number: int
    written: NDArray[np.uint32] | None = None
    """The written bytes of each granule, for memory that has no value at first."""

    start: int = field(init=False)
    """The host address of the first byte."""

    def __post_init__(self) -> None:
        self.start = address_of(self.data)


class Shadow:
    """All watched memory of a launch, and the compiled functions on it.

    Attributes
    ----------
    state : the words that the compiled functions share (`StateWord`)
    header : those that say which agent runs (`AGENT_HEADER`), as bytes
    accumulator : those that say which accumulator was written last (`StateWord.ACCUMULATOR`), as bytes
    """

    def __init__(self, ops: NDArray[np.uint64], rules: NDArray[np.uint8]) -> None:
        self._functions = _functions()
        self.state: NDArray[np.uint64] = aligned_bytes(8 * StateWord.END).view(np.uint64)
        self.words = self.state.data.cast("B").cast("q")
        self._keep = ops, rules
        self._suspects: NDArray[np.uint64] = np.empty((_SUSPECTS, SUSPECT_WORDS), np.uint64)
        self._reported: NDArray[np.uint64] = np.empty((_MOST_REPORTED, REPORTED_WORDS), np.uint64)
        self._objects: list[Object] = []
        self._numbers = count()
        self._free: list[NDArray[np.uint64]] = []
        """Cells of objects that are no longer watched: to clear them costs less than new memory."""
        self._table: NDArray[np.uint64] = np.zeros((1, OBJECT_WORDS), np.uint64)
        self._address = address_of(self.state)
        self._bytes = self.state.data.cast("B")
        self.header = self._bytes[8 * StateWord.ROWS : 8 * StateWord.ROWS + AGENT_HEADER.size]
        self.accumulator = self._bytes[_ACCUMULATOR_AT : _ACCUMULATOR_AT + ACCUMULATOR.size]
        self.words[StateWord.OPS] = address_of(ops)
        self.words[StateWord.RULES] = address_of(rules)
        self.words[StateWord.SUSPECTS] = address_of(self._suspects)
        self.words[StateWord.SUSPECT_CAPACITY] = _SUSPECTS
        self.words[StateWord.REPORTED] = address_of(self._reported)
        self.words[StateWord.QUICK_ROWS] = self._functions.left_address

    @property
    def replay(self) -> int:
        """The address of the function that processes a warp's rows when it stops; 0 if there is none."""
        return self._functions.compiled.replay

    @property
    def repeated(self) -> tuple[int, int, int, int]:
        """The addresses of the functions that record what compiled code issues again.

        That is an operation on tensor memory, one of a warpgroup, or a copy to or from shared memory. 0 if there are none. Functions
        without optimisation are not given: they would stay in use.
        """
        compiled = self._functions.compiled
        return (0, 0, 0, 0) if self._functions.are_quick else (compiled.issue, compiled.issued, compiled.copied, compiled.stored)

    def serve(self, agent: memoryview) -> None:
        """Let compiled code process the rows of a warp; ``agent`` are its words (`AgentWord`)."""
        agent[AgentWord.REPLAY], agent[AgentWord.STATE] = self.replay, self._address

    # ---------------------------------------------------------------------------------------------------------- objects

    def watch(
        self, data: NDArray[np.uint8], granule: tuple[int, int], entries: int, proxy_row: int, owner: Any, fresh: bool = False
    ) -> Object:
        """Watch the bytes of a contiguous array, with four entries or more for a cell; ``fresh`` memory has no value yet."""
        granules = -(-data.nbytes >> granule[0])
        near, further = (self._empty((granules, count, 2)) for count in (NEAR, entries - NEAR))
        written = np.zeros(granules, np.uint32) if fresh else None
        made = Object(data, near, further, granule, proxy_row, owner, next(self._numbers), written)
        self._objects.append(made)
        self.words[_READY] = 0
        return made

    def _empty(self, shape: tuple[int, int, int]) -> NDArray[np.uint64]:
        """Cells without entries; the near entries of each are one cache line."""
        for at, free in enumerate(self._free):
            if free.shape == shape:
                found = self._free.pop(at)
                found[:] = 0
                return found
        size = 8 * prod(shape)
        made = aligned_bytes(size) if size < _SPARSE else sparse_bytes(size)
        return made.view(np.uint64).reshape(shape)

    def forget(self, made: Object) -> None:
        """Stop watching an object."""
        self._objects.remove(made)
        self._free += [made.cells, made.further]
        self.words[_READY] = 0

    def clear(self, made: Object, granules: slice) -> None:
        """Remove the accesses to some granules, and mark their bytes as not written."""
        made.cells[granules] = 0
        made.further[granules] = 0
        if made.written is not None:
            made.written[granules] = 0

    def find(self, address: int) -> Object | None:
        """The object that a host address lies in."""
        return next((o for o in self._objects if o.start <= address < o.start + o.data.nbytes), None)

    def _tabulate(self) -> None:
        self._objects.sort(key=lambda o: o.start)
        rows = [
            (
                o.start,
                o.data.nbytes,
                address_of(o.cells),
                o.cells.shape[1] + o.further.shape[1] | o.granule[0] << 8 | o.granule[1] << 16,
                o.proxy_row,
                0 if o.written is None else address_of(o.written),
                address_of(o.further),
            )
            for o in self._objects
        ]
        self._table = np.array(rows, np.uint64).reshape(len(rows), OBJECT_WORDS) if rows else np.zeros((1, OBJECT_WORDS), np.uint64)
        self.words[StateWord.OBJECTS] = address_of(self._table)
        self.words[StateWord.OBJECT_COUNT] = len(rows)
        self.words[StateWord.LAST] = 0
        self.words[StateWord.EPOCH] += 1
        self.words[_READY] = 1

    # --------------------------------------------------------------------------------------------------------- accesses

    def drain(self, rows: int, first: int, count: int) -> int:
        """Record the accesses of rows at a host address, in order; return the index of a row that Python handles, or ``count``."""
        if not self.words[_READY]:
            self._tabulate()
        functions = self._functions
        if functions.are_quick:
            functions.recorded(count - first)
        _DRAINED.pack_into(self._bytes, _DRAINED_AT, rows, first, count)
        at: int = functions.compiled.drain(self._address)
        return at

    def step_of_group(self, op: int) -> bool:
        """The running agent has executed an instruction of its warpgroup; False if its arrays are too small (`WarpgroupClock.enlarge`)."""
        done: int = self._functions.compiled.group_step(self._address, address_of(self._keep[0]) + 8 * OP_WORDS * op)
        return done == DONE

    def issue_of_group(self, op: int) -> bool:
        """The running agent executes the last share in an instruction of its warpgroup; False as before."""
        done: int = self._functions.compiled.group_issue(self._address, op)
        return done == DONE

    def step_of_lanes(self, op: int, lanes: int) -> None:
        """Lanes of the running agent have executed an instruction about groups of bulk copies."""
        self._functions.compiled.bulk_step(self._address, lanes, address_of(self._keep[0]) + 8 * OP_WORDS * op)

    def digest(self, before: int, words: NDArray[np.uint64]) -> int:
        """The digest of words and of those before."""
        found: int = self._functions.compiled.digest(before, address_of(words), len(words), 0)
        return found

    def access(self, access: MemoryAccess, who: int, what: int) -> None:
        """Record one access to ranges of host memory; ``who`` is slot << 32 | clock, ``what`` op | (kind << 1 | write) << 56."""
        if not self.words[_READY]:
            self._tabulate()
        functions = self._functions
        if functions.are_quick:
            functions.recorded(_ROWS_OF_ACCESS)
        _ACCESSED.pack_into(self._bytes, _ACCESSED_AT, *access.where, who, what)
        functions.compiled.ranges(self._address)

    def size_of(self, op: int) -> int:
        """The bytes that one lane of an instruction accesses, 0 if its rows do not tell."""
        return int(self._keep[0][op, OpWord.SIZE]) if op < len(self._keep[0]) else 0

    def leave_out(self, pair: tuple[int, int, int]) -> None:
        """Find no more accesses of two entries with the same instructions and kinds (`PAIR`) and the same outcome; a few pairs only."""
        count = self.words[StateWord.REPORTED_COUNT]
        if count < _MOST_REPORTED:
            self._reported[count] = pair
            self.words[StateWord.REPORTED_COUNT] = count + 1

    def suspects(self) -> NDArray[np.uint64]:
        """Pairs found since the last call, uint64[n, 6]."""
        count = self.words[StateWord.SUSPECT_COUNT]
        self.words[StateWord.SUSPECT_COUNT] = 0
        return self._suspects[:count].copy()
