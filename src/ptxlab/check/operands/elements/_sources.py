"""Where it is noted from where the matrices of an instruction come: those in registers, and those in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands.compiled.matrices import (
    IN_FRAMES,
    IN_SHARED_MEMORY,
    IN_TENSOR_MEMORY,
    MOST_ADDED,
    KnownPart,
    RepeatedMatrices,
)
from ptxlab.check.operands.elements._images import Addresses, element_addresses
from ptxlab.check.operands.elements._last import Judged, KnownMatrices
from ptxlab.check.operands.elements.parts import LANES, SharedPart, TensorPart
from ptxlab.check.operands.elements.slots import CELLS, SLOT, format_of_cells, packed_bytes, slots_of_cells, slots_of_words, words_of_slot
from ptxlab.check.operands.words.joined import are_joined, elements_of_bytes, elements_together
from ptxlab.engine.word_sources import NO_SOURCE
from ptxlab.isa.operations.matrices import MatrixOperand, RegisterMatrix
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.native import address_of
from ptxlab.tables import TYPE_BITS

if TYPE_CHECKING:
    from ptxlab.engine.listed_words import ListedWords
    from ptxlab.engine.program import LoadedValues, LoadedWord
    from ptxlab.isa.operands import Op

__all__ = ["Matrix", "Sources"]

_WORD = 4
"""Bytes."""
_WORD_BITS = 32
_BYTE = 8
Frame = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A matrix whose sources are noted.

    Attributes
    ----------
    name, element, bits, stored : as of a `RegisterMatrix` or a `MatrixOperand`; the bits are those of a container
    narrow : bits of an element that is narrower than its container, a byte; else 0
    places : ``[line, part]``, of each part of a word the place of its source; lines are rows, or k if ``turned``
    added : what is added to the addresses there
    first : the byte of the word there with which the part begins
    size : bytes of a part
    listed : the words whose bytes come from any places, if there are some
    loads : the load that has brought each part, ``[line, part]``; None for a matrix that is not in registers
    where : what findings add to the title
    """

    name: str
    element: str
    bits: int
    stored: int
    places: NDArray[np.intp]
    added: NDArray[np.int64]
    first: NDArray[np.intp]
    size: int = _WORD
    turned: bool = False
    loads: NDArray[np.intp] | None = None
    where: str = ""
    narrow: int = 0
    listed: ListedWords | None = None

    @property
    def unit_bits(self) -> int:
        """Bits of what one address stands for; elements of 4 bits that fill bytes count by bytes."""
        return max(self.bits, _BYTE)

    @property
    def title(self) -> str:
        """What findings call it."""
        return f"matrix {self.name}"

    @classmethod
    def in_registers(cls, matrix: RegisterMatrix, noted: Sequence[LoadedWord], loaded: LoadedValues) -> Matrix:
        """A matrix in registers; the places are those in the frame of the warp that holds the row."""
        parts, table = loaded.table(noted)
        loads = np.repeat([word.load for word in noted], parts)
        # A register of 64 bits has two words.
        each = parts * max(matrix.bits // _WORD_BITS, 1)
        rows = np.column_stack([np.array([part for part in table if part is not None]), loads]).reshape(-1, each, 4)
        _, register, lane = np.unravel_index(matrix.index, (matrix.warps, len(rows), 32))
        row, added, first, load = np.moveaxis(rows[register].reshape(len(matrix.index), -1, 4), -1, 0)
        places = row // 8 + np.repeat(lane, each, axis=1)
        where = " in registers"
        return cls(matrix.name, matrix.element, matrix.bits, matrix.stored, places, added, first, _WORD // parts, loads=load, where=where)

    @classmethod
    def in_shared_memory(cls, operand: MatrixOperand) -> Matrix:
        """A matrix in shared memory."""
        narrow = _narrow(operand.element, operand.container)
        places = _places(operand.chunks, narrow)
        turned = operand.major == "mn"
        none, bits = np.zeros_like(places), operand.container
        return cls(operand.name, operand.element, bits, operand.stored, places, none, none, turned=turned, narrow=narrow)

    @classmethod
    def in_tensor_memory(cls, part: TensorPart) -> Matrix:
        """A matrix in tensor memory."""
        found = part.matrix
        places = (found.column + np.arange(found.columns)) * LANES + part.lanes[:, None]
        narrow, none = _narrow(found.element, found.bits), np.zeros_like(places)
        return cls("A", found.element, found.bits, found.stored, places, none, none, where=" in tensor memory", narrow=narrow)

    def places_of(self, chunks: NDArray[np.intp]) -> NDArray[np.intp]:
        """The places of the words of other chunks of shared memory."""
        return _places(chunks, self.narrow)

    def parts(self, found: NDArray[np.int64]) -> Addresses:
        """Where the parts of words come from, ``[line, part]``; ``found`` is what stands at the places."""
        return np.where(found > NO_SOURCE, found + self.added.reshape(-1), found).reshape(self.places.shape)

    def elements(self, parts: Addresses) -> Addresses:
        """Where the elements come from, ``[row, k]``; where several neighbours count as one, ``[row, unit]``."""
        found = self._packed(parts)
        if found is None:
            found = element_addresses(parts, self.first, self.size, self.bits, self.listed), self.unit_bits // self.bits
        return found[0].T if self.turned else found[0]

    def per_unit(self, parts: Addresses) -> int:
        """How many elements count as one."""
        found = self._packed(parts)
        return self.unit_bits // self.bits if found is None else found[1]

    def _packed(self, parts: Addresses) -> tuple[Addresses, int] | None:
        """Where packed elements come from, ``[row, unit]``, and how many are a unit: a slot of 16, or fewer if threads have joined those.

        None if each element has a byte in global memory, or is wider.
        """
        if not self.narrow:
            return None
        if self.where:
            cells = slots_of_cells(parts.reshape(len(parts), -1, CELLS), self.narrow)
            return None if cells is None else (cells, SLOT)
        slots = slots_of_words(parts.reshape(len(parts), -1, words_of_slot(self.narrow)))
        if self.listed is None or slots.all() or not parts.all():
            return slots, SLOT
        every = self.listed.bytes_of(parts).reshape(len(parts), -1)
        return elements_of_bytes(every, self.narrow), elements_together(self.narrow)

    def expanded(self, parts: Addresses) -> str:
        """The format in which a copy has expanded its elements to bytes; "" if none has."""
        return format_of_cells(parts.reshape(len(parts), -1, CELLS)) if self.loads is None and self.where and self.bits == _BYTE else ""

    def held(self, codes: NDArray[Any], parts: Addresses) -> NDArray[np.uint8]:
        """The bytes of its elements as global memory has them, ``[row, unit, byte]``; ``codes`` are those that the instruction takes."""
        rows, units = self.elements(parts).shape
        if self._packed(parts) is not None:
            return packed_bytes(codes, self.element, self.narrow, bool(self.where)).reshape(rows, units, -1)
        if self.bits < _BYTE and codes.size != rows * units:
            shifted = codes.reshape(rows, units, -1).astype(np.uint32) << np.arange(0, _BYTE, self.bits, dtype=np.uint32)
            codes = shifted.sum(axis=-1).astype(np.uint8)
        return np.ascontiguousarray(codes).reshape(rows, units, 1).view(np.uint8)


def _places(chunks: NDArray[np.intp], narrow: int) -> NDArray[np.intp]:
    """The places of the words of chunks that hold elements, ``[line, word]``."""
    words = words_of_slot(narrow) if narrow else CHUNK // _WORD
    return (chunks[..., None] * (CHUNK // _WORD) + np.arange(words)).reshape(len(chunks), -1)


def _narrow(element: str, container: int) -> int:
    """Bits of an element that is narrower than its container."""
    bits = TYPE_BITS.get(element, container)  # .b1 has none
    return bits if bits < container == _BYTE else 0


class Sources:
    """The matrices of an instruction, and what is noted of them at the execution that has been read last.

    Attributes
    ----------
    matrices : those of which all sources are noted
    bases : of each where its first word comes from
    judged : what has been found out, by what `read` returns
    attempts : how often that has been tried
    last : the matrices that have been judged last
    """

    __slots__ = (
        "_begins", "_cuts", "_found", "_listed", "_lower", "_parts", "_starts", "_steps", "_upper", "_where",
        "attempts", "bases", "judged", "last", "matrices",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        matrices: Sequence[RegisterMatrix],
        memory: Sequence[SharedPart | TensorPart],
        loaded: LoadedValues,
        listed: ListedWords | None,
    ) -> None:
        noted = loaded.matrices.get(op.index, {})
        held = [m for m in matrices if all(noted.get(m.operand, (None,)))]
        found = [Matrix.in_registers(m, [word for word in noted[m.operand] if word is not None], loaded) for m in held]
        # Of several warps each has an equal part of the rows of the only matrix in registers.
        warps = max((m.warps for m in held), default=1)
        places = [np.concatenate([np.array_split(m.places, warps)[w].reshape(-1) for m in found]) for w in range(warps)] if found else []
        self._where = list(range(IN_FRAMES, IN_FRAMES + len(places)))
        for part in memory:
            self._where.append(IN_TENSOR_MEMORY if isinstance(part, TensorPart) else IN_SHARED_MEMORY)
            found.append(Matrix.in_tensor_memory(part) if isinstance(part, TensorPart) else Matrix.in_shared_memory(part.operand))
            places.append(found[-1].places.reshape(-1))
        self.matrices = [replace(matrix, listed=listed) for matrix in found] if listed is not None else found
        self._listed = listed
        self._found = np.empty(sum(map(len, places)), np.int64)
        ends = np.cumsum([len(each) for each in places])
        self._parts = [(each, self._found[end - len(each) : end]) for each, end in zip(places, ends.tolist(), strict=True)]
        self._starts = [0, *np.cumsum([m.places.size for m in found]).tolist()]
        self._cuts = [start - 1 for start in self._starts[1:-1]]
        self._lower, self._upper, self._steps = self._found[:-1], self._found[1:], np.empty(max(len(self._found) - 1, 0), np.int64)
        self._begins = [(start, int(m.added.item(0))) for start, m in zip(self._starts, found, strict=False)]
        self.bases: tuple[int, ...] = ()
        self.judged: dict[Any, KnownMatrices] = {}
        self.attempts = 0
        self.last: KnownMatrices | None = None

    def enter(self, noted: Any, judged: Judged, memory: Sequence[SharedPart | TensorPart]) -> KnownMatrices:
        """What has been found out about the execution that has been read as ``noted``."""
        repeated = RepeatedMatrices(self._known_parts(), judged.both) if memory and self._are_known() else None
        operands = tuple(None if part is None else part.operand for part in self.parts_of(memory))
        found = self.judged[noted] = KnownMatrices(judged, operands, repeated)
        return found

    def _are_known(self) -> bool:
        """Whether of each matrix all sources are known, or none."""
        each = np.split(self._found, self._starts[1:-1])
        return all(sources.min() > NO_SOURCE + MOST_ADDED or not sources.any() for sources in each)

    def _known_parts(self) -> list[KnownPart]:
        """The places of what has been read, and what stood there: of the parts of a matrix of several warps the first one begins it."""
        begins = dict(zip(self._starts, (added for _, added in self._begins), strict=False))
        found, start = [], 0
        for where, (places, sources) in zip(self._where, self._parts, strict=True):
            found.append(KnownPart(where, places, sources, start in begins, begins.get(start, 0)))
            start += len(places)
        return found

    def is_repeated(self, frames: Sequence[Frame], memory: Sequence[SharedPart | TensorPart]) -> bool:
        """Whether the matrices differ only in where they begin from the last ones."""
        if self.last is None or self.last.repeated is None:
            return False
        warps = len(self._parts) - len(memory)
        bases = self.last.repeated.bases([address_of(frame) for frame in frames[:warps]] + [part.address for part in memory])
        if bases is not None:
            self.bases = bases
        return bases is not None

    def read(self, frames: Sequence[Frame], memory: Sequence[SharedPart | TensorPart]) -> Any:
        """Read what is noted in the frames of the warps, and for memory.

        The result is equal for executions whose matrices differ only in where they begin.
        """
        for (places, out), frame in zip(self._parts, frames, strict=False):
            frame.reshape(-1).view(np.int64).take(places, out=out, mode="clip")
        if memory:
            for (places, out), part in zip(self._parts[-len(memory) :], memory, strict=True):
                part.sources.take(places, out=out, mode="clip")
                if self._listed is not None and isinstance(part, SharedPart):
                    part.list_words(places, out)
        if self._listed is not None and self._found.size and self._found.min() < 0:
            return self._of_listed(self._listed)
        item = self._found.item
        self.bases = tuple([item(start) + first for start, first in self._begins])
        np.subtract(self._upper, self._lower, out=self._steps)
        for cut in self._cuts:
            self._steps[cut] = 0
        steps = self._steps.tobytes()
        # An array's elements are moved as a whole, but what is not known and zeros are not.
        if min(self.bases) > NO_SOURCE + MOST_ADDED:
            return steps
        return steps, tuple([min(self._found.item(start), NO_SOURCE + 1) for start, _ in self._begins])

    def _of_listed(self, listed: ListedWords) -> Any:
        """The same if the bytes of some words come from any places."""
        every = listed.bytes_of(self._found)
        self.bases = tuple([every.item(start, 0) + first for start, first in self._begins])
        ends = [*self._starts[1:-1], len(every)]
        starts = [start for start, _ in self._begins]
        for start, end in zip(starts, ends, strict=True):
            own = every[start:end]
            base = own.item(0)
            np.subtract(own, base, out=own, where=own > NO_SOURCE)
        return "bytes", every.tobytes(), min(self.bases, default=0) > NO_SOURCE + MOST_ADDED

    def parts_of(self, memory: Sequence[SharedPart | TensorPart]) -> tuple[SharedPart | None, ...]:
        """For each matrix the part of shared memory in which it is, if it is there."""
        others = (None,) * (len(self.matrices) - len(memory))
        return (*others, *[part if isinstance(part, SharedPart) else None for part in memory])

    def are_joined(self, number: int) -> bool:
        """Whether threads have put words of a matrix together, so that they have no image as words."""
        return self._listed is not None and are_joined(
            self._found[self._starts[number] : self._starts[number + 1]], bool(self.matrices[number].narrow)
        )

    def parts(self) -> list[Addresses]:
        """Where the parts of the words of each matrix come from."""
        parts = zip(self.matrices, self._starts, self._starts[1:], strict=False)
        return [matrix.parts(self._found[start:end]) for matrix, start, end in parts]
