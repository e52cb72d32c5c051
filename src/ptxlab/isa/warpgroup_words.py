"""The words of a warpgroup that executes wgmma, which handlers and compiled code share (`ptxlab.engine.warpgroups`)."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "A_BYTES",
    "HELD_BYTES",
    "NAME_WORDS",
    "NEVER",
    "RECORD_WORDS",
    "RING",
    "SLOT_WORDS",
    "WARPS",
    "Base",
    "Given",
    "GroupWord",
    "More",
    "Record",
    "Slot",
]

WARPS = 4
RING = 32
"""So many instructions that not all warps have issued can be those of compiled code."""
NEVER = (1 << 62) - 1
A_BYTES = WARPS * 4 * 32 * 4
"""A in the registers of the four warps."""
HELD_BYTES = A_BYTES + WARPS * 32 * 4
"""The same with the registers after it that hold the metadata of a sparse A, uint32[warp, lane]."""


class GroupWord(IntEnum):
    """Index of a word of a warpgroup."""

    STATE = 0
    """the number of the state that executions depend on; 0 if compiled code repeats none"""
    PERFORMED = 1
    """number of the first instruction that has not been performed"""
    BEGUN = 2
    """number of the first that no warp has issued"""
    AWAITED = 3
    """the least number up to which somebody waits for instructions to perform; `NEVER` if nobody does"""
    A = 4
    """address of A, uint32[warp, register, lane], and the metadata for each slot; 0 if no instruction has any of them in registers"""
    SLOTS = 5
    """address of `RING` slots (`Slot`)"""
    RECORDS = 6
    """address of the records of accumulators (`Record`)"""
    RECORD_COUNT = 7
    ENDS = 8
    """address of a ring of int64 for each warp: of each group that it has committed, the number of the last instruction plus one"""
    ENDS_SIZE = 9
    """of a ring, a power of two"""
    ISSUED = 10
    """for each warp, how many instructions it has issued"""
    COMMITTED = 14
    """for each warp, how many groups it has committed"""
    COMPLETED = 18
    """for each warp, how many of them, from the oldest on, it need no longer wait for"""
    WAITERS = 22
    """address of the context of the first warp that compiled code has blocked for groups, in the order in which it has; 0 if there is none

    The next ones are `Word.NEXT_WAITER`. Compiled code blocks none where `AWAITED` is not `NEVER`.
    """
    BASES = 23
    """the bases of executions (`Base`)"""


class Base(IntEnum):
    """Index of a base, a host address."""

    NONE = 0
    SHARED = 1
    A = 2
    """A in registers, and the metadata, of the instruction that performs"""
    FRAMES = 3
    """the registers of each warp"""
    CELLS = 7
    """the elements of each accumulator, uint32[column, row]; 0 if they have no place yet"""


class Record(IntEnum):
    """Index of a word of an accumulator."""

    IN_FLIGHT = 0
    """1 if the matrix is not in the registers"""
    LATEST = 1
    """number of the last instruction on it that a warp has issued"""
    STORE = 2
    """address of a function and of the words that it is given beside the bases, which write the registers"""


class Slot(IntEnum):
    """Index of a word of an instruction that compiled code has begun."""

    NUMBER = 0
    KEY = 1
    """from here on the name of the execution: the words of its entry in the table"""
    A = 10
    B = 11
    ACCUMULATE = 12
    """the descriptors, and scale-d"""


class Given(IntEnum):
    """Index of what an execution is given behind what its function is given."""

    RECORD = 3
    """the number of its accumulator"""
    MORE = 4
    """address of words (`More`)"""


class More(IntEnum):
    """Index of a word of an execution."""

    LOAD = 0
    """what the function is given that reads the accumulator from the registers: three words"""
    A_ROWS = 3
    """offsets of the registers of A in the frame of a warp: four words, -1 if A is in shared memory"""
    OPERANDS = 7
    """what a slot has from `Slot.A` on: three words"""
    METADATA = 10
    """offset of the register with metadata in the frame of a warp, -1 if they are a constant, or A is not sparse"""
    CONSTANT = 11
    """address of the constant for each lane, uint32[lane]"""
    USED = 12
    """address of the bits of metadata that are used, uint32[lane], 0 if A is not sparse"""
    LEGAL = 13
    """the legal codes of metadata, as bits"""
    OVERLAPS = 14
    """how many other accumulators have registers of this one, and their numbers"""


NAME_WORDS = Slot.A - Slot.KEY
SLOT_WORDS = 13
RECORD_WORDS = 3
