"""A lowered kernel: ops in scheduling order, registers with their place in the frame, blocks, variables and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from enum import IntEnum
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.isa.native_ops import LaneAccess, MatrixAccess, Native
from ptxlab.isa.operands import Op, Reg
from ptxlab.ptx import TextOrder

__all__ = [
    "HOW_SHIFT",
    "SOURCE_ROW",
    "UNWRITTEN_REGISTER",
    "BasicBlock",
    "Chosen",
    "Joined",
    "LoadedValues",
    "LoadedWord",
    "MovedNote",
    "MovedResult",
    "NotedPart",
    "NotedRegister",
    "NotedTree",
    "Observed",
    "Parameter",
    "Program",
    "Register",
    "SharedLayout",
    "Tree",
    "divided",
    "leaves",
]

UNWRITTEN_REGISTER = 1 << 31
"""An origin of undefined bits is the index of an op plus one (a load whose guard is false), or this plus the number of a register."""


SOURCE_ROW = 256
"""Bytes of a row in the frame with an address for each lane."""
_WORD_BITS = 32
HOW_SHIFT = 28
"""Where `Observed` stands in `Word.OBSERVE_OP`, above the index of the op."""


class Observed(IntEnum):
    """The events of undefined bits that compiled code reports; only ``LEAVE`` and ``STORED`` unless the program is mirrored."""

    LEAVE = 0
    """they go to memory that others read"""
    DECIDED = 1
    """they decide an address, a branch or a descriptor"""
    LOADED = 2
    STORED = 3
    ATOMIC = 4
    """an atomic op has executed, which may have read some"""
    COPIED = 5
    """cp.async has copied some to the shared memory of the CTA"""


@dataclass(slots=True)
class Register:
    """A register: PTX type and width in bits (predicates 1).

    ``offset`` is its byte offset in the frame: predicates are one 32-bit lane mask, 8- and 16-bit registers uint16[32],
    32-bit uint32[32], 64-bit uint64[32], 128-bit uint64[2][32] (low halves first). It is -1 where the register never
    leaves one run of pure instructions. ``shadow`` is the offset of a row of the same form with its undefined bits, -1 if
    all bits are always defined, and ``origin`` that of a row uint32[32] that says where they come from
    (`UNWRITTEN_REGISTER`). ``range`` is the offset of two such rows with the smallest and the largest signed number that the register
    may hold, -1 if they are not followed. ``special`` names a special register (``%tid.x``) that the machine fills in before the warp
    starts.
    """

    name: str
    type: str
    bits: int
    offset: int = -1
    special: str = ""
    shadow: int = -1
    origin: int = -1
    range: int = -1

    def view(self, frame: NDArray[np.uint8]) -> NDArray[Any]:
        """The row in a frame: uint32[1] of lane bits for a predicate, else 32 unsigned integers ([2, 32] uint64 for 128 bits)."""
        if self.offset < 0:
            raise ValueError(f"{self.name} has no row")
        if self.bits == 1:
            return frame[self.offset : self.offset + 4].view(np.uint32)
        bits = max(self.bits, 16)
        row = frame[self.offset : self.offset + 4 * bits].view(f"u{min(bits, 64) // 8}")
        return row.reshape(2, 32) if bits == 128 else row


@dataclass(slots=True)
class BasicBlock:
    """Ops ``start <= index < stop``; blocks are in scheduling order: a lane set at a smaller op index runs first.

    ``successors`` are positions in ``Program.blocks``; ``depth`` counts the loops around the block, and ``loop`` is the
    position of the header of the innermost (-1: none).
    """

    start: int
    stop: int
    successors: tuple[int, ...] = ()
    depth: int = 0
    loop: int = -1
    fall: int = -1
    """Position of the block after it, where lanes go that do not branch or exit."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte offset from the first one, size and alignment in bytes; ``pointer`` for ``.ptr`` or 64-bit integers."""

    name: str
    type: str
    offset: int
    size: int
    align: int
    pointer: bool
    array: bool


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Window offsets of shared variables.

    ``dynamic`` is where dynamic shared memory starts, ``static_end`` the first free offset after the static part.
    """

    variables: dict[str, int]
    static_end: int
    dynamic: int


class LoadedWord(NamedTuple):
    """A word that a load has read: the index of the load, the first one of several that share a row, and the byte in what it reads.

    A word of a register that has rows of its own has instead of the load ``~register``, and the byte in the register.
    """

    load: int
    byte: int


class NotedPart(NamedTuple):
    """Where it is noted from where some bytes come: the row, what is added to the addresses there, and the first byte in the word there.

    A row of -1 stands for zeros.
    """

    row: int
    added: int
    byte: int


class NotedRegister(NamedTuple):
    """A register that has rows of its own, which say from where its parts come.

    Attributes
    ----------
    row : the frame offset of the first one
    unit : bytes of a part
    loads : the loads from which it may have what it holds
    """

    row: int
    unit: int
    loads: tuple[int, ...]

    def part(self, byte: int) -> NotedPart:
        """Where it is noted from where a byte of the register comes, and those behind it in the same part."""
        number, first = divmod(byte, self.unit)
        return NotedPart(self.row + SOURCE_ROW * number, 0, first)


T = TypeVar("T")


class Chosen(NamedTuple, Generic[T]):
    """What comes from ``a`` in the lanes in which a predicate holds, else from ``b``."""

    predicate: Reg
    a: Tree[T]
    b: Tree[T]


class Joined(NamedTuple, Generic[T]):
    """What comes from ``a`` or from ``b``, one of which is zero; it is not known if neither is."""

    a: Tree[T]
    b: Tree[T]


Tree: TypeAlias = T | Chosen[T] | Joined[T]
NotedTree: TypeAlias = Tree[NotedPart | None]
"""From where bytes come that are moved; None for what is computed."""


def leaves(tree: Tree[T]) -> Iterator[T]:
    """What may be there."""
    if isinstance(tree, Chosen | Joined):
        yield from leaves(tree.a)
        yield from leaves(tree.b)
    else:
        yield tree


class MovedNote(NamedTuple):
    """What an op notes in a row of a register, which stands for so many bytes."""

    row: int
    unit: int
    source: NotedTree


def divided(noted: Sequence[NotedPart], parts: int, size: int = 4) -> Iterator[NotedPart]:
    """The same bytes in more parts."""
    each = parts // len(noted)
    for part in noted:
        yield from (part._replace(byte=part.byte + i * size // parts) for i in range(each))


class MovedResult(NamedTuple):
    """What a store writes that has been moved since tcgen05.ld has loaded it.

    Attributes
    ----------
    load : the index of the load
    row : the frame offset of the first of the rows that say of each register of the store what it held: the address of the load, and
        which byte of what that has loaded (`ptxlab.engine.word_sources.LOADED_BYTE_SHIFT`)
    registers : how many there are
    """

    load: int
    row: int
    registers: int


@dataclass(frozen=True, slots=True)
class LoadedValues:
    """Which stores write what has been loaded, as it is, to shared or tensor memory, and which matrices in registers have been loaded.

    Attributes
    ----------
    stores : by the index of a store the words that it writes, or its elements if they are smaller; None for one that is computed
    cells : by the index of a store to tensor memory the same; all such stores, if one of them writes what has been loaded
    matrices : by the index of a product the words of its matrices in registers, by the names of the operands
    results : by the index of a store to global memory the words of tcgen05.ld that it writes as they are; all of them are such words
    moved_results : the same for stores of which some words have been moved; what they were is noted when they execute
    rows : by the index of a load, or of a store of results, the frame offset of uint64[32] with the addresses that the lanes have accessed
        last; of a load from shared memory of so many of these as it has words, with where the words come from that they have read last;
        of smaller elements, as it has elements. Loads that write the same registers share them
    shared : the loads from shared memory
    zeros : the loads whose registers are zero in lanes that do not execute them
    registers : registers that have rows of their own, which say from where their words come
    moves : by the index of an op what it notes in rows of registers, behind all other effects
    """

    stores: dict[int, tuple[LoadedWord | None, ...]] = field(default_factory=dict)
    cells: dict[int, tuple[LoadedWord | None, ...]] = field(default_factory=dict)
    matrices: dict[int, dict[str, tuple[LoadedWord | None, ...]]] = field(default_factory=dict)
    results: dict[int, tuple[LoadedWord, ...]] = field(default_factory=dict)
    moved_results: dict[int, MovedResult] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    shared: frozenset[int] = frozenset()
    zeros: frozenset[int] = frozenset()
    registers: dict[int, NotedRegister] = field(default_factory=dict)
    moves: dict[int, tuple[MovedNote, ...]] = field(default_factory=dict)

    @property
    def with_results(self) -> bool:
        """Whether results are stored."""
        return bool(self.results or self.moved_results)

    def noted(self, word: LoadedWord, size: int = 4) -> tuple[NotedPart, ...]:
        """Where it is noted from where lanes have loaded a word, or fewer bytes, in equal parts."""
        if word.load < 0:
            register = self.registers[~word.load]
            return tuple(register.part(at) for at in range(word.byte, word.byte + size, min(register.unit, size)))
        row = self.rows[word.load]
        shared = word.load in self.shared
        return (NotedPart(row + SOURCE_ROW * word.byte // 4, 0, 0) if shared else NotedPart(row, word.byte, 0),)

    def table(self, words: Sequence[LoadedWord | None], size: int = 4) -> tuple[int, tuple[NotedPart | None, ...]]:
        """The same for several words, or elements of so many bytes: into how many parts each is divided, and all of these in turn."""
        noted = [None if word is None else self.noted(word, size) for word in words]
        parts = max((len(each) for each in noted if each is not None), default=1)
        return parts, tuple(part for each in noted for part in (repeat(None, parts) if each is None else divided(each, parts, size)))

    def alike(self, load: int) -> Sequence[int]:
        """The loads that write the same registers as the one of a word, itself among them."""
        if load < 0:
            return self.registers[~load].loads
        return [index for index, row in self.rows.items() if row == self.rows[load]]


@dataclass(slots=True)
class Program:
    """One entry function, ready to execute."""

    name: str
    ops: list[Op]
    blocks: list[BasicBlock]
    registers: list[Register]
    frame_bytes: int
    parameters: list[Parameter]
    param_bytes: int
    shared: SharedLayout
    local_bytes: int
    symbols: list[str]
    """Global and const variables whose addresses the device supplies, in the order of the context's symbol table."""
    directives: dict[str, tuple[int | str, ...]]
    text_order: TextOrder = field(compare=False, repr=False)
    local_variables: dict[str, int] = field(default_factory=dict)
    natives: dict[int, Native] = field(default_factory=dict)
    """What each native op does, by op index."""
    reads: list[tuple[int, ...]] = field(default_factory=list)
    """Registers that each op reads, its guard and what a partial write keeps not counted."""
    writes: list[tuple[int, ...]] = field(default_factory=list)
    live_out: list[int] = field(default_factory=list)
    """Registers whose value some later block needs, for each block: a bit set over ``crossing``."""
    crossing: list[int] = field(default_factory=list)
    cuts: frozenset[int] = frozenset()
    """Ops at which the second and later parts of long runs of inline ops begin; none in counted and stepped programs."""
    constants: dict[tuple[int, int], int] = field(default_factory=dict)
    """Frame offsets of rows that hold a constant, by (value, bits): operands of natives."""
    unwritten: list[int] = field(default_factory=list)
    """Registers that some path reads before it has written them: all their bits are undefined at first."""
    sink: int = 0
    """Frame offset of a row that takes what goes to the bit bucket."""
    digest: str = ""
    """Digest of the PTX text and the function's name; empty if the text is not known."""
    mirrored: bool = False
    """Whether compiled code follows the undefined bits of all registers, and those of memory in its mirrors."""
    zeros: int = 0
    """Mirrored programs: frame offset of zeros, the undefined bits of defined values, and after them of two buffers of 32 addresses."""
    observed_loads: frozenset[int] = frozenset()
    """Loads of a mirrored program that are observed even if what they load is defined."""
    loaded: LoadedValues = field(default_factory=LoadedValues)
    """Where an observer of operands wants to know what stores write (`ptxlab.engine.context.Word.COPIED`)."""
    recorded: bool = False
    """Whether compiled code notes accesses and fences for observers."""
    noted_ends: frozenset[int] = frozenset()
    """Of recorded programs: the last ops of the blocks whose ends are noted, too (`recording`)."""
    counted: bool = False
    """Whether compiled code counts executions, and what accesses of shared and global memory cost (`ptxlab.engine.support.counters`)."""
    stepped: bool = False
    """Whether a debugger executes it (`ptxlab.engine.separate`)."""

    @property
    def tracked(self) -> bool:
        """Whether compiled code follows the undefined bits of some register."""
        return any(register.shadow >= 0 for register in self.registers)

    @property
    def stores_parts_of_words(self) -> bool:
        """Whether it stores to shared memory elements that are smaller than words, as they have been loaded."""
        natives = [self.natives.get(index) for index in self.loaded.stores]
        return any(isinstance(native, LaneAccess) and native.bits < _WORD_BITS for native in natives)

    @property
    def joins_parts_of_words(self) -> bool:
        """Whether what it has loaded becomes words in other ways than as whole words."""
        natives = [self.natives.get(index) for index in (*self.loaded.stores, *self.loaded.shared)]
        transposed = any(isinstance(native, MatrixAccess) and native.transposed for native in natives)
        in_parts = any(register.unit < _WORD_BITS // 8 for register in self.loaded.registers.values())
        return transposed or in_parts or self.stores_parts_of_words

    def untracked(self) -> Program:
        """The same program, in which all bits count as defined."""
        if not self.tracked:
            return self
        registers = [replace(register, shadow=-1, origin=-1) for register in self.registers]
        return replace(self, registers=registers, digest=self.digest and self.digest + " untracked")

    def unfollowed(self) -> Program:
        """The same program, which does not note from where values have been loaded."""
        return replace(self, loaded=LoadedValues(), digest=self.digest and self.digest + " unfollowed")

    def recording(self, noted_ends: frozenset[int] = frozenset()) -> Program:
        """The same program, recorded; ``noted_ends`` are the last ops of blocks: it is noted when lanes come to the ends of these."""
        more = " recorded" + f" {sorted(noted_ends)}" * bool(noted_ends)
        return replace(self, recorded=True, noted_ends=noted_ends, digest=self.digest and self.digest + more)

    def counting(self) -> Program:
        """The same program, counted."""
        return replace(self, counted=True, cuts=frozenset(), digest=self.digest and self.digest + " counted")
