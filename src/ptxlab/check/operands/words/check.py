"""Compares operands with what cp.async has copied to shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxlab._records import dataclass
from ptxlab.check.operands._repetitions import Repetitions
from ptxlab.check.operands._rest import RestRows
from ptxlab.check.operands.compiled.cta_words import CtaTaken
from ptxlab.check.operands.compiled.mixed import Kind
from ptxlab.check.operands.words.boxes import PADDING, relative_words
from ptxlab.check.operands.words.deferred import noter
from ptxlab.check.operands.words.images import (
    WORD,
    TakenWords,
    image_of_words,
    judged,
    sources_of,
    stands_as_copied,
    stands_in_blocks,
    words_in_chunks,
)
from ptxlab.check.operands.words.joined import are_joined
from ptxlab.check.operands.words.repeated import Known, LastTaken, Repeated
from ptxlab.check.operands.words.repeated_ir import OTHER, STEP
from ptxlab.check.operands.words.report import WordReporter
from ptxlab.engine.word_sources import IN_BYTES, NO_SOURCE, address_in
from ptxlab.isa.operations.matrices import MatrixOperand, MatrixProduct
from ptxlab.isa.operations.tiles import CHUNK, CopiedBytes, CopiedTile
from ptxlab.native import address_of
from ptxlab.tables import TYPE_BITS

if TYPE_CHECKING:
    from ptxlab.engine.listed_words import ListedWords
    from ptxlab.isa.operations import AsyncOperation

__all__ = ["WordCheck", "Words"]

_WORDS = CHUNK // WORD
_IN_BYTES = IN_BYTES - (1 << 64)
_ATTEMPTS = 4
"""How often another descriptor is looked for if an operand has no image."""


@dataclass(slots=True, eq=False)
class Words:
    """Of the shared memory of one CTA where each word comes from.

    Attributes
    ----------
    sources, addresses : global addresses, written by compiled code (`ptxlab.engine.context.Word.COPIED`); the same as signed numbers
    bytes : those of bytes, if stores of less than words are followed (`ptxlab.engine.context.Word.COPIED_BYTES`)
    listed : the words whose bytes come from any places, if the program may make some
    boxed : chunks that tensor copies have brought, which are compared as tiles
    taken : by which compiled code knows what products take
    prepared : words that bulk copies have brought: they stand as they stood in global memory, whose layout may be made for the descriptor
    """

    sources: NDArray[np.uint64]
    bytes: NDArray[np.uint64]
    listed: ListedWords | None
    addresses: NDArray[np.int64]
    prepared: NDArray[np.bool_]
    boxed: NDArray[np.bool_]
    taken: CtaTaken
    host: int = field(init=False)
    """The host address of the addresses."""

    def __post_init__(self) -> None:
        self.host = address_of(self.addresses)

    @classmethod
    def of_cluster(cls, taken: Sequence[CtaTaken], size: int, by_bytes: bool = False, listed: ListedWords | None = None) -> list[Words]:
        """Those of the CTAs of a cluster that starts, in one array: compiled code finds those of the other CTAs by their ranks."""
        ctas = len(taken)
        words = -(-size // WORD)
        every: NDArray[np.uint64] = np.zeros((ctas, words), np.uint64)
        parts: NDArray[np.uint64] = np.zeros((ctas, WORD * words if by_bytes else 0), np.uint64)
        found = []
        for sources, own, each in zip(every, parts, taken, strict=True):
            prepared, boxed = np.zeros(words, np.bool_), np.zeros(-(-size // CHUNK), np.bool_)
            each.follow_words(address_of(sources), address_of(own) if by_bytes else 0, address_of(boxed), address_of(prepared))
            found.append(cls(sources, own, listed, sources.view(np.int64), prepared, boxed, each))
        return found

    def bytes_from(self, places: NDArray[np.intp]) -> NDArray[np.int64]:
        """From where the bytes of words come, ``[..., byte]``, wherever that may be; `NO_SOURCE` for zeros, 0 where it is not known."""
        listed, found = self.listed, self.addresses.take(places)
        assert listed is not None
        every = listed.bytes_of(found)
        in_bytes = found == _IN_BYTES
        if in_bytes.any():
            own = self.bytes.view(np.int64).reshape(-1, WORD)[places[in_bytes]]
            every[in_bytes] = listed.bytes_of(own)[..., 0]
        return every

    def list_words(self, places: NDArray[np.intp], found: NDArray[np.int64]) -> None:
        """List the words at some places of which only the sources of bytes are noted, in ``found``, which is what stands there."""
        in_bytes = found == _IN_BYTES
        if self.listed is not None and in_bytes.any():
            found[in_bytes] = self.listed.add_all(self.bytes_from(places[in_bytes]))

    def bytes_of(self, chunks: NDArray[np.intp], data: int) -> NDArray[np.int64]:
        """The same for the first ``data`` bytes of chunks, ``[..., byte]``."""
        return self.bytes_from(chunks[..., None] * _WORDS + np.arange(data // WORD)).reshape(*chunks.shape, data)

    def are_joined(self, operand: MatrixOperand) -> bool:
        """Whether threads have put words of an operand together, so that they have no image as words."""
        if self.listed is None:
            return False
        return are_joined(words_in_chunks(self.addresses, operand.chunks)[..., : operand.data // WORD], operand.data < CHUNK)

    def were_brought(self, chunks: NDArray[np.intp]) -> bool:
        """Whether bulk copies have brought some of these chunks."""
        return bool(self.prepared.take(chunks * (CHUNK // WORD)).any())

    def are_brought(self, operand: MatrixOperand) -> bool:
        """Whether bulk copies have brought some chunks of an operand, or tensor copies the first one."""
        chunks = operand.chunks
        return self.taken.otherwise and (self.boxed.item(chunks.item(0)) or self.were_brought(chunks))

    def are_prepared(self, operand: MatrixOperand) -> bool:
        """Whether bulk copies have brought some chunks of an operand, or threads all of them as they stand in global memory."""
        chunks, data = operand.chunks, operand.data
        return self.were_brought(chunks) or stands_as_copied(sources_of(self.sources, chunks, data), chunks, data)

    def copied(self, rows: NDArray[np.uint64]) -> None:
        """Deferred copies are performed, in order: see `ptxlab.isa.operations.AsyncOperation.words`."""
        rows = np.ascontiguousarray(rows)
        noter()(address_of(rows), len(rows), self.host, address_of(self.boxed))

    def brought(self, copied: CopiedBytes, origin: Words | None) -> None:
        """A bulk copy performs; ``origin`` is the shared memory that it reads, if any."""
        first, count = copied.offset // WORD, copied.size // WORD
        self.taken.brought_otherwise()
        self.boxed[copied.offset // CHUNK : -(-(copied.offset + copied.size) // CHUNK)] = False
        if copied.address is not None:
            self.addresses[first : first + count] = copied.address + np.arange(0, copied.size, WORD)
            self.prepared[first : first + count] = True
        elif copied.origin is not None and origin is not None:
            start = copied.origin[1] // WORD
            self.addresses[first : first + count] = origin.addresses[start : start + count].copy()
            if len(self.bytes):
                self.bytes[WORD * first : WORD * (first + count)] = origin.bytes[WORD * start : WORD * (start + count)].copy()
            self.prepared[first : first + count] = origin.prepared[start : start + count].copy()
        elif copied.words is not None:
            self.sources[first : first + count] = copied.words if len(copied.words) else 0
            self.prepared[first : first + count] = False

    def placed(self, tile: CopiedTile, noted: bool) -> None:
        """A tensor copy performs; ``noted`` says whether threads load from tiles."""
        first, end = tile.offset // CHUNK, -(-(tile.offset + tile.size) // CHUNK)
        self.boxed[first:end] = True
        self.taken.brought_otherwise()
        held = self.addresses[tile.offset // WORD : -(-(tile.offset + tile.size) // WORD)]
        if not noted or tile.places is None:
            held[:] = 0
            return
        relative, whole = relative_words(tile.chunks, tile.places, tile.data, len(held))
        np.add(relative, tile.address, out=held)
        if not whole:
            held[relative < 0] = 0
            held[relative == PADDING] = NO_SOURCE


class WordCheck:
    """One for each launch."""

    def __init__(self, reporter: WordReporter, rest: RestRows, repetitions: Repetitions) -> None:
        self._reporter = reporter
        self._rest = rest
        self._repetitions = repetitions
        self._attempts: dict[tuple[int, str], int] = {}
        self._judged: set[MatrixOperand] = set()
        self._steps: set[tuple[tuple[MatrixOperand, MatrixOperand, int], ...]] = set()
        self._repeated: dict[tuple[tuple[MatrixOperand, ...], str | None], Repeated] = {}
        """By the operands, and the name of the one that is kept."""
        self.numbered: dict[int, Repeated] = {}
        """Repeated instructions by their numbers."""
        self._repeated_steps: set[tuple[Repeated, Repeated, int, int]] = set()

    def multiplied(self, operation: AsyncOperation, product: MatrixProduct, words: Words, last: LastTaken, cta: Any) -> bool:
        """Compare the operands of an instruction with what was copied, and with those of the ``last`` one that added to the same D.

        Returns
        -------
        whether all of them have an image
        """
        repeated, relation = self._of(product.operands, self._kept(operation, product)), OTHER
        if repeated is not None and self._are_comparable(repeated, words):
            relation = repeated.follows(words.host, repeated.address, last.address)
        if repeated is None or relation == OTHER:
            before = last.taken() if product.accumulate else {}
            found = self._found(operation, product, words, cta, before)
            last.enter(found)
            self._repetitions.follows(id(words), product.accumulator, product.operands, bool(found) and found == before)
            return len(found) == len(product.operands)
        if product.accumulate and (relation == STEP or self._repetitions.runs):
            self._follow(operation, product, repeated, words, last, cta)
        elif repeated.kept is not None and self._repetitions.runs:
            self._repetitions.follows(id(words), product.accumulator, product.operands, False)
        return not repeated.others

    def _are_comparable(self, repeated: Repeated, words: Words) -> bool:
        """Whether one comparison is enough: the images of a repeated instruction can be there, and nothing is known of other operands."""
        if repeated.end > len(words.addresses) or (words.taken.otherwise and any(map(words.are_brought, repeated.images))):
            return False
        return all(self.kind(operand, words) is not None for operand in repeated.others)

    def kind(self, operand: MatrixOperand, words: Words) -> Kind | None:
        """Why nothing is to be compared of the words of an operand; None if something may be."""
        first = operand.chunks.item(0)
        if words.boxed.item(first):
            return Kind.IN_TILES
        if not words.addresses.item(first * _WORDS):
            return Kind.UNKNOWN
        return Kind.BROUGHT if operand in self._judged and words.were_brought(operand.chunks[:1]) else None

    def repeated(self, operation: AsyncOperation, product: MatrixProduct, words: Words) -> Repeated | None:
        """The instruction that takes these operands, if compiled code can compare what it takes in memory of this size."""
        found = self._of(product.operands, self._kept(operation, product))
        return found if found is not None and found.end <= len(words.addresses) else None

    def _of(self, operands: tuple[MatrixOperand, ...], kept: str | None) -> Repeated | None:
        """The repeated instruction that takes operands: one that keeps none of them, if there is one."""
        return self._repeated.get((operands, None)) or self._repeated.get((operands, kept))

    def _kept(self, operation: AsyncOperation, product: MatrixProduct) -> str | None:
        """The name of the operand in shared memory that an instruction takes from a collector buffer."""
        kept = self._reporter.kept(operation)
        return kept if any(operand.name == kept for operand in product.operands) else None

    def _follow(
        self, operation: AsyncOperation, product: MatrixProduct, repeated: Repeated, words: Words, last: LastTaken, cta: Any
    ) -> None:
        """Compare a repeated instruction, which compiled code has entered as the ``last`` one, with the one before it."""
        before, bases = last.repeated(before=True), last.bases()
        if before is None and not last.found:
            self._repetitions.follows(id(words), product.accumulator, product.operands, False)
            return
        (first, end), (last_first, last_end) = bases, last.bases(before=True)
        steps = first - last_first, end - last_end
        again = before is repeated and not any(steps)
        if repeated.kept is not None:
            again = repeated.taken(bases) == last.taken(before=True)
        self._repetitions.follows(id(words), product.accumulator, product.operands, again)
        # A is the first operand and B the last one. The steps of a loop are alike.
        if before is None or (before, repeated, *steps) not in self._repeated_steps:
            self._compare(operation, last.taken(before=True), repeated.taken(bases), words, cta)
        if before is not None:
            self._repeated_steps.add((before, repeated, *steps))
            if not again:
                repeated.expect(before, steps)

    def _found(
        self, operation: AsyncOperation, product: MatrixProduct, words: Words, cta: Any, before: dict[str, TakenWords]
    ) -> dict[str, TakenWords]:
        """The operands of an instruction by name, as far as their words are known, compared with those of the one before."""
        found: dict[str, TakenWords] = {}
        kept = self._kept(operation, product)
        for operand in product.operands:
            taken = self._taken(operation, operand, words, cta, before.get(operand.name))
            if taken is not None:
                found[operand.name] = taken
        images = [operand.known.get("words") if operand.name in found else None for operand in product.operands]
        if kept is not None:
            found.pop(kept, None)
        for taken in found.values():
            if taken.operand not in self._judged:
                self._judged.add(taken.operand)
                self._reporter.element_type(operation, taken.operand, address_in(taken.image.base), cta)
                self._rest.multiplied(operation, product, taken.operand, partial(_is_image, taken, words), cta)
        self._compare(operation, before, found, words, cta)
        without = [operand for operand, image in zip(product.operands, images, strict=True) if image is None]
        if found and (not without or (kept is None and all(self.kind(operand, words) is not None for operand in without))):
            self._repeat(product.operands, images, kept)
        return found

    def _repeat(self, operands: tuple[MatrixOperand, ...], images: Sequence[Known | None], kept: str | None) -> None:
        """Compiled code may repeat an instruction that takes these operands, in the place of others (`_of`)."""
        if kept is not None and (operands, None) in self._repeated:
            return
        for name in (kept,) if kept is not None else (None, *(operand.name for operand in operands)):
            replaced = self._repeated.pop((operands, name), None)
            if replaced is not None:
                replaced.replace()
        made = self._repeated[operands, kept] = Repeated(operands, images, kept)
        self.numbered[made.number] = made

    def _compare(
        self, operation: AsyncOperation, before: dict[str, TakenWords], found: dict[str, TakenWords], words: Words, cta: Any
    ) -> None:
        """Compare operands with those of the instruction before."""
        pairs = [(before[name], taken) for name, taken in found.items() if name in before]
        step = tuple((last.operand, now.operand, now.image.base - last.image.base) for last, now in pairs)
        if pairs and step not in self._steps:
            self._steps.add(step)
            self._reporter.step(operation, pairs, words.sources, cta)

    def copied(self, operation: AsyncOperation, source: MatrixOperand, words: Words, cta: Any) -> None:
        """Report rows that tcgen05.cp copies and that have no image, if another descriptor has one."""
        if self.stands(source, words) or words.were_brought(source.chunks):
            return
        found = sources_of(words.sources, source.chunks, source.data)
        key = operation.op.index, source.name
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        if attempts <= _ATTEMPTS:
            self._reporter.mismatch(operation, source, found, words.sources, None, cta)

    def stands(self, source: MatrixOperand, words: Words) -> bool:
        """Whether nothing is wrong with rows that tcgen05.cp copies, as far as they are known; the same holds for rows elsewhere."""
        found = sources_of(words.sources, source.chunks, source.data)
        if not found.all() or not judged(source, found) or image_of_words(found) is not None:
            return True
        return source.descriptor.swizzle != "none" and stands_as_copied(found, source.chunks, source.data)

    def _taken(
        self, operation: AsyncOperation, operand: MatrixOperand, words: Words, cta: Any, before: TakenWords | None
    ) -> TakenWords | None:
        known: Known | None = operand.known.get("words")
        if known is not None:
            image = known.image(words.addresses)
            if image is not None and not words.are_brought(operand):
                return TakenWords(operand, image)
        if operand.overlaps:
            self._reporter.overlapping(operation, operand, words, cta)
            return None
        first = operand.chunks.item(0)
        if not words.addresses.item(first * _WORDS) or words.boxed.item(first):
            return None
        found = sources_of(words.sources, operand.chunks, operand.data)
        if words.are_joined(operand):
            self._of_joined_words(operation, operand, words, cta)
            return None
        if not found.all() or not (found > NO_SOURCE).any() or not judged(operand, found):
            return None
        prepared = words.are_prepared(operand) or (operand.major == "mn" and stands_in_blocks(found, operand.data))
        image = None if prepared else image_of_words(found)
        if image is not None:
            if (found > NO_SOURCE).all():
                places = (operand.chunks[..., None] * _WORDS + np.arange(operand.data // WORD)).reshape(-1)
                operand.known["words"] = Known(image.line, image.word, places, words.addresses.take(places))
            return TakenWords(operand, image)
        if prepared:
            if operand not in self._judged:
                self._judged.add(operand)
                self._reporter.element_type(operation, operand, address_in(int(found[found > NO_SOURCE][0])), cta)
            return None
        key = operation.op.index, operand.name
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        if attempts <= _ATTEMPTS:
            wanted = None if before is None else before.image.base + before.reach
            self._reporter.mismatch(operation, operand, found, words.sources, wanted, cta)
        return None

    def _of_joined_words(self, operation: AsyncOperation, operand: MatrixOperand, words: Words, cta: Any) -> None:
        """Report an operand whose words threads have put together, if its rows and k do not stand apart."""
        if words.were_brought(operand.chunks) or TYPE_BITS.get(operand.element, operand.packed) != operand.packed:
            return
        key = operation.op.index, operand.name
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        if attempts <= _ATTEMPTS:
            self._reporter.joined(operation, operand, words, cta)


def _is_image(taken: TakenWords, words: Words, chunks: NDArray[np.intp]) -> bool:
    found = sources_of(words.sources, chunks, taken.operand.data)
    return bool((found > NO_SOURCE).all()) and image_of_words(found) == taken.image
