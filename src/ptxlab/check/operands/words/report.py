"""The findings about operands that threads have copied word by word."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab.check.operands._candidates import Candidate
from ptxlab.check.operands._repetitions import Repetitions
from ptxlab.check.operands._report import FLOATS, Reporter, element_name, fields_text, fix_text, is_turned
from ptxlab.check.operands.words.images import (
    LINE,
    Sources,
    TakenWords,
    fitting_descriptor,
    following_words,
    in_chunk,
    is_image_without_swizzling,
    is_rearranged,
    sources_of,
    step_of_words,
)
from ptxlab.check.operands.words.joined import JoinedWords, elements_together
from ptxlab.engine.word_sources import NO_SOURCE, address_in, byte_source
from ptxlab.isa.operations.matrices import MatrixOperand
from ptxlab.isa.operations.tiles import CHUNK
from ptxlab.tables import PHASE_SHIFT, SWIZZLES

if TYPE_CHECKING:
    from ptxlab.check.operands.words.check import Words
    from ptxlab.isa.operations import AsyncOperation
    from ptxlab.machine.memory.elements import ArrayPlace

__all__ = ["WordReporter"]


class WordReporter:
    """Reports each defect of an instruction once, together with a `Reporter`."""

    def __init__(self, reporter: Reporter, repetitions: Repetitions) -> None:
        self._reporter = reporter
        self._repetitions = repetitions

    def mismatch(
        self, operation: AsyncOperation, operand: MatrixOperand, found: Sources, sources: NDArray[np.uint64], wanted: int | None, cta: Any
    ) -> None:
        """An operand has no image. It is wrong if another descriptor has one, or this one without swizzling; the bytes are unchanged."""
        key = operation.op.index, operand.name
        if self._reporter.has(*key):
            return
        addresses = address_in(found)
        array = self._reporter.array_at(int(addresses[found > NO_SOURCE][0]))
        origin, pitch = (0, 0) if array is None else (array.address, _pitch(array))
        only = _fields_of_rearranged(operand, pitch) if is_rearranged(addresses, origin, pitch) else ()
        ends = addresses[found > NO_SOURCE].min(), addresses.max()
        candidate = None
        if len({None if of is None else of.address for of in map(self._reporter.array_at, map(int, ends))}) > 1:
            candidate = fitting_descriptor(operand, sources, wanted, ("start",))
        if candidate is None:
            candidate = fitting_descriptor(operand, sources, wanted, only)
        fix = "" if candidate is None else fix_text(candidate, operand)
        if candidate is None and is_image_without_swizzling(operand, sources):
            fix = _swizzle_text(operand)
        if not fix or not self._unchanged(operand, found, cta):
            return
        self._reporter.first(*key)
        chunks = found[:, :: in_chunk(operand.data)]
        line, slot = _first_apart(chunks)
        here, there = (f"{element_name(operand, i, j)} is {self._element(int(chunks[i, j]))}" for i, j in ((line, slot), (0, 0)))
        self._no_image(operation, operand, f"it has no equal steps; {here}, but {there}", fix, cta)

    def joined(self, operation: AsyncOperation, operand: MatrixOperand, words: Words, cta: Any) -> None:
        """An operand whose words threads have put together: its rows and k may not stand apart, and its type may be another one."""
        every = words.bytes_of(operand.chunks, operand.data)
        key, known = (operation.op.index, operand.name), every[every > NO_SOURCE]
        if not every.all() or not known.size or self._reporter.has(*key):
            return
        memory = self._joined_words(every, words)
        elements = memory.elements(operand, operand.chunks)
        if not elements.all():
            return
        if memory.stand_apart(elements):
            self.element_type(operation, operand, int(known[0]), cta)
            return
        candidate = memory.fitting_descriptor(operand)
        if candidate is None or not self._has_bytes(operand, every, cta):
            return
        self._reporter.first(*key)
        what, *at = memory.first_apart(elements)
        each = elements_together(operand.packed)
        here, there = (f"{operand.name}[{row}, {k * each}] is {self._element(int(elements[row, k]))}" for row, k in at)
        self._no_image(operation, operand, f"{what}; {here}, but {there}", fix_text(candidate, operand), cta)

    def _no_image(self, operation: AsyncOperation, operand: MatrixOperand, what: str, fix: str, cta: Any) -> None:
        self._reporter.add(
            "O101",
            f"{operand.title} is not an image of the rows that were copied: {what}",
            operation,
            cta,
            fix=fix,
            details=[("descriptor", fields_text(operand))],
        )

    def _joined_words(self, every: NDArray[np.int64], words: Words) -> JoinedWords:
        """The words of a CTA, for an operand whose bytes come from there."""
        array = self._reporter.array_at(int(every.max()))
        return JoinedWords(words, *((0, 0) if array is None else (array.address, _pitch(array))))

    def _has_bytes(self, operand: MatrixOperand, every: NDArray[np.int64], cta: Any) -> bool:
        """Whether the bytes of an operand are those that stand where they come from."""
        held = cta.shared[: len(cta.shared) // CHUNK * CHUNK].reshape(-1, CHUNK)[operand.chunks.reshape(-1), : operand.data]
        return self._reporter.all_hold(every, held)

    def overlapping(self, operation: AsyncOperation, operand: MatrixOperand, words: Words, cta: Any) -> None:
        """Two elements of an operand lie in the same bytes; it is wrong if another descriptor has an image.

        Of words that may have been prepared no image is known. Elements of an array of the operand's type are those of a matrix.
        """
        key = operation.op.index, operand.name, "bytes"
        if self._reporter.has(*key) or not self._reporter.first(*key, operand.descriptor):
            return
        prepared, sources = words.are_prepared(operand), words.sources
        candidate: Candidate[Any] | None = fitting_descriptor(operand, sources, None)
        if candidate is None and words.are_joined(operand):
            candidate = self._joined_words(words.bytes_of(operand.chunks, operand.data), words).fitting_descriptor(operand)
        address = int(address_in(sources_of(sources, operand.chunks, operand.data)).max())
        array = self._reporter.array_at(address) if address > NO_SOURCE else None
        if prepared and (array is None or operand.element not in FLOATS.get(array.dtype, ())):
            return
        if candidate is not None or prepared:
            self._reporter.first(*key)
            self._reporter.same_bytes(operation, operand, candidate, None, cta)

    def kept(self, operation: AsyncOperation) -> str | None:
        """The name of the matrix that an instruction takes from a collector buffer."""
        return self._reporter.kept(operation.op)

    def element_type(self, operation: AsyncOperation, operand: MatrixOperand, address: int, cta: Any) -> None:
        """The element type of the instruction is not that of the array in which an address lies."""
        array = self._reporter.array_at(address)
        if array is not None:
            self._reporter.other_type(
                operation, operand, array.dtype, f"the elements of {array.name}", f"make {array.name} an array of", (), cta
            )

    def step(self, operation: AsyncOperation, pairs: list[tuple[TakenWords, TakenWords]], sources: NDArray[np.uint64], cta: Any) -> None:
        """An instruction that adds to the same D as the one before must take the next k of the same rows.

        A pair is what the one before and this one take as the same operand.
        """
        near = [n.is_near(b) for b, n in pairs]
        moves = [n.moved(b) for b, n in pairs]
        again = len(pairs) > 1 and all(move == (0, 0) for move in moves)
        differ = all(near) and len({move for move in moves if move is not None}) > 1
        for (b, n), move, together in zip(pairs, moves, near, strict=True):
            if is_turned(b.operand, n.operand) and self._unchanged(n.operand, sources_of(sources, n.operand.chunks, n.operand.data), cta):
                self._reporter.turned(operation, n.operand, [], cta)
            if move is None or not together or not (again or _is_wrong(move, n, differ)):
                continue
            key = operation.op.index, n.operand.name, "step"
            if self._reporter.has(*key) or not self._unchanged(n.operand, sources_of(sources, n.operand.chunks, n.operand.data), cta):
                continue
            self._reporter.first(*key)
            rows, k = move
            turned = fitting_descriptor(n.operand, sources, None, ("major",)) if rows and not k else None
            wanted = None if turned else step_of_words(n, b, sources)
            report = partial(self._reporter.wrong_step, operation, b.operand, n.operand, (rows, k, n.reach_of_k), wanted, turned, [], cta)
            if again:
                operands = tuple(now.operand for _, now in pairs)
                self._repetitions.doubt(operands, n.operand, following_words(n, sources), report)
            else:
                report()

    def _unchanged(self, operand: MatrixOperand, found: Sources, cta: Any) -> bool:
        """Whether the words still hold what was copied."""
        whole = found[..., None]
        size = operand.chunks.size * operand.data // found.size
        return self._has_bytes(operand, np.where(whole > NO_SOURCE, byte_source(whole, np.arange(size)), whole), cta)

    def _element(self, source: int) -> str:
        """The element from which a word comes, or its address."""
        if source <= NO_SOURCE:
            return "zero"
        address = address_in(source)
        array = self._reporter.array_at(address)
        if array is None:
            return f"what was at {address:#x}"
        return array.element(array.indices(np.array([address]))[0].tolist())


def _fields_of_rearranged(operand: MatrixOperand, pitch: int) -> tuple[str, ...]:
    """Which fields of a descriptor may be wrong if rows and k stand apart from each other.

    Another swizzling mode takes pieces of rows as rows, which only the length of the rows tells from gathered ones. An MN-major operand
    with swizzling that begins inside a row goes on in other rows.
    """
    fields = ("stride", "leading") if pitch else ("stride", "leading", "swizzle")
    return (*fields, "major") if operand.major == "mn" and operand.descriptor.start % LINE else fields


def _swizzle_text(operand: MatrixOperand) -> str:
    """How threads must store an operand that they have not swizzled."""
    mode = SWIZZLES[operand.descriptor.swizzle]
    last = mode.bits - 1
    bits, phase = (f"bits {low} to {low + last}" if last else f"bit {low}" for low in (mode.base, PHASE_SHIFT))
    return (
        f"the rows are not swizzled, but the descriptor says mode {mode.name}: XOR {bits} of the shared-memory addresses to which they are "
        f"stored with {phase}; then {operand.title.removeprefix('matrix ')} is the tile that was copied"
    )


def _pitch(array: ArrayPlace) -> int:
    """Bytes from row to row of an array; 0 if it has one dimension."""
    steps = sorted({abs(stride) for stride, count in zip(array.strides, array.shape, strict=True) if count > 1 and stride})
    return steps[1] if len(steps) > 1 else 0


def _is_wrong(move: tuple[int, int], taken: TakenWords, differ: bool) -> bool:
    rows, k = move
    if rows:
        return k == 0 and differ
    return 0 < abs(k) < taken.reach_of_k or (differ and k != taken.reach_of_k)


def _first_apart(chunks: Sources) -> tuple[int, int]:
    """The first chunk that is not as far from the one before it as the first two are, in its line or from line to line."""
    expected = chunks[0, 0] + np.arange(len(chunks))[:, None] * (chunks[1:2, 0] - chunks[0, 0]) + (chunks[:1] - chunks[0, 0])
    apart = np.argwhere((chunks != expected) & (chunks > NO_SOURCE))
    return (int(apart[0, 0]), int(apart[0, 1])) if len(apart) else (0, chunks.shape[1] - 1)
